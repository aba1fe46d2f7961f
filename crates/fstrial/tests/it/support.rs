//! Shared by the tests: a folder and a home for each, commands started and watched, a detector of leftovers, dice from
//! a seed, one redactor, and the two calls that the lints ban elsewhere.

use fstrial_stack::{ledger::Ledger, loopdev::LoopDevice};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            process::CommandExt,
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The command under test.
pub(crate) const FSTRIAL: &str = env!("CARGO_BIN_EXE_fstrial");
/// A user that owns nothing.
pub(crate) const NOBODY: u32 = 65534;
/// Longer than anything here takes, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// Time for the kernel and for dying workers to take everything down.
pub(crate) const SETTLE: Duration = Duration::from_secs(20);
/// Flags that make a trial as small as filesystems allow.
pub(crate) const SMALL: &str = "--set device.size=320MiB --duration 100ms --set workload.warmup=20ms --workload random-write --set workload.file_size=16MiB --threads 1";

/// Prints on the terminal, past the capture of libtest.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints that a test was skipped.
pub(crate) fn skip(name: &str, reason: &str) {
    say(&format!("SKIPPED {name}: {reason}"));
}

/// Whether a test can run as root; skips it if not. `cargo xtask quick` leaves out all tests that need root.
pub(crate) fn is_root(name: &str, purpose: &str) -> bool {
    if std::env::var_os("FSTRIAL_TESTS_WITHOUT_ROOT").is_some() {
        skip(name, "is left to `./x test`");
        return false;
    }
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(name, format!("needs root {purpose}").trim_end());
    }
    is_root
}

/// Whether a test can run as root on loop devices; skips it if not.
pub(crate) fn is_root_with_loop_devices(name: &str) -> bool {
    if !is_root(name, "") {
        return false;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip(name, "needs loop devices");
        return false;
    }
    true
}

#[expect(clippy::disallowed_methods, reason = "a test waits for a moment in the life of another process")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "the programs under test, and tools around them")]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Runs a tool that must succeed and returns its output.
pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let mut command = command(program);
    command.args(arguments).stdin(Stdio::null());
    let ended = Running::start(command).end(PATIENCE);
    assert!(ended.status.success(), "{program} {arguments:?}: {ended:?}");
    ended.stdout
}

/// Unmounts, and waits until no other namespace has the filesystem any more: one that was made meanwhile took it along.
pub(crate) fn unmount(point: &Path) {
    let device = fs::metadata(point).unwrap().dev();
    let numbers = format!(" {}:{} ", rustix::fs::major(device), rustix::fs::minor(device));
    tool("umount", &[point.to_str().unwrap()]);
    let is_mounted = || {
        let tables = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path().join("mountinfo"));
        tables.flat_map(fs::read_to_string).any(|table| table.contains(&numbers))
    };
    assert!(eventually(PATIENCE, || !is_mounted()), "{} is still mounted somewhere", point.display());
}

/// Waits until something holds; false if it does not in time.
pub(crate) fn eventually(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        pause(Duration::from_millis(20));
    }
    true
}

/// The disk below the images stalled for as long as a whole run: not a fault of the tested code.
pub(crate) fn is_stall(failure: &Value) -> bool {
    failure["what"].as_str().is_some_and(|what| what.starts_with("no operation was completed in"))
}

