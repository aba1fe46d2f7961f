//! The trials of this host for a campaign: the order on standard input, their rounds and a store on standard output.

use crate::cli::{
    Home,
    claims::{
        check::lacking,
        source::{ClaimFile, Ready},
    },
    conduct::{self, AfterRound, ConductArgs},
    on, results,
};
use fstrial_model::{device::DeviceKind, trial::Trial};
use fstrial_report::{document::Document, json_lines, stdout};
use fstrial_run::{
    answers,
    cluster::lines::{CampaignOrder, Claims, HostLine, HostWork, News, seed_of_host},
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
        json_lines::print(&HostLine { attempt: self.0.clone(), news });
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
fn order(interrupt: &Interrupt) -> Result<CampaignOrder, ExpectedError> {
    let refused = |why: String| {
        ExpectedError::usage(
            format!("standard input has no order of `fstrial run --on`: {why}"),
            "start it by `fstrial run TRIAL --on …`, with the same version of fstrial on every host",
        )
    };
    let mut line = String::new();
    let read = io::stdin().lock().take(MAX_ORDER).read_line(&mut line);
    read.map_err(|error| refused(error.to_string()))?;
    let order: CampaignOrder = serde_json::from_str(&line).map_err(|error| refused(error.to_string()))?;
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

/// A measurement of this host: a trial, or the name of a claim and the reason why it cannot run.
type HostPart = Result<Trial, (String, String)>;

/// The trials of an order, as this host runs them.
fn parts(order: &CampaignOrder, home: &Home) -> Result<Vec<HostPart>, ExpectedError> {
    match &order.work {
        HostWork::Trial(toml) => {
            Ok(vec![Ok(of_this_host(Trial::parse("the trial of the order", toml)?, order, home)?)])
        }
        HostWork::Claims(claims) => {
            let part = |(name, text): &(String, Option<String>)| {
                let claimed = ClaimFile::of_host(name, text.as_ref())?;
                match claim(&claimed, claims, home)? {
                    Ok(trial) => Ok(Ok(of_this_host(trial, order, home)?)),
                    Err(why) => Ok(Err((name.clone(), why))),
                }
            };
            claims.files.iter().map(part).collect()
        }
    }
}

/// A claim as a trial of many hosts, or why it cannot be one here.
fn claim(claimed: &ClaimFile, claims: &Claims, home: &Home) -> Result<Result<Trial, String>, ExpectedError> {
    let machine = environment::machine(claims.quick);
    let (mut trial, ready) = claimed.prepare(&machine, claims.device.as_ref(), &home.folder()?)?;
    if let Ready::Missing(missing) = ready {
        return Ok(Err(missing.join("; ")));
    }
    trial.leave_out_controls();
    (trial.trial.rounds, trial.trial.seed) = (Some(on::ROUNDS), Some(on::SEED));
    let settled = trial.settled(environment::cpus()).map_err(ExpectedError::from);
    let plan = match settled.and_then(|settled| Ok(Plan::new(settled, 0)?)) {
        Ok(plan) => plan,
        Err(error) => return Ok(Err(error.in_full())),
    };
    if !plan.parts.iter().any(|part| answers::is_pooled(&part.part.question)) {
        return Ok(Err("no part of it is a ratio, which hosts could have together".into()));
    }
    Ok(on::fix(&mut trial, claims.budget).map(|()| trial).map_err(|error| error.to_string()))
}

/// A trial with the seed of this host, and its image in the home: the current folder of a job may be one that all hosts share.
fn of_this_host(mut trial: Trial, order: &CampaignOrder, home: &Home) -> Result<Trial, ExpectedError> {
    trial.trial.seed = Some(seed_of_host(trial.trial.seed.unwrap_or_default(), &order.host));
    if trial.device.kind == DeviceKind::Image && trial.device.path.is_none() {
        trial.device.path = Some(home.make()?.path().to_owned());
    }
    Ok(trial)
}

/// Runs the remaining rounds of the trials, and sends their store.
fn run(
    order: &CampaignOrder,
    home: &Home,
    interrupt: &Interrupt,
    speaker: &Speaker,
) -> Result<u8, ExpectedError> {
    let parts = parts(order, home)?;
    let known: Vec<Option<StoredTrial>> = parts
        .iter()
        .map(|part| part.as_ref().map_or(Ok(None), |trial| known(home, trial)))
        .collect::<Result<_, _>>()?;
    let rounds = known.iter().flatten().map(|known| known.summary.rounds).sum();
    speaker.say(News::Begun { rounds });
    let mut trials = Trials { home, speaker, results: home.results()?, done: rounds };
    let (mut open, is_many): (Option<String>, bool) = (None, parts.len() > 1);
    for (part, known) in parts.into_iter().zip(known) {
        let left_out = match part {
            Ok(trial) => match trials.run(&trial, known, interrupt) {
                Ok(true) => continue,
                Ok(false) if interrupt.is_raised() => {
                    open = Some("interrupted".to_owned());
                    break;
                }
                Ok(false) => {
                    open = Some("its budget ended".to_owned());
                    continue;
                }
                Err(error) => match (lacking(&error), trial.claim) {
                    (Some(why), Some(claim)) => (claim.id, why),
                    // Others can be checked all the same, unless something is left of this one.
                    (None, Some(claim)) if is_many && error.exit_code() != exit_code::CLEAN_UP_INCOMPLETE => {
                        open = Some(format!("{}: {}", claim.id, error.in_full()));
                        continue;
                    }
                    _ => return Err(error),
                },
            },
            Err(left_out) => left_out,
        };
        let (claim, why) = left_out;
        speaker.say(News::LeftOut { claim, why });
    }
    let complete = open.is_none();
    speaker.say(News::Ended { complete, why: open.unwrap_or_default() });
    Ok(if complete { exit_code::VERDICT } else { exit_code::INTERRUPTED })
}

/// The trials of a job, one after the other.
struct Trials<'a> {
    home: &'a Home,
    speaker: &'a Speaker,
    results: PathBuf,
    /// Rounds of all of them, but for those that the running one makes.
    done: u32,
}

impl Trials<'_> {
    /// Runs the rest of a trial, and sends the store; true if the trial is complete.
    fn run(
        &mut self,
        trial: &Trial,
        known: Option<StoredTrial>,
        interrupt: &Interrupt,
    ) -> Result<bool, ExpectedError> {
        let id = known.as_ref().map(|known| known.summary.id.0);
        let others = self.done - known.as_ref().map_or(0, |known| known.summary.rounds);
        let before = match &known {
            Some(stored) => Some(results::judge_again(&Store::open_read_only(&self.results)?, stored)?),
            None => None,
        };
        let document = match before.filter(is_complete) {
            Some(document) => document,
            None => {
                let mut args = ConductArgs::of(Permission::default(), &[], true);
                args.after_round = Some(self.after_round(trial, others));
                let ended = conduct::measure(trial, &args, self.home, id, interrupt)?;
                ended.left.iter().for_each(crate::cli::show);
                ended.document
            }
        };
        let id = document
            .trial_id
            .map(TrialId)
            .ok_or_else(|| ExpectedError::Fault("a trial without a number".into()))?;
        self.done = others + Store::open_read_only(&self.results)?.trial(id)?.summary.rounds;
        self.speaker.say(News::Rounds { done: self.done });
        send_store(&self.results, id, trial, self.speaker)?;
        Ok(is_complete(&document))
    }

    /// Sends the number of a round when it has ended, and sometimes the store: nothing is measured meanwhile.
    fn after_round(&self, trial: &Trial, others: u32) -> AfterRound {
        let (home, results, speaker) = (self.home.clone(), self.results.clone(), self.speaker.clone());
        let trial = trial.clone();
        let sent: Mutex<Option<Instant>> = Mutex::new(None);
        AfterRound(Arc::new(move |round| {
            speaker.say(News::Rounds { done: others + round });
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            if sent.is_some_and(|since| since.elapsed() < BETWEEN_STORES) {
                return;
            }
            *sent = Some(Instant::now());
            // The trial does not depend on it: the next one, or that at the end, has its rounds, too.
            if let Ok(Some(stored)) = known(&home, &trial) {
                let _ = send_store(&results, stored.summary.id, &trial, &speaker);
            }
        }))
    }
}

