//! Operations on a ready filesystem, in addition to loads: mkfs, unmount and mount, freeze, unclean stop, the
//! filesystem's own tools. Times are those of the monotonic clock.
//!
//! A frozen filesystem outlives its mounts and keeps its device busy, so a freeze is in the ledger before it is done.

use crate::{
    aligned::{Aligned, PAGE},
    caches,
    command::{CommandOutput, Program, version_of},
    error::StackError,
    host, ioctl,
    ledger::{Ledger, LedgerEntry, Undo},
    named::{KernelName, KnownDisk},
    stack::{ArmTarget, AttachedDevices, MAKE_DEADLINE, ReadyArm},
};
use fstrial_model::{
    arm::{Arm, CheckedArm},
    units::{Bytes, Nanos},
};
use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};
use std::{
    cell::RefCell,
    fs::{self, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    time::Instant,
};

/// Time given to a tool: checks and defragmentations of large trees take long.
pub const TOOL_DEADLINE: Nanos = Nanos::secs(3600);
const CHUNK: usize = 1 << 20;
/// Retries of the copy of a device because the filesystem wrote meanwhile.
const COPIES: u32 = 5;

/// Values for the placeholders of a tool's words.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `{tree}`: directory of the files that the tool works on.
    pub tree: PathBuf,
    /// `{copy}`: destination of a copy of the tree.
    pub copy: PathBuf,
    /// `{snapshot}`: path of the snapshot to make or delete.
    pub snapshot: PathBuf,
    /// `{bytes}` and `{kib}`.
    pub size: Bytes,
    /// `{files}`: becomes a word for each of these files.
    pub files: Vec<PathBuf>,
}

impl ReadyArm {
    /// Its mount point; none for the bare device.
    ///
    /// # Errors
    /// It is the bare device.
    pub fn directory(&self) -> Result<&Path, StackError> {
        match &self.target {
            ArmTarget::Directory(path) => Ok(path),
            ArmTarget::BlockDevice(_) => Err(StackError::Unable {
                what: "the bare device has no filesystem".into(),
                hint: "leave out the arm `raw`".into(),
            }),
        }
    }

    fn device(&mut self) -> Result<&mut AttachedDevices, StackError> {
        self.attached.as_mut().ok_or_else(|| StackError::Unable {
            what: "a directory has no device to itself".into(),
            hint: "use an arm with a filesystem".into(),
        })
    }

