//! The record of one thread: latencies, operations in windows of time, bytes, errors. Merged at the end.
//!
//! Operations are counted into one number; only when the clock passes an edge of any window does a cold path add it to
//! the windows that end there. So a completed operation costs one comparison, one addition and one histogram record.

use crate::{
    clock::{Clock, CpuTime},
    histogram::Latencies,
    tails::Tails,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_model::{
    job::Load,
    measurement::{LoadResult, OperationKind},
    units::Nanos,
    workload::Until,
};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2Serializer},
};
use std::{collections::BTreeMap, path::Path};

/// A thread stops after this many errors, so that a failing device does not make it spin.
pub(crate) const MAX_ERRORS: u64 = 16;
/// Width of a series window, in nanoseconds, until there would be too many of them.
const SERIES_STEP_NS: u64 = 100_000_000;
/// Windows in a series at most.
const MAX_SERIES: u64 = 4096;
/// Windows over warm-up and measured time, for the check of the warm-up.
const STEADY_WINDOWS: usize = 40;
/// Windows over a time of unknown length; after the first doubling at least half of them are used.
const DOUBLING_WINDOWS: usize = 4096;
/// Width of those windows before the first doubling, in nanoseconds.
const DOUBLING_STEP_NS: u64 = 1_000_000;

/// When a run starts, is measured, and ends, in ticks of its clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    pub(crate) clock: Clock,
    pub(crate) start: u64,
    pub(crate) timed: u64,
    pub(crate) end: u64,
    duration: Nanos,
    /// It ends when the work is done; `end` is the latest.
    until_done: bool,
    series_step_ns: u64,
    series_len: u64,
}

impl Timeline {
    /// A run of `warmup` and `duration` that starts at tick `start`.
    pub(crate) fn new(clock: Clock, start: u64, warmup: Nanos, duration: Nanos) -> Self {
        let total_ns = warmup.0.saturating_add(duration.0);
        let (series_step_ns, series_len) = series_shape(total_ns);
        Self {
            clock,
            start,
            timed: start + clock.ticks(warmup.0),
            end: start + clock.ticks(total_ns),
            duration,
            until_done: false,
            series_step_ns,
            series_len,
        }
    }

    /// The timeline of a load: see [`Timeline::new`].
    pub(crate) fn of(clock: Clock, start: u64, load: &Load) -> Self {
        let timeline = Self::new(clock, start, load.warmup, load.duration);
        Self { until_done: load.until == Until::Done, ..timeline }
    }

    /// Windows of the measured time.
    fn windows(&self) -> usize {
        if self.duration.0 < 500_000_000 { 10 } else { 20 }
    }
}

/// Width and number of the series windows. The length of a run is known before it starts, so the final width of
/// repeated doubling is chosen from the start, and is the same for all threads.
fn series_shape(total_ns: u64) -> (u64, u64) {
    let mut step = SERIES_STEP_NS;
    while total_ns.div_ceil(step) > MAX_SERIES {
        step *= 2;
    }
    (step, total_ns.div_ceil(step).max(1))
}

/// Counts of operations in equal windows of time.
#[derive(Debug, Clone)]
struct Windows {
    counts: Vec<u64>,
    index: usize,
    origin: u64,
    span: u64,
    /// First tick of the next window; none is `u64::MAX`.
    edge: u64,
}

impl Windows {
    fn new(count: usize, origin: u64, span: u64) -> Self {
        let mut windows = Self { counts: vec![0; count], index: 0, origin, span, edge: 0 };
        windows.edge = windows.edge_after(0);
        windows
    }

    fn edge_after(&self, index: usize) -> u64 {
        if index + 1 >= self.counts.len() {
            return u64::MAX;
        }
        let offset = u128::from(self.span) * (index as u128 + 1) / self.counts.len() as u128;
        self.origin + offset as u64
    }

    fn start_at(&mut self, start: u64) {
        self.origin += start;
        self.edge = self.edge_after(0);
    }

    fn add(&mut self, operations: u64) {
        self.counts[self.index] += operations;
    }

    fn advance(&mut self, now: u64) {
        while now >= self.edge {
            self.index += 1;
            self.edge = self.edge_after(self.index);
        }
    }
}

/// Windows over a time of unknown length: whenever they are full, pairs of them are added up.
#[derive(Debug, Clone)]
struct Doubling {
    counts: Vec<u64>,
    index: usize,
    origin: u64,
    step: u64,
}

