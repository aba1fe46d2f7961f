//! Probability of each block in random access, in the notation of the tools that introduced it: `zipf:0.99`.

use crate::units::{Bytes, UnitError, serde_as_text, unit_error};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// Probability of each block. Blocks are numbered from 0 to n − 1 over all files of a thread; u and uᵢ are uniform in
/// [0, 1).
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distribution {
    /// Each block equally often.
    #[default]
    Uniform,
    /// Block of rank r with a probability in proportion to r^−θ (Gray et al., 1994, as in YCSB and fio). The ranks are
    /// scattered over the files, the same way for all threads, so that hot blocks are not neighbours.
    Zipf {
        /// The skew, 0.01 to 5 and not 1: 0.99 in YCSB, 1.1 in fio.
        theta: f64,
    },
    /// n·u^(ln h / ln(1−h)): a share h of the blocks, from the first on, gets 1 − h of the requests.
    Pareto {
        /// The share, 0.001 to 0.999: 0.2 in sysbench and fio.
        h: f64,
    },
    /// n times the mean of k uniform numbers: a bell over the middle block.
    Normal {
        /// k, 1 to 100: 12 in sysbench (`gaussian`) and fio (`normal`).
        draws: u32,
    },
    /// sysbench 1.0's `special`, quirk included: with probability 1 − `resolution`/100 a bell over all blocks as in
    /// [`Self::Normal`], otherwise one of the `percent` % of the blocks around the middle, of which the lowest 100 −
    /// `resolution` % are never drawn this way.
    Special {
        /// Size of the hot stretch in percent of the blocks, 1 to 100.
        percent: u32,
        /// Share of requests that go there in percent, 1 to 99.
        resolution: u32,
        /// Uniform numbers in the mean, 1 to 100.
        iterations: u32,
    },
    /// YCSB's `hotspot`: `share` of the requests go to the first `fraction` of the blocks; uniform inside and outside.
    Hotspot {
        /// Fraction of the blocks that is hot, above 0 and below 1.
        fraction: f64,
        /// Share of requests that go there, 0 to 1.
        share: f64,
    },
    /// YCSB's `latest`: as [`Self::Zipf`] but not scattered; the last block is the hottest.
    Latest {
        /// The skew, as for [`Self::Zipf`].
        theta: f64,
    },
    /// Stretches one after the other from the first block on, 1 to 256, each uniform inside; blocks after them are
    /// never drawn. Each starts at the end of those before it, rounded down to blocks, and has one block at least
    /// (fio's `zoned` and `zoned_abs`).
    Zones(Vec<Zone>),
}

/// A stretch of the blocks that gets a share of the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    /// Its size; all zones in percent, or all in bytes.
    pub extent: Extent,
    /// Its share of the requests is in proportion to this, 0 or more; not all are 0.
    pub weight: f64,
}

/// Size of a zone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// Percentage of the blocks, above 0; all zones together at most 100.
    Percent(f64),
    /// Bytes, above 0.
    Bytes(Bytes),
}

/// Zones in a list, at most, as in fio.
const MAX_ZONES: usize = 256;

const WANTED: &str = "a distribution such as \"zipf:0.99\"";
const KNOWN: &str = "use one of uniform, zipf:THETA, pareto:H, normal:K, special:PERCENT,RESOLUTION,ITERATIONS, hotspot:FRACTION,SHARE, \
                     latest:THETA and zones:SIZE:WEIGHT,…";

impl Distribution {
    /// True for the uniform one.
    pub fn is_uniform(&self) -> bool {
        *self == Self::Uniform
    }

    /// The problem with its numbers, if any: they need not come from parsed text.
    pub fn problem(&self) -> Option<&'static str> {
        let skew = |theta: &f64| (0.01..=5.0).contains(theta) && (theta - 1.0).abs() >= 0.001;
        match self {
            Self::Zipf { theta } | Self::Latest { theta } if !skew(theta) => {
                Some("theta must be between 0.01 and 5, at least 0.001 away from 1, as in 0.99")
            }
            Self::Pareto { h } if !(0.001..=0.999).contains(h) => {
                Some("h must be between 0.001 and 0.999, as in 0.2")
            }
            Self::Normal { draws } if !(1..=100).contains(draws) => {
                Some("the mean is of 1 to 100 uniform numbers, as in 12")
            }
            Self::Special { percent, resolution, iterations }
                if !(1..=100).contains(percent)
                    || !(1..=99).contains(resolution)
                    || !(1..=100).contains(iterations) =>
            {
                Some(
                    "the percentage is 1 to 100, the resolution 1 to 99, the iterations 1 to 100, as in 1,75,12",
                )
            }
            Self::Hotspot { fraction, share }
                if !(*fraction > 0.0 && *fraction < 1.0 && (0.0..=1.0).contains(share)) =>
            {
                Some("the fraction is between 0 and 1, the share is 0 to 1, as in 0.2,0.8")
            }
            Self::Zones(zones) => zones_problem(zones),
            _ => None,
        }
    }

    /// Blocks of this size that there must be.
    pub(super) fn blocks_wanted(&self, block: Bytes) -> u64 {
        let bytes = |zone: &Zone| match zone.extent {
            Extent::Bytes(bytes) => bytes.0,
            Extent::Percent(_) => 0,
        };
        match self {
            Self::Uniform => 1,
            Self::Zones(zones) => {
                let all = zones.iter().map(bytes).fold(0, u64::saturating_add);
                all.div_ceil(block.0.max(1)).max(2)
            }
            _ => 2,
        }
    }
}