    /// Unmounts it temporarily; returns the duration.
    ///
    /// # Errors
    /// Something still uses it.
    pub fn set_down(&mut self) -> Result<Nanos, StackError> {
        let point = self.directory()?.to_owned();
        let began = Instant::now();
        rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty())
            .map_err(|e| StackError::io("unmount", &point, e))?;
        let took = began.elapsed().into();
        self.mounted = false;
        self.commands.push(format!("umount {}", point.display()));
        Ok(took)
    }

    /// Mounts it again with the original options; returns the duration, the program `mount` included.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_up(&mut self, arm: CheckedArm<'_>) -> Result<Nanos, StackError> {
        let (point, row) = (self.directory()?.to_owned(), arm.row().expect("it was mounted"));
        self.note_tool("mount");
        let device = self.device()?;
        let took = device.mount_row(row, arm, &point)?;
        let line = device.commands().last().cloned();
        self.commands.extend(line);
        self.mounted = true;
        Ok(took)
    }

    /// Makes its filesystem again while it is unmounted, over all of its device or the first bytes of it; returns the
    /// duration.
    ///
    /// # Errors
    /// mkfs refuses the size.
    ///
    /// # Panics
    /// It is mounted: a bug of the caller's.
    pub fn make_again(&mut self, arm: CheckedArm<'_>, size: Option<Bytes>) -> Result<Nanos, StackError> {
        assert!(!self.mounted, "a filesystem is made again only while it is not mounted");
        let row = arm.row().expect("it was made");
        let mut words = self.device()?.mkfs_words(row, arm)?;
        let places = Places { size: size.unwrap_or_default(), ..Places::default() };
        let tail: &[&str] = if size.is_some() { row.abilities.sized } else { &["{device}"] };
        words.extend(self.words(tail, &places)?);
        let made = Program::new(row.mkfs).of(row.name).args(words).deadline(MAKE_DEADLINE).run()?;
        self.commands.push(made.line);
        Ok(made.wall)
    }

    /// Size of its device.
    ///
    /// # Errors
    /// It has none.
    pub fn device_size(&mut self) -> Result<Bytes, StackError> {
        host::size_of_device(self.device()?.path())
    }

    /// Runs a tool. However it ends is in the answer.
    ///
    /// # Errors
    /// It is not installed, cannot be started, or does not end in time.
    pub fn finish_tool(
        &mut self,
        arm: &Arm,
        (name, words): (&'static str, &[&'static str]),
        places: &Places,
    ) -> Result<CommandOutput, StackError> {
        let words = self.words(words, places)?;
        let mut program = Program::new(name).args(words).deadline(TOOL_DEADLINE);
        if let Some(row) = arm.row() {
            program = program.of(row.name);
        }
        self.note_tool(name);
        let done = program.finish()?;
        self.commands.push(done.line.clone());
        Ok(done)
    }

    /// Keeps the version of a program with the facts.
    pub fn note_tool(&mut self, name: &str) {
        if self.facts.tools.contains_key(name) {
            return;
        }
        self.facts.tools.insert(name.to_owned(), version_of(name).unwrap_or_default());
    }

    /// Keeps with the facts that a call of the kernel did it.
    pub fn note_call(&mut self, name: &str) {
        let system = rustix::system::uname();
        let kernel = format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy());
        self.facts.tools.insert(name.to_owned(), format!("{name} of {kernel}"));
    }

    /// The words of a tool with their placeholders filled in.
    fn words(&mut self, words: &[&str], places: &Places) -> Result<Vec<String>, StackError> {
        let device = self.attached.as_ref().map(|attached| attached.path().display().to_string());
        let directory = self.directory()?.display().to_string();
        let layer = self.attached.as_ref().and_then(AttachedDevices::layer);
        let (below, volume) = layer.unwrap_or_default();
        let name = places.snapshot.file_name().unwrap_or_default().to_string_lossy();
        let mut all = Vec::new();
        for word in words {
            if *word == "{files}" {
                all.extend(places.files.iter().map(|file| file.display().to_string()));
                continue;
            }
            all.push(
                word.replace("{device}", device.as_deref().unwrap_or_default())
                    .replace("{below}", &below)
                    .replace("{volume}", &volume)
                    .replace("{name}", &name)
                    .replace("{directory}", &directory)
                    .replace("{tree}", &places.tree.display().to_string())
                    .replace("{copy}", &places.copy.display().to_string())
                    .replace("{snapshot}", &places.snapshot.display().to_string())
                    .replace("{bytes}", &places.size.0.to_string())
                    .replace("{kib}", &(places.size.0 >> 10).to_string()),
            );
        }
        Ok(all)
    }

    /// Writes out everything dirty of it, without dropping caches.
    ///
    /// # Errors
    /// It reports that it could not.
    pub fn sync(&self) -> Result<(), StackError> {
        caches::sync_filesystem(self.directory()?)
    }

    /// Space that it counts as used.
    ///
    /// # Errors
    /// The query failed.
    pub fn space_used(&self) -> Result<Bytes, StackError> {
        Ok(host::space(self.directory()?)?.used)
    }

    /// Size that it has by its own account.
    ///
    /// # Errors
    /// The query failed.
    pub fn total_space(&self) -> Result<Bytes, StackError> {
        let path = self.directory()?;
        let stat = rustix::fs::statvfs(path).map_err(|e| StackError::io("ask for the space of", path, e))?;
        Ok(Bytes(stat.f_blocks * stat.f_frsize))
    }

    /// Opens its root, for calls that take the whole filesystem.
    fn root(&self) -> Result<OwnedFd, StackError> {
        let path = self.directory()?;
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| StackError::io("open", path, e))
    }

    /// Prepares a freeze: it is in the ledger from here on.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn freezer(&mut self, arm: &Arm, ledger: &Ledger) -> Result<Freezer, StackError> {
        let root = self.root()?;
        let kernel = arm.row().map(|row| row.kernel).unwrap_or_default().to_owned();
        let filesystem = KernelName::try_from(kernel).expect("the table has names of the kernel");
        let undo = Undo::Thaw { disk: KnownDisk::of(self.device()?.sysfs())?, filesystem };
        let point = self.directory()?.to_owned();
        Ok(Freezer { root, point, is_frozen: false, written: Some(ledger.write(undo)?) })
    }

    /// Stops it as if the power had gone; it can only be unmounted after that.
    ///
    /// # Errors
    /// It knows no shutdown.
    pub fn shut_down(&mut self, call: &str) -> Result<(), StackError> {
        let root = self.root()?;
        ioctl::shutdown(root.as_fd()).map_err(|e| {
            StackError::io(format!("stop ({call})"), self.directory().unwrap_or(Path::new("/")), e)
        })?;
        self.commands.push(format!("{call} (neither data nor the log is flushed)"));
        Ok(())
    }

    /// Copies the first bytes of the device, as they are on it now, after themselves. The filesystem is in them, and no
    /// process writes to it. Only for btrfs, whose superblock shows intermediate writes.
    ///
    /// # Errors
    /// The device is too small for two, cannot be written next to a mounted filesystem, or the filesystem wrote again
    /// and again.
    pub fn keep_image(&mut self, size: Bytes) -> Result<(), StackError> {
        let path = self.device()?.path().to_owned();
        let device = Device::open(&path)?;
        for _ in 0..COPIES {
            let before = device.superblock()?;
            device.copy(0, size.0, size.0)?;
            if device.superblock()? == before {
                self.commands.push(format!("copy of the first {size} of {} while mounted", path.display()));
                return Ok(());
            }
        }
        Err(StackError::Unable {
            what: format!("the filesystem on {} did not stop writing while it was copied", path.display()),
            hint: "try again; a smaller filesystem_size is copied in less time".into(),
        })
    }

    /// Puts the copy of [`keep_image`](Self::keep_image) back.
    ///
    /// # Errors
    /// The device fails.
    ///
    /// # Panics
    /// It is mounted: a bug of the caller's.
    pub fn put_image_back(&mut self, size: Bytes) -> Result<(), StackError> {
        assert!(!self.mounted, "a device is overwritten only while it is not mounted");
        let path = self.device()?.path().to_owned();
        Device::open(&path)?.copy(size.0, 0, size.0)?;
        self.commands.push(format!("copy restored on {}", path.display()));
        Ok(())
    }
}

