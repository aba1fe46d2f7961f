//! The state a filesystem is in when a load begins: fresh, filled, aged, populated or loaded; and the figures of it.
//!
//! In flags, arms and trial files a state is one word with its parameters, most important first: `aged`, `filled:80%`,
//! `aged:70%:0.9`, `populated:20000`, `aged:70%:turnovers=8:file_size=64KiB`. A trial file may use a table instead:
//! `{ kind = "aged", utilisation = "70%", turnovers = 8 }`. Both parse back.

use crate::rows::words;
use crate::units::{Bytes, Percent, UnitError};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt, str::FromStr};

/// Content of a filesystem when a load begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum State {
    /// Nothing: as mkfs left it.
    #[default]
    Fresh,
    /// Files that were written once, one after the other, until this much of it is in use.
    Filled(Filled),
    /// The result of creating, growing, overwriting and deleting many files.
    Aged(Aged),
    /// A tree of files and directories.
    Populated(Populated),
    /// The data of the workload: the records of a key-value store, the tables of a database.
    Loaded(Loaded),
}

/// A filesystem that is full to a degree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filled {
    /// Share of the space in use, as `df` shows it.
    pub utilisation: Percent,
    /// Size of each file.
    pub file_size: Bytes,
}

/// A filesystem aged by long use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aged {
    /// Share of the space in use, as `df` shows it.
    pub utilisation: Percent,
    /// Layout score at which ageing stops; none: after all turnovers.
    pub layout_score: Option<f64>,
    /// Number of complete rewrites after the first fill; with a layout score the maximum.
    pub turnovers: u32,
    /// Median of the lognormal sizes of files.
    pub file_size: Bytes,
    /// Number of files that grow concurrently, a piece of each in turn.
    pub together: u32,
}

/// A filesystem with a tree of files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Populated {
    /// Files in all.
    pub files: u32,
    /// Files in each directory.
    pub per_directory: u32,
    /// Directories in each directory that has any.
    pub width: u32,
    /// Median of the lognormal sizes of files; 0: empty files.
    pub file_size: Bytes,
}

/// A filesystem that holds the data of the workload, loaded several times, each on a new filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Number of loads. All runs of a round begin with the same load, so the spread between loads, which place data
    /// differently, is measurable.
    pub loads: u32,
}

impl Default for Loaded {
    fn default() -> Self {
        Self { loads: 3 }
    }
}

impl Default for Filled {
    fn default() -> Self {
        Self { utilisation: Percent(80.0), file_size: Bytes::mib(8) }
    }
}

impl Default for Aged {
    fn default() -> Self {
        Self {
            utilisation: Percent(70.0),
            layout_score: None,
            turnovers: TURNOVERS,
            file_size: Bytes::kib(32),
            together: 4,
        }
    }
}

impl Default for Populated {
    fn default() -> Self {
        Self { files: 10_000, per_directory: 100, width: 10, file_size: Bytes::kib(8) }
    }
}

/// Default number of turnovers: after these the layout of files has no order left.
const TURNOVERS: u32 = 4;
/// The same with a requested layout score, which ends it earlier.
const TURNOVERS_FOR_SCORE: u32 = 16;
/// Directories inside each other at most, so that a path keeps below the kernel's limit.
const MAX_DEPTH: u32 = 64;
/// Lognormal sizes: standard deviation of their natural logarithm.
pub const SIZE_SIGMA: f64 = 1.5;

words! {
    /// Method of restoring the state before each run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Restoring {
        /// Overwrites the whole device: every run follows the same writes.
        #[default]
        "copy" Copy,
        /// The image's file shares the blocks of the saved one (FICLONE): quick, and every overwrite of a run is then a
        /// copy-on-write of the host's filesystem.
        "clone" Clone,
    }
}

/// A state that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a state: {problem}")]
pub struct StateError {
    /// The input, at most 60 characters of it.
    pub text: String,
    /// The problem with it and the remedy.
    pub problem: String,
}

const WANTED: &str =
    "write fresh, filled:80%, aged:70%, aged:70%:0.9 (a layout score), populated:20000 or loaded:3";

