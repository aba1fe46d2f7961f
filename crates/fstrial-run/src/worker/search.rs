//! The search for a rate on a filesystem that is ready: each step is a load, laid out and run as any other.

use super::{MIN_LAYOUT_BYTES_PER_SECOND, Run, check_errors, load_failure};
use crate::{
    failure::engine_failure,
    find_rate::{self, RateStep, SearchError},
    sample::latency,
};
use fstrial_engine::Site;
use fstrial_model::{
    counter::Counters,
    job::{FailureKind, Load, PhaseTask, RunFailure, space_of_loads},
    measurement::{LoadResult, PhaseResult, Reading, Stage, Value},
    unit,
    units::Nanos,
    workload::{Arrivals, Rate, RateTarget},
};
use fstrial_stack::stack::ReadyArm;

impl Run<'_> {
    /// Searches for the highest rate at which the group of the wanted result keeps a promise. The others work along.
    pub(super) fn find_rate(
        &mut self,
        phase: &PhaseTask,
        target: &RateTarget,
        site: &mut Site<'_>,
        ready_arm: &mut ReadyArm,
    ) -> Result<Option<PhaseResult>, RunFailure> {
        let searched =
            phase.groups.iter().enumerate().find_map(|(at, group)| Some((at, group.result.clone()?)));
        let Some((at, name)) = searched else { return Ok(None) };
        let loads: Vec<Load> = phase.groups.iter().map(|group| group.load.clone()).collect();
        let bytes = space_of_loads(loads.iter()).0;
        self.enter(Stage::Layout, Nanos::secs(120 + bytes / MIN_LAYOUT_BYTES_PER_SECOND));
        let mut prepared = site.prepare(&loads).map_err(|e| engine_failure(Stage::Layout, &e))?;
        self.enter(Stage::Settle, Nanos::secs(300 + bytes / MIN_LAYOUT_BYTES_PER_SECOND));
        ready_arm.settle().map_err(|e| self.failed(&e))?;
        let matched = find_rate::search(target, loads[at].duration, &mut |step| {
            self.enter(Stage::Load, Nanos(loads[at].warmup.0 + step.duration.0 + Nanos::secs(120).0));
            let rate = step.offered.map(|per_second| Rate { per_second, arrivals: Arrivals::Poisson });
            let results = prepared.run_at(at, rate, step.duration, &mut |_| {});
            let results = results.map_err(|e| engine_failure(Stage::Load, &e))?;
            // That nothing was done at a rate is an answer too.
            results.iter().try_for_each(check_errors)?;
            seen(&results[at], target)
        });
        let matched = matched.map_err(|error| unfound(error, target))?;
        let output = self.output.get_or_insert_default();
        output.push_str(&matched.steps);
        let value = Value { value: matched.rate, unit: unit::OPERATIONS.into(), less_is_better: false };
        let reading = Reading::Value(value);
        Ok(Some(PhaseResult { name, reading, counters: Counters::default() }))
    }
}

/// Outcome of a search without a rate for its arm.
fn unfound(error: SearchError<RunFailure>, target: &RateTarget) -> RunFailure {
    match error {
        SearchError::Measurement(failure) => failure,
        SearchError::None(steps) => load_failure(
            format!("no rate keeps {target}:\n{steps}"),
            "promise less: a longer time, or a lower quantile",
        ),
        SearchError::TooFew { rate, operations, least, steps } => load_failure(
            format!(
                "whether {rate:.3}/s keep {target} cannot be decided with {operations} operations: {least} are needed; no rate above \
                 keeps it:\n{steps}"
            ),
            "promise a lower quantile, or have rates offered for longer, such as --duration 5m",
        ),
    }
}

/// The figures of a rate step.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn seen(result: &LoadResult, target: &RateTarget) -> Result<RateStep, RunFailure> {
    if result.operations == 0 {
        return Ok(RateStep { served: 0.0, latency: Nanos(u64::MAX), operations: 0 });
    }
    let latency = latency(result, target.quantile).map_err(|what| RunFailure {
        kind: FailureKind::Lost,
        stage: Stage::Load,
        what,
        hint: None,
    })?;
    let served = result.operations as f64 / result.duration.as_secs_f64();
    Ok(RateStep { served, latency: Nanos(latency), operations: result.operations })
}
