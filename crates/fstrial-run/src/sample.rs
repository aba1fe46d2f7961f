//! One result of a run in numbers, read from its measurement.

use super::{latencies::Latencies, plan::Plan};
use fstrial_model::{
    counter::{Counter, Counters},
    measurement::{LoadResult, Measurement, OperationKind, PhaseResult, Reading},
    metric::{Metric, MetricSource},
    units::Nanos,
    workload::Figure,
};
use fstrial_stats::{Done, quantile::suffices};
use std::collections::BTreeMap;

/// Operations beyond a quantile, below which a run does not know it.
const BEYOND_QUANTILE: f64 = 10.0;

/// One result of a run, in numbers.
#[derive(Debug, Clone)]
pub struct Sample {
    pub round: u32,
    /// Its position in the round; the same for all if unknown.
    pub slot: usize,
    /// Its throughput (operations or bytes per second), or the one number it is.
    pub rate: f64,
    /// Seconds that it took, of a throughput; 1 of a number that is not a throughput.
    pub seconds: f64,
    /// Results that only a built-in load has.
    pub load: Option<LoadSample>,
    /// Progress of the filesystem's log.
    pub counters: Counters,
    /// The tool that did it with its version, if it was an operation; the engine of records.
    pub tool: Option<String>,
}

/// Results of a load in addition to its throughput.
#[derive(Debug, Clone)]
pub struct LoadSample {
    /// Operations in the measured time.
    pub operations: f64,
    /// Bytes per second.
    pub bytes_rate: f64,
    /// Latency of an operation at p50, p99 and p99.9, in ns.
    pub latency_ns: [Option<f64>; 3],
    /// Bytes of one operation.
    pub operation_bytes: f64,
    /// CPU time of the load's own threads for one operation, in ns.
    pub cpu_load_ns: f64,
    /// Bytes between the device and the kernel for each byte that the load read or wrote. None if unknown, and if the
    /// load moves no bytes.
    pub device_share: Option<f64>,
    /// Share of a core that each thread of the generator used outside the kernel.
    pub generator_share: f64,
    /// Operations in 40 windows of warm-up and measured time.
    pub steady_windows: Vec<f64>,
    pub latencies: Latencies,
    /// Latencies of each kind of operation on the records of an engine, as `latency_ns`; of other loads none.
    pub latency_of_kinds_ns: BTreeMap<OperationKind, [Option<f64>; 3]>,
    /// Its time series.
    pub series: Series,
}

/// The time series of a load, from the start of the warm-up on, in few points.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Width of a window of `operations`, in seconds.
    pub step_seconds: f64,
    /// Operations in each window.
    pub operations: Vec<u64>,
    /// Width of a window of `tails`, in seconds.
    pub tails_step_seconds: f64,
    /// Median and 99th percentile of the latencies in each window, in ns; 0 for a window without completions.
    pub tails: Vec<(u64, u64)>,
}

impl Series {
    /// Maximum number of points: more cannot be told apart in a chart.
    const MAX_POINTS: usize = 120;

    fn of(load: &LoadResult) -> Self {
        let together = |points: usize| points.div_ceil(Self::MAX_POINTS).max(1);
        let (joined, tails_joined) = (together(load.series.len()), together(load.tails.len()));
        // Quantiles cannot be joined: of several windows the one with the greatest tail is the one to see.
        let worst = |windows: &[(u64, u64)]| windows.iter().copied().max_by_key(|(_, p99)| *p99);
        #[expect(clippy::cast_precision_loss, reason = "a handful of windows")]
        let seconds = |step: Nanos, joined: usize| step.as_secs_f64() * joined as f64;
        Self {
            step_seconds: seconds(load.series_step, joined),
            // A rest of fewer windows would look like a collapse.
            operations: load.series.chunks_exact(joined).map(|windows| windows.iter().sum()).collect(),
            tails_step_seconds: seconds(load.tails_step, tails_joined),
            tails: load.tails.chunks(tails_joined).filter_map(worst).collect(),
        }
    }
}