impl State {
    /// The word of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Filled(_) => "filled",
            Self::Aged(_) => "aged",
            Self::Populated(_) => "populated",
            Self::Loaded(_) => "loaded",
        }
    }

    /// True for the state that mkfs leaves.
    pub fn is_fresh(&self) -> bool {
        *self == Self::Fresh
    }

    /// The share of the space in use that it asks for.
    pub const fn utilisation(&self) -> Option<Percent> {
        match self {
            Self::Fresh | Self::Populated(_) | Self::Loaded(_) => None,
            Self::Filled(filled) => Some(filled.utilisation),
            Self::Aged(aged) => Some(aged.utilisation),
        }
    }

    /// Space its files take on a device of this size, about.
    pub fn space(&self, device: Bytes) -> Bytes {
        match self {
            Self::Populated(tree) => tree.space(),
            _ => scaled(device, |all| all * self.utilisation().map_or(0.0, Percent::fraction)),
        }
    }

    /// The smallest device that leaves `needed` bytes in addition to its files, with a fifth of the rest kept for the
    /// filesystem.
    pub fn device_for(&self, needed: Bytes) -> Bytes {
        let room = |bytes: Bytes| bytes.0 / 8 * 10;
        let tree = if let Self::Populated(tree) = self { tree.space() } else { Bytes(0) };
        let free = 1.0 - self.utilisation().map_or(0.0, Percent::fraction);
        scaled(Bytes(room(needed) + room(tree)), |room| room / free.max(0.01))
    }

    /// Checks that every parameter is in its range.
    ///
    /// # Errors
    /// The parameter out of its range, with that range.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Fresh => Ok(()),
            Self::Filled(filled) => {
                within("utilisation", filled.utilisation, Percent(1.0), Percent(98.0))?;
                within("file_size", filled.file_size, Bytes::kib(4), Bytes::gib(1))
            }
            Self::Aged(aged) => {
                within("utilisation", aged.utilisation, Percent(1.0), Percent(95.0))?;
                if let Some(score) = aged.layout_score
                    && !(0.0..=1.0).contains(&score)
                {
                    return Err(format!(
                        "layout_score = {score} is out of range: use 0 (every block apart) to 1 (none)"
                    ));
                }
                within("turnovers", aged.turnovers, 1, 1000)?;
                within("together", aged.together, 1, 64)?;
                within("file_size", aged.file_size, Bytes::kib(4), Bytes::mib(64))
            }
            Self::Populated(tree) => {
                within("files", tree.files, 1, 10_000_000)?;
                within("per_directory", tree.per_directory, 1, 1_000_000)?;
                within("width", tree.width, 1, 10_000)?;
                if tree.depth() > MAX_DEPTH {
                    return Err(format!(
                        "its directories are more than {MAX_DEPTH} deep: raise width or per_directory, or use fewer files"
                    ));
                }
                within("file_size", tree.file_size, Bytes(0), Bytes::mib(64))
            }
            Self::Loaded(loaded) => within("loads", loaded.loads, 1, 16),
        }
    }
}

fn within<T: PartialOrd + fmt::Display>(what: &str, value: T, least: T, most: T) -> Result<(), String> {
    let fits = least <= value && value <= most;
    if fits { Ok(()) } else { Err(format!("{what} = {value} is out of range: use {least} to {most}")) }
}

/// A size that follows from another one, whole bytes of it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are far below 2^53, and what is negative is nothing"
)]
fn scaled(size: Bytes, scale: impl FnOnce(f64) -> f64) -> Bytes {
    Bytes(scale(size.0 as f64) as u64)
}

impl Populated {
    /// Directories in all.
    pub const fn directories(&self) -> u32 {
        self.files.div_ceil(self.per_directory)
    }

    /// Directories inside each other at most, the root not counted.
    pub fn depth(&self) -> u32 {
        let mut last = self.directories() - 1;
        let mut depth = 0;
        while last > 0 && depth <= MAX_DEPTH {
            last = (last - 1) / self.width;
            depth += 1;
        }
        depth
    }

    /// Space of its files, each in whole blocks of 4 KiB with half a KiB of metadata.
    fn space(&self) -> Bytes {
        let mean = scaled(self.file_size, |median| median * (SIZE_SIGMA * SIZE_SIGMA / 2.0).exp());
        Bytes(u64::from(self.files) * (mean.0 + 2560))
    }
}

