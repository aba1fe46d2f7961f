//! What should be known about what was measured: warm-ups that were too short, generators that were the limit.

use super::judge::Judge;
use fstrial_model::workload::Until;
use fstrial_stats::{
    spread,
    steady::{self, Steady},
};

/// From this share of a core on, the generator's own work is said with the result.
const GENERATOR_LIMIT: f64 = 0.25;

impl Judge<'_> {
    /// Warnings about what was measured: warm-ups that were too short, generators that were the limit; each with what to
    /// do about it.
    pub fn warnings(&self) -> Vec<String> {
        let all =
            || (0..self.samples.len()).flat_map(|cell| (0..self.samples[cell].len()).map(move |n| (cell, n)));
        let checked: Vec<_> = all().filter_map(|at| Some((at, self.steadiness(at)?))).collect();
        let warn = |what: &str, remedy: &str, found: Vec<(usize, usize)>, of: usize| {
            let names: Vec<String> = found.iter().map(|(cell, n)| self.plan.result_name(*cell, *n)).collect();
            let some = names.len();
            (some > 0).then(|| format!("{what} in {some} of {of} cells ({remedy}): {}", names.join(", ")))
        };
        let steady = |what: &str, remedy: &str, is: fn(&Steady) -> bool| {
            let found = checked.iter().filter(|(_, steady)| is(steady)).map(|(at, _)| *at).collect();
            warn(what, remedy, found, checked.len())
        };
        let warming = steady("still warming up when the clock started", "use a longer --warmup", |steady| {
            matches!(steady, Steady::StillWarming { .. })
        });
        let unsteady = steady("no steady state within a run", "use a longer --duration", |steady| {
            matches!(steady, Steady::NoSteadyState)
        });
        // Whoever waits for the time at which a request is due watches the clock for it.
        let waits = |(cell, result): (usize, usize)| {
            let workload = &self.plan.workloads[self.plan.cells[cell].workload];
            let phase = workload.phase_of(result);
            phase.is_some_and(|phase| phase.groups.iter().any(|group| group.rate.is_some()))
        };
        let is_limit = |at: &(usize, usize)| self.generator_share(*at) >= GENERATOR_LIMIT && !waits(*at);
        let busy: Vec<_> = all().filter(is_limit).collect();
        let limit = warn(
            "the load generator itself used much of its cores, so a part of what was measured is its own work",
            "use a larger block_size, or see the CPU columns",
            busy,
            all().count(),
        );
        warming.into_iter().chain(unsteady).chain(limit).collect()
    }

    /// The median share of a core that each thread of the generator used outside the kernel; 0 where it is not known.
    pub fn generator_share(&self, (cell, result): (usize, usize)) -> f64 {
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        spread::median(&loads.map(|load| load.generator_share).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Whether a cell had reached a steady state when the clock started; none with too few rounds, and none for work
    /// that ends when it is done.
    fn steadiness(&self, (cell, result): (usize, usize)) -> Option<Steady> {
        let workload = &self.plan.workloads[self.plan.cells[cell].workload];
        let phase =
            workload.phases.iter().flat_map(|phase| phase.results().map(move |_| phase)).nth(result)?;
        if phase.until == Until::Done {
            return None;
        }
        let loads = self.samples[cell][result].iter().filter_map(|sample| sample.load.as_ref());
        let runs: Vec<Vec<f64>> = loads.map(|load| load.steady_windows.clone()).collect();
        let total = (phase.warmup.0 + phase.duration.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a fraction for comparison")]
        let warmup_windows = phase.warmup.0 as f64 / total as f64 * steady::WINDOWS as f64;
        steady::judge(&runs, warmup_windows)
    }
}
