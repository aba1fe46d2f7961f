//! Ctrl-C and its relatives: the partial answer within seconds, exit code 130, and nothing left.

use crate::support::{self, Ended, Lab, Running, SMALL};
use rustix::process::Signal;
use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

/// The time a user waits after Ctrl-C before pressing it again.
const PROMPT: Duration = Duration::from_secs(30);

/// Arms that are alike: they are not decided while the test looks on.
fn words(flags: &str) -> String {
    format!("compare a=ext4 b=ext4 {SMALL} --device image:images {flags}")
}

/// It ends soon with 130 and the partial answer, and leaves nothing.
fn assert_interrupted(lab: &Lab, running: Running, least_rounds: u64) -> Ended {
    let signalled = Instant::now();
    let ended = running.end(PROMPT);
    assert!(signalled.elapsed() < PROMPT);
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert!(ended.stderr.contains("interrupted: ending the run"), "it says that it heard: {ended:?}");
    let document = ended.document();
    assert_eq!(document["ended"], "interrupted");
    assert!(document["rounds"].as_u64().unwrap() >= least_rounds, "{document}");
    let trials = lab.trials();
    assert_eq!(trials.last().unwrap()["status"], "interrupted");
    lab.assert_nothing_left("after an interruption");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new(), "an interrupted command cleans up after itself");
    lab.check_store();
    ended
}

#[test]
fn signal_ends_command_with_partial_answer() {
    let name = "signal_ends_command_with_partial_answer";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut running = lab.start(&words("--json"));
        for _ in 0..2 {
            assert!(running.wait_for("verdicts-updated"));
        }
        assert!(running.wait_for("run-started"));
        running.signal(signal);
        let ended = assert_interrupted(&lab, running, 2);
        let cells = ended.document()["workloads"][0]["cells"].clone();
        for cell in cells.as_array().unwrap() {
            assert!(cell["runs"].as_u64().unwrap() >= 2, "the partial answer has what was measured: {cell}");
        }
    }
}

#[test]
fn ctrl_c_interrupts_whole_foreground_group() {
    let name = "ctrl_c_interrupts_whole_foreground_group";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start_group(&words("--json"));
    assert!(running.wait_for("verdicts-updated"));
    assert!(running.wait_for("run-started"));
    assert!(running.wait_for("run-stage"));
    support::signal_group(running.pid(), Signal::INT);
    let ended = assert_interrupted(&lab, running, 1);
    // The run that was cut off is not a run.
    let events = ended.json();
    assert!(events.iter().all(|event| event["failure"].is_null()), "{ended:?}");
    let last: Vec<&str> = events.iter().rev().take(2).filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(last, ["answer", "verdicts-updated"]);
}

#[test]
fn people_get_the_partial_answer_as_a_table() {
    let name = "people_get_the_partial_answer_as_a_table";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let running = lab.start(&words(""));
    let has_runs = support::eventually(support::PATIENCE, || {
        lab.trials().last().is_some_and(|trial| trial["runs"].as_u64().unwrap() >= 4)
    });
    running.signal(Signal::INT);
    let ended = running.end(PROMPT);
    assert!(has_runs, "{:?} {ended:?}", lab.trials());
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert!(
        ended.stdout.contains("random-write") && ended.stdout.contains("Interrupted; to resume"),
        "{ended:?}"
    );
    lab.assert_nothing_left("after an interruption");
}

#[test]
fn interrupt_before_first_round_prints_answer() {
    let name = "interrupt_before_first_round_prints_answer";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start(&words("--json"));
    assert!(running.wait_for("run-stage"), "the first arm is being inspected");
    running.signal(Signal::INT);
    assert_interrupted(&lab, running, 0);
    let mut running = lab.start(&words("--json"));
    assert!(running.wait_for("run-ended"));
    running.signal(Signal::INT);
    assert_interrupted(&lab, running, 1);
}