/// True if a trial has no run left.
fn is_complete(document: &Document) -> bool {
    document.rounds_are_done || ["decided", "given-up"].contains(&document.ended)
}

/// The stored trial, if this host has begun it: the same but for its budget.
fn known(home: &Home, trial: &Trial) -> Result<Option<StoredTrial>, ExpectedError> {
    let Some(results) = home.existing_results()? else { return Ok(None) };
    let store = Store::open_read_only(results)?;
    let seed = trial.trial.seed.unwrap_or_default();
    let settled = trial.settled(environment::cpus())?;
    let requested = conduct::comparable(Plan::new(settled, seed)?.trial.clone());
    for summary in store.trials()?.into_iter().rev().filter(|summary| summary.seed == seed) {
        let stored = store.trial(summary.id)?;
        let read = Trial::parse("stored trial", &stored.toml).ok();
        if read.is_some_and(|read| conduct::comparable(read) == requested) {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// Sends a store with a trial as it is now.
fn send_store(results: &Path, id: TrialId, trial: &Trial, speaker: &Speaker) -> Result<(), ExpectedError> {
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
    let claim = trial.claim.as_ref().map(|claim| claim.id.as_str()).unwrap_or_default();
    speaker.say(News::of_store(claim, &bytes));
    Ok(())
}
