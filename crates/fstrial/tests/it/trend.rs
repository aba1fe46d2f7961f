//! `fstrial trend` on planted histories: changes are found, named and reported to CI by the exit code.

use crate::{
    planted::Night,
    pty::OnTerminal,
    support::{Dice, Lab},
};
use fstrial_store::{NewSession, Store, TrialStatus};
use serde_json::{Value, json};
use std::fs;

/// Noise of a trial's ratio, ±1 %, the same in every test.
fn noise(day: i64) -> f64 {
    let drawn = Dice::new(day.unsigned_abs()).below(2001);
    1e-5 * f64::from(u32::try_from(drawn).unwrap()) - 0.01
}

fn store_of(lab: &Lab) -> Store {
    fs::create_dir_all(lab.home()).unwrap();
    Store::open(lab.home().join("results.db")).unwrap()
}

/// Thirty nights: from night 20 on XFS is 8 % slower against ext4, which came with a kernel. The machine as a whole
/// drifts by half.
fn regression(lab: &Lab, rounds: u32) {
    let mut store = store_of(lab);
    for day in 0..30 {
        let new = day >= 20;
        let night = Night {
            day,
            kernel: if new { "6.18.0-amd64" } else { "6.17.3-amd64" }.into(),
            rate: 10_000.0 * (1.0 + 0.5 * day as f64 / 30.0),
            rounds,
            ratio: if new { 1.2 * 0.92 } else { 1.2 } * (1.0 + noise(day)),
            ..Night::default()
        };
        night.store(&mut store);
    }
}

fn series(document: &Value, threads: u64) -> &Value {
    let all = document["series"].as_array().unwrap();
    all.iter().find(|series| series["threads"] == threads).unwrap()
}

fn document(lab: &Lab, words: &str) -> (Value, i32) {
    let ended = lab.run(&format!("trend {words} --json"));
    let document = ended.json().pop().unwrap_or_else(|| panic!("{ended:?}"));
    (document, ended.code())
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < 0.01, "{value} instead of {expected}");
}

#[test]
fn trend_locates_and_sizes_planted_kernel_regression() {
    let lab = Lab::new();
    regression(&lab, 4);
    let (document, code) = document(&lab, "xfs/ext4 --tag nightly --fail-if-worse 5%");
    assert_eq!(code, 4);
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["series"].as_array().unwrap().len(), 2, "a series for each level");
    let series = series(&document, 4);
    assert_eq!(series["points"].as_array().unwrap().len(), 30);
    let change = &series["changes"][0];
    assert_eq!(series["changes"].as_array().unwrap().len(), 1);
    assert_eq!((&change["at"], &change["after"], &change["until"]), (&20.into(), &19.into(), &20.into()));
    near(&change["ratio"], 0.92);
    let interval = [&change["interval"][0], &change["interval"][1]].map(|end| end.as_f64().unwrap());
    assert!(interval[0] < 0.92 && 0.92 < interval[1] && interval[1] - interval[0] < 0.03, "{interval:?}");
    assert_eq!((&change["sure"], &change["better"]), (&true.into(), &false.into()));
    let along = change["along"].as_object().unwrap();
    assert_eq!(along.keys().collect::<Vec<_>>(), ["kernel"]);
    assert_eq!(along["kernel"], serde_json::json!(["6.17.3-amd64 x86_64", "6.18.0-amd64 x86_64"]));
    near(&series["worse"]["ratio"], 0.92);
    // The same from the other side is an improvement, and 10 % is not lost.
    assert_eq!(lab.run("trend ext4/xfs --fail-if-worse 5%").code(), 0);
    assert_eq!(lab.run("trend xfs/ext4 --fail-if-worse 10%").code(), 0);
    assert_eq!(lab.run("trend xfs/ext4").code(), 0, "without the flag nothing fails");
    lab.check_store();
}

#[test]
fn trend_prints_unicode_or_ascii_by_locale() {
    let lab = Lab::new();
    regression(&lab, 9);
    let words = "trend xfs/ext4 --threads 4 --fail-if-worse 5%";
    let run = |locale: &str| {
        let mut command = lab.prepare(crate::support::FSTRIAL);
        command.env("LC_ALL", locale).args(words.split(' '));
        crate::support::Running::start(command).end(crate::support::PATIENCE)
    };
    let (unicode, ascii) = (run("C.UTF-8"), run("C"));
    assert_eq!((unicode.code(), ascii.code()), (4, 4));
    insta::assert_snapshot!(unicode.stdout);
    assert!(ascii.stdout.is_ascii(), "{}", ascii.stdout);
    // On a terminal of 80 columns sentences are folded between words.
    let mut terminal = OnTerminal::start(&lab, words);
    let folded = "against that of #1 to\n    #20: \u{2212}7.6 %";
    terminal.wait_for(folded);
    assert_eq!(terminal.end_as_it_began(), 4);
}

