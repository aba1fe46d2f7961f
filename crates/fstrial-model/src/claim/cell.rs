//! Name of a cell of a claim's trial: `ARM [@ LEVEL] [in WORKLOAD] [: RESULT]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A level as a claim writes it: a number of threads, or one that follows from the machine's processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Level {
    /// This many threads.
    Threads(u16),
    /// This many for each processor.
    PerCpu(u16),
}

impl Level {
    /// The number of threads on a machine with this many processors: 1 to 1024.
    pub fn threads(self, cpus: u16) -> u16 {
        match self {
            Self::Threads(threads) => threads,
            Self::PerCpu(factor) => cpus.saturating_mul(factor).clamp(1, 1024),
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a level; write a number of threads, `cpus` or `4×cpus`");
        let text = text.trim();
        if let Some(factor) = text.strip_suffix("cpus") {
            let factor = factor.trim_end_matches(['×', 'x', '*', ' ']);
            let factor = if factor.is_empty() { 1 } else { factor.parse().map_err(|_| bad())? };
            return if (1..=64).contains(&factor) { Ok(Self::PerCpu(factor)) } else { Err(bad()) };
        }
        let threads = text.parse().map_err(|_| bad())?;
        if (1..=1024).contains(&threads) { Ok(Self::Threads(threads)) } else { Err(bad()) }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(threads) => write!(f, "{threads}"),
            Self::PerCpu(1) => f.write_str("cpus"),
            Self::PerCpu(factor) => write!(f, "{factor}×cpus"),
        }
    }
}

/// A cell of a trial and one of its results, by names. An omitted part must be unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CellName {
    /// Name of an arm of the claim's trial, such as `xfs:-m reflink=0`.
    pub arm: String,
    /// Number of threads; may be left out if the workload has only one level.
    pub level: Option<Level>,
    /// Name of a workload; may be left out if the trial has only one.
    pub workload: Option<String>,
    /// The result: a phase, a group, or a number of an operation.
    pub result: Option<String>,
}

impl FromStr for CellName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, result) = cut(text.trim_end(), ": ");
        let (rest, workload) = cut(rest, " in ");
        let (arm, level) = cut(rest, " @ ");
        let arm = arm.trim();
        let empty = [Some(arm), workload, result].into_iter().flatten().any(str::is_empty);
        if empty {
            return Err(format!("`{text}` names no cell; write `ARM @ LEVEL in WORKLOAD: RESULT`"));
        }
        Ok(Self {
            arm: arm.into(),
            level: level.map(str::parse).transpose()?,
            workload: workload.map(Into::into),
            result: result.map(Into::into),
        })
    }
}

/// Splits at the last of these marks. A mark may end the text.
fn cut<'a>(text: &'a str, mark: &str) -> (&'a str, Option<&'a str>) {
    let at_end = text.strip_suffix(mark.trim_end()).map(|before| (before, ""));
    match text.rsplit_once(mark).or(at_end) {
        Some((before, after)) => (before, Some(after.trim())),
        None => (text, None),
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arm)?;
        if let Some(level) = &self.level {
            write!(f, " @ {level}")?;
        }
        if let Some(workload) = &self.workload {
            write!(f, " in {workload}")?;
        }
        if let Some(result) = &self.result {
            write!(f, ": {result}")?;
        }
        Ok(())
    }
}

strings_in_files!(Level, CellName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_and_written_alike() {
        let full: CellName = "xfs:-m reflink=0 @ 4×cpus in bonnie-1.03: block-write".parse().unwrap();
        assert_eq!(full.arm, "xfs:-m reflink=0");
        assert_eq!(full.level, Some(Level::PerCpu(4)));
        assert_eq!(
            (full.workload.as_deref(), full.result.as_deref()),
            (Some("bonnie-1.03"), Some("block-write"))
        );
        for text in ["xfs", "xfs @ 4", "xfs @ cpus", "a in b", "a: c", "a @ 2×cpus in b: c"] {
            assert_eq!(text.parse::<CellName>().unwrap().to_string(), text);
        }
        assert_eq!("2 x cpus".parse::<Level>(), Ok(Level::PerCpu(2)));
        for bad in
            ["", "xfs @ ", "xfs @ many", "xfs in : x", "xfs @ 0", "xfs @ 2000", "xfs @ 0×cpus", " @ 4", ":\r"]
        {
            assert!(bad.parse::<CellName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn levels_follow_the_processors() {
        let threads = |text: &str, cpus| text.parse::<Level>().unwrap().threads(cpus);
        assert_eq!((threads("16", 2), threads("cpus", 2), threads("4xcpus", 2)), (16, 2, 8));
        assert_eq!(threads("64×cpus", 128), 1024);
    }
}
