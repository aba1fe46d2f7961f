//! What tests build their loads from.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_model::{
    job::Load,
    units::{Bytes, Nanos, Percent},
    workload::{Data, FileSet, Io, Pattern, Step, SyncCall, Until},
};
use hdrhistogram::{Histogram, serialization::Deserializer};
use std::cell::Cell;

thread_local! {
    /// Nanoseconds since an arbitrary origin on this thread, if a test made its time virtual.
    static VIRTUAL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// One look at the virtual clock takes this long, so that a loop that only looks goes on.
const LOOK_NS: u64 = 100;
/// A virtual sleeper wakes up so much late.
const LATE_NS: u64 = 30_000;

/// Virtual time on this thread for as long as it lives: [`Clock::monotonic`](crate::clock::Clock::monotonic) reads it,
/// sleeping takes none of the real one.
pub(crate) struct VirtualTime;

impl VirtualTime {
    pub(crate) fn start() -> Self {
        VIRTUAL.set(Some(1_000_000_000));
        Self
    }
}

impl Drop for VirtualTime {
    fn drop(&mut self) {
        VIRTUAL.set(None);
    }
}

/// The virtual time, if there is one.
pub(crate) fn virtual_ns() -> Option<u64> {
    VIRTUAL.set(VIRTUAL.get().map(|now| now + LOOK_NS));
    VIRTUAL.get()
}

/// Lets virtual time pass.
pub(crate) fn pass_ns(ns: u64) {
    VIRTUAL.set(VIRTUAL.get().map(|now| now + ns));
}

/// Sleeps if time is virtual.
pub(crate) fn virtual_sleep(ns: u64) -> bool {
    pass_ns(ns + LATE_NS);
    VIRTUAL.get().is_some()
}

/// Half reads, half writes at random in one shared file of 16 MiB, cached, one at a time.
pub(crate) fn io() -> Io {
    Io {
        reads: Percent(50.0),
        block_size: Bytes::kib(4),
        total_size: Bytes::mib(16),
        fsync: SyncCall::Fsync,
        ..Io::default()
    }
}

/// A short load of requests.
pub(crate) fn load_of(io: Io, threads: u16) -> Load {
    Load {
        pattern: Pattern::Io(io),
        set: "load".into(),
        until: Until::Time,
        threads,
        warmup: Nanos::millis(20),
        duration: Nanos::millis(60),
        seed: 1,
        data: Data::Random,
        rate: None,
        handicap: Percent(0.0),
    }
}

/// A short load on file sets.
pub(crate) fn file_set_of(files: u32, size: u64, steps: &[Step], threads: u16) -> Load {
    let set = FileSet { files, file_size: Bytes(size), steps: steps.to_vec() };
    Load { pattern: Pattern::Files(set), ..load_of(io(), threads) }
}

/// Reads a histogram back as any other program would.
pub(crate) fn decode(text: &str) -> Histogram<u64> {
    let bytes = STANDARD.decode(text).unwrap();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}