#[test]
fn higher_latency_counts_as_worse() {
    let lab = Lab::new();
    regression(&lab, 4);
    let (document, code) =
        document(&lab, "xfs/ext4 --metric p50 --threads 1 --practical 3% --fail-if-worse 5%");
    assert_eq!(code, 4);
    let change = &document["series"][0]["changes"][0];
    near(&change["ratio"], 1.0 / 0.92);
    assert_eq!((&change["better"], &document["series"][0]["less_is_better"]), (&false.into(), &true.into()));
}

#[test]
fn single_arm_trend_shows_drift_with_caveat() {
    let lab = Lab::new();
    regression(&lab, 4);
    let ended = lab.run("trend ext4 --threads 1");
    assert_eq!(ended.code(), 0);
    assert!(ended.stdout.contains("slowdowns of the whole machine"), "{}", ended.stdout);
    let (document, _) = document(&lab, "ext4 --threads 1");
    let series = &document["series"][0];
    near(&series["points"][0]["value"], 10_000.0);
    near(&series["points"][29]["value"], 10_000.0 * (1.0 + 0.5 * 29.0 / 30.0));
    assert!(!series["changes"].as_array().unwrap().is_empty(), "a slope is shown as steps");
}

#[test]
fn changed_setup_forms_separate_series() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..24 {
        // Every other night measures for longer, with another outcome; every third of these on another machine.
        let other = day % 2 == 1;
        Night {
            day,
            duration: if other { "2s" } else { "1s" },
            ratio: if other { 0.8 } else { 1.2 } * (1.0 + noise(day)),
            processor: if day % 6 == 5 { "Another CPU" } else { "Planted CPU" }.into(),
            ..Night::default()
        }
        .store(&mut store);
    }
    let (document, _) = document(&lab, "xfs/ext4 --threads 4");
    let all = document["series"].as_array().unwrap();
    assert_eq!(all.iter().map(|s| s["points"].as_array().unwrap().len()).sum::<usize>(), 24);
    assert_eq!(all.len(), 3);
    for series in all {
        assert!(series["changes"].as_array().unwrap().is_empty());
        let differs: Vec<_> =
            series["differs_in"].as_array().unwrap().iter().map(|d| d.as_str().unwrap()).collect();
        assert_eq!(differs, ["processor", "workload.phases.0.duration"]);
    }
}

#[test]
fn kernels_come_in_their_own_order() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    // Measured in the order of a bisection; slower from 6.10 on.
    let minors = [2, 14, 8, 11, 9, 10, 7, 12, 6, 13, 5, 4, 3, 15];
    for (day, minor) in (0..).zip(minors) {
        Night {
            day,
            kernel: format!("6.{minor}.0"),
            ratio: if minor >= 10 { 1.0 } else { 1.2 } * (1.0 + noise(minor)),
            ..Night::default()
        }
        .store(&mut store);
    }
    let (document, _) = document(&lab, "xfs/ext4 --threads 1 --by kernel");
    let series = &document["series"][0];
    let at = usize::try_from(series["changes"][0]["at"].as_u64().unwrap()).unwrap();
    assert_eq!(series["points"][at]["kernel"], "6.10.0");
    assert_eq!(series["points"][at - 1]["kernel"], "6.9.0");
}

#[test]
fn trend_reports_too_few_and_skipped_trials() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..5 {
        Night { day, ..Night::default() }.store(&mut store);
    }
    Night { day: 5, status: TrialStatus::Running, ..Night::default() }.store(&mut store);
    Night { day: 6, rounds: 2, status: TrialStatus::Interrupted, ..Night::default() }.store(&mut store);
    let ended = lab.run("trend xfs/ext4");
    assert_eq!(ended.code(), 0);
    for message in [
        "xfs / ext4 · throughput: too few trials to look for changes",
        "append-fsync · 4 threads: 1.20×",
        ", 5 trials, last #5",
        "#6: it still runs",
        "#7: it has fewer",
    ] {
        assert!(ended.stdout.contains(message), "{message}: {}", ended.stdout);
    }
}

