//! Counters of a run: amounts of the kernel and of engines in its measured time, a row for each that is shown.

use crate::{rows::words, unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// A counter of the kernel in the measured time, including work of filesystem and kernel threads. A missing counter
    /// is unknown: a directory has none of the device and the log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Counter {
        /// CPU time of the whole machine that was not idle, in ns (kernel threads of the filesystem and the loop device
        /// included, neighbours' too).
        "cpu-machine" CpuMachine,
        /// Bytes read from the filesystem's devices and its log's.
        "device-read" DeviceRead,
        /// Bytes written to them.
        "device-written" DeviceWritten,
        /// Bytes of the filesystem's journal or log.
        "log-size" LogSize,
        /// Bytes written to it from the mount to the beginning of the measured time.
        "log-before" LogBefore,
        /// Bytes written to it in the measured time.
        "log-written" LogWritten,
        /// Commits in the measured time, of any cause.
        "commits" Commits,
        /// Time of commits, in ns.
        "commit-time" CommitTime,
        /// Requests that the log be written up to a point.
        "log-forces" LogForces,
        /// Sleeps until a part of the log was written.
        "log-sleeps" LogSleeps,
        /// Reads that the devices completed.
        "device-reads" DeviceReads,
        /// Requests that became part of others on their way to them.
        "device-merges" DeviceMerges,
        /// Flushes of their caches.
        "device-flushes" DeviceFlushes,
        /// Discards that they completed.
        "device-discards" DeviceDiscards,
        /// Time of requests until the device had them, in ns, without those that belong to a flush. As the following ones only of
        /// observed runs.
        "device-queue-time" DeviceQueueTime,
        /// Their number.
        "device-queued" DeviceQueued,
        /// Time of requests at the device, in ns.
        "device-service-time" DeviceServiceTime,
        /// Their number.
        "device-served" DeviceServed,
        /// Bytes of writes that the device was sent.
        "device-sent" DeviceSent,
        /// Their number: without flushes.
        "device-writes" DeviceWrites,
        /// Bytes between the end of a request and the beginning of the next one, in the order in which the device was sent them.
        "device-distance" DeviceDistance,
        /// Their number.
        "device-moves" DeviceMoves,
        /// Time in which one of the devices had a request, in ns.
        "device-busy" DeviceBusy,
        /// Writes that had to be durable at their end (FUA).
        "device-forced" DeviceForced,
        /// Time in which commits of the journal waited for changes that had begun, in ns.
        "commit-locking" CommitLocking,
        /// Time in which they sent the data of files to the device, in ns.
        "commit-flushing" CommitFlushing,
        /// Time in which they wrote the journal, and waited for it, for that data and for flushes, in ns.
        "commit-logging" CommitLogging,
        /// Bytes that the load read and wrote.
        "asked" Asked,
        /// Looks at the files of the load, before it and after it.
        "looks" Looks,
        /// Space in use before the load, in bytes.
        "space-before" SpaceBefore,
        /// Space in use after it.
        "space-after" SpaceAfter,
        /// Files that were looked at before the load.
        "files-before" FilesBefore,
        /// Their pieces on the device.
        "pieces-before" PiecesBefore,
        /// Files that were looked at after it.
        "files" Files,
        /// Their pieces on the device.
        "pieces" Pieces,
        /// Times that threads of the load began to wait.
        "waits" Waits,
        /// Times that a processor was taken from one of them.
        "preemptions" Preemptions,
        /// Times that one of them changed the processor.
        "migrations" Migrations,
        /// The share of the processors' time that processes of others took from before the warm-up on, in millionths.
        "others-ppm" OthersPpm,
        /// Checkpoints that a server began from its last start to its end, of those that its workload counts; those that an engine inside
        /// the worker completed in the measured time.
        "checkpoints" Checkpoints,
        /// Hosts that clients were on.
        "client-hosts" ClientHosts,
        /// Time between the start of the first client and that of the last, in ns, by the clock of the first; the
        /// offsets of other clocks are estimated from messages between them.
        "start-spread" StartSpread,
        /// The same of the measured time of all, in millionths.
        "start-spread-ppm" StartSpreadPpm,
        /// Its uncertainty, in ns.
        "start-doubt" StartDoubt,
        /// The rate of the slowest client, in millionths of the mean of all.
        "slowest-ppm" SlowestPpm,
        /// Compactions that an engine inside the worker completed in the measured time.
        "compactions" Compactions,
    }
}

/// Counters with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<Counter, u64>);

impl FromIterator<(Counter, Option<u64>)> for Counters {
    /// From the known ones.
    fn from_iter<T: IntoIterator<Item = (Counter, Option<u64>)>>(all: T) -> Self {
        Self(all.into_iter().filter_map(|(counter, value)| Some((counter, value?))).collect())
    }
}

impl Counters {
    /// A single one.
    pub fn of(counter: Counter, value: u64) -> Self {
        Self(BTreeMap::from([(counter, value)]))
    }

    /// With another one, if it is known.
    #[must_use]
    pub fn with(mut self, counter: Counter, value: Option<u64>) -> Self {
        self.0.extend(value.map(|value| (counter, value)));
        self
    }