/// Freezes and thaws one filesystem. Dropped while it is frozen, it thaws. Only the first thread of the process may use
/// it: when that thread exits, others know that no freeze is in progress, and thaw.
#[must_use]
#[derive(Debug)]
pub struct Freezer {
    root: OwnedFd,
    point: PathBuf,
    is_frozen: bool,
    written: Option<LedgerEntry>,
}

impl Freezer {
    /// Freezes: anyone who writes from here on waits.
    ///
    /// # Errors
    /// The filesystem cannot be frozen (`EOPNOTSUPP`), or is.
    pub fn freeze(&mut self) -> Result<(), StackError> {
        ioctl::freeze(self.root.as_fd()).map_err(|e| StackError::io("freeze", &self.point, e))?;
        self.is_frozen = true;
        Ok(())
    }

    /// Thaws.
    ///
    /// # Errors
    /// The kernel refuses; it stays in the ledger.
    pub fn thaw(&mut self) -> Result<(), StackError> {
        ioctl::thaw(self.root.as_fd()).map_err(|e| StackError::io("thaw", &self.point, e))?;
        self.is_frozen = false;
        Ok(())
    }

    /// Gives it up; the step in the ledger is struck out.
    ///
    /// # Errors
    /// It is frozen and cannot be thawed.
    pub fn close(mut self) -> Result<(), StackError> {
        if self.is_frozen {
            self.thaw()?;
        }
        self.written.take().map_or(Ok(()), LedgerEntry::strike_out)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // All writers would wait forever. A failure here is still in the ledger.
        if self.is_frozen && self.thaw().is_err() {
            return;
        }
        if let Some(written) = self.written.take() {
            let _ = written.strike_out();
        }
    }
}

