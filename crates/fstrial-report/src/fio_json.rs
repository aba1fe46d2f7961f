//! A run in the form of `fio --output-format=json`, for tools that read that: fio-plot, dashboards, scripts.
//!
//! Key by key the object of fio 3.33, which a test compares with a real one. Numbers are ours: percentiles and tables
//! come from the whole distribution, samples from the series. Unknown values are null, never a made-up zero: context
//! switches, page faults, the queue depth of more than one request, and the bytes of each direction if requests have
//! many sizes. Steps over files other than reads, writes and syncs have no place in fio's form and are left out. A
//! pattern that fio lacks is noted in its `desc`.

use fstrial_model::{
    measurement::{LoadResult, OperationKind},
    units::Nanos,
    workload::{Access, Backend, Io, OpenSync, Pattern, Sharing, SyncCall, Until},
};
use fstrial_run::latencies;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// fio's default list.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Upper bounds of fio's latency tables, in the table's unit; milliseconds have two more.
const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Data of a run in addition to its loads.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMetadata<'a> {
    /// Version of fstrial that made the run.
    pub fstrial: &'a str,
    pub started: jiff::Timestamp,
    pub ended: jiff::Timestamp,
}

/// One load of a run, with its request.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadMetadata<'a> {
    /// Job name for fio.
    pub job: String,
    /// Work of every thread.
    pub pattern: &'a Pattern,
    pub threads: u16,
    pub until: Until,
    /// Time before the clock started.
    pub warmup: Nanos,
    pub load: &'a LoadResult,
}

/// The top of fio's answer.
#[derive(Debug, Serialize)]
pub struct FioDocument {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: i64,
    timestamp_ms: i64,
    time: String,
    jobs: Vec<Job>,
    disk_util: [(); 0],
}

#[derive(Debug, Serialize)]
struct Job {
    jobname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<String>,
    groupid: usize,
    error: u32,
    eta: u32,
    elapsed: u64,
    #[serde(rename = "job options")]
    options: BTreeMap<&'static str, String>,
    read: Direction,
    write: Direction,
    trim: Direction,
    sync: Sync,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: Option<u64>,
    majf: Option<u64>,
    minf: Option<u64>,
    iodepth_level: BTreeMap<&'static str, Option<f64>>,
    iodepth_submit: BTreeMap<&'static str, Option<f64>>,
    iodepth_complete: BTreeMap<&'static str, Option<f64>>,
    latency_ns: BTreeMap<String, f64>,
    latency_us: BTreeMap<String, f64>,
    latency_ms: BTreeMap<String, f64>,
    latency_depth: u16,
    latency_target: u32,
    latency_percentile: f64,
    latency_window: u32,
}

/// Bandwidth in KiB/s where fio has it so.
#[derive(Debug, Serialize)]
struct Direction {
    io_bytes: Option<u64>,
    io_kbytes: Option<u64>,
    bw_bytes: Option<u64>,
    bw: Option<u64>,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: Latency,
    clat_ns: Latency,
    lat_ns: Latency,
    bw_min: Option<u64>,
    bw_max: Option<u64>,
    bw_agg: Option<f64>,
    bw_mean: Option<f64>,
    bw_dev: Option<f64>,
    bw_samples: usize,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: usize,
}

#[derive(Debug, Default, Serialize)]
struct Latency {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    count: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    percentile: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Sync {
    total_ios: u64,
    lat_ns: Latency,
}

/// The run as fio would have reported it: a job for each load.
///
/// # Errors
/// A histogram does not decode: a fault in the store.
pub fn answer(run: &RunMetadata<'_>, loads: &[LoadMetadata<'_>]) -> Result<FioDocument, String> {
    let jobs = loads.iter().enumerate().map(|(group, load)| job(run, load, group));
    Ok(FioDocument {
        version: format!("fstrial-{}", run.fstrial),
        timestamp: run.ended.as_second(),
        timestamp_ms: run.ended.as_millisecond(),
        time: run.ended.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        jobs: jobs.collect::<Result<_, _>>()?,
        disk_util: [],
    })
}

