//! Trials, their arms and their sessions: making them, ending them, finding them.

use crate::{
    SessionId, Store, StoreError, TrialId,
    codec::{assert_utc, from_json, from_name, to_json, unsigned},
    error::Fault,
    filter::{self, Filter, MAX_TAGS, tag_problem},
};
use fstrial_model::{arm::Arm, facts::ArmFacts};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize, de::IgnoredAny};

fstrial_model::words! {
    /// Progress of a trial, during a session or at its end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TrialStatus {
        /// A process works on it, or was killed while it did.
        "running" Running,
        /// Every contrast is decided.
        "decided" Decided,
        /// The budget or the last round is used up.
        "budget-ended" BudgetEnded,
        /// The user stopped it; it can be resumed.
        "interrupted" Interrupted,
        /// It could not continue.
        "failed" Failed,
    }
}

/// A trial about to begin.
#[derive(Debug, Clone, Copy)]
pub struct NewTrial<'a> {
    /// Its name; may be empty.
    pub name: &'a str,
    /// The trial as a file that repeats it.
    pub toml: &'a str,
    /// The seed everything random is drawn from.
    pub seed: u64,
    /// Its arms, in order, each with a unique name.
    pub arms: &'a [Arm],
    /// Words to find it by, see [`tag_problem`].
    pub tags: &'a [String],
    /// The process that begins it.
    pub session: NewSession<'a>,
}

/// One stretch of work on a trial by one process: the first, or one that resumes it.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// When it began: RFC 3339, UTC.
    pub started_at: &'a str,
    /// The version of fstrial.
    pub program_version: &'a str,
    /// The command line, as one would type it.
    pub command_line: &'a str,
    /// The environment, as JSON.
    pub environment: &'a str,
}

/// A trial in one line of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSummary {
    /// Its number.
    pub id: TrialId,
    /// Its name; may be empty.
    pub name: String,
    /// Status at the end of the last session, or while it runs.
    pub status: TrialStatus,
    /// When its first session began.
    pub started_at: String,
    /// When its last session ended; none while it runs or if it was killed.
    pub ended_at: Option<String>,
    /// The seed everything random is drawn from.
    pub seed: u64,
    /// The names of its arms, in order.
    pub arms: Vec<String>,
    /// Rounds that have at least one run.
    pub rounds: u32,
    /// Runs stored, failed ones included.
    pub runs: u64,
    /// Failed runs, without those of unsupported operations.
    pub failed_runs: u64,
    /// The host of its last session; none if that was not stored.
    pub host: Option<String>,
    /// The kernel of its last session; none if that was not stored.
    pub kernel: Option<String>,
    /// Search words, sorted: at most [`MAX_TAGS`], and one more if a foreign file has more.
    pub tags: Vec<String>,
}

/// Everything about a trial but its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTrial {
    /// The line of the table.
    pub summary: TrialSummary,
    /// The trial as a file that repeats it.
    pub toml: String,
    /// Its arms, in order.
    pub arms: Vec<StoredArm>,
    /// Its sessions, oldest first; never empty.
    pub sessions: Vec<StoredSession>,
    /// Its power cuts, as JSON, if it has a receipt.
    #[serde(default)]
    pub receipt: Option<String>,
    /// Its observed runs, as JSON, if it was explained.
    #[serde(default)]
    pub evidence: Option<String>,
}

/// An arm of a stored trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredArm {
    /// Name that runs refer to the arm by.
    pub name: String,
    /// Everything else about it, in the short form.
    pub configuration: String,
    /// Its actual settings, after [`Store::set_arm_facts`].
    pub facts: Option<ArmFacts>,
}

