//! Files that are there already, links and devices in the place of files to be written, and two trials with one home.

use super::{Case, has_refused};
use crate::{
    child,
    lab::{Lab, PATIENCE},
};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::Path,
    process::Stdio,
    time::Duration,
};

pub(super) const CASES: [Case; 10] = [
    ("report-is-written", |lab| written(lab, "report --out {file}")),
    ("export-is-written", |lab| written(lab, "results export --format store --out {file}")),
    ("save-over-a-file", |lab| over_a_file(lab, "compare ext4 xfs --dry-run --save {file}")),
    ("save-through-a-link", |lab| through_a_link(lab, "compare ext4 xfs --dry-run --save {file}")),
    ("save-on-a-device", save_on_a_device),
    ("schema-is-printed-only", |lab| over_a_file(lab, "generate schema {file}")),
    ("export-over-a-file", |lab| over_a_file(lab, "results export --format store --out {file}")),
    ("export-through-a-link", |lab| through_a_link(lab, "results export --format store --out {file}")),
    ("report-over-a-file", |lab| over_a_file(lab, "report --out {file}")),
    ("second-trial-with-one-home", two_trials),
];

const OLD: &str = "what was there before\n";

fn over_a_file(lab: &Lab, words: &str) -> Result<(), String> {
    lab.with_trials()?;
    let file = lab.write("old", OLD);
    let ended = lab.run(&words.replace("{file}", &file.display().to_string()));
    kept(&file)?;
    has_refused(&ended)
}

fn through_a_link(lab: &Lab, words: &str) -> Result<(), String> {
    lab.with_trials()?;
    let file = lab.write("old", OLD);
    let link = lab.path("link");
    symlink(&file, &link).map_err(|e| e.to_string())?;
    let ended = lab.run(&words.replace("{file}", &link.display().to_string()));
    kept(&file)?;
    if !link.is_symlink() {
        return Err("the link was replaced".into());
    }
    has_refused(&ended)
}

/// The refused output below works without an obstacle.
fn written(lab: &Lab, words: &str) -> Result<(), String> {
    lab.with_trials()?;
    let file = lab.path("new");
    let ended = lab.run(&words.replace("{file}", &file.display().to_string()));
    match file.exists() {
        true => Ok(()),
        false => Err(format!("{}: {}", ended.status, ended.last_words())),
    }
}

fn kept(file: &Path) -> Result<(), String> {
    match fs::read_to_string(file) {
        Ok(text) if text == OLD => Ok(()),
        other => Err(format!("the file was overwritten: {:.60}", format!("{other:?}"))),
    }
}

fn save_on_a_device(lab: &Lab) -> Result<(), String> {
    let disk = lab.disk("disk.img", 8)?;
    let before = disk.sum()?;
    let ended = lab.run(&format!("compare ext4 xfs --dry-run --save {}", disk.path));
    if disk.sum()? != before {
        return Err("the device was written".into());
    }
    has_refused(&ended)
}

const DIRECTORIES: &str = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=1MiB --threads 1 \
                           --duration 100ms --set workload.warmup=20ms --json --no-page";

fn two_trials(lab: &Lab) -> Result<(), String> {
    let mut command = lab.fstrial(&format!("{DIRECTORIES} --rounds 100"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = command.spawn().map_err(|e| e.to_string())?;
    let mut lines = BufReader::new(first.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let _ = lines.find(|line| line.contains("run-started"));
    let second = child::run(&mut lab.fstrial(&format!("{DIRECTORIES} --rounds 1")), PATIENCE);
    let _ = first.kill();
    let _ = child::wait(&mut first, Duration::from_secs(20));
    child::eventually(Duration::from_secs(10), || {
        lab.run("clean").code() == Some(0) && lab.ledger().is_empty()
    });
    has_refused(&second)
}
