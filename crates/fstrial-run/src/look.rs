//! Looks beyond the length of a run: one long run in each arm before the first round (`pilot` in `[trial]`). A load may
//! have an undeclared cycle, such as a checkpoint, and a filesystem may slow down as it fills: a run that is
//! shorter sees neither.

use super::{
    forecast::cell_time,
    plan::{Plan, threads_in_words},
};
use crate::numbers;
use fstrial_model::{
    measurement::{Measurement, Reading},
    units::Nanos,
    workload::{Until, Workload},
};
use fstrial_stats::steady;
use std::ops::RangeInclusive;

/// The length of a look where fstrial chooses it: it finds periods of less than half of it.
pub const LOOK: Nanos = Nanos::secs(12);
/// The budget is at least this many times the time of all looks.
const SHARE: u64 = 5;
/// A change from the first third of a look to its last that is worth a word.
const MIN_CHANGE: f64 = 0.1;

/// The looks of a plan: as many of its workloads as a fifth of the budget has room for, in their order.
pub struct Looks {
    /// The plan with runs of their length.
    pub longer: Plan,
    /// Length of each.
    pub length: Nanos,
    /// For each workload that is looked at, the cells that are run: its middle level (the higher of two) in each arm.
    pub cells: Vec<Vec<usize>>,
}

impl Looks {
    /// Those of a plan. Looked at are workloads of one phase that lasts a time, at most half as long as a look, without a
    /// rate and without a period that they declare; in filesystems that are made here.
    pub fn of(plan: &Plan) -> Option<Self> {
        let mut looks = Self::wanted(plan)?;
        let wanted = std::mem::take(&mut looks.cells);
        for cells in wanted {
            looks.cells.push(cells);
            if !looks.fit(looks.time()) {
                looks.cells.pop();
            }
        }
        (!looks.cells.is_empty()).then_some(looks)
    }

    /// The reason why a plan with workloads for pilots has none, as text; none if it has.
    pub fn no_room(plan: &Plan) -> Option<String> {
        let wanted = Self::wanted(plan).filter(|_| Self::of(plan).is_none())?;
        let least = wanted.cells.iter().map(|cells| wanted.time_of(cells).0).min()?;
        let budget = numbers::budget(Nanos(least.saturating_mul(SHARE)).as_secs_f64());
        let (length, least) = (wanted.length, numbers::wait(Nanos(least).as_secs_f64()));
        Some(format!(
            "no pilot: a run of {length} in each arm, {least} in all, is more than a fifth of the budget; --budget {budget} has room"
        ))
    }

    /// The looks that a plan would have if its budget had room.
    fn wanted(plan: &Plan) -> Option<Self> {
        let length = plan.trial.trial.pilot.filter(|_| plan.places == [None])?;
        let chosen: Vec<usize> =
            (0..plan.workloads.len()).filter(|index| is_short(&plan.workloads[*index], length)).collect();
        let mut longer = plan.trial.clone();
        chosen.iter().for_each(|index| longer.workloads[*index].lasts(length));
        let longer = Plan::new(longer.settled(plan.cpus).ok()?, plan.seed).ok()?;
        let mut looks = Self { longer, length, cells: Vec::new() };
        looks.cells = chosen.into_iter().map(|workload| looks.cells_of(workload)).collect();
        looks.cells.retain(|cells| !cells.is_empty());
        (!looks.cells.is_empty()).then_some(looks)
    }

    fn cells_of(&self, workload: usize) -> Vec<usize> {
        let levels = &self.longer.workloads[workload].threads;
        let level = levels[levels.len() / 2];
        let is_one = |cell: &usize| {
            let at = &self.longer.cells[*cell];
            let makes_a_filesystem = self.longer.trial.arms[at.arm].row().is_some();
            (at.workload, at.threads) == (workload, level)
                && makes_a_filesystem
                && !self.longer.is_control(*cell)
        };
        (0..self.longer.cells.len()).filter(is_one).collect()
    }

    /// About how long all of them take.
    pub fn time(&self) -> Nanos {
        Nanos(self.cells.iter().map(|cells| self.time_of(cells).0).fold(0, u64::saturating_add))
    }

    fn time_of(&self, cells: &[usize]) -> Nanos {
        let all = cells.iter().map(|cell| cell_time(&self.longer, *cell).0.0);
        Nanos(all.fold(0, u64::saturating_add))
    }

    /// True if this much time fits their share of the budget.
    pub fn fit(&self, time: Nanos) -> bool {
        time.0.saturating_mul(SHARE) <= self.longer.trial.trial.budget.0
    }

    /// The workload of a cell with its level: `create-files at 2 threads`.
    pub fn title(&self, cell: usize) -> String {
        self.at_level(cell, &self.longer.workloads[self.longer.cells[cell].workload].name)
    }

    fn at_level(&self, cell: usize, title: &str) -> String {
        format!("{title} at {}", threads_in_words(self.longer.cells[cell].threads))
    }

