//! The results of clients as one: histograms added exactly, counts added, times laid over each other.

use base64::{Engine, engine::general_purpose::STANDARD};
use fstrial_model::{
    measurement::{ClockSource, LoadResult, OperationKind},
    units::Nanos,
};
use hdrhistogram::{Histogram, serialization::Deserializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One client's result of a phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) rank: u16,
    pub(super) host: String,
    /// When its measured time began, by the clock of the first client.
    pub(super) start_ns: i64,
    /// Uncertainty of that.
    pub(super) doubt_ns: u64,
    /// One for each group of threads.
    pub(super) loads: Vec<LoadResult>,
}

/// A client's load, and how long after the first one it began.
type Begun<'a> = (&'a LoadResult, u64);

/// The load of one group of threads of all clients. Its time is from the start of the first client to the end of the last.
///
/// # Errors
/// A share has no such load, or a histogram of it is damaged.
pub(super) fn merged(shares: &[Share], group: usize, warmup: Nanos) -> Result<LoadResult, String> {
    let first = shares.iter().map(|share| share.start_ns).min().ok_or("no client has a share")?;
    let loads: Vec<Begun<'_>> = shares
        .iter()
        .map(|share| {
            let load = share.loads.get(group).ok_or(format!("client {} lacks a load", share.rank))?;
            Ok((load, share.start_ns.abs_diff(first)))
        })
        .collect::<Result<_, String>>()?;
    let sum = |of: fn(&LoadResult) -> u64| loads.iter().map(|(load, _)| of(load)).sum::<u64>();
    let duration = loads.iter().map(|(load, later)| later + load.duration.0).max().unwrap_or_default();
    let step = loads.iter().map(|(load, _)| load.series_step.0).max().unwrap_or_default();
    let any = loads[0].0;
    let is_counted = loads.iter().all(|(load, _)| load.clock == ClockSource::TimeStampCounter);
    let failed = loads.iter().zip(shares).find_map(|((load, _), share)| {
        Some(format!("client {}: {}", share.rank, load.first_error.as_ref()?))
    });
    let timed = |load: &LoadResult| load.duration.0;
    let whole = |load: &LoadResult| warmup.0 + load.duration.0;
    let series = |load: &LoadResult| load.series_step.0 * load.series.len() as u64;
    let series_ns = loads.iter().map(|(load, later)| later + series(load)).max().unwrap_or_default();
    Ok(LoadResult {
        threads: loads.iter().map(|(load, _)| load.threads).fold(0, u16::saturating_add),
        duration: Nanos(duration),
        operations: sum(|load| load.operations),
        bytes: sum(|load| load.bytes),
        errors: sum(|load| load.errors),
        first_error: failed,
        histograms: histograms(&loads)?,
        windows: laid_over(&loads, |load| &load.windows, timed, (duration, any.windows.len())),
        steady_windows: laid_over(
            &loads,
            |load| &load.steady_windows,
            whole,
            (warmup.0 + duration, any.steady_windows.len()),
        ),
        series: laid_over(
            &loads,
            |load| &load.series,
            series,
            (
                series_ns.div_ceil(step.max(1)) * step,
                usize::try_from(series_ns.div_ceil(step.max(1))).unwrap_or(0),
            ),
        ),
        series_step: Nanos(step),
        // Quantiles of windows cannot be added.
        tails: Vec::new(),
        tails_step: Nanos(0),
        cpu_user: Nanos(sum(|load| load.cpu_user.0)),
        cpu_system: Nanos(sum(|load| load.cpu_system.0)),
        clock: if is_counted { ClockSource::TimeStampCounter } else { ClockSource::Monotonic },
    })
}

