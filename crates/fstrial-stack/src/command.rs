//! External programs: without a shell, with a deadline, their last lines kept for the error.

use crate::error::StackError;
use fstrial_model::{ability::version_flag, units::Nanos};
use rustix::{
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen},
    process::{Pid, Signal},
};
use std::{
    ffi::OsString,
    io::Read,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Folders searched after those of `PATH`: where distributions keep mkfs.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Places of server programs on distributions that install several versions: a folder, the prefix of versioned names in
/// it, and the folder inside.
const SERVER_FOLDERS: [(&str, &str, &str); 2] =
    [("/usr/lib/postgresql", "", "bin"), ("/usr", "pgsql-", "bin")];
/// Working directory of programs that may not mount: no file can be made there. They run no mkfs, so the user's words
/// do not reach them.
const NO_FILES: &str = "/sys";
/// Limit of the kept output of a program, in bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Time for which output is awaited after a program's end.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines of it shown in an error.
const SHOWN_LINES: usize = 6;

/// One external program about to run.
#[derive(Debug, Clone)]
pub struct Program {
    name: String,
    arguments: Vec<String>,
    filesystem: Option<&'static str>,
    deadline: Nanos,
}

/// Output and exit status of a program.
#[derive(Debug, Clone)]
pub struct CommandOutput {
    /// The command line, for records and errors.
    pub line: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit status.
    pub status: ExitStatus,
    /// Time from its start to its end.
    pub wall: Nanos,
}

impl CommandOutput {
    /// The last lines of both streams; for a program that ends by explaining its usage, the lines before that.
    pub fn last_lines(&self) -> String {
        let both = format!("{}\n{}", self.stdout.trim_end(), self.stderr.trim_end());
        let mut lines: Vec<&str> = both.lines().filter(|line| !line.trim().is_empty()).collect();
        let usage = lines.iter().position(|line| line.trim_start().to_lowercase().starts_with("usage"));
        if let Some(usage) = usage.filter(|usage| *usage > 0) {
            lines.truncate(usage);
        }
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

/// Has the kernel load a module, if modprobe is installed. The kernel's state afterwards is the result: modprobe's
/// message ("module not found") is less specific than ours.
pub(crate) fn load_module(name: &str) {
    if find("modprobe").is_some() {
        let _ = Program::new("modprobe").args([name]).finish();
    }
}

/// True if the kernel shows the file of a driver, after loading its module if necessary.
pub(crate) fn has_driver(shown: &str, module: &str) -> bool {
    let is_shown = || Path::new(shown).exists();
    if !is_shown() {
        load_module(module);
    }
    is_shown()
}

/// True if a module of that name is installed for this kernel. Loads nothing.
pub(crate) fn has_module(name: &str) -> bool {
    Program::new("modinfo").args(["-F", "name", name]).finish().is_ok_and(|done| done.status.success())
}

/// The full path of a program, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .chain(server_folders())
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// The path of a companion program: next to this one, or found by [`find`].
pub fn find_own(name: &str) -> Option<PathBuf> {
    let near = std::env::current_exe().ok().map(|program| program.with_file_name(name));
    near.filter(|candidate| candidate.is_file()).or_else(|| find(name).filter(|result| result.is_absolute()))
}

/// Folders of servers whose programs are outside `PATH` because several versions may be installed: the newest of each.
pub fn server_folders() -> Vec<PathBuf> {
    let newest = |(folder, prefix, inside): (&str, &str, &str)| {
        let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
        let version = |name: OsString| name.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
        let newest = names.filter_map(version).max()?;
        Some(PathBuf::from(folder).join(format!("{prefix}{newest}")).join(inside))
    };
    SERVER_FOLDERS.into_iter().filter_map(newest).collect()
}

/// A word as typed in a shell: quoted only if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:^%+@".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(plain);
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// The command that installs a package here, or those of all known package managers: names for apt, dnf, zypper and
/// pacman.
pub fn how_to_install(packages: [&str; 4]) -> String {
    let managers = [
        ("apt-get", "apt install"),
        ("dnf", "dnf install"),
        ("zypper", "zypper install"),
        ("pacman", "pacman -S"),
    ];
    let all = || {
        managers
            .iter()
            .zip(packages)
            .map(|((program, words), package)| (*program, format!("{words} {package}")))
    };
    match all().find(|(program, _)| find(program).is_some()) {
        Some((_, here)) => here,
        None => all().map(|(_, words)| words).collect::<Vec<_>>().join(" · "),
    }
}

/// Makes sure that a program is installed.
///
/// # Errors
/// It is not.
pub(crate) fn require(program: &str, packages: [&str; 4], needed_for: &str) -> Result<(), StackError> {
    find(program).map(drop).ok_or_else(|| StackError::Lacking {
        what: format!("{program} is not installed, which {needed_for} needs"),
        hint: format!("install it: {}", how_to_install(packages)),
    })
}

/// Working directory of programs: an empty, read-only filesystem in memory that is attached nowhere and ends with this
/// process. No stray word of the user's names a file in it, `..` does not lead out of it, and root cannot create a file
/// in it.
fn empty_folder() -> PathBuf {
    static EMPTY: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let make = || -> Result<OwnedFd, Errno> {
        let filesystem = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_flag(&filesystem, "ro")?;
        fsconfig_create(&filesystem)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    match EMPTY.get_or_init(|| make().ok()) {
        Some(folder) => format!("/proc/self/fd/{}", folder.as_raw_fd()).into(),
        None => NO_FILES.into(),
    }
}

impl Program {
    /// A program by name, with a deadline of a minute.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), arguments: Vec::new(), filesystem: None, deadline: Nanos::secs(60) }
    }

    /// The filesystem it belongs to, for advice on packages.
    #[must_use]
    pub fn of(mut self, filesystem: &'static str) -> Self {
        self.filesystem = Some(filesystem);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the deadline after which it is killed.
    #[must_use]
    pub fn deadline(mut self, deadline: Nanos) -> Self {
        self.deadline = deadline;
        self
    }

    /// The command line as one would type it.
    pub fn line(&self) -> String {
        let quoted = self.arguments.iter().map(|word| quoted(word));
        std::iter::once(self.name.clone()).chain(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Runs it and returns however it ended.
    ///
    /// # Errors
    /// It is not installed, cannot be started, or does not end before the deadline.
    pub fn finish(&self) -> Result<CommandOutput, StackError> {
        let path = find(&self.name).ok_or_else(|| StackError::MissingProgram {
            program: self.name.clone(),
            filesystem: self.filesystem,
        })?;
        let began = Instant::now();
        #[expect(clippy::disallowed_methods, reason = "this is the command runner")]
        let mut child = Command::new(&path)
            .args(&self.arguments)
            .current_dir(empty_folder())
            .env_clear()
            .env("PATH", SYSTEM_FOLDERS.join(":"))
            .env("LC_ALL", "C")
            // A shell would complain that its folder has no path.
            .env("PWD", "/proc/self/cwd")
            // Tools of the device mapper make and remove nodes themselves: no semaphore of the host's is left when one is killed.
            .env("DM_DISABLE_UDEV", "1")
            // The defaults of LVM, independent of this host's `lvm.conf`.
            .env("LVM_SYSTEM_DIR", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| StackError::io("start", &path, e))?;
        let pid = Pid::from_child(&child);
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        let (sender, receiver) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let ended = child.wait();
            // The receiver may have given up and no longer need the answer.
            let _ = sender.send((ended, Instant::now()));
        });
        let (status, ended) = match receiver.recv_timeout(self.deadline.duration()) {
            Ok((status, ended)) => (status.map_err(|e| StackError::io("wait for", &path, e))?, ended),
            Err(_) => {
                // It may hang in the kernel despite SIGKILL: do not wait forever.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = receiver.recv_timeout(Duration::from_secs(5));
                return Err(StackError::Deadline { line: self.line(), deadline: self.deadline });
            }
        };
        let _ = waiter.join();
        // A grandchild that lives on may hold the pipe open; its output is not awaited.
        let text = |reader: Option<mpsc::Receiver<String>>| {
            reader.and_then(|reader| reader.recv_timeout(REAP_TIMEOUT).ok()).unwrap_or_default()
        };
        let wall = (ended - began).into();
        Ok(CommandOutput { line: self.line(), stdout: text(stdout), stderr: text(stderr), status, wall })
    }

    /// Runs it; anything but success is an error.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and a status other than success.
    pub fn run(&self) -> Result<CommandOutput, StackError> {
        let finished = self.finish()?;
        if finished.status.success() {
            return Ok(finished);
        }
        Err(StackError::Command {
            line: finished.line.clone(),
            status: finished.status.to_string(),
            last_lines: finished.last_lines(),
        })
    }
}

/// Reads a stream to its end on a thread, keeping the last part.
fn collect(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0_u8; 8192];
        while let Ok(count) = stream.read(&mut chunk) {
            if count == 0 {
                break;
            }
            kept.extend_from_slice(&chunk[..count]);
            if kept.len() > 2 * KEPT_BYTES {
                kept.drain(..kept.len() - KEPT_BYTES);
            }
        }
        // The receiver may have given up and no longer need the text.
        let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
    });
    receiver
}

/// The version of a program, as it prints it; none if it cannot be run.
pub(crate) fn version_of(program: &str) -> Option<String> {
    let printed = Program::new(program).args([version_flag(program)]).finish().ok()?;
    Some(version_in(&format!("{}\n{}", printed.stdout, printed.stderr)).to_owned())
}

/// The line with the version in a program's output: the first with a digit, without a long list of build options in
/// parentheses.
pub(crate) fn version_in(printed: &str) -> &str {
    let mut lines = printed.lines().map(str::trim);
    let line = lines.find(|line| line.contains(|c: char| c.is_ascii_digit())).unwrap_or_default();
    match line.split_once(" (") {
        Some((short, list)) if list.len() > 40 => short,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};

    #[test]
    fn extracts_version_from_tool_output() {
        for (printed, version) in [
            ("e2fsck 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library", "e2fsck 1.47.0 (5-Feb-2023)"),
            ("e4defrag 1.47.0 (5-Feb-2023)\ninvalid option -- 'V'", "e4defrag 1.47.0 (5-Feb-2023)"),
            ("\nxfs_repair version 6.1.0\n", "xfs_repair version 6.1.0"),
            ("btrfs-progs v6.2 \n", "btrfs-progs v6.2"),
            (
                "mount from util-linux 2.38.1 (libmount 2.38.1: selinux, smack, btrfs, verity, namespaces)",
                "mount from util-linux 2.38.1",
            ),
            ("usage: nothing", ""),
        ] {
            assert_eq!(version_in(printed), version);
        }
    }

    #[test]
    fn successful_run_captures_stdout_and_command_line() {
        let finished = Program::new("echo").args(["two words", "x"]).run().unwrap();
        assert_eq!(finished.stdout, "two words x\n");
        assert_eq!(finished.line, "echo 'two words' x");
    }

    #[test]
    fn programs_run_in_empty_read_only_directory() {
        if !crate::host::is_root() {
            let _ =
                io::stderr().write_all(b"SKIPPED programs_run_in_empty_read_only_directory: needs root\n");
            return;
        }
        let message = |program: &str, words: &[&str]| {
            Program::new(program).args(words.iter().copied()).finish().unwrap()
        };
        assert_eq!(message("ls", &["-A", ".", ".."]).stdout, ".:\n\n..:\n");
        for word in ["class", "block", "../sys", "../../etc"] {
            assert!(!message("ls", &[word]).status.success(), "{word}");
        }
        for (program, words) in
            [("touch", ["x"].as_slice()), ("mkdir", &["x"]), ("cp", &["/etc/passwd", "."])]
        {
            let finished = message(program, words);
            assert!(
                finished.stderr.contains("Read-only file system"),
                "{}: {}",
                finished.line,
                finished.stderr
            );
        }
    }

    #[test]
    fn the_tools_of_a_trial_work_in_the_empty_folder() {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(400 << 20).unwrap();
        let path = image.path().to_str().unwrap();
        for (name, make, check) in [
            ("ext4", &["mkfs.ext4", "-F", "-q"][..], &["e2fsck", "-f", "-n"][..]),
            ("xfs", &["mkfs.xfs", "-f"], &["xfs_repair", "-n"]),
            ("btrfs", &["mkfs.btrfs", "-f", "-q"], &["btrfs", "check", "--readonly"]),
        ] {
            for words in [make, check] {
                if find(words[0]).is_none() {
                    let _ = io::stderr().write_all(
                        format!("SKIPPED {name} in the empty folder: {} is not installed\n", words[0])
                            .as_bytes(),
                    );
                    continue;
                }
                Program::new(words[0])
                    .args(words[1..].iter().copied())
                    .args([path])
                    .run()
                    .unwrap_or_else(|e| panic!("{e}"));
            }
        }
        // Files of the host that a relative word used to reach.
        if find("mkfs.ext4").is_some() {
            let filled = Program::new("mkfs.ext4").args(["-F", "-q", "-d", "class", path]).finish().unwrap();
            assert!(!filled.status.success(), "nothing is copied in: {}", filled.stdout);
        }
    }

    #[test]
    fn failure_keeps_the_last_lines() {
        let error = Program::new("ls").args(["/nowhere/at/all"]).run().unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
        assert!(error.to_string().contains("`ls /nowhere/at/all` failed"), "{error}");
    }

    #[test]
    fn a_page_of_usage_does_not_hide_the_reason() {
        let script =
            "echo 'log size must be at least 64MB.' >&2; echo 'Usage: mkfs.xfs' >&2; seq 1 50 >&2; exit 1";
        let error = Program::new("sh").args(["-c", script]).run().unwrap_err();
        assert!(error.to_string().ends_with(": log size must be at least 64MB."), "{error}");
    }

    #[test]
    fn missing_program_error_names_its_packages() {
        let error = Program::new("mkfs.nothing").of("xfs").run().unwrap_err();
        assert_eq!(error.to_string(), "mkfs.nothing is not installed");
        assert!(error.hint().unwrap().contains("xfsprogs"));
    }

    #[test]
    fn hung_program_is_killed_at_deadline() {
        let started = Instant::now();
        let error = Program::new("sleep").args(["100"]).deadline(Nanos::millis(100)).run().unwrap_err();
        assert!(matches!(error, StackError::Deadline { .. }));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn run_does_not_wait_for_surviving_grandchild() {
        let started = Instant::now();
        let finished = Program::new("sh").args(["-c", "sleep 30 & echo done"]).run().unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert!(finished.status.success());
    }

    #[test]
    fn endless_output_is_bounded() {
        let finished = Program::new("head").args(["-c", "3000000", "/dev/zero"]).run().unwrap();
        assert!(finished.stdout.len() <= 2 * KEPT_BYTES + 8192);
    }
}
