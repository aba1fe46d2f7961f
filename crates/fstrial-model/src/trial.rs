//! The trial file: its structure, reading it with errors that underline the place, checking it, printing it.
//!
//! Every flag of `fstrial compare` writes the same structure, so [`Trial::to_toml`] of a command line is the file that
//! repeats it. Files come from elsewhere and are not trusted: size is bounded before parsing, and every refusal names
//! the line.

use crate::{
    arm::{Arm, CacheMode, Switch},
    claim::{Claim, Machine, era::Rules},
    device::{Device, DeviceKind, LogDevice, LogKind},
    metric::Metric,
    place::{Clock, PlaceSpec},
    problem::{Problem, TrialError, problem, read_toml},
    state::{Restoring, State},
    units::{Bytes, Nanos, Percent},
    workload::{Entry, Workload},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod checks;
mod control;
mod files;

pub use crate::problem::MAX_FILE_BYTES;
pub use files::{Files, NamedFileError};

/// One question with everything needed to answer it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The statement that the trial is to decide, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Box<Claim>>,
    /// Duration, confidence, metrics and baseline.
    #[serde(default)]
    pub trial: Settings,
    /// The device every arm is built on.
    #[serde(default)]
    pub device: Device,
    /// The device for journals and logs of arms that put theirs on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_device: Option<LogDevice>,
    /// Places of arms in addition to the host that runs fstrial.
    #[serde(default, rename = "place", skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceSpec>,
    /// The storage configurations compared.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// The workloads on them.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<Entry>,
}

/// Duration, confidence, metrics and baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Name of the trial.
    pub name: String,
    /// Wall time; the trial stops earlier when every contrast is decided.
    pub budget: Nanos,
    /// The band inside which a difference does not matter.
    pub practical: Percent,
    /// A verdict waits for the rounds that would show, with 95 %, that an arm loses time in this share of its runs (29 rounds
    /// for 10%); default: it waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Percent>,
    /// Subject of the comparison: `arms` under each workload (default), or `workloads` on each arm.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub compare: Compare,
    /// The trial is for receipts: nothing is compared, so one arm is enough.
    #[serde(skip)]
    pub is_for_receipts: bool,
    /// Compare every arm (or workload) with this one only; default: all pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The metrics that keep the trial running until they are decided.
    pub decide_on: Vec<Metric>,
    /// The guarantee over all verdicts together.
    pub errors: ErrorControl,
    /// Controls: `true` adds the first arm (or the baseline) with a known slowdown of twice the band, required for
    /// every "equivalent"; `false` (default).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub control: bool,
    /// Leads: `true` compares arms at each place separately, and their ratios with those at the first place ("xfs
    /// leads by more on the faster disk"); `false` (default). Every arm is at two places or more.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub leads: bool,
    /// The length of one more run in each arm before the first round, a pilot that looks for periods and slopes that the
    /// runs themselves are too short to show; default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pilot: Option<Nanos>,
    /// At most this many rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Stopping rule: `true` (default) stops the trial when it is decided; `false` runs all `rounds` and decides once,
    /// after the last.
    #[serde(skip_serializing_if = "is_true")]
    pub sequential: bool,
    /// The seed everything random is drawn from; default: drawn and printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Check the filesystem fully after every run; a corrupt one is a failed run.
    pub fsck: bool,
    /// Runs of each arm under each load that syncs in which the power is cut, before the first round; default: none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub receipt: u32,
    /// Rounds that are observed after the last one, to explain the verdicts on throughput; default: none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub explain: u32,
    /// Content of the filesystem when a load begins, for arms that name no state; default: empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Method of restoring a prepared state before each run: `copy` (default) or `clone`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub restore: Restoring,
    /// The limit for the memory of the load and its page cache together, for arms that name none; default: the
    /// machine's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Number of clients that make each run together, each with the threads of the level, started by MPI: 1 (default)
    /// to
    /// 10000. All arms are directories that they share.
    #[serde(skip_serializing_if = "is_one")]
    pub clients: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_one(value: &u16) -> bool {
    *value == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_true(value: &bool) -> bool {
    *value
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            budget: Nanos::secs(300),
            practical: Percent(3.0),
            stalls: None,
            compare: Compare::Arms,
            is_for_receipts: false,
            baseline: None,
            decide_on: vec![Metric::Throughput],
            errors: ErrorControl::Fdr,
            control: false,
            leads: false,
            pilot: None,
            rounds: None,
            sequential: true,
            seed: None,
            fsck: false,
            receipt: 0,
            explain: 0,
            state: None,
            restore: Restoring::Copy,
            memory: None,
            clients: 1,
        }
    }
}