/// Random numbers from a seed (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// `FSTRIAL_TEST_SEED` draws other moments.
    pub(crate) fn new(stream: u64) -> Self {
        let seed =
            std::env::var("FSTRIAL_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
        Self(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(stream))
    }

    /// A number from 0 to `limit`, without it.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

/// A folder of one test: where commands run, their home, and a folder that images and directories go into.
pub(crate) struct Lab {
    folder: TempDir,
}

impl Lab {
    /// On a disk: images need direct I/O, which memory cannot do.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Some commands run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let lab = Self { folder };
        fs::create_dir(lab.images()).unwrap();
        lab
    }

    /// The folder commands run in, without symbolic links, as the kernel names it.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.path("images")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.home().join("ledger")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Has this lab's commands find a script where they look for a program; `$real` in it is the program.
    pub(crate) fn wrap(&self, program: &str, script: &str) {
        let real = fstrial_stack::command::find(program).unwrap();
        let folder = self.path("bin");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\nreal={}\n{script}\n", real.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A command of this lab, not yet started.
    pub(crate) fn prepare(&self, program: &str) -> Command {
        let mut command = command(program);
        let wrapped = self.path("bin");
        if wrapped.exists() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(wrapped).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(folders).unwrap());
        }
        command
            .current_dir(self.root())
            .env("FSTRIAL_HOME", self.home())
            .env("NO_COLOR", "1")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        command
    }

    /// Starts `fstrial` with words separated by spaces.
    pub(crate) fn start(&self, words: &str) -> Running {
        let mut command = self.prepare(FSTRIAL);
        command.args(words.split_whitespace());
        Running::start(command)
    }

    /// The same in a process group of its own, as a shell starts it in the foreground.
    pub(crate) fn start_group(&self, words: &str) -> Running {
        let mut command = self.prepare(FSTRIAL);
        command.args(words.split_whitespace()).process_group(0);
        Running::start(command)
    }

    /// Runs `fstrial` with words separated by spaces to its end.
    pub(crate) fn run(&self, words: &str) -> Ended {
        self.start(words).end(PATIENCE)
    }

    /// The same, as a user that may nothing. None with a reason if that cannot be done here.
    pub(crate) fn run_as_nobody(&self, words: &str) -> Result<Ended, String> {
        Ok(self.start_as_nobody(&[], words)?.end(PATIENCE))
    }

    /// Starts it as that user, behind programs that set the scene.
    pub(crate) fn start_as_nobody(&self, scene: &[&str], words: &str) -> Result<Running, String> {
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        let become_nobody = ["setpriv", &user[0], &user[1], "--clear-groups"];
        let as_nobody = |scene: &[&str], words: &[&str]| {
            let all = [scene, &become_nobody, words].concat();
            let mut command = self.prepare(all[0]);
            command.args(&all[1..]);
            command
        };
        fs::create_dir_all(self.home()).unwrap();
        for folder in [self.home(), self.images()] {
            std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))
                .map_err(|e| format!("chown: {e}"))?;
        }
        let script = format!("test -x {FSTRIAL} && test -w {}", self.home().display());
        match as_nobody(&[], &["sh", "-c", &script]).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err("another user cannot reach the program or the test's folder".into()),
            Err(error) => return Err(format!("setpriv cannot be run: {error}")),
        }
        let words: Vec<&str> = std::iter::once(FSTRIAL).chain(words.split_whitespace()).collect();
        Ok(Running::start(as_nobody(scene, &words)))
    }

    /// Writes the trial of a `compare` into a file, without running it.
    pub(crate) fn save(&self, words: &str, name: &str) {
        let saved = self.run(&format!("{words} --save - --dry-run"));
        assert_eq!(saved.code(), 0, "{saved:?}");
        self.write(name, &saved.stdout);
    }

    /// The trials in the store, as `fstrial results list --json` has them; none without a store.
    pub(crate) fn trials(&self) -> Vec<Value> {
        if !self.home().join("results.db").exists() {
            return Vec::new();
        }
        let listed = self.run("results list --json");
        // Before the schema is made, by a command that is just beginning or was killed then, the file is empty.
        if listed.code() != 0 {
            let empty = ["there is nothing in it", "there are no results in"];
            assert!(empty.iter().any(|words| listed.stderr.contains(words)), "{listed:?}");
            return Vec::new();
        }
        listed.json()
    }

    /// The store is sound.
    pub(crate) fn check_store(&self) {
        let path = self.home().join("results.db");
        if fs::metadata(&path).is_ok_and(|result| result.len() > 0) {
            // Killed in the commit that made it: a writer takes that back, a reader may not.
            if fs::metadata(self.home().join("results.db-journal")).is_ok_and(|result| result.len() > 0) {
                drop(fstrial_store::Store::open(&path).unwrap());
            }
            let store = fstrial_store::Store::open_read_only(&path).unwrap();
            assert_eq!(store.check().unwrap(), Vec::<String>::new());
        }
    }

    /// Everything in the folder of the ledger.
    pub(crate) fn ledger_entries(&self) -> Vec<String> {
        names_in(&self.ledger())
    }

    /// Leftovers of this lab's commands on the host: processes, loop devices, mounts and files.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let mut result: Vec<String> =
            self.processes().into_iter().map(|(pid, line)| format!("process {pid}: {line}")).collect();
        for device in self.loop_devices() {
            result.extend(mounts_of(&device).into_iter().map(|point| format!("{device} mounted on {point}")));
            result.push(format!("loop device {device}"));
        }
        result.extend(names_in(&self.images()).into_iter().map(|name| format!("file {name}")));
        // A dying process has neither environment nor command line, but may still be unmounting.
        let dying = self.ledger_entries().into_iter().filter(|name| {
            let pid = name.split_once('-').and_then(|(pid, _)| pid.parse().ok());
            pid.is_some_and(is_alive)
        });
        result.extend(dying.map(|name| format!("the owner of {name}")));
        result
    }

    /// Within a while nothing is left.
    pub(crate) fn assert_nothing_left(&self, when: &str) {
        if !eventually(SETTLE, || self.leaks().is_empty()) {
            panic!("{when}: {:?} left after {SETTLE:?}", self.leaks());
        }
    }

    /// `fstrial clean` ends well, leaves the ledger empty, and the loop devices in it are gone.
    pub(crate) fn clean(&self) {
        let devices = self.loop_devices_in_the_ledger();
        let cleaned = self.run("clean");
        assert_eq!(cleaned.code(), 0, "{cleaned:?}");
        assert!(!cleaned.stdout.trim().is_empty(), "it says what it did");
        assert_eq!(
            self.ledger_entries(),
            Vec::<String>::new(),
            "left in the ledger after: {}",
            cleaned.stdout
        );
        for number in devices {
            let device = PathBuf::from(format!("/sys/block/loop{number}"));
            // Another test may have taken the number: then it is bound to a file in a moment.
            let gone = || !device.exists() || device.join("loop/backing_file").exists();
            assert!(eventually(SETTLE, gone), "loop{number} is left after: {}", cleaned.stdout);
        }
    }

    /// Numbers of loop devices that are written down to be removed.
    fn loop_devices_in_the_ledger(&self) -> Vec<u64> {
        let entries = self.ledger_entries().into_iter();
        let read =
            |name| serde_json::from_slice::<Value>(&fs::read(self.ledger().join::<String>(name)).ok()?).ok();
        entries
            .filter_map(read)
            .filter(|entry| entry["undo"] == "remove-loop")
            .filter_map(|entry| entry["index"].as_u64())
            .collect()
    }

    /// Processes whose environment or command line contains the home of this lab.
    fn processes(&self) -> Vec<(u32, String)> {
        let home = self.home().into_os_string().into_encoded_bytes();
        let has = |path: String| {
            fs::read(path).is_ok_and(|bytes| bytes.windows(home.len()).any(|window| window == home))
        };
        let pids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
        pids.filter(|pid| *pid != std::process::id())
            .filter(|pid| has(format!("/proc/{pid}/environ")) || has(format!("/proc/{pid}/cmdline")))
            .map(|pid| (pid, command_line(pid)))
            .collect()
    }

    /// Loop devices on files in this lab.
    pub(crate) fn loop_devices(&self) -> Vec<String> {
        let root = self.root();
        let is_ours = |name: &String| {
            let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
            backing.is_ok_and(|path| Path::new(path.trim_end()).starts_with(&root))
        };
        let names = names_in(Path::new("/sys/block"));
        names.into_iter().filter(is_ours).map(|name| format!("/dev/{name}")).collect()
    }

    /// A loop device on a file of this lab, detached with the guard.
    pub(crate) fn loop_device(&self, file: &Path) -> LoopDevice {
        let file = File::options().read(true).write(true).open(file).unwrap();
        let ledger = Ledger::open(&self.path("ledger-of-the-test"), std::process::id()).unwrap();
        LoopDevice::attach(file.as_fd(), false, &ledger).unwrap()
    }

    /// Makes text the same on every machine: paths of this lab, device numbers, sizes and seeds.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = text
            .replace(&self.home().display().to_string(), "[HOME]")
            .replace(&self.root().display().to_string(), "[LAB]")
            .replace(FSTRIAL, "fstrial");
        let text = redact_number_after(&text, "/dev/loop", char::is_numeric, "N");
        let text = redact_number_after(&text, "seed 0x", |c| c.is_ascii_hexdigit(), "[SEED]");
        redact_sizes(&text)
    }
}

