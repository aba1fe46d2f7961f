//! The attack proves itself: old faults are restored in a copy of the program, one per process, and the small run must
//! find each. An attack without findings is meaningless unless its power is known. `xtask/plants.patch` has the faults.

use crate::{
    fuzz, hostile, kills,
    lab::Subject,
    refusals,
    table::{Area, Finding, skipped},
};
use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

/// Faults tested concurrently: most of that time is spent waiting for processes to end.
const AT_A_TIME: usize = 4;
/// Why a lock can be taken: no thread panics while it holds one.
const WHOLE: &str = "no thread panics while it holds the lock";

/// Finds one fault: the area of the attack, and the case of it that is enough.
struct Plant {
    fault: &'static str,
    area: fn(&Subject, &Path) -> Area,
    only: &'static str,
}

const fn plant(fault: &'static str, area: fn(&Subject, &Path) -> Area, only: &'static str) -> Plant {
    Plant { fault, area, only }
}

/// Every fault of the patch.
const PLANTS: [Plant; 17] = [
    plant("loop-on-disk", refuse, "held-by-a-loop-device"),
    plant("home", refuse, "home-of-somebody-else"),
    plant("covered-ledger", kill, "home-below-mnt"),
    plant("deletion", refuse, "program-makes-deep-folders"),
    plant("descriptor", refuse, "open-by-a-node-elsewhere"),
    plant("bad-entry", refuse, "half-an-entry"),
    plant("group", refuse, "member-of-a-btrfs"),
    plant("overwrite", refuse, "export-over-a-file"),
    plant("signatures", refuse, "signature"),
    plant("lock", refuse, "second-trial-with-one-home"),
    plant("freeze", kill, "freeze"),
    plant("loop-device", kill, "image"),
    plant("queue-setting", kill, "disk-settings"),
    plant("folder", kill, "directory"),
    plant("panic", fuzzed, "bytes"),
    plant("limit", |subject, _| hostile::files(subject), "sparse-gigabyte"),
    plant("lengths", |subject, _| hostile::stores(subject, 1, 0), "histogram-lengths"),
];

fn refuse(subject: &Subject, _: &Path) -> Area {
    refusals::attack(subject)
}

fn kill(subject: &Subject, _: &Path) -> Area {
    let options = kills::Options { seed: 1, kills: 12, patience: Duration::from_secs(4) };
    kills::attack(subject, &options)
}

fn fuzzed(subject: &Subject, findings: &Path) -> Area {
    fuzz::attack(&fuzz::Options {
        seed: 1,
        time: Duration::from_secs(20),
        inputs: 20_000,
        findings: findings.to_owned(),
        target: subject.only.clone(),
        plant: subject.plant,
    })
}

/// Plants every fault, and checks that it is found.
pub(crate) fn attack(planted: &Path, only: Option<&str>, findings: &Path) -> Area {
    let mut area = Area::new("plants");
    if !rustix::process::geteuid().is_root() {
        area.skip("all", "needs root");
        return area.finish();
    }
    let waiting = Mutex::new(PLANTS.iter().filter(|plant| only.is_none_or(|only| only == plant.fault)));
    let next = || waiting.lock().expect(WHOLE).next().filter(|_| !crate::lab::interrupted());
    let tried = Mutex::new(area);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(plant) = next() {
                    let result = find(plant, planted, &findings.join("planted"));
                    let again = format!("cargo xtask attack plants --only {}", plant.fault);
                    tried.lock().expect(WHOLE).tried(plant.fault, result, &again);
                }
            });
        }
    });
    tried.into_inner().expect(WHOLE).finish()
}

/// Plants one fault, and checks that it is found.
fn find(plant: &Plant, planted: &Path, findings: &Path) -> Result<(), String> {
    let subject = |fault: &'static str| Subject {
        program: PathBuf::from(planted),
        plant: Some(fault),
        only: Some(plant.only.into()),
        small: true,
    };
    let area = (plant.area)(&subject(plant.fault), findings);
    if area.attempts == 0 {
        let why = area.skipped.first().map_or("interrupted", String::as_str);
        return Err(skipped(why));
    }
    // Findings without the fault do not count.
    let without = (plant.area)(&subject("nothing"), findings).findings;
    let case = |finding: &Finding| finding.what.split(':').next().unwrap_or_default().to_owned();
    let is_new = |finding: &&Finding| !without.iter().any(|other| case(other) == case(finding));
    let Some(finding) = area.findings.iter().find(is_new) else {
        return Err(format!("was not found in {} attempts", area.attempts));
    };
    println!("found {}: {}", plant.fault, finding.what.lines().next().unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_planted() {
        let patch = include_str!("../../../xtask/plants.patch");
        // A fault of the patch: its name in quotes, and the variant.
        let fault = |line: &'static str| Some(line.strip_prefix("+        \"")?.split_once("\" ")?.0);
        let names: Vec<&str> = PLANTS.iter().map(|plant| plant.fault).collect();
        assert_eq!(names, patch.lines().filter_map(fault).collect::<Vec<_>>());
    }
}