/// Thaws a filesystem frozen by a dead process. It may have no mount any more, so it is mounted, detached from any
/// tree, to be reached: a filesystem still held in memory is only mounted again, not set up again.
///
/// # Errors
/// It stays frozen.
pub(crate) fn thaw_left_over(disk: &KnownDisk, filesystem: &KernelName) -> Result<(), StackError> {
    let node = disk.node();
    let device = node.as_path();
    if !disk.is_there() || !device.exists() {
        return Ok(());
    }
    let exclusive = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    if rustix::fs::open(device, exclusive, Mode::empty()).is_ok() {
        // No filesystem holds it: nothing is frozen.
        return Ok(());
    }
    let failed = |what: &str, error: rustix::io::Errno| StackError::io(what, device, error);
    let context = rustix::mount::fsopen(filesystem.as_str(), FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|e| failed("reach the frozen filesystem on", e))?;
    rustix::mount::fsconfig_set_string(&context, "source", device)
        .map_err(|e| failed("reach the frozen filesystem on", e))?;
    if let Err(error) = rustix::mount::fsconfig_create(&context) {
        // Gone in between, with its device.
        let is_gone = rustix::fs::open(device, exclusive, Mode::empty()).is_ok();
        return if is_gone { Ok(()) } else { Err(failed("reach the frozen filesystem on", error)) };
    }
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|e| failed("reach the frozen filesystem on", e))?;
    let root =
        rustix::fs::openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| failed("reach the frozen filesystem on", e))?;
    match ioctl::thaw(root.as_fd()) {
        Ok(()) => Ok(()),
        // It was not frozen, or is no longer.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(error) => Err(StackError::io("thaw the filesystem on", device, error)),
    }
}

/// A block device, read and written past the page cache.
struct Device<'a> {
    path: &'a Path,
    file: File,
    memory: RefCell<Aligned>,
}

impl<'a> Device<'a> {
    fn open(path: &'a Path) -> Result<Self, StackError> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|e| StackError::io("open", path, e))?;
        Ok(Self { path, file: File::from(fd), memory: Aligned::zeroed(CHUNK).into() })
    }

    /// Copies bytes from one place to another.
    fn copy(&self, from: u64, to: u64, size: u64) -> Result<(), StackError> {
        let mut memory = self.memory.borrow_mut();
        let chunk = memory.all_mut();
        let mut done = 0;
        while done < size {
            let part = usize::try_from(size - done).unwrap_or(CHUNK).min(CHUNK);
            self.file
                .read_exact_at(&mut chunk[..part], from + done)
                .map_err(|e| StackError::io("read", self.path, e))?;
            self.file
                .write_all_at(&chunk[..part], to + done)
                .map_err(|e| StackError::io("write to", self.path, e))?;
            done += part as u64;
        }
        self.file.sync_all().map_err(|e| StackError::io("sync", self.path, e))
    }

    /// The superblock of a btrfs.
    fn superblock(&self) -> Result<Vec<u8>, StackError> {
        let mut memory = self.memory.borrow_mut();
        let block = &mut memory.all_mut()[..PAGE];
        self.file.read_exact_at(block, 64 << 10).map_err(|e| StackError::io("read", self.path, e))?;
        Ok(block.to_vec())
    }
}

/// Tests whether files on a filesystem can share blocks, with two new files.
///
/// # Errors
/// They cannot: the kernel's reason; or the files cannot be made.
pub fn try_to_clone(directory: &Path) -> Result<(), StackError> {
    let (from, to) = (directory.join("clone-from"), directory.join("clone-to"));
    fs::write(&from, [1; PAGE]).map_err(|e| StackError::io("write", &from, e))?;
    let source = File::open(&from).map_err(|e| StackError::io("open", &from, e))?;
    let target = File::create(&to).map_err(|e| StackError::io("make", &to, e))?;
    let cloned = rustix::fs::ioctl_ficlone(&target, &source);
    for path in [&from, &to] {
        fs::remove_file(path).map_err(|e| StackError::io("delete", path, e))?;
    }
    cloned.map_err(|e| StackError::io("share blocks (FICLONE) on", directory, e))
}
