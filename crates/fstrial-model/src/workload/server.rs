//! A server that a program talks to: how it is started on the arm, seen to be ready, loaded, stopped, and verified.
//!
//! ```text
//! prepare ─► [start ─► ready ─► load ─► stop] ─► settle ─► start ─► ready ─► command ─► verify ─► stop
//! ```
//! Commands have the words and placeholders of a program's. The part in brackets is left out if nothing is loaded.

use super::{
    command::check_commands,
    entry_error::{EntryError, entry_error},
    metric::compile,
};
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest text about durability, in bytes.
const MAX_DURABLE_BYTES: usize = 300;
/// Most bytes of the lines for a session.
const MAX_LINES_BYTES: usize = 2000;
/// Stands for the number in them.
const NUMBER: &str = "{number}";
const EXAMPLE: &str =
    "write [server] with start = [\"redis-server\", …] and ready = [\"redis-cli\", …], in one table";

/// A server as a user writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// The command that is the server and stays in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<String>>,
    /// A command that succeeds once the server answers; it is repeated until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,
    /// The longest that this may take: 1m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_within: Option<Nanos>,
    /// Commands that load data while the server runs, before the clock starts; it is stopped and started again after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Vec<Vec<String>>>,
    /// The signal that stops it in order: SIGTERM by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopSignal>,
    /// The longest that stopping may take: 5m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_within: Option<Nanos>,
    /// Commands that check the data while the server runs, after the measured one. A failing one is a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<Vec<String>>>,
    /// A pattern of the lines that the server prints at the start of a checkpoint under load: they are counted in each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The durability of acknowledged writes, as text; parameters are replaced in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// Commits that are looked for after power cuts; without them the server has no receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promises: Option<Promises>,
}

/// Commits of numbers for a receipt: made while the command runs, and looked for after each power cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promises {
    /// Commands that make room for the numbers while the server runs, after `load`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Vec<String>>,
    /// A client that carries out each line of its standard input, prints the result immediately, and ends at an error.
    pub session: Vec<String>,
    /// The lines that commit `{number}` and then have it printed on a separate line: it is acknowledged.
    pub commit: String,
    /// Lines that one more session carries out repeatedly, such as a checkpoint, with `{number}` printed at the end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub meanwhile: String,
    /// A command that prints every number whose content is right, one on each line.
    pub kept: Vec<String>,
}

/// Signals that servers stop at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopSignal {
    /// Terminate.
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    /// SIGINT, as from Ctrl-C; a fast shutdown of PostgreSQL.
    #[serde(rename = "SIGINT")]
    Interrupt,
    /// SIGQUIT; a graceful stop of nginx.
    #[serde(rename = "SIGQUIT")]
    Quit,
    /// SIGHUP, as from a closed terminal.
    #[serde(rename = "SIGHUP")]
    HangUp,
}

/// A server, settled and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The command that is the server.
    pub start: Vec<String>,
    /// A command that succeeds once the server answers.
    pub ready: Vec<String>,
    /// The longest that this may take.
    pub ready_within: Nanos,
    /// Commands that load data.
    pub load: Vec<Vec<String>>,
    /// The signal that stops it in order.
    pub stop: StopSignal,
    /// The longest that stopping may take.
    pub stop_within: Nanos,
    /// Commands that check the data.
    pub verify: Vec<Vec<String>>,
    /// The lines that it prints at the start of a checkpoint; none if they are not counted.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// The durability of acknowledged writes; empty if it is not declared.
    pub durable: String,
    /// Commits for a receipt; none if they are not declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promises: Option<Promises>,
}

impl ServerEntry {
    /// Settles and checks the settings of the server alone.
    ///
    /// # Errors
    /// The key at fault, the problem and the remedy.
    pub(super) fn settle(&self) -> Result<Server, EntryError> {
        let needed = |key: &'static str, command: &Option<Vec<String>>| {
            command
                .clone()
                .ok_or_else(|| entry_error("server", format!("the server has no `{key}`"), EXAMPLE))
        };
        let server = Server {
            start: needed("start", &self.start)?,
            ready: needed("ready", &self.ready)?,
            ready_within: self.ready_within.unwrap_or(Nanos::secs(60)),
            load: self.load.clone().unwrap_or_default(),
            stop: self.stop.unwrap_or_default(),
            stop_within: self.stop_within.unwrap_or(Nanos::secs(300)),
            verify: self.verify.clone().unwrap_or_default(),
            checkpoint: self.checkpoint.clone(),
            durable: self.durable.clone().unwrap_or_default(),
            promises: self.promises.clone(),
        };
        server.check().map(|()| server)
    }
}

