//! What is made of a job file, as a workload entry: it settles, saves and repeats without the job file.
//!
//! A native job becomes the keys of `kind = "io"`, jobs that run at once groups, phases phases. A job file that runs
//! through fio becomes a `kind = "program"` whose input is the job file that was written anew.

use super::{
    How, Understanding,
    foreign::{ForeignJobs, Reported},
    native::{Access, Arrivals, Data, Distribution, NativeJob, NativePhase, OpenSync, Sharing, SyncCall},
};
use crate::{
    unit,
    units::{Bytes, Nanos, Percent},
    workload::{
        self, Better, DataKind, Entry, Kind, MetricEntry, Rate, Until,
        metric::{MAX_METRICS, OneOrMany, Take},
    },
};
use std::collections::BTreeSet;

/// The longest that anything may take: a phase that runs until it is done, or fio.
const LONGEST: Nanos = Nanos::secs(86_400);
/// What fio may take besides the times of its jobs, and how fast it lays out files at least, in bytes a second.
const AROUND: Nanos = Nanos::secs(600);
const SLOWEST_LAYOUT: u64 = 20 << 20;
/// The time that fio may take if its job file says none.
const UNKNOWN_TIME: Nanos = Nanos::secs(3600);
/// Longest names of workloads, and of phases, groups and metrics, in bytes.
const NAME_BYTES: usize = 60;
const PART_BYTES: usize = 40;

impl Understanding {
    /// The workload entry that does it. Its only level is what the job file says; `name` is what it is called.
    pub fn entry(&self, name: &str) -> Entry {
        let name = plain(name, NAME_BYTES);
        let name = if name.is_empty() { "fio".to_owned() } else { name };
        let entry = match &self.how {
            How::Native(workload) => native(&workload.phases),
            How::Foreign { jobs, .. } => foreign(jobs),
        };
        Entry { name: Some(name), about: Some(self.explain().trim_end().to_owned()), ..entry }
    }
}

/// A name without what names of workloads, phases and groups must not have, cut to so many bytes.
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

fn native(phases: &[NativePhase]) -> Entry {
    let at_once = |phase: &NativePhase| phase.groups.iter().map(|job| u32::from(job.threads)).sum::<u32>();
    let most = phases.iter().map(at_once).max().unwrap_or(1).clamp(1, 1024);
    let top = Entry {
        kind: Some(Kind::Io),
        threads: Some(vec![u16::try_from(most).unwrap_or(1024)]),
        ..Entry::default()
    };
    let mut names = Names::default();
    let mut sets = 0;
    let mut part = |job: &NativeJob| {
        sets += 1;
        let set = Some(format!("job-{sets}"));
        let name = Some(names.own(&job.name, PART_BYTES));
        Entry { name, set, workers: Some(job.threads), ..of_job(job) }
    };
    match phases {
        [NativePhase { groups }] if groups.len() == 1 => over(of_job(&groups[0]), times(&groups[0]), top),
        [NativePhase { groups }] => {
            let times = times(&groups[0]);
            over(Entry { groups: Some(groups.iter().map(part).collect()), ..Entry::default() }, times, top)
        }
        _ => {
            let phase = |(number, phase): (usize, &NativePhase)| {
                let times = times(&phase.groups[0]);
                let place = Entry { settle: (number > 0).then_some(true), ..Entry::default() };
                match &phase.groups[..] {
                    [job] => over(part(job), times, place),
                    groups => {
                        let groups = Some(groups.iter().map(&mut part).collect());
                        let name = Some(format!("phase-{}", number + 1));
                        over(Entry { name, groups, ..Entry::default() }, times, place)
                    }
                }
            };
            Entry { phases: Some(phases.iter().enumerate().map(phase).collect()), ..top }
        }
    }
}

/// The times of a phase and its place, beside what its threads do. No key is in more than one of them.
fn over(what: Entry, times: Entry, place: Entry) -> Entry {
    Entry {
        until: times.until,
        warmup: times.warmup,
        duration: times.duration,
        settle: place.settle,
        kind: place.kind,
        threads: place.threads,
        ..what
    }
}

/// When it ends. The groups of a phase have the same times.
fn times(job: &NativeJob) -> Entry {
    match (job.amount, job.duration) {
        (None, Some(duration)) => Entry {
            until: Some(Until::Time),
            warmup: Some(job.warmup),
            duration: Some(duration),
            ..Entry::default()
        },
        // The longest it may take.
        _ => Entry { until: Some(Until::Done), duration: Some(LONGEST), ..Entry::default() },
    }
}

