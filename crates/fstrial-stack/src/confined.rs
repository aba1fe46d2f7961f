//! Runs a user's program on an arm, confined as tightly as this host allows.
//!
//! As root it works in private namespaces, made by a thread that lives as long as it:
//!
//! ```text
//! mounts     read-only and nosuid, except for the program's folder
//! hidden     /run, /tmp, /var/tmp, /dev/shm and /dev/mqueue are empty, its own, and in memory; sockets elsewhere are covered
//! processes  sees only its PID namespace, as process 1: when it ends, the kernel kills everything that it started
//! network    a loopback interface and nothing else · System V memory and semaphores, message queues: its own
//! user       nobody (65534), no groups, no capabilities, no way to gain any, none of our session's keys
//! ```
//! The folder is on the arm and bound to one fixed place, so that no path leads from it to the rest of the arm. Not
//! prevented: reading world-readable files, and using up processor, memory and the arm's space.
//!
//! Without root there are no namespaces, but there is Landlock: the kernel lets the program and its children change
//! files below its folder only, and signal no process outside (from Linux 6.12 on). It is killed with its process
//! group, and processes that left the group are killed with the worker ([`crate::descendants`]). A host that has
//! neither runs no programs.
//!
//! Commands that must see one another, as a server and its clients, share a [`Room`].
#![expect(
    unsafe_code,
    reason = "mount_setattr, wait4, a flag of an interface, and work between fork and exec"
)]

mod hidden;

pub use self::hidden::hidden_folder;

use self::hidden::HiddenFolders;
use crate::{
    command::{self, CommandOutput},
    descendants::{self, PROGRAM},
    error::StackError,
    host,
    isolation::COVERABLE,
};
use fstrial_model::units::{Bytes, Nanos};
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Gid, Mode, OFlags, Uid, openat},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, UnmountFlags},
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal},
    thread::UnshareFlags,
};
use std::{
    cell::Cell,
    ffi::{CString, c_char},
    io::{self, Read, Write},
    mem,
    net::UdpSocket,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The user and group `nobody` on all distributions.
const NOBODY: u32 = 65534;
/// Folders searched by the program itself.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Maximum number of bytes kept of each stream, half from its start and half from its end.
pub const KEPT_BYTES: usize = 16 << 20;
/// Longest line of a session.
const LINE_BYTES: usize = 64 << 10;
/// Limit on concurrent processes of user `nobody` (`RLIMIT_NPROC`), as root.
const PROCESSES: u64 = 4096;
/// Time limit for reaping a killed program and for reading the rest of an ended one's output.
const REAP_TIMEOUT: Duration = Duration::from_secs(5);

/// The place a program works in.
#[derive(Debug)]
pub struct Sandbox {
    folder: PathBuf,
    seen: PathBuf,
    /// As root: the host folder that a tmpfs covers to hold the bind mount.
    cover: Option<PathBuf>,
}

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct ExitedProgram {
    /// Output and exit status.
    pub finished: CommandOutput,
    /// Time from its start to its end.
    pub wall: Nanos,
    /// CPU time of it and the children it waited for, in user mode.
    pub cpu_user: Nanos,
    /// See `cpu_user`, in the kernel.
    pub cpu_system: Nanos,
    /// Memory of its largest process.
    pub memory: Bytes,
}

/// A file that the program reads, in memory and not on the arm.
#[derive(Debug, Clone)]
pub struct Input(Arc<OwnedFd>);

impl Input {
    /// Puts a content into memory; nothing can change it afterwards.
    ///
    /// # Errors
    /// No memory, or no descriptors left.
    pub fn new(name: &str, content: &[u8]) -> Result<Self, StackError> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let failed = |e: Errno| StackError::io("create a memfd for the input", name, e);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(name, flags).map_err(failed)?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest).map_err(failed)?;
            rest = &rest[written..];
        }
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)
            .map_err(failed)?;
        Ok(Self(Arc::new(file)))
    }

    /// Another one with the content of one that this process holds, by its path.
    ///
    /// # Errors
    /// It does not hold it, or no descriptors are left.
    pub fn again(path: &Path) -> Result<Self, StackError> {
        let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        file.map(|file| Self(Arc::new(file))).map_err(|e| StackError::io("open the input", path, e))
    }

    /// The path under which the program finds it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

impl Sandbox {
    /// Makes the program's folder in a directory of the arm.
    ///
    /// # Errors
    /// The folder exists or cannot be made; or nothing can be covered.
    pub fn make(arm: &Path) -> Result<Self, StackError> {
        let folder = arm.join(PROGRAM);
        rustix::fs::mkdirat(CWD, &folder, Mode::from_raw_mode(0o755))
            .map_err(|e| StackError::io("make", &folder, e))?;
        Self::left_in(arm)
    }

