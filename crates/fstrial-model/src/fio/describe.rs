//! A job's entry in a line, for people.

use crate::{
    units::{Nanos, Percent},
    workload::{
        Access, Advice, Arrivals, Backend, DataKind, Distribution, Entry, Layout, OpenSync, Sharing, Sizes,
        SyncCall, Until,
    },
};

/// What the threads of a job that runs natively do.
pub(super) fn describe(job: &Entry) -> String {
    let threads = job.workers.unwrap_or(1);
    let mut parts = vec![counted(threads.into(), "thread"), requests(job), places(job)];
    parts.push(if job.direct == Some(true) { "direct" } else { "through the page cache" }.into());
    parts.extend(job.advice.map(|advice| match advice {
        Advice::Random => "advised as random".into(),
        Advice::None | Advice::Sequential => "advised as sequential".into(),
    }));
    parts.extend(job.cold_laps.map(|_| "dropped from it after each lap".into()));
    let polled = [(job.sqpoll, " sqpoll"), (job.iopoll, " iopoll")];
    let polled: String = polled.iter().filter(|(on, _)| on.is_some()).map(|(_, word)| *word).collect();
    parts.push(format!("{} depth {}{polled}", backend(job), job.depth.unwrap_or(1)));
    parts.extend(job.verify.map(|_| match job.reads {
        Some(Percent(100.0)) => "verified".into(),
        _ => "with a checksum in each block".into(),
    }));
    if job.reads.is_some_and(|reads| reads.0 < 100.0) {
        parts.extend(writing(job));
    }
    if let Some(rate) = job.rate {
        let arrivals = if rate.arrivals == Arrivals::Poisson { "Poisson" } else { "constant" };
        parts.push(format!("{}/s for each thread, {arrivals}", rate.per_second / f64::from(threads)));
    }
    parts.push(end(job, threads));
    parts.join(", ")
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn backend(job: &Entry) -> &'static str {
    match job.backend {
        None | Some(Backend::Sync) => "sync",
        Some(Backend::Vsync) => "vsync",
        Some(Backend::Aio) => "aio",
        Some(Backend::IoUring) => "io_uring",
        Some(Backend::Mmap) => "mmap",
    }
}

fn requests(job: &Entry) -> String {
    let access = match job.access {
        Some(Access::Random) => "random",
        Some(Access::Extend) => "extending",
        Some(Access::Strided) => "strided",
        _ => "sequential",
    };
    let reads = job.reads.unwrap_or_default();
    let kind = match reads.0 {
        0.0 => "writes".to_owned(),
        100.0 => "reads".to_owned(),
        _ => format!("requests, {reads} of them reads"),
    };
    let order = match (&job.distribution, &job.write_distribution) {
        _ if job.each_block_once.is_some() => {
            let what = if job.in_a_row.or(job.jumps.map(|_| 2)).is_some() { "place" } else { "block" };
            format!(", each {what} once")
        }
        (reads, Some(writes)) => {
            format!(", {} and {writes}", reads.as_ref().unwrap_or(&Distribution::Uniform))
        }
        (Some(law), None) if !law.is_uniform() => format!(", {law}"),
        _ => String::new(),
    };
    let size = match (&job.read_size, &job.write_size) {
        (None, None) => job.block_size.unwrap_or_default().to_string(),
        (Some(sizes), None) | (None, Some(sizes)) if matches!(reads.0, 0.0 | 100.0) => sizes.to_string(),
        (read, write) => {
            let of = |sizes: &Option<Sizes>| {
                sizes
                    .as_ref()
                    .map_or_else(|| job.block_size.unwrap_or_default().to_string(), Sizes::to_string)
            };
            format!("{} and {}", of(read), of(write))
        }
    };
    format!("{access} {size} {kind}{order}{}", going_on(job))
}

/// Which requests follow others.
fn going_on(job: &Entry) -> String {
    let place = if job.in_place.is_some() { "at each place" } else { "in a row" };
    let row = job.in_a_row.map(|length| format!(", {length} {place}"));
    let jumps = match (job.jumps, job.write_jumps) {
        (Some(reads), Some(writes)) => {
            Some(format!(", {reads} of reads and {writes} of writes to drawn places"))
        }
        (Some(all), None) => Some(format!(", {all} of them to drawn places")),
        (None, _) => None,
    };
    let stride = job.stride.map(|stride| format!(", every {stride}"));
    let apart = job.apart.map(|_| ", reads and writes each at a place of their own".to_owned());
    [row, jumps, stride, apart].into_iter().flatten().collect()
}

fn places(job: &Entry) -> String {
    let whose = match job.sharing {
        Some(Sharing::PerThread) => "for each thread",
        Some(Sharing::Region) => "with a region for each thread",
        _ => "shared",
    };
    let layout = match job.layout {
        Some(Layout::Written) => "written",
        Some(Layout::Fallocated) => "fallocated",
        Some(Layout::Sparse) => "sparse",
        None | Some(Layout::Empty) => "empty",
    };
    let files = counted(job.files.unwrap_or(1).into(), "file");
    let turns = if job.round_robin.is_some() { " by turns" } else { "" };
    format!("{files}{turns} {whose} ({} in all, {layout})", job.file_size.unwrap_or_default())
}

fn writing(job: &Entry) -> Vec<String> {
    let mut parts = Vec::new();
    match job.open_sync {
        None | Some(OpenSync::None) => {}
        Some(OpenSync::Sync) => parts.push("O_SYNC".into()),
        Some(OpenSync::Dsync) => parts.push("O_DSYNC".into()),
    }
    let call = if job.fsync == Some(SyncCall::Fdatasync) { "fdatasync" } else { "fsync" };
    parts.extend(job.fsync_every.map(|every| format!("{call} every {every}")));
    parts.extend(job.fsync_at_end.map(|_| format!("{call} at the end")));
    parts.push(match job.data {
        Some(DataKind::Zero) => "zeros".into(),
        Some(DataKind::Mixed) => format!(
            "data {} compressible and {} duplicates",
            job.compressible.unwrap_or_default(),
            job.duplicates.unwrap_or_default()
        ),
        _ => "random data".into(),
    });
    parts
}

fn end(job: &Entry, threads: u16) -> String {
    let warmup = job.warmup.filter(|warmup| *warmup > Nanos(0));
    let warmup = warmup.map_or_else(String::new, |warmup| format!(" after {warmup}"));
    match job.requests {
        Some(requests) => {
            let bytes = requests / u64::from(threads.max(1)) * job.block_size.unwrap_or_default().0;
            format!("until {} for each thread", crate::units::Bytes(bytes))
        }
        None if job.until == Some(Until::Done) => "once over the files of each thread".into(),
        None => format!("{}{warmup}", job.duration.unwrap_or_default()),
    }
}
