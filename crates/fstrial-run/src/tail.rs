//! Contrasts of latency quantiles: rounds are merged until a group of them has enough operations for its tail.

use super::{latencies::Latencies, sample::Sample};
use fstrial_stats::{
    Pair,
    quantile::{Gathering, MIN_GROUPS},
};

/// The rounds of one quantile contrast: complete groups so far, and the latencies of the current one.
#[derive(Debug)]
pub(super) struct Tail {
    gathering: Gathering,
    on_the_way: Option<(Latencies, Latencies)>,
    pub(super) groups: usize,
    /// True if any group has more than one round.
    merged: bool,
    /// Pairs of groups that are too few to be judged yet.
    held_back: Vec<Pair>,
    /// The group that the last round completed, if it did.
    pub(super) latest: Option<Pair>,
}

impl Tail {
    pub(super) fn new(quantile: f64) -> Self {
        Self {
            gathering: Gathering::new(quantile),
            on_the_way: None,
            groups: 0,
            merged: false,
            held_back: Vec::new(),
            latest: None,
        }
    }

    /// True if no conclusion is possible because runs have too few operations.
    pub(super) fn has_too_few(&self) -> bool {
        self.groups < MIN_GROUPS && (self.merged || self.gathering.is_waiting())
    }

    /// Adds a round; returns the pairs that may be judged now. Merged groups are held back until they are enough: a
    /// verdict on fewer would end the trial, and then not be shown.
    pub(super) fn add(&mut self, quantile: f64, a: &Sample, b: &Sample) -> Vec<Pair> {
        let (Some(load_a), Some(load_b)) = (&a.load, &b.load) else { return Vec::new() };
        self.latest = self.complete(quantile, &load_a.latencies, &load_b.latencies);
        self.held_back.extend(self.latest);
        if self.merged && self.groups < MIN_GROUPS { Vec::new() } else { std::mem::take(&mut self.held_back) }
    }

    /// The pair of a group that is complete with this round. Less is better: the roles are exchanged, and exchanged back
    /// for display.
    fn complete(&mut self, quantile: f64, a: &Latencies, b: &Latencies) -> Option<Pair> {
        let merged = match self.on_the_way.take() {
            None => (a.clone(), b.clone()),
            Some((mut merged_a, mut merged_b)) => {
                merged_a.add(a);
                merged_b.add(b);
                (merged_a, merged_b)
            }
        };
        let Some(rounds) = self.gathering.add(a.len(), b.len()) else {
            self.on_the_way = Some(merged);
            return None;
        };
        self.groups += 1;
        self.merged |= rounds > 1;
        #[expect(clippy::cast_precision_loss, reason = "latencies are below 2^53 ns")]
        let latency = |all: &Latencies| all.quantile(quantile).max(1) as f64;
        Some(Pair::of_values(latency(&merged.1), latency(&merged.0)))
    }
}
