//! SIGKILL at any moment, from the making of the file on: every run that was reported as stored is there.
//!
//! The test starts itself as a child that writes runs and reports each on its standard output once
//! [`Store::record_run`] has returned. (Power loss is not played here: that a commit waits for the disk is asserted of
//! the settings in `store.rs`.)

use crate::common;
use fstrial_store::{ImportOutcome, Store, TrialId, TrialStatus};
use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const CHILD: &str = "FSTRIAL_STORE_TEST_CHILD";

/// The loop of the child: it writes runs until it is killed, or until it has written `most` runs.
fn write_runs(path: &Path, most: u64) {
    let mut out = std::io::stdout().lock();
    let mut report = |line: String| {
        // In one write, so that a line is there whole or not at all.
        out.write_all(line.as_bytes()).unwrap();
        out.flush().unwrap();
    };
    report("\nopening\n".into());
    let mut store = Store::open(path).unwrap();
    let trial = match store.latest_trial().unwrap() {
        Some(trial) if most == u64::MAX => trial.id,
        _ => common::create_trial(&mut store),
    };
    let first = store.runs(trial).unwrap().len() as u64;
    for index in first..most {
        common::record(&mut store, trial, index).unwrap();
        report(format!("stored {trial} {index}\n"));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is its own child: no command line to report, killed by it"
)]
fn start_child(test: &str, path: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the point is to strike at a moment that nothing announces")]
fn wait(time: Duration) {
    thread::sleep(time);
}

/// The runs reported, as (trial, index).
fn reported(output: &str) -> Vec<(TrialId, u64)> {
    // A line that was cut by the kill was not reported.
    let whole = &output[..output.rfind('\n').map_or(0, |end| end + 1)];
    whole
        .lines()
        .filter_map(|line| line.strip_prefix("stored "))
        .map(|rest| {
            let (trial, index) = rest.split_once(' ').unwrap();
            (trial.parse().unwrap(), index.parse().unwrap())
        })
        .collect()
}

#[test]
fn every_run_reported_as_stored_survives_sigkill() {
    if let Some(path) = env::var_os(CHILD) {
        return write_runs(Path::new(&path), u64::MAX);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut random = u64::from(std::process::id());
    let (mut kills_while_making, mut stored) = (0, 0);
    for kill in 0..40_u64 {
        // Half of the kills hit the making of a new file, the others a file that survived kills before.
        let making = kill < 20;
        let path = folder.path().join(if making { format!("{kill}.db") } else { "long.db".into() });
        let mut child = start_child("kill::every_run_reported_as_stored_survives_sigkill", &path);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut before = String::new();
        let mut read_until = |wanted: &str| {
            let from = before.len();
            while !before[from..].contains(wanted) {
                assert!(output.read_line(&mut before).unwrap() > 0, "the child ended early");
            }
        };
        read_until("\nopening\n");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (longest_us, reports) = if making { (500 * kill, 0) } else { (3_000, 10 + (random >> 59)) };
        (0..reports).for_each(|_| read_until("stored "));
        wait(Duration::from_micros((random >> 33) % (longest_us + 1)));
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut before).unwrap();

        let store = Store::open(&path).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new(), "kill {kill}");
        let reports = reported(&before);
        let trial = store.latest_trial().unwrap().map(|trial| trial.id);
        kills_while_making += u32::from(trial.is_none());
        assert!(reports.iter().all(|report| Some(report.0) == trial), "kill {kill}");
        if let Some(trial) = trial {
            let runs = store.runs(trial).unwrap();
            let reported = reports.last().map_or(0, |report| report.1 + 1);
            assert!(runs.len() as u64 >= reported, "kill {kill}: {} of {reported} runs", runs.len());
            common::assert_runs(&store, trial, runs.len() as u64);
            stored += reports.len();
        }
    }
    assert!(stored >= 200, "only {stored} runs were stored between the kills");
    assert!(kills_while_making > 0, "no kill came before the first trial");
}