/// The parameters of a state, as a table in a trial file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    /// `fresh`, `filled`, `aged`, `populated` or `loaded`.
    kind: String,
    /// Share of the space in use, as `df` shows it (filled, aged).
    utilisation: Option<Percent>,
    /// Age until the layout score is no more than this (aged).
    layout_score: Option<f64>,
    /// Number of complete rewrites; with a layout score the maximum (aged).
    turnovers: Option<u32>,
    /// Files that grow together, each by a piece in turn (aged).
    together: Option<u32>,
    /// Number of files (populated).
    files: Option<u32>,
    /// Files in each directory (populated).
    per_directory: Option<u32>,
    /// Directories in each directory that has any (populated).
    width: Option<u32>,
    /// Size of each file (filled), or the median of their sizes (aged, populated).
    file_size: Option<Bytes>,
    /// Number of loads of the data, each on a new filesystem (loaded).
    loads: Option<u32>,
}

/// The kinds with their parameters, and how many of these can be given by their place alone.
const KINDS: [(&str, &[&str], usize); 5] = [
    ("fresh", &[], 0),
    ("filled", &["utilisation", "file_size"], 1),
    ("aged", &["utilisation", "layout_score", "turnovers", "file_size", "together"], 2),
    ("populated", &["files", "per_directory", "width", "file_size"], 1),
    ("loaded", &["loads"], 1),
];

impl Table {
    /// The parameters of its kind, and how many of them can be given by their place alone.
    fn parameters(&self) -> Option<(&'static [&'static str], usize)> {
        let kind = KINDS.iter().find(|(kind, ..)| *kind == self.kind)?;
        Some((kind.1, kind.2))
    }

    /// Refuses the first parameter that this kind does not have.
    fn only(&self, allowed: &[&str]) -> Result<(), String> {
        let given = [
            ("utilisation", self.utilisation.is_some()),
            ("layout_score", self.layout_score.is_some()),
            ("turnovers", self.turnovers.is_some()),
            ("together", self.together.is_some()),
            ("files", self.files.is_some()),
            ("per_directory", self.per_directory.is_some()),
            ("width", self.width.is_some()),
            ("file_size", self.file_size.is_some()),
            ("loads", self.loads.is_some()),
        ];
        let Some((name, _)) = given.iter().find(|(name, given)| *given && !allowed.contains(name)) else {
            return Ok(());
        };
        let has = if allowed.is_empty() { "no parameters".into() } else { allowed.join(", ") };
        Err(format!("`{}` has no `{name}`; it has {has}", self.kind))
    }

    fn state(&self) -> Result<State, String> {
        let Some((allowed, _)) = self.parameters() else {
            return Err(no_such_kind(&self.kind));
        };
        self.only(allowed)?;
        let state = match self.kind.as_str() {
            "filled" => {
                let usual = Filled::default();
                State::Filled(Filled {
                    utilisation: self.utilisation.unwrap_or(usual.utilisation),
                    file_size: self.file_size.unwrap_or(usual.file_size),
                })
            }
            "aged" => {
                let usual = Aged::default();
                State::Aged(Aged {
                    utilisation: self.utilisation.unwrap_or(usual.utilisation),
                    layout_score: self.layout_score,
                    turnovers: self.turnovers.unwrap_or(turnovers_for(self.layout_score)),
                    file_size: self.file_size.unwrap_or(usual.file_size),
                    together: self.together.unwrap_or(usual.together),
                })
            }
            "populated" => {
                let usual = Populated::default();
                State::Populated(Populated {
                    files: self.files.unwrap_or(usual.files),
                    per_directory: self.per_directory.unwrap_or(usual.per_directory),
                    width: self.width.unwrap_or(usual.width),
                    file_size: self.file_size.unwrap_or(usual.file_size),
                })
            }
            "loaded" => State::Loaded(Loaded { loads: self.loads.unwrap_or(Loaded::default().loads) }),
            _ => State::Fresh,
        };
        state.check()?;
        Ok(state)
    }

    /// Takes one part of the short form: `name=value`, or a value identified by its position.
    fn take(&mut self, place: usize, part: &str) -> Result<(), String> {
        let by_place = self.parameters().map_or(&[][..], |(names, placed)| &names[..placed]);
        let (name, value) = match part.split_once('=') {
            Some(pair) => pair,
            None => match by_place.get(place) {
                Some(name) => (*name, part),
                None => return Err(format!("`{part:.40}` is one too many; {WANTED}")),
            },
        };
        let unit = |error: UnitError| error.to_string();
        let whole = || value.parse().map_err(|_| format!("`{name}={value:.40}` is not a whole number"));
        match name {
            "utilisation" => self.utilisation = Some(value.parse().map_err(unit)?),
            "layout_score" => {
                let wrong = |_| format!("`{value:.40}` is not a layout score such as 0.9");
                self.layout_score = Some(value.parse().map_err(wrong)?);
            }
            "turnovers" => self.turnovers = Some(whole()?),
            "together" => self.together = Some(whole()?),
            "files" => self.files = Some(whole()?),
            "per_directory" => self.per_directory = Some(whole()?),
            "width" => self.width = Some(whole()?),
            "loads" => self.loads = Some(whole()?),
            "file_size" => self.file_size = Some(value.parse().map_err(unit)?),
            other => return Err(format!("there is no parameter `{other:.40}`")),
        }
        Ok(())
    }
}

