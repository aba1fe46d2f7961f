//! Shared by the tests: a process and a mount namespace for each, visible skips, guards for devices that outlive a
//! panic, and the two calls that the lints ban elsewhere.

use fstrial_model::{
    arm::Arm,
    job::DeviceBinding,
    units::{Bytes, Nanos},
};
use fstrial_stack::{
    command::{CommandOutput, Program},
    device::{Device, image::Image},
    ledger::Ledger,
    loopdev::LoopDevice,
    stack::AttachedDevices,
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    ops::ControlFlow,
    os::{fd::AsFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Set in the process that a test starts for itself.
const INSIDE: &str = "FSTRIAL_TEST_INSIDE";
/// A process number that is certainly free: any process may undo its ledger entries.
pub(crate) const NOBODY: u32 = u32::MAX - 1;

/// Prints on the terminal, past the capture of libtest, that a test was skipped.
pub(crate) fn skip(name: &str, reason: &str) {
    // In one write, or lines of tests that run at the same time mix.
    let _ = std::io::stderr().write_all(format!("SKIPPED {name}: {reason}\n").as_bytes());
}

/// The path of the test that a closure is in, as libtest wants it.
pub(crate) fn name_of<F>(_body: &F) -> &'static str {
    let name = std::any::type_name::<F>();
    name.trim_start_matches("it::").trim_end_matches("::{{closure}}")
}

/// Runs a test as root in its own process and mount namespace: the kernel unmounts and detaches when it ends in any
/// way, and other tests that start programs never inherit our descriptors.
pub(crate) fn isolated<F: FnOnce()>(body: F) {
    let name = name_of(&body);
    if !fstrial_stack::host::is_root() {
        return skip(name, "needs root");
    }
    if !Path::new("/dev/loop-control").exists() {
        return skip(name, "needs loop devices");
    }
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let itself = std::env::current_exe().unwrap();
    let ended = Program::new("unshare")
        .args(["--mount", "--propagation", "private", "--fork", "--kill-child", "--", "env"])
        .args([format!("{INSIDE}=1"), format!("TMPDIR={}", std::env::temp_dir().display())])
        .args([itself.display().to_string()])
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .deadline(Nanos::secs(300))
        .finish()
        .unwrap();
    for line in ended.stderr.lines().chain(ended.stdout.lines()) {
        if let Some(skipped) = line.strip_prefix("SKIPPED ") {
            let (name, reason) = skipped.split_once(": ").unwrap_or((skipped, ""));
            skip(name, reason);
        }
    }
    assert!(
        ended.status.success() && ended.stdout.contains("1 passed"),
        "{}\n{}\n{}",
        ended.status,
        ended.stdout,
        ended.stderr
    );
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> CommandOutput {
    Program::new(program).args(arguments.iter().copied()).run().unwrap_or_else(|e| panic!("{e}"))
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "waited ten seconds until {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// A shell script in the background that has printed `ready`; killed at the end of the test.
pub(crate) struct Background(Child);

impl Background {
    /// Starts `unshare ARGUMENTS sh -c SCRIPT DEVICE FOLDER` (or without `unshare`) and waits for its first line.
    #[expect(clippy::disallowed_methods, reason = "the command runner has no programs that go on")]
    pub(crate) fn start(namespace: bool, script: &str, words: &[&Path]) -> Self {
        let program = if namespace { "unshare" } else { "env" };
        let mut command = Command::new(program);
        if namespace {
            command.args(["--mount", "--propagation", "private"]);
        }
        command.args(["sh", "-c", script]).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started = Self(child);
        assert_eq!(line, "ready\n", "the script did not get there: {script}");
        started
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it, and does not wait for its end.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mount that goes away with the test.
pub(crate) struct MountGuard(PathBuf);

impl MountGuard {
    pub(crate) fn mount(device: &Path, point: &Path) -> Self {
        run("mount", &["-i", "-n", device.to_str().unwrap(), point.to_str().unwrap()]);
        Self(point.to_owned())
    }

    /// For a mount point at which another program mounts a filesystem.
    pub(crate) fn of(point: &Path) -> Self {
        Self(point.to_owned())
    }
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        // Already unmounted is the usual case.
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A folder of the test, with a ledger of a dead owner: leftovers of a failed test are undone.
pub(crate) struct Lab {
    pub(crate) ledger: Ledger,
    pub(crate) home: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { ledger: Ledger::open(&home.path().join("ledger"), NOBODY).unwrap(), home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// An empty folder.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        fs::create_dir(self.path(name)).unwrap();
        self.path(name)
    }

    /// A sparse file.
    pub(crate) fn file(&self, name: &str, mib: u64) -> PathBuf {
        File::create(self.path(name)).unwrap().set_len(mib << 20).unwrap();
        self.path(name)
    }

    /// A loop device on a sparse file.
    pub(crate) fn device(&self, name: &str, mib: u64) -> LoopDevice {
        let file = File::options().read(true).write(true).open(self.file(name, mib)).unwrap();
        LoopDevice::attach(file.as_fd(), false, &self.ledger).unwrap()
    }

    /// An image as a trial makes it.
    pub(crate) fn image(&self, mib: u64) -> Image {
        Image::make(self.home.path(), Bytes::mib(mib), &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// Files in the ledger, finished or not.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let listing = fs::read_dir(self.ledger.folder()).into_iter().flatten().flatten();
        listing.map(|entry| entry.path()).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.ledger.replay();
    }
}

pub(crate) fn arm(text: &str) -> Arm {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Attaches an arm to an image, and returns the path of its queue as well.
pub(crate) fn attach(image: &Image, arm: &Arm, lab: &Lab) -> (AttachedDevices, PathBuf) {
    let attached =
        AttachedDevices::attach(&image.binding(arm), arm, std::process::id(), &lab.ledger).unwrap();
    let queue = queue_of(attached.path());
    (attached, queue)
}

/// The folder of a device's queue.
pub(crate) fn queue_of(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap()).join("queue")
}

pub(crate) fn attribute(queue: &Path, name: &str) -> String {
    fs::read_to_string(queue.join(name)).unwrap().trim_end().to_owned()
}

/// Nothing of a run is left: the image is free, the loop device is gone, the ledger is empty.
pub(crate) fn assert_torn_down(image: &Image, device: &Path, lab: &Lab) {
    wait_until("the image is released", || image.is_released().unwrap());
    assert!(lab.entries().is_empty(), "{:?} is left in the ledger", lab.entries());
    let home = fs::canonicalize(lab.home.path()).unwrap();
    // Another test may have been given the number since; a device without a file is one that was not removed.
    let file = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
    wait_until(&format!("{} is removed", device.display()), || {
        !queue_of(device).exists()
            || fs::read_to_string(&file).is_ok_and(|file| !Path::new(&file).starts_with(&home))
    });
}

/// The device of `binding`, named by the path of a file.
pub(crate) fn loop_binding(file: &Path, mib: u64) -> DeviceBinding {
    DeviceBinding::Loop { file: file.to_owned(), size: Bytes::mib(mib), direct_io: false, discards: false }
}

/// The first and last mebibyte.
pub(crate) fn ends_of(device: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut file = File::open(device).unwrap();
    let size = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    let mut last = vec![0; 1 << 20];
    file.read_exact_at(&mut last, size - (1 << 20)).unwrap();
    let mut first = vec![0; 1 << 20];
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_exact(&mut first).unwrap();
    (first, last)
}

/// Writes bytes at an offset.
pub(crate) fn write_at(device: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(device).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}