    /// Takes the program's folder that an earlier one has left in a directory of the arm.
    ///
    /// # Errors
    /// There is none; or nothing can be covered.
    pub fn left_in(arm: &Path) -> Result<Self, StackError> {
        let folder = arm.join(PROGRAM);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&folder, flags, Mode::empty());
        let opened = opened.map_err(|e| StackError::io("open", &folder, e))?;
        if !host::is_root() {
            return Ok(Self { seen: folder.clone(), folder, cover: None });
        }
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::fs::fchown(opened, Some(user), Some(group))
            .map_err(|e| StackError::io("give to the user nobody", &folder, e))?;
        let cover = COVERABLE.iter().map(PathBuf::from).find(|cover| cover.is_dir());
        let cover = cover.ok_or_else(|| StackError::Unable {
            what: format!("none of {} exists", COVERABLE.join(", ")),
            hint: "make the folder /mnt".into(),
        })?;
        Ok(Self { folder, seen: cover.join("arm"), cover: Some(cover) })
    }

    /// The folder as everybody else sees it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder as the program sees it.
    pub fn seen(&self) -> &Path {
        &self.seen
    }

    /// Runs a program to its end, in its folder, with nothing on standard input.
    ///
    /// # Errors
    /// It is not installed, cannot be confined or started, or was killed at the deadline. A failing exit
    /// status is not an error.
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn run(
        &self,
        words: &[String],
        inputs: &[&Input],
        deadline: Nanos,
    ) -> Result<ExitedProgram, StackError> {
        self.enter(&[words], inputs)?.start(words)?.wait(deadline)
    }

    /// Makes a room for these commands: they see one another, their files in `/tmp` and their sockets.
    ///
    /// # Errors
    /// One of the programs is not installed, or nothing can be shut in here.
    ///
    /// # Panics
    /// If a command has no word.
    pub fn enter(&self, commands: &[&[String]], inputs: &[&Input]) -> Result<Room, StackError> {
        let mut programs = Vec::with_capacity(commands.len());
        for words in commands {
            let name = words.first().expect("a command has a word");
            let missing = || StackError::MissingProgram { program: name.clone(), filesystem: None };
            let path = command::find(name).and_then(|path| std::path::absolute(path).ok());
            let name = path.ok_or_else(missing)?;
            programs.push(Installed { path: name.clone(), name, arguments: words[1..].to_vec() });
        }
        let keeper = Keeper {
            programs,
            folder: self.folder.clone(),
            seen: self.seen.clone(),
            cover: self.cover.clone(),
            inputs: inputs.iter().map(|input| (*input).clone()).collect(),
        };
        let (shut, is_shut) = mpsc::channel();
        let (requests, requested) = mpsc::channel();
        // A separate thread, because namespaces and privileges are per thread, and it never regains the old ones.
        let thread = thread::spawn(move || keeper.keep(&shut, &requested));
        let room = Room { requests: Some(requests), thread: Some(thread), has_first: Cell::new(false) };
        is_shut.recv().map_err(|_| gone("shut in"))??;
        Ok(room)
    }
}

/// The namespaces of commands that see one another. The first command is their process 1: its end or death ends all
/// processes of the others, and no further command can be started. Dropping the room ends everything in it.
#[derive(Debug)]
pub struct Room {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    /// True if a command was started.
    has_first: Cell<bool>,
}

impl Room {
    /// Starts one of the commands that the room was made for, in its folder, with nothing on standard input.
    ///
    /// # Errors
    /// It cannot be started: also when process 1 has ended.
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn start(&self, words: &[String]) -> Result<StartedProgram, StackError> {
        self.start_with(words, false).map(|(program, _)| program)
    }