/// Writing a large image takes long, and Ctrl-C must not wait for it.
#[test]
fn a_signal_while_the_image_is_made_ends_the_command() {
    let name = "a_signal_while_the_image_is_made_ends_the_command";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let large =
        "compare a=ext4 b=ext4 --workload random-write --set device.size=4GiB --device image:images --json";
    let mut running = lab.start(large);
    assert!(running.wait_for("device-progress"));
    running.signal(Signal::INT);
    let ended = running.end(PROMPT);
    assert_eq!(ended.code(), 130, "{ended:?}");
    lab.assert_nothing_left("after an interruption while the image was made");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

#[test]
fn second_signal_ends_command_at_once() {
    let name = "second_signal_ends_command_at_once";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for signals in [[Signal::INT, Signal::INT], [Signal::INT, Signal::TERM]] {
        let mut running = lab.start(&words("--json"));
        assert!(running.wait_for("run-ended"));
        assert!(running.wait_for("run-started"));
        running.signal(signals[0]);
        // Several pending signals of one kind are delivered as one signal.
        support::pause(Duration::from_millis(5));
        running.signal(signals[1]);
        let ended = running.end(Duration::from_secs(3));
        assert_eq!(ended.code(), 130, "{ended:?}");
        lab.assert_nothing_left("after a second signal");
        lab.clean();
        lab.check_store();
    }
}

/// A reader that goes away (`fstrial … | head`) does not end a trial in the middle, nor with a panic.
#[test]
fn closed_output_pipe_causes_no_panic() {
    let name = "closed_output_pipe_causes_no_panic";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut shell = lab.prepare("sh");
    let script = format!("{} {} | head -n 1", support::FSTRIAL, words("--json --rounds 4"));
    shell.args(["-c", &script]);
    let ended = Running::start(shell).end(support::PATIENCE);
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1);
    lab.assert_nothing_left("after the reader went away");
    lab.check_store();
}

/// Another program may lock the store for half a minute; a signal must end the command sooner.
#[test]
fn a_signal_while_the_store_is_locked_ends_the_command_at_once() {
    let lab = Lab::new();
    fs::create_dir(lab.home()).unwrap();
    drop(fstrial_store::Store::open(lab.home().join("results.db")).unwrap());
    let store = File::options().read(true).write(true).open(lab.home().join("results.db")).unwrap();
    rustix::fs::fcntl_lock(&store, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::create_dir(lab.path("a")).unwrap();
    fs::create_dir(lab.path("b")).unwrap();
    let running = lab.start("compare dir:a dir:b --workload random-write --threads 1");
    support::pause(Duration::from_secs(2));
    running.signal(Signal::INT);
    let signalled = Instant::now();
    let ended = running.end(support::PATIENCE);
    assert!(signalled.elapsed() < Duration::from_secs(2), "{ended:?}");
    assert_eq!(ended.code(), 130, "{ended:?}");
}

/// Its self-comparisons take a minute: after Ctrl-C neither continues.
#[test]
fn doctor_ends_at_a_signal() {
    let name = "doctor_ends_at_a_signal";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for wait in [0, 2, 6] {
        let mut command = lab.prepare(support::FSTRIAL);
        command.args(["doctor", "--folder"]).arg(lab.images());
        let running = Running::start(command);
        support::pause(Duration::from_millis(500 + wait * 1000));
        running.signal(Signal::INT);
        let signalled = Instant::now();
        let ended = running.end(support::PATIENCE);
        assert!(signalled.elapsed() < PROMPT, "{ended:?}");
        assert_eq!(ended.code(), 130, "{ended:?}");
        lab.assert_nothing_left("after doctor was interrupted");
        assert_eq!(lab.ledger_entries(), Vec::<String>::new());
    }
}

/// An interrupted trial names the command that resumes it, and that command resumes it without its file.
#[test]
fn interrupted_trial_resumes_with_printed_command() {
    let name = "interrupted_trial_resumes_with_printed_command";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let mut running = lab.start(&words("--json --rounds 3"));
    assert!(running.wait_for("run-ended"));
    running.signal(Signal::INT);
    assert_eq!(running.end(PROMPT).code(), 130);
    let shown = lab.run("report --format text");
    assert!(
        shown.stdout.contains("Interrupted; to resume") && shown.stdout.contains("fstrial resume 1"),
        "{shown:?}"
    );
    let resumed = lab.run("resume 1 --json");
    assert!([0, 3].contains(&resumed.code()), "{resumed:?}");
    let document = resumed.document();
    assert_eq!(
        (document["trial_id"].as_i64(), document["rounds"].as_i64()),
        // Three, and the one that was cut short.
        (Some(1), Some(4)),
        "{resumed:?}"
    );
    assert!(
        document["repeat"].as_str().unwrap().contains("compare"),
        "the first command repeats it: {resumed:?}"
    );
    let unknown = lab.run("resume 7");
    assert_eq!(unknown.code(), 2, "{unknown:?}");
}
