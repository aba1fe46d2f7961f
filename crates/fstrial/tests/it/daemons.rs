//! Without root as well, no process of a program outlives its run or the command: with a process namespace, and where
//! an ordinary user may not make one (here: in a chroot).

use crate::support::{self, Lab, PATIENCE, Running};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::chown},
    time::Duration,
};

/// The user nobody.
const NOBODY: u32 = 65_534;

/// Leaves daemons in their own sessions: one keeps its streams open and ignores SIGTERM, one has no environment.
const DAEMON: &str = r#"
kind = "program"
file_size = "1MiB"
command = ["sh", "-c", "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 0.05; done' & setsid env -i sh -c 'while :; do sleep 0.05; done' & sleep LENGTH"]
[[metric]]
name = "wall"
unit = "ns"
better = "lower"
measure = "wall"
"#;

/// Starts a trial of such programs as nobody.
fn start(lab: &Lab, is_in_chroot: bool, length: &str, rounds: u32) -> Result<Running, String> {
    for name in ["a", "b"] {
        let _ = fs::create_dir(lab.path(name));
        chown(lab.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let workload = lab.write("daemon.toml", &DAEMON.replace("LENGTH", length));
    let root = lab.path("root");
    fs::create_dir_all(&root).unwrap();
    let script = format!("mount --rbind / {0} && exec chroot {0} \"$@\"", root.display());
    let scene = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let path = |name: &str| lab.path(name).display().to_string();
    let words = format!(
        "compare a=dir:{} b=dir:{} --workload {} --threads 1 --rounds {rounds} --json --no-page",
        path("a"),
        path("b"),
        workload.display()
    );
    lab.start_as_nobody(if is_in_chroot { &scene } else { &[] }, &words)
}

/// Whether an ordinary user may make namespaces here.
fn has_namespaces() -> bool {
    let words = "--reuid=65534 --regid=65534 --clear-groups unshare --user --pid --fork true";
    support::command("setpriv").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

/// The processes that programs of this lab have left.
fn daemons(lab: &Lab) -> Vec<u32> {
    let mut home = b"HOME=".to_vec();
    home.extend(lab.root().as_os_str().as_bytes());
    let is_ours = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        // In a chroot it is called otherwise from here.
        (cwd.starts_with(lab.root()) && cwd.ends_with("program"))
            || environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(&home))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

#[test]
fn daemon_ends_with_its_run() {
    let name = "daemon_ends_with_its_run";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    for is_in_chroot in [false, true] {
        let lab = Lab::new();
        let mut running = match start(&lab, is_in_chroot, "0.05", 2) {
            Ok(running) => running,
            Err(reason) => return support::skip(name, &reason),
        };
        while let Some(event) = running.event() {
            // Of the run before nothing is left when the next one begins.
            assert!(event["event"] != "run-started" || daemons(&lab).is_empty(), "{is_in_chroot} {event}");
        }
        let ended = running.end(PATIENCE);
        assert!([0, 3].contains(&ended.code()), "{is_in_chroot}: {ended:?}");
        assert_eq!(daemons(&lab), Vec::<u32>::new(), "{is_in_chroot}");
        lab.assert_nothing_left("after a trial of daemons");
    }
}

#[test]
fn a_killed_command_leaves_no_daemon() {
    let name = "a_killed_command_leaves_no_daemon";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    for is_in_chroot in [false, true] {
        let lab = Lab::new();
        let mut running = match start(&lab, is_in_chroot, "30", 4) {
            Ok(running) => running,
            Err(reason) => return support::skip(name, &reason),
        };
        let is = |begin: &'static str| move |pid: &u32| support::command_line(*pid).starts_with(begin);
        let starts = support::eventually(PATIENCE, || {
            let all = daemons(&lab);
            all.iter().any(is("sh -c trap")) && all.iter().any(is("sh -c while"))
        });
        assert!(starts, "{is_in_chroot}: the daemons start");
        running.signal(Signal::KILL);
        let _ = running.line();
        if is_in_chroot || !has_namespaces() {
            assert!(!daemons(&lab).is_empty(), "nobody has ended it yet");
            let cleaned = lab.run_as_nobody("clean").unwrap();
            assert_eq!(cleaned.code(), 0, "{cleaned:?}");
            assert_eq!(daemons(&lab), Vec::<u32>::new());
        } else {
            let gone = support::eventually(Duration::from_secs(10), || daemons(&lab).is_empty());
            assert!(gone, "the kernel ends it with its namespace: {:?}", daemons(&lab));
            assert_eq!(lab.run_as_nobody("clean").unwrap().code(), 0);
        }
        let _ = running.end(PATIENCE);
        lab.assert_nothing_left("after a killed trial of daemons");
    }
}
