//! The highest rate that keeps a promise about latency: a search over offered rates, each offered for a while.
//!
//! The closed loop says what the filesystem can do at most. Below that a rate keeps the promise or does not: halved
//! until one does, then bisected, on a logarithmic scale, until the two sides are 3 % apart. A rate is kept if the
//! quantile of latency (counted from the time a request was due) is below the promise and the rate was really served:
//! 98 % of it, less three standard deviations of the number of random arrivals.

use fstrial_model::{units::Nanos, workload::RateTarget};
use std::fmt::Write;

/// Measurements at most, the closed loop among them.
const MOST_STEPS: u64 = 16;
/// The search ends when the rate that breaks the promise is less than this above the one that keeps it.
const CLOSE_ENOUGH: f64 = 1.03;
/// Share of the offered operations that must be served.
const SERVED: f64 = 0.98;
/// Below this share of the closed loop's rate nothing is looked for.
const LEAST_SHARE: f64 = 1.0 / 1024.0;
/// Operations that must lie beyond a quantile for it to mean something.
const BEYOND: f64 = 5.0;

/// What was seen at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Operations per second that were served.
    pub served: f64,
    /// The quantile of their latency.
    pub latency: Nanos,
    pub operations: u64,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Operations per second: the highest rate that kept the promise.
    pub rate: f64,
    /// Every step, in words.
    pub steps: String,
}

/// A search without a rate.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchError<E> {
    Measurement(E),
    /// Even the lowest rate broke the promise; every step, in words.
    None(String),
    /// A step had too few operations for the quantile; how many, and how many it takes.
    TooFew(u64, u64),
}

/// Looks for the highest rate. `measure` offers a rate, or runs the closed loop where there is none.
///
/// # Errors
/// See [`SearchError`].
pub fn search<E>(
    target: RateTarget,
    measure: &mut dyn FnMut(Option<f64>) -> Result<Seen, E>,
) -> Result<Found, SearchError<E>> {
    let closed = measure(None).map_err(SearchError::Measurement)?;
    let mut steps = format!("closed loop: {:.0}/s, {}\n", closed.served, quantile(target, closed.latency));
    let (mut keeps, mut breaks) = (None, closed.served);
    let mut offered = closed.served / 2.0;
    for _ in 1..MOST_STEPS {
        if keeps.is_some_and(|keeps| breaks / keeps <= CLOSE_ENOUGH) {
            break;
        }
        if offered < closed.served * LEAST_SHARE {
            return Err(SearchError::None(steps));
        }
        let seen = measure(Some(offered)).map_err(SearchError::Measurement)?;
        check_count(target, seen.operations)?;
        let kept = seen.latency < target.below && is_served(offered, seen);
        let verdict = if kept { "kept" } else { "broken" };
        let latency = quantile(target, seen.latency);
        let _ = writeln!(steps, "{offered:.1}/s offered: {:.1}/s served, {latency}: {verdict}", seen.served);
        if kept {
            keeps = Some(offered);
        } else {
            breaks = offered;
        }
        offered = keeps.map_or(breaks / 2.0, |keeps| (keeps * breaks).sqrt());
    }
    match keeps {
        Some(rate) => Ok(Found { rate, steps }),
        None => Err(SearchError::None(steps)),
    }
}

/// Whether a rate was served. Arrivals are random: as many as were offered do not fall due in every stretch of time.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn is_served(offered: f64, seen: Seen) -> bool {
    let operations = seen.operations as f64;
    let expected = offered * operations / seen.served.max(f64::MIN_POSITIVE);
    operations >= expected * SERVED - 3.0 * expected.sqrt()
}

fn quantile(target: RateTarget, latency: Nanos) -> String {
    format!("p{} {latency}", target.percent())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most five million")]
fn check_count<E>(target: RateTarget, operations: u64) -> Result<(), SearchError<E>> {
    // Rounded down by a hair: 1 - 0.999 is a little less than 0.001.
    let least = (BEYOND / (1.0 - target.quantile) - 1e-6).ceil() as u64;
    if operations < least { Err(SearchError::TooFew(operations, least)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A server with one queue and exponential service (M/M/1): latency above t has the probability
    /// exp(-(mu - lambda) t), so the quantile q is -ln(1 - q) / (mu - lambda).
    fn queue(mu: f64, quantile: f64, seconds: f64) -> impl FnMut(Option<f64>) -> Result<Seen, ()> {
        move |offered| {
            let served = offered.unwrap_or(mu).min(mu);
            let idle = (mu - offered.unwrap_or(0.0)).max(1e-9);
            let latency = -(1.0 - quantile).ln() / idle;
            let operations = (served * seconds) as u64;
            Ok(Seen { served, latency: Nanos((latency * 1e9).min(1e18) as u64), operations })
        }
    }

    /// The search finds the load that keeps `below`: at most 3 % under it and, as the clock counts whole nanoseconds,
    /// one of these off.
    fn check_a_queue(mu: f64, quantile: f64, slack: f64) -> Result<(), TestCaseError> {
        // The promise that a load of `1 - slack` just breaks.
        let below = (-(1.0 - quantile).ln() / (mu * slack) * 1e9) as u64;
        let found =
            search(RateTarget { quantile, below: Nanos(below) }, &mut queue(mu, quantile, 1e6)).unwrap();
        let load_with = |latency: f64| mu + (1.0 - quantile).ln() / (latency / 1e9);
        let (least, most) = (load_with(below as f64 - 1.0), load_with(below as f64 + 1.0));
        prop_assert!(found.rate <= most, "{} for {most}\n{}", found.rate, found.steps);
        prop_assert!(found.rate >= least / 1.031, "{} for {least}\n{}", found.rate, found.steps);
        Ok(())
    }

    proptest! {
        #[test]
        fn finds_the_rate_of_a_queue(mu in 1_000.0_f64..1e6, quantile in 0.5_f64..0.999, slack in 0.05_f64..0.95) {
            check_a_queue(mu, quantile, slack)?;
        }
    }

    #[test]
    fn a_rate_is_found_where_a_nanosecond_is_much() {
        check_a_queue(795_447.788_350_209_2, 0.525_997_028_589_475, 0.936_845_386_225_408_7).unwrap();
    }

    #[test]
    fn a_promise_nobody_can_keep_is_said_with_what_was_tried() {
        let target = "p99<1us".parse().unwrap();
        let Err(SearchError::None(steps)) = search(target, &mut queue(1000.0, 0.99, 1e6)) else { panic!() };
        assert!(steps.starts_with("closed loop: 1000/s") && steps.contains("500.0/s offered"), "{steps}");
        assert_eq!(steps.lines().count(), 11);
    }

    #[test]
    fn too_few_operations_are_not_a_quantile() {
        let target = "p99.9<1s".parse().unwrap();
        let found = search(target, &mut queue(1000.0, 0.999, 1.0));
        assert_eq!(found, Err(SearchError::TooFew(500, 5000)));
    }
}
