//! A program as a workload: its command on the arm, and the numbers picked from its output.
//!
//! Words go to the program as they are, without a shell. Only placeholders in braces are replaced:
//!
//! ```text
//! {dir}  {threads}  {files}  {seed}  {duration}  {duration_ms}  {input:NAME}  {{  }}
//! {file_size}  {file_size_bytes}  {file_size_mib}  {block_size}  {block_size_bytes}  {parameter:NAME}
//! ```

use super::{
    Kind,
    command::check_commands,
    entry::Entry,
    entry_error::{EntryError, entry_error},
    input::{Input, InputFile},
    metric::{MAX_METRICS, MetricEntry, MetricRule, Output, PickError, PickedNumber, Source},
    server::{Promises, Server, ServerEntry},
};
use crate::{
    problem::{closest, did_you_mean},
    units::{Bytes, Nanos},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Most inputs.
const MAX_INPUTS: usize = 16;
/// Most parameters.
const MAX_PARAMETERS: usize = 64;
/// The input that is a job file of fio's.
pub(crate) const JOB_FILE: &str = "job.fio";
/// Most bytes of one input.
const MAX_INPUT_BYTES: usize = 256 << 10;
/// A program that is run on an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Commands before the clock starts, each as its words.
    pub prepare: Vec<Vec<String>>,
    /// The command that is measured. The first word is a name that is looked for in `PATH`, or an absolute path.
    pub command: Vec<String>,
    /// The server that the command talks to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Small texts given to the commands as files outside the arm, by name; placeholders are replaced.
    pub inputs: BTreeMap<String, String>,
    /// Files given to the commands as they are, by name, with their digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attached: BTreeMap<String, InputFile>,
    /// User-defined words for `{parameter:NAME}`, by name.
    pub parameters: BTreeMap<String, String>,
    /// Metrics read from the output of `command`: 1 to 64.
    pub metrics: Vec<MetricRule>,
    /// A command whose first line of output is stored with the result; empty for none. Its exit status is ignored.
    pub version: Vec<String>,
    /// The longest that `command` may take, and all of `prepare`.
    pub deadline: Nanos,
    /// Value of `{file_size}`.
    pub file_size: Option<Bytes>,
    /// Value of `{block_size}`.
    pub block_size: Option<Bytes>,
    /// Value of `{files}`.
    pub files: Option<u32>,
}

/// Values of the placeholders in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// The directory the program works in, as it sees it.
    pub dir: PathBuf,
    /// Number of threads, clients or writers.
    pub threads: u16,
    /// Time to measure.
    pub duration: Nanos,
    /// Seed of this round.
    pub seed: u64,
    /// Paths of the inputs.
    pub inputs: BTreeMap<String, PathBuf>,
}

impl Values {
    /// Values that always exist, for a check of the placeholders.
    fn of_nothing() -> Self {
        Self { dir: "/".into(), threads: 1, duration: Nanos::secs(1), seed: 1, inputs: BTreeMap::new() }
    }
}

