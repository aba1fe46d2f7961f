//! The owner of a step, and whether that process still lives: by number, start time and process namespace, on one
//! machine since one boot. An unknown state is reported, and the step is left alone.

use crate::{error::StackError, proc_stat, sysfs};
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// Inode of the initial process namespace (`PROC_PID_INIT_INO`): from it every process of the machine is seen.
const INITIAL: u64 = 0xEFFF_FFFC;

/// Flag of an exiting thread (`include/linux/sched.h`).
const PF_EXITING: u64 = 4;

/// The author of a change: a process of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// Its number in `namespace`.
    pub(super) pid: u32,
    /// Start time of the process in clock ticks since boot: distinguishes a recycled number from the process itself.
    pub(super) started: u64,
    boot: String,
    /// Process namespace, by its inode: numbers mean nothing in another one (a container).
    pub(super) namespace: u64,
    /// The machine: another one may share the folder.
    machine: String,
}

/// State of an owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It can undo its changes itself.
    Running,
    /// It is exiting, and this many of its threads have not ended: they wait in the kernel.
    Ending(u32),
    /// No part of it is left.
    Gone,
    /// It cannot be known from here, and why.
    Unknown(String),
}

impl Owner {
    /// A process of this namespace and machine.
    pub(super) fn of(pid: u32, namespace: u64) -> Result<Self, StackError> {
        let started = started(pid).unwrap_or(0);
        Ok(Self { pid, started, boot: boot()?, namespace, machine: machine() })
    }

    /// True if its changes were made since this machine was booted.
    pub(super) fn is_of_this_boot(&self) -> Result<bool, StackError> {
        Ok(boot()? == self.boot)
    }

    /// Its state. `alone`: this process holds the lock that every command with a ledger takes, so all others of this
    /// folder have ended, in any process namespace.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(super) fn life(&self, here: u64, alone: bool) -> Result<Life, StackError> {
        if !self.is_of_this_boot()? {
            return Ok(match self.machine == machine() {
                true => Life::Gone,
                false => Life::Unknown(format!("it was made on another machine ({})", self.machine)),
            });
        }
        if self.namespace == here {
            return Ok(life(self.pid, self.started));
        }
        if alone || here == INITIAL && is_empty(self.namespace) {
            return Ok(Life::Gone);
        }
        Ok(Life::Unknown(format!(
            "it belongs to process {} of another process namespace (a container), and a command there may be running",
            self.pid
        )))
    }
}

/// The process namespace of a process, as its inode.
///
/// # Errors
/// `/proc` is not mounted, or the process is another user's.
pub fn namespace_of(process: &str) -> Result<u64, StackError> {
    let link = Path::new("/proc").join(process).join("ns/pid");
    let text = fs::read_link(&link).map_err(|e| StackError::io("read", &link, e))?;
    let number = text.to_string_lossy();
    let number = number.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'));
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| StackError::unlike(format!("{} is not a process namespace", link.display())))
}

/// True if no process of this machine lives in a namespace. Only for callers in the initial one.
fn is_empty(namespace: u64) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids = names.filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    // One that may not be looked at may be in it, but for the first one, which is in the initial namespace.
    !pids.any(|pid| match namespace_of(&pid) {
        _ if pid == "1" => false,
        Ok(result) => result == namespace,
        Err(StackError::Io { source, .. }) => !is_gone(&source),
        Err(_) => true,
    })
}

fn boot() -> Result<String, StackError> {
    sysfs::read("/proc/sys/kernel/random/boot_id")
}

/// Identifier of this machine, valid in its containers too if it is readable there.
fn machine() -> String {
    let known = ["/sys/class/dmi/id/product_uuid", "/etc/machine-id"].into_iter().find_map(|path| {
        let text = sysfs::read(path).ok()?;
        (!text.is_empty() && text.len() <= 64).then_some(text)
    });
    known.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// When a process started, in clock ticks since boot; none if it is gone. One that is dead and only waits for its
/// parent to notice, which a container's process 1 may never do, is gone too, once its last thread is.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = Stat::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    (!stat.is_over()).then_some(stat.started)
}

