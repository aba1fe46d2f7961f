//! Attempts and findings: a table for display, the same as Markdown and as JSON, and the sum over seeds.

use crate::lab::Subject;
use fstrial_run::numbers::thousands;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Something that went wrong, and how to see it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) what: String,
    pub(crate) again: String,
}

impl Finding {
    /// In two lines, for the log.
    fn reported(&self, area: &str) -> String {
        format!("WRONG {area}: {}\n      again: {}", self.what, self.again)
    }
}

/// Prefix of the reason why a case cannot be tried on this machine.
const SKIPPED: &str = "SKIPPED ";

/// Something cannot be tried on this machine.
pub(crate) fn skipped(why: impl std::fmt::Display) -> String {
    format!("{SKIPPED}{why}")
}

/// One area of the attack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) attempts: u64,
    pub(crate) findings: Vec<Finding>,
    /// Skipped cases, with the reasons.
    pub(crate) skipped: Vec<String>,
    pub(crate) seconds: f64,
    #[serde(skip)]
    began: Option<Instant>,
    /// Findings are expected, and not reported.
    #[serde(skip)]
    quiet: bool,
}

impl Area {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            attempts: 0,
            findings: Vec::new(),
            skipped: Vec::new(),
            seconds: 0.0,
            began: Some(Instant::now()),
            quiet: false,
        }
    }

    /// The same for a program that may have a planted fault: its findings are not reported.
    pub(crate) fn of(name: &str, subject: &Subject) -> Self {
        Self::quietly(name, subject.plant.is_some())
    }

    pub(crate) fn quietly(name: &str, quiet: bool) -> Self {
        Self { quiet, ..Self::new(name) }
    }

    /// Notes a finding, and reports it immediately.
    pub(crate) fn found(&mut self, finding: Finding) {
        if !self.quiet {
            println!("{}", finding.reported(&self.name));
        }
        self.findings.push(finding);
    }

    /// Counts an attempt, and its finding; a [`skipped`] case is not counted.
    pub(crate) fn tried(&mut self, case: &str, result: Result<(), String>, again: &str) {
        if let Some(reason) = result.as_ref().err().and_then(|what| what.strip_prefix(SKIPPED)) {
            return self.skip(case, reason);
        }
        self.attempts += 1;
        if let Err(what) = result {
            self.found(Finding { what: format!("{case}: {what}"), again: again.to_owned() });
        }
    }

    pub(crate) fn skip(&mut self, case: &str, reason: &str) {
        println!("{SKIPPED}{} {case}: {reason}", self.name);
        self.skipped.push(format!("{case}: {reason}"));
    }

    pub(crate) fn finish(mut self) -> Self {
        self.seconds = self.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        self
    }
}

/// A campaign: all areas that were attacked with one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Campaign {
    pub(crate) seeds: Vec<u64>,
    pub(crate) commit: String,
    pub(crate) areas: Vec<Area>,
}

impl Campaign {
    pub(crate) fn went_wrong(&self) -> usize {
        self.areas.iter().map(|area| area.findings.len()).sum()
    }

    /// For display, and for docs/safety.md.
    pub(crate) fn markdown(&self) -> String {
        let mut rows = vec![["area", "attempts", "went wrong", "skipped", "seconds"].map(str::to_owned)];
        rows.extend(self.areas.iter().map(|area| {
            [
                area.name.clone(),
                thousands(&area.attempts.to_string()),
                area.findings.len().to_string(),
                area.skipped.len().to_string(),
                format!("{:.0}", area.seconds),
            ]
        }));
        let widths: Vec<usize> =
            (0..5).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
        let line = |row: &[String; 5]| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
            });
            format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
        };
        let rule = widths.iter().enumerate().map(|(column, width)| {
            let dashes = "-".repeat(width + 1);
            if column == 0 { format!("-{dashes}") } else { format!("{dashes}:") }
        });
        let mut text = line(&rows[0]);
        text.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
        rows[1..].iter().for_each(|row| text.push_str(&line(row)));
        let seeds: Vec<String> = self.seeds.iter().map(ToString::to_string).collect();
        let plural = if seeds.len() == 1 { "seed" } else { "seeds" };
        text.push_str(&format!("\n{plural} {}, commit {}\n", seeds.join(", "), self.commit));
        // Again, for a log of which only the end is kept.
        for area in &self.areas {
            area.findings
                .iter()
                .for_each(|found| text.push_str(&format!("\n{}\n", found.reported(&area.name))));
        }
        text
    }

    /// Adds this campaign to those with the same seed and commit.
    pub(crate) fn keep(&self, folder: &Path) -> Result<PathBuf, String> {
        let name = format!("{}.json", self.seeds.first().copied().unwrap_or_default());
        let path = folder.join(name);
        let before = read(&path).filter(|before| before.commit == self.commit);
        let all = match before {
            Some(mut before) => {
                before.add(self);
                before
            }
            None => self.clone(),
        };
        let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn add(&mut self, other: &Self) {
        self.seeds.extend(&other.seeds);
        self.seeds.sort_unstable();
        self.seeds.dedup();
        if !self.commit.split(", ").any(|commit| commit == other.commit) {
            self.commit = format!("{}, {}", self.commit, other.commit);
        }
        for area in &other.areas {
            match self.areas.iter_mut().find(|known| known.name == area.name) {
                Some(known) => {
                    known.attempts += area.attempts;
                    known.seconds += area.seconds;
                    known.findings.extend(area.findings.clone());
                    known.skipped.extend(area.skipped.clone());
                    known.skipped.sort();
                    known.skipped.dedup();
                }
                None => self.areas.push(area.clone()),
            }
        }
    }

    /// The sum of all campaigns that are kept.
    pub(crate) fn sum(folder: &Path) -> Option<Self> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut campaigns = paths.iter().filter_map(|path| read(path));
        let mut sum = campaigns.next()?;
        campaigns.for_each(|campaign| sum.add(&campaign));
        Some(sum)
    }
}

fn read(path: &Path) -> Option<Campaign> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn campaigns_add_up() {
        let mut area = Area::new("fuzz");
        area.tried("a", Ok(()), "");
        area.tried("b", Err("bad".into()), "again");
        let campaign = |seed| Campaign { seeds: vec![seed], commit: "c".into(), areas: vec![area.clone()] };
        let folder = tempfile::tempdir().unwrap();
        campaign(1).keep(folder.path()).unwrap();
        campaign(2).keep(folder.path()).unwrap();
        campaign(2).keep(folder.path()).unwrap();
        let sum = Campaign::sum(folder.path()).unwrap();
        assert_eq!((sum.seeds.as_slice(), sum.areas[0].attempts, sum.went_wrong()), (&[1, 2][..], 6, 3));
        assert!(sum.markdown().contains("| fuzz |        6 |          3 |"), "{}", sum.markdown());
        let end = "\n\nWRONG fuzz: b: bad\n      again: again\n";
        assert!(sum.markdown().ends_with(end), "{}", sum.markdown());
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands("12345678"), "12 345 678");
        assert_eq!(thousands("123"), "123");
    }
}