#[test]
fn resumed_trial_uses_its_last_session() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    let mut resumed = |day, change: (&str, Value)| {
        let id = Night { day, ..Night::default() }.store(&mut store);
        let first = store.trial(id).unwrap().sessions.remove(0);
        let mut environment: Value = serde_json::from_str(&first.environment).unwrap();
        environment[change.0] = change.1;
        let environment = environment.to_string();
        let session = NewSession {
            started_at: &first.started_at,
            program_version: &first.program_version,
            command_line: &first.command_line,
            environment: &environment,
        };
        store.reopen_trial(id, &session).unwrap();
        store.finish_trial(id, TrialStatus::Decided, &first.started_at).unwrap();
    };
    resumed(0, ("host", "renamed".into()));
    resumed(1, ("kernel", "9.9.9-amd64 #1".into()));
    resumed(2, ("cpus", "many".into()));
    let (result, _) = document(&lab, "xfs/ext4 --threads 4");
    let points = result["series"][0]["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[0]["with"]["host"]), (1, &"renamed".into()));
    let reasons: Vec<&str> =
        result["left_out"].as_array().unwrap().iter().map(|left| left["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons[0], "it was resumed with another kernel or fstrial");
    assert!(reasons[1].starts_with("the environment of a session cannot be read: "), "{reasons:?}");
}

#[test]
fn a_series_with_too_few_trials_takes_a_line() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    Night { name: "fifteen".into(), ..Night::default() }.store(&mut store);
    for (day, size) in (1..).zip(["1 GiB", "2 GiB", "3 GiB", "4 GiB"]) {
        Night { day, device: format!("ramdisk: zram of {size}"), ..Night::default() }.store(&mut store);
    }
    let ended = lab.run("trend xfs/ext4");
    assert!(ended.stdout.lines().count() <= 12, "{}", ended.stdout);
    assert_eq!(ended.stdout.matches(", 1 trial, #").count(), 10, "{}", ended.stdout);
}

#[test]
fn a_ramdisk_with_another_number_is_the_same_device() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..12 {
        let device = format!("ramdisk: /dev/zram{} of 2 GiB, added for this trial", 1 + day % 3);
        Night { day, device, ratio: 1.2 * (1.0 + noise(day)), ..Night::default() }.store(&mut store);
    }
    let (result, code) = document(&lab, "xfs/ext4 --threads 4 --fail-if-worse 5%");
    assert_eq!((result["series"].as_array().unwrap().len(), code), (1, 0));
    let points = result["series"][0]["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[1]["with"]["device node"]), (12, &"/dev/zram2".into()));
    // Twice the size is another device.
    let device = "ramdisk: /dev/zram1 of 4 GiB, added for this trial".into();
    Night { day: 12, device, ..Night::default() }.store(&mut store);
    let (result, code) = document(&lab, "xfs/ext4 --threads 4 --fail-if-worse 5%");
    assert_eq!((result["series"].as_array().unwrap().len(), code), (2, 5));
}

#[test]
fn gate_reports_unjudged_newest_trial() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    let night = |day: i64| Night { day, ratio: 1.2 * (1.0 + noise(day)), ..Night::default() };
    for day in 0..9 {
        night(day).store(&mut store);
    }
    let gate = || {
        let ended = lab.run("trend xfs/ext4 --threads 4 --fail-if-worse 5%");
        (ended.code(), ended.stdout.trim_end().lines().next_back().unwrap_or_default().to_owned())
    };
    let expected = "NOT JUDGED: #9, the newest trial: 9 are alike, 10 are needed";
    assert_eq!(gate(), (5, expected.to_owned()));
    assert_eq!(lab.run("trend xfs/ext4 --threads 4").code(), 0, "nobody asked for a gate");
    night(9).store(&mut store);
    let (code, last) = gate();
    assert!(code == 0 && !last.contains("NOT JUDGED"), "{code}: {last}");
    // The newest trial measures for longer: nothing guards it, however many others there are.
    Night { day: 40, duration: "2s", ..Night::default() }.store(&mut store);
    let expected = "NOT JUDGED: #11, the newest trial: no other is like it, 10 are needed";
    assert_eq!(gate(), (5, expected.to_owned()));
    let (result, _) = document(&lab, "xfs/ext4 --threads 4 --fail-if-worse 5%");
    assert_eq!(result["unjudged"]["trial"], 11);
    // An older trial of that kind leaves the guard in place.
    Night { day: 41, ratio: 1.2, ..Night::default() }.store(&mut store);
    assert_eq!(gate().0, 0);
}