fn no_such_kind(kind: &str) -> String {
    format!("there is no `{kind:.40}`; {WANTED}")
}

fn turnovers_for(layout_score: Option<f64>) -> u32 {
    if layout_score.is_some() { TURNOVERS_FOR_SCORE } else { TURNOVERS }
}

impl FromStr for State {
    type Err = StateError;
    fn from_str(text: &str) -> Result<Self, StateError> {
        let error = |problem: String| StateError { text: text.chars().take(60).collect(), problem };
        let mut parts = text.trim().split(':');
        let kind = parts.next().unwrap_or_default();
        let mut table = Table { kind: kind.to_owned(), ..Table::default() };
        if table.parameters().is_none() {
            return Err(error(no_such_kind(kind)));
        }
        for (place, part) in parts.enumerate() {
            table.take(place, part).map_err(error)?;
        }
        table.state().map_err(error)
    }
}

impl fmt::Display for State {
    /// The short form; defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Fresh => Ok(()),
            Self::Filled(filled) => {
                write!(f, ":{}", filled.utilisation)?;
                unless_usual(f, "file_size", &filled.file_size, &Filled::default().file_size)
            }
            Self::Aged(aged) => {
                let usual = Aged::default();
                write!(f, ":{}", aged.utilisation)?;
                if let Some(score) = aged.layout_score {
                    write!(f, ":{score}")?;
                }
                unless_usual(f, "turnovers", &aged.turnovers, &turnovers_for(aged.layout_score))?;
                unless_usual(f, "file_size", &aged.file_size, &usual.file_size)?;
                unless_usual(f, "together", &aged.together, &usual.together)
            }
            Self::Populated(tree) => {
                let usual = Populated::default();
                write!(f, ":{}", tree.files)?;
                unless_usual(f, "per_directory", &tree.per_directory, &usual.per_directory)?;
                unless_usual(f, "width", &tree.width, &usual.width)?;
                unless_usual(f, "file_size", &tree.file_size, &usual.file_size)
            }
            Self::Loaded(loaded) => write!(f, ":{}", loaded.loads),
        }
    }
}

fn unless_usual<T: PartialEq + fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: &T,
    usual: &T,
) -> fmt::Result {
    if value == usual { Ok(()) } else { write!(f, ":{name}={value}") }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = State;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state such as \"aged:70%\", or a table with its kind")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<State, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<State, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map))?.state().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for State {
    fn schema_name() -> Cow<'static, str> {
        "State".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let table = generator.subschema_for::<Table>();
        let text = schemars::json_schema!({
            "type": "string",
            "pattern": "^(fresh|filled|aged|populated|loaded)(:.+)*$",
        });
        schemars::json_schema!({
            "description": "the state of the filesystem when a load starts: fresh, filled:80%, aged:70%:0.9, \
                 populated:20000, loaded:3",
            "anyOf": [text, table],
        })
    }
}

/// Space on a filesystem, as `df` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Space {
    /// In use.
    pub used: Bytes,
    /// Space available to a user.
    pub available: Bytes,
}

impl Space {
    /// The size whose share, with the space in use already, is this utilisation; without one, the available space.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are far below 2^53, and what is negative is nothing"
    )]
    pub fn room(&self, utilisation: Option<Percent>) -> Bytes {
        let Some(share) = utilisation.map(Percent::fraction).filter(|share| *share > 0.0) else {
            return self.available;
        };
        let all = (self.used.0 + self.available.0) as f64;
        Bytes((all - self.used.0 as f64 / share).max(0.0) as u64)
    }
}