    /// Starts one of the commands with a pipe to its standard input, and its output as it comes.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn open(&self, words: &[String]) -> Result<Session, StackError> {
        let (program, pipes) = self.start_with(words, true)?;
        let (input, output) = pipes.ok_or_else(|| gone(&program.line))?;
        Ok(Session { program, input, output, unread: Vec::new() })
    }

    fn start_with(
        &self,
        words: &[String],
        is_session: bool,
    ) -> Result<(StartedProgram, Option<(ChildStdin, ChildStdout)>), StackError> {
        let name = words.first().expect("a command has a word");
        let line = words.iter().map(|word| command::quoted(word)).collect::<Vec<_>>().join(" ");
        let (reply, replied) = mpsc::channel();
        let request = Request { words: words.to_vec(), is_session, reply };
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok());
        let started = if sent { replied.recv().ok() } else { None };
        let (began, mut child) = started.ok_or_else(|| gone(name))??;
        let pid = Pid::from_child(&child);
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        let pipes = if is_session { child.stdin.take().zip(child.stdout.take()) } else { None };
        let program = StartedProgram {
            line,
            began,
            pid,
            // Threads of this process read the streams: after unshare(CLONE_NEWPID) the keeper cannot create threads.
            stdout: child.stdout.take().map(collect),
            stderr: child.stderr.take().map(collect),
            handle: handle.map_err(|e| StackError::io("watch", name, e))?,
            is_first: !self.has_first.replace(true),
            is_reaped: false,
        };
        Ok((program, pipes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.requests = None;
        // May block if the keeper hangs in the kernel while starting a program; there is no alternative.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone(name: &str) -> StackError {
    StackError::io("start", name, io::Error::other("the thread that confines it has ended"))
}

/// A program that was started. It is killed when this goes.
#[derive(Debug)]
pub struct StartedProgram {
    line: String,
    began: Instant,
    pid: Pid,
    handle: OwnedFd,
    stdout: Option<Receiver<String>>,
    stderr: Option<Receiver<String>>,
    /// The first of its room: its end ends the room.
    is_first: bool,
    is_reaped: bool,
}

impl StartedProgram {
    /// Its command line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// True if it ends within this time.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn ends_within(&self, time: Duration) -> Result<bool, StackError> {
        let ended = is_readable_until(&self.handle, Instant::now() + time);
        ended.map_err(|error| StackError::io("wait for", &self.line, error))
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, signal: Signal) {
        // It may have ended already.
        let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end before the deadline, and was killed.
    pub fn wait(mut self, deadline: Nanos) -> Result<ExitedProgram, StackError> {
        if self.ends_within(deadline.duration())? {
            return self.reap();
        }
        self.kill();
        Err(StackError::Deadline { line: self.line.clone(), deadline })
    }

    /// Kills it with its group, and returns the output.
    pub fn end(mut self) -> CommandOutput {
        let wall = self.began.elapsed().into();
        self.kill();
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        CommandOutput { line: self.line.clone(), stdout, stderr, status: ExitStatus::from_raw(9), wall }
    }

    /// Reaps the ended program.
    fn reap(&mut self) -> Result<ExitedProgram, StackError> {
        let wall = self.began.elapsed().into();
        let (status, usage) = reap(self.pid)?;
        self.is_reaped = true;
        if self.is_first {
            descendants::kill_adopted();
        }
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let time =
            |time: libc::timeval| Nanos(number(time.tv_sec) * 1_000_000_000 + number(time.tv_usec) * 1000);
        Ok(ExitedProgram {
            finished: CommandOutput { line: self.line.clone(), stdout, stderr, status, wall },
            wall,
            cpu_user: time(usage.ru_utime),
            cpu_system: time(usage.ru_stime),
            memory: Bytes::kib(number(usage.ru_maxrss)),
        })
    }

    fn kill(&mut self) {
        if mem::replace(&mut self.is_reaped, true) {
            return;
        }
        // It leads a session and, as root, may be process 1 of its namespace: this reaches everything it started.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        self.signal(Signal::KILL);
        if self.is_first {
            descendants::kill_adopted();
        }
        // It may hang in the kernel despite SIGKILL: do not wait forever.
        if self.ends_within(REAP_TIMEOUT).unwrap_or(false) {
            let _ = reap(self.pid);
        }
    }
}

/// A client that carries out the lines of its standard input, and prints lines. It is killed when this goes.
#[derive(Debug)]
pub struct Session {
    program: StartedProgram,
    input: ChildStdin,
    output: ChildStdout,
    /// The beginning of its next line.
    unread: Vec<u8>,
}

impl Session {
    /// Passes lines to it, and waits until it has printed the line `answer`. Others are ignored.
    ///
    /// # Errors
    /// It has ended, does not print that line in time, or prints one that is far too long.
    pub fn tell(&mut self, lines: &str, answer: &str, within: Duration) -> io::Result<()> {
        let (until, mut last) = (Instant::now() + within, String::new());
        self.input.write_all(lines.as_bytes())?;
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if line.trim_ascii() == answer.as_bytes() {
                    return Ok(());
                }
                last = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            }
            if !is_readable_until(&self.output, until)? {
                let instead = if last.is_empty() { "nothing".into() } else { format!("`{last:.80}`") };
                let what = format!("no such line in {}, but {instead}", Nanos::from(within));
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            let mut part = [0; 4096];
            match self.output.read(&mut part)? {
                0 => return Err(io::Error::other("it has ended")),
                read => self.unread.extend_from_slice(&part[..read]),
            }
            if self.unread.len() > LINE_BYTES {
                return Err(io::Error::other("it prints a line without an end"));
            }
        }
    }

    /// Kills it, and returns the last lines of its errors.
    pub fn end(self) -> String {
        self.program.end().last_lines()
    }
}

