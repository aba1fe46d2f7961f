//! Causes of verdicts on real filesystems: the first one named is the one that was planted.

use crate::support::{self, Ended, FSTRIAL, Lab, PATIENCE, Running};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

/// True if this kernel cannot be observed, which is said.
fn is_unobservable(name: &str, ended: &Ended) -> bool {
    let is_refused = ended.code() == 10 && ended.stderr.contains("the kernel gives no evidence");
    if is_refused {
        support::skip(name, ended.stderr.lines().next().unwrap_or_default());
    }
    is_refused
}

/// The explanation of a comparison of two arms under one load; `None` if this kernel cannot be observed.
fn explained(lab: &Lab, name: &str, comparison: &str) -> Option<Value> {
    let ended: Ended = lab.run(&format!("compare {comparison} --explain"));
    if is_unobservable(name, &ended) {
        return None;
    }
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    assert!(ended.stdout.contains("\nWhy\n"), "{ended:?}");
    let report = lab.run("report --format json").json().remove(0);
    let all = report["explanations"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    let explanation = all[0].clone();
    // Every nanosecond is in one part.
    for (index, of) in ["a_ns", "b_ns"].into_iter().enumerate() {
        let whole = explanation["per_operation_ns"][index].as_f64().unwrap();
        let parts = explanation["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part[of].as_f64().unwrap()).sum();
        let unaccounted = parts.iter().find(|part| part["category"].is_null()).unwrap()[of].as_f64().unwrap();
        assert!((sum / whole - 1.0).abs() < 1e-9 && (unaccounted / whole).abs() < 0.05, "{explanation}");
    }
    Some(explanation)
}

/// Without `ssd` each sync of btrfs sleeps a tick, so that others may join it.
#[test]
fn sleep_of_btrfs_without_ssd_is_named() {
    let name = "sleep_of_btrfs_without_ssd_is_named";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let comparison = "nossd=btrfs:nossd ssd=btrfs:ssd -w append-fsync --threads 4 --duration 500ms --rounds 8 \
                      --device model:nvme --set device.size=1GiB";
    let Some(explanation) = explained(&lab, name, comparison) else { return };
    // On a busy machine the observed runs may differ from the timed ones, and the answer says so.
    let conclusion = explanation["conclusion"].as_str().unwrap();
    assert!(["because", "not-reproduced"].contains(&conclusion), "{explanation}");
    let first = &explanation["parts"][0];
    assert!(first["share"][1][0].as_f64().unwrap() > 0.5, "{first}");
    assert_eq!(first["category"], "sleep", "{first}");
    let cause = &first["causes"][0];
    assert!(cause["cause"]["what"].as_str().unwrap().contains("one tick"), "{first}");
    let stacks = cause["stacks"].as_array().unwrap();
    let time: f64 = stacks.iter().map(|stack| stack["per_operation_ns"].as_f64().unwrap()).sum();
    assert!(time > 0.9 * first["b_ns"].as_f64().unwrap(), "{first}");
    assert!(stacks.iter().all(|stack| stack["arm"] == "nossd"), "{first}");
    assert!(!explanation["other_threads"].as_array().unwrap().is_empty(), "{explanation}");
    let observation = explanation["observation_ns"][0].as_f64().unwrap();
    let whole = explanation["per_operation_ns"][0].as_f64().unwrap();
    assert!(observation > 0.0 && observation < whole / 4.0, "{explanation}");
    let page = lab.run("report --out -").stdout;
    assert_eq!(page.matches("<svg class=\"flame\"").count(), 3, "{page}");
    for expected in ["Why", "more of nossd", "waiting for other syncs to join", "btrfs_sync_log"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let folded = lab.run("results export --format folded").stdout;
    let of_nossd = folded.lines().filter(|line| line.starts_with("nossd "));
    let sum: f64 = of_nossd.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
    let whole = explanation["per_operation_ns"][1].as_f64().unwrap();
    assert!((sum / whole - 1.0).abs() < 0.02, "{sum}, not {whole}: {folded}");
    // Later evidence takes the place of earlier evidence.
    let text = lab.run("explain").stdout;
    let stored = lab.run("report --format text").stdout;
    assert!(stored.contains(text.lines().next().unwrap()), "{text}: {stored}");
    for expected in ["8 rounds observed", "share of the difference", "btrfs_sync_log"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    lab.assert_nothing_left("after an explanation");
}

/// Two workloads on one arm, or two arms under one, and the cause that makes one of the two slow.
struct Planted {
    trial: &'static str,
    category: &'static str,
    /// Words of the answer.
    words: &'static [&'static str],
}

const INODE_LOCK: Planted = Planted {
    trial: "compare = 'workloads'\n[[arm]]\nfilesystem = 'ext4'\n\
            [[workload]]\nname = 'one'\nkind = 'io'\nblock_size = '1MiB'\nfile_size = '32MiB'\nthreads = [8]\nwarmup = '100ms'\nduration = '300ms'\n\
            [[workload]]\nname = 'each'\nkind = 'io'\nblock_size = '1MiB'\nfile_size = '32MiB'\nthreads = [8]\nwarmup = '100ms'\nduration = '300ms'\n\
            sharing = 'per-thread'\n",
    category: "lock",
    words: &["an exclusive lock in ext4_buffered_write_iter"],
};

const DIRECTORY_LOCK: Planted = Planted {
    trial: "compare = 'workloads'\n[[arm]]\nfilesystem = 'ext4'\n\
            [[workload]]\nname = 'one'\nkind = 'flow'\nthreads = [8]\nwarmup = '100ms'\nduration = '500ms'\n\
            sets = [{ name = 'items', files = 4000, present = '50%' }]\nsteps = ['create items', 'close', 'delete items']\n\
            [[workload]]\nname = 'each'\nkind = 'flow'\nthreads = [8]\nwarmup = '100ms'\nduration = '500ms'\n\
            sets = [{ name = 'items', files = 4000, present = '50%', per_thread = true }]\n\
            steps = ['create items', 'close', 'delete items']\n",
    category: "lock",
    words: &["waiting for locks", "do_unlinkat"],
};

const LOCK_OF_THE_LOAD: Planted = Planted {
    trial: "compare = 'workloads'\n[[arm]]\nfilesystem = 'xfs'\n\
            [[workload]]\nuse = 'random-write'\nname = 'locked'\nserialise = 'io'\nthreads = [4]\nwarmup = '100ms'\nduration = '300ms'\n\
            [[workload]]\nuse = 'random-write'\nname = 'free'\nthreads = [4]\nwarmup = '100ms'\nduration = '300ms'\n",
    category: "others",
    words: &["another thread (futex)"],
};

const DATA_IN_JOURNAL: Planted = Planted {
    trial: "[[arm]]\nfilesystem = 'ext4'\n[[arm]]\nname = 'data'\nfilesystem = 'ext4'\nmount = ['data=journal']\n\
            [[workload]]\nuse = 'sequential-write'\nfile_size = '32MiB'\ndirect = false\nfsync_every = 4\nthreads = [2]\nwarmup = '100ms'\nduration = '300ms'\n",
    category: "journal",
    words: &[
        "the journal's commit",
        "the device has a request",
        "time of a commit",
        "– writing data, journal, flushes",
        "distance between requests",
        "– at the device",
        "flushes of its cache",
        "pieces of a file, after it",
    ],
};

/// The kernel's workers compress, and the load waits for them.
const COMPRESSION: Planted = Planted {
    trial: "[[arm]]\nfilesystem = 'btrfs'\n[[arm]]\nname = 'zstd'\nfilesystem = 'btrfs'\nmount = ['compress-force=zstd:15']\n\
            [[workload]]\nuse = 'sequential-write'\nfile_size = '32MiB'\ndirect = false\nfsync_every = 4\nthreads = [2]\nwarmup = '100ms'\nduration = '500ms'\n\
            data = 'mixed'\ncompressible = '50%'\n",
    category: "lock",
    words: &["a page's lock", "meanwhile kworker threads spend"],
};

/// The first cause that is named is the planted one.
fn assert_named(name: &str, planted: &Planted) {
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let device = "[device]\nkind = 'model'\nmodel = 'sata-ssd'\nsize = '1GiB'\n";
    let trial = format!("[trial]\nrounds = 9\nexplain = 8\n{}{device}", planted.trial);
    let file = lab.write("planted.toml", &trial);
    let ended: Ended = lab.run(&format!("run {}", file.display()));
    if is_unobservable(name, &ended) {
        return;
    }
    if ended.code() == 3 {
        return support::skip(name, "this machine is too busy for a verdict in nine rounds");
    }
    assert_eq!(ended.code(), 0, "{ended:?}");
    let explanation = lab.run("report --format json").json().remove(0)["explanations"][0].clone();
    let conclusion = explanation["conclusion"].as_str().unwrap();
    if conclusion == "disturbed" {
        return support::skip(name, "other programs used the processors of this machine");
    }
    assert!(["because", "not-reproduced"].contains(&conclusion), "{explanation}");
    assert_eq!(explanation["parts"][0]["category"], planted.category, "{explanation}");
    let text = lab.run("report --format text").stdout;
    for expected in planted.words {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn lock_of_a_file_is_named() {
    assert_named("lock_of_a_file_is_named", &INODE_LOCK);
}

#[test]
fn journal_of_data_is_named() {
    assert_named("journal_of_data_is_named", &DATA_IN_JOURNAL);
}

#[test]
fn compression_by_other_threads_is_named() {
    assert_named("compression_by_other_threads_is_named", &COMPRESSION);
}

#[test]
#[ignore = "takes minutes with the others: `cargo xtask long tests`"]
fn locks_of_a_directory_and_of_the_load_are_named() {
    assert_named("locks_of_a_directory_and_of_the_load_are_named (directory)", &DIRECTORY_LOCK);
    assert_named("locks_of_a_directory_and_of_the_load_are_named (load)", &LOCK_OF_THE_LOAD);
}

/// Without type information the kernel loads no programs, and /proc is sampled instead.
#[test]
fn cause_is_named_without_programs_in_the_kernel() {
    let name = "cause_is_named_without_programs_in_the_kernel";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return support::skip(name, "this kernel has no type information to hide");
    }
    let lab = Lab::new();
    let comparison = "compare ext4 fast=ext4:nobarrier -w append-fsync --threads 4 --duration 500ms --rounds 8 --device hdd-7200 \
                      --set device.size=1GiB --explain";
    let mut command = lab.prepare("unshare");
    let hide = "mount --bind /dev/null /sys/kernel/btf/vmlinux && exec \"$0\" \"$@\"";
    command.args(["--mount", "sh", "-c", hide, FSTRIAL]).args(comparison.split_whitespace());
    let ended = Running::start(command).end(PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let report = lab.run("report --format json").json().remove(0);
    let explanation = &report["explanations"][0];
    let missing = explanation["missing"].as_str().unwrap_or_default();
    assert!(missing.contains("no type information") && missing.contains("samples of /proc"), "{explanation}");
    assert_eq!(explanation["parts"][0]["category"], "journal", "{explanation}");
    assert!(explanation["parts"][0]["share"][1][0].as_f64() > Some(0.5), "{explanation}");
    assert!(ended.stdout.contains("What is missing: "), "{ended:?}");
    assert!(
        explanation["counters"].as_array().unwrap().iter().any(|it| it["name"] == "flushes of its cache")
    );
    lab.assert_nothing_left("after samples of /proc");
}

/// A killed observation leaves nothing, and can be repeated.
#[test]
fn killed_observation_loses_nothing() {
    let name = "killed_observation_loses_nothing";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.run(
        "compare ext4 fast=ext4:nobarrier -w append-fsync --threads 4 --duration 300ms --rounds 8 --device hdd-7200 \
         --set device.size=1GiB",
    );
    let explained =
        || lab.run("report --format json").json().remove(0)["explanations"].as_array().map(Vec::len);
    let running = lab.start("explain");
    let has_worker = || support::worker_of(running.pid()).is_some();
    assert!(support::eventually(PATIENCE, has_worker));
    support::pause(Duration::from_millis(1500));
    let worker = support::worker_of(running.pid());
    support::kill(running.pid());
    worker.into_iter().for_each(|worker| support::signal_group(worker, Signal::KILL));
    let ended = running.end(PATIENCE);
    if !ended.is_killed() && is_unobservable(name, &ended) {
        return;
    }
    assert!(ended.is_killed(), "{ended:?}");
    support::eventually(support::SETTLE, || lab.leaks().is_empty());
    lab.clean();
    lab.assert_nothing_left("after a killed observation");
    assert_eq!(explained(), None);
    let again = lab.run("explain");
    assert_eq!(again.code(), 0, "{again:?}");
    assert_eq!(explained(), Some(1));
}

/// Where nothing differs nothing is explained.
#[test]
fn twins_have_no_cause() {
    let name = "twins_have_no_cause";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run(
        "compare ext4 twin=ext4 -w append-fsync --threads 1 --duration 300ms --rounds 8 --device model:nvme \
         --set device.size=1GiB",
    );
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let ended = lab.run("explain --json");
    assert_eq!(ended.code(), 3, "{ended:?}");
    let explanation = ended.json().pop().unwrap();
    let conclusion = explanation["conclusion"].as_str().unwrap();
    assert!(["no-difference", "undecided"].contains(&conclusion), "{explanation}");
    assert_eq!(explanation["rounds"], 0);
}

#[test]
fn work_that_no_thread_time_explains_is_refused() {
    let lab = Lab::new();
    let ended = lab.run("explain");
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stderr.contains("there are no results"), "{ended:?}");
    if !support::is_root_with_loop_devices("work_that_no_thread_time_explains_is_refused") {
        return;
    }
    lab.run("compare ext4 xfs -w op-mkfs --rounds 1 --device model:nvme --set device.size=1GiB");
    let ended = lab.run("explain");
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stderr.contains("compares no throughput of loads"), "{ended:?}");
}
