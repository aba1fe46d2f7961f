//! `fstrial explain`: the causes of the verdicts of a stored trial, from observed runs of the same arms.

use super::{
    Home, conduct, lacking,
    observed::{self, ROUNDS},
    results,
};
use clap::Args;
use fstrial_report::{
    evidence::{self, Explanation},
    json_lines,
    page::TrialPage,
    plain,
};
use fstrial_run::{
    environment::Environment,
    error::ExpectedError,
    evidence::{TrialEvidence, cells, failures, is_decided, questions, try_here},
    exit_code,
    place::reach,
    session,
};
use fstrial_store::{Store, StoredTrial};

const EXAMPLES: &str = "\
Examples:
  fstrial explain                   the last trial
  fstrial explain 12 --rounds 16    trial 12, with narrower intervals
  fstrial explain 12 xfs/ext4       its verdicts on these arms
  fstrial explain 12 --json         figures and stacks, for tools";

/// Run the arms of a stored trial again, observed, and explain its verdicts.
///
/// The same arms and workloads are observed by programs in the kernel (eBPF): time on a processor, and time waiting
/// for locks, the device, the journal and others, by the kernel's stack. These runs are not timed for a verdict. In a closed
/// loop the difference in throughput is that in thread time per operation, so its parts add up, each with an interval. The
/// evidence is stored with the trial, instead of earlier evidence of no more rounds: `fstrial report` shows it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Trial number [default: the last trial with a round].
    #[arg(value_name = "TRIAL", value_parser = results::trial_number, add = super::complete::trials())]
    trial: Option<i64>,

    /// Two arms [default: all].
    #[arg(value_name = "A/B", value_parser = pair)]
    pair: Option<[String; 2]>,

    /// Observed rounds, at least 8.
    #[arg(long, value_name = "N", default_value = ROUNDS, value_parser = clap::value_parser!(u32).range(8..=1000))]
    rounds: u32,

    /// Print JSON, a line for each contrast.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,
}

/// Two arms with a slash between them.
fn pair(text: &str) -> Result<[String; 2], String> {
    match text.split_once('/') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() => Ok([a.to_owned(), b.to_owned()]),
        _ => Err("it is two arms: xfs/ext4".into()),
    }
}

pub(crate) fn exec(args: &ExplainArgs) -> Result<u8, ExpectedError> {
    let store = results::open(&args.home)?;
    let stored = results::find(&store, args.trial)?;
    let id = stored.summary.id;
    check_machine(&stored)?;
    let (plan, states, warnings) = results::judged(&store, &stored, |judged| {
        (judged.plan.clone(), judged.finished.all.states(), judged.document.warnings.clone())
    })?;
    let asked = questions(&plan, args.pair.as_ref().map(|pair| pair.each_ref().map(String::as_str)))?;
    let cells = cells(&plan, &states, &asked);
    if cells.is_empty() {
        // Known already: nothing is run for them.
        let all =
            asked.iter().map(|at| evidence::explanation(&plan, *at, &states[*at], &TrialEvidence::new()));
        all.for_each(|explanation| tell(&explanation, args.json));
        return Ok(exit_code::UNDECIDED);
    }
    drop(store);
    let reaches = conduct::reaches(&[], &plan, &args.home)?;
    reach::check(&reaches, &plan)?;
    if plan.is_here() {
        conduct::require_root()?;
    }
    lacking::check_programs(&plan)?;
    try_here(&plan)?;
    let interrupt = conduct::interrupt()?;
    let (_lock, ledger) = args.home.ledger()?;
    let ledger = conduct::replay(ledger)?;
    let (seen, error) = session::unwatched((&plan, &reaches), &interrupt, &ledger, |_, places, _| {
        Ok(observed::observe(&plan, places, &cells, args.rounds))
    })?;
    let mut store = Store::open(args.home.results()?)?;
    let is_kept = observed::keep(&mut store, id, &seen)?;
    for at in asked.into_iter().filter(|at| is_decided(&states[*at])) {
        tell(&evidence::explanation(&plan, at, &states[at], &seen), args.json);
    }
    let failures = failures(&plan, &seen);
    if !args.json {
        // Those of the verdicts are those of their explanation.
        warnings.iter().for_each(|warning| super::say(&format!("! {warning}\n")));
    }
    failures.iter().for_each(|line| super::say(&format!("! {line}\n")));
    match is_kept {
        true if args.json => {}
        true => {
            let page = results::judged(&store, &store.trial(id)?, TrialPage::of)?;
            super::say(&conduct::kept(&args.home, id.0, page));
        }
        false if seen.is_empty() => {}
        false => super::say("! this evidence has fewer rounds or arms than the stored, which was kept\n"),
    }
    error.map_or_else(
        || Ok(if failures.is_empty() { exit_code::VERDICT } else { exit_code::SETUP_FAILED }),
        Err,
    )
}

/// Refuses the trial of another machine or kernel: the verdict of one has no causes on another.
fn check_machine(stored: &StoredTrial) -> Result<(), ExpectedError> {
    let here = Environment::of_this_machine();
    let last = stored.sessions.last();
    let Some((there, here)) = last.and_then(|last| here.changed(&last.environment)) else { return Ok(()) };
    let id = stored.summary.id;
    Err(ExpectedError::usage(
        format!("trial {id} ran on {}, and this is {here}", plain(&there)),
        "explain it there, or compare again here with --explain",
    ))
}

fn tell(explanation: &Explanation, is_json: bool) {
    if is_json {
        json_lines::print(explanation);
    } else {
        super::print_folded(&format!("{}\n", evidence::text(explanation)));
    }
}