impl Drop for StartedProgram {
    fn drop(&mut self) {
        self.kill();
    }
}

/// True if something can be read, or the other end is closed, before a moment.
fn is_readable_until(file: impl AsFd, until: Instant) -> rustix::io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            readable => return readable.map(|count| count > 0),
        }
    }
}

/// The printed text. A descendant that left its group may hold the stream open; its output is not awaited.
fn text(stream: Option<Receiver<String>>) -> String {
    stream.and_then(|stream| stream.recv_timeout(REAP_TIMEOUT).ok()).unwrap_or_default()
}

/// A command that a room is made for.
#[derive(Debug)]
struct Installed {
    /// `argv[0]`: the absolute path found for the command's first word, symlinks kept.
    name: PathBuf,
    path: PathBuf,
    arguments: Vec<String>,
}

/// A command to start.
struct Request {
    words: Vec<String>,
    /// Its standard input is a pipe.
    is_session: bool,
    reply: Sender<Result<(Instant, Child), StackError>>,
}

/// The thread that confines itself and starts the programs of a room.
struct Keeper {
    programs: Vec<Installed>,
    folder: PathBuf,
    seen: PathBuf,
    cover: Option<PathBuf>,
    inputs: Vec<Input>,
}

impl Keeper {
    /// Confines this thread and starts programs until the room is dropped. It must outlive them: the kernel kills a
    /// child whose parent thread ends (`PR_SET_PDEATHSIG`).
    fn keep(mut self, shut: &Sender<Result<(), StackError>>, requests: &Receiver<Request>) {
        let has_cover = self.cover.is_some();
        for program in self.programs.iter_mut().filter(|_| has_cover) {
            program.path = hidden::reachable(&program.name);
        }
        let result = match &self.cover {
            Some(cover) => self.enter_namespaces(cover),
            None => apply_landlock(&self.folder),
        };
        let is_shut = result.is_ok();
        // The caller may have given up and no longer need the answers.
        let _ = shut.send(result);
        if is_shut {
            for Request { words, is_session, reply } in requests {
                let stdin = if is_session { Stdio::piped() } else { Stdio::null() };
                let _ = reply.send(self.start(&words, stdin));
            }
        }
        if has_cover {
            // Now, because at the thread's end the kernel would do it later, and the arm would be in use until then.
            let _ = rustix::mount::unmount("/", UnmountFlags::DETACH);
        } else {
            descendants::end_adopted();
        }
    }

