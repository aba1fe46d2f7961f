//! The tracer on this kernel: threads whose time is known.

#![expect(clippy::disallowed_methods, reason = "sleep is the subject")]

use fstrial_model::{evidence::Activity, filesystem::waits};
use fstrial_probe::Observer;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hint::black_box,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Threads that sleep, compute, and wait for a pipe.
#[test]
fn every_thread_time_is_accounted_for() {
    let mut tracer = match Observer::start(&[]) {
        Ok(tracer) => tracer,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED every_thread_time_is_accounted_for: {error}");
            return;
        }
    };
    let (mut reader, writer) = std::io::pipe().unwrap();
    let named = |name: &str| thread::Builder::new().name(name.into());
    let ends = Arc::new(AtomicBool::new(false));
    let until_end = |turn: fn()| {
        let ends = Arc::clone(&ends);
        move || {
            while !ends.load(Ordering::Relaxed) {
                turn()
            }
        }
    };
    let sleep = || thread::sleep(Duration::from_millis(50));
    let compute = || _ = black_box([0_u8; 64]);
    let threads = [
        named("sleeper-0").spawn(until_end(sleep)).unwrap(),
        named("computer-0").spawn(until_end(compute)).unwrap(),
        named("computer-1").spawn(until_end(compute)).unwrap(),
        named("reader-0").spawn(move || drop(reader.read_to_end(&mut Vec::new()))).unwrap(),
    ];
    thread::sleep(Duration::from_millis(100));
    tracer.begin().unwrap();
    thread::sleep(Duration::from_millis(1000));
    tracer.end().unwrap();
    ends.store(true, Ordering::Relaxed);
    drop(writer);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let evidence = tracer.evidence().unwrap();
    assert_eq!(evidence.lost, 0);
    // A second of a few hundred switches, and of 499 samples on each processor.
    let cost = evidence.cost.unwrap();
    assert!((1..evidence.duration.0 / 10).contains(&cost.0), "{cost:?}");
    let share = |group: &Activity| group.accounted().0 as f64 / evidence.duration.0 as f64;
    for (name, threads) in [("sleeper", 1.0), ("computer", 2.0), ("reader", 1.0)] {
        let group = evidence.group(name).unwrap();
        assert!((share(group) / threads - 1.0).abs() < 0.02, "{name}: {} {group:?}", share(group));
    }
    for (name, function) in [("sleeper", "do_nanosleep"), ("reader", "pipe_read")] {
        let [wait] = &evidence.group(name).unwrap().waits[..] else { panic!("{name}: {evidence:?}") };
        assert!(wait.frames.iter().any(|frame| frame.contains(function)), "{name}: {wait:?}");
        assert!(wait.frames[0].contains("schedule"), "{wait:?}");
    }
    let computer = evidence.group("computer").unwrap();
    let total: u64 = computer.samples.iter().map(|sample| sample.count).sum();
    let user: u64 = computer.samples.iter().filter(|it| it.frames.is_empty()).map(|it| it.count).sum();
    assert!(total > 50 && user * 10 > total * 5, "{user} of {total}: {computer:?}");
}

/// Reasons whose functions a kernel may lack: of filesystems that it was built without, and functions that its compiler inlined.
const OPTIONAL: [&str; 2] = ["a checkpoint", "the log's pending changes to be written"];

/// Kernels rename their functions; then a wait would have no reason, and no test of a load might meet it.
#[test]
fn every_reason_has_functions_of_this_kernel() {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    // Compilers add endings, such as `.isra.0`.
    let name = |line: &'_ str| {
        line.split_whitespace().nth(2).map(|name| name.split('.').next().unwrap_or(name).to_owned())
    };
    let known: BTreeSet<String> = symbols.lines().filter_map(name).collect();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let has_all = ["xfs_log_force", "btrfs_sync_file", "ext4_sync_file"].iter().all(|it| known.contains(*it));
    if !has_all {
        let what = "this kernel's functions are hidden, or its filesystems are modules";
        let _ = writeln!(std::io::stderr(), "SKIPPED every_reason_has_functions_of_this_kernel: {what}");
        return;
    }
    let mut reasons: BTreeMap<&str, bool> = BTreeMap::new();
    for (what, functions) in waits::catalogue() {
        *reasons.entry(what).or_default() |= functions.iter().all(|function| known.contains(*function));
    }
    let lost = reasons.iter().filter(|(what, is_known)| !**is_known && !OPTIONAL.contains(what));
    assert_eq!(lost.map(|(what, _)| *what).collect::<Vec<_>>(), Vec::<&str>::new(), "Linux {release}");
}
