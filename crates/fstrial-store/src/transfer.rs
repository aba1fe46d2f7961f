//! Trials go from store to store, and go away.
//!
//! A trial is copied whole, in one transaction, under a new number: a killed process leaves whole trials only, and
//! repeating the copy resumes it, because a trial that is already there is skipped. The other store is untrusted:
//! everything goes through the same types that reading and recording use, so only content that a trial could have
//! written comes in; anything else is damage of the other store, and no part of that trial stays.

use crate::{
    SessionId, Store, StoreError, StoredRun, StoredTrial, TrialId, TrialStatus,
    codec::{is_utc, to_json},
    error::Fault,
    filter::{MAX_TAGS, tag_problem},
    runs::{insert_measurement, insert_run, visit_runs},
    store::BUSY,
    trials::{Attachment, add_tags, attach, insert_session, last_session, shared, stored_trial},
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, named_params, params};
use std::{collections::HashMap, time::Duration};

/// Outcome of copying a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is here now, under this number.
    Copied(TrialId),
    /// It is here already, under this number: nothing was changed.
    Here {
        /// Its number here.
        trial: TrialId,
        /// Runs it has here.
        runs: u64,
        /// Runs it has in the other store.
        runs_there: u64,
    },
    /// It is not here, and was skipped: a process works on it there, or was killed while it did. Its present part is
    /// not a whole trial, and would keep the rest out once it is here.
    Running,
}

/// Wait for readers to make way: space freed later is not a loss.
const READERS: Duration = Duration::from_millis(500);

impl Store {
    /// Copies a trial with its arms, sessions, runs, histograms and tags from another store. A trial that is here already
    /// (the same name, seed, and first session to the letter: its start, command line and environment) is left as it is,
    /// even if one of the two has more runs. One that is [`TrialStatus::Running`] there is not copied.
    ///
    /// # Errors
    /// There is no such trial in the other store; it is damaged there, and the error names that store; SQLite refused
    /// here. No part of the trial is copied then.
    pub fn import_trial(&mut self, other: &Self, trial: TrialId) -> Result<ImportOutcome, StoreError> {
        self.take(other, trial, None)
    }

    /// Copies a trial in its current state, for repeated polling: one that still runs there counts as interrupted at
    /// this time, and one that is here already is replaced, under a new number, if it has more runs there.
    ///
    /// # Errors
    /// As [`Self::import_trial`].
    ///
    /// # Panics
    /// The time is not RFC 3339 in UTC: a bug of the caller's.
    pub fn import_snapshot(
        &mut self,
        other: &Self,
        trial: TrialId,
        now: &str,
    ) -> Result<ImportOutcome, StoreError> {
        assert!(is_utc(now), "{now:?} is not a time in UTC");
        self.take(other, trial, Some(now))
    }

    fn take(
        &mut self,
        other: &Self,
        trial: TrialId,
        snapshot: Option<&str>,
    ) -> Result<ImportOutcome, StoreError> {
        let here = self.path().to_owned();
        self.write("import a trial", |target| {
            other
                .read("read a trial", |source| {
                    copy(source, target, trial, snapshot).map_err(|failed| match failed {
                        Failed::There(fault) => fault,
                        Failed::Here(fault) => Fault::Elsewhere(Box::new(fault.at(&here, "import a trial"))),
                    })
                })
                .map_err(|error| Fault::Elsewhere(Box::new(error)))
        })
    }

    /// Removes a trial with everything of it. The file keeps its size until [`Store::shrink`].
    ///
    /// # Errors
    /// There is no such trial; SQLite refused. Nothing is removed then.
    pub fn remove_trial(&mut self, trial: TrialId) -> Result<(), StoreError> {
        self.write("remove a trial", |connection| remove(connection, trial))
    }

    /// Returns the space of removed trials to the filesystem. The file is rewritten, through a temporary file and the
    /// log, so this needs up to twice the size of the rest; if that is not available, the file stays as it is.
    ///
    /// # Errors
    /// SQLite refused: no space, or another process is using the store. While one reads, the log keeps its size.
    pub fn shrink(&mut self) -> Result<(), StoreError> {
        let shrink = || -> Result<(), Fault> {
            self.connection.execute_batch("VACUUM")?;
            // Rewritten pages are in the log until they are moved, for which a reader may take long to make way.
            self.connection.busy_timeout(READERS)?;
            let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            self.connection.busy_timeout(BUSY)?;
            match moved? {
                0 => Ok(()),
                _ => Err(Fault::Sqlite(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
                    Some("another process reads it".into()),
                ))),
            }
        };
        shrink().map_err(|fault| fault.at(self.path(), "give back free room"))
    }
}

