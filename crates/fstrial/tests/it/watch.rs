//! `fstrial watch` and `--watch` on a real terminal: the screen, and that the terminal is restored after any end.
//! Directories need no root, and so these tests run everywhere.

use crate::{
    pty::OnTerminal,
    support::{self, FSTRIAL, Lab, Running, SMALL},
};
use rustix::process::Signal;
use std::fs;

/// A trial of a second or two on two directories.
const FLAGS: &str = "--workload random-write --set workload.file_size=1MiB --threads 1 --set workload.warmup=20ms --duration 100ms --budget 10m --no-page";

fn lab() -> Lab {
    let lab = Lab::new();
    for name in ["a", "b"] {
        fs::create_dir(lab.path(name)).unwrap();
    }
    lab
}

fn words(flags: &str) -> String {
    format!("compare dir:a dir:b --set trial.name=watched {FLAGS} {flags}")
}

/// A lab with a trial of four rounds.
fn with_a_trial() -> Lab {
    let lab = lab();
    let ended = lab.run(&words("--rounds 4"));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    lab
}

#[test]
fn a_stored_trial_is_watched_resized_and_left() {
    let lab = with_a_trial();
    let mut watch = OnTerminal::start(&lab, "watch");
    watch.wait_for("trial 1");
    watch.wait_for("this trial is over");
    watch.wait_for("dir:b / dir:a");
    assert!(watch.screen().alternate_screen() && watch.screen().hide_cursor() && watch.is_raw());
    assert!(watch.screen().contents().contains("round 4 "), "{}", watch.screen().contents());
    watch.resize(110, 30);
    watch.wait("picture of the new size", |screen| {
        let last = screen.rows(0, 110).nth(29).unwrap_or_default();
        last.contains("q quit") && screen.contents().contains("against threads")
    });
    watch.resize(40, 10);
    watch.wait_for("too small");
    watch.resize(80, 24);
    watch.wait_for("dir:b / dir:a");
    watch.press("?");
    watch.wait_for("leave the view");
    watch.press("?");
    watch.wait("picture without help", |screen| !screen.contents().contains("leave the view"));
    watch.press("\t\t");
    watch.wait_for("[last run]");
    watch.press("q");
    assert_eq!(watch.end_as_it_began(), 0);
}

#[test]
fn signal_restores_terminal() {
    let lab = with_a_trial();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut watch = OnTerminal::start(&lab, "watch 1");
        watch.wait_for("this trial is over");
        watch.signal(signal);
        assert_eq!(watch.end_as_it_began(), 130, "{signal:?}");
    }
}

#[test]
fn watch_from_second_terminal_follows_trial_until_kill() {
    let lab = lab();
    let mut running = lab.start(&words("--json"));
    assert!(running.wait_for("verdicts-updated"));
    let mut watch = OnTerminal::start(&lab, "watch");
    watch.wait_for("trial 1 · running");
    watch.wait_for("a run takes about");
    watch.wait_for("left");
    // It continues by itself.
    let round = |screen: &vt100::Screen| -> Option<u32> {
        let contents = screen.contents();
        contents.split("round ").nth(1)?.split(' ').next()?.parse().ok()
    };
    let before = round(watch.screen()).unwrap();
    watch.wait("later round", |screen| round(screen).is_some_and(|now| now > before));
    running.signal(Signal::KILL);
    watch.wait_for("killed");
    watch.press("\u{1b}");
    assert_eq!(watch.end_as_it_began(), 0);
}

#[test]
fn quitting_watch_view_leaves_trial_running() {
    let lab = lab();
    let mut trial = OnTerminal::start(&lab, &words("--watch --rounds 30"));
    trial.wait_for("watched");
    trial.wait_for("dir:b / dir:a");
    trial.wait("verdicts", |screen| screen.contents().contains(" decided"));
    assert!(trial.screen().alternate_screen() && trial.is_raw());
    trial.press("q");
    trial.wait_for("the trial continues");
    trial.wait_for("Full report");
    let code = trial.end_as_it_began();
    assert!([0, 3].contains(&code), "{code}");
    assert_eq!(lab.trials().len(), 1);
}

#[test]
fn the_view_makes_room_for_the_answer() {
    let lab = lab();
    let mut trial = OnTerminal::start(&lab, &words("--watch --rounds 4"));
    trial.wait_for("Full report");
    let code = trial.end_as_it_began();
    assert!([0, 3].contains(&code), "{code}");
}

#[test]
fn ctrl_c_in_view_interrupts_and_keeps_trial() {
    let lab = lab();
    let mut trial = OnTerminal::start(&lab, &words("--watch"));
    trial.wait("verdicts", |screen| screen.contents().contains(" decided"));
    trial.press("\u{3}");
    // A run that was ending just then is over before anything is seen of it.
    trial.wait("word that it stops, or the answer", |screen| {
        ["stopping the trial", "Full report"].iter().any(|words| screen.contents().contains(words))
    });
    assert_eq!(trial.end_as_it_began(), 130);
    assert_eq!(lab.trials()[0]["status"], "interrupted");
    lab.assert_nothing_left("after Ctrl-C in the view");
    // And a signal from elsewhere.
    let mut trial = OnTerminal::start(&lab, &words("--watch"));
    trial.wait("verdicts", |screen| screen.contents().contains(" decided"));
    trial.signal(Signal::TERM);
    assert_eq!(trial.end_as_it_began(), 130);
}

#[test]
fn closed_terminal_ends_watch() {
    let name = "closed_terminal_ends_watch";
    let lab = with_a_trial();
    let mut command = lab.prepare("script");
    command.args(["-qc", &format!("{FSTRIAL} watch"), "/dev/null"]).env("TERM", "xterm-256color");
    command.stdin(std::process::Stdio::piped());
    if !support::command("script").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return support::skip(name, "needs script, of util-linux");
    }
    let window = Running::start(command);
    let is_watched = || lab.leaks().iter().any(|leak| leak.ends_with(&format!("{FSTRIAL} watch")));
    assert!(support::eventually(support::PATIENCE, is_watched), "{:?}", lab.leaks());
    support::pause(std::time::Duration::from_secs(1));
    support::kill(window.pid());
    lab.assert_nothing_left("its terminal was closed");
}

#[test]
fn watch_without_terminal_prints_hint() {
    let lab = with_a_trial();
    let refused = lab.run("watch");
    assert_eq!(refused.code(), 2);
    let (what, remedy) = ("needs a terminal", "fstrial report --format text");
    assert!(refused.stderr.contains(what) && refused.stderr.contains(remedy), "{refused:?}");
    assert!(!refused.stdout.contains('\u{1b}'));
    let plain = lab.run(&words("--watch --rounds 2"));
    assert!(plain.stderr.contains("--watch needs a terminal: this is the plain progress"), "{plain:?}");
    assert!(plain.stderr.contains("round 1 done") && plain.stdout.contains("In short"), "{plain:?}");
    let nothing = Lab::new().run("watch");
    assert!(nothing.code() == 2 && nothing.stderr.contains("run a trial first"), "{nothing:?}");
}

#[test]
fn filesystems_are_watched_like_directories() {
    let name = "filesystems_are_watched_like_directories";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let words = format!("compare a=ext4 b=xfs {SMALL} --device image:images --rounds 4 --no-page --watch");
    let mut trial = OnTerminal::start(&lab, &words);
    trial.wait_for("b / a @1");
    trial.wait_for("run 1 · ");
    trial.wait_for("Full report");
    let code = trial.end_as_it_began();
    assert!([0, 3].contains(&code), "{code}");
    lab.assert_nothing_left("after a trial that was watched");
}
