//! Looks beyond the length of a run: one long run in each arm before the first round. A load may have a clock that nobody
//! has declared, such as a checkpoint, and a filesystem may slow down as it fills: a run that is shorter sees neither.

use super::{event::Event, forecast::OVERHEAD_GUESS, pilot::run_once, place::Place, plan::Plan};
use crate::error::ExpectedError;
use fstrial_model::{
    measurement::{Measurement, Reading},
    state::State,
    trial::Trial,
    units::Nanos,
    workload::{Until, Workload},
};
use fstrial_stats::steady;

/// How long a look is: it finds periods of up to half of it.
pub const LOOK: Nanos = Nanos::secs(12);
/// The budget is at least this many times the time of all looks.
const SHARE: u64 = 5;
/// A change from the first third of a look to its last that is worth a word.
const MIN_SLOPE: f64 = 0.1;

/// The workloads of a plan that are looked at: those whose length and rounds nobody has chosen (`asked`: the trial as it was
/// asked for), that declare no period, and whose runs are at most half as long; where the budget has room, and
/// filesystems are made new here.
fn looked_at(plan: &Plan, asked: &Trial) -> Vec<usize> {
    let is_short = |workload: &Workload| match workload.phases.as_slice() {
        [phase] => {
            let is_free = |group: &fstrial_model::workload::Group| group.rate.is_none();
            phase.until == Until::Time
                && phase.find_rate.is_none()
                && phase.duration.0 * 2 <= LOOK.0
                && phase.groups.iter().all(is_free)
        }
        _ => false,
    };
    let is_open = |index: &usize| {
        let workload = &plan.workloads[*index];
        let nobody_chose = asked.workloads.get(*index).is_some_and(|entry| entry.duration.is_none());
        nobody_chose && asked.trial.rounds.is_none() && workload.period.is_none() && is_short(workload)
    };
    let all: Vec<usize> = (0..plan.workloads.len()).filter(is_open).collect();
    let has_state =
        plan.trial.arms.iter().any(|arm| plan.trial.state_of(arm).unwrap_or_default() != State::default());
    let fits = takes(plan, all.len()).0.saturating_mul(SHARE) <= plan.trial.trial.budget.0;
    if plan.places == [None] && !has_state && fits { all } else { Vec::new() }
}

/// About how long looks at this many workloads take.
fn takes(plan: &Plan, workloads: usize) -> Nanos {
    let each = LOOK.0 + OVERHEAD_GUESS.0;
    Nanos(each.saturating_mul((plan.trial.arms.len() * workloads) as u64))
}

/// How long the looks of a plan take; 0 where there are none.
pub fn time_of(plan: &Plan, asked: &Trial) -> Nanos {
    takes(plan, looked_at(plan, asked).len())
}