/// True if a process no longer exists, rather than being hidden.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn life(pid: u32, started: u64) -> Life {
    let path = format!("/proc/{pid}/stat");
    let text = match fs::read_to_string(&path) {
        Err(error) if !is_gone(&error) => return Life::Unknown(format!("could not read {path}: {error}")),
        text => text.unwrap_or_default(),
    };
    match Stat::read(&text) {
        Some(stat) if stat.started != started || stat.is_over() => Life::Gone,
        Some(stat) if stat.dead => Life::Ending(stat.threads - 1),
        Some(stat) if stat.ending => Life::Ending(stat.threads),
        Some(_) => Life::Running,
        None => Life::Gone,
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// Its first thread has ended.
    dead: bool,
    /// Its first thread has left its last call and closes its files, which XFS lets wait for a thaw. A killed thread
    /// that is still in a call may be the one that freezes: the filesystem would freeze again after a thaw.
    ending: bool,
    /// Threads that live, a dead first one included.
    threads: u32,
    /// Clock ticks from boot to its start.
    started: u64,
}

impl Stat {
    /// Fields 3, 9, 20 and 22 of `proc_pid_stat(5)`.
    fn read(text: &str) -> Option<Self> {
        let fields = proc_stat::fields(text)?;
        Some(Self {
            dead: matches!(*fields.first()?, "Z" | "X"),
            ending: fields.get(6)?.parse::<u64>().ok()? & PF_EXITING != 0,
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn is_over(self) -> bool {
        self.dead && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process number that is certainly free.
    const NOBODY: u32 = u32::MAX - 1;

    /// A line of `/proc/PID/stat`, up to field 24.
    fn line(state: &str, flags: u64, threads: u32) -> String {
        format!("7 (a ) b) {state} 1 7 7 0 -1 {flags} 0 0 0 0 1 2 3 4 20 0 {threads} 0 619499 0 0")
    }

    #[test]
    fn detects_exiting_process_from_stat_flags() {
        let is_ending = |flags: u64| Stat::read(&line("D", flags, 1)).unwrap().ending;
        // From the kernel, for a process whose last close waited for a thaw, and for the same before it was killed.
        assert!(is_ending(4_195_596));
        assert!(!is_ending(4_194_304));
    }

    #[test]
    fn zombie_is_over_once_last_thread_exits() {
        let stat = |state: &str, threads: u32| Stat::read(&line(state, 0, threads));
        assert_eq!(stat("S", 1), Some(Stat { dead: false, ending: false, threads: 1, started: 619_499 }));
        assert!(!stat("Z", 2).unwrap().is_over(), "a thread still holds its files");
        assert!(stat("Z", 1).unwrap().is_over() && stat("X", 0).unwrap().is_over());
        assert_eq!(Stat::read("7 (a) S"), None);
        assert!(started(std::process::id()).is_some());
    }

    #[test]
    fn owner_life_is_running_gone_or_unknown() {
        let here = namespace_of("self").unwrap();
        let us = Owner::of(std::process::id(), here).unwrap();
        let life = |owner: &Owner, alone: bool| owner.life(here, alone).unwrap();
        assert_eq!(life(&us, false), Life::Running);
        assert_eq!(life(&us, true), Life::Running, "the lock does not make the living dead");
        assert_eq!(life(&Owner { started: us.started + 1, ..us.clone() }, false), Life::Gone);
        assert_eq!(life(&Owner { pid: NOBODY, ..us.clone() }, false), Life::Gone);
        // Of an earlier boot, or another machine.
        let earlier = Owner { boot: "before".into(), ..us.clone() };
        assert_eq!(life(&earlier, false), Life::Gone);
        let elsewhere = Owner { machine: "other".into(), ..earlier };
        assert!(matches!(life(&elsewhere, true), Life::Unknown(why) if why.contains("(other)")));
        // A container, which may be alive; its machine may be called otherwise inside.
        let contained = Owner { namespace: 1, machine: "inside".into(), ..us };
        assert_eq!(life(&contained, true), Life::Gone);
        match contained.life(2, false).unwrap() {
            Life::Unknown(why) => assert!(why.contains("another process namespace"), "{why}"),
            other => panic!("{other:?}"),
        }
        // From the initial namespace all processes are seen, and none is in it.
        assert_eq!(contained.life(INITIAL, false).unwrap(), Life::Gone);
        assert!(!is_empty(here));
    }
}
