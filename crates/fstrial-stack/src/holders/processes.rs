//! Processes that use a device: by a mount in one of their namespaces, a descriptor, a map, or an io_uring.

use super::{Access, Holder, Host, Process, Search, list, list_if_any, look, text, unless_gone};
use crate::{error::StackError, mounts};
use rustix::fs::OFlags;
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// A thread: it may have private mounts and descriptors, and outlive the first one of its process.
pub(super) struct Task {
    process: u32,
    /// Below `/proc`.
    folder: PathBuf,
}

impl Task {
    fn process(&self) -> Process {
        let name = fs::read(self.folder.join("comm")).unwrap_or_default();
        Process { id: self.process, name: String::from_utf8_lossy(&name).trim_end().to_owned() }
    }

    fn has(&self, how: Access) -> Holder {
        Holder::Process { process: self.process(), how }
    }
}

/// The first process of this namespace, if not even root may inspect it, as in some sandboxes. It is left out: its
/// mounts are claimed, and an init does not work with disks. Any other process that cannot be inspected is an error.
pub(super) fn hidden_init(host: &Host) -> Option<Process> {
    let folder = host.at("/proc/1");
    let denied = fs::read_link(folder.join("ns/mnt")).err()?.kind() == io::ErrorKind::PermissionDenied;
    denied.then(|| Task { process: 1, folder }.process())
}

/// All tasks of the host, those of one process together.
pub(super) fn tasks(host: &Host) -> Result<Vec<Task>, StackError> {
    let proc = host.at("/proc");
    let hidden = hidden_init(host).map(|process| process.id);
    let mut result = Vec::new();
    let processes = list(&proc)?;
    for process in processes.iter().filter_map(|name| name.parse().ok()).filter(|id| Some(*id) != hidden) {
        let folder = proc.join(u32::to_string(&process)).join("task");
        for id in list_if_any(&folder)?.iter().filter_map(|name| name.parse().ok()) {
            result.push(Task { process, folder: folder.join(u32::to_string(&id)) });
        }
    }
    if result.is_empty() {
        return Err(StackError::io("find processes in", proc, rustix::io::Errno::NOENT));
    }
    Ok(result)
}

/// Mounts, in every mount namespace that a task is in.
pub(super) fn mounts(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let own = search.host.at("/proc/self");
    if let Some(at) = mounted_for(search, &own)?.flatten() {
        return Ok(Some(Holder::Mount { at, seen_by: None }));
    }
    // A task that has another root sees only the mounts below that.
    let seen_from = |folder: &Path| -> Result<Option<(PathBuf, PathBuf)>, StackError> {
        let [namespace, root] = ["ns/mnt", "root"].map(|name| folder.join(name));
        let namespace = unless_gone("read", &namespace, fs::read_link(&namespace))?;
        let root = unless_gone("read", &root, fs::read_link(&root))?;
        Ok(namespace.zip(root))
    };
    let mut read: HashSet<_> = seen_from(&own)?.into_iter().collect();
    for task in search.tasks {
        let Some(view) = seen_from(&task.folder)?.filter(|view| !read.contains(view)) else { continue };
        match mounted_for(search, &task.folder)? {
            Some(Some(at)) => return Ok(Some(Holder::Mount { at, seen_by: Some(task.process()) })),
            Some(None) => drop(read.insert(view)),
            // It has ended, and another task of the namespace is examined.
            None => {}
        }
    }
    Ok(None)
}

/// Mount point of the device in a task's namespace; none if the task has ended.
fn mounted_for(search: &Search<'_>, task: &Path) -> Result<Option<Option<PathBuf>>, StackError> {
    let path = task.join("mountinfo");
    let Some(listed) = text(&path)? else { return Ok(None) };
    let mounted = mounts::parse(&listed);
    if mounted.len() != listed.lines().count() {
        return Err(StackError::io("make sense of", path, rustix::io::Errno::INVAL));
    }
    let root = task.join("root");
    let mut sources = HashSet::new();
    let result = mounted.into_iter().find(|mount| {
        // The number is the device's, unless the filesystem has a virtual one (btrfs) or is on a file (erofs).
        search.target.is_block(mount.device)
            || Path::new(&mount.source).strip_prefix("/").is_ok_and(|source| {
                // Most mounts of a host with containers have one of few sources.
                sources.insert(source.to_owned())
                    && look(&root.join(source)).is_ok_and(|result| search.target.is(&result))
            })
    });
    Ok(Some(result.map(|mount| mount.target)))
}

/// Open descriptors, by their targets: the node may be anywhere, or deleted. A read-only one is reported if there is no
/// writable one.
pub(super) fn descriptors(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    // Most threads share their descriptors: a target seen in one thread of a process is skipped in the next. (kcmp
    // would report sharing, but a worker's process numbers differ from those in `/proc`.)
    let mut known = (0, HashSet::new());
    let mut reader = None;
    for task in search.tasks.iter().filter(|task| !search.allowed.contains(&task.process)) {
        if known.0 != task.process {
            known = (task.process, HashSet::new());
        }
        let folder = task.folder.join("fd");
        for name in list_if_any(&folder)? {
            let descriptor = folder.join(&name);
            let link = match fs::read_link(&descriptor) {
                // A name longer than the kernel writes; its target can be examined regardless.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => PathBuf::new(),
                link => match unless_gone("read", &descriptor, link)? {
                    Some(link) => link,
                    None => continue,
                },
            };
            let is_named = !link.as_os_str().is_empty();
            if is_named && !known.1.insert((name.clone(), link.clone())) {
                continue;
            }
            let link = link.to_string_lossy();
            if link == "anon_inode:[io_uring]"
                && let Some(holder) = registered(search, task, &name)?
            {
                return Ok(Some(holder));
            }
            if ["socket:[", "pipe:[", "anon_inode:"].iter().any(|other| link.starts_with(other)) {
                continue;
            }
            let result = unless_gone("look at", &descriptor, look(&descriptor))?;
            if result.is_some_and(|result| search.target.is(&result)) {
                if !only_reads(task, &name)? {
                    return Ok(Some(task.has(Access::Open)));
                }
                reader.get_or_insert_with(|| task.has(Access::OpenToRead));
            }
        }
    }
    Ok(reader)
}

