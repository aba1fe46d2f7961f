//! `fstrial explain`: the causes of the verdicts of a stored trial, from observed runs of the same arms.

use super::{Home, conduct, lacking, results};
use clap::Args;
use fstrial_model::device::DeviceKind;
use fstrial_report::{bar::Progress, evidence, json_lines};
use fstrial_run::{
    contrast::Outcome,
    error::ExpectedError,
    evidence::{self as observed, CellEvidence, MIN_ROUNDS},
    exit_code,
    plan::Plan,
    session,
};
use std::collections::{BTreeMap, BTreeSet};

const EXAMPLES: &str = "\
Examples:
  fstrial explain                   the last trial
  fstrial explain 12 --rounds 16    trial 12, with narrower intervals
  fstrial explain 12 --json         every stack, for tools";

/// Explain the verdicts of a stored trial by where the time of its threads went.
///
/// It runs the same arms and workloads again, observed by programs in the kernel (eBPF): time on a processor, and time waiting
/// for locks, the device, the journal and others, by the kernel's stack. These runs are not timed for a verdict. In a closed
/// loop the difference in throughput is that in thread time per operation, so its parts add up, each with an interval.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Trial number [default: the last trial with a round].
    #[arg(value_name = "TRIAL", value_parser = results::trial_number, add = super::complete::trials())]
    trial: Option<i64>,

    /// Observed rounds; with fewer than 8 no cause is named.
    #[arg(long, value_name = "N", default_value_t = MIN_ROUNDS, value_parser = clap::value_parser!(u32).range(3..=1000))]
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
    let id = stored.summary.id.0;
    conduct::check_machine(&stored)?;
    let (plan, states, warnings) = results::judged(&store, &stored, |judged| {
        (judged.plan.clone(), judged.finished.all.states(), judged.document.warnings.clone())
    })?;
    drop(store);
    let (decided, others): (Vec<usize>, Vec<usize>) = questions(&plan, id)?
        .into_iter()
        .partition(|at| matches!(states[*at].verdict, Outcome::Faster | Outcome::Slower));
    let tell = |at: usize, seen: &BTreeMap<usize, CellEvidence>| {
        let explanation = evidence::explanation(&plan, at, &states[at], seen);
        if args.json {
            json_lines::print(&explanation);
        } else {
            super::print_folded(&format!("{}\n", evidence::text(&explanation)));
        }
    };
    // Known already: nothing is run for them.
    others.into_iter().for_each(|at| tell(at, &BTreeMap::new()));
    if decided.is_empty() {
        return Ok(exit_code::UNDECIDED);
    }
    conduct::require_root()?;
    lacking::check_programs(&plan)?;
    let interrupt = conduct::interrupt()?;
    let (_lock, ledger) = args.home.ledger()?;
    let ledger = conduct::replay(ledger)?;
    let cells: BTreeSet<usize> = decided.iter().flat_map(|at| plan.contrasts[*at].cells()).collect();
    let cells: Vec<usize> = cells.into_iter().collect();
    let progress = Progress::of("observed runs");
    let done = session::unwatched(&plan, &interrupt, &ledger, |_, places, _| {
        let place = places.first_mut().expect("the plan has a place");
        observed::run(&plan, place.as_mut(), &cells, args.rounds, &mut |done, all| progress.set(done, all))
    });
    progress.clear();
    let (seen, is_interrupted) = done?;
    decided.into_iter().for_each(|at| tell(at, &seen));
    // Those of the verdicts are those of their explanation.
    if !args.json {
        warnings.iter().for_each(|warning| super::say(&format!("! {warning}\n")));
    }
    for (cell, failure) in seen.iter().filter_map(|(cell, seen)| Some((cell, seen.failure.as_ref()?))) {
        super::say(&format!("! {}: {failure}\n", plan.cell_name(*cell)));
    }
    Ok(match (is_interrupted, seen.values().any(|seen| seen.failure.is_some())) {
        (true, _) => exit_code::INTERRUPTED,
        (false, true) => exit_code::SETUP_FAILED,
        (false, false) => exit_code::VERDICT,
    })
}

/// The contrasts that can be explained.
fn questions(plan: &Plan, id: i64) -> Result<Vec<usize>, ExpectedError> {
    let trial = &plan.trial;
    let refused = |what: &str, hint: &str| Err(ExpectedError::usage(format!("trial {id} {what}"), hint));
    if plan.places.iter().any(Option::is_some) {
        return refused("has arms at other places, which are not observed yet", "compare arms on this host");
    }
    if trial.arms.iter().any(|arm| arm.state.is_some()) || trial.device.kind == DeviceKind::Disk {
        return refused(
            "has prepared filesystems or a disk to erase, which are not observed yet",
            "compare its arms when fresh, on an image or a modelled device",
        );
    }
    let all: Vec<usize> =
        (0..plan.contrasts.len()).filter(|at| observed::explains(plan, &plan.contrasts[*at])).collect();
    if all.is_empty() {
        return refused(
            "compares no throughput of loads whose threads work in a closed loop",
            "explain a trial of workloads such as append-fsync, without a rate and without a program",
        );
    }
    Ok(all)
}