impl Doubling {
    fn new(origin: u64, step: u64) -> Self {
        Self { counts: vec![0; DOUBLING_WINDOWS], index: 0, origin, step: step.max(1) }
    }

    fn edge(&self) -> u64 {
        self.origin.saturating_add((self.index as u64 + 1).saturating_mul(self.step))
    }

    fn add(&mut self, operations: u64) {
        self.counts[self.index] += operations;
    }

    fn advance(&mut self, now: u64) {
        while now >= self.edge() {
            let skipped = (now - self.origin) / self.step;
            if skipped < DOUBLING_WINDOWS as u64 {
                self.index = skipped as usize;
            } else {
                self.double();
            }
        }
    }

    fn double(&mut self) {
        for n in 0..DOUBLING_WINDOWS / 2 {
            self.counts[n] = self.counts[2 * n] + self.counts[2 * n + 1];
        }
        self.counts[DOUBLING_WINDOWS / 2..].fill(0);
        self.index /= 2;
        self.step *= 2;
    }

    fn absorb(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.step < other.step {
            self.double();
        }
        while other.step < self.step {
            other.double();
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The counts in `count` equal windows of `span` ticks. A window of ours that overlaps two of them counts in each
    /// as if its operations were spread evenly; nothing is lost.
    fn in_windows(&self, count: usize, span: u64) -> Vec<u64> {
        let before = |at: u128| -> u64 {
            // Operations before tick `at`, times `count`: our windows' borders are where they are known.
            let scaled = at / count as u128;
            let whole =
                usize::try_from(scaled / u128::from(self.step)).unwrap_or(usize::MAX).min(DOUBLING_WINDOWS);
            let full: u64 = self.counts[..whole].iter().sum();
            let part = self.counts.get(whole).map_or(0, |inside| {
                u128::from(*inside) * (scaled - whole as u128 * u128::from(self.step)) / u128::from(self.step)
            });
            full + part as u64
        };
        let total: u64 = self.counts.iter().sum();
        let edge = |n: usize| if n == count { total } else { before(u128::from(span) * n as u128) };
        (0..count).map(|n| edge(n + 1) - edge(n)).collect()
    }
}

/// Destination of a latency. A kind of the result is the sum of its lanes, so that one operation is one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Its place in a recorder, below [`MAX_LANES`].
    index: usize,
    /// The kind of operation that it is of; none: it has no histogram but the one of operations.
    kind: Option<&'static str>,
    /// True for an operation of the load; otherwise it is a part of one.
    is_operation: bool,
}

/// Lanes of a recorder, at most.
const MAX_LANES: usize = 24;
/// Those of them that patterns share.
const SHARED: usize = 12;

impl Lane {
    /// A turn over a file set, or another operation whose parts are recorded separately.
    pub(crate) const TURN: Self = Self::whole(0);
    /// A write and the sync it owed.
    pub(crate) const SYNCED_WRITE: Self = Self::whole(1);
    /// A read and the write of the same block that followed.
    pub(crate) const UPDATED: Self = Self::whole(2);
    /// A read that is a complete operation.
    pub(crate) const READ_REQUEST: Self = Self { is_operation: true, ..Self::part(3, "read") };
    /// A write that is a complete operation, as it owes no sync.
    pub(crate) const WRITE_REQUEST: Self = Self { is_operation: true, ..Self::part(4, "write") };
    /// A read.
    pub(crate) const READ: Self = Self::part(5, "read");
    /// A write.
    pub(crate) const WRITE: Self = Self::part(6, "write");
    /// A sync call.
    pub(crate) const FSYNC: Self = Self::part(7, "fsync");
    /// Making a file.
    pub(crate) const CREATE: Self = Self::part(8, "create");
    /// Looking at attributes.
    pub(crate) const STAT: Self = Self::part(9, "stat");
    /// Deleting a file.
    pub(crate) const DELETE: Self = Self::part(10, "delete");
    /// Writing at the end of a file.
    pub(crate) const APPEND: Self = Self::part(11, "append");

    /// A lane that one pattern has for itself, for a kind of operation that others do not have; its own ones are numbered from 0.
    ///
    /// # Panics
    /// It is one too many, or `kind` is not the name of a kind.
    pub(crate) const fn own(number: usize, kind: &'static str) -> Self {
        assert!(SHARED + number < MAX_LANES, "a recorder has fewer lanes");
        assert!(OperationKind::is_name(kind), "a word that results can carry");
        Self { index: SHARED + number, kind: Some(kind), is_operation: false }
    }

