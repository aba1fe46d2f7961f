//! Runs: each is stored whole, in one transaction, as it ends; and read back as it was.

use crate::{
    RunId, SessionId, Store, StoreError, TrialId,
    codec::{assert_utc, from_json, from_name, histogram_bytes, histogram_text, integer, to_json, unsigned},
    error::Fault,
    trials::{last_session, shared},
};
use fstrial_model::{
    counter::Counters,
    facts::ArmFacts,
    job::{FailureKind, Job, RunFailure},
    measurement::{LoadResult, MAX_KINDS, Measurement, OperationKind, PhaseResult, Reading, Stage, Value},
    units::{Bytes, Nanos},
    workload::Figure,
};
use rusqlite::{Connection, Row, ffi, named_params, params};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::collections::{BTreeMap, HashMap};

/// A run that has just ended.
#[derive(Debug, Clone, Copy)]
pub struct RunRecord<'a, J = &'a Job> {
    /// Number of the round in the trial, from 1.
    pub round: u32,
    /// Its place in the round's drawn order.
    pub slot: u32,
    /// The name of its arm.
    pub arm: &'a str,
    /// The name of its workload.
    pub workload: &'a str,
    /// Its level.
    pub threads: u16,
    /// When it began: RFC 3339, UTC.
    pub started_at: &'a str,
    /// When it ended: RFC 3339, UTC.
    pub ended_at: &'a str,
    /// The environment of the machine that ran it, as JSON.
    pub environment: &'a str,
    /// The worker's job; its text if a run is copied.
    pub job: J,
    /// The measurement, or the failure that prevented one.
    pub outcome: Result<&'a Measurement, &'a RunFailure>,
}

/// A run as it was stored: see [`RunRecord`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Its number.
    pub id: RunId,
    /// The session of the trial it ran in.
    pub session: SessionId,
    /// Number of the round in the trial, from 1.
    pub round: u32,
    /// Its place in the round's drawn order.
    pub slot: u32,
    /// The name of its arm.
    pub arm: String,
    /// The name of its workload.
    pub workload: String,
    /// Its level.
    pub threads: u16,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
    /// The environment of the machine that ran it, as JSON.
    pub environment: String,
    /// The worker's [`Job`] as JSON, as of its time. Text, because a job belongs to its protocol and a measurement does
    /// not: an old one that today's protocol cannot parse must not make its numbers unreadable.
    pub job: String,
    /// The measurement, or the failure that prevented one.
    pub outcome: Result<Measurement, RunFailure>,
}

impl StoredRun {
    /// The job, if it is still one today.
    ///
    /// # Errors
    /// It was written for another protocol.
    pub fn parse_job(&self) -> Result<Job, serde_json::Error> {
        serde_json::from_str(&self.job)
    }

    /// The run as it was recorded, with its job parsed or as text.
    pub fn with_job<J>(&self, job: J) -> RunRecord<'_, J> {
        RunRecord {
            round: self.round,
            slot: self.slot,
            arm: &self.arm,
            workload: &self.workload,
            threads: self.threads,
            started_at: &self.started_at,
            ended_at: &self.ended_at,
            environment: &self.environment,
            job,
            outcome: self.outcome.as_ref(),
        }
    }
}

impl Store {
    /// Stores a run of a trial. When this returns, the run is on the disk: it survives SIGKILL and power loss.
    ///
    /// # Errors
    /// There is no such trial or arm, this run is stored already, a value cannot be real (a histogram that does
    /// not decode), or SQLite refused (the disk is full). No part of the run is stored then, and all others stay.
    ///
    /// # Panics
    /// The record contradicts its job, a time is not UTC, the environment is not JSON: bugs of the caller's.
    pub fn record_run(&mut self, trial: TrialId, record: &RunRecord<'_>) -> Result<RunId, StoreError> {
        assert_utc(record.started_at);
        assert_utc(record.ended_at);
        assert!(record.threads > 0, "a run has threads");
        assert!(
            serde_json::from_str::<IgnoredAny>(record.environment).is_ok(),
            "the environment is not JSON"
        );
        assert_eq!(record.arm, record.job.arm.name, "the run and its job name one arm");
        if let Some(task) = &record.job.task {
            assert_eq!(record.threads, task.threads, "the run and its job have one level");
        }
        self.write("record a run", |transaction| {
            let session = last_session(transaction, trial)?;
            let job = to_json("the job", record.job)?;
            let run = insert_run(transaction, trial, session, &job, record)?;
            if let Ok(measurement) = record.outcome {
                insert_measurement(transaction, run, measurement)?;
            }
            Ok(run)
        })
    }

