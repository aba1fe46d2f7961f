//! The highest rate that keeps a promise about latency: a search over offered rates, each offered for a while.
//!
//! The closed loop gives an upper bound of the rate. Lower rates keep the promise or break it: the rate is halved until
//! one keeps it, then bisected, on a logarithmic scale, until the two sides are 3 % apart. A rate is kept if the
//! quantile of latency (counted from the time a request was due) is below the promise and the rate was really served:
//! 98 % of it, less three standard deviations of the number of random arrivals.
//!
//! The duration of a step follows from its rate: until there are five operations beyond the quantile, as far as the
//! longest step allows. If that is too short, the available ones count, down to one operation expected beyond the
//! quantile; with fewer a rate can be shown to break the promise, but not to keep it.

use fstrial_model::{units::Nanos, workload::RateTarget};
use std::fmt::Write;

/// Measurements at most, the closed loop among them.
const MAX_STEPS: u64 = 16;
/// The search ends when the rate that breaks the promise is less than this above the one that keeps it.
const CLOSE_ENOUGH: f64 = 1.03;
/// Share of the offered operations that must be served.
const SERVED: f64 = 0.98;
/// Below this share of the closed loop's rate nothing is looked for.
const MIN_SHARE: f64 = 1.0 / 1024.0;
/// Operations beyond a quantile that make it meaningful.
const BEYOND: f64 = 5.0;
/// Operations of the closed loop that determine its speed; with fewer it is measured again, for longer.
const FEW: u64 = 30;
/// Allowance on the mean time of a step's operations: arrivals are random.
const SPARE: f64 = 1.25;
/// A rate is offered for at most this long, or for the workload's own duration if that is longer.
pub(crate) const MAX_STEP: Nanos = Nanos::secs(60);

/// A measurement: an offered rate, or none for the closed loop, and its duration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateProbe {
    pub offered: Option<f64>,
    pub duration: Nanos,
}

/// Result at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateStep {
    /// Operations per second that were served.
    pub served: f64,
    /// The quantile of their latency.
    pub latency: Nanos,
    pub operations: u64,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SustainedRate {
    /// Operations per second: the highest rate that kept the promise.
    pub rate: f64,
    /// Every step, as text.
    pub steps: String,
}

/// A search without a rate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SearchError<E> {
    Measurement(E),
    /// Even the lowest rate broke the promise; every step, as text.
    None(String),
    /// None of the rates above kept the promise, and this one has too few operations to decide.
    TooFew {
        rate: f64,
        /// Their number, and the minimum.
        operations: u64,
        least: u64,
        steps: String,
    },
}

/// Looks for the highest rate. `own` is how long the workload measures: no step is shorter. `measure` does a step.
///
/// # Errors
/// See [`SearchError`].
pub(crate) fn search<E>(
    target: &RateTarget,
    own: Nanos,
    measure: &mut dyn FnMut(RateProbe) -> Result<RateStep, E>,
) -> Result<SustainedRate, SearchError<E>> {
    let closed = closed_loop(own, measure).map_err(SearchError::Measurement)?;
    let mut steps = format!("closed loop: {:.0}/s, {}\n", closed.served, quantile(target, closed.latency));
    let (mut keeps, mut breaks) = (None, closed.served);
    let mut offered = closed.served / 2.0;
    for _ in 1..MAX_STEPS {
        if keeps.is_some_and(|keeps| breaks / keeps <= CLOSE_ENOUGH) {
            break;
        }
        // Nothing was served at all, or nothing is left to offer.
        if closed.operations == 0 || offered < closed.served * MIN_SHARE {
            return Err(SearchError::None(steps));
        }
        let step = RateProbe { offered: Some(offered), duration: duration(target, offered, own) };
        let seen = measure(step).map_err(SearchError::Measurement)?;
        let kept = seen.latency < target.below && is_served(offered, seen);
        let least = operations_beyond(target, 1.0);
        if kept && seen.operations < least {
            return Err(SearchError::TooFew { rate: offered, operations: seen.operations, least, steps });
        }
        steps.push_str(&words(target, step, seen, kept));
        if kept {
            keeps = Some(offered);
        } else {
            breaks = offered;
        }
        offered = keeps.map_or(breaks / 2.0, |keeps| (keeps * breaks).sqrt());
    }
    match keeps {
        Some(rate) => Ok(SustainedRate { rate, steps }),
        None => Err(SearchError::None(steps)),
    }
}

