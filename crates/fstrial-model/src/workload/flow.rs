//! Programs over sets of files, as filebench, fs_mark, mdtest, bonnie++ and stores of sorted files run them.
//!
//! A [`Flow`] has sets of files and a list of steps; one operation is one turn: all steps, in order. A set is a fixed
//! table of places, each with a name and a size; a place holds a file or does not, so memory does not grow with a run.
//! The steps are in [`FlowStep`], one line of text each.

use super::{
    Behaviour, Durability, Pattern,
    behaviour::{WRITTEN_FROM, space_of_file},
    entry_error::{EntryError, entry_error},
    flow_step::{FlowStep, OpenFile, StepFile},
};
use crate::units::{Bytes, Percent, serde_as_text};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

/// Places of one set at most.
const MAX_FILES: u32 = 10_000_000;
/// Size of one file at most.
const MAX_FILE: Bytes = Bytes::gib(1024);
/// A histogram of latencies, in bytes.
const HISTOGRAM: u64 = 264 << 10;
/// Size of one request at most: every thread has buffers of that size.
const MAX_REQUEST: Bytes = Bytes::mib(16);
/// Steps of a turn at most, all repeats written out.
const MAX_STEPS: usize = 4096;
/// Limit of open descriptors kept for a set.
const MAX_KEPT: u32 = 4096;

/// A program over sets of files. One operation is one turn: every step, in order. All threads of a load run the same
/// steps on the same sets, except for those sets of which each thread has its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The sets of files: 1 to 16.
    #[serde(default)]
    pub sets: Vec<FileTree>,
    /// Steps of one turn, one line each: `create mail`, `write`, `fsync`, `close`, `10x (open mail, read, close)`.
    #[serde(default)]
    pub steps: Vec<FlowStep>,
    /// Turns of each thread; without it until the time is over or a set is worked through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Each thread that has done its amount calls `syncfs`, inside the time of the phase (bonnie++'s `sync`).
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub fsync_at_end: bool,
}

/// A set of files (or of empty directories) in a separate directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileTree {
    /// Its name in steps, and its directory: 1 to 32 lower-case letters, digits and hyphens, a letter first.
    pub name: String,
    /// Places for files, 1 to 10 million; with `per_thread` for each thread.
    pub files: u32,
    /// Size of each file, drawn once for each place: `16KiB`, `500B..10000B` (both included), `gamma 16KiB`.
    #[serde(default)]
    pub size: Size,
    /// Entries of a directory; 0: all files in one. As filebench's `dirwidth`: directories have widths around it and
    /// depths around ln(files) / ln(width), both gamma-distributed with shape 1.5.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub width: u32,
    /// Exactly `width` files in each directory, in order, one level deep, instead of filebench's tree.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub even: bool,
    /// Share of the places that hold a file before the clock starts.
    #[serde(default = "everything", skip_serializing_if = "is_everything")]
    pub present: Percent,
    /// Each thread has a separate set.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub per_thread: bool,
    /// The set was left by an earlier phase with the same name, files, sizes, width and names: nothing is laid out. Its
    /// files are known from that phase, or found by listing the set's directories before the clock starts.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub existing: bool,
    /// The entries are empty directories, for `mkdir`, `rmdir` and `stat`.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub directories: bool,
    /// Files are opened for reading only.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub read_only: bool,
    /// Files are opened with `O_SYNC`.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub sync: bool,
    /// The file that a step takes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub order: Order,
    /// Naming of files.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub names: Names,
    /// Characters of a name, 8 to 255.
    #[serde(default = "shortest_name", skip_serializing_if = "is_shortest_name")]
    pub name_length: u8,
    /// Names have up to this many characters more, each another number of them; 255 in all at most. Where all are of
    /// one length, a search in a directory compares more of them to the end.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub name_spread: u8,
}

fn everything() -> Percent {
    Percent(100.0)
}

fn is_everything(share: &Percent) -> bool {
    *share == everything()
}

fn shortest_name() -> u8 {
    8
}

fn is_shortest_name(length: &u8) -> bool {
    *length == shortest_name()
}

