//! A job file as a workload entry, which settles, saves and repeats without it: a `kind = "program"` whose input is the
//! rewritten job file.

use super::{
    Understanding,
    jobs::{JobResults, Jobs},
};
use crate::{
    unit,
    units::{Bytes, Nanos},
    workload::{
        Better, DURATIONS, Entry, Input, Kind, MetricEntry,
        metric::{MAX_METRICS, OneOrMany, Take},
        program::JOB_FILE,
    },
};
use std::collections::BTreeSet;

/// Allowance for fio in addition to the times of its jobs, and its minimum rate of laying out files, in bytes a second.
const AROUND: Nanos = Nanos::secs(600);
const MIN_LAYOUT_BYTES_PER_SECOND: u64 = 20 << 20;
/// Longest names of workloads, and of phases, groups and metrics, in bytes.
const NAME_BYTES: usize = 60;
const PART_BYTES: usize = 40;

impl Understanding {
    /// The equivalent workload entry. Its only level is that of the job file; `name` becomes its name.
    pub fn entry(&self, name: &str) -> Entry {
        let name = plain(name, NAME_BYTES);
        let name = if name.is_empty() { "fio".to_owned() } else { name };
        Entry { name: Some(name), about: Some(self.explain().trim_end().to_owned()), ..program(&self.jobs) }
    }
}

/// A name without characters forbidden for workloads, phases and groups, cut to this many bytes.
fn plain(name: &str, bytes: usize) -> String {
    let clean = |c: char| if c.is_control() || c == '@' || c == '/' { '-' } else { c };
    let mut out = String::new();
    for c in name.trim().chars().map(clean) {
        if out.len() + c.len_utf8() > bytes {
            break;
        }
        out.push(c);
    }
    out
}

/// Gives out names of which no two are the same.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn own(&mut self, name: &str, bytes: usize) -> String {
        let short = plain(name, bytes);
        if !short.is_empty() && self.0.insert(short.clone()) {
            return short;
        }
        let number = |n: u32| format!("{} {n}", plain(name, bytes.saturating_sub(6)));
        let free = (2..).map(number).find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}

fn program(jobs: &Jobs) -> Entry {
    let input = jobs.input();
    let layout = Nanos::secs(jobs.space.unwrap_or(Bytes(0)).0 / MIN_LAYOUT_BYTES_PER_SECOND);
    // A job that runs far beyond its time has failed: nothing is gained by a tight limit.
    let deadline = jobs.longest.0.saturating_mul(2).saturating_add(AROUND.0).saturating_add(layout.0);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    // The program works in its own directory.
    let mut command = vec!["fio".to_owned()];
    command.extend(Jobs::options("."));
    command.push(format!("{{input:{JOB_FILE}}}"));
    Entry {
        kind: Some(Kind::Program),
        threads: Some(vec![jobs.threads]),
        duration: jobs.time.map(|time| time.clamp(*DURATIONS.start(), *DURATIONS.end())),
        deadline: Some(Nanos(deadline).min(*DURATIONS.end())),
        file_size: jobs.space.filter(|space| space.0 > 0),
        version: Some(words(&["fio", "--version"])),
        command: Some(command),
        inputs: Some([(JOB_FILE.to_owned(), Input::Text(input))].into()),
        metrics: Some(metrics(jobs)),
        ..Entry::default()
    }
}

/// The metrics in fio's answer: those of each job if they are few and each has a separate place in it, otherwise of all
/// together.
fn metrics(jobs: &Jobs) -> Vec<MetricEntry> {
    let mut names = Names::default();
    let (mut syncs, mut all) = (Vec::new(), Vec::new());
    for (place, job) in jobs.reported.iter().enumerate() {
        let base = match jobs.reported.len() {
            1 => String::new(),
            _ => format!("{} ", names.own(&job.name, PART_BYTES - " write bytes".len())),
        };
        if job.syncs {
            syncs.push(MetricEntry {
                name: format!("{base}sync p99"),
                unit: Some("ns".into()),
                pointer: Some(OneOrMany::One(format!("/jobs/{place}/sync/lat_ns/percentile/99.000000"))),
                better: Some(Better::Lower),
                ..MetricEntry::default()
            });
        }
        for direction in directions(job) {
            let metric = |what: &str, unit: &str, key: &str| MetricEntry {
                name: format!("{base}{direction} {what}"),
                unit: Some(unit.into()),
                pointer: Some(OneOrMany::One(format!("/jobs/{place}/{direction}/{key}"))),
                ..MetricEntry::default()
            };
            all.extend(job.counts.then(|| metric("iops", unit::OPERATIONS, "iops")));
            all.extend(job.bytes.then(|| metric("bytes", unit::BYTES_PER_SECOND, "bw_bytes")));
            if direction != "trim" {
                let p99 = metric("p99", "ns", "clat_ns/percentile/99.000000");
                all.push(MetricEntry { better: Some(Better::Lower), ..p99 });
            }
        }
    }
    // The figure of interest of a job that syncs is the time of a sync.
    syncs.extend(all);
    if jobs.has_places && syncs.len() <= MAX_METRICS { syncs } else { together(&jobs.reported) }
}

fn together(jobs: &[JobResults]) -> Vec<MetricEntry> {
    let used: BTreeSet<&str> = jobs.iter().flat_map(directions).collect();
    let metric = |direction: &str, what: &str, unit: &str, key: &str| MetricEntry {
        name: format!("{direction} {what}"),
        unit: Some(unit.into()),
        pointer: Some(OneOrMany::One(format!("/jobs/*/{direction}/{key}"))),
        take: Some(Take::Sum),
        ..MetricEntry::default()
    };
    let both = |direction| {
        [
            metric(direction, "iops", unit::OPERATIONS, "iops"),
            metric(direction, "bytes", unit::BYTES_PER_SECOND, "bw_bytes"),
        ]
    };
    used.into_iter().flat_map(both).collect()
}

fn directions(job: &JobResults) -> impl Iterator<Item = &'static str> {
    let all = [("read", job.reads), ("write", job.writes), ("trim", job.trims)];
    all.into_iter().filter(|(_, does)| *does).map(|(name, _)| name)
}