/// Subject of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Arms, under the same workload at the same level.
    #[default]
    Arms,
    /// Workloads, on the same arm at the same level, by their results of the same name and unit: for example a built-in
    /// workload and the tool it models.
    Workloads,
}

/// The guarantee over all verdicts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorControl {
    /// At most 5 % of the reported differences are wrong on average (Benjamini–Hochberg).
    #[default]
    Fdr,
    /// The chance of even one wrong difference is at most 5 % (Holm).
    Fwer,
}

/// A trial that hangs neither on the machine it was written on nor on the presets of a version. Settling one again changes
/// nothing. Only such a trial can be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    trial: Trial,
    workloads: Vec<Workload>,
    cpus: u16,
}

impl Settled {
    /// The trial, every workload written out.
    pub const fn trial(&self) -> &Trial {
        &self.trial
    }

    /// The trial, the workloads its entries describe, and the number of processors it was settled for.
    pub fn into_parts(self) -> (Trial, Vec<Workload>, u16) {
        (self.trial, self.workloads, self.cpus)
    }
}

impl Trial {
    /// Reads and checks a trial file that names no other files. `name` is for messages only.
    ///
    /// # Errors
    /// The first thing wrong, with the place underlined.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        Self::read(name, text)?.checked(name, text)
    }

    /// Reads and checks a trial file, and the files that it names. The trial of a claim is fitted to a machine before.
    ///
    /// # Errors
    /// The first thing wrong, with the place underlined.
    pub fn parse_with_files(
        name: &str,
        text: &str,
        files: &mut dyn Files,
        machine: &Machine,
    ) -> Result<Self, Box<TrialError>> {
        let mut trial = Self::read(name, text)?;
        trial.take_files(files).map_err(|(found, within)| {
            let within = within.into_iter().map(|place| *place).collect();
            Box::new(TrialError { within, ..found.at(name, text) })
        })?;
        trial.fit(machine, &Rules::shipped()).map_err(|missing| {
            let found = problem(
                &["claim"],
                missing,
                "`fstrial claims check` reports this for each claim and continues",
            );
            Box::new(found.at(name, text))
        })?;
        trial.checked(name, text)
    }

    /// Reads the file of a claim as written: before scaling and replacements it need not be a runnable trial.
    /// [`checked`](Self::checked) validates it afterwards.
    ///
    /// # Errors
    /// The first thing wrong, with the place underlined.
    pub fn read_claim(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        let trial = Self::read(name, text)?;
        let none =
            || problem(&[], "it is a trial without a claim", "add [claim]; `fstrial claims new` shows how");
        match trial.claim.as_ref().map_or_else(|| Some(none()), |claim| claim.problem()) {
            None => Ok(trial),
            Some(found) => Err(Box::new(found.at(name, text))),
        }
    }

    fn read(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        read_toml(name, text, MAX_FILE_BYTES)
    }

    /// Settles defaults and validates the rest. `name` and `text` are of the file, for messages.
    ///
    /// # Errors
    /// The first thing impossible, with the place underlined.
    pub fn checked(mut self, name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        self.normalise();
        match self.problem() {
            None => Ok(self),
            Some(found) => Err(Box::new(found.at(name, text))),
        }
    }

    /// Settles defaults: the names of arms, and the device of directories.
    pub fn normalise(&mut self) {
        // Directories are a kind of device; no other could be meant.
        if !self.arms.is_empty()
            && self.arms.iter().all(Arm::is_directory)
            && self.device == Device::default()
        {
            self.device.kind = DeviceKind::Directory;
        }
        for arm in &mut self.arms {
            if arm.name.is_empty() {
                arm.name = arm.default_name();
            }
        }
    }

    /// The equivalent file.
    ///
    /// # Panics
    /// Never: every field can be written as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a trial consists of strings, numbers and lists")
    }

    /// The device that an arm is built on.
    pub fn device_of(&self, arm: &Arm) -> &Device {
        let place = self.places.iter().find(|place| Some(&place.name) == arm.place.as_ref());
        place.and_then(|place| place.device.as_ref()).unwrap_or(&self.device)
    }

    /// An arm as built: with its device's properties, unless the arm overrides them. A model states whether it rotates,
    /// and whether its cache is volatile.
    #[must_use]
    pub fn built(&self, arm: &Arm) -> Arm {
        let device = self.device_of(arm);
        let model = device.modelled();
        let rotates = model.as_ref().map(|model| if model.disk.is_some() { Switch::On } else { Switch::Off });
        let cache = model.as_ref().map(|model| match model.has_volatile_cache() {
            true => CacheMode::WriteBack,
            false => CacheMode::WriteThrough,
        });
        let rotational = arm.rotational.or(device.rotational).or(rotates);
        Arm { rotational, cache: arm.cache.or(cache), ..arm.clone() }
    }

    /// The trial as it concerns a place: on the place's own device, if it has one.
    #[must_use]
    pub fn at(&self, place: &PlaceSpec) -> Self {
        let device = place.device.as_ref().unwrap_or(&self.device).clone();
        Self { device, ..self.clone() }
    }

    /// The trial with every workload written out, independent of this machine, which has that many processors, and of this
    /// version's presets.
    ///
    /// # Errors
    /// The first entry that describes no workload.
    pub fn settled(&self, cpus: u16) -> Result<Settled, Problem> {
        // A guest in virtual time has one, regardless of this machine.
        let cpus = if self.has_clock(Clock::Virtual) { 1 } else { cpus };
        let workloads = self.resolve_workloads(cpus)?;
        let settle = |entry: &Entry| entry.settled(cpus).expect("resolved just above");
        let trial = Self {
            claim: self.claim.as_ref().map(|claim| Box::new(claim.settled(cpus))),
            device: self.device.settled(),
            places: self.places.iter().map(PlaceSpec::settled).collect(),
            workloads: self.workloads.iter().map(settle).collect(),
            ..self.clone()
        };
        Ok(Settled { trial, workloads, cpus })
    }

    /// The workloads with every field settled.
    ///
    /// # Errors
    /// The first entry that describes no workload.
    pub fn resolve_workloads(&self, cpus: u16) -> Result<Vec<Workload>, Problem> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut workloads = Vec::with_capacity(self.workloads.len());
        for (index, entry) in self.workloads.iter().enumerate() {
            let at = index.to_string();
            let workload = entry.resolve(cpus).map_err(|error| Problem {
                path: vec!["workload".into(), at.clone(), error.key.into()],
                message: error.problem,
                hint: error.hint,
            })?;
            if let Some(first) = seen.insert(workload.name.clone(), index) {
                return Err(problem(
                    &["workload", &at, "name"],
                    format!("workloads {} and {} are both called `{}`", first + 1, index + 1, workload.name),
                    "give one of them another name = \"…\"",
                ));
            }
            workloads.push(workload);
        }
        Ok(workloads)
    }

    /// The state of an arm's filesystem: its own, the trial's, or fresh. None for the bare device and directories.
    pub fn state_of(&self, arm: &Arm) -> Option<State> {
        arm.row().map(|_| arm.state.or(self.trial.state).unwrap_or_default())
    }

    /// Number of loads of the workloads' data on an arm before the first round; none if every run loads them.
    pub fn loads(&self, arm: &Arm) -> Option<u32> {
        match self.state_of(arm)? {
            State::Loaded(loaded) => Some(loaded.loads),
            _ => None,
        }
    }

    /// The limit for the memory of loads on an arm, if there is one: its own, or the trial's.
    pub fn memory_of(&self, arm: &Arm) -> Option<Bytes> {
        arm.memory.or(self.trial.memory)
    }

    /// The memory that all arms have, where they have limits: the least of them.
    pub fn least_memory(&self) -> Option<Bytes> {
        self.arms.iter().filter_map(|arm| self.memory_of(arm)).min().or(self.trial.memory)
    }

    /// True if a place is on the host that runs fstrial: that of an arm that names none, or another device of it.
    pub fn is_here(&self, place: Option<&String>) -> bool {
        place.is_none_or(|name| self.places.iter().any(|place| place.name == *name && place.is_here()))
    }

    /// The boots of this host that its arms are at.
    pub fn boots(&self) -> impl Iterator<Item = &str> {
        self.places.iter().filter(|place| place.boot).map(|place| place.name.as_str())
    }

    /// True if its arms are on boots of this host: then all are.
    pub fn has_boots(&self) -> bool {
        self.boots().next().is_some()
    }

    /// True if a metric of an arm describes its configuration: in some guests times are the emulator's.
    pub fn can_judge(&self, arm: &Arm, metric: Metric) -> bool {
        metric.is_counted() || self.clock_of(arm) != Clock::Emulator
    }

    /// True if this is the clock of any arm.
    pub fn has_clock(&self, clock: Clock) -> bool {
        self.arms.iter().any(|arm| self.clock_of(arm) == clock)
    }

    /// Passage of time at the place of an arm.
    pub fn clock_of(&self, arm: &Arm) -> Clock {
        self.guest_of(arm).map_or(Clock::Real, |place| self.clock_at(place))
    }

    /// Passage of time at a place. Virtual time does not wait for this host: everything that a load waits for must be
    /// in the guest.
    pub fn clock_at(&self, place: &PlaceSpec) -> Clock {
        let device = place.device.as_ref().unwrap_or(&self.device);
        let has_log = self.log_device.as_ref().is_some_and(|log| log.kind != LogKind::Ramdisk);
        match (&place.kernel, place.kvm) {
            (Some(_), false) if device.is_in_memory() && !has_log => Clock::Virtual,
            (Some(_), false) => Clock::Emulator,
            _ => Clock::Real,
        }
    }

    /// The guest that an arm runs in.
    pub fn guest_of(&self, arm: &Arm) -> Option<&PlaceSpec> {
        let is_its = |place: &&PlaceSpec| Some(&place.name) == arm.place.as_ref();
        self.places.iter().find(is_its).filter(|place| place.kernel.is_some())
    }

    /// True if filesystems are prepared once and restored before each run. Then all are, fresh ones too, so that every
    /// run finds a device with the same preceding writes.
    pub fn restores(&self) -> bool {
        let states = self.arms.iter().filter_map(|arm| self.state_of(arm));
        self.trial.restore != Restoring::Copy || states.into_iter().any(|state| !state.is_fresh())
    }

    /// The arm that leaves the least room for a workload of this size, with the device it needs.
    fn tightest(&self, needed: Bytes) -> Option<(&Arm, Bytes)> {
        let states = self.arms.iter().filter_map(|arm| Some((arm, self.state_of(arm)?)));
        states.map(|(arm, state)| (arm, state.device_for(needed))).max_by_key(|(_, size)| *size)
    }

    /// The least device that a workload of this size needs in addition to the states of all arms.
    pub fn device_for(&self, needed: Bytes) -> Bytes {
        let bare = self.tightest(needed).map_or(State::Fresh.device_for(needed), |(_, size)| size);
        let layers = self.arms.iter().filter_map(|arm| arm.layer);
        layers.map(|layer| layer.device_for(bare)).max().unwrap_or(bare)
    }

    /// The size of an image or ramdisk: the requested size, or 2GiB, or twice the need of the largest workload, or its
    /// need in addition to the arms' states.
    pub fn device_size(&self, workloads: &[Workload]) -> Bytes {
        let needed = workloads.iter().map(|workload| workload.most_space_needed().0).max().unwrap_or(0);
        let least = (needed * 2).max(Bytes::gib(2).0).max(self.device_for(Bytes(needed)).0);
        self.device.size.unwrap_or(Bytes(least.next_multiple_of(1 << 20)))
    }
}

