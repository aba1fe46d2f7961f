//! `fstrial-wiredtiger`: a worker of fstrial that has WiredTiger, started by `fstrial` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    fstrial_run::worker::helper("fstrial-wiredtiger", fstrial_wiredtiger::version, &fstrial_wiredtiger::Engines)
}
