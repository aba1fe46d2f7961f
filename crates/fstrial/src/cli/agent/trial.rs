//! A trial of this host for a campaign: the order on standard input, its rounds and its store on standard output.

use crate::cli::{
    Home,
    conduct::{self, AfterRound, ConductArgs},
    results,
};
use fstrial_model::{device::DeviceKind, trial::Trial};
use fstrial_report::{document::Document, json_lines, stdout};
use fstrial_run::{
    answers,
    cluster::lines::{Line, News, Order, seed_of_host},
    environment,
    error::ExpectedError,
    exit_code,
    interrupt::Interrupt,
    plan::Plan,
};
use fstrial_stack::device::Permission;
use fstrial_store::{Store, StoredTrial, TrialId};
use std::{
    io::{self, BufRead, Read, Seek},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Stores are sent no more often than this.
const BETWEEN_STORES: Duration = Duration::from_secs(10);
/// Longest order.
const MAX_ORDER: u64 = 8 << 20;

/// Writes the lines of an attempt.
#[derive(Clone)]
struct Speaker(String);

impl Speaker {
    fn say(&self, news: News) {
        json_lines::print(&Line { attempt: self.0.clone(), news });
    }
}

pub(super) fn exec(home: &Home) -> Result<u8, ExpectedError> {
    let interrupt = Interrupt::at_signals()
        .map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))?;
    let order = order(&interrupt)?;
    environment::name_node(order.host.clone());
    // The last line of a job before this one may have no end.
    stdout::print("\n");
    let speaker = Speaker(order.attempt.clone());
    match run(&order, home, &interrupt, &speaker) {
        Ok(code) => Ok(code),
        Err(error) => {
            let hint = error.hint().map(|hint| format!("; try: {hint}")).unwrap_or_default();
            speaker.say(News::Ended { complete: false, why: error.in_full() + &hint });
            Err(error)
        }
    }
}

/// Reads the order. If standard input stays open, its end interrupts the trial.
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
    let here = env!("CARGO_PKG_VERSION");
    if order.fstrial != here {
        return Err(refused(format!("it is of fstrial {}, and this is {here}", order.fstrial)));
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

/// Runs the remaining rounds of the trial, and sends its store.
fn run(order: &Order, home: &Home, interrupt: &Interrupt, speaker: &Speaker) -> Result<u8, ExpectedError> {
    let mut trial = Trial::parse("the trial of the order", &order.trial)?;
    trial.trial.seed = Some(seed_of_host(trial.trial.seed.unwrap_or_default(), &order.host));
    if trial.device.kind == DeviceKind::Image && trial.device.path.is_none() {
        // The current folder of a job may be one that all hosts share.
        trial.device.path = Some(home.make()?.path().to_owned());
    }
    let results = home.results()?;
    let known = known(home, &trial)?;
    speaker.say(News::Begun { rounds: known.as_ref().map_or(0, |known| known.summary.rounds) });
    let id = known.as_ref().map(|known| known.summary.id.0);
    let before = match &known {
        Some(stored) => Some(results::judge_again(&Store::open_read_only(&results)?, stored)?),
        None => None,
    };
    let document = match before.filter(is_complete) {
        Some(document) => document,
        None => {
            let hook = after_round(results.clone(), trial.clone(), home.clone(), speaker.clone());
            let mut args = ConductArgs::of(Permission::default(), &[], true);
            args.after_round = Some(hook);
            let ended = conduct::measure(&trial, &args, home, id, interrupt)?;
            ended.left.iter().for_each(crate::cli::show);
            ended.document
        }
    };
    let id = document
        .trial_id
        .map(TrialId)
        .ok_or_else(|| ExpectedError::Fault("a trial without a number".into()))?;
    let done = Store::open_read_only(&results)?.trial(id)?.summary.rounds;
    speaker.say(News::Rounds { done });
    send_store(&results, id, speaker)?;
    let complete = is_complete(&document);
    let why = match complete {
        true => String::new(),
        false if interrupt.is_raised() => "interrupted".to_owned(),
        false => "its budget ended".to_owned(),
    };
    speaker.say(News::Ended { complete, why });
    Ok(if complete { exit_code::VERDICT } else { exit_code::INTERRUPTED })
}

/// Whether a trial has no run left.
fn is_complete(document: &Document) -> bool {
    document.rounds_are_done || ["decided", "given-up"].contains(&document.ended)
}

/// The stored trial, if this host has begun it: the same but for its budget.
fn known(home: &Home, trial: &Trial) -> Result<Option<StoredTrial>, ExpectedError> {
    let Some(results) = home.existing_results()? else { return Ok(None) };
    let store = Store::open_read_only(results)?;
    let seed = trial.trial.seed.unwrap_or_default();
    let settled = trial.settled(environment::cpus())?;
    let asked = conduct::comparable(Plan::new(settled, seed)?.trial.clone());
    for summary in store.trials()?.into_iter().rev().filter(|summary| summary.seed == seed) {
        let stored = store.trial(summary.id)?;
        let read = Trial::parse("stored trial", &stored.toml).ok();
        if read.is_some_and(|read| conduct::comparable(read) == asked) {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// Sends the number of a round when it has ended, and sometimes the store: nothing is measured meanwhile.
fn after_round(results: PathBuf, trial: Trial, home: Home, speaker: Speaker) -> AfterRound {
    let sent: Mutex<Option<Instant>> = Mutex::new(None);
    AfterRound(Arc::new(move |round| {
        speaker.say(News::Rounds { done: round });
        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.is_some_and(|since| since.elapsed() < BETWEEN_STORES) {
            return;
        }
        *sent = Some(Instant::now());
        // The trial does not depend on it: the next one, or that at the end, has its rounds, too.
        if let Ok(Some(stored)) = known(&home, &trial) {
            let _ = send_store(&results, stored.summary.id, &speaker);
        }
    }))
}

/// Sends a store with the trial as it is now.
fn send_store(results: &Path, id: TrialId, speaker: &Speaker) -> Result<(), ExpectedError> {
    let store = Store::open_read_only(results)?;
    let (mut copy, mut file) = Store::nameless()?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    copy.import_snapshot(&store, id, &now)?;
    // Its answers are pooled without its runs.
    for trial in copy.trials()? {
        answers::keep(&mut copy, trial.id)?;
    }
    drop(copy);
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_err(|source| ExpectedError::File { what: "read", path: results.to_owned(), source })?;
    speaker.say(News::of_store(&bytes));
    Ok(())
}