/// Figures of a prepared state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateFigures {
    /// The request, in its short form; for loaded data also the number of the load.
    #[serde(rename = "asked")]
    pub requested: String,
    /// Files in it.
    pub files: u64,
    /// Share of the space in use, as `df` shows it, in per cent.
    pub utilisation: f64,
    /// Bytes that a user can still fill.
    pub available: Bytes,
    /// Bytes written after the first fill, as multiples of the files' bytes.
    pub turnovers: f64,
    /// True if the requested layout score was reached; none without a request.
    pub layout_score_reached: Option<bool>,
    /// Layout of the files' blocks; none if the filesystem does not report it (FIEMAP), or no file has two blocks.
    pub layout: Option<Layout>,
    /// Fragmentation of the free space, or the reason why it is unknown.
    pub free_space: FreeSpace,
    /// Saved bytes of the device: those that differ from zero.
    pub saved: Bytes,
}

/// Layout of the blocks of files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Share of the pairs of neighbouring blocks of a file that are neighbours on the device too (Smith and Seltzer's
    /// layout score, over all files examined). 1: no file is split.
    pub score: f64,
    /// Extents of a file on average: stretches in one piece on the device.
    pub extents_per_file: f64,
    /// Files looked at.
    pub files: u64,
}

/// Fragmentation of free space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FreeSpace {
    /// By the filesystem's own tool.
    Known {
        /// The command line.
        tool: String,
        /// Free stretches.
        extents: u64,
        /// Their mean size.
        mean: Bytes,
        /// The largest is at least this large.
        largest: Bytes,
    },
    /// It cannot be known, and why.
    Unknown(String),
}