/// The file that a step takes: an existing one, or a free place for `create`, `mkdir` and the goal of `rename`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The next one, in a circle that all threads and all steps share (filebench). Another circle for free places.
    #[default]
    Next,
    /// Any one.
    Random,
    /// Each thread has a part of the set, and each kind of step goes through it once, in order; then the thread has
    /// done its amount.
    Own,
    /// As `own`, in an order shuffled once.
    Shuffled,
    /// As `own`, in the order in which the directories list their files before the clock starts.
    Readdir,
}

impl Order {
    /// True if each kind of step goes through the set once and then ends the thread.
    pub const fn is_once(self) -> bool {
        matches!(self, Self::Own | Self::Shuffled | Self::Readdir)
    }
}

/// Naming of a set's files, always unique.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Names {
    /// Names in the order of the places.
    #[default]
    Ordered,
    /// Names whose order is unrelated to that of the places.
    Scrambled,
}

/// The sizes of a set's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// All the same.
    Fixed(Bytes),
    /// Uniform, both ends included.
    Uniform {
        /// The smallest.
        low: Bytes,
        /// The largest.
        high: Bytes,
    },
    /// Gamma-distributed with shape 1.5 (filebench).
    Gamma {
        /// Mean size: the `16KiB` of `gamma 16KiB`.
        mean: Bytes,
    },
}

impl Size {
    /// The mean, rounded down.
    pub const fn mean(self) -> Bytes {
        match self {
            Self::Fixed(size) => size,
            Self::Uniform { low, high } => Bytes(low.0.midpoint(high.0)),
            Self::Gamma { mean } => mean,
        }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self::Fixed(Bytes(0))
    }
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = |text: &str| text.trim().parse::<Bytes>().map_err(|error| error.to_string());
        if let Some(mean) = text.trim().strip_prefix("gamma ") {
            return Ok(Self::Gamma { mean: bytes(mean)? });
        }
        match text.split_once("..") {
            Some((low, high)) => Ok(Self::Uniform { low: bytes(low)?, high: bytes(high)? }),
            None => {
                Ok(Self::Fixed(bytes(text).map_err(|error| {
                    format!("{error}; write one size, \"500B..10000B\" or \"gamma 16KiB\"")
                })?))
            }
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Uniform { low, high } => write!(f, "{low}..{high}"),
            Self::Gamma { mean } => write!(f, "gamma {mean}"),
        }
    }
}

serde_as_text!(Size, "^(gamma +)?[0-9.]+", "sizes of files: 16KiB, 500B..10000B, gamma 16KiB");

/// True if `name` can be used in a step.
fn is_name(name: &str) -> bool {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=32).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(part)
        && !super::flow_step::RESERVED.contains(&name)
}

/// The referent of an open file's name.
struct Handle<'a> {
    set: &'a FileTree,
    is_open: bool,
}