    const fn part(index: usize, kind: &'static str) -> Self {
        assert!(index < SHARED, "lanes of patterns' own begin here");
        Self { index, kind: Some(kind), is_operation: false }
    }

    const fn whole(index: usize) -> Self {
        Self { index, kind: None, is_operation: true }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warmup,
    Timed,
    Over,
}

/// The first error of a thread.
#[derive(Debug, Clone)]
struct FirstError {
    tick: u64,
    text: String,
}

/// The first operation that a thread completed after its time.
#[derive(Debug, Clone, Copy)]
struct Late {
    tick: u64,
    lane: Lane,
    nanos: u64,
    bytes: u64,
}

/// The recorder of one thread. Lives on that thread's own stack and heap; aligned so that nothing shares its lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Recorder {
    next_edge: u64,
    pending: u64,
    timed: bool,
    clock: Clock,
    bytes: u64,
    histograms: [Option<Latencies>; MAX_LANES],
    phase: Phase,
    lanes: Vec<Lane>,
    timeline: Timeline,
    windows: Windows,
    steady: Windows,
    series: Windows,
    /// Instead of the three above where the end is not known beforehand.
    doubling: Option<Doubling>,
    tails: Tails,
    /// The last reading of the clock that was past an edge; after the end, every one is.
    crossed: u64,
    /// When this thread stopped.
    stopped: u64,
    late: Option<Late>,
    errors: u64,
    first_error: Option<FirstError>,
    cpu_start: CpuTime,
    cpu: CpuTime,
}

impl Recorder {
    /// A recorder for the lanes that will be used. Everything it will ever need is allocated here; where the timeline's
    /// start is not known yet it is 0, and [`Recorder::start_at`] moves it.
    pub(crate) fn new(timeline: Timeline, lanes: &[Lane]) -> Self {
        let mut histograms = [const { None }; MAX_LANES];
        for lane in lanes {
            let before = histograms[lane.index].replace(Latencies::new());
            assert!(before.is_none(), "two lanes of a pattern have one place: {lane:?}");
        }
        let total = timeline.end - timeline.start;
        let series_span = timeline.clock.ticks(timeline.series_step_ns * timeline.series_len);
        Self {
            next_edge: 0,
            pending: 0,
            timed: false,
            clock: timeline.clock,
            bytes: 0,
            histograms,
            phase: Phase::Warmup,
            lanes: lanes.to_vec(),
            timeline,
            windows: Windows::new(timeline.windows(), timeline.timed, timeline.end - timeline.timed),
            steady: Windows::new(STEADY_WINDOWS, timeline.start, total),
            series: Windows::new(timeline.series_len as usize, timeline.start, series_span),
            doubling: timeline
                .until_done
                .then(|| Doubling::new(timeline.start, timeline.clock.ticks(DOUBLING_STEP_NS))),
            tails: Tails::new(timeline.start, timeline.clock),
            crossed: timeline.start,
            stopped: timeline.start,
            late: None,
            errors: 0,
            first_error: None,
            cpu_start: CpuTime::default(),
            cpu: CpuTime::default(),
        }
    }

    /// Moves the whole timeline by `start` ticks. To be called before the first tick.
    pub(crate) fn start_at(&mut self, start: u64) {
        let Timeline { start: begin, timed, end, .. } = &mut self.timeline;
        [begin, timed, end].into_iter().for_each(|tick| *tick += start);
        [&mut self.windows, &mut self.steady, &mut self.series].into_iter().for_each(|w| w.start_at(start));
        if let Some(doubling) = &mut self.doubling {
            doubling.origin += start;
        }
        self.tails.start_at(start);
    }

    /// The last tick at which the run is not over yet.
    pub(crate) fn last_tick(&self) -> u64 {
        self.timeline.end.saturating_sub(1)
    }

    /// Windows of latencies that this recorder may keep, so that many threads do not take much memory. To be called
    /// before the first tick.
    pub(crate) fn among(mut self, threads: u16) -> Self {
        self.tails.among(threads);
        self
    }

    /// To be called with each reading of the clock, before completions of that time are recorded.
    #[inline]
    pub(crate) fn tick(&mut self, now: u64) {
        if now >= self.next_edge {
            self.cross(now);
        }
    }