    fn start(&self, words: &[String], stdin: Stdio) -> Result<(Instant, Child), StackError> {
        let (name, arguments) = words.split_first().ok_or_else(|| gone("nothing"))?;
        let file = Path::new(name).file_name();
        let known = |program: &&Installed| {
            program.name == Path::new(name) || (!name.contains('/') && program.name.file_name() == file)
        };
        let program = self.programs.iter().find(known).ok_or_else(|| gone(name))?;
        #[expect(clippy::disallowed_methods, reason = "this is the runner of the user's programs")]
        let mut command = Command::new(&program.path);
        command
            .arg0(&program.name)
            .args(arguments)
            .current_dir(&self.seen)
            .env_clear()
            .envs([("PATH", search_path().as_str()), ("LANG", "C"), ("LC_ALL", "C")])
            .envs([("HOME", &self.seen), ("TMPDIR", &self.seen)])
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let inputs: Vec<RawFd> = self.inputs.iter().map(|input| input.0.as_raw_fd()).collect();
        let is_root = self.cover.is_some();
        let prepare = move || {
            if is_root {
                // So that a fork bomb does not exhaust the host's process table.
                let most = Rlimit { current: Some(PROCESSES), maximum: Some(PROCESSES) };
                rustix::process::setrlimit(Resource::Nproc, most)?;
                mount_proc()?;
                become_nobody()?;
            }
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            for input in &inputs {
                // SAFETY: the descriptor is an `Input`'s, which the keeper that starts the program holds.
                let input = unsafe { BorrowedFd::borrow_raw(*input) };
                rustix::io::fcntl_setfd(input, rustix::io::FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls only; it neither allocates nor locks.
        unsafe { command.pre_exec(prepare) };
        let began = Instant::now();
        let child = command.spawn().map_err(|e| StackError::io("start", &program.path, e))?;
        Ok((began, child))
    }

    /// Moves this thread into namespaces in which only the program's folder can be written, at its place below `cover`.
    fn enter_namespaces(&self, cover: &Path) -> Result<(), StackError> {
        let failed = |what: &'static str| move |e: Errno| cannot_confine(what, &e.into());
        let all = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWNET;
        // SAFETY: none of the flags affects memory or descriptors; the thread uses no path of the old namespace after it.
        unsafe { rustix::thread::unshare_unsafe(all) }.map_err(failed("make namespaces"))?;
        // Mounts made outside while the program runs would be writable for it.
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(failed("make mounts private"))?;
        // Opened before anything is covered: the arm may be mounted below a covered folder.
        let source = open_here(&self.folder).map_err(|e| StackError::io("open", &self.folder, e))?;
        let commands =
            self.programs.iter().map(|program| (program.path.as_path(), program.arguments.as_slice()));
        let hidden = HiddenFolders::find(commands, cover)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("fstrial", cover, "tmpfs", flags, Some(c"size=64k,mode=755"))
            .map_err(|e| StackError::io("cover", cover, e))?;
        let seen = self.seen.as_path();
        rustix::fs::mkdirat(CWD, seen, Mode::from_raw_mode(0o755))
            .map_err(|e| StackError::io("make", seen, e))?;
        let source = format!("/proc/self/fd/{}", source.as_raw_fd());
        rustix::mount::mount_bind(source, seen)
            .map_err(|e| StackError::io("bind the program's folder to", seen, e))?;
        let folders = hidden.cover()?;
        let (read_only, no_suid) = (libc::MOUNT_ATTR_RDONLY, libc::MOUNT_ATTR_NOSUID);
        set_mount(Path::new("/"), libc::AT_RECURSIVE, read_only | no_suid, 0)?;
        for writable in folders.iter().map(PathBuf::as_path).chain([seen]) {
            set_mount(writable, 0, libc::MOUNT_ATTR_NODEV, read_only)?;
        }
        mount_devpts().map_err(failed("make terminals"))?;
        raise_loopback().map_err(|e| cannot_confine("raise the loopback interface", &e))?;
        join_new_keyring().map_err(|e| cannot_confine("join a new session keyring", &e))?;
        rustix::thread::set_no_new_privs(true).map_err(failed("give up privileges"))
    }
}

/// Opens a folder by a mount of this thread's own namespace: only such a one can be bound. By a descriptor that is
/// older than the namespace it is reached by another one; so by its path, if that still leads to the same folder.
fn open_here(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let known = rustix::fs::open(folder, flags, Mode::empty())?;
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", known.as_raw_fd()), Vec::new())?;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let identity = |folder: &OwnedFd| rustix::fs::fstat(folder).map(|stat| (stat.st_dev, stat.st_ino));
    if identity(&known)? == identity(&opened)? { Ok(opened) } else { Err(Errno::STALE) }
}

/// Restricts this thread and its children to changing files below `folder`. Reading is not limited.
fn apply_landlock(folder: &Path) -> Result<(), StackError> {
    let failed =
        |error: &dyn std::error::Error| cannot_confine("use Landlock", &io::Error::other(error.to_string()));
    // ABI 3 (Linux 6.2) covers truncation, ABI 6 (6.12) signals; older kernels enforce their subset.
    let writes = AccessFs::from_write(ABI::V3);
    let rules = Ruleset::default()
        .handle_access(writes)
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(|e| failed(&e))?;
    let opened = PathFd::new(folder).map_err(|e| failed(&e))?;
    let mut rules = rules.add_rule(PathBeneath::new(opened, writes)).map_err(|e| failed(&e))?;
    for sink in ["/dev/null", "/dev/zero", "/dev/full"] {
        let opened = PathFd::new(sink).map_err(|e| failed(&e))?;
        let write = AccessFs::WriteFile | AccessFs::Truncate;
        rules = rules.add_rule(PathBeneath::new(opened, write)).map_err(|e| failed(&e))?;
    }
    let status = rules.restrict_self().map_err(|e| failed(&e))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(cannot_confine("use Landlock", &io::Error::from(io::ErrorKind::Unsupported)));
    }
    Ok(())
}

fn cannot_confine(what: &str, error: &io::Error) -> StackError {
    StackError::Unable {
        what: format!("programs cannot be confined here: could not {what}: {error}"),
        hint: "as root this needs Linux 5.12 with namespaces; otherwise Linux 5.13 with Landlock (lsm=landlock,…)".into(),
    }
}

/// Changes the flags of a mount, or of all mounts below.
fn set_mount(point: &Path, flags: libc::c_int, set: u64, clear: u64) -> Result<(), StackError> {
    let path = CString::new(point.as_os_str().as_bytes())
        .map_err(|e| StackError::io("name", point, io::Error::other(e)))?;
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: the path ends with a zero byte, the attributes have the size that is given, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    let failed =
        || cannot_confine(&format!("change the mount {}", point.display()), &io::Error::last_os_error());
    if result == 0 { Ok(()) } else { Err(failed()) }
}

/// Mounts a private devpts: otherwise the program could use up the host's pseudo-terminals, and logins would fail.
fn mount_devpts() -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let settings = c"newinstance,ptmxmode=0666,mode=0620,max=256";
    match rustix::mount::mount("devpts", "/dev/pts", "devpts", flags, Some(settings)) {
        // A host without terminals.
        Err(Errno::NOENT | Errno::NODEV | Errno::NOTDIR) => Ok(()),
        result => result,
    }
}

/// Raises the loopback interface of this thread's network namespace: servers and clients of one program meet there.
fn raise_loopback() -> io::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    // SAFETY: all zeroes are a valid `ifreq`: bytes, numbers and a null pointer.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: the socket is open, and the request is initialised, of the type that this call reads, and outlives it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts a `/proc` of this process's PID namespace. The host's exposes more than process names: another process of
/// `nobody` has its root there, and through it every mount of the host is reachable.
fn mount_proc() -> Result<(), Errno> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None) {
        // In a container with an unprivileged root and a private process namespace; or another command in this room has
        // done it.
        Err(Errno::PERM | Errno::BUSY) => Ok(()),
        result => result,
    }
}