/// The closed loop, measured again for longer if it is too slow to determine its speed.
#[expect(clippy::cast_precision_loss, reason = "a count below FEW, and nanoseconds of minutes")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the two ends")]
fn closed_loop<E>(
    own: Nanos,
    measure: &mut dyn FnMut(RateProbe) -> Result<RateStep, E>,
) -> Result<RateStep, E> {
    let seen = measure(RateProbe { offered: None, duration: own })?;
    if seen.operations >= FEW {
        return Ok(seen);
    }
    let longer = own.0 as f64 * FEW as f64 / seen.operations.max(1) as f64 * SPARE;
    let duration = Nanos((longer as u64).clamp(own.0, longest(own).0));
    if duration == own { Ok(seen) } else { measure(RateProbe { offered: None, duration }) }
}

/// The longest that one rate is offered.
fn longest(own: Nanos) -> Nanos {
    own.max(MAX_STEP)
}

/// Duration of a step: for enough operations, not shorter than the workload measures, not longer than the longest.
#[expect(clippy::cast_precision_loss, reason = "at most five million")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the two ends")]
fn duration(target: &RateTarget, offered: f64, own: Nanos) -> Nanos {
    let wanted = operations_beyond(target, BEYOND) as f64 * SPARE / offered * 1e9;
    Nanos((wanted as u64).clamp(own.0, longest(own).0))
}

/// Operations of which this many are expected beyond the quantile.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most five million")]
fn operations_beyond(target: &RateTarget, beyond: f64) -> u64 {
    // Rounded down by a hair: 1 - 0.999 is a little less than 0.001.
    (beyond / (1.0 - target.quantile) - 1e-6).ceil() as u64
}

/// Result of a step, as text.
fn words(target: &RateTarget, step: RateProbe, seen: RateStep, kept: bool) -> String {
    let verdict = if kept { "kept" } else { "broken" };
    let mut words = format!(
        "{:.1}/s offered for {}: {:.1}/s served, {}: {verdict}",
        step.offered.unwrap_or_default(),
        step.duration,
        seen.served,
        quantile(target, seen.latency)
    );
    let wanted = operations_beyond(target, BEYOND);
    if seen.operations < wanted {
        let _ = write!(words, " ({} operations, and p{} takes {wanted})", seen.operations, target.percent());
    }
    words + "\n"
}

/// True if a rate was served. Arrivals are random: their number varies from stretch to stretch.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn is_served(offered: f64, seen: RateStep) -> bool {
    let operations = seen.operations as f64;
    let expected = offered * operations / seen.served.max(f64::MIN_POSITIVE);
    operations >= expected * SERVED - 3.0 * expected.sqrt()
}