    /// The sum of both for each that is known in one.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (counter, value) in other.known() {
            *self.0.entry(counter).or_default() += value;
        }
        self
    }

    /// The increase of each since an earlier reading that had it.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.known()
            .map(|(counter, after)| (counter, before.get(counter).map(|before| after.saturating_sub(before))))
            .collect()
    }

    /// The value of one, if it is known.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        self.0.get(&counter).copied()
    }

    /// All that are known.
    pub fn known(&self) -> impl Iterator<Item = (Counter, u64)> {
        self.0.iter().map(|(counter, value)| (*counter, *value))
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The share of the processors that processes of others took, if it is known.
    pub fn taken_by_others(&self) -> Option<f64> {
        self.get(Counter::OthersPpm).map(|ppm| float(ppm) / 1e6)
    }

    /// Number of passes through the log: before the measured time, and in it.
    pub fn laps(&self) -> Option<(f64, f64)> {
        let size = self.get(Counter::LogSize).filter(|size| *size > 0).map(float)?;
        Some((float(self.get(Counter::LogBefore)?) / size, float(self.get(Counter::LogWritten)?) / size))
    }
}

/// The figure of a counter that people are shown.
#[derive(Debug, Clone, Copy)]
pub struct CounterRow {
    /// The counter.
    pub counter: Counter,
    /// Its name in tables.
    pub words: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The amount that it is divided by.
    pub per: Per,
}

/// The amount that a counter is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// The operations of the load.
    Operation,
    /// The measured time, in the unit of the counter.
    Time,
    /// The sum of other counters.
    Each(&'static [Counter]),
}

/// The name of the time of a request at the device.
pub const AT_DEVICE: &str = "– at the device";

/// The figures of counters, in the order in which they are shown.
pub const COUNTERS: [CounterRow; 30] = [
    row(Counter::CpuMachine, "processor time of the whole machine", unit::TIME, Per::Operation),
    row(Counter::Waits, "waits of the load's threads", unit::COUNT, Per::Operation),
    row(Counter::Preemptions, "preemptions of them", unit::COUNT, Per::Operation),
    row(Counter::Migrations, "changes of their processor", unit::COUNT, Per::Operation),
    row(Counter::DeviceReads, "reads of the device", unit::COUNT, Per::Operation),
    row(Counter::DeviceWrites, "writes to the device", unit::COUNT, Per::Operation),
    row(Counter::DeviceMerges, "requests merged into others", unit::COUNT, Per::Operation),
    row(Counter::DeviceFlushes, "flushes of its cache", unit::COUNT, Per::Operation),
    row(Counter::DeviceForced, "durable writes (FUA) to it", unit::COUNT, Per::Operation),
    row(Counter::DeviceDiscards, "discards", unit::COUNT, Per::Operation),
    row(Counter::DeviceRead, "bytes read from the device", unit::BYTES, Per::Operation),
    row(Counter::DeviceWritten, "bytes written to the device", unit::BYTES, Per::Operation),
    row(
        Counter::DeviceWritten,
        "– for each byte that the load moves",
        unit::COUNT,
        Per::Each(&[Counter::Asked]),
    ),
    row(Counter::DeviceSent, "size of a write", unit::BYTES, Per::Each(&[Counter::DeviceWrites])),
    row(
        Counter::DeviceDistance,
        "distance between requests",
        unit::BYTES,
        Per::Each(&[Counter::DeviceMoves]),
    ),
    row(
        Counter::DeviceQueueTime,
        "time of a request in queues",
        unit::TIME,
        Per::Each(&[Counter::DeviceQueued]),
    ),
    row(Counter::DeviceServiceTime, AT_DEVICE, unit::TIME, Per::Each(&[Counter::DeviceServed])),
    row(Counter::DeviceServiceTime, "requests at the device, mean", unit::COUNT, Per::Time),
    row(Counter::LogWritten, "bytes written to the journal or log", unit::BYTES, Per::Operation),
    row(Counter::Commits, "commits of the filesystem", unit::COUNT, Per::Operation),
    row(Counter::CommitTime, "time of a commit", unit::TIME, Per::Each(&[Counter::Commits])),
    row(Counter::CommitLocking, "– until changes end", unit::TIME, Per::Each(&[Counter::Commits])),
    row(Counter::CommitFlushing, "– sending data of files", unit::TIME, Per::Each(&[Counter::Commits])),
    row(
        Counter::CommitLogging,
        "– writing data, journal, flushes",
        unit::TIME,
        Per::Each(&[Counter::Commits]),
    ),
    row(Counter::LogForces, "log forces", unit::COUNT, Per::Operation),
    row(Counter::LogSleeps, "sleeps for the log", unit::COUNT, Per::Operation),
    row(Counter::SpaceBefore, "space in use, before the load", unit::BYTES, Per::Each(&[Counter::Looks])),
    row(Counter::SpaceAfter, "space in use, after it", unit::BYTES, Per::Each(&[Counter::Looks])),
    row(
        Counter::PiecesBefore,
        "pieces of a file, before the load",
        unit::COUNT,
        Per::Each(&[Counter::FilesBefore]),
    ),
    row(Counter::Pieces, "pieces of a file, after it", unit::COUNT, Per::Each(&[Counter::Files])),
];

const fn row(counter: Counter, words: &'static str, unit: &'static str, per: Per) -> CounterRow {
    CounterRow { counter, words, unit, per }
}

impl CounterRow {
    /// Its figure in some runs of a load, by their counters and their sums of operations and of measured time. None if a counter is
    /// unknown, or if it is divided by nothing.
    pub fn figure(&self, counters: &Counters, operations: f64, nanos: f64) -> Option<f64> {
        let of = |counter: &Counter| counters.get(*counter).map(float);
        let by = match self.per {
            Per::Operation => operations,
            Per::Time => nanos,
            Per::Each(all) => all.iter().filter_map(of).sum(),
        };
        (by > 0.0).then_some(of(&self.counter)? / by)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts, bytes and times are far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}
