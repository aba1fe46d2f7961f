//! Warnings about measurements: unsteady runs, order effects, generators at their limit.

use super::{
    cell::{Contrast, Of},
    judge::Judge,
    panels::ALPHA,
};
use crate::numbers::counted;
use fstrial_model::{
    metric::Metric,
    unit,
    workload::{TooShort, Until, Workload},
};
use fstrial_stats::{
    shift::{Shift, shift},
    spread,
    steady::{self, Drift},
};

/// From this share of a core on, the generator's own work is reported with the result.
const GENERATOR_LIMIT: f64 = 0.25;
/// A drift within a run that matters.
const MIN_DRIFT: f64 = 0.03;
/// Share of the offered rate from which on a cell keeps up: Poisson arrivals vary.
const KEPT_UP: f64 = 0.9;
/// Minimum of rounds in either order for a test of the order.
const MIN_ROUNDS_PER_ORDER: usize = 4;

/// Warning of runs shorter than two periods of their workload.
pub fn within_a_period(workload: &Workload) -> Option<String> {
    let TooShort { duration, period, least } = workload.shorter_than_its_clock()?;
    Some(format!(
        "runs of {} of {duration} are too short: it declares a period of {period}, and figures depend on the part of it that a \
         run sees, such as one checkpoint (use a duration of {least} or more)",
        workload.name,
    ))
}

