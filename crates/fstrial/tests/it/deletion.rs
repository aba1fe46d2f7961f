//! Files that programs leave in their folders are deleted; the ones that cannot be deleted are reported soon, and only
//! they are left.

use crate::support::{self, Lab, NOBODY, SETTLE, eventually};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::chown,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Two directories of a lab that an ordinary user may write to.
fn directories(lab: &Lab) -> [PathBuf; 2] {
    ["a", "b"].map(|name| {
        fs::create_dir(lab.path(name)).unwrap();
        chown(lab.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
        lab.path(name)
    })
}

/// A program that leaves files as Go's module cache does, and worse ones.
const LEAVES: &str = r#"
kind = "program"
file_size = "1MiB"
command = ["perl", "-e", '''
mkdir "read-only"; mkdir "read-only/deeper"; open F, ">", "read-only/deeper/file"; close F;
chmod 0555, "read-only/deeper", "read-only"; mkdir "closed"; mkdir "closed/in"; chmod 0, "closed";
mkdir "deep"; chdir "deep"; for (1..3000) {{ mkdir "a folder with a long name"; chdir "a folder with a long name"; }}
''']
[[metric]]
name = "wall"
unit = "ns"
better = "lower"
measure = "wall"
"#;

#[test]
fn deletes_all_files_left_by_program() {
    let name = "deletes_all_files_left_by_program";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    let lab = Lab::new();
    let folders = directories(&lab);
    lab.write("leaves.toml", LEAVES);
    let words = "compare dir:a dir:b --workload leaves.toml --threads 1 --rounds 1 --json";
    // As root first: the home folder is handed over then.
    for as_root in [true, false] {
        let ended = match as_root {
            true => lab.run(words),
            false => match lab.run_as_nobody(&words.replace("leaves.toml", "leaves.toml --tag ordinary")) {
                Ok(ended) => ended,
                Err(reason) => return support::skip(name, &reason),
            },
        };
        assert_eq!(ended.code(), 3, "as root: {as_root}: {ended:?}");
        assert!(ended.json().iter().all(|event| event["failure"].is_null()), "as root: {as_root}: {ended:?}");
        assert!(folders.iter().all(|folder| support::names_in(folder).is_empty()), "as root: {as_root}");
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
        let _ = fs::remove_dir_all(lab.home());
    }
}

/// A mount below the folder does not pass by waiting for it.
#[test]
fn undeletable_folder_is_reported_promptly() {
    let name = "undeletable_folder_is_reported_promptly";
    if !support::is_root(name, "to mount something") {
        return;
    }
    let lab = Lab::new();
    let folders = directories(&lab);
    let words = "compare dir:a dir:b --duration 200ms --set workload.warmup=20ms --workload random-write --set workload.file_size=16MiB \
                 --threads 1 --json";
    let mut running = lab.start(words);
    while running.event().is_some_and(|event| event["event"] != "run-stage" || event["stage"] != "load") {}
    let made = |folder: &PathBuf| support::names_in(folder).into_iter().next().map(|name| folder.join(name));
    let point = folders.iter().find_map(made).expect("a run has its folder").join("point");
    fs::create_dir(&point).unwrap();
    support::tool("mount", &["-i", "-n", "-t", "tmpfs", "none", point.to_str().unwrap()]);
    let began = Instant::now();
    let ended = running.end(support::PATIENCE);
    let took = began.elapsed();
    support::tool("umount", &[point.to_str().unwrap()]);
    assert_eq!(ended.code(), 12, "{ended:?}");
    assert!(took < Duration::from_secs(10), "{took:?} went by");
    assert!(ended.stderr.contains("is mounted on") && ended.stderr.contains("point"), "{ended:?}");
    lab.clean();
    assert!(folders.iter().all(|folder| support::names_in(folder).is_empty()));
}

/// A trial interrupted while it deletes continues for a moment only, and names the files it leaves.
#[test]
fn ctrl_c_ends_a_long_deletion() {
    let lab = Lab::new();
    let folders = ["a", "b"].map(|name| lab.path(name));
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let words = "compare dir:a dir:b --duration 200ms --set workload.warmup=20ms --workload random-write --set workload.file_size=16MiB \
                 --threads 1 --json";
    let mut running = lab.start(words);
    while running.event().is_some_and(|event| event["event"] != "run-stage" || event["stage"] != "load") {}
    let made = |folder: &PathBuf| support::names_in(folder).into_iter().next().map(|name| folder.join(name));
    let made = folders.iter().find_map(made).expect("a run has its folder");
    // More and more in it, until the command has ended.
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let filler = thread::spawn(move || {
        for number in 0.. {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            let folder = made.join((number % 50).to_string());
            // Not the run's folder, once that is deleted.
            let _ = fs::create_dir(&folder);
            let _ = std::os::unix::fs::symlink("nowhere", folder.join(number.to_string()));
        }
    });
    while running.event().is_some_and(|event| event["event"] != "run-stage" || event["stage"] != "unmount") {}
    support::pause(Duration::from_millis(500));
    running.signal(Signal::INT);
    let signalled = Instant::now();
    let ended = running.end(support::PATIENCE);
    let took = signalled.elapsed();
    is_over.store(true, Ordering::Relaxed);
    filler.join().unwrap();
    assert!(matches!(ended.code(), 12 | 130), "{ended:?}");
    assert!(took < Duration::from_secs(11), "{took:?} went by");
    assert!(ended.stderr.contains("interrupted: ending the run"), "{ended:?}");
    assert!(ended.code() == 130 || ended.stderr.contains("still to do: delete the folder"), "{ended:?}");
    let cleaned = lab.run("clean");
    assert_eq!(cleaned.code(), 0, "{cleaned:?}");
    assert!(eventually(SETTLE, || folders.iter().all(|folder| support::names_in(folder).is_empty())));
}