fn job(run: &RunMetadata<'_>, of: &LoadMetadata<'_>, group: usize) -> Result<Job, String> {
    let load = of.load;
    let histogram = |kind| match load.histograms.get(&kind) {
        Some(text) => latencies::histogram(text).map(Some),
        None => Ok(None),
    };
    let reads = histogram(OperationKind::READ)?;
    let writes = both(histogram(OperationKind::WRITE)?, histogram(OperationKind::new("append"))?)?;
    let syncs = histogram(OperationKind::FSYNC)?;
    let bytes = bytes(of, [count(&reads), count(&writes)]);
    let samples = samples(load, of.warmup);
    let threads_time = (load.duration.0 as f64 * f64::from(of.threads)).max(1.0);
    let [latency_ns, latency_us, latency_ms] = tables([&reads, &writes]);
    let depth = match of.pattern {
        Pattern::Io(io) => io.depth,
        _ => 1,
    };
    Ok(Job {
        jobname: of.job.clone(),
        desc: description(of.pattern),
        groupid: group,
        error: 0,
        eta: 0,
        elapsed: u64::try_from(run.ended.duration_since(run.started).as_secs()).unwrap_or(0),
        options: options(of, [count(&reads) > 0, count(&writes) > 0]),
        read: direction(load, reads.as_ref(), bytes[0], &samples),
        write: direction(load, writes.as_ref(), bytes[1], &samples),
        trim: Direction::idle(),
        sync: Sync {
            total_ios: count(&syncs),
            lat_ns: syncs.as_ref().map_or_else(Latency::default, |result| latency(result, true)),
        },
        job_runtime: load.duration.0 / 1_000_000,
        usr_cpu: load.cpu_user.0 as f64 * 100.0 / threads_time,
        sys_cpu: load.cpu_system.0 as f64 * 100.0 / threads_time,
        ctx: None,
        majf: None,
        minf: None,
        iodepth_level: depths(["1", "2", "4", "8", "16", "32", ">=64"], "1", depth),
        iodepth_submit: depths(["0", "4", "8", "16", "32", "64", ">=64"], "4", depth),
        iodepth_complete: depths(["0", "4", "8", "16", "32", "64", ">=64"], "4", depth),
        latency_ns,
        latency_us,
        latency_ms,
        latency_depth: depth,
        latency_target: 0,
        latency_percentile: 100.0,
        latency_window: 0,
    })
}

fn count(histogram: &Option<Histogram<u64>>) -> u64 {
    histogram.as_ref().map_or(0, Histogram::len)
}

/// Two kinds of operation that are one to fio.
fn both(
    one: Option<Histogram<u64>>,
    other: Option<Histogram<u64>>,
) -> Result<Option<Histogram<u64>>, String> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one.add(&other).map_err(|e| format!("{e:?}"))?;
            Ok(Some(one))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Bytes read and written. None if requests have various sizes and both directions.
fn bytes(of: &LoadMetadata<'_>, counts: [u64; 2]) -> [Option<u64>; 2] {
    match (of.pattern.request_size(), counts) {
        (Some(size), _) => counts.map(|count| Some(count.saturating_mul(size.0))),
        (None, [0, _]) => [Some(0), Some(of.load.bytes)],
        (None, [_, 0]) => [Some(of.load.bytes), Some(0)],
        (None, _) => [None, None],
    }
}

/// Note if a job file could not do the same.
fn description(pattern: &Pattern) -> Option<String> {
    let is_foreign = !matches!(pattern, Pattern::Io(_));
    is_foreign.then(|| format!("{}, which is not a pattern of fio's", pattern.words()))
}

