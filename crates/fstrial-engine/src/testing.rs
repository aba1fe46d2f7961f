//! What tests build their loads from.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_model::{
    job::Load,
    units::{Bytes, Nanos, Percent},
    workload::{Data, FileSet, Io, Pattern, Step, SyncCall, Until},
};
use hdrhistogram::{Histogram, serialization::Deserializer};

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
