//! A trial of this host for a campaign: the order on standard input, its rounds and its store on standard output.

use crate::cli::{
    Home,
    conduct::{self, ConductArgs},
};
use fstrial_model::trial::Trial;
use fstrial_report::{json_lines, stdout};
use fstrial_run::{
    answers,
    cluster::lines::{Line, Order, seed_of_host},
    environment,
    error::ExpectedError,
    exit_code,
    interrupt::Interrupt,
};
use fstrial_stack::device::Permission;
use fstrial_store::{Store, StoredTrial, TrialId, TrialStatus};
use std::{
    io::{self, BufRead, Read, Seek},
    path::Path,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

/// How often it is looked for new rounds.
const POLL: Duration = Duration::from_secs(1);
/// Rounds are sent together if they come faster than this.
const BETWEEN_STORES: Duration = Duration::from_secs(10);
/// Longest order.
const MAX_ORDER: u64 = 8 << 20;

pub(super) fn exec(home: &Home) -> Result<u8, ExpectedError> {
    let interrupt = Interrupt::at_signals()
        .map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))?;
    let order = order(&interrupt)?;
    if let Some(host) = order.host.clone() {
        environment::name_node(host);
    }
    // What a job before this one wrote may have no end.
    stdout::print("\n");
    match run(&order, home, &interrupt) {
        Ok(code) => Ok(code),
        Err(error) => {
            let hint = error.hint().map(|hint| format!("; try: {hint}")).unwrap_or_default();
            json_lines::print(&Line::Ended { complete: false, why: error.in_full() + &hint });
            Err(error)
        }
    }
}

/// Reads the order, and raises the interrupt where standard input ends later.
fn order(interrupt: &Interrupt) -> Result<Order, ExpectedError> {
    let refused = |why: String| {
        ExpectedError::usage(
            format!("standard input has no order of `fstrial run --on`: {why}"),
            "start it by `fstrial run TRIAL --on …`, with the same version of fstrial on every host",
        )
    };
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_ORDER).read_line(&mut line);
    read.map_err(|error| refused(error.to_string()))?;
    let order: Order = serde_json::from_str(&line).map_err(|error| refused(error.to_string()))?;
    if order.fstrial != env!("CARGO_PKG_VERSION") {
        return Err(refused(format!(
            "it is of fstrial {}, and this is {}",
            order.fstrial,
            env!("CARGO_PKG_VERSION")
        )));
    }
    if order.holds {
        let interrupt = interrupt.clone();
        thread::spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            interrupt.raise();
        });
    }
    Ok(order)
}

/// Runs what is left of the trial, and sends its store.
fn run(order: &Order, home: &Home, interrupt: &Interrupt) -> Result<u8, ExpectedError> {
    let mut trial = Trial::parse("the trial of the order", &order.trial)?;
    let host = environment::Environment::of_this_machine();
    let host = host.node.unwrap_or(host.host);
    trial.trial.seed = Some(seed_of_host(trial.trial.seed.unwrap_or_default(), &host));
    let results = home.results()?;
    let known = known(&results, &trial)?;
    let rounds = trial.trial.rounds.unwrap_or_default();
    let done = known.as_ref().map_or(0, |known| known.summary.rounds);
    json_lines::print(&Line::Begun { rounds: done });
    let is_complete = |trial: &StoredTrial| {
        trial.summary.rounds >= rounds && trial.summary.status == TrialStatus::BudgetEnded
    };
    if !known.as_ref().is_some_and(is_complete) {
        let (stop, stopped) = mpsc::channel::<()>();
        let (path, asked) = (results.clone(), trial.clone());
        let sender = thread::spawn(move || send_rounds(&path, &asked, &stopped));
        let args = ConductArgs::of(Permission::default(), &[], true);
        let ended = conduct::measure(&trial, &args, home, known.map(|known| known.summary.id.0), interrupt);
        drop(stop);
        let _ = sender.join();
        if let Some(left) = ended?.left {
            crate::cli::show(&left);
        }
    }
    let ended = self::known(&results, &trial)?
        .ok_or_else(|| ExpectedError::Fault("the trial that has ended is not stored".into()))?;
    json_lines::print(&Line::Rounds { done: ended.summary.rounds });
    send_store(&results, ended.summary.id)?;
    let complete = is_complete(&ended);
    let why = match (complete, interrupt.is_raised()) {
        (true, _) => String::new(),
        (false, true) => format!("interrupted after {} of {rounds} rounds", ended.summary.rounds),
        (false, false) => format!("its budget ended after {} of {rounds} rounds", ended.summary.rounds),
    };
    json_lines::print(&Line::Ended { complete, why });
    Ok(if complete { exit_code::VERDICT } else { exit_code::INTERRUPTED })
}

/// The trial, if this host has begun it.
fn known(results: &Path, trial: &Trial) -> Result<Option<StoredTrial>, ExpectedError> {
    if !results.exists() {
        return Ok(None);
    }
    let store = Store::open_read_only(results)?;
    let seed = trial.trial.seed.unwrap_or_default();
    let is_it = |trial: &StoredTrial, toml: &str| trial.summary.seed == seed && trial.toml == toml;
    let toml = settled(trial)?;
    for summary in store.trials()?.into_iter().rev().filter(|summary| summary.seed == seed) {
        let stored = store.trial(summary.id)?;
        if is_it(&stored, &toml) {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// The trial as it is stored.
fn settled(trial: &Trial) -> Result<String, ExpectedError> {
    let settled = trial.settled(environment::cpus())?;
    let plan = fstrial_run::plan::Plan::new(settled, trial.trial.seed.unwrap_or_default())?;
    Ok(plan.trial.to_toml())
}

/// Sends how many rounds there are, and their store, until the trial has ended.
fn send_rounds(results: &Path, trial: &Trial, stopped: &Receiver<()>) {
    let (mut sent, mut waited) = (0, BETWEEN_STORES);
    while stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        waited += POLL;
        let Ok(Some(stored)) = known(results, trial) else { continue };
        // The round that runs is not over.
        let done = stored.summary.rounds.saturating_sub(1);
        if done > sent {
            sent = done;
            json_lines::print(&Line::Rounds { done });
            if waited >= BETWEEN_STORES && send_store(results, stored.summary.id).is_ok() {
                waited = Duration::ZERO;
            }
        }
    }
}

/// Sends a store with the trial as it is now.
fn send_store(results: &Path, id: TrialId) -> Result<(), ExpectedError> {
    let store = Store::open_read_only(results)?;
    let (mut copy, mut file) = Store::nameless()?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    copy.import_snapshot(&store, id, &now)?;
    // A copy holds one trial. What reads many of them needs no run of it.
    for trial in copy.trials()? {
        answers::keep(&mut copy, trial.id)?;
    }
    drop(copy);
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_err(|source| ExpectedError::File { what: "read", path: results.to_owned(), source })?;
    json_lines::print(&Line::of_store(&bytes));
    Ok(())
}