impl Drop for Lab {
    /// The safety net under a failed test: none of its processes continues.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            kill(pid);
        }
        // A process that is still dying blocks the cleaning, and the ledger is removed with this folder.
        eventually(SETTLE, || self.leaks().iter().all(|leak| leak.starts_with("file ")));
        let _ = self.prepare(FSTRIAL).arg("clean").stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn redact_number_after(text: &str, before: &str, digit: impl Fn(char) -> bool, with: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(&digit);
        let placeholder = if rest.len() < part.len() { with } else { "" };
        out.push_str(&format!("{before}{placeholder}{rest}"));
    }
    out
}

/// `12.5 GiB` becomes `[SIZE]`; `12GiB`, as a user writes it, stays.
fn redact_sizes(text: &str) -> String {
    let mut out = text.to_owned();
    for unit in [" KiB", " MiB", " GiB", " TiB"] {
        let mut parts = out.split(unit);
        let mut next = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let number = next.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len();
            if number < next.len() {
                next.truncate(number);
                next.push_str("[SIZE]");
            } else {
                next.push_str(unit);
            }
            next.push_str(part);
        }
        out = next;
    }
    out
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let listing = fs::read_dir(folder).into_iter().flatten().flatten();
    listing.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The mount points of a device in the initial namespace and in that of the tests, which may be another.