impl Server {
    /// Commands that run while the server does, or are it.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        let promises = self.promises.iter().flat_map(Promises::commands);
        [&self.start, &self.ready].into_iter().chain(&self.load).chain(&self.verify).chain(promises)
    }

    /// The longest that starting and stopping may take in a run.
    pub fn longest(&self) -> Nanos {
        let starts = if self.load.is_empty() { 1 } else { 2 };
        Nanos(starts * self.ready_within.0.saturating_add(self.stop_within.0))
    }

    /// Checkpoints in its output; none if they are not counted.
    pub fn checkpoints(&self, printed: &str) -> Option<u64> {
        let pattern = compile(self.checkpoint.as_ref()?).ok()?;
        Some(printed.lines().filter(|line| pattern.is_match(line)).count() as u64)
    }

    fn check(&self) -> Result<(), EntryError> {
        check_commands("start", std::slice::from_ref(&self.start))?;
        check_commands("ready", std::slice::from_ref(&self.ready))?;
        check_commands("load", &self.load)?;
        check_commands("verify", &self.verify)?;
        for (key, time) in [("ready_within", self.ready_within), ("stop_within", self.stop_within)] {
            if !(Nanos::secs(1)..=Nanos::secs(3600)).contains(&time) {
                return Err(entry_error(key, format!("{key} is out of range (1s to 1h)"), "use 1m"));
            }
        }
        self.promises.as_ref().map_or(Ok(()), Promises::check)?;
        if let Some(pattern) = &self.checkpoint {
            let wrong = |problem, hint| entry_error("checkpoint", problem, hint);
            if compile(pattern).map_err(|(problem, hint)| wrong(problem, hint))?.is_match("") {
                let hint = "write words that only the line of a checkpoint has";
                return Err(wrong("the pattern fits every line".to_owned(), hint.to_owned()));
            }
        }
        if self.durable.len() > MAX_DURABLE_BYTES || self.durable.contains(char::is_control) {
            let problem = format!("`durable` is longer than {MAX_DURABLE_BYTES} bytes or has several lines");
            return Err(entry_error("durable", problem, "state on one line what a commit guarantees"));
        }
        Ok(())
    }
}

impl Promises {
    /// Its commands.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        self.prepare.iter().chain([&self.session, &self.kept])
    }

    /// `commit` and `meanwhile`, for the replacement of their placeholders other than `{number}`.
    pub fn lines(&self) -> Vec<String> {
        [&self.commit, &self.meanwhile].map(|lines| lines.replace(NUMBER, "{{number}}")).to_vec()
    }

    /// Lines for a session with a number in them.
    pub fn with_number(lines: &str, number: u64) -> String {
        format!("{}\n", lines.replace(NUMBER, &number.to_string()))
    }

    fn check(&self) -> Result<(), EntryError> {
        check_commands("prepare", &self.prepare)?;
        check_commands("session", std::slice::from_ref(&self.session))?;
        check_commands("kept", std::slice::from_ref(&self.kept))?;
        let is_wrong = |lines: &str| !lines.contains(NUMBER) || lines.len() > MAX_LINES_BYTES;
        let wrong = [
            ("commit", is_wrong(&self.commit)),
            ("meanwhile", !self.meanwhile.is_empty() && is_wrong(&self.meanwhile)),
        ];
        match wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            None => Ok(()),
            Some((key, _)) => Err(entry_error(
                key,
                format!("`{key}` has no {NUMBER}, or more than {MAX_LINES_BYTES} bytes"),
                "write commit = \"insert into promise values ({number}); select number from promise where number = {number};\"",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::Entry;

    const REST: &str = "kind = 'program'\ncommand = ['true']\n[[metric]]\nname = 'w'\nmeasure = 'wall'\n";

    #[test]
    fn invalid_server_entry_error_has_line_and_hint() {
        for (server, line, problem, hint) in [
            ("start = ['db']", 6, "no `ready`", "ready = [\"redis-cli\""),
            ("start = ['db']\nready = ['db']\nlaod = []", 9, "unknown field `laod`", "load"),
            ("start = []\nready = ['db']", 7, "1 to 256 words", "command ="),
            ("start = ['db', '&']\nready = ['db']", 7, "without a shell", "sh"),
            ("start = ['db']\nready = ['db', '{port}']", 8, "no placeholder `{port}`", "dir"),
            ("start = ['db']\nready = ['db']\nstop = 'TERM'", 9, "unknown variant `TERM`", "SIGTERM"),
            ("start = ['db']\nready = ['db']\nstop_within = '0s'", 9, "1s to 1h", "1m"),
            ("start = ['db']\nready = ['db']\ncheckpoint = '('", 9, "does not compile", "single quotes"),
            ("start = ['db']\nready = ['db']\ncheckpoint = 'x*'", 9, "fits every line", "only the line"),
            ("start = ['db']\nready = ['db']\ndurable = '{parameter:x}'", 9, "no parameter `x`", "x ="),
            (
                "start = ['db']\nready = ['db']\n[server.promises]\nsession = ['db']\nkept = ['db']\ncommit = 'x'",
                12,
                "no {number}",
                "commit = ",
            ),
            (
                "start = ['db']\nready = ['db']\n[server.promises]\nsession = ['db', '{port}']\nkept = ['db']\n\
                 commit = '{number}'",
                10,
                "no placeholder `{port}`",
                "dir",
            ),
        ] {
            let text = format!("{REST}[server]\n{server}\n");
            let error = Entry::parse("db.toml", &text).unwrap_err();
            assert!(error.message.contains(problem), "{server}: {}", error.message);
            let output = format!("{} {}", error.message, error.help.clone().unwrap_or_default());
            assert!(output.contains(hint), "{server}: {output}");
            let at = error.span.expect("a place").offset();
            assert_eq!(text[..at].matches('\n').count() + 1, line, "{server}: {}", error.message);
        }
    }

    #[test]
    fn server_table_overrides_preset_fields() {
        let entry: Entry = toml::from_str("use = 'postgresql-tpcb'\n[server]\nready_within = '5m'").unwrap();
        let server = entry.resolve(1).unwrap().program().unwrap().program.server.clone().unwrap();
        assert_eq!(server.start[0], "postgres");
        assert_eq!(server.ready_within, crate::units::Nanos::secs(300));
    }
}