fn zones_problem(zones: &[Zone]) -> Option<&'static str> {
    let percents = zones.iter().filter_map(|zone| match zone.extent {
        Extent::Percent(percent) => Some(percent),
        Extent::Bytes(_) => None,
    });
    let is_size = |zone: &Zone| match zone.extent {
        Extent::Percent(percent) => percent > 0.0,
        Extent::Bytes(bytes) => bytes.0 > 0,
    };
    if !(1..=MAX_ZONES).contains(&zones.len()) || !zones.iter().all(is_size) {
        Some("there are 1 to 256 zones with a size above 0 each, as in 10%:60,90%:40")
    } else if ![0, zones.len()].contains(&percents.clone().count()) {
        Some("zones are all in percent, or all in bytes")
    } else if percents.sum::<f64>() > 100.0 + 1e-9 {
        Some("the zones are more than 100% together")
    } else if !zones.iter().all(|zone| zone.weight >= 0.0 && zone.weight.is_finite())
        || zones.iter().all(|zone| zone.weight == 0.0)
    {
        Some("the weights of zones are numbers from 0 on, not all of them 0")
    } else {
        None
    }
}

/// Numbers separated by commas, exactly as many as there are fallbacks; the fallbacks if there are none.
fn numbers<T: FromStr + Copy, const N: usize>(
    given: Option<&str>,
    fallback: [T; N],
) -> Result<[T; N], String> {
    let Some(given) = given else { return Ok(fallback) };
    let parts: Vec<&str> = given.split(',').map(str::trim).collect();
    if parts.len() != N {
        let plural = if N == 1 { "number" } else { "numbers" };
        return Err(format!("it takes {N} {plural}, not {}; {KNOWN}", parts.len()));
    }
    let mut all = fallback;
    for (value, part) in all.iter_mut().zip(&parts) {
        *value = part.parse().map_err(|_| format!("{part:?} is not a number it takes; {KNOWN}"))?;
    }
    Ok(all)
}

/// A zone: its size, and its weight.
fn zone(text: &str) -> Result<Zone, String> {
    let wrong = || format!("{text:?} is not a zone, such as 10%:60 or 4GiB:60");
    let (size, weight) = text.split_once(':').ok_or_else(wrong)?;
    let extent = match size.trim().strip_suffix('%') {
        Some(percent) => Extent::Percent(percent.trim().parse().map_err(|_| wrong())?),
        None => Extent::Bytes(size.trim().parse().map_err(|_| wrong())?),
    };
    Ok(Zone { extent, weight: weight.trim().parse().map_err(|_| wrong())? })
}

fn read(text: &str) -> Result<Distribution, String> {
    let (name, given) = match text.split_once(':') {
        Some((name, given)) => (name.trim(), Some(given)),
        None => (text.trim(), None),
    };
    let distribution = match name {
        "uniform" if given.is_none() => Distribution::Uniform,
        "uniform" => return Err("uniform takes no number".into()),
        "zipf" => numbers(given, [0.99]).map(|[theta]| Distribution::Zipf { theta })?,
        "latest" => numbers(given, [0.99]).map(|[theta]| Distribution::Latest { theta })?,
        "pareto" => numbers(given, [0.2]).map(|[h]| Distribution::Pareto { h })?,
        "normal" => numbers(given, [12]).map(|[draws]| Distribution::Normal { draws })?,
        "special" => numbers(given, [1, 75, 12]).map(|[percent, resolution, iterations]| {
            Distribution::Special { percent, resolution, iterations }
        })?,
        "hotspot" => {
            numbers(given, [0.2, 0.8]).map(|[fraction, share]| Distribution::Hotspot { fraction, share })?
        }
        "zones" => {
            Distribution::Zones(given.unwrap_or_default().split(',').map(zone).collect::<Result<_, _>>()?)
        }
        _ => return Err(KNOWN.into()),
    };
    match distribution.problem() {
        Some(problem) => Err(problem.into()),
        None => Ok(distribution),
    }
}