    /// The runs of a trial, failed ones included, ordered by round and slot.
    ///
    /// # Errors
    /// There is no such trial; the store cannot be read.
    pub fn runs(&self, trial: TrialId) -> Result<Vec<StoredRun>, StoreError> {
        let mut runs = Vec::new();
        self.for_each_run(trial, |run| runs.push(run))?;
        Ok(runs)
    }

    /// Like [`Store::runs`], one at a time: memory does not grow with the length of the trial.
    ///
    /// # Errors
    /// There is no such trial; the store cannot be read. Runs before the fault have been seen.
    pub fn for_each_run(&self, trial: TrialId, see: impl FnMut(StoredRun)) -> Result<(), StoreError> {
        self.read("read the runs of a trial", |connection| visit_runs(connection, trial, see))
    }

    /// The runs of a trial that were stored after another one, in the order in which they were stored: for anyone who
    /// follows a trial and would otherwise read all of it again and again. None: from the first on.
    ///
    /// # Errors
    /// There is no such trial; the store cannot be read. Runs before the fault have been seen.
    pub fn for_each_run_after(
        &self,
        trial: TrialId,
        after: Option<RunId>,
        mut see: impl FnMut(StoredRun),
    ) -> Result<(), StoreError> {
        self.read("read the new runs of a trial", |connection| {
            last_session(connection, trial)?;
            let mut order =
                connection.prepare_cached("SELECT id FROM run WHERE trial = ?1 AND id > ?2 ORDER BY id")?;
            let after = after.map_or(0, |run| run.0);
            let ids: Vec<i64> =
                order.query_map([trial.0, after], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let mut cache = SharedTexts::default();
            for id in ids {
                see(read_run(connection, RunId(id), &mut cache)?);
            }
            Ok(())
        })
    }
}

/// Shows every run of a trial, in order.
pub(crate) fn visit_runs(
    connection: &Connection,
    trial: TrialId,
    mut see: impl FnMut(StoredRun),
) -> Result<(), Fault> {
    last_session(connection, trial)?;
    // Ids first: sorting rows that carry jobs and series would copy all of them.
    let mut order = connection.prepare("SELECT id FROM run WHERE trial = ?1 ORDER BY round, slot, id")?;
    let ids: Vec<i64> = order.query_map([trial.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut cache = SharedTexts::default();
    let mut before = None;
    for id in ids {
        let run = read_run(connection, RunId(id), &mut cache)?;
        let place = Some((run.round, run.slot, run.id));
        if place <= before {
            return Err(Fault::damaged(format!("run {id} is not where the index has it")));
        }
        before = place;
        see(run);
    }
    Ok(())
}

/// Stores the row of a run, with its job as text, and counts it.
pub(crate) fn insert_run<J>(
    connection: &Connection,
    trial: TrialId,
    session: SessionId,
    job: &str,
    record: &RunRecord<'_, J>,
) -> Result<RunId, Fault> {
    let known: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM arm WHERE trial = ?1 AND name = ?2)")?
        .query_row(params![trial.0, record.arm], |row| row.get(0))?;
    if !known {
        return Err(Fault::NoSuchArm(trial, record.arm.to_owned()));
    }
    let is_new_round = !has_round(connection, trial, record.round)?;
    let failure = record.outcome.err().map(|failure| to_json("the failure", failure)).transpose()?;
    let status = if failure.is_some() { "failed" } else { "measured" };
    let inserted = connection
        .prepare_cached(
            "INSERT INTO run (trial, session, round, slot, arm, workload, threads, started_at, ended_at, status, \
             failure, environment, job) VALUES (:trial, :session, :round, :slot, :arm, :workload, :threads, \
             :started_at, :ended_at, :status, :failure, :environment, :job)",
        )?
        .execute(named_params! {
            ":trial": trial.0,
            ":session": session.0,
            ":round": record.round,
            ":slot": record.slot,
            ":arm": record.arm,
            ":workload": record.workload,
            ":threads": record.threads,
            ":started_at": record.started_at,
            ":ended_at": record.ended_at,
            ":status": status,
            ":failure": failure,
            ":environment": shared(connection, "environment", record.environment)?,
            ":job": job,
        });
    match inserted {
        Ok(_) => {
            let run = RunId(connection.last_insert_rowid());
            count_run(connection, trial, record, is_new_round)?;
            Ok(run)
        }
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE =>
        {
            Err(Fault::AlreadyRecorded(format!(
                "`{}` at {} threads on `{}` in round {} of trial {trial}",
                record.workload, record.threads, record.arm, record.round
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// True if a round of a trial has a run.
fn has_round(connection: &Connection, trial: TrialId, round: u32) -> Result<bool, Fault> {
    let mut find =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM run WHERE trial = ?1 AND round = ?2)")?;
    Ok(find.query_row(params![trial.0, round], |row| row.get(0))?)
}

/// Keeps the counts of a trial in step with its runs.
fn count_run<J>(
    connection: &Connection,
    trial: TrialId,
    record: &RunRecord<'_, J>,
    is_new_round: bool,
) -> Result<(), Fault> {
    let failed = record.outcome.is_err_and(|failure| failure.kind != FailureKind::Unsupported);
    connection
        .prepare_cached(
            "UPDATE tally SET rounds = rounds + ?2, runs = runs + 1, failed_runs = failed_runs + ?3 WHERE trial = ?1",
        )?
        .execute(params![trial.0, is_new_round, failed])?;
    connection
        .prepare_cached(
            "INSERT INTO cell (trial, workload, threads, arm, runs) VALUES (?1, ?2, ?3, ?4, 1) \
             ON CONFLICT (trial, workload, threads, arm) DO UPDATE SET runs = runs + 1",
        )?
        .execute(params![trial.0, record.workload, record.threads, record.arm])?;
    Ok(())
}

/// Stores the measurement of a run.
pub(crate) fn insert_measurement(
    connection: &Connection,
    run: RunId,
    measurement: &Measurement,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO measurement (run, space_left_bytes, facts, commands, output) \
             VALUES (:run, :space_left_bytes, :facts, :commands, :output)",
        )?
        .execute(named_params! {
            ":run": run.0,
            ":space_left_bytes": integer("the space left", measurement.space_left.0)?,
            ":facts": shared(connection, "facts", &to_json("the facts", &measurement.facts)?)?,
            ":commands": shared(connection, "commands", &to_json("the commands", &measurement.commands)?)?,
            ":output": measurement.output,
        })?;
    for (position, result) in measurement.results.iter().enumerate() {
        let position = integer("the number of results", position as u64)?;
        match &result.reading {
            Reading::Load(figure, load) => insert_load(connection, (run, position), result, *figure, load)?,
            Reading::Value(value) => insert_value(connection, (run, position), result, value)?,
        }
        insert_counters(connection, (run, position), &result.counters)?;
    }
    let mut stage = connection
        .prepare_cached("INSERT INTO stage (run, position, stage, duration_ns) VALUES (?1, ?2, ?3, ?4)")?;
    for (position, (name, duration)) in measurement.stages.iter().enumerate() {
        let position = integer("the number of stages", position as u64)?;
        stage.execute(params![run.0, position, name.name(), integer("a stage's duration", duration.0)?])?;
    }
    Ok(())
}

/// Stores the counters of a result, of every kind alike.
fn insert_counters(
    connection: &Connection,
    (run, position): (RunId, i64),
    counters: &Counters,
) -> Result<(), Fault> {
    let mut insert = connection
        .prepare_cached("INSERT INTO counter (run, position, name, value) VALUES (?1, ?2, ?3, ?4)")?;
    for (counter, value) in counters.known() {
        insert.execute(params![run.0, position, counter.name(), integer(counter.name(), value)?])?;
    }
    Ok(())
}

/// The same, read back.
fn read_counters(connection: &Connection, run: RunId, position: i64) -> Result<Counters, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT name, value FROM counter WHERE run = ?1 AND position = ?2")?;
    let mut rows = statement.query(params![run.0, position])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push((from_name("counter", &row.get::<_, String>("name")?)?, Some(unsigned(row, "value")?)));
    }
    Ok(all.into_iter().collect())
}

fn insert_value(
    connection: &Connection,
    (run, position): (RunId, i64),
    result: &PhaseResult,
    value: &Value,
) -> Result<(), Fault> {
    if !value.value.is_finite() {
        return Err(Fault::Unstorable(format!(
            "`{}` is {}, which is not a number",
            result.name, value.value
        )));
    }
    connection
        .prepare_cached(
            "INSERT INTO result (run, position, name, value, unit, less_is_better) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            run.0,
            position,
            result.name,
            value.value,
            value.unit,
            value.less_is_better
        ])?;
    Ok(())
}

fn insert_load(
    connection: &Connection,
    (run, position): (RunId, i64),
    result: &PhaseResult,
    figure: Figure,
    load: &LoadResult,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO result (run, position, name, figure, threads, duration_ns, operations, bytes, errors, \
             first_error, cpu_user_ns, cpu_system_ns, clock, series_step_ns, series, tails_step_ns, tails, windows, \
             steady_windows) VALUES (:run, :position, :name, :figure, :threads, :duration_ns, :operations, :bytes, \
             :errors, :first_error, :cpu_user_ns, :cpu_system_ns, :clock, :series_step_ns, :series, :tails_step_ns, \
             :tails, :windows, :steady_windows)",
        )?
        .execute(named_params! {
            ":run": run.0,
            ":position": position,
            ":name": result.name,
            ":figure": plain_name("the figure", &figure)?,
            ":threads": load.threads,
            ":duration_ns": integer("the duration", load.duration.0)?,
            ":operations": integer("the number of operations", load.operations)?,
            ":bytes": integer("the number of bytes", load.bytes)?,
            ":errors": integer("the number of errors", load.errors)?,
            ":first_error": load.first_error,
            ":cpu_user_ns": integer("the user time", load.cpu_user.0)?,
            ":cpu_system_ns": integer("the system time", load.cpu_system.0)?,
            ":clock": plain_name("the clock", &load.clock)?,
            ":series_step_ns": integer("the step of the series", load.series_step.0)?,
            ":series": to_json("the series", &load.series)?,
            ":tails_step_ns": integer("the step of the tails", load.tails_step.0)?,
            ":tails": to_json("the tails", &load.tails)?,
            ":windows": to_json("the windows", &load.windows)?,
            ":steady_windows": to_json("the steady windows", &load.steady_windows)?,
        })?;
    let mut histogram = connection.prepare_cached(
        "INSERT INTO histogram (run, position, kind, latencies_ns, operations, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, \
         max_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for (kind, base64) in &load.histograms {
        let kind = kind.to_string();
        let (bytes, q) = histogram_bytes(&kind, base64)?;
        histogram.execute(params![
            run.0,
            position,
            kind,
            bytes,
            q.operations,
            q.p50,
            q.p90,
            q.p99,
            q.p999,
            q.p9999,
            q.max
        ])?;
    }
    Ok(())
}

/// The name an enum without a `name()` goes by in JSON.
fn plain_name(what: &str, value: &impl Serialize) -> Result<String, Fault> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(Fault::Unstorable(format!("{what} has no plain name: {other:?}"))),
    }
}

