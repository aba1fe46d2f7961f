//! Phases, which run one after the other, and groups of threads, which run concurrently inside a phase.

use super::{Data, Pattern, Rate, SetName};
use crate::{unit, units::Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// A part of a workload. The next one begins when it is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name; empty in a workload of one phase.
    pub name: String,
    /// Its concurrent groups; at least one.
    pub groups: Vec<Group>,
    /// When it is over.
    pub until: Until,
    /// Time that runs before the clock starts; 0 with [`Until::Done`].
    pub warmup: Nanos,
    /// Time measured. With [`Until::Done`] the longest it may take; a phase that takes longer has failed.
    pub duration: Nanos,
    /// True if it yields results. Others prepare later phases.
    pub measured: bool,
    /// Sync and drop the caches before it, as before every first phase.
    pub settle: bool,
    /// Clients share one folder, with the sum of their amounts; otherwise each has its own.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub one_folder: bool,
    /// A client uses the files of the client this many hosts further on.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub host_offset: u16,
    /// Look for the highest rate that meets this, instead of measuring one.
    pub find_rate: Option<RateTarget>,
}

/// Threads that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Name; empty in a phase of one group.
    pub name: String,
    /// Number of threads; none: the level's.
    pub workers: Option<u16>,
    /// Work of every thread.
    pub pattern: Pattern,
    /// Name of the files it works on. Groups and phases that name the same set share its files; the first of them lays
    /// it out.
    pub set: SetName,
    /// Content of the files; default: depends on the device.
    pub data: Option<Data>,
    /// The operations that its threads together are offered; none is a closed loop.
    pub rate: Option<Rate>,
    /// It yields no result: it is there to be in the way of others.
    pub background: bool,
    /// Basis of its throughput.
    pub figure: Figure,
}

/// When a phase is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// After its warm-up and its measured time.
    Time,
    /// When every thread has done its amount: for requests one lap over the files, or as many as `requests` sets.
    Done,
}

/// Basis of a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations per second.
    Operations,
    /// Bytes per second.
    Bytes,
    /// Time until the work is done, in nanoseconds: less is better. For phases that end when their work is done.
    Time,
    /// Bytes per second of the writes alone: bonnie++'s rate of a rewrite.
    BytesWritten,
}

impl Figure {
    /// The unit of its throughput.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Operations => unit::OPERATIONS,
            Self::Bytes | Self::BytesWritten => unit::BYTES_PER_SECOND,
            Self::Time => unit::TIME,
        }
    }
}

/// One thing that a run of a workload yields.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultKind {
    /// Name of the phase, of the group, or of both (`phase/group`); empty if there is only one result.
    pub name: String,
    /// Unit of its throughput.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
    /// True if it has latencies.
    pub has_latencies: bool,
    /// Operations offered in a second, however long each takes; none where the next one waits for the one before.
    pub offered_rate: Option<f64>,
}

impl ResultKind {
    /// True if a result of another workload has its unit and direction.
    pub fn has_unit_of(&self, other: &Self) -> bool {
        (&self.unit, self.less_is_better) == (&other.unit, other.less_is_better)
    }
}

/// Matching results of two workloads, which measure the same thing in two ways: those of the same name and unit. A
/// workload's only result also matches the first with its unit in the other.
pub fn comparable(a: &[ResultKind], b: &[ResultKind]) -> Vec<(usize, usize)> {
    let named = |(n, kind): (usize, &ResultKind)| {
        let partner = b.iter().position(|other| other.name == kind.name && other.has_unit_of(kind));
        partner.map(|m| (n, m))
    };
    let pairs: Vec<(usize, usize)> = a.iter().enumerate().filter_map(named).collect();
    if !pairs.is_empty() {
        return pairs;
    }
    let by_unit = match (a, b) {
        ([one], _) => b.iter().position(|other| other.has_unit_of(one)).map(|m| (0, m)),
        (_, [one]) => a.iter().position(|other| other.has_unit_of(one)).map(|n| (n, 0)),
        _ => None,
    };
    by_unit.into_iter().collect()
}

impl Phase {
    /// Its results, in order.
    pub fn results(&self) -> impl Iterator<Item = ResultKind> {
        let is_search = self.find_rate.is_some();
        let groups = self.groups.iter().enumerate().filter(|(number, _)| self.yields(*number));
        groups.map(move |(_, group)| ResultKind {
            name: self.result_name(group),
            unit: if is_search { unit::OPERATIONS } else { group.figure.unit() }.into(),
            less_is_better: group.figure == Figure::Time,
            has_latencies: !is_search,
            offered_rate: group.rate.map(|rate| rate.per_second),
        })
    }

    /// True if the group of this number yields a result: all measured ones do, or the one whose rate is searched.
    pub fn yields(&self, group: usize) -> bool {
        let is_measured = self.measured && self.groups.get(group).is_some_and(|group| !group.background);
        is_measured && (self.find_rate.is_none() || self.searched() == Some(group))
    }

    /// The group whose rate is searched, if there is one: the one named by the promise, else the first that takes a
    /// rate and has none.
    pub fn searched(&self) -> Option<usize> {
        let target = self.find_rate.as_ref()?;
        let is_meant = |group: &Group| target.group.as_ref().is_none_or(|name| group.name == *name);
        self.groups.iter().position(|group| is_meant(group) && group.can_be_searched())
    }