/// True if an arm can run a workload at all: the bare device has no files to make, cannot be appended to, and is one
/// set of files.
pub fn can_run(arm: &Arm, workload: &Workload) -> bool {
    let is_raw_able = !arm.is_raw() || runs_on_bare_device(workload);
    let shows_its_control = match (arm.control_of.is_some(), arm.slowed.is_some()) {
        (false, _) => true,
        (true, false) => shows_a_handicap(workload),
        (true, true) => workload.results().any(|result| result.offered_rate.is_none()),
    };
    is_raw_able && shows_its_control
}

/// True if a slowdown of a load shows in a figure of a workload: not if a program does the work, nor if the rate is
/// given.
fn shows_a_handicap(workload: &Workload) -> bool {
    workload.is_load() && workload.results().any(|result| result.offered_rate.is_none())
}

fn runs_on_bare_device(workload: &Workload) -> bool {
    let mut groups = workload.phases().iter().flat_map(|phase| &phase.groups).peekable();
    let first = groups.peek().map(|group| group.set.clone());
    workload.is_load()
        && groups.all(|group| group.pattern.runs_on_bare_device() && Some(&group.set) == first.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = r#"
[trial]
name = "dio-scaling"
budget = "10m"
practical = "3%"

[device]
kind = "image"
size = "4GiB"

[[arm]]
name = "ext4"
filesystem = "ext4"

[[arm]]
name = "xfs-16ag"
filesystem = "xfs"
mkfs = ["-d", "agcount=16"]
mount = ["noatime"]
scheduler = "mq-deadline"

[[workload]]
use = "random-write"
threads = [1, 4, 16]
file_size = "1GiB"
"#;

    fn shown(text: &str) -> String {
        rendered(&Trial::parse("trial.toml", text).unwrap_err())
    }

    pub(super) fn rendered(error: &TrialError) -> String {
        let mut out = String::new();
        let theme = miette::GraphicalTheme {
            characters: miette::ThemeCharacters::ascii(),
            styles: miette::ThemeStyles::none(),
        };
        miette::GraphicalReportHandler::new_themed(theme)
            .with_width(100)
            .render_report(&mut out, error)
            .unwrap();
        out
    }

    #[test]
    fn arms_inherit_rotational_and_cache_from_device() {
        let on = |device: &str| {
            let arms = "[[arm]]\nfilesystem = 'btrfs'\n[[arm]]\nfilesystem = 'xfs'\nrotational = 'off'\n";
            let text = format!("[device]\n{device}\n{arms}[[workload]]\nuse = 'append-fsync'\n");
            Trial::parse("t.toml", &text).unwrap()
        };
        let of = |name: &str| {
            let trial = on(&format!("kind = 'model'\nmodel = '{name}'"));
            let arm = trial.built(&trial.arms[0]);
            (arm.rotational.unwrap() == Switch::On, arm.cache.unwrap() == CacheMode::WriteBack)
        };
        let output: Vec<(&str, (bool, bool))> =
            crate::device_model::MODELS.iter().map(|(name, _)| (*name, of(name))).collect();
        assert_eq!(
            output,
            [
                ("ideal", (false, false)),
                ("nvme", (false, false)),
                ("sata-ssd", (false, true)),
                ("sata-ssd-2012", (false, true)),
                ("gp3-3000", (false, false)),
                ("gp2-burst", (false, false)),
                ("ebs-300", (false, false)),
                ("c3-large", (false, false)),
                ("hdd-7200", (true, true)),
                ("raid10-bbwc", (true, false)),
                ("raid10-hdd", (true, false)),
            ]
        );
        let arms = "[[arm]]\nfilesystem = 'ext4'\nmount = ['noatime']\n[[arm]]\nfilesystem = 'xfs'\n";
        let device = "[device]\nkind = 'model'\nmodel = 'sata-ssd'\n";
        let trial =
            Trial::parse("t.toml", &format!("{device}{arms}[[workload]]\nuse = 'append-fsync'\n")).unwrap();
        assert_eq!(trial.arms[0].name, "ext4:noatime");
        trial.built(&trial.arms[0]).checked().unwrap();
        let spinning = on("rotational = 'on'");
        let built = spinning.arms.iter().map(|arm| spinning.built(arm));
        let output: Vec<_> = built.map(|arm| (arm.rotational.unwrap(), arm.cache)).collect();
        assert_eq!(output, [(Switch::On, None), (Switch::Off, None)], "an arm's own word comes first");
    }

    #[test]
    fn a_good_trial_reads_and_prints_itself() {
        let trial = Trial::parse("trial.toml", GOOD).unwrap();
        assert_eq!(trial.arms[1].to_string(), "xfs-16ag=xfs:agcount=16,noatime,scheduler=mq-deadline");
        assert_eq!(Trial::parse("again.toml", &trial.to_toml()).unwrap(), trial);
    }

    #[test]
    fn errors_underline_the_place_and_name_the_remedy() {
        for (change, name) in [
            ("budget = \"10m\"->budgett = \"10m\"", "wrong key"),
            ("budget = \"10m\"->budget = \"10 weeks\"", "wrong unit"),
            ("budget = \"10m\"->budget = 10m # all", "without quotes"),
            ("size = \"4GiB\"->size = \"4GB\"", "decimal unit"),
            ("size = \"4GiB\"->size = \"100MiB\"", "device too small"),
            ("filesystem = \"xfs\"->filesystem = \"xsf\"", "misspelt filesystem"),
            ("use = \"random-write\"->use = \"randomwrite\"", "misspelt workload"),
            ("threads = [1, 4, 16]->threads = [0]", "no threads"),
            ("file_size = \"1GiB\"->file_size = \"8GiB\"", "files too large"),
            ("file_size = \"1GiB\"->depth = 4", "depth without io_uring"),
            ("name = \"xfs-16ag\"->name = \"ext4\"", "two arms of a name"),
            ("practical = \"3%\"->baseline = \"xfs\"", "unknown baseline"),
            ("kind = \"image\"->kind = \"directory\"", "directory without directories"),
            ("[[workload]]->[[workload", "broken syntax"),
        ] {
            let (from, to) = change.split_once("->").unwrap();
            assert!(GOOD.contains(from), "{from}");
            insta::assert_snapshot!(name.replace(' ', "_"), shown(&GOOD.replacen(from, to, 1)));
        }
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{}\nx = {}", GOOD, "1".repeat(900_000));
        let error = shown(&text);
        assert!(error.len() < 2000, "{} bytes", error.len());
    }

    #[test]
    fn garbage_of_any_size_is_refused_quickly() {
        let huge = "x = [".repeat(20_000_000);
        assert!(Trial::parse("huge.toml", &huge).unwrap_err().message.contains("larger than"));
        let deep = "x = ".to_owned() + &"[".repeat(500_000);
        assert!(Trial::parse("deep.toml", &deep).is_err());
    }

    proptest! {
        #[test]
        fn any_trial_text_parses_or_yields_displayable_error(text in "(\\[\\[?[a-z]{1,8}\\]?\\]\n|[a-z_]{1,9} = ([0-9]{1,3}|\"[^\"\n]{0,9}\"|\\[[0-9, ]{0,6}\\])\n|.{0,9}\n){0,12}") {
            if Trial::parse("any.toml", &text).is_err() {
                shown(&text);
            }
        }
    }
}