impl StateFigures {
    /// A one-line description.
    pub fn describe(&self) -> String {
        if self.files == 0 {
            return format!(
                "state {}: as created by mkfs, and restored before each run like the others",
                self.requested
            );
        }
        let mut parts =
            vec![format!("{:.1} % of the space in use by {} files", self.utilisation, self.files)];
        if self.turnovers > 0.0 {
            parts.push(format!("rewritten {:.1} times", self.turnovers));
        }
        if let Some(layout) = &self.layout {
            parts.push(format!("layout score {:.3}", layout.score));
            parts.push(format!("{:.2} extents per file", layout.extents_per_file));
        }
        if self.layout_score_reached == Some(false) {
            parts.push("THE REQUESTED LAYOUT SCORE WAS NOT REACHED".into());
        }
        parts.push(match &self.free_space {
            FreeSpace::Known { extents, mean, largest, .. } => format!(
                "free space in {extents} extents of {} on average, the largest at least {}",
                mean.human(),
                largest.human()
            ),
            FreeSpace::Unknown(why) => format!("fragmentation of free space unknown: {why}"),
        });
        format!("state {}: {}", self.requested, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(text: &str) -> State {
        text.parse().unwrap_or_else(|e: StateError| panic!("{e}"))
    }

    #[test]
    fn short_forms_parse_to_expected_states() {
        assert_eq!(state("fresh"), State::Fresh);
        let State::Filled(filled) = state("filled:85%") else { panic!() };
        assert_eq!(filled.utilisation, Percent(85.0));
        let State::Aged(aged) = state("aged:75%:0.9") else { panic!() };
        assert_eq!((aged.utilisation, aged.layout_score, aged.turnovers), (Percent(75.0), Some(0.9), 16));
        assert_eq!(state("aged"), State::Aged(Aged::default()));
        let State::Populated(tree) = state("populated:20000:width=3") else { panic!() };
        assert_eq!((tree.files, tree.width, tree.directories(), tree.depth()), (20_000, 3, 200, 5));
        assert_eq!(state("loaded"), State::Loaded(Loaded { loads: 3 }));
        assert_eq!(state("loaded:5"), State::Loaded(Loaded { loads: 5 }));
    }

    #[test]
    fn table_matches_short_form() {
        let file = |text: &str| toml::from_str::<std::collections::BTreeMap<String, State>>(text);
        let read = |text: &str| file(text).map(|mut map| map.remove("state").unwrap());
        let table = read("state = { kind = \"aged\", utilisation = \"60%\", turnovers = 9 }").unwrap();
        assert_eq!(table, state("aged:60%:turnovers=9"));
        assert_eq!(read("state = \"aged:60%:turnovers=9\"").unwrap(), table);
        for bad in [
            "state = { kind = \"filled\", turnovers = 3 }",
            "state = { kind = \"old\" }",
            "state = { kind = \"aged\", age = 3 }",
            "state = { utilisation = \"3%\" }",
            "state = 3",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (text, message) in [
            ("old", "write fresh"),
            ("old:50%", "there is no `old`; write fresh"),
            ("fresh:80%", "one too many"),
            ("filled:100%", "use 1% to 98%"),
            ("filled:80", "percent sign"),
            ("aged:70%:2", "use 0 (every block apart) to 1"),
            ("aged:70%:NaN", "use 0 (every block apart) to 1"),
            ("aged:turnovers=0", "use 1 to 1000"),
            ("aged:70%:0.9:5", "one too many"),
            ("populated:x", "not a whole number"),
            ("populated:20000:width=1", "more than 64 deep"),
            ("populated:turnovers=3", "has no `turnovers`"),
            ("filled:speed=3", "no parameter `speed`"),
            ("loaded:0", "use 1 to 16"),
        ] {
            let error = text.parse::<State>().unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn workload_room_is_space_left_by_state() {
        assert_eq!(State::Fresh.device_for(Bytes(800)), Bytes(1000));
        assert_eq!(state("filled:75%").device_for(Bytes(800)), Bytes(4000));
        assert!(state("populated:1000").device_for(Bytes(800)) > Bytes::mib(20));
        assert_eq!(state("aged:50%").space(Bytes(1000)), Bytes(500));
    }

    #[test]
    fn room_reflects_target_utilisation_and_used_space() {
        let space = Space { used: Bytes(100), available: Bytes(900) };
        // 50 % of 1000 are 500, of which 100 are in use: 400 are half of 800.
        assert_eq!(space.room(Some(Percent(50.0))), Bytes(800));
        assert_eq!(space.room(Some(Percent(5.0))), Bytes(0));
        assert_eq!(space.room(None), Bytes(900));
    }

    #[test]
    fn description_reports_unreached_score() {
        let figures = StateFigures {
            requested: "aged:70%:0.1".into(),
            files: 812,
            utilisation: 70.2,
            available: Bytes::mib(90),
            turnovers: 16.0,
            layout_score_reached: Some(false),
            layout: Some(Layout { score: 0.912, extents_per_file: 3.25, files: 812 }),
            free_space: FreeSpace::Unknown("btrfs has no tool for it".into()),
            saved: Bytes::mib(200),
        };
        let line = figures.describe();
        assert!(line.contains("70.2 %") && line.contains("layout score 0.912"), "{line}");
        assert!(line.contains("WAS NOT REACHED") && line.contains("no tool"), "{line}");
    }

    fn any_state() -> impl Strategy<Value = State> {
        let share = || (1_u32..950).prop_map(|tenths| Percent((f64::from(tenths) / 10.0).max(1.0)));
        let size = || (1_u64..=1024).prop_map(|kib4| Bytes::kib(4 * kib4));
        prop_oneof![
            Just(State::Fresh),
            (share(), size())
                .prop_map(|(utilisation, file_size)| State::Filled(Filled { utilisation, file_size })),
            (share(), prop::option::of(0.0..1.0_f64), 1_u32..20, size(), 1_u32..64).prop_map(
                |(utilisation, layout_score, turnovers, file_size, together)| State::Aged(Aged {
                    utilisation,
                    layout_score,
                    turnovers,
                    file_size,
                    together
                })
            ),
            (1_u32..1_000_000, 1_u32..1000, 2_u32..100, size()).prop_map(
                |(files, per_directory, width, file_size)| State::Populated(Populated {
                    files,
                    per_directory,
                    width,
                    file_size
                })
            ),
            (1_u32..=16).prop_map(|loads| State::Loaded(Loaded { loads })),
        ]
    }

    proptest! {
        #[test]
        fn text_form_round_trips(state in any_state()) {
            prop_assert!(state.check().is_ok());
            prop_assert_eq!(state.to_string().parse::<State>().unwrap(), state);
            let json = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        }

        #[test]
        fn any_text_is_a_state_or_an_error(text in ".{0,60}") {
            if let Ok(state) = text.parse::<State>() {
                prop_assert!(state.check().is_ok());
            }
        }
    }
}