/// Environments, facts and commands that were read before: a trial has a handful of each.
#[derive(Default)]
struct SharedTexts {
    environments: HashMap<i64, String>,
    facts: HashMap<i64, ArmFacts>,
    commands: HashMap<i64, Vec<String>>,
}

/// The value behind a row of `facts` or `commands`, parsed once.
fn resolve<T: Clone + serde::de::DeserializeOwned>(
    connection: &Connection,
    cache: &mut HashMap<i64, T>,
    table: &'static str,
    id: i64,
) -> Result<T, Fault> {
    if let Some(value) = cache.get(&id) {
        return Ok(value.clone());
    }
    let json: String = connection
        .prepare_cached(&format!("SELECT json FROM {table} WHERE id = ?1"))?
        .query_row([id], |row| row.get(0))
        .map_err(missing(format!("row {id} of `{table}`")))?;
    let value: T = from_json(&format!("row {id} of `{table}`"), &json)?;
    cache.insert(id, value.clone());
    Ok(value)
}

/// An environment as it was stored, to the letter.
fn environment_text(
    connection: &Connection,
    cache: &mut HashMap<i64, String>,
    id: i64,
) -> Result<String, Fault> {
    if let Some(text) = cache.get(&id) {
        return Ok(text.clone());
    }
    let text: String = connection
        .prepare_cached("SELECT json FROM environment WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .map_err(missing(format!("row {id} of `environment`")))?;
    let _: IgnoredAny = from_json(&format!("row {id} of `environment`"), &text)?;
    cache.insert(id, text.clone());
    Ok(text)
}

/// A row that another one refers to and that is not there is damage.
fn missing(what: String) -> impl FnOnce(rusqlite::Error) -> Fault {
    move |error| match error {
        rusqlite::Error::QueryReturnedNoRows => Fault::damaged(format!("{what} is missing")),
        other => other.into(),
    }
}

fn read_run(connection: &Connection, id: RunId, cache: &mut SharedTexts) -> Result<StoredRun, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT session, round, slot, arm, workload, threads, started_at, ended_at, failure, environment, job \
         FROM run WHERE id = ?1",
    )?;
    let mut rows = statement.query([id.0])?;
    let row = rows.next()?.ok_or_else(|| Fault::damaged(format!("run {id} is only in the index")))?;
    let failure: Option<String> = row.get("failure")?;
    let outcome = match failure {
        Some(json) => Err(from_json(&format!("the failure of run {id}"), &json)?),
        None => Ok(read_measurement(connection, id, cache)?),
    };
    let environment: Option<i64> = row.get("environment")?;
    let environment =
        environment.ok_or_else(|| Fault::damaged(format!("run {id} does not name its machine")))?;
    let environment = environment_text(connection, &mut cache.environments, environment)?;
    let run = StoredRun {
        id,
        session: SessionId(row.get("session")?),
        round: unsigned(row, "round")?,
        slot: unsigned(row, "slot")?,
        arm: row.get("arm")?,
        workload: row.get("workload")?,
        threads: unsigned(row, "threads")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        environment,
        job: row.get("job")?,
        outcome,
    };
    let _: IgnoredAny = from_json(&format!("the job of run {id}"), &run.job)?;
    Ok(run)
}