impl Behaviour for Flow {
    fn words(&self) -> &'static str {
        "programs over sets of files"
    }

    fn check(&self) -> Result<(), EntryError> {
        if self.sets.is_empty() || self.sets.len() > 16 {
            return Err(entry_error(
                "sets",
                format!("{} sets of files", self.sets.len()),
                "use 1 to 16 sets",
            ));
        }
        for (n, set) in self.sets.iter().enumerate() {
            set.check("sets")?;
            if self.sets[..n].iter().any(|other| other.name == set.name) {
                return Err(entry_error(
                    "sets",
                    format!("two sets are called `{}`", set.name),
                    "name them apart",
                ));
            }
        }
        if self.turns == Some(0) {
            return Err(entry_error("turns", "turns = 0 does nothing", "use 1 or more, or leave turns out"));
        }
        if self.fsync_at_end && !self.ends() {
            return Err(entry_error(
                "fsync_at_end",
                "threads that do this come to no end that a sync could belong to",
                "set turns, or leave fsync_at_end out",
            ));
        }
        let length = self.steps.iter().fold(0_usize, |sum, step| sum.saturating_add(step.length()));
        if !(1..=MAX_STEPS).contains(&length) {
            return Err(entry_error(
                "steps",
                format!("a turn cannot have {length} steps"),
                "use 1 to 4096 steps, all repeats counted",
            ));
        }
        let mut handles = BTreeMap::new();
        self.written_out().into_iter().try_for_each(|step| self.check_step(step, &mut handles))
    }

    /// True if threads end without a time limit: after this many turns, when each has gone through its part of a set,
    /// or because a turn leaves a set fuller or emptier than before. Otherwise a set that runs full or empty is an
    /// error of the run.
    fn ends(&self) -> bool {
        self.turns.is_some()
            || self.sets.iter().any(|set| set.order.is_once())
            || self.growth().values().any(|n| *n != 0)
    }

    fn is_buffered_write(&self) -> bool {
        let steps = self.written_out();
        let writes = steps.iter().any(|step| step.writes());
        let syncs = steps.iter().any(|step| step.syncs()) || self.sets.iter().any(|set| set.sync);
        writes && !syncs
    }

    fn buffers_of_a_thread(&self) -> Bytes {
        // Every kind of step has a histogram; programs of many steps repeat some kinds.
        let kinds = self.written_out().len().min(6) as u64;
        let request = self.largest_request().0.min(MAX_REQUEST.0);
        Bytes(WRITTEN_FROM.max(request) + request + kinds * HISTOGRAM)
    }

    fn takes_rate(&self) -> bool {
        true
    }

    fn durability(&self) -> Durability {
        let steps = self.written_out();
        if self.sets.iter().any(|set| set.sync) && steps.iter().any(|step| step.writes()) {
            Durability::PerRequest
        } else if steps.iter().any(|step| step.syncs()) {
            Durability::PerFile
        } else if self.fsync_at_end {
            Durability::AtEnd
        } else if steps.iter().any(|step| changes(step)) {
            Durability::None
        } else {
            Durability::ReadsOnly
        }
    }

    fn in_one_folder(&self, clients: u16) -> Result<Pattern, &'static str> {
        let is_same_for_all = |set: &FileTree| {
            let is_flat = set.width == 0 || set.even;
            let is_divided = matches!(set.order, Order::Own | Order::Shuffled);
            is_flat && matches!(set.size, Size::Fixed(_)) && is_divided
        };
        let mut sets = self.sets.clone();
        for set in sets.iter_mut().filter(|set| !set.per_thread) {
            if !is_same_for_all(set) {
                return Err("a set that clients share has files of one size, width = 0 or even = true, and \
                            order = \"own\" or \"shuffled\"");
            }
            set.files = set.files.saturating_mul(clients.into());
            if set.files > MAX_FILES {
                return Err("a set has 10000000 files at most, those of all clients together");
            }
        }
        Ok(Pattern::Flow(Self { sets, ..self.clone() }))
    }

    /// All places hold a file of their size. Appends come on top.
    fn space_needed(&self, threads: u16) -> Bytes {
        let of = |set: &FileTree| {
            let sets = if set.per_thread { u64::from(threads) } else { 1 };
            space_of_file(set.size.mean()).saturating_mul(u64::from(set.files)).saturating_mul(sets)
        };
        let sum = self.sets.iter().fold(0_u64, |sum, set| sum.saturating_add(of(set)));
        Bytes(sum.saturating_add(sum / 8))
    }
}

impl Flow {
    /// The steps with all repeats written out.
    pub fn written_out(&self) -> Vec<&FlowStep> {
        let mut all = Vec::new();
        self.steps.iter().for_each(|step| step.write_out(&mut all));
        all
    }

    /// True if all places of a set have a file when every thread has done its amount; none: if they had before.
    pub(super) fn leaves_whole(&self, set: &FileTree) -> Option<bool> {
        let growth = self.growth().get(set.name.as_str()).copied().unwrap_or(0);
        match (growth, set.existing) {
            (0, true) => None,
            (0, false) => Some(is_everything(&set.present)),
            (1, false) => Some(set.present.is_zero() && set.order.is_once() && self.turns.is_none()),
            _ => Some(false),
        }
    }