/// A session of a stored trial: see [`NewSession`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    /// Its number.
    pub id: SessionId,
    /// The trial's status at its end. [`TrialStatus::Running`] in any but the last: it was killed.
    pub status: TrialStatus,
    /// When it began.
    pub started_at: String,
    /// When it ended; none while it runs or if it was killed.
    pub ended_at: Option<String>,
    /// The version of fstrial.
    pub program_version: String,
    /// Command that started the session, as one would type it.
    pub command_line: String,
    /// The environment, as JSON.
    pub environment: String,
    /// Warnings that only the session had: see [`Store::warn`].
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Store {
    /// Stores a trial that begins.
    ///
    /// # Errors
    /// SQLite refused; nothing is stored then.
    ///
    /// # Panics
    /// Two arms have one name or one has none, a tag is not valid, a time is not UTC, the environment is not JSON: bugs of
    /// the caller's.
    pub fn create_trial(&mut self, trial: &NewTrial<'_>) -> Result<TrialId, StoreError> {
        assert!(!trial.arms.is_empty(), "a trial has arms");
        for (index, arm) in trial.arms.iter().enumerate() {
            assert!(!arm.name.is_empty(), "arm {index} has no name");
            assert!(
                trial.arms[..index].iter().all(|other| other.name != arm.name),
                "two arms are `{}`",
                arm.name
            );
        }
        assert_session(&trial.session);
        self.write("create a trial", |transaction| {
            transaction.execute(
                "INSERT INTO trial (name, toml, seed) VALUES (?1, ?2, ?3)",
                params![trial.name, trial.toml, trial.seed.to_string()],
            )?;
            let id = TrialId(transaction.last_insert_rowid());
            transaction.execute(
                "INSERT INTO tally (trial, rounds, runs, failed_runs) VALUES (?1, 0, 0, 0)",
                [id.0],
            )?;
            add_tags(transaction, id, trial.tags)?;
            for (position, arm) in trial.arms.iter().enumerate() {
                transaction.execute(
                    "INSERT INTO arm (trial, position, name, configuration) VALUES (?1, ?2, ?3, ?4)",
                    params![id.0, position as u32, arm.name, arm.configuration()],
                )?;
            }
            begin_session(transaction, id, &trial.session)?;
            Ok(id)
        })
    }

    /// Resumes a trial: it runs again, in a new session. The caller knows whether another process still works on it;
    /// the store does not.
    ///
    /// # Errors
    /// There is no such trial; SQLite refused.
    ///
    /// # Panics
    /// A time is not UTC, the environment is not JSON: bugs of the caller's.
    pub fn reopen_trial(
        &mut self,
        trial: TrialId,
        session: &NewSession<'_>,
    ) -> Result<SessionId, StoreError> {
        assert_session(session);
        self.write("reopen a trial", |transaction| {
            last_session(transaction, trial)?;
            transaction.execute("DELETE FROM answers WHERE trial = ?1", [trial.0])?;
            begin_session(transaction, trial, session)
        })
    }

    /// Stores the actual settings of an arm. A repeated call (by a later session) replaces them; every run keeps its
    /// own.
    ///
    /// # Errors
    /// There is no such trial or arm; SQLite refused.
    pub fn set_arm_facts(&mut self, trial: TrialId, arm: &str, facts: &ArmFacts) -> Result<(), StoreError> {
        self.write("store the facts of an arm", |transaction| {
            last_session(transaction, trial)?;
            let facts = shared(transaction, "facts", &to_json("the facts", facts)?)?;
            let changed = transaction.execute(
                "UPDATE arm SET facts = ?3 WHERE trial = ?1 AND name = ?2",
                params![trial.0, arm, facts],
            )?;
            match changed {
                0 => Err(Fault::NoSuchArm(trial, arm.to_owned())),
                _ => Ok(()),
            }
        })
    }

    /// Ends the current session of a trial.
    ///
    /// # Errors
    /// There is no such trial; SQLite refused.
    ///
    /// # Panics
    /// `status` is [`TrialStatus::Running`] or the time is not UTC: bugs of the caller's.
    pub fn finish_trial(
        &mut self,
        trial: TrialId,
        status: TrialStatus,
        ended_at: &str,
    ) -> Result<(), StoreError> {
        assert_ne!(status, TrialStatus::Running, "a trial that ends does not run");
        assert_utc(ended_at);
        self.write("finish a trial", |transaction| {
            let session = last_session(transaction, trial)?;
            transaction.execute(
                "UPDATE session SET status = ?2, ended_at = ?3 WHERE id = ?1",
                params![session.0, status.name(), ended_at],
            )?;
            Ok(())
        })
    }

    /// Stores the power cuts of a trial, as JSON.
    ///
    /// # Errors
    /// The trial does not exist or has a receipt already; SQLite refused.
    pub fn keep_receipt(&mut self, trial: TrialId, json: &str) -> Result<(), StoreError> {
        self.write("keep the receipt of a trial", |transaction| {
            last_session(transaction, trial)?;
            attach(transaction, Attachment::Receipt, trial, json)
        })
    }

    /// Stores the observed runs of a trial, as JSON, instead of earlier ones.
    ///
    /// # Errors
    /// The trial does not exist; SQLite refused.
    pub fn keep_evidence(&mut self, trial: TrialId, json: &str) -> Result<(), StoreError> {
        self.write("keep the evidence of a trial", |transaction| {
            last_session(transaction, trial)?;
            transaction.execute("DELETE FROM evidence WHERE trial = ?1", [trial.0])?;
            attach(transaction, Attachment::Evidence, trial, json)
        })
    }

    /// Stores an ended trial's answers to its contrasts, as computed by a version of fstrial, replacing earlier ones.
    ///
    /// # Errors
    /// There is no such trial; SQLite refused.
    pub fn keep_answers(&mut self, trial: TrialId, version: &str, json: &str) -> Result<(), StoreError> {
        self.write("keep the answers of a trial", |transaction| {
            last_session(transaction, trial)?;
            transaction.execute(
                "INSERT OR REPLACE INTO answers (trial, program_version, json) VALUES (?1, ?2, ?3)",
                params![trial.0, version, json],
            )?;
            Ok(())
        })
    }

    /// The answers stored for a trial by this version of fstrial; none without any.
    ///
    /// # Errors
    /// SQLite refused.
    pub fn kept_answers(&self, trial: TrialId, version: &str) -> Result<Option<String>, StoreError> {
        self.read("read the answers of a trial", |connection| {
            // A store from before they were kept has no such table.
            if !has_table(connection, "answers")? {
                return Ok(None);
            }
            let mut kept = connection
                .prepare_cached("SELECT json FROM answers WHERE trial = ?1 AND program_version = ?2")?;
            Ok(kept.query_row(params![trial.0, version], |row| row.get(0)).optional()?)
        })
    }

    /// Adds warnings that only the current session of a trial can give, such as a device that was late, to those that it
    /// has; each is kept once.
    ///
    /// # Errors
    /// There are warnings, and no such trial; SQLite refused.
    pub fn warn(&mut self, trial: TrialId, warnings: &[String]) -> Result<(), StoreError> {
        if warnings.is_empty() {
            return Ok(());
        }
        self.write("keep the warnings of a trial", |transaction| {
            let session = last_session(transaction, trial)?;
            let before: Option<String> =
                transaction
                    .query_row("SELECT warnings FROM session WHERE id = ?1", [session.0], |row| row.get(0))?;
            let mut all = before.map_or_else(|| Ok(Vec::new()), |json| warnings_of(&json))?;
            for warning in warnings {
                if !all.contains(warning) {
                    all.push(warning.clone());
                }
            }
            let json = warnings_json(&all)?;
            transaction
                .execute("UPDATE session SET warnings = ?2 WHERE id = ?1", params![session.0, json])?;
            Ok(())
        })
    }

    /// All trials, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn trials(&self) -> Result<Vec<TrialSummary>, StoreError> {
        self.read("list the trials", |connection| summaries(connection, "ORDER BY trial.id", []))
    }

    /// The trials that a filter asks for, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find_trials(&self, filter: &Filter) -> Result<Vec<TrialSummary>, StoreError> {
        let values = filter.values();
        let which = format!("WHERE {} ORDER BY trial.id", filter::CONDITION);
        self.read("list the trials", |connection| {
            summaries(connection, &which, filter::bound(&values).as_slice())
        })
    }

    /// Adds tags to a trial and removes others. Present and missing ones are not an error.
    ///
    /// # Errors
    /// There is no such trial, or it would have more than [`MAX_TAGS`]; SQLite refused.
    ///
    /// # Panics
    /// One that is added can be no tag: see [`tag_problem`].
    pub fn change_tags(
        &mut self,
        trial: TrialId,
        add: &[String],
        remove: &[String],
    ) -> Result<(), StoreError> {
        self.write("tag a trial", |transaction| {
            last_session(transaction, trial)?;
            for tag in remove {
                transaction
                    .execute("DELETE FROM tag WHERE trial = ?1 AND tag = ?2", params![trial.0, tag])?;
            }
            add_tags(transaction, trial, add)
        })
    }

    /// The trial that was made last, if there is any.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn latest_trial(&self) -> Result<Option<TrialSummary>, StoreError> {
        self.read("find the latest trial", |connection| {
            Ok(summaries(connection, "ORDER BY trial.id DESC LIMIT 1", [])?.pop())
        })
    }

    /// Everything about a trial but its runs.
    ///
    /// # Errors
    /// There is no such trial; the store cannot be read.
    pub fn trial(&self, trial: TrialId) -> Result<StoredTrial, StoreError> {
        self.read("read a trial", |connection| stored_trial(connection, trial))
    }
}