fn read_measurement(
    connection: &Connection,
    run: RunId,
    cache: &mut SharedTexts,
) -> Result<Measurement, Fault> {
    let mut statement = connection.prepare_cached("SELECT * FROM measurement WHERE run = ?1")?;
    let mut rows = statement.query([run.0])?;
    let row =
        rows.next()?.ok_or_else(|| Fault::damaged(format!("the measurement of run {run} is missing")))?;
    Ok(Measurement {
        results: read_results(connection, run)?,
        facts: resolve(connection, &mut cache.facts, "facts", row.get("facts")?)?,
        commands: resolve(connection, &mut cache.commands, "commands", row.get("commands")?)?,
        stages: read_stages(connection, run)?,
        space_left: Bytes(unsigned(row, "space_left_bytes")?),
        output: row.get("output")?,
    })
}

fn read_results(connection: &Connection, run: RunId) -> Result<Vec<PhaseResult>, Fault> {
    let mut statement = connection.prepare_cached("SELECT * FROM result WHERE run = ?1 ORDER BY position")?;
    let mut rows = statement.query([run.0])?;
    let mut results = Vec::new();
    while let Some(row) = rows.next()? {
        let reading = match row.get("value")? {
            Some(value) => Reading::Value(Value {
                value,
                unit: row.get("unit")?,
                less_is_better: row.get("less_is_better")?,
            }),
            None => {
                let figure = from_name("figure", &row.get::<_, String>("figure")?)?;
                Reading::Load(figure, Box::new(read_load(connection, run, row)?))
            }
        };
        results.push(PhaseResult {
            name: row.get("name")?,
            reading,
            counters: read_counters(connection, run, row.get("position")?)?,
        });
    }
    if results.is_empty() {
        return Err(Fault::damaged(format!("run {run} was measured and has no result")));
    }
    Ok(results)
}

