//! `fstrial-rocksdb`: a worker of fstrial that has RocksDB, started by `fstrial` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    fstrial_run::worker::helper("fstrial-rocksdb", fstrial_rocksdb::version, &fstrial_rocksdb::Engines)
}