pub(crate) fn stored_trial(connection: &Connection, trial: TrialId) -> Result<StoredTrial, Fault> {
    let summary =
        summaries(connection, "WHERE trial.id = ?1", [trial.0])?.pop().ok_or(Fault::NoSuchTrial(trial))?;
    let toml = connection.query_row("SELECT toml FROM trial WHERE id = ?1", [trial.0], |row| row.get(0))?;
    let arms = arms(connection, trial)?;
    let sessions = sessions(connection, trial)?;
    let [receipt, evidence] =
        [Attachment::Receipt, Attachment::Evidence].map(|kind| attached(connection, kind, trial));
    Ok(StoredTrial { summary, toml, arms, sessions, receipt: receipt?, evidence: evidence? })
}

/// Results of runs that are not timed, as JSON.
#[derive(Clone, Copy)]
pub(crate) enum Attachment {
    Receipt,
    Evidence,
}

impl Attachment {
    const fn table(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Evidence => "evidence",
        }
    }
}

/// A store from before has no such table.
fn attached(connection: &Connection, kind: Attachment, trial: TrialId) -> Result<Option<String>, Fault> {
    let table = kind.table();
    if !has_table(connection, table)? {
        return Ok(None);
    }
    let mut kept = connection.prepare_cached(&format!("SELECT json FROM {table} WHERE trial = ?1"))?;
    Ok(kept.query_row([trial.0], |row| row.get(0)).optional()?)
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, Fault> {
    Ok(connection.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1")?.exists([name])?)
}

fn assert_session(session: &NewSession<'_>) {
    assert_utc(session.started_at);
    assert!(serde_json::from_str::<IgnoredAny>(session.environment).is_ok(), "the environment is not JSON");
}

pub(crate) fn add_tags(connection: &Connection, trial: TrialId, tags: &[String]) -> Result<(), Fault> {
    let mut add =
        connection.prepare_cached("INSERT INTO tag (trial, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    for tag in tags {
        assert_eq!(tag_problem(tag), None, "`{tag}` is not a tag");
        add.execute(params![trial.0, tag])?;
    }
    let count: i64 =
        connection.query_row("SELECT count(*) FROM tag WHERE trial = ?1", [trial.0], |row| row.get(0))?;
    match usize::try_from(count) {
        Ok(0..=MAX_TAGS) => Ok(()),
        _ if tags.is_empty() => Ok(()),
        _ => Err(Fault::TooManyTags(trial)),
    }
}

pub(crate) fn attach(
    connection: &Connection,
    kind: Attachment,
    trial: TrialId,
    json: &str,
) -> Result<(), Fault> {
    let insert = format!("INSERT INTO {} (trial, json) VALUES (?1, ?2)", kind.table());
    connection.execute(&insert, params![trial.0, json])?;
    Ok(())
}

fn begin_session(
    connection: &Connection,
    trial: TrialId,
    session: &NewSession<'_>,
) -> Result<SessionId, Fault> {
    let begun = StoredSession {
        id: SessionId(0),
        status: TrialStatus::Running,
        started_at: session.started_at.to_owned(),
        ended_at: None,
        program_version: session.program_version.to_owned(),
        command_line: session.command_line.to_owned(),
        environment: session.environment.to_owned(),
        warnings: Vec::new(),
    };
    insert_session(connection, trial, &begun)
}

/// Stores a session as it is, under a new number.
pub(crate) fn insert_session(
    connection: &Connection,
    trial: TrialId,
    session: &StoredSession,
) -> Result<SessionId, Fault> {
    connection.execute(
        "INSERT INTO session (trial, status, started_at, ended_at, program_version, command_line, environment, \
         warnings, host, kernel, device) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7 ->> '$.host', ?7 ->> '$.kernel', ?7 ->> '$.device')",
        params![
            trial.0,
            session.status.name(),
            session.started_at,
            session.ended_at,
            session.program_version,
            session.command_line,
            session.environment,
            warnings_json(&session.warnings)?
        ],
    )?;
    Ok(SessionId(connection.last_insert_rowid()))
}

/// Those of a store from elsewhere are printed as often as its trials are.
#[derive(Deserialize)]
struct Warnings(#[serde(deserialize_with = "fstrial_model::bounded::texts")] Vec<String>);

fn warnings_of(json: &str) -> Result<Vec<String>, Fault> {
    Ok(from_json::<Warnings>("the warnings of a session", json)?.0)
}

/// Warnings as they are stored: nothing without any.
fn warnings_json(warnings: &[String]) -> Result<Option<String>, Fault> {
    (!warnings.is_empty()).then(|| to_json("the warnings of a session", warnings)).transpose()
}

/// The session that a trial is in or was in last; fails if there is no such trial.
pub(crate) fn last_session(connection: &Connection, trial: TrialId) -> Result<SessionId, Fault> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM session WHERE trial = ?1")?
        .query_row([trial.0], |row| row.get(0))?;
    last.map(SessionId).ok_or(Fault::NoSuchTrial(trial))
}

/// The row of `environment`, `facts` or `commands` that holds this text, made if there is none yet.
pub(crate) fn shared(connection: &Connection, table: &'static str, json: &str) -> Result<i64, Fault> {
    let find = format!("SELECT id FROM {table} WHERE json = ?1");
    let result = connection.prepare_cached(&find)?.query_row([json], |row| row.get(0)).optional()?;
    if let Some(id) = result {
        return Ok(id);
    }
    connection.prepare_cached(&format!("INSERT INTO {table} (json) VALUES (?1)"))?.execute([json])?;
    Ok(connection.last_insert_rowid())
}

/// The lines of the trials that `which` (the end of an SQL query) picks.
fn summaries(
    connection: &Connection,
    which: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<TrialSummary>, Fault> {
    let mut statement = connection.prepare(&format!(
        "SELECT trial.id, trial.name, trial.seed, first.started_at, last.ended_at, last.status, last.host, \
         last.kernel, tally.rounds, tally.runs, tally.failed_runs FROM trial LEFT JOIN tally ON tally.trial = trial.id \
         JOIN session AS first ON first.id = (SELECT min(id) FROM session WHERE trial = trial.id) JOIN session AS last \
         ON last.id = (SELECT max(id) FROM session WHERE trial = trial.id) {which}"
    ))?;
    let mut rows = statement.query(parameters)?;
    let mut result = Vec::new();
    while let Some(row) = rows.next()? {
        result.push(summary(connection, row)?);
    }
    Ok(result)
}

fn summary(connection: &Connection, row: &Row<'_>) -> Result<TrialSummary, Fault> {
    let id = TrialId(row.get("id")?);
    let seed: String = row.get("seed")?;
    let mut names = connection.prepare_cached("SELECT name FROM arm WHERE trial = ?1 ORDER BY position")?;
    let names = names.query_map([id.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A file from elsewhere may have any number: one more than there can be shows that.
    let most = MAX_TAGS as i64 + 1;
    let mut tags = connection.prepare_cached("SELECT tag FROM tag WHERE trial = ?1 ORDER BY tag LIMIT ?2")?;
    let tags = tags.query_map(params![id.0, most], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(TrialSummary {
        id,
        name: row.get("name")?,
        status: from_name("status of a trial", &row.get::<_, String>("status")?)?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        seed: seed.parse().map_err(|_| Fault::damaged(format!("trial {id} has no number as its seed")))?,
        arms: names,
        rounds: unsigned(row, "rounds")?,
        runs: unsigned(row, "runs")?,
        failed_runs: unsigned(row, "failed_runs")?,
        host: row.get("host")?,
        kernel: row.get("kernel")?,
        tags,
    })
}

fn arms(connection: &Connection, trial: TrialId) -> Result<Vec<StoredArm>, Fault> {
    let mut statement = connection.prepare(
        "SELECT arm.name, arm.configuration, facts.json FROM arm LEFT JOIN facts ON facts.id = arm.facts \
         WHERE arm.trial = ?1 ORDER BY arm.position",
    )?;
    let mut rows = statement.query([trial.0])?;
    let mut result = Vec::new();
    while let Some(row) = rows.next()? {
        let facts: Option<String> = row.get("json")?;
        result.push(StoredArm {
            name: row.get("name")?,
            configuration: row.get("configuration")?,
            facts: facts.map(|json| from_json("the facts of an arm", &json)).transpose()?,
        });
    }
    Ok(result)
}

fn sessions(connection: &Connection, trial: TrialId) -> Result<Vec<StoredSession>, Fault> {
    let mut statement = connection.prepare(
        "SELECT id, status, started_at, ended_at, program_version, command_line, environment, warnings FROM session \
         WHERE trial = ?1 ORDER BY id",
    )?;
    let mut rows = statement.query([trial.0])?;
    let mut result = Vec::new();
    while let Some(row) = rows.next()? {
        result.push(StoredSession {
            id: SessionId(row.get("id")?),
            status: from_name("status of a trial", &row.get::<_, String>("status")?)?,
            started_at: row.get("started_at")?,
            ended_at: row.get("ended_at")?,
            program_version: row.get("program_version")?,
            command_line: row.get("command_line")?,
            environment: row.get("environment")?,
            warnings: match row.get::<_, Option<String>>("warnings")? {
                Some(json) => warnings_of(&json)?,
                None => Vec::new(),
            },
        });
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_status_names_round_trip() {
        for status in TrialStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
            assert_eq!(from_name::<TrialStatus>("status", status.name()).unwrap(), status);
        }
        assert!(from_name::<TrialStatus>("status", "odd").is_err());
    }
}