/// A parsed placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder<'a> {
    Dir,
    Threads,
    Files,
    Seed,
    Duration,
    DurationMillis,
    FileSize,
    FileSizeBytes,
    FileSizeMebibytes,
    BlockSize,
    BlockSizeBytes,
    Input(&'a str),
    Parameter(&'a str),
}

/// Every placeholder without an argument.
const PLACEHOLDERS: [(&str, Placeholder<'static>); 11] = [
    ("dir", Placeholder::Dir),
    ("threads", Placeholder::Threads),
    ("files", Placeholder::Files),
    ("seed", Placeholder::Seed),
    ("duration", Placeholder::Duration),
    ("duration_ms", Placeholder::DurationMillis),
    ("file_size", Placeholder::FileSize),
    ("file_size_bytes", Placeholder::FileSizeBytes),
    ("file_size_mib", Placeholder::FileSizeMebibytes),
    ("block_size", Placeholder::BlockSize),
    ("block_size_bytes", Placeholder::BlockSizeBytes),
];

/// A problem with a text that may hold placeholders, and the remedy.
type Wrong = (String, String);

/// Replaces placeholders in braces.
fn replace(
    text: &str,
    mut value: impl FnMut(Placeholder<'_>) -> Result<String, Wrong>,
) -> Result<String, Wrong> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        replaced.push_str(before);
        rest = &brace[1..];
        let doubled = &brace[..1];
        if let Some(after) = rest.strip_prefix(doubled) {
            replaced.push_str(doubled);
            rest = after;
            continue;
        }
        let Some(end) = rest.find('}').filter(|_| doubled == "{") else {
            return Err((
                format!("there is a single `{doubled}` in `{text:.80}`"),
                format!("write {doubled}{doubled} for a brace that stands for itself"),
            ));
        };
        replaced.push_str(&value(placeholder(&rest[..end])?)?);
        rest = &rest[end + 1..];
    }
    replaced.push_str(rest);
    Ok(replaced)
}

fn placeholder(name: &str) -> Result<Placeholder<'_>, Wrong> {
    if let Some(input) = name.strip_prefix("input:") {
        return Ok(Placeholder::Input(input));
    }
    if let Some(parameter) = name.strip_prefix("parameter:") {
        return Ok(Placeholder::Parameter(parameter));
    }
    if let Some((_, known)) = PLACEHOLDERS.iter().find(|(known, _)| *known == name) {
        return Ok(*known);
    }
    let names = || PLACEHOLDERS.iter().map(|(name, _)| *name).chain(["input:NAME", "parameter:NAME"]);
    let hint = match closest(name, names()) {
        Some(near) => format!("did you mean {{{near}}}? {{{{ stands for a brace"),
        None => format!("use one of {}; {{{{ stands for a brace", names().collect::<Vec<_>>().join(", ")),
    };
    Err((format!("there is no placeholder `{{{name:.60}}}`"), hint))
}

