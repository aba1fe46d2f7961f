//! Detached processes of an ordinary user's program: daemons in new sessions. As root the kernel ends them with their
//! process namespace ([`crate::confined`]).
//!
//! ```text
//! worker is process 1 of a namespace    SIGKILL for all others in it; if the worker is killed, the kernel does that
//! worker is a subreaper                 daemons become its children: killed until none is left
//! worker was killed, too                processes whose HOME, or working directory, is the run's folder, before
//!                                       that is deleted
//! ```
#![expect(unsafe_code, reason = "SIGKILL for everybody is not in the safe interface")]

use crate::{error::StackError, host, proc_stat};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time limit for a killed process to end.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
/// The program's folder in the folder of a run.
pub(crate) const PROGRAM: &str = "program";

/// True if this process ends the leftovers of its programs.
static ENDS_ALL: AtomicBool = AtomicBool::new(false);

/// Makes this process the reaper of everything its programs leave behind.
///
/// # Errors
/// The kernel refuses.
pub fn adopt() -> Result<(), StackError> {
    let us = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(us))
        .map_err(|e| StackError::io("ask for orphans in", "/proc/self", e))?;
    ENDS_ALL.store(true, Ordering::Relaxed);
    Ok(())
}

/// Kills everything that programs of this process have started, themselves included.
pub(crate) fn kill_adopted() {
    if !ENDS_ALL.load(Ordering::Relaxed) {
        return;
    }
    if rustix::process::getpid() == Pid::INIT {
        // SAFETY: two numbers; as process 1 it reaches the processes of our namespace and no other.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        return;
    }
    for child in children() {
        let _ = rustix::process::kill_process(child, Signal::KILL);
    }
}

/// The same, and waits until they are gone. No program with a waiter may be left.
pub(crate) fn end_adopted() {
    if !ENDS_ALL.load(Ordering::Relaxed) {
        return;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        kill_adopted();
        let no_child_is_left = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        if no_child_is_left || Instant::now() > until {
            return;
        }
        thread::park_timeout(POLL);
    }
}

/// The children of this process, whichever thread has started them.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}

/// Kills leftover processes of a program in the folder of a run: those of this user whose home is the program's folder.
///
/// # Errors
/// One does not end.
pub(crate) fn end_those_at_home_in(folder: &Path) -> Result<(), StackError> {
    if host::is_root() {
        return Ok(());
    }
    let home = folder.join(PROGRAM);
    let until = Instant::now() + PATIENCE;
    loop {
        let left = at_home(&home);
        let Some(first) = left.first() else { return Ok(()) };
        if Instant::now() > until {
            return Err(StackError::Unable {
                what: format!(
                    "process {}, left by a program in {}, does not end",
                    first.as_raw_nonzero(),
                    folder.display()
                ),
                hint: "look for a hung device in the kernel log (dmesg), then `fstrial clean`".into(),
            });
        }
        for process in left {
            // By a handle: between a look and a signal the number may be another process's.
            let Ok(handle) = rustix::process::pidfd_open(process, PidfdFlags::empty()) else { continue };
            if is_at_home(process, &home) {
                let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        thread::park_timeout(POLL);
    }
}

fn at_home(home: &Path) -> Vec<Pid> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    numbers.filter(|process| is_at_home(*process, home)).collect()
}

/// True if a process has this folder as its home; or, having changed its environment, works in it without a terminal
/// (unlike a user's shell). Only our own processes show us that; a zombie has neither.
fn is_at_home(process: Pid, home: &Path) -> bool {
    let of = |file: &str| Path::new("/proc").join(process.as_raw_nonzero().to_string()).join(file);
    let mut words = b"HOME=".to_vec();
    words.extend(home.as_os_str().as_bytes());
    let environment = fs::read(of("environ")).unwrap_or_default();
    if environment.split(|byte| *byte == 0).any(|variable| variable == words) {
        return true;
    }
    // In another mount namespace it may have another name.
    let identity = |path: &Path| fs::metadata(path).ok().map(|result| (result.dev(), result.ino()));
    let is_it = identity(home).is_some_and(|home| identity(&of("cwd")) == Some(home));
    let works_there = is_it || fs::read_link(of("cwd")).is_ok_and(|folder| folder.starts_with(home));
    // The seventh field.
    let stat = fs::read_to_string(of("stat")).unwrap_or_default();
    works_there && proc_stat::fields(&stat).is_some_and(|fields| fields.get(4) == Some(&"0"))
}