/// Histograms of all kinds, each the sum of the clients'.
fn histograms(loads: &[Begun<'_>]) -> Result<BTreeMap<OperationKind, String>, String> {
    let mut all: BTreeMap<OperationKind, Histogram<u64>> = BTreeMap::new();
    for (kind, text) in loads.iter().flat_map(|(load, _)| &load.histograms) {
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let one: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(|error| format!("{error:?}"))?;
        match all.get_mut(kind) {
            Some(sum) => sum.add(&one).map_err(|error| error.to_string())?,
            None => {
                all.insert(kind.clone(), one);
            }
        }
    }
    Ok(all.iter().map(|(kind, sum)| (kind.clone(), fstrial_engine::encode(sum))).collect())
}

/// Resamples counts in equal windows of each client's own time to windows of the common time. The count of a window is
/// spread over it evenly; the sum is preserved.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of a run"
)]
fn laid_over(
    loads: &[Begun<'_>],
    counts: fn(&LoadResult) -> &Vec<u64>,
    length: impl Fn(&LoadResult) -> u64,
    (all_ns, windows): (u64, usize),
) -> Vec<u64> {
    // The total of all of them at the end of each window.
    let mut done = vec![0.0; windows];
    for (load, later) in loads {
        let counts = counts(load);
        let each = length(load) as f64 / counts.len().max(1) as f64;
        for (index, end) in done.iter_mut().enumerate() {
            let at = all_ns as f64 * (index + 1) as f64 / windows as f64 - *later as f64;
            let passed = if each > 0.0 { (at / each).max(0.0) } else { counts.len() as f64 };
            let whole = (passed as usize).min(counts.len());
            let before: u64 = counts[..whole].iter().sum();
            let part = counts.get(whole).map_or(0.0, |count| *count as f64 * (passed - whole as f64));
            *end += before as f64 + part;
        }
    }
    let total: u64 = loads.iter().flat_map(|(load, _)| counts(load)).sum();
    if let Some(last) = done.last_mut() {
        *last = total as f64;
    }
    let mut before = 0;
    let mut in_window = |end: &f64| {
        let now = (end.round() as u64).min(total);
        let count = now.saturating_sub(before);
        before = now;
        count
    };
    done.iter().map(&mut in_window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(windows: Vec<u64>, seconds: u64, latencies: &[u64]) -> LoadResult {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        latencies.iter().for_each(|latency| histogram.record(*latency).unwrap());
        LoadResult {
            threads: 2,
            duration: Nanos::secs(seconds),
            operations: windows.iter().sum(),
            bytes: 4096,
            errors: 0,
            first_error: None,
            histograms: BTreeMap::from([(OperationKind::OPERATION, fstrial_engine::encode(&histogram))]),
            steady_windows: windows.iter().flat_map(|count| [*count, 0]).collect(),
            series: windows.clone(),
            windows,
            series_step: Nanos(100_000_000),
            tails: vec![(1, 2)],
            tails_step: Nanos(1),
            cpu_user: Nanos(5),
            cpu_system: Nanos(6),
            clock: ClockSource::TimeStampCounter,
        }
    }

    fn share(rank: u16, start_ns: i64, load: LoadResult) -> Share {
        Share { rank, host: "h".into(), start_ns, doubt_ns: 10, loads: vec![load] }
    }

    #[test]
    fn the_time_of_all_is_from_the_first_start_to_the_last_end() {
        let shares = [
            share(0, 1_000_000_000, load(vec![10; 10], 1, &[100, 200])),
            // Half a second later, and half as fast.
            share(1, 1_500_000_000, load(vec![5; 10], 1, &[300])),
        ];
        let all = merged(&shares, 0, Nanos(0)).unwrap();
        assert_eq!((all.threads, all.operations, all.bytes), (4, 150, 8192));
        assert_eq!(all.duration, Nanos(1_500_000_000));
        assert_eq!((all.cpu_user, all.cpu_system), (Nanos(10), Nanos(12)));
        // 100/s, then both, then 50/s, in windows of 0.15 s: their edges are inside those of the clients.
        assert_eq!(all.windows, [15, 15, 15, 20, 23, 22, 18, 7, 8, 7]);
        let bytes = STANDARD.decode(&all.histograms[&OperationKind::OPERATION]).unwrap();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!((histogram.len(), histogram.min(), histogram.max()), (3, 100, 300));
    }

    #[test]
    fn merge_errors_name_the_client() {
        let bad =
            LoadResult { first_error: Some("no space left".into()), errors: 1, ..load(vec![1], 1, &[1]) };
        let shares = [share(0, 0, load(vec![1], 1, &[1])), share(1, 0, bad)];
        let all = merged(&shares, 0, Nanos(0)).unwrap();
        assert_eq!((all.errors, all.first_error.as_deref()), (1, Some("client 1: no space left")));
        assert!(merged(&shares, 1, Nanos(0)).is_err_and(|why| why.contains("client 0 lacks")));
    }

    proptest! {
        /// No operation is lost or counted twice, whenever clients begin and however long they take.
        #[test]
        fn merge_preserves_operation_count(
            clients in prop::collection::vec((0_i64..5_000_000_000, 1_u64..5, prop::collection::vec(0_u64..1000, 20)), 1..6),
        ) {
            let shares: Vec<Share> = clients
                .into_iter()
                .enumerate()
                .map(|(rank, (start, seconds, windows))| {
                    share(u16::try_from(rank).unwrap(), start, load(windows, seconds, &[7]))
                })
                .collect();
            let all = merged(&shares, 0, Nanos(0)).unwrap();
            let operations: u64 = shares.iter().map(|share| share.loads[0].operations).sum();
            prop_assert_eq!(all.windows.iter().sum::<u64>(), operations);
            prop_assert_eq!(all.steady_windows.iter().sum::<u64>(), operations);
            prop_assert_eq!(all.series.iter().sum::<u64>(), operations);
        }
    }
}
