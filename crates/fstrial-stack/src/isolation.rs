//! A worker's private mount and process namespaces: when it dies, by any signal, its children die with it, and the
//! kernel itself unmounts its mounts and detaches its loop devices.
//!
//! ```text
//! coordinator ── fstrial worker (outer): unshare, spawn, pass on the exit code
//!                   └── fstrial worker --isolated (inner): process 1 of its namespace, does the work
//! ```
//! The outer one exists because a process cannot move itself into a new process namespace, only its children.
#![expect(unsafe_code, reason = "unshare changes the process behind the standard library's back")]

use crate::error::StackError;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags},
    process::{Signal, chdir, fchdir},
    thread::UnshareFlags,
};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Folders that exist on every system and hold nothing a worker needs: one of them is covered by a filesystem in
/// memory, in the worker's namespace only, to have a place for mount points.
pub(crate) const COVERABLE: [&str; 3] = ["/mnt", "/media", "/srv"];

/// The number of users without one.
const OVERFLOW: u32 = 65534;

/// Asks the kernel to kill this process when its parent dies.
///
/// # Errors
/// Never in practice.
pub fn die_with_parent() -> Result<(), StackError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| StackError::io("ask for a death signal in", "/proc/self", e))
}

/// Moves this process into a new mount namespace, and its future children into a new process namespace.
///
/// # Errors
/// No permission, or namespaces are switched off.
pub fn unshare() -> Result<(), StackError> {
    unshare_as(UnshareFlags::NEWNS | UnshareFlags::NEWPID)
}

/// Moves this process into a new mount namespace only: for one that starts threads later.
///
/// # Errors
/// No permission, or namespaces are switched off.
pub fn unshare_mounts() -> Result<(), StackError> {
    unshare_as(UnshareFlags::NEWNS)
}

/// Moves this process into a user namespace without additional rights, and its future children into a process namespace
/// of that. A refusal of an ordinary user may show only afterwards (AppArmor lets a namespace be made and takes its
/// rights away): to be tried in a process that has no further use.
///
/// # Errors
/// It is not allowed.
pub fn unshare_processes() -> Result<(), StackError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: neither flag affects memory or descriptors, and the kernel refuses if there are other threads.
    let made = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWPID) };
    made.map_err(|e| StackError::io("make namespaces for", "/proc/self/ns", e))?;
    let maps = [("setgroups", "deny".to_owned()), ("uid_map", map(user)), ("gid_map", map(group))];
    for (file, text) in maps {
        let path = Path::new("/proc/self").join(file);
        std::fs::write(&path, text).map_err(|e| StackError::io("write", path, e))?;
    }
    Ok(())
}

/// A number that stands for itself.
fn map(number: u32) -> String {
    format!("{number} {number} 1")
}

/// Owner number of root's files as shown here: `nobody` if root has no mapping.
pub(crate) fn root() -> u32 {
    static ROOT: OnceLock<u32> = OnceLock::new();
    *ROOT.get_or_init(|| {
        let us = rustix::process::geteuid().as_raw();
        let numbers = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_ours = numbers.split_whitespace().eq(map(us).split_whitespace());
        if us != 0 && is_ours { OVERFLOW } else { 0 }
    })
}

fn unshare_as(flags: UnshareFlags) -> Result<(), StackError> {
    // SAFETY: none of the flags used here affects memory, descriptors or threads of this process; it must only be
    // single-threaded for NEWNS to apply to all of it, and its callers do nothing before this.
    let result = unsafe { rustix::thread::unshare_unsafe(flags) };
    result.map_err(|e| StackError::io("make namespaces for", "/proc/self/ns", e))?;
    make_slaves().map_err(|e| StackError::io("keep to this namespace the mounts below", "/", e))
}

/// Hides later mounts from outside. Outside unmounts propagate inwards: otherwise a disk unmounted by its owner during
/// a trial would stay mounted here, and be pulled out with its journal open. Outside mounts end up below this
/// namespace's mounts at the same place.
fn make_slaves() -> rustix::io::Result<()> {
    let slaves = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    match rustix::mount::mount_change("/", slaves) {
        Err(Errno::INVAL) => {}
        other => return other,
    }
    // In a chroot `/` is not a mount point. The mounts around it belong to this namespace as well: out of the chroot by
    // a directory that is not below the new root, and back.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (root, here) = (openat(CWD, "/", flags, Mode::empty())?, openat(CWD, ".", flags, Mode::empty())?);
    rustix::process::chroot("/proc")?;
    fchdir(&root)?;
    let is_outermost = || {
        let (this, above) = (rustix::fs::stat(".")?, rustix::fs::stat("..")?);
        Ok::<_, Errno>((this.st_dev, this.st_ino) == (above.st_dev, above.st_ino))
    };
    while !is_outermost()? {
        chdir("..")?;
    }
    let made = rustix::mount::mount_change(".", slaves);
    fchdir(&root)?;
    rustix::process::chroot(".")?;
    fchdir(&here)?;
    made
}

/// Covers a folder with a filesystem in memory and makes a mount point in it.
///
/// # Errors
/// None of the folders exists, or no permission.
pub fn mount_point() -> Result<PathBuf, StackError> {
    let folder =
        COVERABLE.iter().map(Path::new).find(|folder| folder.is_dir()).ok_or_else(|| StackError::Unable {
            what: format!("none of {} exists", COVERABLE.join(", ")),
            hint: "make the folder /mnt".into(),
        })?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("fstrial", folder, "tmpfs", flags, Some(c"size=1m,mode=700"))
        .map_err(|e| StackError::io("cover", folder, e))?;
    let point = folder.join("arm");
    rustix::fs::mkdirat(CWD, &point, Mode::RWXU).map_err(|e| StackError::io("make", &point, e))?;
    Ok(point)
}