/// The keys of a job file that would do the same, or as much of it as fio has keys for.
fn options(of: &LoadMetadata<'_>, [reads, writes]: [bool; 2]) -> BTreeMap<&'static str, String> {
    let mut options = BTreeMap::from([("name", of.job.clone()), ("numjobs", of.threads.to_string())]);
    if of.until == Until::Time {
        options.insert("runtime", seconds(of.load.duration));
        options.insert("ramp_time", seconds(of.warmup));
    }
    if let Pattern::Io(io) = of.pattern {
        io_options(&mut options, io, of.threads);
        return options;
    }
    let rw = match (reads, writes) {
        (true, true) => "rw",
        (true, false) => "read",
        (false, _) => "write",
    };
    options.insert("rw", rw.to_owned());
    if let Pattern::Files(set) = of.pattern {
        options.extend([
            ("bs", set.file_size.0.to_string()),
            ("filesize", set.file_size.0.to_string()),
            ("nrfiles", set.files.to_string()),
            ("iodepth", "1".to_owned()),
            ("ioengine", "psync".to_owned()),
            ("direct", "0".to_owned()),
        ]);
    }
    options
}

fn io_options(options: &mut BTreeMap<&'static str, String>, io: &Io, threads: u16) {
    let rw = match (io.access == Access::Random, io.reads.0) {
        (true, 100.0) => "randread",
        (true, 0.0) => "randwrite",
        (true, _) => "randrw",
        (false, 100.0) => "read",
        (false, 0.0) => "write",
        (false, _) => "rw",
    };
    let each =
        if io.sharing == Sharing::PerThread { io.total_size.0 / u64::from(threads) } else { io.total_size.0 };
    let engine = match io.backend {
        Backend::Sync => "psync",
        Backend::Vsync if io.depth > 1 => "vsync",
        Backend::Vsync => "pvsync",
        Backend::Aio => "libaio",
        Backend::IoUring => "io_uring",
        Backend::Mmap => "mmap",
    };
    options.extend([
        ("rw", rw.to_owned()),
        ("bs", io.block_size.0.to_string()),
        ("size", each.to_string()),
        ("nrfiles", io.files.to_string()),
        ("iodepth", io.depth.to_string()),
        ("ioengine", engine.to_owned()),
        ("direct", u8::from(io.direct).to_string()),
    ]);
    if io.reads.0 > 0.0 && io.reads.0 < 100.0 {
        options.insert("rwmixread", format!("{:.0}", io.reads.0));
    }
    match io.open_sync {
        OpenSync::None => {}
        OpenSync::Sync => drop(options.insert("sync", "sync".into())),
        OpenSync::Dsync => drop(options.insert("sync", "dsync".into())),
    }
    match io.fsync {
        _ if io.fsync_every == 0 => {}
        SyncCall::Fsync => drop(options.insert("fsync", io.fsync_every.to_string())),
        SyncCall::Fdatasync => drop(options.insert("fdatasync", io.fsync_every.to_string())),
        SyncCall::SyncFileRange => {
            let every = format!("wait_before,write,wait_after:{}", io.fsync_every);
            options.insert("sync_file_range", every);
        }
    }
}

/// A time as fio reads it: whole seconds, or milliseconds.
fn seconds(time: Nanos) -> String {
    match time.0 % 1_000_000_000 {
        0 => (time.0 / 1_000_000_000).to_string(),
        _ => format!("{}ms", time.0 / 1_000_000),
    }
}

/// Operations a second in each whole window of the series within the measured time.
fn samples(load: &LoadResult, warmup: Nanos) -> Vec<f64> {
    let step = load.series_step.0.max(1);
    let first = usize::try_from(warmup.0.div_ceil(step)).unwrap_or(usize::MAX);
    let end =
        usize::try_from((warmup.0 + load.duration.0) / step).unwrap_or(usize::MAX).min(load.series.len());
    let windows = load.series.get(first..end).unwrap_or_default();
    windows.iter().map(|operations| *operations as f64 * 1e9 / step as f64).collect()
}

fn direction(
    load: &LoadResult,
    histogram: Option<&Histogram<u64>>,
    bytes: Option<u64>,
    samples: &[f64],
) -> Direction {
    let Some(histogram) = histogram.filter(|result| !result.is_empty()) else { return Direction::idle() };
    let total_ios = histogram.len();
    let duration = load.duration.as_secs_f64().max(1e-9);
    let bandwidth = bytes.map(|bytes| bytes as f64 / duration);
    // The series counts operations of all kinds: each direction has its share of every window.
    let share = total_ios as f64 / load.operations.max(1) as f64;
    let iops_samples: Vec<f64> = samples.iter().map(|sample| sample * share).collect();
    let of_iops = Spread::of(&iops_samples);
    let of_bw = bytes.map(|bytes| {
        let kib = bytes as f64 / total_ios as f64 / 1024.0;
        Spread::of(&iops_samples.iter().map(|iops| iops * kib).collect::<Vec<_>>())
    });
    let of_bw = of_bw.as_ref();
    Direction {
        io_bytes: bytes,
        io_kbytes: bytes.map(|bytes| bytes >> 10),
        bw_bytes: bandwidth.map(|bandwidth| bandwidth as u64),
        bw: bandwidth.map(|bandwidth| (bandwidth / 1024.0) as u64),
        iops: total_ios as f64 / duration,
        runtime: load.duration.0 / 1_000_000,
        total_ios,
        short_ios: 0,
        drop_ios: 0,
        slat_ns: Latency::default(),
        clat_ns: latency(histogram, true),
        lat_ns: latency(histogram, false),
        bw_min: of_bw.map(|bw| bw.min as u64),
        bw_max: of_bw.map(|bw| bw.max as u64),
        bw_agg: of_bw.zip(bandwidth).map(|(bw, all)| (bw.mean * 1024.0 * 100.0 / all.max(1.0)).min(100.0)),
        bw_mean: of_bw.map(|bw| bw.mean),
        bw_dev: of_bw.map(|bw| bw.deviation),
        bw_samples: iops_samples.len(),
        iops_min: of_iops.min as u64,
        iops_max: of_iops.max as u64,
        iops_mean: of_iops.mean,
        iops_stddev: of_iops.deviation,
        iops_samples: iops_samples.len(),
    }
}

impl Direction {
    /// Nothing went this way.
    fn idle() -> Self {
        Self {
            io_bytes: Some(0),
            io_kbytes: Some(0),
            bw_bytes: Some(0),
            bw: Some(0),
            iops: 0.0,
            runtime: 0,
            total_ios: 0,
            short_ios: 0,
            drop_ios: 0,
            slat_ns: Latency::default(),
            clat_ns: Latency::default(),
            lat_ns: Latency::default(),
            bw_min: Some(0),
            bw_max: Some(0),
            bw_agg: Some(0.0),
            bw_mean: Some(0.0),
            bw_dev: Some(0.0),
            bw_samples: 0,
            iops_min: 0,
            iops_max: 0,
            iops_mean: 0.0,
            iops_stddev: 0.0,
            iops_samples: 0,
        }
    }
}

fn latency(histogram: &Histogram<u64>, with_percentiles: bool) -> Latency {
    let count = histogram.len();
    if count == 0 {
        return Latency::default();
    }
    // fio divides by one less than the number of values.
    let correction = if count > 1 { (count as f64 / (count - 1) as f64).sqrt() } else { 1.0 };
    let at = |percentile: f64| (format!("{percentile:.6}"), histogram.value_at_quantile(percentile / 100.0));
    Latency {
        min: histogram.min(),
        max: histogram.max(),
        mean: histogram.mean(),
        stddev: histogram.stdev() * correction,
        count,
        percentile: if with_percentiles { PERCENTILES.map(at).into() } else { BTreeMap::new() },
    }
}

/// Percent of requests whose latency is below each bound and not below the one before: ns, us and ms.
fn tables(histograms: [&Option<Histogram<u64>>; 2]) -> [BTreeMap<String, f64>; 3] {
    const UNITS: [u64; 3] = [1, 1000, 1_000_000];
    let total: u64 = histograms.iter().filter_map(|result| result.as_ref()).map(Histogram::len).sum();
    let bounds = |unit: u64| {
        let more: &[u64] = if unit == 1_000_000 { &[2000] } else { &[] };
        BOUNDS.into_iter().chain(more.iter().copied())
    };
    let mut tables = UNITS.map(|unit| -> BTreeMap<String, f64> {
        bounds(unit).map(|bound| (bound.to_string(), 0.0)).collect()
    });
    tables[2].insert(">=2000".into(), 0.0);
    let values = histograms.into_iter().flatten().flat_map(Histogram::iter_recorded);
    for value in values {
        let latency = value.value_iterated_to();
        let table = UNITS.iter().position(|unit| latency < unit * 1000).unwrap_or(2);
        let place = bounds(UNITS[table]).find(|bound| latency < bound * UNITS[table]);
        let key = place.map_or_else(|| ">=2000".to_owned(), |bound| bound.to_string());
        *tables[table].entry(key).or_default() += value.count_at_value() as f64 * 100.0 / total as f64;
    }
    tables
}

/// With one request in flight all of them were alone; with more, how many there were is not recorded.
fn depths(keys: [&'static str; 7], alone: &str, depth: u16) -> BTreeMap<&'static str, Option<f64>> {
    let share = |key: &str| (depth == 1).then_some(if key == alone { 100.0 } else { 0.0 });
    keys.into_iter().map(|key| (key, share(key))).collect()
}

/// Mean and spread of samples; all zero without any, as with fio.
#[derive(Debug, Default, PartialEq)]
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(samples: &[f64]) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        Self {
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            max: samples.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: if samples.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{measurement::ClockSource, units::Bytes, workload::Flow};
    use serde_json::Value;

    fn histogram(values: &[(u64, u64)]) -> String {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        values.iter().for_each(|(value, count)| histogram.record_n(*value, *count).unwrap());
        fstrial_engine::encode(&histogram)
    }

    fn run() -> RunMetadata<'static> {
        RunMetadata {
            fstrial: "0.1.0",
            started: "2026-01-02T03:04:05Z".parse().unwrap(),
            ended: "2026-01-02T03:04:07.5Z".parse().unwrap(),
        }
    }

    fn of<'a>(pattern: &'a Pattern, load: &'a LoadResult) -> LoadMetadata<'a> {
        let (job, until) = ("random-mixed".into(), Until::Time);
        LoadMetadata { job, pattern, threads: 2, until, warmup: Nanos::millis(250), load }
    }

    fn exported(io: Io, load: &LoadResult) -> Value {
        let pattern = Pattern::Io(io);
        serde_json::to_value(answer(&run(), &[of(&pattern, load)]).unwrap()).unwrap()
    }

    /// 300 reads and 100 writes of 4 KiB in a second, after a quarter of one, with a sync after each tenth write.
    fn load() -> LoadResult {
        let reads = histogram(&[(500, 1), (1500, 99), (90_000, 200)]);
        let writes = histogram(&[(3_000_000, 99), (5_000_000_000, 1)]);
        LoadResult {
            threads: 2,
            tails: Vec::new(),
            tails_step: Nanos(0),
            duration: Nanos::secs(1),
            operations: 400,
            bytes: 400 * 4096,
            errors: 0,
            first_error: None,
            histograms: [
                (OperationKind::READ, reads),
                (OperationKind::WRITE, writes),
                (OperationKind::FSYNC, histogram(&[(1_000_000, 10)])),
            ]
            .into(),
            windows: vec![20; 20],
            steady_windows: vec![10; 40],
            // The first two windows and half of the third are warm-up; the last one is half a window.
            series: vec![7, 7, 30, 40, 40, 40, 40, 20, 60, 40, 40, 40, 20],
            series_step: Nanos::millis(100),
            cpu_user: Nanos::millis(500),
            cpu_system: Nanos::millis(250),
            clock: ClockSource::Monotonic,
        }
    }

    fn mixed() -> Io {
        Io {
            reads: fstrial_model::units::Percent(75.0),
            block_size: Bytes::kib(4),
            fsync_every: 10,
            ..Io::default()
        }
    }

    #[test]
    fn numbers_are_those_of_the_run() {
        let answer = exported(mixed(), &load());
        let job = &answer["jobs"][0];
        let (read, write) = (&job["read"], &job["write"]);
        assert_eq!((read["total_ios"].as_u64(), read["io_bytes"].as_u64()), (Some(300), Some(300 * 4096)));
        assert_eq!(
            (read["iops"].as_f64(), read["bw"].as_u64(), write["bw_bytes"].as_u64()),
            (Some(300.0), Some(1200), Some(409_600))
        );
        // Nine whole windows from the third on: 40 seven times, 20 and 60, in requests a second of reads (3 of 4).
        assert_eq!(read["iops_samples"], 9);
        assert_eq!(
            (read["iops_min"].as_u64(), read["iops_max"].as_u64(), read["iops_mean"].as_f64()),
            (Some(150), Some(450), Some(300.0))
        );
        assert!((read["iops_stddev"].as_f64().unwrap() - 75.0).abs() < 1e-9);
        assert_eq!(read["bw_mean"].as_f64(), Some(1200.0));
        assert_eq!((job["usr_cpu"].as_f64(), job["sys_cpu"].as_f64()), (Some(25.0), Some(12.5)));
        assert_eq!((job["sync"]["total_ios"].as_u64(), job["elapsed"].as_u64()), (Some(10), Some(2)));
        assert_eq!(job["ctx"], Value::Null);
        assert_eq!(job["iodepth_level"]["1"].as_f64(), Some(100.0));
        let options = &job["job options"];
        assert_eq!(
            [&options["rw"], &options["bs"], &options["rwmixread"], &options["fdatasync"]],
            ["randrw", "4096", "75", "10"]
        );
    }

    #[test]
    fn latencies_fall_into_fios_bins() {
        let answer = exported(mixed(), &load());
        let job = &answer["jobs"][0];
        assert_eq!(job["latency_ns"]["750"].as_f64(), Some(0.25));
        assert_eq!(job["latency_us"]["2"].as_f64(), Some(24.75));
        assert_eq!(job["latency_us"]["100"].as_f64(), Some(50.0));
        assert_eq!(job["latency_ms"]["4"].as_f64(), Some(24.75));
        assert_eq!(job["latency_ms"][">=2000"].as_f64(), Some(0.25));
        let all: f64 = ["latency_ns", "latency_us", "latency_ms"]
            .iter()
            .flat_map(|table| job[*table].as_object().unwrap().values())
            .map(|share| share.as_f64().unwrap())
            .sum();
        assert!((all - 100.0).abs() < 1e-9, "{all}");
        let percentile = job["read"]["clat_ns"]["percentile"]["99.000000"].as_u64().unwrap();
        assert!(percentile.abs_diff(90_000) <= 90, "{percentile}");
    }

    #[test]
    fn a_deep_queue_is_not_made_up() {
        let io = Io { depth: 8, backend: Backend::IoUring, ..mixed() };
        assert_eq!(exported(io, &load())["jobs"][0]["iodepth_level"]["8"], Value::Null);
    }

    #[test]
    fn a_damaged_histogram_is_an_error() {
        let mut load = load();
        load.histograms.insert(OperationKind::READ, "AAAA".into());
        assert!(answer(&run(), &[of(&Pattern::Io(mixed()), &load)]).is_err());
    }

    #[test]
    fn non_fio_pattern_is_noted_in_job_description() {
        let flow =
            Pattern::Flow(Flow { sets: Vec::new(), steps: Vec::new(), turns: None, fsync_at_end: false });
        let (mixed, mut appends) = (load(), load());
        let both = [OperationKind::WRITE, OperationKind::new("append")];
        appends.histograms = both.map(|kind| (kind, histogram(&[(1000, 50)]))).into();
        let answer = answer(&run(), &[of(&flow, &mixed), of(&flow, &appends)]).unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        let (mixed, appends) = (&answer["jobs"][0], &answer["jobs"][1]);
        assert!(mixed["desc"].as_str().unwrap().contains("not a pattern of fio's"));
        assert_eq!(
            (&mixed["job options"]["rw"], &appends["job options"]["rw"]),
            (&"rw".into(), &"write".into())
        );
        // How many bytes went each way is not recorded, how many requests is.
        assert_eq!(
            (&mixed["read"]["io_bytes"], mixed["read"]["total_ios"].as_u64()),
            (&Value::Null, Some(300))
        );
        // Appends are writes, and then all bytes are written.
        assert_eq!(appends["write"]["total_ios"].as_u64(), Some(100));
        assert_eq!((&appends["read"]["bw"], &appends["write"]["bw"]), (&0.into(), &1600.into()));
        assert_eq!(appends["groupid"], 1);
    }

    /// Every path of keys in a value; keys of an object that depend on values are included.
    fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, inner)| paths(inner, &format!("{at}/{key}"), out))
            }
            Value::Array(items) => items.iter().for_each(|inner| paths(inner, &format!("{at}[]"), out)),
            _ => out.push(at.to_owned()),
        }
    }

    /// `fixtures/fio/output-randrw.txt` was written by fio 3.33; `tests/it/fio.rs` compares with the installed fio.
    #[test]
    fn the_structure_is_fios_key_by_key() {
        let real = include_str!("../../../fixtures/fio/output-randrw.txt");
        let real: Value = serde_json::from_str(&real[real.find("\n{").unwrap()..]).unwrap();
        let of = |value: &Value| {
            let mut out = Vec::new();
            paths(value, "", &mut out);
            out.retain(|path| !path.contains("/job options/") && !path.contains("/disk_util"));
            out.sort();
            out
        };
        assert_eq!(of(&exported(mixed(), &load())), of(&real));
    }
}
