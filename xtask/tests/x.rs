//! `./x`, the script at the top: it waits for a package lock, shows that it compiles, and starts the demo. The programs
//! it starts here are stand-ins, except apt, which works on a separate, empty state: nothing is installed.

use rustix::fs::{FlockOperation, fcntl_lock};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Tools of the script itself.
const TOOLS: [&str; 22] = [
    "awk", "cat", "cp", "cut", "date", "dirname", "env", "getent", "grep", "head", "id", "mkdir", "mktemp",
    "rm", "sed", "sh", "sleep", "sort", "stat", "tail", "tr", "uname",
];

/// A folder with everything that the script finds on its path.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        for tool in TOOLS {
            let result = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
            let result = result.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {tool}"));
            symlink(result, folder.path().join("bin").join(tool)).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a script in the place of a program.
    fn program(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The apt of this machine, with nothing installed and nothing to install.
    fn apt(&self) {
        for folder in ["dpkg", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        fs::write(self.path("dpkg/status"), "").unwrap();
        let root = self.0.path().display();
        self.program(
            "bin/apt-get",
            &format!(
                "exec /usr/bin/apt-get -o Dir::State::status={root}/dpkg/status -o Dir::State::lists={root}/lists \
                 -o Dir::Cache={root}/cache -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=/dev/null -o DPkg::Lock::Timeout=0 \"$@\""
            ),
        );
    }

    /// A cargo that shows a bar, and builds nothing.
    fn cargo(&self, build: &str) {
        let version = "cargo 99.0.0 (a stand-in)";
        self.program(
            "bin/cargo",
            &format!("case \"$*\" in --version) echo '{version}' ;; *) {build} ;; esac"),
        );
    }

    #[expect(clippy::disallowed_methods, reason = "the script under test")]
    fn start(&self, words: &[&str]) -> Child {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x");
        Command::new("/bin/sh")
            .arg(script)
            .args(words)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.0.path())
            .env("CARGO_TARGET_DIR", self.path("target"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the script to its end: whether it succeeded, and its streams.
    fn run(&self, words: &[&str]) -> (bool, String, String) {
        let ended = self.start(words).wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (ended.status.success(), text(ended.stdout), text(ended.stderr))
    }
}

#[expect(clippy::print_stderr, reason = "skips are reported")]
fn is_root(name: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED {name}: needs root");
    }
    is_root
}

#[test]
#[expect(clippy::print_stderr, reason = "skips are reported")]
fn waits_for_package_lock_and_names_holder() {
    let name = "waits_for_package_lock_and_names_holder";
    if !is_root(name) {
        return;
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        eprintln!("SKIPPED {name}: needs apt");
        return;
    }
    // The first is wanted by the update, the second by the installation.
    for lock in ["lists/lock", "dpkg/lock-frontend"] {
        let bench = Bench::new();
        bench.apt();
        let held = File::create(bench.path(lock)).unwrap();
        fcntl_lock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut script = bench.start(&["--yes", "bench"]);
        let mut lines = BufReader::new(script.stderr.take().unwrap()).lines().map(Result::unwrap);
        let waiting = lines.by_ref().find(|line| line.contains("lock")).unwrap_or_default();
        let holder = format!("(pid {}), which holds the package lock; up to 10 minutes", std::process::id());
        assert!(waiting.starts_with("waiting for ") && waiting.ends_with(&holder), "{lock}: {waiting}");
        drop(held);
        // It continues: a missing package is reported by apt after the lock.
        let rest: Vec<String> = lines.collect();
        assert!(rest.iter().any(|line| line.contains("Unable to locate package")), "{lock}: {rest:?}");
        assert!(!script.wait().unwrap().success());
    }
}

#[test]
fn other_failures_of_apt_are_not_waited_for() {
    if !is_root("other_failures_of_apt_are_not_waited_for") {
        return;
    }
    let bench = Bench::new();
    bench.program(
        "bin/apt-get",
        "echo 'E: Could not open lock file - open (13: are you root?)' >&2; exit 100",
    );
    let (succeeded, _, message) = bench.run(&["--yes", "bench"]);
    assert!(!succeeded && message.contains("are you root?") && !message.contains("waiting"), "{message}");
}

#[test]
fn prints_periodic_progress_without_terminal() {
    let bench = Bench::new();
    for tool in ["cc", "fio", "sysbench"] {
        bench.program(&format!("bin/{tool}"), "");
    }
    let bar =
        r"printf '   Compiling one v1\n    Building [=>  ] 1/7: one\r    Building [==> ] 3/7: two   \r' >&2";
    bench.cargo(&format!(
        "{bar}; echo 'warning: worth knowing' >&2; case \"$*\" in *no-run*) sleep 17 ;; esac"
    ));
    let (succeeded, _, message) = bench.run(&["bench"]);
    assert!(succeeded, "{message}");
    assert!(message.contains("compiling 3/7, 1"), "{message}");
    assert!(message.contains("warning: worth knowing"), "{message}");
    let own: Vec<&str> = message.split("warning: worth knowing").collect();
    assert!(!own[0].contains("Building") && !own[0].contains("Compiling"), "{message}");
}

#[test]
fn root_demo_keeps_results_in_default_home() {
    if !is_root("root_demo_keeps_results_in_default_home") {
        return;
    }
    let bench = Bench::new();
    for tool in ["cc", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "wipefs"] {
        bench.program(&format!("bin/{tool}"), "");
    }
    bench.cargo(":");
    bench.program("target/release/fstrial", "echo \"home ${FSTRIAL_HOME:-its own}: $*\"; exit 3");
    let (succeeded, printed, message) = bench.run(&["demo", "--seed", "7"]);
    assert!(succeeded, "{message}");
    let image = format!("--device image:{}", bench.path("target").display());
    assert!(printed.starts_with("home its own: compare ext4 xfs btrfs"), "{printed}");
    assert!(printed.contains(&image) && printed.ends_with("--seed 7\n"), "{printed}");
    assert!(message.contains("target/release/fstrial report --format text"), "{message}");
    let last = format!(
        "the program is {}; ./x install puts it on the path",
        bench.path("target/release/fstrial").display()
    );
    assert_eq!(message.lines().last(), Some(last.as_str()), "{message}");
}

#[test]
fn installs_below_prefix_and_replaces_old_files() {
    let bench = Bench::new();
    bench.program("bin/cc", "");
    // Lays out into the folder that is its last word.
    bench.cargo(
        "case \"$*\" in *lay-out*) for folder; do :; done; mkdir -p \"$folder/bin\" \"$folder/share/man/man1\"; \
         echo new > \"$folder/bin/fstrial\"; echo page > \"$folder/share/man/man1/fstrial.1\" ;; esac",
    );
    let prefix = bench.path("prefix");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::write(prefix.join("bin/fstrial"), "old").unwrap();
    fs::write(prefix.join("bin/other"), "kept").unwrap();
    let (succeeded, _, message) = bench.run(&["install", &prefix.display().to_string()]);
    assert!(succeeded, "{message}");
    let read = |place: &str| fs::read_to_string(prefix.join(place)).unwrap_or_default();
    assert_eq!((read("bin/fstrial"), read("bin/other")), ("new\n".into(), "kept".into()));
    assert_eq!(read("share/man/man1/fstrial.1"), "page\n");
    assert!(message.contains(&format!("installed: {}/bin/fstrial", prefix.display())), "{message}");
    assert!(message.contains("is not on your path"), "{message}");
}

#[test]
fn long_tests_are_handed_on() {
    let bench = Bench::new();
    let tools = ["cc", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "wipefs", "sfdisk"];
    let others = ["fio", "sysbench", "bonnie++", "postmark", "dbench", "chromium", "node", "npm"];
    for tool in tools.iter().chain(&others) {
        bench.program(&format!("bin/{tool}"), "");
    }
    bench.cargo("echo \"$*\"");
    let (succeeded, printed, message) = bench.run(&["long", "parsers", "--seed", "7", "--time", "1h"]);
    assert!(succeeded, "{message}");
    assert!(printed.ends_with("-p xtask -- long parsers --seed 7 --time 1h\n"), "{printed}");
}