/// What the threads of a job do.
fn of_job(job: &NativeJob) -> Entry {
    let threads = u64::from(job.threads);
    let syncs = job.fsync_every > 0 || job.fsync_at_end;
    let (data, compressible, duplicates) = data(job.data);
    // fio's rate is each clone's, an entry's that of all its threads.
    let rate = job.rate.map(|rate| Rate {
        per_second: rate.per_second as f64 * f64::from(job.threads),
        arrivals: match rate.arrivals {
            Arrivals::Constant => workload::Arrivals::Constant,
            Arrivals::Poisson => workload::Arrivals::Poisson,
        },
    });
    let is = |on: bool| on.then_some(true);
    Entry {
        access: Some(access(job.access)),
        distribution: match job.distribution {
            Distribution::Uniform => None,
            Distribution::Zipf(theta) => Some(workload::Distribution::Zipf { theta }),
        },
        each_block_once: is(job.each_block_once),
        reads: Some(job.reads),
        block_size: Some(job.block_size),
        file_size: Some(job.file_size),
        files: Some(job.files),
        sharing: Some(match job.sharing {
            Sharing::Shared => workload::Sharing::Shared,
            Sharing::PerThread => workload::Sharing::PerThread,
            Sharing::Region => workload::Sharing::Region,
        }),
        direct: Some(job.direct),
        backend: Some(job.backend),
        depth: Some(job.depth),
        sqpoll: is(job.sqpoll),
        iopoll: is(job.iopoll),
        open_sync: (job.open_sync != OpenSync::None).then_some(job.open_sync),
        layout: (!access(job.access).starts_empty()).then_some(job.layout),
        fsync_every: (job.fsync_every > 0).then_some(job.fsync_every),
        fsync: syncs.then_some(match job.fsync {
            SyncCall::Fsync => workload::SyncCall::Fsync,
            SyncCall::Fdatasync => workload::SyncCall::Fdatasync,
        }),
        fsync_at_end: is(job.fsync_at_end),
        // fio's amount is each clone's, too.
        requests: job.amount.map(|amount| (amount.0 / job.block_size.0.max(1)).saturating_mul(threads)),
        rate,
        data: Some(data),
        compressible,
        duplicates,
        ..Entry::default()
    }
}

fn access(access: Access) -> workload::Access {
    match access {
        Access::Random => workload::Access::Random,
        Access::Sequential => workload::Access::Sequential,
        Access::Extend => workload::Access::Extend,
    }
}

fn data(data: Data) -> (DataKind, Option<Percent>, Option<Percent>) {
    match data {
        Data::Zero => (DataKind::Zero, None, None),
        Data::Random => (DataKind::Random, None, None),
        Data::Mixed { compressible, duplicates } => {
            let share = |percent: u8| Some(Percent(f64::from(percent)));
            (DataKind::Mixed, share(compressible), share(duplicates))
        }
    }
}

fn foreign(jobs: &ForeignJobs) -> Entry {
    let input = jobs.input();
    let layout = Nanos::secs(jobs.space.unwrap_or(Bytes(0)).0 / SLOWEST_LAYOUT);
    let time = jobs.time.unwrap_or(UNKNOWN_TIME);
    // A job that runs far beyond its time has failed: nothing is gained by a tight limit.
    let deadline = time.0.saturating_mul(2).saturating_add(AROUND.0).saturating_add(layout.0);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    // The program works in its own directory.
    let mut command = vec!["fio".to_owned()];
    command.extend(ForeignJobs::options("."));
    command.push("{input:job.fio}".into());
    Entry {
        kind: Some(Kind::Program),
        threads: Some(vec![jobs.threads]),
        duration: jobs.time.map(|time| time.clamp(Nanos::millis(50), LONGEST)),
        deadline: Some(Nanos(deadline).min(LONGEST)),
        file_size: jobs.space.filter(|space| space.0 > 0),
        version: Some(words(&["fio", "--version"])),
        command: Some(command),
        inputs: Some([("job.fio".to_owned(), input)].into()),
        metrics: Some(metrics(jobs)),
        ..Entry::default()
    }
}

/// What is read from fio's answer: of each job if they are not too many and each has a place of its own in it, else of
/// all together.
fn metrics(jobs: &ForeignJobs) -> Vec<MetricEntry> {
    let mut names = Names::default();
    let mut all = Vec::new();
    for (place, job) in jobs.reported.iter().enumerate() {
        let base = match jobs.reported.len() {
            1 => String::new(),
            _ => format!("{} ", names.own(&job.name, PART_BYTES - " write bytes".len())),
        };
        for direction in directions(job) {
            let metric = |what: &str, unit: &str, key: &str| MetricEntry {
                name: format!("{base}{direction} {what}"),
                unit: Some(unit.into()),
                pointer: Some(OneOrMany::One(format!("/jobs/{place}/{direction}/{key}"))),
                ..MetricEntry::default()
            };
            all.push(metric("iops", unit::OPERATIONS, "iops"));
            all.push(metric("bytes", unit::BYTES_PER_SECOND, "bw_bytes"));
            if direction != "trim" {
                let p99 = metric("p99", "ns", "clat_ns/percentile/99.000000");
                all.push(MetricEntry { better: Some(Better::Lower), ..p99 });
            }
        }
    }
    if jobs.has_places && all.len() <= MAX_METRICS { all } else { together(&jobs.reported) }
}

fn together(jobs: &[Reported]) -> Vec<MetricEntry> {
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

fn directions(job: &Reported) -> impl Iterator<Item = &'static str> {
    let all = [("read", job.reads), ("write", job.writes), ("trim", job.trims)];
    all.into_iter().filter(|(_, does)| *does).map(|(name, _)| name)
}