    /// True if the run is over for this thread.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// True if no operation was completed in the measured time, once that is over.
    #[cold]
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.counts.iter().all(|count| *count == 0)
    }

    /// An operation is complete.
    #[inline]
    pub(crate) fn operation(&mut self, lane: Lane, latency_ticks: u64, bytes: u64) {
        self.pending += 1;
        if self.timed {
            self.bytes += bytes;
        }
        let nanos = self.clock.nanos(latency_ticks);
        self.tails.record(nanos);
        if self.timed {
            self.record(lane, nanos);
        } else if self.phase == Phase::Over {
            self.late.get_or_insert(Late { tick: self.crossed, lane, nanos, bytes });
        }
    }

    /// A part of an operation is complete.
    #[inline]
    pub(crate) fn part(&mut self, lane: Lane, latency_ticks: u64) {
        if self.timed {
            self.record(lane, self.clock.nanos(latency_ticks));
        }
    }

    #[inline]
    fn record(&mut self, lane: Lane, nanos: u64) {
        if let Some(histogram) = &mut self.histograms[lane.index] {
            histogram.record(nanos);
        }
    }

    /// An operation failed, or transferred less than requested.
    #[cold]
    pub(crate) fn error(&mut self, now: u64, operation: &str, path: &Path, what: &dyn std::fmt::Display) {
        if self.is_over() {
            return;
        }
        self.late_error(now, operation, path, what);
        if self.errors >= MAX_ERRORS {
            self.finish(now);
        }
    }

    /// Something failed after the thread's time was over: it is not in the windows, but an error of the run.
    #[cold]
    pub(crate) fn late_error(
        &mut self,
        now: u64,
        operation: &str,
        path: &Path,
        what: &dyn std::fmt::Display,
    ) {
        self.count_error(now, || format!("{operation} {}: {what}", path.display()));
    }