/// True if a descriptor is known to be open for reading only (`flags:` in octal).
fn only_reads(task: &Task, descriptor: &str) -> Result<bool, StackError> {
    let listed = text(&task.folder.join("fdinfo").join(descriptor))?.unwrap_or_default();
    let flags = listed.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    Ok(flags.is_some_and(|flags| OFlags::from_bits_retain(flags) & OFlags::RWMODE == OFlags::RDONLY))
}

/// Looks at a ring whose files the kernel does not list while it is busy, and the pause between them.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The first release known to write nothing about a ring that it cannot lock. Older ones wrote the number of files
/// without the lock, and since 6.13 no line for an empty slot: there a busy ring looks the same as an idle one whose
/// slots are all empty.
const LISTS_WHOLE: [u32; 2] = [6, 18];

fn lists_whole(host: &Host) -> Result<bool, StackError> {
    let release = text(&host.at("/proc/sys/kernel/osrelease"))?.unwrap_or_default();
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).take(2).collect();
    Ok(numbers[..] >= LISTS_WHOLE[..])
}

/// Files that are registered with an io_uring stay open without a descriptor; the kernel lists them, but not while the
/// ring is busy (io_uring/fdinfo.c).
fn registered(search: &Search<'_>, task: &Task, descriptor: &str) -> Result<Option<Holder>, StackError> {
    for _ in 0..LOOKS {
        // None if it was closed in the meantime.
        let Some(listed) = text(&task.folder.join("fdinfo").join(descriptor))? else { return Ok(None) };
        let mut lines = listed.lines().skip_while(|line| !line.starts_with("UserFiles:"));
        let count = lines.next().and_then(|line| line.split_once(':')?.1.trim().parse::<u64>().ok());
        let lines = lines.take_while(|line| !line.starts_with("UserBufs:"));
        let names: Vec<&str> = lines.filter_map(|line| Some(line.split_once(": ")?.1.trim())).collect();
        if count == Some(0) || count.is_some() && (!names.is_empty() || lists_whole(search.host)?) {
            let is_it = names.into_iter().any(|name| leads_to(search, task, name));
            return Ok(is_it.then(|| task.has(Access::Registered)));
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
    Ok(Some(Holder::Unknown {
        why: format!("{} keeps an io_uring busy, and the kernel does not list its files", task.process()),
        remedy: "end that process first, or try again when it is idle".into(),
    }))
}

/// True if a file listed by the kernel may be the device: by its path, or by its name if nothing else is shown.
fn leads_to(search: &Search<'_>, task: &Task, listed: &str) -> bool {
    let path = if listed.starts_with('/') { mounts::unescape(listed) } else { listed.to_owned() };
    // As we see it, or as a process with another root does.
    let roots = [task.folder.join("root"), search.host.at("/")];
    let in_roots = |path| roots.iter().filter_map(|root| look(&root.join(path)).ok()).collect::<Vec<_>>();
    let result = path.strip_prefix('/').map(in_roots).unwrap_or_default();
    if !result.is_empty() {
        return result.iter().any(|result| search.target.is(result));
    }
    // Older kernels list the last component only, and a path that does not resolve has nothing else to compare.
    let name = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    search.target.names.iter().any(|own| own == name)
}

/// Maps, which outlive their descriptor. `maps` has the number of the node's filesystem, not that of the device;
/// `map_files` leads to the node itself.
pub(super) fn maps(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    let mut known = HashSet::new();
    let mut done = None;
    for task in search.tasks.iter().filter(|task| !search.allowed.contains(&task.process)) {
        // Threads share their memory; one that has ended shows none.
        if done == Some(task.process) {
            continue;
        }
        let Some(listed) = text(&task.folder.join("maps"))?.filter(|listed| !listed.is_empty()) else {
            continue;
        };
        done = Some(task.process);
        for line in listed.lines() {
            // `7f…-7f… rw-s 00000000 00:06 90    /dev/sdb`; inode 0 is memory without a file.
            let mut fields = line.splitn(4, ' ');
            let (Some(range), Some(file)) = (fields.next(), fields.nth(2)) else { continue };
            if file.starts_with("00:00 0") || known.contains(file) {
                continue;
            }
            // Only the folder of the process has them.
            let process = search.host.at("/proc").join(task.process.to_string());
            let mapped = process.join("map_files").join(without_zeros(range));
            let result = unless_gone("look at", &mapped, look(&mapped))?;
            match result {
                Some(result) if search.target.is(&result) => return Ok(Some(task.has(Access::Mapped))),
                Some(_) => drop(known.insert(file.to_owned())),
                // It was unmapped meanwhile: the next process that has it is examined.
                None => {}
            }
        }
    }
    Ok(None)
}

/// `map_files` writes addresses without the zeros that `maps` pads them with.
fn without_zeros(range: &str) -> String {
    let bare = |address: &str| match address.trim_start_matches('0') {
        "" => "0".to_owned(),
        bare => bare.to_owned(),
    };
    range.split('-').map(bare).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_in_map_files() {
        assert_eq!(without_zeros("00400000-0040b000"), "400000-40b000");
        assert_eq!(without_zeros("7f00-7f80"), "7f00-7f80");
        assert_eq!(without_zeros("00000000-00001000"), "0-1000");
    }
}