/// A size with the letter that sysbench, fio and dd all read as a power of 1024.
fn with_letter(bytes: Bytes) -> String {
    let letters = [("T", 1_u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match letters.iter().find(|(_, scale)| bytes.0 >= *scale && bytes.0.is_multiple_of(*scale)) {
        Some((letter, scale)) => format!("{}{letter}", bytes.0 / scale),
        None => bytes.0.to_string(),
    }
}

impl Program {
    /// True if a metric is judged from the rounds that another one needs: for a server that is the first of all, and
    /// for fio the first of the same job.
    pub fn is_secondary(&self, metric: usize) -> bool {
        if self.server.is_some() {
            return metric > 0;
        }
        let job = self.metrics.get(metric).and_then(|rule| rule.pick.job_of_fio());
        let is_of_it = |earlier: &MetricRule| [job, Some("*")].contains(&earlier.pick.job_of_fio());
        job.is_some() && self.inputs.contains_key(JOB_FILE) && self.metrics[..metric].iter().any(is_of_it)
    }

    /// The words of a command with the placeholders replaced.
    ///
    /// # Errors
    /// A placeholder that [`Program::check`] would have refused, or an input that `values` has not.
    pub fn words(&self, command: &[String], values: &Values) -> Result<Vec<String>, EntryError> {
        command.iter().map(|word| self.filled(word, values, "command")).collect()
    }

    /// The text of an input with the placeholders replaced.
    ///
    /// # Errors
    /// As [`Program::words`].
    pub fn input(&self, text: &str, values: &Values) -> Result<String, EntryError> {
        self.filled(text, values, "inputs")
    }

    fn filled(&self, text: &str, values: &Values, key: &'static str) -> Result<String, EntryError> {
        let filled = replace(text, |placeholder| self.value(placeholder, values));
        filled.map_err(|(problem, hint)| entry_error(key, problem, hint))
    }

    fn value(&self, placeholder: Placeholder<'_>, values: &Values) -> Result<String, Wrong> {
        let given = |key: &str, value: Option<String>| {
            value.ok_or_else(|| {
                (
                    format!("the command asks for {{{key}}}, which the workload does not set"),
                    format!("add {key} = …"),
                )
            })
        };
        match placeholder {
            Placeholder::Dir => Ok(shown(&values.dir)),
            Placeholder::Threads => Ok(values.threads.to_string()),
            Placeholder::Files => given("files", self.files.map(|files| files.to_string())),
            // Every tool takes a positive number of 31 bits; 0 often means "from the clock".
            Placeholder::Seed => Ok((values.seed % 0x7fff_ffff).max(1).to_string()),
            Placeholder::Duration => Ok(values.duration.0.div_ceil(1_000_000_000).max(1).to_string()),
            Placeholder::DurationMillis => Ok(values.duration.0.div_ceil(1_000_000).max(1).to_string()),
            Placeholder::FileSize => given("file_size", self.file_size.map(with_letter)),
            Placeholder::FileSizeBytes => given("file_size", self.file_size.map(|size| size.0.to_string())),
            Placeholder::FileSizeMebibytes => {
                given("file_size", self.file_size.map(|size| size.0.div_ceil(1 << 20).to_string()))
            }
            Placeholder::BlockSize => given("block_size", self.block_size.map(with_letter)),
            Placeholder::BlockSizeBytes => {
                given("block_size", self.block_size.map(|size| size.0.to_string()))
            }
            Placeholder::Parameter(name) => self.parameters.get(name).cloned().ok_or_else(|| {
                (
                    format!("there is no parameter `{name:.60}`"),
                    format!("write parameters = {{ {name:.60} = \"…\" }}"),
                )
            }),
            Placeholder::Input(name) => values.inputs.get(name).map(|path| shown(path)).ok_or_else(|| {
                (
                    format!("there is no input `{name:.60}`"),
                    format!("write inputs = {{ \"{name:.60}\" = \"…\" }}"),
                )
            }),
        }
    }

    /// The same without the paths of its files: their digests name them at every place.
    #[must_use]
    pub fn by_digest(&self) -> Self {
        let mut program = self.clone();
        program.attached.values_mut().for_each(|file| file.file = PathBuf::new());
        program
    }

    /// The duration passed to the measured command, rounded as passed; none if it takes none.
    pub fn told_time(&self, duration: Nanos) -> Option<Nanos> {
        let is_told =
            |word: &str| self.command.iter().chain(self.inputs.values()).any(|text| text.contains(word));
        let rounded = |unit: Nanos| Nanos(duration.0.div_ceil(unit.0).max(1) * unit.0);
        let seconds = is_told("{duration}").then(|| rounded(Nanos::secs(1)));
        seconds.or_else(|| is_told("{duration_ms}").then(|| rounded(Nanos::millis(1))))
    }

    /// Every command: first those of the program, then those of its server.
    pub fn commands(&self) -> impl Iterator<Item = &Vec<String>> {
        let servers = self.server.iter().flat_map(Server::commands);
        self.prepare.iter().chain([&self.command]).chain(servers)
    }

    /// Identity of the data loaded before the clock starts, the same text for the same content except for its seed;
    /// none if it loads nothing.
    pub fn loaded(&self, threads: u16, duration: Nanos) -> Option<String> {
        let server = self.server.as_ref().filter(|server| !server.load.is_empty());
        let of_server = server
            .into_iter()
            .flat_map(|server| [&server.start, &server.ready].into_iter().chain(&server.load));
        let commands: Vec<&Vec<String>> = self.prepare.iter().chain(of_server).collect();
        let path = |name: &str| format!("/inputs/{name}");
        let inputs = self.input_names().map(|name| (name.clone(), path(name).into())).collect();
        let values = Values { threads, duration, inputs, ..Values::of_nothing() };
        let words = commands
            .iter()
            .map(|command| self.words(command, &values))
            .collect::<Result<Vec<_>, _>>()
            .ok()?;
        let is_named = |name: &str| words.iter().flatten().any(|word| word.contains(&path(name)));
        let texts = self.inputs.iter().filter(|(name, _)| is_named(name));
        let texts = texts.map(|(_, text)| self.input(text, &values)).collect::<Result<Vec<_>, _>>().ok()?;
        let files = self.attached.iter().filter(|(name, _)| is_named(name));
        let files: Vec<_> = files.map(|(name, file)| (name, file.digest.as_ref())).collect();
        let stop = server.map(|server| server.stop);
        (!words.is_empty()).then(|| format!("{words:?} {texts:?} {files:?} {stop:?} {}", self.deadline))
    }

    /// The durability of acknowledged writes, with the parameters replaced; none without a server that declares it.
    pub fn durable(&self) -> Option<String> {
        let message = self
            .server
            .as_ref()
            .map(|server| server.durable.as_str())
            .filter(|message| !message.is_empty())?;
        self.filled(message, &Values::of_nothing(), "durable").ok()
    }

    /// Names of the files that the metrics are read from, in the program's directory.
    pub fn files_read(&self) -> BTreeSet<&str> {
        self.metrics
            .iter()
            .filter_map(|rule| match &rule.from {
                Source::File(name) => Some(name.as_str()),
                Source::Stdout | Source::Stderr => None,
            })
            .collect()
    }

    /// Picks every metric.
    ///
    /// # Errors
    /// The first rule that finds no number.
    pub fn pick(&self, output: &Output) -> Result<Vec<PickedNumber>, PickError> {
        self.metrics.iter().map(|rule| rule.pick(output)).collect()
    }

    /// Refuses programs that can be run nowhere.
    pub(crate) fn check(&self) -> Result<(), EntryError> {
        check_commands("prepare", &self.prepare)?;
        check_commands("command", std::slice::from_ref(&self.command))?;
        if !self.version.is_empty() {
            check_commands("version", std::slice::from_ref(&self.version))?;
        }
        self.check_inputs()?;
        self.check_parameters()?;
        self.check_placeholders()?;
        if self.metrics.is_empty() || self.metrics.len() > MAX_METRICS {
            return Err(entry_error(
                "metric",
                format!("a program has 1 to {MAX_METRICS} metrics"),
                "add [[workload.metric]] with name, unit and pattern; or name = \"wall\", measure = \"wall\"",
            ));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = self.metrics.iter().find(|rule| !names.insert(&rule.name)) {
            return Err(entry_error(
                "metric",
                format!("two metrics are called `{}`", twice.name),
                "use each name once",
            ));
        }
        if !(Nanos::secs(1)..=Nanos::secs(86_400)).contains(&self.deadline) {
            return Err(entry_error(
                "deadline",
                "the deadline must be between 1s and 1d",
                "use the longest that the program may take, such as 10m",
            ));
        }
        Ok(())
    }

    /// The names of all inputs: texts and files.
    fn input_names(&self) -> impl Iterator<Item = &String> {
        self.inputs.keys().chain(self.attached.keys())
    }

    fn check_inputs(&self) -> Result<(), EntryError> {
        let count = self.input_names().count();
        if count > MAX_INPUTS {
            return Err(entry_error(
                "inputs",
                format!("there are {count} inputs"),
                format!("use at most {MAX_INPUTS}"),
            ));
        }
        if let Some(name) = self.input_names().find(|name| !is_name(name)) {
            return Err(entry_error(
                "inputs",
                format!("`{name:.80}` is not valid as the name of an input"),
                "use letters, digits, dots, dashes and underscores, such as job.fio",
            ));
        }
        if let Some((name, text)) = self.inputs.iter().find(|(_, text)| text.len() > MAX_INPUT_BYTES) {
            return Err(entry_error(
                "inputs",
                format!("`{name}` has {} bytes", text.len()),
                format!("use at most 256 KiB, or put it into a file: \"{name}\" = {{ file = \"…\" }}"),
            ));
        }
        if let Some((name, InputFile { file, .. })) =
            self.attached.iter().find(|(_, file)| file.digest.is_none())
        {
            return Err(entry_error(
                "inputs",
                format!("the file {} of the input `{name}` is not read here", file.display()),
                "name files in a trial file, for `fstrial run`; elsewhere write the text itself",
            ));
        }
        Ok(())
    }

    /// Refuses parameters that no command uses, which are misspelt.
    fn check_parameters(&self) -> Result<(), EntryError> {
        if self.parameters.len() > MAX_PARAMETERS || !self.parameters.keys().all(|name| is_name(name)) {
            return Err(entry_error(
                "parameters",
                format!("there are more than {MAX_PARAMETERS}, or one has an odd name"),
                "use letters, digits, dots, dashes and underscores for names",
            ));
        }
        let durable = self.server.as_ref().map(|server| &server.durable);
        let lines = self.session_lines();
        let texts = || self.commands().flatten().chain(self.inputs.values()).chain(durable).chain(&lines);
        let unused = |name: &&String| {
            let used = format!("{{parameter:{name}}}");
            !texts().any(|text| text.contains(&used))
        };
        match self.parameters.keys().find(unused) {
            Some(name) => Err(entry_error(
                "parameters",
                format!("nothing uses the parameter `{name}`"),
                did_you_mean(name, self.parameters.keys().map(String::as_str).filter(|other| other != name))
                    .unwrap_or_else(|| {
                        format!("use {{parameter:{name}}} in a command, an input or `durable`")
                    }),
            )),
            None => Ok(()),
        }
    }

    /// The lines for sessions of its server.
    fn session_lines(&self) -> Vec<String> {
        self.server.iter().flat_map(|server| &server.promises).flat_map(Promises::lines).collect()
    }

    /// Every command with the key that it is written under.
    fn keyed_commands(&self) -> Vec<(&'static str, &Vec<String>)> {
        fn all<'a>(key: &'static str, commands: &'a [Vec<String>]) -> Vec<(&'static str, &'a Vec<String>)> {
            commands.iter().map(|command| (key, command)).collect()
        }
        let mut keyed = vec![("command", &self.command), ("version", &self.version)];
        keyed.extend(all("prepare", &self.prepare));
        if let Some(server) = &self.server {
            keyed.extend([("start", &server.start), ("ready", &server.ready)]);
            keyed.extend(all("load", &server.load));
            keyed.extend(all("verify", &server.verify));
            if let Some(promises) = &server.promises {
                keyed.extend([("session", &promises.session), ("kept", &promises.kept)]);
                keyed.extend(all("prepare", &promises.prepare));
            }
        }
        keyed
    }

    /// Tries every replacement, with values that are certainly there.
    fn check_placeholders(&self) -> Result<(), EntryError> {
        let here = |name: &String| (name.clone(), PathBuf::from("/"));
        let mut values = Values { inputs: self.input_names().map(here).collect(), ..Values::of_nothing() };
        for (key, command) in self.keyed_commands() {
            command.iter().try_for_each(|word| self.filled(word, &values, key).map(drop))?;
        }
        if let Some(server) = &self.server {
            self.filled(&server.durable, &Values::of_nothing(), "durable")?;
        }
        self.session_lines().iter().try_for_each(|lines| self.filled(lines, &values, "commit").map(drop))?;
        let used = |name: &str| {
            let placeholder = format!("{{input:{name}}}");
            self.commands().flatten().any(|word| word.contains(&placeholder))
        };
        if let Some(unused) = self.input_names().find(|name| !used(name)) {
            return Err(entry_error(
                "inputs",
                format!("no command uses the input `{unused}`"),
                format!("name it where its path belongs: {{input:{unused}}}"),
            ));
        }
        // Inputs are written before any of them has a path.
        values.inputs.clear();
        self.inputs.values().try_for_each(|text| self.input(text, &values).map(drop))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// True if a text can name an input or a parameter.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

impl Entry {
    /// The program of an entry with `kind = "program"`.
    ///
    /// # Errors
    /// The key at fault, the problem and the remedy.
    pub fn program(&self) -> Result<Program, EntryError> {
        self.only_keys_of(Kind::Program)?;
        let rules = self.metrics.iter().flatten().take(MAX_METRICS + 1).map(MetricEntry::settle);
        let (mut inputs, mut attached) = (BTreeMap::new(), BTreeMap::new());
        for (name, input) in self.inputs.iter().flatten() {
            match input.clone() {
                Input::Text(text) => drop(inputs.insert(name.clone(), text)),
                Input::File(file) => drop(attached.insert(name.clone(), file)),
            }
        }
        let program = Program {
            prepare: self.prepare.clone().unwrap_or_default(),
            command: self.command.clone().unwrap_or_default(),
            server: self.server.as_ref().map(ServerEntry::settle).transpose()?,
            inputs,
            attached,
            parameters: self.parameters.clone().unwrap_or_default(),
            metrics: rules.collect::<Result<_, _>>()?,
            version: self.version.clone().unwrap_or_default(),
            deadline: self.deadline.unwrap_or(Nanos::secs(1800)),
            file_size: self.file_size,
            block_size: self.block_size,
            files: self.files,
        };
        program.check().map(|()| program)
    }
}

#[cfg(test)]
mod tests;
