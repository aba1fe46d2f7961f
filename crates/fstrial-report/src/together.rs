//! Synchrony of several clients: the spread of their start, and the lag of the slowest.

use fstrial_model::counter::Counter;
use fstrial_run::sample::Sample;
use serde::Serialize;

/// Synchrony of the clients in a cell's runs: medians.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Together {
    pub clients: u16,
    /// Hosts that they were on.
    pub hosts: f64,
    /// Time between the start of the first client and that of the last.
    pub start_spread_ns: f64,
    /// The same of the measured time.
    pub start_spread_share: f64,
    /// Uncertainty of that from the hosts' clocks.
    pub start_doubt_ns: f64,
    /// The rate of the slowest client, of the mean of all.
    pub slowest_share: f64,
}

impl Together {
    /// None with one client, and before the first run.
    pub(crate) fn of(clients: u16, samples: &[Sample]) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "counts of nanoseconds and millionths")]
        let median = |counter: Counter| {
            let known = samples.iter().filter_map(|sample| sample.counters.get(counter));
            fstrial_stats::spread::median(&known.map(|value| value as f64).collect::<Vec<_>>())
        };
        Some(Self {
            clients,
            hosts: median(Counter::ClientHosts)?,
            start_spread_ns: median(Counter::StartSpread)?,
            start_spread_share: median(Counter::StartSpreadPpm)? / 1e6,
            start_doubt_ns: median(Counter::StartDoubt)?,
            slowest_share: median(Counter::SlowestPpm)? / 1e6,
        })
    }
}