    /// Files that each turn adds to each set, or takes from it.
    fn growth(&self) -> BTreeMap<&str, i64> {
        let mut growth = BTreeMap::new();
        let mut handles: BTreeMap<&str, &str> = BTreeMap::new();
        for step in self.written_out() {
            let mut add = |set: &'_ str, n: i64| {
                if let Some(set) = self.sets.iter().find(|s| s.name == set) {
                    *growth.entry(set.name.as_str()).or_insert(0) += n;
                }
            };
            let of = |target: &StepFile| match target {
                StepFile::Set(set) => set.clone(),
                StepFile::On(handle) => handles.get(handle.as_str()).copied().unwrap_or_default().to_owned(),
            };
            match step {
                FlowStep::Create { set, .. } | FlowStep::Mkdir { set } => add(set, 1),
                FlowStep::Rmdir { set } => add(set, -1),
                FlowStep::Delete { target } => add(&of(target), -1),
                FlowStep::Rename { target, to, over } => {
                    add(&of(target), -1);
                    add(to, i64::from(!over));
                }
                _ => {}
            }
            if let FlowStep::Create { set, handle } | FlowStep::Open { set, handle } = step {
                handles.insert(handle, set);
            }
        }
        growth
    }

    /// The size of the largest request of any step.
    pub fn largest_request(&self) -> Bytes {
        self.written_out().into_iter().filter_map(FlowStep::request).max().unwrap_or(Bytes(1))
    }

    fn set(&self, name: &str, step: &FlowStep) -> Result<&FileTree, EntryError> {
        self.sets.iter().find(|set| set.name == name).ok_or_else(|| {
            let names: Vec<_> = self.sets.iter().map(|set| set.name.as_str()).collect();
            entry_error(
                "steps",
                format!("`{step}`: there is no set `{name}`"),
                format!("the sets are {}", names.join(", ")),
            )
        })
    }

    /// One step, given which handle stands for a file of which set by then.
    fn check_step<'a>(
        &'a self,
        step: &'a FlowStep,
        handles: &mut BTreeMap<&'a str, Handle<'a>>,
    ) -> Result<(), EntryError> {
        let wrong =
            |problem: &str, hint: &str| Err(entry_error("steps", format!("`{step}`: {problem}"), hint));
        let on = |handle: &str| {
            handles.get(handle).map(|handle| handle.set).ok_or_else(|| {
                entry_error(
                    "steps",
                    format!("`{step}`: no step before it opens or creates `{handle}`"),
                    "put \"open SET\" or \"create SET\" before it, with \"as NAME\" for more than one file",
                )
            })
        };
        if let Some(request) = step.request()
            && !(1..=MAX_REQUEST.0).contains(&request.0)
        {
            return wrong("the size of its request is out of range", "use 1B to 16MiB");
        }
        let mut used = Vec::new();
        match step.file() {
            Some(OpenFile::On(handle)) => {
                used.push(on(handle)?);
                if handles.get(handle.as_str()).is_some_and(|handle| !handle.is_open) {
                    return wrong(
                        "the file is closed by then",
                        "put it before `close`, or open the file again",
                    );
                }
            }
            Some(OpenFile::In(set)) => {
                let set = self.set(set, step)?;
                if self.is_changed(&set.name)
                    || set.existing
                    || !is_everything(&set.present)
                    || set.files > MAX_KEPT
                {
                    return wrong(
                        "files that are kept open cannot come and go",
                        "with \"in SET\" all files are there from the start, at most 4096, and no step makes or deletes any",
                    );
                }
                used.push(set);
            }
            None => {}
        }
        for target in step.targets() {
            match target {
                StepFile::Set(set) => used.push(self.set(&set, step)?),
                StepFile::On(handle) => used.push(on(&handle)?),
            }
        }
        suits(step, &used)?;
        if let FlowStep::Create { set, handle } | FlowStep::Open { set, handle } = step {
            handles.insert(handle, Handle { set: self.set(set, step)?, is_open: true });
        }
        if let FlowStep::Close { handle } = step
            && let Some(handle) = handles.get_mut(handle.as_str())
        {
            handle.is_open = false;
        }
        Ok(())
    }

    /// True if any step makes, deletes or renames files of a set.
    fn is_changed(&self, set: &str) -> bool {
        self.growth().contains_key(set)
    }
}

/// True if a step changes a set or the data of a file.
fn changes(step: &FlowStep) -> bool {
    let entries = matches!(
        step,
        FlowStep::Create { .. }
            | FlowStep::Delete { .. }
            | FlowStep::Rename { .. }
            | FlowStep::Mkdir { .. }
            | FlowStep::Rmdir { .. }
    );
    entries || step.writes()
}