fn quantile(target: &RateTarget, latency: Nanos) -> String {
    format!("p{} {latency}", target.percent())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server with one queue and exponential service (M/M/1): latency above t has the probability exp(-(mu - lambda)
    /// t), so the quantile q is -ln(1 - q) / (mu - lambda).
    fn queue(mu: f64, quantile: f64) -> impl FnMut(RateProbe) -> Result<RateStep, ()> {
        move |RateProbe { offered, duration }| {
            let seconds = duration.as_secs_f64();
            let served = offered.unwrap_or(mu).min(mu);
            let idle = (mu - offered.unwrap_or(0.0)).max(1e-9);
            let latency = -(1.0 - quantile).ln() / idle;
            let operations = (served * seconds) as u64;
            Ok(RateStep { served, latency: Nanos((latency * 1e9).min(1e18) as u64), operations })
        }
    }

    /// The search finds the load that keeps `below`: at most 3 % under it and, as the clock counts whole nanoseconds,
    /// one of these off.
    fn check_a_queue(mu: f64, quantile: f64, slack: f64) -> Result<(), TestCaseError> {
        // The promise that a load of `1 - slack` just breaks.
        let below = (-(1.0 - quantile).ln() / (mu * slack) * 1e9) as u64;
        let target = RateTarget { group: None, quantile, below: Nanos(below) };
        let result = search(&target, Nanos::secs(1000), &mut queue(mu, quantile)).unwrap();
        let load_with = |latency: f64| mu + (1.0 - quantile).ln() / (latency / 1e9);
        let (least, most) = (load_with(below as f64 - 1.0), load_with(below as f64 + 1.0));
        prop_assert!(result.rate <= most, "{} for {most}\n{}", result.rate, result.steps);
        prop_assert!(result.rate >= least / 1.031, "{} for {least}\n{}", result.rate, result.steps);
        Ok(())
    }

    proptest! {
        #[test]
        fn finds_the_rate_of_a_queue(mu in 1_000.0_f64..1e6, quantile in 0.5_f64..0.999, slack in 0.05_f64..0.95) {
            check_a_queue(mu, quantile, slack)?;
        }
    }

    #[test]
    fn finds_rate_despite_nanosecond_rounding() {
        check_a_queue(795_447.788_350_209_2, 0.525_997_028_589_475, 0.936_845_386_225_408_7).unwrap();
    }

    fn target(text: &str) -> RateTarget {
        text.parse().unwrap()
    }

    #[test]
    fn unreachable_target_error_lists_tried_steps() {
        let result = search(&target("p99<1us"), Nanos::secs(60), &mut queue(1000.0, 0.99));
        let Err(SearchError::None(steps)) = result else { panic!() };
        assert!(
            steps.starts_with("closed loop: 1000/s") && steps.contains("500.0/s offered for 1m"),
            "{steps}"
        );
        assert_eq!(steps.lines().count(), 11);
    }

    #[test]
    fn slow_filesystem_gets_longer_steps() {
        let mut longest = Nanos(0);
        let mut slow = queue(30.0, 0.99);
        let result = search(&target("p99<1s"), Nanos::secs(1), &mut |step| {
            longest = longest.max(step.duration);
            slow(step)
        })
        .unwrap();
        // 4.6 / (30 - rate) = 1 s.
        assert!((24.5..25.5).contains(&result.rate), "{}", result.steps);
        assert!(longest > Nanos::secs(30) && longest <= MAX_STEP, "{longest}");
        assert!(!result.steps.contains("operations, and"), "{}", result.steps);
    }

    #[test]
    fn longest_step_counts_despite_few_operations() {
        // Four in a second: p99 takes 500, a minute has 240.
        let result = search(&target("p99<10s"), Nanos::secs(1), &mut queue(8.0, 0.99)).unwrap();
        assert!((7.3..7.6).contains(&result.rate), "{}", result.steps);
        assert!(result.steps.contains("operations, and p99 takes 500)"), "{}", result.steps);
    }

    #[test]
    fn too_few_operations_keep_no_promise() {
        let result = search(&target("p99.9<10s"), Nanos::secs(1), &mut queue(3.0, 0.999));
        let Err(SearchError::TooFew { rate, operations, least, steps }) = result else {
            panic!("{result:?}")
        };
        assert_eq!((rate, operations, least), (1.5, 90, 1000));
        assert!(steps.starts_with("closed loop: 3/s"), "{steps}");
    }

    #[test]
    fn few_operations_can_break_a_promise() {
        let result = search(&target("p99.9<1ms"), Nanos::secs(1), &mut queue(3.0, 0.999));
        assert!(matches!(result, Err(SearchError::None(_))), "{result:?}");
    }

    #[test]
    fn stalled_filesystem_yields_no_rate() {
        let mut steps = Vec::new();
        let result = search(&target("p99<1s"), Nanos::secs(1), &mut |step| {
            steps.push(step);
            Ok::<_, ()>(RateStep { served: 0.0, latency: Nanos(u64::MAX), operations: 0 })
        });
        assert!(matches!(result, Err(SearchError::None(_))), "{result:?}");
        let closed = |duration| RateProbe { offered: None, duration };
        assert_eq!(steps, [closed(Nanos::secs(1)), closed(Nanos(37_500_000_000))]);
    }
}