/// Drops the groups and the user of root, and all capabilities with it. Of a process with this thread only.
fn become_nobody() -> Result<(), Errno> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

/// Gives this thread a new session keyring: otherwise the program could use all keys of ours.
fn join_new_keyring() -> io::Result<()> {
    let no_name: *const c_char = std::ptr::null();
    // SAFETY: without a name the call reads no memory, and it changes the keys of this thread only.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, no_name) };
    let error = io::Error::last_os_error();
    // A kernel without keys, or a container that hides them: then the program gets none either.
    let has_none = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
    if result >= 0 || has_none { Ok(()) } else { Err(error) }
}

/// Starts a program in a new session, without a terminal: our signals do not reach it, and a password prompt is refused
/// instead of stopping it.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    let prepare = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) }
}

/// Ends the rest of the group of a child that has ended, and reads its exit status and resource usage.
fn reap(pid: Pid) -> Result<(ExitStatus, libc::rusage), StackError> {
    // Before it is reaped: until then the number of its group cannot be reused.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    let mut status = 0;
    // SAFETY: all zeroes are a valid `rusage`: it is numbers only.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: both places are valid for writes and outlive the call; the child is ours and has no other waiter.
    let waited = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) };
    if waited < 0 {
        let error = io::Error::last_os_error();
        return Err(StackError::io("wait for", format!("/proc/{}", pid.as_raw_nonzero()), error));
    }
    Ok((ExitStatus::from_raw(status), usage))
}

/// The program's `PATH`: server folders first, because the clients in the system's folders may be wrappers.
fn search_path() -> String {
    let servers = command::server_folders().into_iter().map(|folder| folder.display().to_string());
    servers.chain([PATH.to_owned()]).collect::<Vec<_>>().join(":")
}

/// Reads a stream to its end on a thread, keeping the first and the last part.
fn collect(mut stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let (mut first, mut last, mut left_out) = (Vec::new(), Vec::new(), 0);
        let mut chunk = [0_u8; 8192];
        while let Ok(count) = stream.read(&mut chunk) {
            if count == 0 {
                break;
            }
            let fits = count.min(KEPT_BYTES / 2 - first.len());
            first.extend_from_slice(&chunk[..fits]);
            last.extend_from_slice(&chunk[fits..count]);
            if last.len() > KEPT_BYTES {
                left_out += last.drain(..last.len() - KEPT_BYTES / 2).len();
            }
        }
        let over = last.len().saturating_sub(KEPT_BYTES / 2);
        left_out += last.drain(..over).len();
        if left_out > 0 {
            first.extend_from_slice(gap(left_out).as_bytes());
        }
        first.append(&mut last);
        // The receiver may have given up and no longer need the text.
        let _ = sender.send(String::from_utf8_lossy(&first).into_owned());
    });
    receiver
}

fn gap(bytes: usize) -> String {
    format!("\n[{bytes} bytes left out]\n")
}