fn read_load(connection: &Connection, run: RunId, row: &Row<'_>) -> Result<LoadResult, Fault> {
    let list = |column: &str| -> Result<Vec<u64>, Fault> {
        from_json(&format!("`{column}` of run {run}"), &row.get::<_, String>(column)?)
    };
    Ok(LoadResult {
        threads: unsigned(row, "threads")?,
        duration: Nanos(unsigned(row, "duration_ns")?),
        operations: unsigned(row, "operations")?,
        bytes: unsigned(row, "bytes")?,
        errors: unsigned(row, "errors")?,
        first_error: row.get("first_error")?,
        histograms: read_histograms(connection, run, row.get("position")?)?,
        windows: list("windows")?,
        steady_windows: list("steady_windows")?,
        series: list("series")?,
        series_step: Nanos(unsigned(row, "series_step_ns")?),
        tails: from_json(&format!("`tails` of run {run}"), &row.get::<_, String>("tails")?)?,
        tails_step: Nanos(unsigned(row, "tails_step_ns")?),
        cpu_user: Nanos(unsigned(row, "cpu_user_ns")?),
        cpu_system: Nanos(unsigned(row, "cpu_system_ns")?),
        clock: from_name("clock", &row.get::<_, String>("clock")?)?,
    })
}

fn read_histograms(
    connection: &Connection,
    run: RunId,
    position: i64,
) -> Result<BTreeMap<OperationKind, String>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT kind, latencies_ns FROM histogram WHERE run = ?1 AND position = ?2")?;
    let mut rows = statement.query([run.0, position])?;
    let mut histograms = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let kind: String = row.get("kind")?;
        let bytes: Vec<u8> = row.get("latencies_ns")?;
        histograms.insert(from_name("kind of operation", &kind)?, histogram_text(&bytes));
        if histograms.len() > MAX_KINDS {
            return Err(Fault::damaged(format!("run {run} has more than {MAX_KINDS} kinds of operations")));
        }
    }
    Ok(histograms)
}

fn read_stages(connection: &Connection, run: RunId) -> Result<Vec<(Stage, Nanos)>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT stage, duration_ns FROM stage WHERE run = ?1 ORDER BY position")?;
    let mut rows = statement.query([run.0])?;
    let mut stages = Vec::new();
    while let Some(row) = rows.next()? {
        let stage = from_name("stage", &row.get::<_, String>("stage")?)?;
        stages.push((stage, Nanos(unsigned(row, "duration_ns")?)));
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_stages_are_written_as_json_names_them() {
        let kind = OperationKind::READ;
        assert_eq!(from_name::<OperationKind>("kind", &kind.to_string()).unwrap(), kind);
        for name in ["", "Read", "read write", "ré", "a-name-that-is-longer-than-32-letters"] {
            assert!(from_name::<OperationKind>("kind", name).is_err(), "{name}");
        }
        for stage in Stage::ALL {
            assert_eq!(from_name::<Stage>("stage", stage.name()).unwrap(), stage);
        }
    }
}
