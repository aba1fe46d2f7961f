//! The output of fio with `--output-format=json`: named values of every job.
//!
//! Standard output can begin with notes (`note: both iodepth >= 1 and synchronous I/O engine are selected`), and holds
//! several objects if fio was set to report while running: the last one counts.

use crate::unit;
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// The largest answer that is read, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Jobs in one answer, at most.
const MAX_REPORTS: usize = 4096;

/// Results of fio.
#[derive(Debug, Clone, PartialEq)]
pub struct FioOutput {
    /// Its version, such as `fio-3.33`.
    pub version: String,
    /// One for each job, or for each group of jobs that report together.
    pub jobs: Vec<FioJob>,
}

/// Results of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJob {
    /// Its name; a repeated one has `#2` and so on after it.
    pub name: String,
    /// The error it ended with; 0 means none.
    pub error: i64,
    /// Its values by name, such as `read.iops`; directions without a request are not there.
    pub values: BTreeMap<String, FioValue>,
}

/// One value with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FioValue {
    /// The value: finite and not negative.
    pub value: f64,
    /// Unit of `value`, which also fixes the better direction.
    pub unit: FioUnit,
}

/// Units of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioUnit {
    /// Requests a second: more is better.
    PerSecond,
    /// Bytes a second: more is better.
    BytesPerSecond,
    /// Nanoseconds: less is better.
    Nanoseconds,
}

impl FioUnit {
    /// The word in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerSecond => unit::OPERATIONS,
            Self::BytesPerSecond => unit::BYTES_PER_SECOND,
            Self::Nanoseconds => "ns",
        }
    }

    /// True if more is better.
    pub const fn more_is_better(self) -> bool {
        !matches!(self, Self::Nanoseconds)
    }
}

/// Output that is not an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// It is larger than [`MAX_OUTPUT_BYTES`].
    #[error("fio answered {0} bytes, more than are read; ask for group_reporting and without json+")]
    TooLarge(usize),
    /// There is no JSON object in it.
    #[error("fio answered without JSON: {0}")]
    NoJson(String),
    /// The JSON is broken or is not fio's.
    #[error("fio's answer cannot be read: {0}")]
    Unreadable(String),
    /// A number that cannot be measured.
    #[error("fio's answer has a value that cannot be: {job}: {name}")]
    Impossible {
        /// Name of the job; a repeated name ends in `#2`, `#3` and so on.
        job: String,
        /// The value's name.
        name: String,
    },
}

#[derive(Deserialize)]
struct RawOutput {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<RawJob>,
}

#[derive(Deserialize)]
struct RawJob {
    jobname: String,
    #[serde(default)]
    error: i64,
    read: Option<RawDirection>,
    write: Option<RawDirection>,
    trim: Option<RawDirection>,
    mixed: Option<RawDirection>,
    sync: Option<RawSync>,
}

#[derive(Deserialize)]
struct RawDirection {
    #[serde(default)]
    total_ios: u64,
    iops: f64,
    bw_bytes: f64,
    lat_ns: Option<RawLatency>,
    clat_ns: Option<RawLatency>,
}

#[derive(Deserialize)]
struct RawSync {
    #[serde(default)]
    total_ios: u64,
    lat_ns: Option<RawLatency>,
}