/// The first and the last part of a text that is longer than `most` bytes.
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (mut begin, mut end) = (most / 2, text.len() - most / 2);
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    format!("{}{}{}", &text[..begin], gap(end - begin), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn words(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    fn run(script: &str) -> ExitedProgram {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        place.run(&words(script), &[], Nanos::secs(60)).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn runs_in_sandbox_folder_with_minimal_environment() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let script =
            "pwd; echo $HOME $TMPDIR $LC_ALL; env | grep -c .; cat; echo kept > file; echo no >&2; exit 3";
        let ended = place.run(&words(script), &[], Nanos::secs(60)).unwrap();
        let seen = place.seen().display();
        // PWD, SHLVL, _ and such come from the shell itself.
        let mut lines = ended.finished.stdout.lines();
        assert_eq!(lines.next(), Some(seen.to_string().as_str()));
        assert_eq!(lines.next(), Some(format!("{seen} {seen} C").as_str()));
        assert!(lines.next().unwrap().parse::<u32>().unwrap() <= 9);
        assert_eq!(ended.finished.stderr, "no\n");
        assert_eq!(ended.finished.status.code(), Some(3));
        assert_eq!(std::fs::read_to_string(place.folder().join("file")).unwrap(), "kept\n");
    }

    #[test]
    fn fenced_thread_writes_only_inside_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("inside");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(home.path().join("precious"), "kept").unwrap();
        let path = |name: &str| home.path().join(name);
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        let _reader = std::fs::File::options().read(true).write(true).open(path("pipe")).unwrap();
        thread::scope(|scope| {
            let fenced = scope.spawn(|| {
                apply_landlock(&folder).unwrap();
                std::fs::write(path("inside/new"), "x").unwrap();
                std::fs::write("/dev/null", "x").unwrap();
                let denied = |result: io::Result<()>| {
                    let error = result.unwrap_err();
                    assert!(matches!(error.raw_os_error(), Some(libc::EACCES | libc::EXDEV)), "{error}");
                };
                denied(std::fs::write(path("precious"), "x"));
                denied(std::fs::write(path("other"), "x"));
                denied(std::fs::remove_file(path("precious")));
                denied(std::fs::rename(path("precious"), path("inside/taken")));
                denied(std::fs::rename(path("inside/new"), path("precious")));
                denied(std::fs::create_dir(path("folder")));
                denied(std::fs::write(path("pipe"), "x"));
                denied(std::fs::hard_link(path("precious"), path("inside/link")));
                assert_eq!(std::fs::read_to_string(path("precious")).unwrap(), "kept");
            });
            fenced.join().unwrap();
        });
        std::fs::write(path("other"), "the fence is the thread's alone").unwrap();
    }

    #[test]
    fn keys_of_our_session_stay_ours() {
        if !host::is_root() {
            let _ = io::stderr().write_all(b"SKIPPED keys_of_our_session_stay_ours: needs root\n");
            return;
        }
        let name = format!("fstrial-test-{}", std::process::id());
        let text = CString::new(name.clone()).unwrap();
        let session = libc::KEY_SPEC_SESSION_KEYRING;
        // SAFETY: the texts end with a zero byte, the payload has the length that is given, and all outlive the call.
        let key = unsafe {
            let (kind, payload) = (c"user".as_ptr(), c"secret".as_ptr());
            libc::syscall(libc::SYS_add_key, kind, text.as_ptr(), payload, 6_usize, session)
        };
        if key < 0 {
            let _ = io::stderr().write_all(
                format!("SKIPPED keys_of_our_session_stay_ours: {}\n", io::Error::last_os_error()).as_bytes(),
            );
            return;
        }
        assert!(std::fs::read_to_string("/proc/keys").unwrap().contains(&name), "we have it");
        let seen = run("cat /proc/keys").finished.stdout;
        // SAFETY: the call takes numbers only; the key is the one made above.
        unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_UNLINK, key, session) };
        assert!(!seen.contains(&name), "{seen}");
    }

    #[test]
    fn inputs_are_read_but_not_changed() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let (one, two) = (Input::new("one", b"first\n").unwrap(), Input::new("two", b"second\n").unwrap());
        let script = format!(
            "cat {0} {1}; sh -c 'cat {0}'; (echo x > {0}) 2>&1 | grep -cE 'denied|permitted'",
            one.path().display(),
            two.path().display()
        );
        let ended = place.run(&words(&script), &[&one, &two], Nanos::secs(60)).unwrap();
        assert_eq!(ended.finished.stdout, "first\nsecond\nfirst\n1\n");
        assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0, "inputs leave no file on the arm");
    }

    #[test]
    fn accounts_time_and_memory_of_command_and_children() {
        let ended = run("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; sleep 0.2");
        assert!(ended.cpu_user > Nanos::millis(10), "{ended:?}");
        assert!(ended.wall > Nanos::millis(200) && ended.wall < Nanos::secs(60), "{ended:?}");
        assert!(
            ended.wall.0 > ended.cpu_user.0 + Nanos::millis(150).0,
            "sleeping is not CPU time: {ended:?}"
        );
        assert!((Bytes::kib(500)..Bytes::gib(2)).contains(&ended.memory), "{ended:?}");
    }

    #[test]
    fn hung_program_is_killed_with_its_descendants() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let began = Instant::now();
        let script = "(while :; do date +%s%N > beat; sleep 0.05; done) & sleep 100";
        let error = place.run(&words(script), &[], Nanos::millis(500)).unwrap_err();
        assert!(matches!(error, StackError::Deadline { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20));
        let beat = || std::fs::read_to_string(place.folder().join("beat")).unwrap();
        let last = beat();
        thread::park_timeout(Duration::from_millis(300));
        assert_eq!(beat(), last, "nothing goes on");
    }

    #[test]
    fn background_process_does_not_delay_return() {
        let began = Instant::now();
        let ended = run("sleep 100 & echo done");
        assert_eq!(ended.finished.stdout, "done\n");
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn commands_of_a_room_see_one_another_and_end_with_the_first() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let server = words(
            "trap 'echo stopped; exit' TERM; mkfifo pipe; echo served > pipe; while :; do sleep 0.05; done",
        );
        let client = words("while ! test -p pipe; do sleep 0.01; done; cat pipe");
        let room = place.enter(&[&server, &client], &[]).unwrap();
        let server = room.start(&server).unwrap();
        let printed = room.start(&client).unwrap().wait(Nanos::secs(60)).unwrap().finished.stdout;
        assert_eq!(printed, "served\n");
        assert!(!server.ends_within(Duration::ZERO).unwrap());
        server.signal(Signal::TERM);
        let ended = server.wait(Nanos::secs(60)).unwrap().finished;
        assert_eq!((ended.stdout.as_str(), ended.status.code()), ("stopped\n", Some(0)));
        if host::is_root() {
            assert!(room.start(&client).is_err(), "process 1 has ended");
        }
    }

    #[test]
    fn session_answers_line_by_line() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let client = words(
            "while read -r a b; do [ \"$a\" != bad ] || { echo no >&2; exit 1; }; echo heard; echo $b; done",
        );
        let room = place.enter(&[&client], &[]).unwrap();
        let mut session = room.open(&client).unwrap();
        for number in ["1", "2"] {
            session.tell(&format!("add {number}\n"), number, PATIENCE).unwrap();
        }
        let silent = session.tell("add 3\n", "4", Duration::from_millis(50)).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        assert!(session.tell("bad 3\n", "4", PATIENCE).unwrap_err().to_string().contains("it has ended"));
        assert_eq!(session.end(), "no");
    }

    #[test]
    fn dropping_running_program_kills_it() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let server = words("trap '' TERM; while :; do date +%s%N > beat; sleep 0.02; done");
        let room = place.enter(&[&server], &[]).unwrap();
        let started = room.start(&server).unwrap();
        let beat = || std::fs::read_to_string(place.folder().join("beat")).unwrap_or_default();
        while beat().is_empty() {
            thread::park_timeout(Duration::from_millis(5));
        }
        drop(started);
        let last = beat();
        thread::park_timeout(Duration::from_millis(200));
        assert_eq!(beat(), last, "nothing goes on");
    }

    #[test]
    fn long_output_keeps_head_and_tail() {
        let ended = run("echo first; head -c 60000000 /dev/zero | tr '\\0' x; echo; echo last");
        let text = &ended.finished.stdout;
        assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"));
        assert!(text.len() < KEPT_BYTES + 100, "{}", text.len());
        assert!(text.contains(&format!("\n[{} bytes left out]\n", 60_000_012 - KEPT_BYTES)));
    }

    #[test]
    fn a_missing_program_is_named() {
        let arm = tempfile::tempdir().unwrap();
        let place = Sandbox::make(arm.path()).unwrap();
        let error = place.run(&["no-such-program".to_owned()], &[], Nanos::secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not installed");
    }

    #[test]
    fn shortening_keeps_whole_characters() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcdef", 4), "ab\n[2 bytes left out]\nef");
        assert_eq!(shortened("ääää", 4), "ä\n[4 bytes left out]\nä");
        assert_eq!(shortened("aäaäa", 4), "a\n[5 bytes left out]\na");
    }
}
