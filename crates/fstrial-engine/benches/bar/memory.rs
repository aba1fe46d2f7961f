//! Memory does not grow with the length of a run: the process's resident memory before and after loops of
//! very different lengths around nothing.

use crate::contenders::Outcome;
use fstrial_engine::loop_around_nothing;
use std::{io::Write, time::Instant};

pub(crate) fn print(out: &mut impl Write, full: bool) -> Outcome<()> {
    writeln!(out, "\nresident memory in KiB, every latency recorded")?;
    writeln!(out, "  {:>13}{:>9}{:>9}{:>9}{:>8}", "operations", "before", "after", "peak", "ns/op")?;
    let lengths: &[u64] = if full { &[1_000_000, 100_000_000, 1_000_000_000] } else { &[1_000, 100_000] };
    for operations in lengths {
        let (before, start) = (resident("VmRSS")?, Instant::now());
        let result = loop_around_nothing(*operations);
        let ns = start.elapsed().as_nanos() as f64 / *operations as f64;
        assert_eq!(result.operations, *operations);
        let (after, peak) = (resident("VmRSS")?, resident("VmHWM")?);
        writeln!(out, "  {operations:13}{before:9}{after:9}{peak:9}{ns:8.1}")?;
    }
    Ok(())
}

/// A line of `/proc/self/status`, in KiB.
fn resident(name: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.ok_or("no such line in /proc/self/status")?.trim().trim_end_matches(" kB").parse()?)
}