/// The faulty side.
enum Failed {
    /// The store that is read from.
    There(Fault),
    /// The store that is written to.
    Here(Fault),
}

/// An error here while writing data from there: if the data are its cause, they are damaged there.
fn refused(what: impl Fn() -> String) -> impl Fn(Fault) -> Failed {
    let damaged = move |why: String| Failed::There(Fault::damaged(format!("{}: {why}", what())));
    move |fault| match fault {
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            damaged(error.to_string())
        }
        Fault::Unstorable(why) => damaged(why),
        Fault::NoSuchArm(_, arm) => damaged(format!("the trial has no arm `{arm}`")),
        Fault::AlreadyRecorded(run) => damaged(format!("there are two of {run}")),
        other => Failed::Here(other),
    }
}

fn remove(connection: &Connection, trial: TrialId) -> Result<(), Fault> {
    last_session(connection, trial)?;
    for table in ["histogram", "stage", "counter", "result", "measurement"] {
        let of_runs = format!("DELETE FROM {table} WHERE run IN (SELECT id FROM run WHERE trial = ?1)");
        connection.execute(&of_runs, [trial.0])?;
    }
    for table in ["run", "answers", "receipt", "evidence", "cell", "tally", "tag", "session", "arm"] {
        connection.execute(&format!("DELETE FROM {table} WHERE trial = ?1"), [trial.0])?;
    }
    connection.execute("DELETE FROM trial WHERE id = ?1", [trial.0])?;
    connection.execute(
        "DELETE FROM facts WHERE NOT EXISTS (SELECT 1 FROM measurement WHERE measurement.facts = facts.id) \
         AND NOT EXISTS (SELECT 1 FROM arm WHERE arm.facts = facts.id)",
        [],
    )?;
    connection.execute(
        "DELETE FROM commands WHERE NOT EXISTS (SELECT 1 FROM measurement WHERE measurement.commands = commands.id)",
        [],
    )?;
    connection.execute(
        "DELETE FROM environment WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.environment = environment.id)",
        [],
    )?;
    Ok(())
}

/// `snapshot`: now, if a trial that still runs is copied too.
fn copy(
    source: &Connection,
    target: &Connection,
    trial: TrialId,
    snapshot: Option<&str>,
) -> Result<ImportOutcome, Failed> {
    let mut stored = stored_trial(source, trial).map_err(Failed::There)?;
    check(&stored).map_err(|why| Failed::There(Fault::damaged(format!("trial {trial}: {why}"))))?;
    if let Some((known, runs)) = find_same(target, &stored).map_err(Failed::Here)? {
        let runs_there = stored.summary.runs;
        if snapshot.is_none() || runs_there <= runs {
            return Ok(ImportOutcome::Here { trial: known, runs, runs_there });
        }
        remove(target, known).map_err(Failed::Here)?;
    }
    let last = stored.sessions.last_mut().filter(|last| last.status == TrialStatus::Running);
    match (last, snapshot) {
        (Some(last), Some(now)) => {
            (last.status, last.ended_at) = (TrialStatus::Interrupted, Some(now.to_owned()));
        }
        (Some(_), None) => return Ok(ImportOutcome::Running),
        (None, _) => {}
    }
    let id = insert_trial(target, &stored).map_err(refused(|| format!("trial {trial}")))?;
    let mut sessions = HashMap::new();
    for session in &stored.sessions {
        let new =
            insert_session(target, id, session).map_err(refused(|| format!("session {}", session.id)))?;
        sessions.insert(session.id, new);
    }
    let mut failed = None;
    let visited = visit_runs(source, trial, |run| {
        if failed.is_none() {
            failed = copy_run(target, id, &sessions, &run).err();
        }
    });
    match (failed, visited) {
        (Some(failed), _) => Err(failed),
        (None, Err(fault)) => Err(Failed::There(fault)),
        (None, Ok(())) => Ok(ImportOutcome::Copied(id)),
    }
}