#[derive(Deserialize)]
struct RawLatency {
    #[serde(default, rename = "N")]
    count: u64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

impl FioOutput {
    /// Parses fio's standard output.
    ///
    /// # Errors
    /// It is too large, holds no JSON, or is not in fio 3's format.
    pub fn parse(text: &str) -> Result<Self, OutputError> {
        if text.len() > MAX_OUTPUT_BYTES {
            return Err(OutputError::TooLarge(text.len()));
        }
        let raw: RawOutput = last_object(text)?;
        if raw.jobs.len() > MAX_REPORTS {
            return Err(OutputError::Unreadable(format!("{} jobs", raw.jobs.len())));
        }
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut jobs = Vec::with_capacity(raw.jobs.len());
        for job in raw.jobs {
            let times = seen.entry(job.jobname.clone()).or_insert(0);
            *times += 1;
            let name = match *times {
                1 => job.jobname.clone(),
                times => format!("{}#{times}", job.jobname),
            };
            let values = values(&job);
            if let Some((wrong, _)) = values.iter().find(|(_, v)| !v.value.is_finite() || v.value < 0.0) {
                return Err(OutputError::Impossible { job: name, name: wrong.clone() });
            }
            jobs.push(FioJob { name, error: job.error, values });
        }
        Ok(Self { version: raw.version, jobs })
    }
}

/// fio's JSON verbatim, in a text that holds its standard output; none if it is incomplete.
pub fn verbatim(text: &str) -> Option<serde_json::Value> {
    last_object(text).ok().filter(|answer: &serde_json::Value| answer.get("fio version").is_some())
}

/// The last whole object in a text that may begin with notes.
fn last_object<T: DeserializeOwned>(text: &str) -> Result<T, OutputError> {
    // An object begins a line: a brace inside a note does not.
    let starts = |text: &str| if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let Some(start) = starts(text) else {
        let first: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
        return Err(OutputError::NoJson(if first.is_empty() { "nothing".into() } else { first }));
    };
    let mut last = None;
    for object in serde_json::Deserializer::from_str(&text[start..]).into_iter::<T>() {
        match object {
            Ok(object) => last = Some(object),
            // Words after the last object are not a fault.
            Err(_) if last.is_some() => break,
            Err(error) => return Err(OutputError::Unreadable(error.to_string())),
        }
    }
    last.ok_or_else(|| OutputError::Unreadable("an empty object".into()))
}

fn values(job: &RawJob) -> BTreeMap<String, FioValue> {
    let mut values = BTreeMap::new();
    let directions = [("read", &job.read), ("write", &job.write), ("trim", &job.trim), ("mixed", &job.mixed)];
    for (direction, result) in directions {
        let Some(result) = result.as_ref().filter(|result| result.total_ios > 0) else { continue };
        let mut put = |name: &str, value: f64, unit: FioUnit| {
            values.insert(format!("{direction}.{name}"), FioValue { value, unit });
        };
        put("iops", result.iops, FioUnit::PerSecond);
        put("bw_bytes", result.bw_bytes, FioUnit::BytesPerSecond);
        if let Some(latency) = result.lat_ns.as_ref().filter(|latency| latency.count > 0) {
            put("lat_mean", latency.mean, FioUnit::Nanoseconds);
        }
        for (name, value) in result.clat_ns.iter().flat_map(percentiles) {
            put(&format!("clat_{name}"), value, FioUnit::Nanoseconds);
        }
    }
    let sync = job.sync.as_ref().filter(|sync| sync.total_ios > 0);
    if let Some(latency) = sync.and_then(|sync| sync.lat_ns.as_ref()) {
        let named = percentiles(latency).into_iter().chain([("mean", latency.mean)]);
        for (name, value) in named {
            values.insert(format!("sync.lat_{name}"), FioValue { value, unit: FioUnit::Nanoseconds });
        }
    }
    values
}

/// The percentiles that verdicts are about, where they are.
fn percentiles(latency: &RawLatency) -> Vec<(&'static str, f64)> {
    [("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000")]
        .into_iter()
        .filter_map(|(name, key)| latency.percentile.get(key).map(|value| (name, *value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As fio 3.33 wrote it for `rw=randrw fsync=8`, and the note it writes with `iodepth=4`.
    const REAL: &str = include_str!("../../../../fixtures/fio/output-randrw.txt");

    fn value(output: &FioOutput, name: &str) -> f64 {
        output.jobs[0].values[name].value
    }

    #[test]
    fn parses_real_fio_output_after_notes() {
        let output = FioOutput::parse(REAL).unwrap();
        assert_eq!((output.version.as_str(), output.jobs.len()), ("fio-3.33", 1));
        assert_eq!((output.jobs[0].name.as_str(), output.jobs[0].error), ("a", 0));
        assert_eq!(value(&output, "read.iops"), 1404.191617);
        assert_eq!(value(&output, "read.bw_bytes"), 5_751_568.0);
        assert_eq!(value(&output, "read.lat_mean"), 85118.283582);
        assert_eq!(value(&output, "write.clat_p50"), 3952.0);
        assert_eq!(value(&output, "write.clat_p99"), 31872.0);
        assert_eq!(value(&output, "write.clat_p999"), 108_032.0);
        assert_eq!(value(&output, "sync.lat_p99"), 5_144_576.0);
        assert!(!output.jobs[0].values.keys().any(|name| name.starts_with("trim")));
    }

    #[test]
    fn last_object_wins_and_duplicate_names_are_numbered() {
        let object = |name: &str, iops: u32| {
            format!(
                "{{\"fio version\":\"fio-3.33\",\"jobs\":[{}]}}\n",
                [name, name]
                    .map(|name| format!(
                        "{{\"jobname\":\"{name}\",\"read\":{{\"total_ios\":1,\"iops\":{iops},\"bw_bytes\":1}}}}"
                    ))
                    .join(",")
            )
        };
        let output = FioOutput::parse(&format!("{}{}fio: done\n", object("a", 1), object("b", 2))).unwrap();
        assert_eq!(output.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["b", "b#2"]);
        assert_eq!(value(&output, "read.iops"), 2.0);
    }

    #[test]
    fn invalid_fio_output_is_refused() {
        for (text, part) in [
            ("", "without JSON: nothing"),
            ("fio: failed to {open}", "without JSON: fio: failed"),
            ("{}", "missing field"),
            ("{\"fio version\":\"x\",\"jobs\":[", "cannot be read"),
            (
                "{\"fio version\":\"x\",\"jobs\":[{\"jobname\":\"a\",\"read\":{\"total_ios\":1,\"iops\":-1,\"bw_bytes\":1}}]}",
                "cannot be: a: read.iops",
            ),
        ] {
            let error = FioOutput::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(FioOutput::parse(&"{\"a\":".repeat(100_000)).is_err());
        assert!(matches!(FioOutput::parse(&" ".repeat(MAX_OUTPUT_BYTES + 1)), Err(OutputError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_or_an_error(cut in 0..REAL.len(), byte in 0..128_u8) {
            let mut bytes = REAL.as_bytes().to_vec();
            bytes[cut] = byte;
            let _ = FioOutput::parse(&String::from_utf8_lossy(&bytes));
            let _ = FioOutput::parse(&String::from_utf8_lossy(&bytes[..cut]));
        }
    }
}