/// Found by the test above: page 1 is written first, and then refers to pages that only the log has.
#[test]
fn store_survives_kill_during_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let trial = common::create_trial(&mut store);
    for index in 0..8 {
        common::record(&mut store, trial, index).unwrap();
    }
    let killed = folder.path().join("killed.db");
    std::fs::copy(&path, &killed).unwrap();
    std::fs::copy(folder.path().join("s.db-wal"), folder.path().join("killed.db-wal")).unwrap();
    drop(store);
    let (moved, mut half) = (std::fs::read(&path).unwrap(), std::fs::read(&killed).unwrap());
    assert!(moved.len() > half.len(), "nothing was in the log");
    half[..4096].copy_from_slice(&moved[..4096]);
    std::fs::write(&killed, half).unwrap();
    common::assert_runs(&Store::open_read_only(&killed).unwrap(), trial, 8);
    common::assert_runs(&Store::open(&killed).unwrap(), trial, 8);
}

/// Also found by it: a file killed in its very first commit has our page 1 and a journal that rolls it back.
#[test]
fn store_killed_during_creation_is_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let beside = folder.path().join("s.db-journal");
    // The file was empty before, and so its journal records zero pages. The layout is in SQLite's "Database File
    // Format" §3.
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    let whole = folder.path().join("whole.db");
    drop(Store::open(&whole).unwrap());
    std::fs::write(&path, &std::fs::read(&whole).unwrap()[..4096]).unwrap();
    std::fs::write(&beside, journal).unwrap();
    assert!(Store::open_read_only(&path).is_err(), "there is nothing to read yet");
    assert!(beside.exists(), "a reader changed something");
    let mut store = Store::open(&path).unwrap();
    let trial = common::create_trial(&mut store);
    common::record(&mut store, trial, 0).unwrap();
    common::assert_runs(&store, trial, 1);
}

/// Killed imports leave whole trials, and repeating the import completes it.
#[test]
fn killed_import_keeps_whole_trials_and_is_repeatable() {
    const TEST: &str = "kill::killed_import_keeps_whole_trials_and_is_repeatable";
    const TRIALS: usize = 8;
    const RUNS: u64 = 12;
    if let Some(path) = env::var_os(CHILD) {
        let path = Path::new(&path);
        let other = Store::open_read_only(path.with_file_name("other.db")).unwrap();
        let mut store = Store::open(path).unwrap();
        for trial in other.trials().unwrap() {
            if let ImportOutcome::Copied(_) = store.import_trial(&other, trial.id).unwrap() {
                std::io::stdout().lock().write_all(b"one more\n").unwrap();
            }
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("here.db"), folder.path().join("other.db"));
    let mut there = Store::open(&other).unwrap();
    for trial in 0..TRIALS {
        // Different trials, or they would be one.
        let id = common::create_trial_at(&mut there, &format!("2026-01-02T03:04:{trial:02}Z"));
        for index in 0..RUNS {
            common::record(&mut there, id, index).unwrap();
        }
        there.finish_trial(id, TrialStatus::Decided, common::ENDED).unwrap();
    }
    drop(there);
    let (mut kills, mut before) = (0, 0);
    for kill in 0..TRIALS as u64 {
        let mut child = start_child(TEST, &path);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("one more") && output.read_line(&mut line).unwrap() > 0 {}
        wait(Duration::from_millis(kill));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let store = Store::open(&path).unwrap();
        let trials = store.trials().unwrap();
        trials.iter().for_each(|trial| common::assert_runs(&store, trial.id, RUNS));
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        assert!(trials.len() > before, "kill {kill}: a trial that was reported is not there");
        before = trials.len();
        kills += u32::from(!status.success());
        if before == TRIALS {
            break;
        }
    }
    assert_eq!(before, TRIALS, "each of them brought one trial at least");
    assert!(kills > 0, "no import was killed");
}

#[test]
fn two_processes_write_at_once() {
    const TEST: &str = "kill::two_processes_write_at_once";
    if let Some(path) = env::var_os(CHILD) {
        return write_runs(Path::new(&path), 50);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let children = [start_child(TEST, &path), start_child(TEST, &path)];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(reported(&String::from_utf8(output.stdout).unwrap()).len(), 50);
    }
    let store = Store::open_read_only(&path).unwrap();
    let trials = store.trials().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        common::assert_runs(&store, trial.id, 50);
    }
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}