/// Checks beyond the types, for trials that fstrial would not have written.
fn check(stored: &StoredTrial) -> Result<(), String> {
    if stored.arms.is_empty() {
        return Err("it has no arms".into());
    }
    let plain = |what: &str, name: &str| match name.is_empty() || name.contains(char::is_control) {
        true => Err(format!("{what} is called {name:?}")),
        false => Ok(()),
    };
    stored.arms.iter().try_for_each(|arm| plain("an arm", &arm.name))?;
    if stored.summary.tags.len() > MAX_TAGS {
        return Err(format!("it has more than {MAX_TAGS} tags"));
    }
    for tag in &stored.summary.tags {
        tag_problem(tag).map_or(Ok(()), |problem| Err(format!("the tag {tag:?}: {problem}")))?;
    }
    for session in &stored.sessions {
        let ended = session.ended_at.as_deref();
        for time in std::iter::once(session.started_at.as_str()).chain(ended) {
            check_time(time)?;
        }
        let object = serde_json::from_str::<serde_json::Value>(&session.environment);
        if !object.is_ok_and(|value| value.is_object()) {
            return Err(format!("the environment of session {} cannot be understood", session.id));
        }
    }
    Ok(())
}

fn check_time(time: &str) -> Result<(), String> {
    if is_utc(time) { Ok(()) } else { Err(format!("{time:?} is not a time in UTC")) }
}

/// The trial that is the same one, and its runs.
fn find_same(target: &Connection, stored: &StoredTrial) -> Result<Option<(TrialId, u64)>, Fault> {
    let first = &stored.sessions[0];
    let result = target
        .prepare_cached(
            "SELECT trial.id, tally.runs FROM trial JOIN tally ON tally.trial = trial.id \
             JOIN session ON session.id = (SELECT min(id) FROM session WHERE trial = trial.id) \
             WHERE trial.name = :name AND trial.seed = :seed AND session.started_at = :started_at \
             AND session.command_line = :command_line AND session.environment = :environment",
        )?
        .query_row(
            named_params! {
                ":name": stored.summary.name,
                ":seed": stored.summary.seed.to_string(),
                ":started_at": first.started_at,
                ":command_line": first.command_line,
                ":environment": first.environment,
            },
            |row| Ok((TrialId(row.get(0)?), row.get::<_, i64>(1)?)),
        )
        .optional()?;
    Ok(result.map(|(id, runs)| (id, u64::try_from(runs).unwrap_or(0))))
}

fn insert_trial(target: &Connection, stored: &StoredTrial) -> Result<TrialId, Fault> {
    let summary = &stored.summary;
    target.execute(
        "INSERT INTO trial (name, toml, seed) VALUES (?1, ?2, ?3)",
        params![summary.name, stored.toml, summary.seed.to_string()],
    )?;
    let id = TrialId(target.last_insert_rowid());
    target.execute("INSERT INTO tally (trial, rounds, runs, failed_runs) VALUES (?1, 0, 0, 0)", [id.0])?;
    add_tags(target, id, &summary.tags)?;
    for (kind, json) in [(Attachment::Receipt, &stored.receipt), (Attachment::Evidence, &stored.evidence)] {
        json.iter().try_for_each(|json| attach(target, kind, id, json))?;
    }
    for (position, arm) in stored.arms.iter().enumerate() {
        let facts = match &arm.facts {
            Some(facts) => Some(shared(target, "facts", &to_json("the facts", facts)?)?),
            None => None,
        };
        target.execute(
            "INSERT INTO arm (trial, position, name, configuration, facts) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id.0, position as u32, arm.name, arm.configuration, facts],
        )?;
    }
    Ok(id)
}

fn copy_run(
    target: &Connection,
    trial: TrialId,
    sessions: &HashMap<SessionId, SessionId>,
    run: &StoredRun,
) -> Result<(), Failed> {
    let damaged = |why: String| Failed::There(Fault::damaged(format!("run {}: {why}", run.id)));
    [&run.started_at, &run.ended_at].into_iter().try_for_each(|time| check_time(time)).map_err(damaged)?;
    if run.workload.contains(char::is_control) {
        return Err(damaged(format!("its workload is called {:?}", run.workload)));
    }
    let session = *sessions
        .get(&run.session)
        .ok_or_else(|| damaged(format!("session {} is of another trial", run.session)))?;
    let refused = refused(|| format!("run {}", run.id));
    let record = run.with_job(&run.job);
    let id = insert_run(target, trial, session, record.job, &record).map_err(&refused)?;
    if let Ok(measurement) = &run.outcome {
        insert_measurement(target, id, measurement).map_err(&refused)?;
    }
    Ok(())
}