    /// Observations in a cell's pilot.
    pub fn seen(&self, cell: usize, measured: &Measurement) -> Vec<Seen> {
        let at = &self.longer.cells[cell];
        let warmup = self.longer.workloads[at.workload].phases()[0].warmup;
        let results = measured.results.iter().enumerate();
        let seen = results.filter_map(|(index, result)| {
            let Reading::Load(_, load) = &result.reading else { return None };
            let (step, windows) = (load.series_step, windows(&load.series, load.series_step, warmup));
            Some(Seen {
                arm: self.longer.arm_name(cell).to_owned(),
                title: self.at_level(cell, &self.longer.title(at.workload, index)),
                periods: steady::periods(windows.len()),
                step,
                period: steady::period(&windows).map(|windows| Nanos(windows as u64 * step.0)),
                slope: steady::slope(&windows),
            })
        });
        seen.collect()
    }

    /// Warnings about observations, for runs of `duration`; empty without any.
    pub fn lines(&self, duration: Nanos, seen: &[Seen]) -> Vec<String> {
        let length = self.length;
        let unseen = |seen: &&Seen| seen.period.is_some_and(|period| period.0 * 2 > duration.0);
        let periods = seen.iter().filter(unseen).map(|Seen { arm, title, period, .. }| {
            let period = period.unwrap_or_default();
            format!(
                "in a pilot of {length} of {title}, {arm} repeated itself about every {:.1} s: runs of {duration} see a part \
                 of that (let them last {} s)",
                period.as_secs_f64(),
                (2 * period.0).div_ceil(1_000_000_000),
            )
        });
        let mut titles: Vec<&str> = seen.iter().map(|seen| seen.title.as_str()).collect();
        // Each arm has all of them.
        titles.sort_unstable();
        titles.dedup();
        let slopes = titles.into_iter().filter_map(|title| {
            // A third of a periodic run depends on its phase.
            let of_it = || seen.iter().filter(|seen| seen.title == title && seen.period.is_none());
            let is_steep = |seen: &Seen| seen.slope.is_some_and(|slope| (slope - 1.0).abs() > MIN_CHANGE);
            of_it().any(is_steep).then(|| {
                let one = |seen: &Seen| match seen.slope {
                    Some(slope) => format!("{} {slope:.2}×", seen.arm),
                    None => format!("{} no trend", seen.arm),
                };
                let all: Vec<String> = of_it().map(one).collect();
                format!(
                    "in a pilot of {length} of {title}, the rate went from the first third to the last: {}; runs of \
                     {duration} show the beginning (a longer --duration or warm-up shows more)",
                    all.join(", "),
                )
            })
        });
        periods.chain(slopes).collect()
    }

    /// Statement that nothing was found, with the effects looked for.
    pub fn nothing(&self, seen: &[Seen]) -> String {
        let seconds = |seen: &Seen, windows: usize| Nanos(seen.step.0 * windows as u64).as_secs_f64();
        let least = seen.iter().map(|seen| seconds(seen, *seen.periods.start())).fold(0.0, f64::max);
        let most = seen.iter().map(|seen| seconds(seen, *seen.periods.end())).fold(f64::INFINITY, f64::min);
        let percent = MIN_CHANGE * 100.0;
        format!(
            "pilot: in a run of {} in each arm no rate rose or fell by more than {percent:.0} %, or went up and down with a period of \
             {least:.1} to {most:.1} s",
            self.length
        )
    }
}

/// An observation in a pilot.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    arm: String,
    /// The result, with its level.
    title: String,
    /// The periods that were looked for, in windows of `step`.
    periods: RangeInclusive<usize>,
    step: Nanos,
    /// After this long it repeats itself.
    period: Option<Nanos>,
    /// Its rate in the last third over that in the first, if it rises or falls.
    slope: Option<f64>,
}

fn is_short(workload: &Workload, look: Nanos) -> bool {
    let [phase] = workload.phases() else { return false };
    let is_free = phase.find_rate.is_none() && phase.groups.iter().all(|group| group.rate.is_none());
    let is_short = phase.until == Until::Time && phase.duration.0.saturating_mul(2) <= look.0;
    is_free && is_short && workload.longest_period().is_none()
}