/// Looks, and says what was seen. None if it was interrupted.
///
/// # Errors
/// Nobody can be told, or the plan cannot be made longer.
pub fn look(
    plan: &Plan,
    asked: &Trial,
    cpus: u16,
    places: &mut [Box<dyn Place>],
    hear: &mut dyn FnMut(&Event<'_>) -> Result<(), ExpectedError>,
) -> Result<Option<Vec<String>>, ExpectedError> {
    let mut all = Vec::new();
    let looked = looked_at(plan, asked);
    if looked.is_empty() {
        return Ok(Some(all));
    }
    let mut longer = plan.trial.clone();
    looked.iter().for_each(|index| longer.workloads[*index].duration = Some(LOOK));
    let longer = Plan::new(longer, plan.seed, cpus)?;
    for index in looked {
        let name = &plan.workloads[index].name;
        let line =
            format!("pilot: one run of {LOOK} of {name} in each arm, for what a shorter one does not see");
        hear(&Event::Preparing { line: &line })?;
        let mut seen = Vec::new();
        for arm in 0..plan.trial.arms.len() {
            let is_its =
                |cell: &usize| (longer.cells[*cell].arm, longer.cells[*cell].workload) == (arm, index);
            let levels: Vec<usize> = (0..longer.cells.len()).filter(is_its).collect();
            let Some(middle) = levels.get(levels.len() / 2) else { continue };
            match run_once(&longer, places, *middle) {
                None => return Ok(None),
                Some(measured) => {
                    let windows =
                        measured.as_deref().and_then(|found| windows_of(found, &longer.workloads[index]));
                    seen.extend(windows.map(|windows| (plan.trial.arms[arm].name.as_str(), windows)));
                }
            }
        }
        let duration = plan.workloads[index].phases[0].duration;
        let lines = said(name, duration, &seen);
        if lines.is_empty() {
            hear(&Event::Preparing { line: "pilot: no period, and no slope of more than 10 %" })?;
        }
        lines.iter().try_for_each(|line| hear(&Event::Preparing { line }))?;
        all.extend(lines);
    }
    Ok(Some(all))
}

/// Operations in windows of a look, without its warm-up.
struct Windows {
    counts: Vec<f64>,
    step: Nanos,
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn windows_of(measured: &Measurement, workload: &Workload) -> Option<Windows> {
    let Reading::Load(_, load) = &measured.results.first()?.reading else { return None };
    let step = load.series_step;
    let warmup = workload.phases[0].warmup.0.div_ceil(step.0.max(1)) as usize;
    // The last window may be cut short.
    let whole = load.series.len().saturating_sub(1);
    let counts = load.series[..whole].iter().skip(warmup).map(|count| *count as f64).collect();
    Some(Windows { counts, step })
}

/// What was seen in the looks at a workload whose runs last `duration`.
fn said(name: &str, duration: Nanos, seen: &[(&str, Windows)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (arm, windows) in seen {
        if let Some(period) = steady::period(&windows.counts) {
            let period = Nanos(period as u64 * windows.step.0);
            if period.0 * 2 > duration.0 {
                lines.push(format!(
                    "in a pilot of {LOOK}, {arm} repeated itself about every {:.1} s under {name}: runs of {duration} see a \
                     part of that (use --duration {}s)",
                    period.as_secs_f64(),
                    (2 * period.0).div_ceil(1_000_000_000),
                ));
            }
        }
    }
    // A third of a run that repeats itself depends on the part of a period in which it lies.
    let steady = seen.iter().filter(|(_, windows)| steady::period(&windows.counts).is_none());
    let slopes: Vec<_> = steady.map(|(arm, windows)| (*arm, steady::slope(&windows.counts))).collect();
    let is_steep = |slope: f64| slope.ln().abs() > MIN_SLOPE.ln_1p();
    if slopes.iter().any(|(_, slope)| slope.is_some_and(is_steep)) {
        let one = |(arm, slope): &(&str, Option<f64>)| match slope {
            Some(slope) => format!("{arm} {slope:.2}×"),
            None => format!("{arm} up and down"),
        };
        let all: Vec<String> = slopes.iter().map(one).collect();
        lines.push(format!(
            "in a pilot of {LOOK} of {name}, rates changed from the first third to the last: {}; runs of {duration} show how \
             it begins (use a longer --duration, or --lap)",
            all.join(", "),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::workload::Entry;

    fn looked(entry: Entry, budget: u64) -> usize {
        let arms = ["ext4", "xfs"].map(|arm| arm.parse().unwrap()).to_vec();
        let mut trial = Trial { arms, workloads: vec![entry], ..Trial::default() };
        trial.trial.budget = Nanos::secs(budget);
        let plan = Plan::new(trial.settled(2).unwrap(), 1, 2).unwrap();
        looked_at(&plan, &trial).len()
    }

    #[test]
    fn only_short_runs_are_looked_beyond_where_nobody_chose_their_length() {
        let preset = Entry::of_preset;
        assert_eq!(looked(preset("append-fsync"), 300), 1);
        assert_eq!(looked(preset("append-fsync"), 60), 0, "the budget has no room");
        assert_eq!(looked(Entry { duration: Some(Nanos::secs(1)), ..preset("append-fsync") }, 300), 0);
        for other in ["checkpoint-bursts", "postmark", "untar-like", "postgresql-tpcb", "op-snapshot"] {
            if fstrial_model::preset::preset(other).is_some() {
                assert_eq!(looked(preset(other), 300), 0, "{other}");
            }
        }
    }

    fn windows(of: impl Fn(usize) -> f64) -> Windows {
        Windows { counts: (0..120).map(of).collect(), step: Nanos::millis(100) }
    }

    #[test]
    fn what_a_short_run_does_not_see_is_said_with_its_direction() {
        let steady = || windows(|_| 100.0);
        let bursts = windows(|at| if at % 50 < 25 { 20.0 } else { 130.0 });
        let lines = said("w", Nanos::secs(1), &[("ext4", steady()), ("xfs", bursts)]);
        assert!(
            lines[0].starts_with("in a pilot of 12s, xfs repeated itself about every 5.0 s under w"),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("(use --duration 10s)"), "{lines:?}");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let falling = windows(|at| 100.0 - at as f64 / 4.0);
        let lines = said("w", Nanos::secs(1), &[("ext4", steady()), ("btrfs", falling)]);
        assert!(lines[0].contains("ext4 1.00×, btrfs 0.79×; runs of 1s"), "{lines:?}");
        assert_eq!(said("w", Nanos::secs(1), &[("ext4", steady())]), Vec::<String>::new());
    }
}