    fn count_error(&mut self, now: u64, text: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| FirstError { tick: now, text: text() });
    }

    /// The thread stops: adds pending counts and stops the CPU clock.
    pub(crate) fn finish(&mut self, now: u64) {
        if !self.is_over() {
            self.cross(now);
            self.end(now);
        }
    }

    #[cold]
    fn cross(&mut self, now: u64) {
        self.crossed = now;
        let pending = std::mem::take(&mut self.pending);
        if self.phase != Phase::Over {
            match &mut self.doubling {
                Some(doubling) => doubling.add(pending),
                None => {
                    self.steady.add(pending);
                    self.series.add(pending);
                }
            }
        }
        if self.phase == Phase::Timed && self.doubling.is_none() {
            self.windows.add(pending);
        }
        if self.phase == Phase::Warmup && now >= self.timeline.timed {
            self.phase = Phase::Timed;
            self.timed = true;
            self.cpu_start = CpuTime::of_this_thread();
        }
        if self.phase == Phase::Timed && now >= self.timeline.end {
            if self.timeline.until_done {
                let duration = self.timeline.duration;
                self.count_error(now, || format!("the work was not done within {duration}"));
            }
            self.end(now);
        }
        self.advance(now);
    }

    /// Advances to the windows of `now`.
    fn advance(&mut self, now: u64) {
        let phase_edge = if self.phase == Phase::Warmup { self.timeline.timed } else { self.timeline.end };
        let edge = match &mut self.doubling {
            Some(doubling) => {
                doubling.advance(now);
                doubling.edge()
            }
            None => {
                self.windows.advance(now);
                self.steady.advance(now);
                self.series.advance(now);
                self.windows.edge.min(self.steady.edge).min(self.series.edge)
            }
        };
        self.tails.advance(now);
        self.next_edge = phase_edge.min(edge).min(self.tails.edge());
    }

    fn end(&mut self, now: u64) {
        if self.phase == Phase::Timed {
            self.cpu = CpuTime::of_this_thread().since(self.cpu_start);
        }
        self.timed = false;
        self.phase = Phase::Over;
        self.stopped = now;
    }

    /// Puts the records of all threads together. There is at least one thread.
    pub(crate) fn merge(recorders: Vec<Self>) -> LoadResult {
        let threads = u16::try_from(recorders.len()).unwrap_or(u16::MAX);
        let mut all = recorders.into_iter();
        let mut sum = all.next().expect("a load has at least one thread");
        for other in all {
            sum.absorb(&other);
        }
        sum.wait_for_the_first();
        let histograms = sum.histograms();
        let (duration, windows, steady_windows, series, series_step_ns) = sum.windows_of_all();
        let (tails, tails_step_ns) = sum.tails.quantiles();
        LoadResult {
            threads,
            duration,
            operations: windows.iter().sum(),
            bytes: sum.bytes,
            errors: sum.errors,
            first_error: sum.first_error.map(|first| first.text),
            histograms,
            windows,
            steady_windows,
            series,
            series_step: Nanos(series_step_ns),
            tails,
            tails_step: Nanos(tails_step_ns),
            cpu_user: Nanos(sum.cpu.user_ns),
            cpu_system: Nanos(sum.cpu.system_ns),
            clock: sum.clock.source(),
        }
    }

    /// A stall as long as the whole measured time has a rate too: if no operation was completed in it, it lasts until
    /// the first one is. (All threads wait for their requests in flight, so the earliest of theirs is the first.)
    fn wait_for_the_first(&mut self) {
        let nothing = self.is_empty() && self.errors == 0;
        if let (Some(late), true, None) = (self.late, nothing, &self.doubling) {
            self.timeline.duration = Nanos(self.clock.nanos(late.tick - self.timeline.timed));
            *self.windows.counts.last_mut().expect("there are windows") = 1;
            self.bytes = late.bytes;
            self.record(late.lane, late.nanos);
        }
    }

    /// The time measured, and the operations in its windows, in the steady windows and in the series.
    fn windows_of_all(&mut self) -> (Nanos, Vec<u64>, Vec<u64>, Vec<u64>, u64) {
        let take = |windows: &mut Windows| std::mem::take(&mut windows.counts);
        let Some(doubling) = &self.doubling else {
            let step = self.timeline.series_step_ns;
            let counts = (take(&mut self.windows), take(&mut self.steady), take(&mut self.series));
            return (self.timeline.duration, counts.0, counts.1, counts.2, step);
        };
        // At least one tick, so that there is a rate.
        let span = self.stopped.saturating_sub(self.timeline.start).max(1);
        let duration = self.clock.nanos(span).max(1);
        let (step, len) = series_shape(duration);
        let (count, whole) = (if duration < 500_000_000 { 10 } else { 20 }, self.clock.ticks(step * len));
        (
            Nanos(duration),
            doubling.in_windows(count, span),
            doubling.in_windows(STEADY_WINDOWS, span),
            doubling.in_windows(len as usize, whole.max(span)),
            step,
        )
    }

    fn absorb(&mut self, other: &Self) {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.add(theirs);
            }
        }
        let pairs = [
            (&mut self.windows, &other.windows),
            (&mut self.steady, &other.steady),
            (&mut self.series, &other.series),
        ];
        for (mine, theirs) in pairs {
            assert_eq!(mine.counts.len(), theirs.counts.len(), "threads of one run share its timeline");
            mine.counts.iter_mut().zip(&theirs.counts).for_each(|(mine, theirs)| *mine += theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.doubling, &other.doubling) {
            mine.absorb(theirs);
        }
        self.tails.absorb(&other.tails);
        self.stopped = self.stopped.max(other.stopped);
        self.late = [self.late, other.late].into_iter().flatten().min_by_key(|late| late.tick);
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.cpu.user_ns += other.cpu.user_ns;
        self.cpu.system_ns += other.cpu.system_ns;
        let earlier = |first: &FirstError| other.first_error.as_ref().is_some_and(|e| e.tick < first.tick);
        if self.first_error.as_ref().is_none_or(earlier) {
            self.first_error.clone_from(&other.first_error);
        }
    }

    /// The histograms of the kinds of operations that the load has.
    fn histograms(&self) -> BTreeMap<OperationKind, String> {
        let mut sums: BTreeMap<OperationKind, Latencies> = BTreeMap::new();
        for lane in &self.lanes {
            let part = self.histograms[lane.index].as_ref().expect("a lane that is used has a histogram");
            let kind = lane.kind.map(OperationKind::new);
            for kind in kind.into_iter().chain(lane.is_operation.then_some(OperationKind::OPERATION)) {
                sums.entry(kind).and_modify(|sum| sum.add(part)).or_insert_with(|| part.clone());
            }
        }
        sums.into_iter().map(|(kind, sum)| (kind, encode(&sum.to_hdr()))).collect()
    }
}

