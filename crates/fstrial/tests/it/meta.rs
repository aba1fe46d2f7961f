//! `fstrial meta` on planted hosts: their combined verdicts, the hosts that count, and those that do not.

use crate::{planted::Night, support::Lab};
use fstrial_store::Store;
use serde_json::Value;
use std::{fs, os::unix::fs::FileExt};

/// The logarithms by which hosts differ from their mean, which is 0.
const APART: [f64; 6] = [-0.12, 0.03, 0.08, -0.05, 0.0, 0.06];

/// A store for each host, in a folder.
fn hosts(lab: &Lab, folder: &str, change: impl Fn(usize, &mut Night)) {
    fs::create_dir_all(lab.path(folder)).unwrap();
    for (index, apart) in APART.into_iter().enumerate() {
        let mut night = Night {
            host: format!("n{index}"),
            rounds: 8,
            ratio: 1.2 * apart.exp(),
            is_fixed: true,
            ..Night::default()
        };
        change(index, &mut night);
        let path = lab.path(&format!("{folder}/{}.db", night.host));
        night.store(&mut Store::open(path).unwrap());
    }
}

fn meta(lab: &Lab, words: &str) -> Value {
    let ended = lab.run(&format!("meta {words} --json"));
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.json().pop().unwrap()
}

fn near(value: &Value, expected: f64, tolerance: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < tolerance, "{value} instead of {expected}");
}

#[test]
fn meta_recovers_planted_effect_across_hosts() {
    let lab = Lab::new();
    hosts(&lab, "hosts", |_, _| {});
    let document = meta(&lab, "hosts --threads 4");
    assert_eq!(
        (&document["hosts"], &document["trials"], &document["stores"]),
        (&6.into(), &6.into(), &6.into())
    );
    let [question] = &document["questions"].as_array().unwrap()[..] else { panic!("{document}") };
    let pooled = &question["pooled"];
    near(&pooled["ratio"], 1.2, 0.002);
    // The standard deviation of the six, and t with five degrees of freedom.
    near(&pooled["tau"], 0.0744, 0.02);
    let (half, next) = (2.5706 * 0.0744 / 6_f64.sqrt(), 2.5706 * 0.0744 * (7.0 / 6.0_f64).sqrt());
    near(&pooled["interval"][1], 1.2 * half.exp(), 0.003);
    near(&pooled["prediction"][0], 1.2 * (-next).exp(), 0.005);
    assert_eq!(question["verdict"], "faster");
    let names: Vec<&str> =
        question["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["n0", "n3", "n4", "n1", "n5", "n2"], "in the order of their ratios");
    near(&question["hosts"][0]["ratio"], 1.2 * (-0.12_f64).exp(), 0.002);
    assert_eq!(question["hosts"][0]["stop"], "fixed");

    let text = lab.run("meta hosts --threads 4");
    insta::assert_snapshot!(text.stdout);
    let page = lab.run("meta hosts --out page.html");
    assert_eq!(page.code(), 0, "{page:?}");
    let page = fs::read_to_string(lab.path("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("next host") && page.len() < 100_000, "{}", page.len());
}

#[test]
fn every_host_counts_once() {
    let lab = Lab::new();
    hosts(&lab, "hosts", |_, _| {});
    // The same trials again, another trial of one host, and a file that is not a store.
    hosts(&lab, "copies", |_, _| {});
    let other = Night { day: 1, host: "n0".into(), rounds: 8, is_fixed: true, ..Night::default() };
    other.store(&mut Store::open(lab.path("other.db")).unwrap());
    lab.write("copies/torn.db", "SQLite format 3\0 and nothing else");
    let document = meta(&lab, "hosts copies/*.db other.db --threads 4");
    assert_eq!((&document["hosts"], &document["trials"]), (&6.into(), &7.into()), "{document}");
    let question = &document["questions"][0];
    let first = question["hosts"].as_array().unwrap().iter().find(|host| host["name"] == "n0").unwrap();
    assert_eq!((first["trials"].as_array().unwrap().len(), &first["rounds"]), (2, &16.into()));
    let left = document["left_out"].as_object().unwrap();
    assert_eq!(left["another store has the same trial"].as_array().unwrap().len(), 6, "{left:?}");
    assert_eq!(left.len(), 2, "{left:?}");

    let alone = lab.run("meta copies/torn.db");
    assert_eq!(alone.code(), 14, "{alone:?}");
    let nothing = lab.run("meta hosts/x*.db");
    assert!(nothing.code() == 2 && nothing.stderr.contains("is like x*.db"), "{nothing:?}");
}

#[test]
fn reports_early_stopped_hosts_and_pool_without_them() {
    let lab = Lab::new();
    hosts(&lab, "hosts", |index, night| night.is_fixed = index > 1);
    let question = &meta(&lab, "hosts --threads 1")["questions"][0];
    let stopped = question["hosts"].as_array().unwrap().iter().filter(|host| host["stop"] == "verdict");
    assert_eq!(stopped.count(), 2);
    assert_eq!((&question["pooled"]["hosts"], &question["without_stopped"]["hosts"]), (&6.into(), &4.into()));
    let text = lab.run("meta hosts --threads 1").stdout;
    assert!(text.contains("the trials of 2 hosts stopped at their own verdict"), "{text}");
}

#[test]
fn warns_of_shared_machine_and_too_few_hosts() {
    let lab = Lab::new();
    hosts(&lab, "hosts", |_, night| night.machine = Some("0123456789abcdef"));
    let document = meta(&lab, "hosts/n0.db hosts/n1.db --threads 1");
    let pooled = &document["questions"][0]["pooled"];
    assert!(pooled["interval"].is_null() && pooled["prediction"].is_null(), "{pooled}");
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("n0 and n1 have one machine-id"), "{warning}");
    let text = lab.run("meta hosts/n0.db hosts/n1.db --threads 1").stdout;
    assert!(text.contains("on 2 hosts: too few hosts, three are needed"), "{text}");
}

#[test]
fn trials_with_few_rounds_do_not_count() {
    let lab = Lab::new();
    hosts(&lab, "hosts", |_, night| night.rounds = 4);
    let ended = lab.run("meta hosts");
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stderr.contains("a trial counts with 5 rounds"), "{ended:?}");
}

/// The offset of SQLite's schema version in the first page of a file.
const USER_VERSION: u64 = 60;

#[test]
fn a_host_with_a_wrong_clock_counts_and_a_store_of_a_later_version_does_not() {
    let lab = Lab::new();
    let far = |index: usize| [0, -20_000, 40_000][index % 3];
    hosts(&lab, "hosts", |index, night| night.day = far(index));
    let right = meta(&lab, "hosts --threads 4")["questions"][0]["pooled"].clone();
    near(&right["ratio"], 1.2, 0.002);
    assert_eq!(right["hosts"], 6);
    // A program of later has written this one.
    let later = fs::OpenOptions::new().write(true).open(lab.path("hosts/n5.db")).unwrap();
    later.write_all_at(&9999_u32.to_be_bytes(), USER_VERSION).unwrap();
    let document = meta(&lab, "hosts --threads 4");
    assert_eq!((&document["hosts"], &document["stores"]), (&5.into(), &6.into()), "{document}");
    let left = document["left_out"].as_object().unwrap();
    let [(why, what)] = &left.iter().collect::<Vec<_>>()[..] else { panic!("{left:?}") };
    assert!(why.contains("9999") && what[0] == "n5", "{left:?}");
}
