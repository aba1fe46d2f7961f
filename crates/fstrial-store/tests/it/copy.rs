//! Stores of other users are read through a copy, with any files next to them.

use crate::common;
use fstrial_store::{Store, TrialId};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// A store with this many runs in its log and no open connection: its last user was killed.
fn with_log(folder: &Path, runs: u64) -> TrialId {
    let made = tempfile::tempdir().unwrap();
    let mut store = Store::open(made.path().join("s.db")).unwrap();
    let id = common::create_trial(&mut store);
    for round in 0..runs {
        common::record(&mut store, id, round).unwrap();
    }
    for name in ["s.db", "s.db-wal"] {
        fs::copy(made.path().join(name), folder.join(name)).unwrap();
    }
    assert!(fs::metadata(folder.join("s.db-wal")).unwrap().len() > 0, "there is a log");
    id
}

/// The file, its owner and its links, as they are.
fn state(path: &Path) -> (Vec<u8>, u32, u64, i64, i64) {
    let result = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), result.uid(), result.nlink(), result.mtime(), result.ctime_nsec())
}

#[test]
fn copy_leaves_neighboring_files_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "x".repeat(70_000)).unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    let id = with_log(&theirs, 3);
    fs::hard_link(&precious, theirs.join("s.db-shm")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(theirs.join("s.db"), Some(65_534), Some(65_534)).unwrap();
    }
    let before = state(&precious);
    let read = || common::assert_runs(&Store::open_copy(theirs.join("s.db")).unwrap(), id, 3);
    read();
    assert_eq!(state(&precious), before);
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 3, "something was made there");

    // A journal that will never be written again.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        theirs.join("s.db-journal"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    read();

    // A log that is a link, or a link to another file, is not theirs.
    fs::remove_file(theirs.join("s.db-wal")).unwrap();
    symlink(&precious, theirs.join("s.db-wal")).unwrap();
    drop(Store::open_copy(theirs.join("s.db")));
    assert_eq!(state(&precious), before);
}

#[test]
fn copy_refuses_store_with_hot_journal() {
    let folder = tempfile::tempdir().unwrap();
    with_log(folder.path(), 1);
    fs::write(folder.path().join("s.db-journal"), "half a change").unwrap();
    let error = Store::open_copy(folder.path().join("s.db")).unwrap_err();
    assert!(error.to_string().contains("was killed in a change"), "{error}");
}

/// With any end of the log, a copy shows the content that SQLite would show.
#[test]
fn copy_reads_damaged_wal_like_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let id = with_log(folder.path(), 5);
    let whole = fs::read(folder.path().join("s.db-wal")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for step in 0..60 {
        let mut log = whole.clone();
        match step % 3 {
            0 => log.truncate(whole.len() * step / 60),
            1 => log[whole.len() * step / 60] ^= 1,
            _ => log.truncate(32 + (whole.len() / (4096 + 24)) * step / 60 * (4096 + 24)),
        }
        let place = tempfile::tempdir().unwrap();
        fs::copy(folder.path().join("s.db"), place.path().join("s.db")).unwrap();
        fs::write(place.path().join("s.db-wal"), log).unwrap();
        let runs =
            |store: &Store| store.trial(id).map(|trial| trial.summary.runs).map_err(|e| e.to_string().len());
        let copied = Store::open_copy(place.path().join("s.db")).map(|store| runs(&store)).ok();
        let read = Store::open_read_only(place.path().join("s.db")).map(|store| runs(&store)).ok();
        assert_eq!(copied, read, "step {step}");
        seen.insert(format!("{copied:?}"));
    }
    assert!(seen.len() >= 5, "cuts in every transaction: {seen:?}");
}

#[test]
fn copy_of_store_under_write_is_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut store = Store::open(&path).unwrap();
    let id = common::create_trial(&mut store);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (over, path) = (&over, &path);
        scope.spawn(move || {
            for round in 0..300 {
                common::record(&mut store, id, round).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        let mut last = 0;
        let mut copies = 0;
        while !over.load(Ordering::Relaxed) {
            let copy = Store::open_copy(path).unwrap();
            assert_eq!(copy.check().unwrap(), Vec::<String>::new());
            let runs = copy.trial(id).unwrap().summary.runs;
            assert!(runs >= last, "{runs} after {last}");
            last = runs;
            copies += 1;
        }
        assert!(copies > 3, "{copies}");
    });
    // The last user moves the log into the file.
    common::assert_runs(&Store::open_copy(&path).unwrap(), id, 300);
}

#[test]
fn a_copy_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let id = with_log(folder.path(), 1);
    let store = Store::open_copy(folder.path().join("s.db")).unwrap();
    // Other tests may make one at this moment.
    let named = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let names = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let ours: Vec<String> =
            names.map(|name| name.display().to_string()).filter(|name| name.contains("store.db")).collect();
        (!ours.is_empty()).then(|| ours.iter().all(|name| name.ends_with("(deleted)")))
    };
    assert!((0..500).any(|_| named() == Some(true)), "{:?}", named());
    common::assert_runs(&store, id, 1);
    // Holes fill no disk.
    let large = folder.path().join("large.db");
    fs::copy(folder.path().join("s.db"), &large).unwrap();
    File::options().write(true).open(&large).unwrap().set_len(65 << 30).unwrap();
    assert!(Store::open_copy(&large).unwrap_err().to_string().contains("65 GiB"));
}