fn mounts_of(device: &str) -> Vec<String> {
    let tables = ["/proc/1/mountinfo", "/proc/self/mountinfo"].map(fs::read_to_string);
    assert!(tables[1].is_ok(), "{tables:?}");
    let is_on = |line: &&str| {
        line.split_once(" - ").and_then(|(_, end)| end.split_whitespace().nth(1)) == Some(device)
    };
    let point = |line: &str| line.split_whitespace().nth(4).unwrap_or_default().to_owned();
    let points: BTreeSet<String> =
        tables.iter().flatten().flat_map(|table| table.lines().filter(is_on).map(point)).collect();
    points.into_iter().collect()
}

/// The words of a process, separated by spaces; empty for one that is gone.
pub(crate) fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned()
}

/// Whether a process, or one of its threads, still exists.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    !(["Z", "X"].contains(&fields[0]) && fields[17] == "1")
}

/// Children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ppid = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        ppid == Some(parent)
    };
    let pids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter(is_child).collect()
}

/// The worker that a command or an outer worker has started, once it is that.
pub(crate) fn worker_of(parent: u32) -> Option<u32> {
    children_of(parent).into_iter().find(|pid| command_line(*pid).contains(" worker"))
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    // Gone already is fine.
    let _ = rustix::process::kill_process(pid, signal);
}

pub(crate) fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

pub(crate) fn stop(pid: u32) {
    send(pid, Signal::STOP);
}

pub(crate) fn signal_group(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = rustix::process::kill_process_group(pid, signal);
}

/// A command that runs while the test watches it.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    complaints: Option<thread::JoinHandle<String>>,
    received: String,
}

/// A command that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let complaints = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, lines, complaints: Some(complaints), received: String::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// The next line of standard output; none at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.received.push_str(&line);
                self.received.push('\n');
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                panic!("nothing more in {PATIENCE:?} after:\n{}", self.received);
            }
        }
    }

    /// The next event of a command with `--json`.
    pub(crate) fn event(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    /// Reads events until one is of this kind; false if there is none.
    pub(crate) fn wait_for(&mut self, event: &str) -> bool {
        while let Some(result) = self.event() {
            if result["event"] == event {
                return true;
            }
        }
        // Standard output is closed: it has ended, or is about to.
        let complaints = self.complaints();
        let last: Vec<&str> = self.received.lines().rev().take(3).collect();
        say(&format!("no {event}; it said last (latest first): {last:#?}, and as its errors: {complaints}"));
        false
    }

    /// All of its standard error, once; waits for its end.
    fn complaints(&mut self) -> String {
        self.complaints.take().map(|all| all.join().unwrap()).unwrap_or_default()
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, and for all its output.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let in_time = eventually(patience, || self.is_over());
        if !in_time {
            let _ = self.child.kill();
        }
        while self.line().is_some() {}
        let status = self.child.wait().unwrap();
        let stderr = self.complaints();
        let ended = Ended { status, stdout: std::mem::take(&mut self.received), stderr };
        assert!(in_time, "did not end within {patience:?}: {ended:?}");
        ended
    }
}

impl Drop for Running {
    /// A test that fails half-way does not leave its command running.
    fn drop(&mut self) {
        if self.complaints.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// The exit code; a death by signal fails the test.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("died: {self:?}"))
    }

    /// Whether it was killed.
    pub(crate) fn is_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// Every line of standard output as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The last line of standard output, which is the document with the answer.
    pub(crate) fn document(&self) -> Value {
        let mut last = self.json().pop().unwrap_or_else(|| panic!("no document: {self:?}"));
        assert_eq!(last["schema_version"], 2, "{self:?}");
        // Of a trial that has just run it is the last event.
        let fields = last.as_object_mut().unwrap();
        let message = [fields.remove("event"), fields.remove("time")];
        assert!(message == [None, None] || message[0] == Some("answer".into()), "{message:?}");
        last
    }
}

#[test]
fn redacts_sizes_devices_and_seeds() {
    let lab = Lab::new();
    let text = "12.5 GiB free, --set device.size=2GiB, /dev/loop65 and /dev/loop, seed 0x1f; 7 MiB · x KiB";
    assert_eq!(
        lab.redact(text),
        "[SIZE] free, --set device.size=2GiB, /dev/loopN and /dev/loop, seed 0x[SEED]; [SIZE] · x KiB"
    );
}