/// Refuses a step that cannot do its work on those sets.
fn suits(step: &FlowStep, used: &[&FileTree]) -> Result<(), EntryError> {
    let wrong = |problem: &str, hint: &str| Err(entry_error("steps", format!("`{step}`: {problem}"), hint));
    if step.writes() && used.iter().any(|set| set.read_only) {
        return wrong("the set is read only", "leave out read_only");
    }
    let directories = matches!(step, FlowStep::Mkdir { .. } | FlowStep::Rmdir { .. });
    let either = matches!(
        step,
        FlowStep::Stat { .. } | FlowStep::Rename { .. } | FlowStep::Readdir { .. } | FlowStep::Syncfs { .. }
    );
    if !either && used.iter().any(|set| set.directories != directories) {
        return wrong(
            "the wrong kind of set",
            "mkdir and rmdir take a set with directories = true, the others one without",
        );
    }
    if let FlowStep::Rename { to, .. } = step
        && used
            .iter()
            .any(|set| set.directories != used[0].directories || set.per_thread != used[0].per_thread)
    {
        return wrong(
            &format!("a file of it cannot become one of `{to}`"),
            "rename between sets of one kind",
        );
    }
    if let FlowStep::Rename { target: StepFile::Set(from), to, over: true } = step
        && from == to
    {
        return wrong("a file would replace itself", "rename over another set's files");
    }
    let makes = matches!(step, FlowStep::Create { .. } | FlowStep::Mkdir { .. });
    if makes && used.iter().any(|set| set.order == Order::Readdir) {
        return wrong("a directory does not list files that are not there", "use another order for the set");
    }
    Ok(())
}

impl FileTree {
    /// A set of `files` files of one size, all there, in one directory, taken one after the other.
    pub fn new(name: &str, files: u32, size: Bytes) -> Self {
        Self {
            name: name.to_owned(),
            files,
            size: Size::Fixed(size),
            width: 0,
            even: false,
            present: everything(),
            per_thread: false,
            existing: false,
            directories: false,
            read_only: false,
            sync: false,
            order: Order::Next,
            names: Names::Ordered,
            name_length: shortest_name(),
            name_spread: 0,
        }
    }

    /// Refuses sets that cannot be; `key` is where they are written.
    pub(super) fn check(&self, key: &'static str) -> Result<(), EntryError> {
        let wrong = |problem: String, hint: &str| Err(entry_error(key, problem, hint));
        if !is_name(&self.name) {
            return wrong(
                format!("a set cannot be called `{}`", self.name),
                "use lower-case letters, digits and hyphens, a letter first, and no word of the steps",
            );
        }
        if !(1..=MAX_FILES).contains(&self.files) {
            return wrong(
                format!("files = {} in `{}` is out of range", self.files, self.name),
                "use 1 to 10000000",
            );
        }
        let largest = match self.size {
            Size::Fixed(size) | Size::Gamma { mean: size } => size,
            Size::Uniform { low, high } if low > high => {
                return wrong(
                    format!("size in `{}` goes from {low} down to {high}", self.name),
                    "put the smaller first",
                );
            }
            Size::Uniform { high, .. } => high,
        };
        if largest > MAX_FILE {
            return wrong(format!("files of {largest} in `{}` are too large", self.name), "use at most 1TiB");
        }
        if self.width == 1 || (self.even && self.width == 0) {
            return wrong(
                format!("directories of width {} in `{}`", self.width, self.name),
                "use a width of 2 or more; 0 puts all files into one directory",
            );
        }
        if !(0.0..=100.0).contains(&self.present.0) {
            return wrong(format!("{} of the files of `{}`", self.present, self.name), "use 0% to 100%");
        }
        if self.name_length < shortest_name() {
            return wrong(
                format!("names of {} characters in `{}`", self.name_length, self.name),
                "use 8 to 255",
            );
        }
        if self.name_length.checked_add(self.name_spread).is_none() {
            return wrong(
                format!(
                    "names of up to {} + {} characters in `{}`",
                    self.name_length, self.name_spread, self.name
                ),
                "name_length and name_spread are 255 together at most",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
