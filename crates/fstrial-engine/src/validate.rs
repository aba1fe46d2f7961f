//! Validation of a load: a pure check, before anything is touched.

use crate::{EngineError, error::refuse, patterns::routine};
use fstrial_model::{job::Load, units::Nanos, workload::Until};

/// Threads of one load at most.
const MAX_THREADS: u16 = 1024;
/// Warm-up and measured time at most: 30 days.
const MAX_TIME: Nanos = Nanos::secs(30 * 86_400);
/// Measured time at least: ten windows of 0.1 ms.
const MIN_TIME: Nanos = Nanos::millis(1);

/// Checks that the engine can do a load, in a directory or on a bare block device. Looks at nothing but the load.
///
/// # Errors
/// [`EngineError::Impossible`] names the combination that makes no sense, with a hint.
pub fn validate(load: &Load, block_device: bool) -> Result<(), EngineError> {
    if load.threads == 0 || load.threads > MAX_THREADS {
        return refuse(
            format!("a load has 1 to {MAX_THREADS} threads, not {}", load.threads),
            "change threads",
        );
    }
    if load.duration < MIN_TIME || load.duration > MAX_TIME || load.warmup > MAX_TIME {
        let problem = format!("cannot measure {} after a warm-up of {}", load.duration, load.warmup);
        return refuse(problem, "measure 1ms to 30d, after a warm-up of at most 30d");
    }
    if load.until == Until::Done && !load.pattern.ends() {
        return refuse("the operations of the threads never end", "leave out until = \"done\"");
    }
    if let Some(problem) = load.rate.and_then(|rate| rate.problem()) {
        return refuse(format!("the offered rate makes no sense: {problem}"), "write rate = \"5000/s\"");
    }
    routine(&load.pattern).validate(load.threads, block_device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{io, load_of};

    #[test]
    fn threads_and_times_have_limits() {
        assert!(validate(&load_of(io(), 0), false).is_err());
        assert!(validate(&load_of(io(), 1025), false).is_err());
        for (warmup, duration) in [(0, 0), (0, 999_999), (u64::MAX, 1 << 30), (0, u64::MAX)] {
            let mut load = load_of(io(), 1);
            (load.warmup, load.duration) = (Nanos(warmup), Nanos(duration));
            assert!(validate(&load, false).is_err());
        }
    }
}