#[test]
fn gate_distinguishes_no_usable_trial_from_wrong_level() {
    let lab = Lab::new();
    // One round of each arm is no point.
    Night { rounds: 1, ..Night::default() }.store(&mut store_of(&lab));
    let gate = |words: &str| {
        let ended = lab.run(&format!("trend xfs/ext4 {words}"));
        (ended.code(), ended.stdout.contains("NOT JUDGED: #1, the newest trial: it has fewer than"))
    };
    assert_eq!(gate("--threads 4 --fail-if-worse 5%"), (5, true));
    let (result, code) = document(&lab, "xfs/ext4 --threads 4 --fail-if-worse 5%");
    assert_eq!((&result["unjudged"]["trial"], &result["series"], code), (&1.into(), &json!([]), 5));
    assert_eq!(gate("--threads 4"), (2, false));
    assert_eq!(gate("--threads 3 --fail-if-worse 5%"), (2, false));
    // None of the good points before it concerns the newest one.
    let mut store = store_of(&lab);
    for day in 1..12 {
        Night { day, ratio: 1.2 * (1.0 + noise(day)), ..Night::default() }.store(&mut store);
    }
    assert_eq!(gate("--threads 4 --fail-if-worse 5%"), (0, false));
    Night { day: 12, rounds: 1, ..Night::default() }.store(&mut store);
    let newest = lab.run("trend xfs/ext4 --threads 4 --fail-if-worse 5%");
    assert!(newest.code() == 5 && newest.stdout.contains("NOT JUDGED: #13, the newest trial"), "{newest:?}");
}

/// The rounds of an arm before it failed yield no figure, and a failing arm does not pass a gate.
#[test]
fn late_failure_drops_point_and_closes_gate() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..12 {
        Night { day, ratio: 1.2 * (1.0 + noise(day)), ..Night::default() }.store(&mut store);
    }
    assert_eq!(lab.run("trend xfs/ext4 --fail-if-worse 5%").code(), 0);
    Night { day: 12, rounds: 10, fails_late: true, ..Night::default() }.store(&mut store);
    let (result, code) = document(&lab, "xfs/ext4 --fail-if-worse 5%");
    let points = |threads| series(&result, threads)["points"].as_array().unwrap().len();
    assert_eq!((points(1), points(4), code), (13, 12, 5));
    let left = &result["left_out"][0];
    assert_eq!(left["trial"], 13);
    assert_eq!(left["reason"], "no point of xfs · append-fsync · 4 threads: it failed");
    assert_eq!(lab.run("trend xfs/ext4 --threads 1 --fail-if-worse 5%").code(), 0);
}

#[test]
fn trend_without_change_reports_detection_limit() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..12 {
        Night { day, ratio: 1.2 * (1.0 + 10.0 * noise(day)), ..Night::default() }.store(&mut store);
    }
    let ended = lab.run("trend xfs/ext4 --threads 4");
    assert!(!ended.stdout.contains("no change of more than"), "{}", ended.stdout);
    let message = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = message.split_once("a step of less than about ").unwrap_or_else(|| panic!("{message}"));
    let (percent, rest) = rest.split_once(' ').unwrap();
    assert!(rest.starts_with("% would go undetected"), "{message}");
    assert!((8.0..60.0).contains(&percent.parse::<f64>().unwrap()), "{message}");
}

#[test]
fn trend_rejects_unknown_arms_levels_and_metrics() {
    let lab = Lab::new();
    let none = lab.run("trend xfs/ext4");
    assert_eq!(none.code(), 2);
    assert!(none.stderr.contains("there are no results"), "{none:?}");
    let mut store = store_of(&lab);
    Night::default().store(&mut store);
    for (words, message) in [
        ("btrfs/ext4", "has an arm called btrfs"),
        ("xfs/ext4 --workload random-write", "no trial matches"),
        ("xfs/ext4 --threads 3", "it has no such workload or level"),
        ("xfs/xfs", "against itself"),
        ("/ext4", "names no arm"),
        ("xfs/ext4 --fail-if-worse 0%", "must be between"),
        ("xfs/ext4 --metric speed", "use one of throughput"),
    ] {
        let ended = lab.run(&format!("trend {words}"));
        assert_eq!(ended.code(), 2, "{words}");
        assert!(ended.stderr.contains(message), "{words}: {}", ended.stderr);
    }
    assert!(lab.run("trend xfs/ext4 --workload append-*").stdout.contains(", 1 trial, #1"));
}

#[test]
fn trend_strips_terminal_escapes() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..12 {
        let mkfs = if day < 6 { "mkfs \u{1b}[2J old" } else { "mkfs \u{1b}[2J new" };
        let ratio = if day < 6 { 1.2 } else { 0.9 };
        Night { day, mkfs: mkfs.into(), ratio, ..Night::default() }.store(&mut store);
    }
    let ended = lab.run("trend xfs/ext4");
    assert!(ended.stdout.contains("new") && !ended.stdout.contains('\u{1b}'), "{}", ended.stdout);
}