/// A histogram as results carry it: V2 with deflate off, in base64.
///
/// # Panics
/// If a count does not fit in 63 bits.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a vector takes all bytes, and counts fit in i64");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{histogram::LATENCY_MAX_NS, testing::decode};
    use proptest::prelude::*;

    const CLOCK: Clock = Clock::monotonic("test");

    fn recorder(warmup: u64, duration: u64) -> Recorder {
        let timeline = Timeline::new(CLOCK, 0, Nanos(warmup), Nanos(duration));
        let mut recorder = Recorder::new(timeline, &[Lane::READ_REQUEST]);
        recorder.start_at(1000);
        recorder
    }

    /// Series by the slow way: fixed first width, and pairs are added up whenever there are too many.
    fn slow_series(times_ns: &[u64], total_ns: u64) -> (u64, Vec<u64>) {
        let (mut step, mut counts) =
            (SERIES_STEP_NS, vec![0; total_ns.div_ceil(SERIES_STEP_NS).max(1) as usize]);
        for time in times_ns {
            counts[(time / step) as usize] += 1;
        }
        while counts.len() as u64 > MAX_SERIES {
            counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            step *= 2;
        }
        (step, counts)
    }

    fn in_windows(times: &[u64], from: u64, span: u64, count: usize) -> Vec<u64> {
        let mut counts = vec![0; count];
        for time in times {
            if let Some(offset) = time.checked_sub(from)
                && offset < span
            {
                let index = (0..count)
                    .rev()
                    .find(|i| offset >= (u128::from(span) * *i as u128 / count as u128) as u64);
                counts[index.unwrap()] += 1;
            }
        }
        counts
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn windows_and_histogram_agree_with_the_slow_model(
            warmup in 0_u64..3_000_000_000,
            duration in 1_000_u64..900_000_000_000,
            points in proptest::collection::vec((0.0_f64..1.2, 1_u64..5_000_000_000), 0..300),
        ) {
            let total = warmup + duration;
            let mut points: Vec<(u64, u64)> =
                points.into_iter().map(|(at, latency)| ((at * total as f64) as u64, latency)).collect();
            points.sort_unstable();
            let mut recorder = recorder(warmup, duration);
            for (at, latency) in &points {
                recorder.tick(1000 + at);
                if recorder.is_over() { break; }
                recorder.operation(Lane::READ_REQUEST, *latency, 4096);
            }
            recorder.tick(1000 + total);
            prop_assert!(recorder.is_over());
            let times: Vec<u64> = points.iter().map(|p| p.0).collect();
            let timed: Vec<u64> = points.iter().filter(|p| p.0 >= warmup && p.0 < total).map(|p| p.1).collect();
            let inside: Vec<u64> = times.iter().copied().filter(|t| *t < total).collect();
            let result = Recorder::merge(vec![recorder]);

            prop_assert_eq!(result.operations, timed.len() as u64);
            prop_assert_eq!(result.bytes, 4096 * timed.len() as u64);
            let count = if duration < 500_000_000 { 10 } else { 20 };
            prop_assert_eq!(&result.windows, &in_windows(&times, warmup, duration, count));
            prop_assert_eq!(&result.steady_windows, &in_windows(&times, 0, total, 40));
            prop_assert_eq!((result.series_step.0, result.series.clone()), slow_series(&inside, total));

            let histogram = decode(&result.histograms[&OperationKind::OPERATION]);
            let mut sorted = timed;
            sorted.sort_unstable();
            prop_assert_eq!(histogram.len(), sorted.len() as u64);
            for quantile in [0.0, 0.5, 0.9, 0.99, 1.0] {
                if sorted.is_empty() { break; }
                let rank = ((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
                let (exact, got) = (sorted[rank - 1] as f64, histogram.value_at_quantile(quantile) as f64);
                prop_assert!((got - exact).abs() <= exact * 0.001 + 1.0, "q{} exact {} got {}", quantile, exact, got);
            }
        }

        #[test]
        fn doubling_windows_keep_counts_and_positions(
            times in proptest::collection::vec(0_u64..40_000_000_000, 1..200),
            split in 0_usize..200,
        ) {
            let mut times = times;
            times.sort_unstable();
            let of = |times: &[u64]| {
                let mut doubling = Doubling::new(0, 1_000_000);
                for at in times {
                    doubling.advance(*at);
                    doubling.add(1);
                }
                doubling
            };
            let split = split.min(times.len());
            let mut doubling = of(&times[..split]);
            doubling.absorb(&of(&times[split..]));
            let span = times.last().unwrap() + 1;
            let windows = doubling.in_windows(20, span);
            prop_assert_eq!(windows.iter().sum::<u64>(), times.len() as u64);
            // Up to any border, at most the operations of the one window across it are elsewhere.
            let slack = doubling.step;
            for n in 1..20 {
                let border = (u128::from(span) * n as u128 / 20) as u64;
                let sum: u64 = windows[..n].iter().sum();
                let surely = times.iter().filter(|at| **at + slack < border).count() as u64;
                let at_most = times.iter().filter(|at| **at < border + slack).count() as u64;
                prop_assert!((surely..=at_most).contains(&sum), "{} not in {}..={}", sum, surely, at_most);
            }
        }

        #[test]
        fn series_never_exceeds_maximum_windows(total in 1_u64..1 << 50) {
            let (step, len) = series_shape(total);
            prop_assert!(len <= MAX_SERIES);
            prop_assert!(step == SERIES_STEP_NS || total.div_ceil(step / 2) > MAX_SERIES);
            prop_assert!(step * len >= total);
        }
    }

    #[test]
    fn threads_add_up_and_the_earliest_error_is_kept() {
        let mut recorders = Vec::new();
        for n in 1..=3_u64 {
            let mut recorder = recorder(0, 1_000_000);
            recorder.tick(1000);
            (0..n).for_each(|_| recorder.operation(Lane::READ_REQUEST, 10 * n, 1));
            recorder.error(5000 - n, "write", Path::new("/x"), &n);
            recorder.finish(6000);
            recorders.push(recorder);
        }
        let result = Recorder::merge(recorders);
        assert_eq!((result.operations, result.bytes, result.errors), (6, 6, 3));
        assert_eq!(result.first_error.as_deref(), Some("write /x: 3"));
        assert_eq!(decode(&result.histograms[&OperationKind::READ]).max(), 30);
    }

    #[test]
    fn errors_end_a_thread_and_are_not_latencies() {
        let mut recorder = recorder(0, 1_000_000_000);
        recorder.tick(1000);
        for n in 0..100 {
            recorder.error(1000 + n, "read", Path::new("/x"), &"no");
        }
        assert!(recorder.is_over());
        let result = Recorder::merge(vec![recorder]);
        assert_eq!((result.errors, result.operations), (MAX_ERRORS, 0));
        assert_eq!(decode(&result.histograms[&OperationKind::OPERATION]).len(), 0);
    }

    #[test]
    fn duration_extends_until_first_completion() {
        let late = |at: u64| {
            let mut recorder = recorder(1_000, 10_000);
            recorder.tick(1000);
            recorder.tick(1000 + at);
            assert!(recorder.is_over());
            recorder.operation(Lane::READ_REQUEST, at, 4096);
            recorder.tick(1000 + 2 * at);
            recorder.operation(Lane::READ_REQUEST, at, 4096);
            recorder
        };
        let result = Recorder::merge(vec![late(90_000), late(41_000), late(70_000)]);
        assert_eq!((result.operations, result.bytes, result.duration), (1, 4096, Nanos(40_000)));
        assert_eq!(result.windows.iter().sum::<u64>(), 1);
        let histogram = decode(&result.histograms[&OperationKind::OPERATION]);
        assert_eq!((histogram.len(), histogram.max()), (1, histogram.highest_equivalent(41_000)));

        // One that was in time: the others' late ones are nothing.
        let mut timely = recorder(1_000, 10_000);
        timely.tick(3000);
        timely.operation(Lane::READ_REQUEST, 2000, 512);
        timely.tick(50_000);
        let result = Recorder::merge(vec![late(41_000), timely]);
        assert_eq!((result.operations, result.bytes, result.duration), (1, 512, Nanos(10_000)));
    }

    #[test]
    fn out_of_range_latencies_are_clamped() {
        let mut recorder = recorder(0, 1_000_000_000);
        recorder.tick(1000);
        recorder.operation(Lane::READ_REQUEST, u64::MAX, 0);
        recorder.operation(Lane::READ_REQUEST, 0, 0);
        recorder.finish(2000);
        let result = Recorder::merge(vec![recorder]);
        let histogram = decode(&result.histograms[&OperationKind::READ]);
        assert_eq!(histogram.len(), 2);
        assert!(histogram.max() >= LATENCY_MAX_NS && histogram.min() == 1);
    }
}