    /// The name of a group's result.
    pub fn result_name(&self, group: &Group) -> String {
        let parts = [&self.name, &group.name].map(String::as_str);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Patterns of its groups.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.groups.iter().map(|group| &group.pattern)
    }

    /// Refuses a pattern whose files this many clients cannot share.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn in_one_folder(&self, clients: u16) -> Result<(), &'static str> {
        self.patterns().try_for_each(|pattern| pattern.in_one_folder(clients).map(drop))
    }

    /// The longest cycle of its patterns.
    pub(super) fn period(&self) -> Option<Nanos> {
        self.patterns().filter_map(|pattern| pattern.period()).max()
    }
}

impl Group {
    /// True if the rate of its operations can be searched.
    pub fn can_be_searched(&self) -> bool {
        self.pattern.takes_rate() && self.rate.is_none() && !self.background
    }

    /// Its threads at a level.
    pub fn workers(&self, level: u16) -> u16 {
        self.workers.unwrap_or(level)
    }
}

/// A promise about latency: `p99<5ms`, or `redo p99<5ms` of the group of threads that is called so.
#[derive(Debug, Clone, PartialEq)]
pub struct RateTarget {
    /// The group whose operations it is about; default: the first that takes a rate.
    pub group: Option<String>,
    /// The quantile, above 0 and below 1.
    pub quantile: f64,
    /// Upper bound.
    pub below: Nanos,
}

impl RateTarget {
    /// The quantile in percent, rounded to human input: 0.999 * 100 is 99.9 and a little.
    pub fn percent(&self) -> f64 {
        (self.quantile * 1e8).round() / 1e6
    }
}

impl fmt::Display for RateTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = self.group.iter().map(|name| format!("{name} ")).collect::<String>();
        write!(f, "{group}p{}<{}", self.percent(), self.below)
    }
}

/// A text that is not a promise about latency.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a promise about latency such as \"p99<5ms\"")]
pub struct RateTargetError(String);

impl FromStr for RateTarget {
    type Err = RateTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || RateTargetError(text.chars().take(40).collect());
        let (left, below) = text.split_once('<').ok_or_else(error)?;
        let (group, quantile) = match left.trim().rsplit_once(char::is_whitespace) {
            Some((group, quantile)) => (Some(group.trim().to_owned()), quantile),
            None => (None, left.trim()),
        };
        let quantile = quantile.strip_prefix('p').ok_or_else(error)?;
        let percent: f64 = quantile.trim().parse().map_err(|_| error())?;
        // No more digits than are printed.
        let percent = (percent * 1e6).round() / 1e6;
        let below: Nanos = below.trim().parse().map_err(|_| error())?;
        // Beyond p99.9999 a run would need millions of operations for an estimate.
        if !(1.0..=99.9999).contains(&percent) || below == Nanos(0) {
            return Err(error());
        }
        Ok(Self { group, quantile: percent / 100.0, below })
    }
}

impl Serialize for RateTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RateTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for RateTarget {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RateTarget".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^ *([^<]+ )?p[0-9.]+ *< *[0-9.]+ *[a-z]+ *$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_pair_by_name_or_single_by_unit() {
        let kind = |name: &str, unit: &str| ResultKind {
            name: name.into(),
            unit: unit.into(),
            less_is_better: unit == "ns",
            has_latencies: false,
            offered_rate: None,
        };
        let tool = [kind("events", "op/s"), kind("written", "bytes/s"), kind("latency", "ns")];
        assert_eq!(comparable(&[kind("", "bytes/s")], &tool), [(0, 1)]);
        assert_eq!(comparable(&tool, &[kind("", "op/s")]), [(0, 0)]);
        assert_eq!(comparable(&[kind("", "s")], &tool), []);
        let phases = [kind("fill", "op/s"), kind("written", "bytes/s"), kind("", "op/s")];
        assert_eq!(comparable(&phases, &tool), [(1, 1)]);
        assert_eq!(comparable(&phases, &[kind("", "op/s")]), [(2, 0)]);
        assert_eq!(comparable(&phases, &[kind("written", "op/s")]), [(0, 0)]);
        assert_eq!(comparable(&phases, &[kind("a", "op/s"), kind("b", "op/s")]), []);
    }

    #[test]
    fn rate_targets_round_trip_through_display() {
        for text in ["p99<5ms", "p99.9<20ms", "p50<300us", "p99.9999<1s", "redo p99<5ms", "log writer p50<1s"]
        {
            assert_eq!(text.parse::<RateTarget>().unwrap().to_string(), text);
        }
        assert_eq!(" redo  p99 < 5 ms".parse::<RateTarget>().unwrap().group.as_deref(), Some("redo"));
        assert_eq!("p99 < 5 ms".parse::<RateTarget>().unwrap().to_string(), "p99<5ms");
        let long = "p9.4967299<7s".parse::<RateTarget>().unwrap();
        assert_eq!(long.to_string().parse(), Ok(long));
    }

    #[test]
    fn other_texts_are_no_promises() {
        for text in [
            "",
            "p<5ms",
            "p99",
            "99<5ms",
            "redo<5ms",
            "p99 redo<5ms",
            "p99<0s",
            "p100<1s",
            "p0<1s",
            "p99<5",
            "pNaN<1s",
            "p99>5ms",
        ] {
            assert!(text.parse::<RateTarget>().is_err(), "{text}");
        }
    }
}
