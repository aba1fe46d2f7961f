//! fstrial's load engine side by side with a bare C loop, fio and sysbench, on cached files.
//!
//! `cargo bench -p fstrial-engine` prints the table in docs/benchmarks.md in under three minutes. Under `cargo test` it
//! runs for a moment, so that it cannot rot. Arguments, after `--`:
//!
//! ```text
//! --rounds N    rounds of the comparison (7); more for a narrower spread
//! --only WORD   only rows whose name has this word, and no memory
//! --loop N      nothing but the loop around nothing, N times: for callgrind and perf
//! ```
//!
//! All loads read and write a file of 16 MiB in the page cache at random, 4 KiB at a time, each tool a file
//! that was laid out the same way. In each round every row is measured once in the order A B C D D C B A, and
//! rows take turns, so that drift affects all alike. The better of two slices counts: disturbances come from
//! the rest of the machine.

mod contenders;
mod memory;
mod table;
mod ycsb;

use contenders::{Contender, Kind, Load, Outcome, Tools};
use fstrial_engine::{loop_around_nothing, measure_overhead};
use std::{
    io::Write,
    path::{Path, PathBuf},
};
use table::{Goal, Row, Table};

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1)).map(String::as_str)
    };
    if let Some(operations) = after("--loop") {
        loop_around_nothing(operations.parse()?);
        return Ok(());
    }
    let full = arguments.iter().any(|argument| argument == "--bench");
    let rounds = after("--rounds").map_or(Ok(if full { 7 } else { 1 }), str::parse)?;
    let mut out = std::io::stdout().lock();
    costs(&mut out)?;
    ycsb::print(&mut out, full)?;
    let only = after("--only");
    if only.is_none() {
        memory::print(&mut out, full)?;
    }

    let home = home();
    let disk = tempfile::Builder::new().prefix("fstrial-bench-").tempdir_in(&home)?;
    let memory = tempfile::Builder::new().prefix("fstrial-bench-").tempdir_in("/dev/shm")?;
    let mut rows = rows(memory.path(), disk.path());
    if let Some(word) = only {
        rows.retain(|row| row.name().contains(word));
    }
    let build = tempfile::tempdir()?;
    let slice_ms = if full { 250 } else { 5 };
    let tools = Tools::find(build.path(), slice_ms, full);
    writeln!(out, "\nbuffered 4 KiB, cached: {rounds} rounds of {}, {slice_ms} ms each", tools.order())?;
    writeln!(out, "{}", table::machine(&home))?;
    for (contender, reason) in tools.missing() {
        writeln!(out, "without {contender}: {reason}")?;
    }
    let mut table = Table::new(rows, tools.present());
    for round in 0..rounds {
        table.round(&tools, round == 0)?;
    }
    table.print(&mut out)?;
    Ok(())
}

/// The comparisons. A further line here is a further row in the table; tools skip rows they do not support.
fn rows(memory: &Path, disk: &Path) -> Vec<Row> {
    let row =
        |kind, threads, place: &Path, goals| Row { load: Load { kind, threads, place: place.into() }, goals };
    let bar = || vec![Goal::Rate { of: Contender::Bare, least: 0.97 }];
    let ring =
        vec![Goal::Rate { of: Contender::Bare, least: 0.95 }, Goal::Rate { of: Contender::Fio, least: 1.2 }];
    vec![
        row(Kind::Read, 1, memory, bar()),
        row(Kind::Read, 1, disk, bar()),
        row(Kind::Read, 2, disk, vec![Goal::Scaling { least: 1.9 }]),
        row(Kind::Write, 1, memory, bar()),
        row(Kind::Fresh, 1, memory, bar()),
        // Not in memory: tmpfs cannot read without blocking, so each request would go to a worker thread.
        row(Kind::Ring, 1, disk, ring),
        row(Kind::Files, 1, memory, vec![]),
    ]
}

/// Folder of the files on a real filesystem: `TMPDIR`, or Cargo's own, as `/tmp` is in memory on many
/// machines.
fn home() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

fn costs(out: &mut impl Write) -> Outcome<()> {
    let cost = measure_overhead()?;
    writeln!(out, "what the engine costs, ns for each operation (clock: {:?})", cost.clock)?;
    for (name, ns) in [
        ("a reading of the clock", cost.clock_ns),
        ("a record in a histogram", cost.histogram_ns),
        ("the complete loop around nothing", cost.loop_ns_per_op),
        ("the complete loop around pread", cost.pread_loop_ns_per_op),
        ("a bare loop around pread", cost.bare_loop_ns_per_op),
        ("a bare loop with the clock", cost.bare_clocked_loop_ns_per_op),
    ] {
        writeln!(out, "  {name:34}{ns:9.1}")?;
    }
    Ok(())
}
