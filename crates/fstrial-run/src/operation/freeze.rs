//! Freezing a filesystem while threads write to it.
//!
//! Each writer overwrites its own file, through the page cache, with a sync after every 16th write. It notes how long
//! each write (with the sync it owes) took if that overlapped a freeze; the longest of any writer is the stall.

use super::{
    AROUND, Numbers, OperationRequest, Run,
    files::{Content, content},
    median, ns,
};
use fstrial_model::{
    measurement::Stage,
    units::Nanos,
    workload::{TimedOperation, WRITTEN},
};
use fstrial_stack::{StackError, operation::Freezer};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes of one write.
const REQUEST: usize = 64 << 10;
/// Writes between two syncs.
const SYNC_EVERY: u64 = 16;
/// Time limit for a writer to return after a thaw.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let OperationRequest { task, threads, arm, ledger } = run.order;
    let content = content(task.data, task.seed, REQUEST);
    let folder = run.path("writers")?;
    run.enter(Stage::Layout, AROUND);
    let writers = lay_out(&folder, threads, &content).map_err(|e| run.failed(&e))?;
    run.settle()?;
    let freezer = run.ready_arm.freezer(&arm, ledger).map_err(|e| run.failed(&e))?;
    let timed = &task.timed;
    let longest = timed.duration.0 + u64::from(timed.repeat) * timed.hold.0;
    run.enter(Stage::Load, Nanos(longest + AROUND.0));
    let seen = measure(freezer, &writers, timed, &content);
    let seen = seen.map_err(|e| run.unless_unsupported("FIFREEZE", &e))?;
    Ok(vec![ns(median(seen.freeze)), ns(median(seen.thaw)), ns(median(seen.stall))])
}

type WriterFile = (PathBuf, File);

/// Times of each freeze.
#[derive(Debug, Default)]
struct FreezeTimes {
    /// Until the filesystem was frozen.
    freeze: Vec<Nanos>,
    /// Until it was thawed.
    thaw: Vec<Nanos>,
    /// The longest write of any writer that met it.
    stall: Vec<Nanos>,
}

/// Makes the files of the writers.
fn lay_out(folder: &Path, threads: u16, content: &Content) -> Result<Vec<WriterFile>, StackError> {
    fs::create_dir(folder).map_err(|e| StackError::io("make the folder", folder, e))?;
    let one = |number| {
        let path = folder.join(format!("{number:04}"));
        let file = File::create_new(&path).map_err(|e| StackError::io("make", &path, e))?;
        for at in 0..WRITTEN.0 / REQUEST as u64 {
            file.write_all_at(content.all(), at * REQUEST as u64)
                .map_err(|e| StackError::io("write", &path, e))?;
        }
        Ok((path, file))
    };
    (0..threads).map(one).collect()
}

/// Data shared by the writers and the freezer. Times are nanoseconds since `began`.
struct FreezeState {
    began: Instant,
    stop: AtomicBool,
    /// When the present freeze began; `u64::MAX` between freezes.
    from: AtomicU64,
    /// When it ended; `u64::MAX` until then.
    to: AtomicU64,
    longest: AtomicU64,
    /// When each writer began its present write; `u64::MAX` when it has ended.
    present: Vec<AtomicU64>,
    error: Mutex<Option<StackError>>,
}

impl FreezeState {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Writes until stopped.
    fn write(&self, number: usize, (path, file): &WriterFile, content: &Content) {
        let places = WRITTEN.0 / REQUEST as u64;
        let mut count = 0;
        while !self.stop.load(Ordering::SeqCst) {
            let start = self.now();
            self.present[number].store(start, Ordering::SeqCst);
            let written = file.write_all_at(content.all(), count % places * REQUEST as u64);
            count += 1;
            let owes = count.is_multiple_of(SYNC_EVERY);
            let done = written.and_then(|()| if owes { file.sync_data() } else { Ok(()) });
            let end = self.now();
            if end > self.from.load(Ordering::SeqCst) && start < self.to.load(Ordering::SeqCst) {
                self.longest.fetch_max(end - start, Ordering::SeqCst);
            }
            if let Err(error) = done {
                let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(StackError::io("write", path, error));
                break;
            }
        }
        self.present[number].store(u64::MAX, Ordering::SeqCst);
    }

    /// One freeze: how long it took, how long the thaw took, how long the longest write.
    fn freeze(&self, freezer: &mut Freezer, hold: Nanos) -> Result<(Nanos, Nanos, Nanos), StackError> {
        self.longest.store(0, Ordering::SeqCst);
        self.to.store(u64::MAX, Ordering::SeqCst);
        let from = self.now();
        self.from.store(from, Ordering::SeqCst);
        freezer.freeze()?;
        let frozen = self.now();
        wait(hold.duration());
        let thawing = self.now();
        freezer.thaw()?;
        let to = self.now();
        self.to.store(to, Ordering::SeqCst);
        // Every writer has completed its earlier write and is in one that began after the thaw.
        let until = Instant::now() + PATIENCE;
        while self.present.iter().any(|began| began.load(Ordering::SeqCst) <= to) {
            if Instant::now() > until {
                return Err(StackError::Deadline {
                    line: "a write that was waiting for the thaw".into(),
                    deadline: PATIENCE.into(),
                });
            }
            wait(Duration::from_micros(200));
        }
        self.from.store(u64::MAX, Ordering::SeqCst);
        let stall = self.longest.load(Ordering::SeqCst);
        Ok((Nanos(frozen - from), Nanos(to - thawing), Nanos(stall)))
    }
}

/// Waits for a time, without early wake-ups.
fn wait(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

/// Has all files written to for the operation's time, with the freezes spread over it.
fn measure(
    mut freezer: Freezer,
    writers: &[WriterFile],
    timed: &TimedOperation,
    content: &Content,
) -> Result<FreezeTimes, StackError> {
    let shared = FreezeState {
        began: Instant::now(),
        stop: AtomicBool::new(false),
        from: AtomicU64::new(u64::MAX),
        to: AtomicU64::new(u64::MAX),
        longest: AtomicU64::new(0),
        present: writers.iter().map(|_| AtomicU64::new(u64::MAX)).collect(),
        error: Mutex::new(None),
    };
    let seen = thread::scope(|scope| {
        for (number, written) in writers.iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || shared.write(number, written, content));
        }
        let mut freezes = || -> Result<FreezeTimes, StackError> {
            let mut seen = FreezeTimes::default();
            for _ in 0..timed.repeat {
                wait(timed.duration.duration() / u32::from(timed.repeat));
                let (freeze, thaw, stall) = shared.freeze(&mut freezer, timed.hold)?;
                seen.freeze.push(freeze);
                seen.thaw.push(thaw);
                seen.stall.push(stall);
            }
            Ok(seen)
        };
        let seen = freezes();
        shared.stop.store(true, Ordering::SeqCst);
        // Before the writers are waited for: those of a filesystem that is still frozen do not end.
        let closed = freezer.close();
        seen.and_then(|seen| closed.map(|()| seen))
    });
    match shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => seen,
    }
}