impl Judge<'_> {
    /// Warnings about the measurements, each with a remedy. Each kind has a false-alarm rate of at most 5 % of trials.
    pub fn warnings(&self) -> Vec<String> {
        let all =
            || (0..self.samples.len()).flat_map(|cell| (0..self.samples[cell].len()).map(move |n| (cell, n)));
        let warn = |what: &str, remedy: &str, names: Vec<String>, of: String| {
            let some = names.len();
            (some > 0).then(|| format!("{what} in {some} of {of}, {}; {remedy}", names.join(", ")))
        };
        let checked: Vec<_> = all().filter_map(|at| Some((at, self.drift(at)?))).collect();
        #[expect(clippy::cast_precision_loss, reason = "a handful of cells")]
        let level = ALPHA / checked.len().max(1) as f64;
        let drifts =
            checked.iter().filter(|(_, drift)| drift.p <= level && drift.log.abs() > MIN_DRIFT.ln_1p());
        let drifting = drifts.map(|((cell, result), drift)| {
            let percent = drift.log.exp_m1() * 100.0;
            format!("{} ({percent:+.0} %)", self.plan.result_name(*cell, *result))
        });
        let drifting = warn(
            "the rate at the end of the measured time differs from that at its beginning",
            "use a longer warm-up, or a longer --duration if it never settles, as with copy-on-write",
            drifting.collect(),
            format!("{} with enough rounds to decide", counted(checked.len(), "cell")),
        );
        // Anyone who waits for the time at which a request is due watches the clock for it.
        let waits = |(cell, result): (usize, usize)| {
            let workload = &self.plan.workloads[self.plan.cells[cell].workload];
            let phase = workload.phase_of(result);
            phase.is_some_and(|phase| phase.groups.iter().any(|group| group.rate.is_some()))
        };
        let is_limit = |at: &(usize, usize)| self.generator_share(*at) >= GENERATOR_LIMIT && !waits(*at);
        let busy = all().filter(is_limit).map(|(cell, result)| self.plan.result_name(cell, result)).collect();
        let limit = warn(
            "the load generator itself used much of its cores, so its own work is part of the figures",
            "use a larger block_size, or see the CPU columns",
            busy,
            counted(all().count(), "cell"),
        );
        let behind = all().filter_map(|at| self.behind(at)).collect();
        let behind = warn(
            "not all that was offered was done, and latencies are those of a queue that grows as long as a run lasts",
            "offer less, or look for the rate that is kept up with (--find-rate)",
            behind,
            counted(all().count(), "cell"),
        );
        let within = self.plan.workloads.iter().filter_map(within_a_period);
        within.chain(drifting).chain(self.order_warning()).chain(behind).chain(limit).collect()
    }

    /// A cell that did not keep up with the rate that it was offered, and the share that it did.
    fn behind(&self, (cell, result): (usize, usize)) -> Option<String> {
        let kind = &self.plan.results[self.plan.cells[cell].workload][result];
        let (offered, is_count) = (kind.offered_rate?, kind.unit == unit::OPERATIONS);
        let rates: Vec<f64> = self.samples[cell][result].iter().map(|sample| sample.rate).collect();
        let share = spread::median(&rates).filter(|_| is_count)? / offered;
        let name = self.plan.result_name(cell, result);
        (share < KEPT_UP).then(|| format!("{name} ({:.0} % of {offered}/s)", share * 100.0))
    }

    /// The median share of a core that each thread of the generator used outside the kernel; 0 if unknown.
    pub fn generator_share(&self, (cell, result): (usize, usize)) -> f64 {
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        spread::median(&loads.map(|load| load.generator_share).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Drift of a cell over its runs; none with too few rounds, and none for work that ends when it is done.
    fn drift(&self, (cell, result): (usize, usize)) -> Option<Drift> {
        let workload = &self.plan.workloads[self.plan.cells[cell].workload];
        let phase =
            workload.phases().iter().flat_map(|phase| phase.results().map(move |_| phase)).nth(result)?;
        if phase.until == Until::Done {
            return None;
        }
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        let runs: Vec<&[f64]> = loads.map(|load| load.steady_windows.as_slice()).collect();
        let total = (phase.warmup.0 + phase.duration.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a fraction of some windows")]
        let warmup_windows = phase.warmup.0 as f64 / total as f64 * steady::WINDOWS as f64;
        steady::drift(&runs, warmup_windows)
    }

    /// Reports an effect of the order of two cells. The order is random, so that it favours neither; but carry-over
    /// from the first to the second makes rounds differ, and its cause may be worth removing.
    fn order_warning(&self) -> Option<String> {
        let of_two = |contrast: &&Contrast| {
            contrast.of == Of::Ratio && contrast.a != contrast.b && contrast.metric == Metric::Throughput
        };
        let checked: Vec<_> = self
            .plan
            .contrasts
            .iter()
            .filter(of_two)
            .filter_map(|contrast| Some((contrast, self.order_effect(contrast)?)))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "thousands of contrasts")]
        let level = ALPHA / checked.len().max(1) as f64;
        let matched = checked.iter().filter(|(_, shift)| shift.p <= level);
        let reported: Vec<String> = matched
            .map(|(contrast, shift)| {
                let name = |cell, result| self.plan.result_name(cell, result);
                // From the one order to the other it counts twice.
                let percent = (shift.estimate / 2.0).exp_m1() * 100.0;
                let [a, b] = [name(contrast.a, contrast.result_a), name(contrast.b, contrast.result_b)];
                format!("{a} / {b} ({percent:+.0} %)")
            })
            .collect();
        (!reported.is_empty()).then(|| {
            format!(
                "the first of two runs differs from the second in {} of {}, which favours neither as the order is drawn, but costs \
                 rounds: {}",
                reported.len(),
                counted(checked.len(), "comparison"),
                reported.join(", ")
            )
        })
    }

    /// Shift of two cells' ratio between rounds in which the first of them ran first and others; none if one of the two
    /// orders was drawn too seldom.
    fn order_effect(&self, contrast: &Contrast) -> Option<Shift> {
        let mut logs: [Vec<f64>; 2] = Default::default();
        for (a, b) in self.pairs(contrast).filter(|(a, b)| a.slot != b.slot) {
            logs[usize::from(a.slot < b.slot)].push((a.rate / b.rate).ln());
        }
        let [second, first] = logs;
        let enough = first.len().min(second.len()) >= MIN_ROUNDS_PER_ORDER;
        shift(&second, &first, ALPHA).filter(|_| enough)
    }
}