/// Operations in windows of a look, without its warm-up and without the last one, which may be cut short.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn windows(series: &[u64], step: Nanos, warmup: Nanos) -> Vec<f64> {
    let first = usize::try_from(warmup.0.div_ceil(step.0.max(1))).unwrap_or(usize::MAX);
    let whole = series.len().saturating_sub(1);
    series[..whole].iter().skip(first).map(|count| *count as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{trial::Trial, workload::Entry};

    fn plan(entries: &[Entry], budget: u64) -> Plan {
        let arms = ["ext4", "xfs"].map(|arm| arm.parse().unwrap()).to_vec();
        let mut trial = Trial { arms, workloads: entries.to_vec(), ..Trial::default() };
        (trial.trial.budget, trial.trial.pilot) = (Nanos::secs(budget), Some(LOOK));
        trial.trial.control = true;
        Plan::new(trial.settled(2).unwrap(), 1).unwrap()
    }

    fn titles(entries: &[Entry], budget: u64) -> Vec<String> {
        let Some(looks) = Looks::of(&plan(entries, budget)) else { return Vec::new() };
        let cells = looks.cells.iter();
        cells.map(|cells| format!("{} ×{}", looks.title(cells[0]), cells.len())).collect()
    }

    #[test]
    fn short_runs_without_a_clock_of_their_own_are_looked_beyond_as_far_as_the_budget_has_room() {
        let preset = Entry::of_preset;
        // The control is not one of the user's arms.
        assert_eq!(titles(&[preset("append-fsync")], 300), ["append-fsync at 2 threads ×2"]);
        assert_eq!(titles(&[preset("append-fsync")], 60), [""; 0]);
        assert_eq!(
            Looks::no_room(&plan(&[preset("append-fsync")], 60)).unwrap(),
            "no pilot: a run of 12s in each arm, 26 s in all, is more than a fifth of the budget; --budget 3m has room"
        );
        assert_eq!(Looks::no_room(&plan(&[preset("append-fsync")], 300)), None);
        assert_eq!(Looks::no_room(&plan(&[preset("checkpoint-bursts")], 60)), None);
        let three = ["append-fsync", "create-files", "random-write"].map(preset);
        assert_eq!(titles(&three, 300).len(), 2);
        assert_eq!(titles(&three, 3000).len(), 3);
        for other in ["checkpoint-bursts", "real-postmark", "mdtest", "postgresql-tpcb", "videoserver"] {
            assert_eq!(titles(&[preset(other)], 3000), [""; 0], "{other}");
        }
        let long = Entry { duration: Some(Nanos::secs(7)), ..preset("append-fsync") };
        assert_eq!(titles(&[long], 3000), [""; 0]);
        let warm = Entry { warmup: Some(Nanos::secs(100)), ..preset("append-fsync") };
        assert_eq!(titles(std::slice::from_ref(&warm), 300), [""; 0]);
        assert_eq!(titles(&[warm], 3000).len(), 1);
        let looks = Looks::of(&plan(&[preset("append-fsync")], 300)).unwrap();
        assert_eq!(looks.longer.workloads[0].phases()[0].duration, LOOK);
    }

    #[test]
    fn a_warm_up_and_the_last_window_are_no_part_of_a_look() {
        assert_eq!(windows(&[9, 9, 9, 1, 2, 3], Nanos::millis(100), Nanos::millis(250)), [1.0, 2.0]);
        assert_eq!(windows(&[], Nanos::millis(100), Nanos(0)), [0.0; 0]);
        assert_eq!(windows(&[1], Nanos::millis(100), Nanos::secs(1)), [0.0; 0]);
    }

    #[test]
    fn pilot_reports_trends_and_periods_beyond_run() {
        let looks = Looks::of(&plan(&[Entry::of_preset("append-fsync")], 300)).unwrap();
        let seen = |arm: &str, period: Option<u64>, slope: Option<f64>| Seen {
            arm: arm.into(),
            title: "w at 1 thread".into(),
            periods: steady::periods(119),
            step: Nanos::millis(100),
            period: period.map(Nanos::secs),
            slope,
        };
        let duration = Nanos::secs(1);
        let lines = looks.lines(duration, &[seen("ext4", None, Some(1.05)), seen("xfs", Some(5), Some(1.3))]);
        assert_eq!(
            lines,
            [
                "in a pilot of 12s of w at 1 thread, xfs repeated itself about every 5.0 s: runs of 1s see a part of that (let \
              them last 10 s)"
            ]
        );
        assert_eq!(looks.lines(Nanos::secs(10), &[seen("xfs", Some(5), None)]), [""; 0]);
        let lines = looks.lines(duration, &[seen("ext4", None, None), seen("btrfs", None, Some(0.79))]);
        assert!(lines[0].contains("to the last: ext4 no trend, btrfs 0.79×; runs of 1s"), "{lines:?}");
        assert_eq!(looks.lines(duration, &[seen("ext4", None, Some(0.91))]), [""; 0]);
        // Of two results one after the other in each arm, each has one line.
        let of_two = |arm: &str| {
            let other = Seen { title: "w, other at 1 thread".into(), ..seen(arm, None, Some(0.5)) };
            [seen(arm, None, Some(0.5)), other]
        };
        assert_eq!(looks.lines(duration, &[of_two("ext4"), of_two("xfs")].concat()).len(), 2);
        assert!(
            looks
                .nothing(&[seen("ext4", None, None)])
                .contains("a run of 12s in each arm no rate rose or fell by more than 10 %, or went up and down with a period of 0.5 to 5.8 s")
        );
    }
}