impl Sample {
    /// A quantile of the latencies of its operations, in ns; none without latencies, or with too few operations.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let latencies = &self.load.as_ref()?.latencies;
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
        let value = latencies.quantile(quantile).max(1) as f64;
        suffices(1.0 - quantile, latencies.len()).then_some(value)
    }

    /// Reads the results of a measurement, in their order.
    ///
    /// # Errors
    /// Nothing was completed, which has no rate (a worker reports a failure), an invalid number, or a damaged
    /// histogram; with the reason.
    pub fn all(round: u32, slot: usize, measurement: &Measurement) -> Result<Vec<Self>, String> {
        let sample = |result| Self::of(round, slot, result);
        measurement.results.iter().map(sample).collect()
    }

    /// A single number.
    pub fn of_value(round: u32, slot: usize, value: f64) -> Self {
        Self { round, slot, rate: value, seconds: 1.0, load: None, counters: Counters::default(), tool: None }
    }

    fn of(round: u32, slot: usize, result: &PhaseResult) -> Result<Self, String> {
        match &result.reading {
            Reading::Load(figure, load) => Self::of_load(round, slot, *figure, load, result),
            Reading::Value(value) if value.value.is_finite() && value.value > 0.0 => {
                Ok(Self { counters: result.counters.clone(), ..Self::of_value(round, slot, value.value) })
            }
            Reading::Value(value) => Err(format!("{} {} cannot be compared", value.value, value.unit)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and times are far below 2^53")]
    fn of_load(
        round: u32,
        slot: usize,
        figure: Figure,
        load: &LoadResult,
        result: &PhaseResult,
    ) -> Result<Self, String> {
        if load.operations == 0 || load.duration == Nanos(0) {
            return Err("no operation was completed in the measured time".into());
        }
        let latencies =
            latencies_of(load, OperationKind::OPERATION)?.ok_or("there is no histogram of operations")?;
        let seconds = load.duration.as_secs_f64();
        let bytes_rate = load.bytes as f64 / seconds;
        let rate = match figure {
            Figure::Operations => load.operations as f64 / seconds,
            Figure::Bytes if load.bytes == 0 => return Err("no byte was moved in the measured time".into()),
            Figure::Bytes => bytes_rate,
            Figure::BytesWritten => bytes_rate * share_written(load)?,
            Figure::Time => load.duration.0 as f64,
        };
        Ok(Self {
            round,
            slot,
            rate,
            seconds: if figure == Figure::Time { 1.0 } else { seconds },
            load: Some(LoadSample {
                operations: load.operations as f64,
                bytes_rate,
                operation_bytes: load.bytes as f64 / load.operations as f64,
                latency_ns: quantiles(&latencies),
                latency_of_kinds_ns: BTreeMap::new(),
                cpu_load_ns: (load.cpu_user.0 + load.cpu_system.0) as f64 / load.operations as f64,
                device_share: device_share(result, load),
                generator_share: load.cpu_user.as_secs_f64() / seconds / f64::from(load.threads.max(1)),
                steady_windows: load.steady_windows.iter().map(|count| *count as f64).collect(),
                latencies,
                series: Series::of(load),
            }),
            counters: result.counters.clone(),
            tool: None,
        })
    }

    /// The share of the processors that processes of others took while it ran, if it is known.
    pub fn taken_by_others(&self) -> Option<f64> {
        self.counters.taken_by_others()
    }

    /// All that it did, in the time that it took.
    pub(super) fn done(&self) -> Done {
        Done { amount: self.rate * self.seconds, time: self.seconds }
    }

    /// Its figure for a metric; none if it lacks the metric, or has too few operations for a quantile.
    pub(super) fn figure(&self, metric: Metric) -> Option<f64> {
        match metric.quantile() {
            None => self.on(metric),
            Some(quantile) => self.quantile(quantile),
        }
    }

    /// Its figure for a metric that is a single number; none for a quantile, and if it lacks the metric.
    pub(super) fn on(&self, metric: Metric) -> Option<f64> {
        let load = || self.load.as_ref();
        match metric.row().taken {
            MetricSource::Figure => Some(self.rate),
            MetricSource::Quantile(_) => None,
            MetricSource::MeanLatency => load()?.latencies.mean().filter(|mean| *mean > 0.0),
            MetricSource::PerOperation(counter) => self.per_operation(counter).filter(|amount| *amount > 0.0),
        }
    }

    /// A counter for each operation of a load; none if unknown.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn per_operation(&self, counter: Counter) -> Option<f64> {
        Some(self.counters.get(counter)? as f64 / self.load.as_ref()?.operations)
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn device_share(result: &PhaseResult, load: &LoadResult) -> Option<f64> {
    let passed = result.counters.get(Counter::DeviceRead)? + result.counters.get(Counter::DeviceWritten)?;
    (load.bytes > 0).then(|| passed as f64 / load.bytes as f64)
}

/// At p50, p99 and p99.9, in ns; none where too few operations are beyond.
#[expect(clippy::cast_precision_loss, reason = "counts and latencies are far below 2^53")]
fn quantiles(latencies: &Latencies) -> [Option<f64>; 3] {
    [0.5, 0.99, 0.999].map(|q| {
        let beyond = latencies.len() as f64 * (1.0 - q);
        (q == 0.5 || beyond >= BEYOND_QUANTILE).then(|| latencies.quantile(q) as f64)
    })
}

/// By kind of operation, except [`OperationKind::OPERATION`], which has all operations together.
fn of_kinds(load: &LoadResult) -> Result<BTreeMap<OperationKind, [Option<f64>; 3]>, String> {
    let kinds = load.histograms.keys().filter(|kind| **kind != OperationKind::OPERATION);
    let of = |kind: &OperationKind| {
        let latencies = latencies_of(load, kind.clone())?.filter(|latencies| !latencies.is_empty());
        Ok(latencies.map(|latencies| (kind.clone(), quantiles(&latencies))))
    };
    kinds.filter_map(|kind| of(kind).transpose()).collect()
}

/// The latencies of a kind of operation, if it was recorded.
fn latencies_of(load: &LoadResult, kind: OperationKind) -> Result<Option<Latencies>, String> {
    load.histograms.get(&kind).map(|text| Latencies::decode(text)).transpose()
}

/// The share of a load's bytes that were written. All its requests have one size, so it is that of its requests.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn share_written(load: &LoadResult) -> Result<f64, String> {
    let count = |kind| Ok::<_, String>(latencies_of(load, kind)?.map_or(0, |matched| matched.len()));
    let (read, written) = (count(OperationKind::READ)?, count(OperationKind::WRITE)?);
    if written == 0 {
        return Err("no byte was written in the measured time".into());
    }
    Ok(written as f64 / (read + written) as f64)
}

impl Plan {
    /// The samples of a run of a cell.
    ///
    /// # Errors
    /// See [`Sample::all`]; or the results are not those that the workload yields.
    pub fn samples(
        &self,
        cell: usize,
        round: u32,
        slot: usize,
        measurement: &Measurement,
    ) -> Result<Vec<Sample>, String> {
        let wanted = self.results[self.cells[cell].workload].iter().map(|kind| kind.name.as_str());
        let matched = measurement.results.iter().map(|result| result.name.as_str());
        if !wanted.clone().eq(matched.clone()) {
            let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "it has the results {} instead of {}",
                list(&mut { matched }),
                list(&mut { wanted })
            ));
        }
        let mut samples = Sample::all(round, slot, measurement)?;
        if self.workloads[self.cells[cell].workload].ycsb().is_some() {
            for (sample, result) in samples.iter_mut().zip(&measurement.results) {
                if let (Some(sample), Reading::Load(_, load)) = (&mut sample.load, &result.reading) {
                    sample.latency_of_kinds_ns = of_kinds(load)?;
                }
            }
        }
        if let Some(name) = self.tool(cell) {
            let version = measurement.facts.tools.get(name).filter(|version| !version.is_empty());
            let tool = version.map_or_else(|| name.to_owned(), |version| named(name, version));
            samples.iter_mut().for_each(|sample| sample.tool = Some(tool.clone()));
        }
        Ok(samples)
    }
}

