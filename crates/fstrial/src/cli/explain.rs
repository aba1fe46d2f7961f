//! `fstrial explain`: the causes of the verdicts of a stored trial, from observed runs of the same arms.

use super::{
    Home, conduct, lacking,
    observed::{self as runs, ROUNDS},
    results,
};
use clap::Args;
use fstrial_report::{
    evidence::{self, Explanation},
    json_lines,
};
use fstrial_run::{
    error::ExpectedError,
    evidence::{TrialEvidence, cells, questions, try_here},
    exit_code, session,
};
use fstrial_stack::StackError;
use fstrial_store::Store;

const EXAMPLES: &str = "\
Examples:
  fstrial explain                   the last trial
  fstrial explain 12 --rounds 16    trial 12, with narrower intervals
  fstrial explain 12 --json         every stack, for tools";

/// Explain the verdicts of a stored trial by where the time of its threads went.
///
/// It runs the same arms and workloads again, observed by programs in the kernel (eBPF): time on a processor, and time waiting
/// for locks, the device, the journal and others, by the kernel's stack. These runs are not timed for a verdict. In a closed
/// loop the difference in throughput is that in thread time per operation, so its parts add up, each with an interval. The
/// evidence is stored with the trial, instead of earlier evidence: `fstrial report` shows it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Trial number [default: the last trial with a round].
    #[arg(value_name = "TRIAL", value_parser = results::trial_number, add = super::complete::trials())]
    trial: Option<i64>,

    /// Observed rounds; with fewer than 8 no cause is named.
    #[arg(long, value_name = "N", default_value = ROUNDS, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: u32,

    /// Print JSON, a line for each contrast.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &ExplainArgs) -> Result<u8, ExpectedError> {
    let store = results::open(&args.home)?;
    let stored = results::find(&store, args.trial)?;
    let id = stored.summary.id;
    conduct::check_machine(&stored)?;
    let (plan, states) =
        results::judged(&store, &stored, |judged| (judged.plan.clone(), judged.finished.all.states()))?;
    let asked = questions(&plan)?;
    let observed = cells(&plan, &states)?;
    if observed.is_empty() {
        // Known already: nothing is run for them.
        let all =
            asked.iter().map(|at| evidence::explanation(&plan, *at, &states[*at], &TrialEvidence::new()));
        all.for_each(|explanation| tell(&explanation, args.json));
        return Ok(exit_code::UNDECIDED);
    }
    drop(store);
    conduct::require_root()?;
    lacking::check_programs(&plan)?;
    try_here()?;
    let interrupt = conduct::interrupt()?;
    let (_lock, ledger) = args.home.ledger()?;
    let ledger = conduct::replay(ledger)?;
    let (seen, is_interrupted) = session::unwatched(&plan, &interrupt, &ledger, |_, places, _| {
        runs::observe(&plan, places, &observed, args.rounds)
    })?;
    if is_interrupted {
        return Err(StackError::Interrupted.into());
    }
    let mut store = Store::open(args.home.results()?)?;
    store.keep_evidence(id, &runs::to_json(&seen))?;
    let stored = store.trial(id)?;
    results::judged(&store, &stored, |judged| {
        judged.document.explanations.iter().for_each(|explanation| tell(explanation, args.json));
        // Those of the verdicts are those of their explanation.
        if !args.json {
            judged.document.warnings.iter().for_each(|warning| super::say(&format!("! {warning}\n")));
        }
    })?;
    let failures = runs::failures(&plan, &seen);
    failures.iter().for_each(|line| super::say(&format!("! {line}\n")));
    Ok(if failures.is_empty() { exit_code::VERDICT } else { exit_code::SETUP_FAILED })
}

fn tell(explanation: &Explanation, is_json: bool) {
    if is_json {
        json_lines::print(explanation);
    } else {
        super::print_folded(&format!("{}\n", evidence::text(explanation)));
    }
}