impl FromStr for Distribution {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text).map_err(|problem| unit_error(text, WANTED, problem))
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf { theta } => write!(f, "zipf:{theta}"),
            Self::Pareto { h } => write!(f, "pareto:{h}"),
            Self::Normal { draws } => write!(f, "normal:{draws}"),
            Self::Special { percent, resolution, iterations } => {
                write!(f, "special:{percent},{resolution},{iterations}")
            }
            Self::Hotspot { fraction, share } => write!(f, "hotspot:{fraction},{share}"),
            Self::Latest { theta } => write!(f, "latest:{theta}"),
            Self::Zones(zones) => {
                write!(f, "zones")?;
                zones.iter().enumerate().try_for_each(|(n, Zone { extent, weight })| {
                    write!(f, "{}", if n == 0 { ":" } else { "," })?;
                    match extent {
                        Extent::Percent(percent) => write!(f, "{percent}%:{weight}"),
                        Extent::Bytes(bytes) => write!(f, "{bytes}:{weight}"),
                    }
                })
            }
        }
    }
}

serde_as_text!(
    Distribution,
    "^ *(uniform|(zipf|latest|pareto|normal|special|hotspot)( *:[0-9., ]+)?|zones *:[0-9A-Za-z%:., ]+) *$",
    "how often each block is drawn: uniform, zipf:0.99, pareto:0.2, normal:12, special:1,75,12, hotspot:0.2,0.8, latest:0.99, zones:10%:60,90%:40 or zones:1GiB:60,9GiB:40"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bare_names_use_default_parameters() {
        for (short, long) in [
            ("uniform", "uniform"),
            ("zipf", "zipf:0.99"),
            ("latest", "latest:0.99"),
            ("pareto", "pareto:0.2"),
            ("normal", "normal:12"),
            ("special", "special:1,75,12"),
            ("hotspot", "hotspot:0.2,0.8"),
            (" zipf : 1.1 ", "zipf:1.1"),
            ("special: 5, 80, 3", "special:5,80,3"),
            ("zones: 10% : 60, 30.5%:40", "zones:10%:60,30.5%:40"),
            ("zones:64K:0,1M:2.5", "zones:64KiB:0,1MiB:2.5"),
        ] {
            let read: Distribution = short.parse().unwrap_or_else(|e| panic!("{short}: {e}"));
            assert_eq!(read.to_string(), long);
            assert_eq!(long.parse::<Distribution>().unwrap(), read);
        }
    }

    #[test]
    fn errors_describe_valid_input() {
        for (text, words) in [
            ("gauss", "use one of uniform"),
            ("", "use one of uniform"),
            ("uniform:1", "takes no number"),
            ("zipf:1", "away from 1"),
            ("zipf:0", "between 0.01 and 5"),
            ("zipf:nan", "between 0.01 and 5"),
            ("zipf:0.9,0.8", "takes 1 number, not 2"),
            ("latest:1.0001", "away from 1"),
            ("pareto:1", "between 0.001"),
            ("normal:0", "1 to 100"),
            ("normal:1.5", "not a number it takes"),
            ("special:1,75", "takes 3 numbers, not 2"),
            ("special:1,100,12", "1 to 99"),
            ("hotspot:0,0.8", "between 0 and 1"),
            ("hotspot:0.2,1.1", "0 to 1"),
            ("hotspot:20%,80%", "not a number it takes"),
            ("zones", "is not a zone"),
            ("zones:10:60:1", "is not a zone"),
            ("zones:10%", "is not a zone"),
            ("zones:0%:60", "above 0"),
            ("zones:nan%:60", "above 0"),
            ("zones:60%:60,41%:40", "more than 100%"),
            ("zones:60%:60,1MiB:40", "all in percent"),
            ("zones:60%:0,40%:0", "not all of them 0"),
            ("zones:60%:-1", "from 0 on"),
            ("zones:60%:inf", "from 0 on"),
        ] {
            let error = text.parse::<Distribution>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn printed_form_round_trips(theta in 0.01_f64..0.99, fraction in 0.001_f64..0.999, share in 0.0_f64..=1.0) {
            for distribution in [
                Distribution::Zipf { theta },
                Distribution::Latest { theta },
                Distribution::Pareto { h: fraction },
                Distribution::Hotspot { fraction, share },
                Distribution::Zones(vec![
                    Zone { extent: Extent::Percent(100.0 * fraction), weight: share + 0.1 },
                    Zone { extent: Extent::Percent(99.99 - 100.0 * fraction), weight: theta },
                ]),
                Distribution::Zones(vec![Zone { extent: Extent::Bytes(Bytes((theta * 1e9) as u64)), weight: theta }]),
            ] {
                let read: Distribution = distribution.to_string().parse().unwrap();
                prop_assert_eq!(read, distribution);
            }
        }

        #[test]
        fn any_text_is_a_distribution_or_an_error(text in ".{0,60}") {
            let _ = text.parse::<Distribution>();
        }
    }
}