/// A tool with its version line, which may or may not begin with its name.
fn named(name: &str, version: &str) -> String {
    if version.contains(name) { version.to_owned() } else { format!("{name}: {version}") }
}

/// A quantile of the latencies of a load's operations, in nanoseconds.
///
/// # Errors
/// The histogram is missing or damaged; with the reason.
pub(crate) fn latency(load: &LoadResult, quantile: f64) -> Result<u64, String> {
    let latencies = latencies_of(load, OperationKind::OPERATION)?;
    Ok(latencies.ok_or("there is no histogram of operations")?.quantile(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::measurement::{ClockSource, Value};
    use hdrhistogram::Histogram;

    fn histogram(count: u64) -> String {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        histogram.record_n(1000, count).unwrap();
        fstrial_engine::encode(&histogram)
    }

    fn load(counts: &[(OperationKind, u64)], bytes: u64) -> LoadResult {
        LoadResult {
            threads: 1,
            duration: Nanos::secs(2),
            operations: 100,
            bytes,
            errors: 0,
            first_error: None,
            histograms: counts
                .iter()
                .map(|(kind, count)| (kind.clone(), histogram(*count)))
                .collect::<BTreeMap<_, _>>(),
            windows: vec![5; 20],
            steady_windows: vec![5; 40],
            series: vec![100],
            series_step: Nanos::secs(2),
            tails: Vec::new(),
            tails_step: Nanos(0),
            cpu_user: Nanos(0),
            cpu_system: Nanos(0),
            clock: ClockSource::Monotonic,
        }
    }

    fn result(figure: Figure, load: LoadResult) -> PhaseResult {
        let reading = Reading::Load(figure, Box::new(load));
        PhaseResult { name: String::new(), reading, counters: Counters::default() }
    }

    #[test]
    fn bytes_written_to_the_device_are_for_each_operation_and_none_is_no_number() {
        let one = || load(&[(OperationKind::OPERATION, 100)], 4096);
        let on = |written: Option<u64>| {
            let counters = Counters::from_iter([(Counter::DeviceWritten, written)]);
            let result = PhaseResult { counters, ..result(Figure::Bytes, one()) };
            Sample::of(1, 0, &result).unwrap().on(Metric::DeviceBytes)
        };
        assert_eq!(on(Some(819_200)), Some(8192.0));
        // It has no logarithm.
        assert_eq!(on(Some(0)), None);
        assert_eq!(on(None), None);
        let value = Value { value: 3.0, unit: "op/s".into(), less_is_better: false };
        let of_value = PhaseResult {
            reading: Reading::Value(value),
            counters: Counters::of(Counter::DeviceWritten, 9),
            ..result(Figure::Bytes, one())
        };
        assert_eq!(Sample::of(1, 0, &of_value).unwrap().on(Metric::DeviceBytes), None, "without operations");
    }

    #[test]
    fn reports_mean_latency_and_cpu_time_per_operation() {
        let load = load(&[(OperationKind::OPERATION, 100)], 4096);
        let counters = Counters::of(Counter::CpuMachine, 250_000);
        let with_cpu = PhaseResult { counters, ..result(Figure::Operations, load.clone()) };
        let sample = Sample::of(1, 0, &with_cpu).unwrap();
        assert_eq!(sample.on(Metric::CpuTime), Some(2500.0));
        // Every operation took a microsecond.
        assert_eq!(sample.on(Metric::MeanLatency), Some(1000.0));
        assert_eq!(Sample::of(1, 0, &result(Figure::Operations, load)).unwrap().on(Metric::CpuTime), None);
    }

    #[test]
    fn rewrite_counts_written_bytes_once() {
        let [operation, read, write] = [OperationKind::OPERATION, OperationKind::READ, OperationKind::WRITE];
        let rate = |counts: &[(OperationKind, u64)], figure| {
            Sample::of(1, 0, &result(figure, load(counts, 200 * 8192))).map(|sample| sample.rate)
        };
        let rewrite = [(operation.clone(), 100), (read.clone(), 100), (write.clone(), 100)];
        assert_eq!(rate(&rewrite, Figure::Bytes), Ok(819_200.0), "both directions");
        assert_eq!(rate(&rewrite, Figure::BytesWritten), Ok(409_600.0));
        assert_eq!(
            rate(&[(operation.clone(), 200), (write.clone(), 200)], Figure::BytesWritten),
            Ok(819_200.0)
        );
        assert!(rate(&[(operation.clone(), 200), (read.clone(), 200)], Figure::BytesWritten).is_err());
    }
}
