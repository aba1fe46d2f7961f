//! An arm: one complete storage configuration, and its short form on the command line.
//!
//! `name=filesystem@place:item,item,…`, without `@place` on the host where fstrial was started, where each item is, in this order of trial:
//! - `scheduler=…`, `nr_requests=…`, `read_ahead=…`, `cache=…`, `rotational=on|off`, `discard=on|off`: the device's
//!   queue; `lvm`, `thin`, `crypt`: a layer on the device; `profile=…`: the layout of btrfs over several devices;
//!   `log=external`: its journal or log on the trial's log device; `handicap=…`, `slowed=…`: a known slowdown;
//!   `control_of=…`: the arm it is a control of; `state=…`: the initial content of the filesystem; `memory=…`: the
//!   limit for the memory of the load and its page cache;
//! - something that starts with `-`: options of mkfs in its own words (`-m reflink=0`);
//! - a word that this filesystem's mkfs knows (`agcount=16` for xfs): mkfs, under the right flag;
//! - anything else: a mount option in the filesystem's own words (`noatime`).
//!
//! A comma or backslash within an item is written `\,` or `\\`. The table form in a trial file is equivalent, and both
//! parse back from their printed form.

pub use crate::device::Switch;

use crate::{
    filesystem::{Filesystem, NOT_MADE},
    layer::{self, Layer},
    place,
    problem::{closest_spelling, did_you_mean},
    profile::Profile,
    rows::words,
    state::{State, StateError},
    units::{Bytes, Percent},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Deref, path::PathBuf, str::FromStr};

/// One complete storage configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Name in tables and verdicts; default: its short form.
    #[serde(default)]
    pub name: String,
    /// The filesystem, `raw` for the bare device, or `dir` for an existing directory.
    pub filesystem: String,
    /// The place where it is built, one of the trial's; default: the host that runs fstrial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Options of mkfs, in its own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// Mount options, in the filesystem's own words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount: Vec<String>,
    /// The I/O scheduler; default: the kernel's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests that the queue holds at most, in each direction; default: the kernel's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// Read-ahead of the device; default: the kernel's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<Bytes>,
    /// Cache mode of the device's queue; default: as reported by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// Rotating or not, as reported by the device; default: the trial's setting, or the device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<Switch>,
    /// Discards: `on`, the device must accept them; `off`, none may reach it; default: depends on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<Switch>,
    /// `external`: its journal or log is on the trial's log device; default: on the device itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogPlace>,
    /// A volume of the device mapper between the device and the filesystem; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Layout of btrfs data and metadata over the trial's members: `raid10`, or `raid0/raid1` for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// A known slowdown of the load on this arm, to test its detection; default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handicap: Option<Percent>,
    /// A known slowdown of the modelled device under this arm, which reaches programs and operations as well; default:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed: Option<Percent>,
    /// The arm that it is a control of: the same configuration with a planted slowdown, run to see whether a difference
    /// of this size can be seen at all. It is compared with that arm only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_of: Option<String>,
    /// Content of the filesystem when the load begins; default: the trial's setting, or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The limit for the memory of the load and its page cache together; default: the trial's setting, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// The directory of a `dir` arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

words! {
    /// The kernel's view of the device's cache (`queue/write_cache`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum CacheMode {
        /// Volatile: flushes are sent.
        "write-back" WriteBack,
        /// Not volatile: flushes are left out.
        "write-through" WriteThrough,
    }
}

/// Place of a journal or log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogPlace {
    /// On the trial's log device.
    External,
}

/// Valid sizes of a queue: the kernel silently enlarges smaller ones.
const NR_REQUESTS: std::ops::RangeInclusive<u32> = 4..=65_536;
/// Keys of the short form that a misspelt item may mean: anything else goes to mount.
const KEYS: [&str; 7] =
    ["scheduler", "nr_requests", "read_ahead", "rotational", "profile", "handicap", "memory"];
/// Most characters of a name.
const MAX_NAME: usize = 60;
/// The filesystem word for the bare device.
pub const RAW: &str = "raw";
/// The filesystem word for an existing directory.
pub const DIRECTORY: &str = "dir";

/// A short form that does not describe an arm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` does not describe an arm: {problem}")]
pub struct ArmError {
    /// The input.
    pub text: String,
    /// The reason, without the remedy, which is in `hint`.
    pub problem: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl Arm {
    /// An arm of this filesystem with everything at its default.
    pub fn plain(filesystem: &str) -> Self {
        Self {
            name: filesystem.to_owned(),
            filesystem: filesystem.to_owned(),
            place: None,
            mkfs: Vec::new(),
            mount: Vec::new(),
            scheduler: None,
            nr_requests: None,
            read_ahead: None,
            cache: None,
            rotational: None,
            discard: None,
            log: None,
            layer: None,
            profile: None,
            handicap: None,
            slowed: None,
            control_of: None,
            state: None,
            memory: None,
            path: None,
        }
    }

    /// True for the bare device.
    pub fn is_raw(&self) -> bool {
        self.filesystem == RAW
    }

    /// True for an existing directory.
    pub fn is_directory(&self) -> bool {
        self.filesystem == DIRECTORY
    }

    /// Its row in the filesystem table; none for `raw` and `dir`.
    pub fn row(&self) -> Option<&'static Filesystem> {
        Filesystem::named(&self.filesystem)
    }

    /// Everything but the name, in the short form.
    pub fn configuration(&self) -> String {
        if let (true, Some(path)) = (self.is_directory(), &self.path) {
            return format!("{DIRECTORY}:{}", path.display());
        }
        let mut items = mkfs_items(&self.filesystem, &self.mkfs);
        items.extend(self.mount.iter().cloned());
        items.extend(self.scheduler.iter().map(|s| format!("scheduler={s}")));
        items.extend(self.nr_requests.iter().map(|n| format!("nr_requests={n}")));
        items.extend(self.read_ahead.iter().map(|s| format!("read_ahead={s}")));
        items.extend(self.cache.iter().map(|c| format!("cache={}", c.name())));
        items.extend(self.rotational.iter().map(|r| format!("rotational={}", r.name())));
        items.extend(self.discard.iter().map(|d| format!("discard={}", d.name())));
        items.extend(self.log.iter().map(|LogPlace::External| "log=external".to_owned()));
        items.extend(self.layer.iter().map(|layer| layer.name().to_owned()));
        items.extend(self.profile.iter().map(|profile| format!("profile={profile}")));
        items.extend(self.handicap.iter().map(|h| format!("handicap={h}")));
        items.extend(self.slowed.iter().map(|slowed| format!("slowed={slowed}")));
        items.extend(self.control_of.iter().map(|name| format!("control_of={name}")));
        items.extend(self.state.iter().map(|state| format!("state={state}")));
        items.extend(self.memory.iter().map(|limit| format!("memory={limit}")));
        let escaped: Vec<String> =
            items.iter().map(|item| item.replace('\\', "\\\\").replace(',', "\\,")).collect();
        let place = self.place.as_ref().map_or_else(String::new, |place| format!("@{place}"));
        let options = if escaped.is_empty() { String::new() } else { format!(":{}", escaped.join(",")) };
        format!("{}{place}{options}", self.filesystem)
    }

    /// The name of an arm that was given none: its short form, made plain if it is long or odd.
    pub fn default_name(&self) -> String {
        let configuration = self.configuration();
        let plain = Self { name: configuration.clone(), ..self.clone() };
        if plain.bad_name().is_none() {
            return configuration;
        }
        configuration.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(MAX_NAME).collect()
    }

    /// [`Arm::default_name`] of the same arm at no place: `xfs@mine` gives `xfs`.
    pub fn name_without_place(&self) -> String {
        Self { place: None, ..self.clone() }.default_name()
    }

    /// The slowdown that it was given on purpose, of its load or of its device.
    pub fn planted(&self) -> Option<Percent> {
        self.handicap.or(self.slowed)
    }

    /// True if another arm differs only in name and place.
    pub fn is_at_another_place(&self, other: &Self) -> bool {
        let bare = |arm: &Self| Self { name: String::new(), place: None, ..arm.clone() };
        self.place != other.place && bare(self) == bare(other)
    }

    /// The reason why its name is ambiguous in tables and on the command line, if it is.
    fn bad_name(&self) -> Option<&'static str> {
        let length = self.name.chars().count();
        if !(1..=MAX_NAME).contains(&length) {
            return Some("its length");
        }
        if self.name.contains(char::is_control) || self.name.contains('@') {
            return Some("control characters and @ are not allowed");
        }
        // `a=b:c` would read as an arm called a; an arm may be called by its own short form.
        let separators = self.name.contains([':', '=', ',']);
        (separators && self.name != self.configuration()).then_some("it holds : or = or ,")
    }

    /// True if it changes the device's queue.
    fn sets_the_queue(&self) -> bool {
        self.discard.is_some() || !self.queue_settings().is_empty()
    }

    /// Its mount options: the table's, one that disables default discards, and its own.
    pub fn mount_options(&self) -> Vec<String> {
        let Some(row) = self.row() else { return Vec::new() };
        let quiet = row.nodiscard.filter(|_| self.discard == Some(Switch::Off));
        let given = row.mount_base.iter().copied().chain(quiet).map(str::to_owned);
        given.chain(self.mount.iter().cloned()).collect()
    }

    /// The arm as mkfs and mount take it. They take no name: one that is called by its short form keeps it when its
    /// device is described with it ([`built`](crate::trial::Trial::built)).
    ///
    /// # Errors
    /// Its [`problem`](Self::problem), but for its name.
    pub fn checked(&self) -> Result<CheckedArm<'_>, ArmError> {
        self.problem_but_for_its_name().map_or(Ok(CheckedArm(self)), Err)
    }

    /// The first impossibility of this arm alone, with a remedy.
    pub fn problem(&self) -> Option<ArmError> {
        let of_name = self.bad_name().map(|bad| ArmError {
            text: self.configuration(),
            problem: format!("`{}` is not valid as a name: {bad}", self.name),
            hint: Some("use 1 to 60 letters, digits, dots and dashes".into()),
        });
        of_name.or_else(|| self.problem_but_for_its_name())
    }

    fn problem_but_for_its_name(&self) -> Option<ArmError> {
        let error = |problem: String, hint: Option<String>| {
            Some(ArmError { text: self.configuration(), problem, hint })
        };
        let words = self.mkfs.iter().chain(&self.mount).chain(&self.scheduler);
        if let Some(bad) = words.into_iter().find(|word| word.contains(char::is_control)) {
            return error(format!("the option {bad:?} holds control characters"), None);
        }
        if let Some(bad) = self.state.and_then(|state| state.check().err()) {
            return error(bad, None);
        }
        if let Some(bad) = self.place.as_deref().and_then(place::name_problem) {
            return error(bad, Some("write for example xfs@node".into()));
        }
        if self.is_directory() {
            return self.directory_problem().and_then(|(problem, hint)| error(problem, hint));
        }
        if self.path.is_some() {
            return error("only a `dir` arm has a path".into(), None);
        }
        if let Some((problem, hint)) = self.axes_problem() {
            return error(problem, Some(hint));
        }
        if self.is_raw() {
            if !self.mkfs.is_empty() || !self.mount.is_empty() {
                return error("the bare device has no mkfs and no mount options".into(), None);
            }
            if self.state.is_some() {
                return error(
                    "the bare device has no files, so it has no state".into(),
                    Some("leave state out of this arm, or name a filesystem: ext4:state=aged".into()),
                );
            }
            return None;
        }
        let Some(row) = self.row() else {
            return error(
                format!("there is no filesystem `{}`", self.filesystem),
                Some(unknown_filesystem_hint(&self.filesystem)),
            );
        };
        if let Some(bad) = self.mount.iter().find(|option| option.is_empty() || option.starts_with('-')) {
            return error(format!("`{bad}` is not a mount option"), None);
        }
        let forbidden = |option: &String| forbidden_mount_option(option).map(|why| (option.clone(), why));
        if let Some((bad, why)) = self.mount.iter().find_map(forbidden) {
            return error(
                format!("the mount option `{bad}` {why}"),
                Some("leave it out, or use dir: with a mount of your own".into()),
            );
        }
        if let Some(bad) = self.mkfs.iter().find(|word| reaches_outside(word)) {
            return error(
                format!("the mkfs option `{bad}` could reach outside the arm: a path or another device"),
                Some("options of mkfs may not name files or devices".into()),
            );
        }
        let refused = row.mkfs_options.read(row.mkfs, &self.mkfs).err()?;
        error(refused.problem, Some(refused.hint))
    }

    /// The first impossibility of an existing directory, with a remedy.
    fn directory_problem(&self) -> Option<(String, Option<String>)> {
        if self.path.is_none() {
            return Some(("it names no directory".into(), Some("write dir:/some/folder".into())));
        }
        if self.place.is_some() {
            let hint = "leave the place out; only filesystems that are made for the trial can be elsewhere";
            return Some(("existing directories are used on this host only".into(), Some(hint.into())));
        }
        let options = !self.mkfs.is_empty() || !self.mount.is_empty();
        if self.state.is_some() {
            let hint =
                "leave state out; states need a filesystem that fstrial makes, such as ext4:state=aged";
            return Some(("an existing directory has the state it has".into(), Some(hint.into())));
        }
        if options
            || self.sets_the_queue()
            || self.log.is_some()
            || self.layer.is_some()
            || self.profile.is_some()
            || self.planted().is_some()
            || self.memory.is_some()
        {
            return Some(("an existing directory is used as it is, so it takes no options".into(), None));
        }
        None
    }

    /// The first impossibility of its device settings, with a remedy.
    fn axes_problem(&self) -> Option<(String, String)> {
        if let Some(requests) = self.nr_requests.filter(|requests| !NR_REQUESTS.contains(requests)) {
            return Some((
                format!("a queue cannot hold {requests} requests"),
                format!("use {} to {}", NR_REQUESTS.start(), NR_REQUESTS.end()),
            ));
        }
        if self.discard == Some(Switch::Off)
            && let Some(requested) = self.mount.iter().find(|option| is_discard(option))
        {
            return Some((
                format!("`discard=off` and the mount option `{requested}` contradict each other"),
                "leave one of them out".into(),
            ));
        }
        if self.layer == Some(Layer::Crypt) && self.discard == Some(Switch::On) {
            let hint = "leave one of them out";
            return Some(("`crypt` lets no discards through".into(), hint.into()));
        }
        if let Some((layer, profile)) = self.layer.zip(self.profile) {
            return Some((
                format!("`{layer}` takes one device, and `profile={profile}` needs several"),
                "leave one of them out".into(),
            ));
        }
        let profile = self.profile.and_then(|profile| self.profile_problem(profile));
        profile.map(|(problem, hint)| (problem, hint.to_owned())).or_else(|| self.log_problem())
    }

    /// The reason why it cannot have a profile, with a remedy.
    fn profile_problem(&self, profile: Profile) -> Option<(String, &'static str)> {
        let Some(several) = self.row().and_then(|row| row.several) else {
            let hint =
                "leave profile out; for other filesystems make an array of the members: raid in [device]";
            return Some((format!("{} cannot use several devices", self.filesystem), hint));
        };
        let own = self.mkfs.iter().find(|word| several.sets_profile(word))?;
        Some((
            format!("`profile={profile}` and the mkfs option `{own}` contradict each other"),
            "leave one of them out",
        ))
    }

    /// The reason why its log cannot be on another device, with a remedy.
    fn log_problem(&self) -> Option<(String, String)> {
        self.log?;
        if self.is_raw() {
            return Some(("the bare device has no log".into(), "leave log=external out".into()));
        }
        let row = self.row()?;
        let log = match row.external_log {
            Ok(log) => log,
            Err(why) => {
                let able = Filesystem::names_of(|row| row.external_log.is_ok(), "and");
                let hint = format!("leave log=external out; {able} can have one");
                return Some((format!("{} {why}", row.name), hint));
            }
        };
        let bad = self.mkfs.iter().find(|word| (log.contradicts)(word))?;
        Some((
            format!("`log=external` and the mkfs option `{bad}` contradict each other"),
            "leave one of them out".into(),
        ))
    }
}

/// An arm without a [`problem`](Arm::problem), the only one that mkfs and mount are given: none of its options names a
/// file, a device or a program.
#[derive(Debug, Clone, Copy)]
pub struct CheckedArm<'a>(&'a Arm);

impl Deref for CheckedArm<'_> {
    type Target = Arm;

    fn deref(&self) -> &Arm {
        self.0
    }
}

impl CheckedArm<'_> {
    /// The arguments of mkfs before the device; none if there is no mkfs.
    pub fn mkfs_arguments(self) -> Vec<String> {
        self.row().map_or_else(Vec::new, |row| row.mkfs_arguments(&self.mkfs))
    }
}

/// Words of options that name another device, with any name.
const DEVICE_WORDS: [&str; 12] = [
    "device=",
    "dev=",
    "logdev",
    "rtdev",
    "jdev",
    "journal_path",
    "journal_dev",
    "loop=",
    "name=",
    "label=",
    "uuid=",
    "file=",
];

/// True if an option could make a program touch something outside the arm. mkfs runs as root and formats any device it
/// is given, so nothing that can be a path gets through: no slash at all. (It also runs in an empty folder, so that a
/// plain word names nothing.) UUIDs and labels for the filesystem itself are excluded too, which a benchmark does not
/// miss.
fn reaches_outside(option: &str) -> bool {
    let lower = option.to_lowercase();
    option.contains('/') || DEVICE_WORDS.iter().any(|word| lower.contains(word))
}

/// True if a mount option enables discards while mounted.
pub fn is_discard(option: &str) -> bool {
    option == "discard" || option.starts_with("discard=")
}

/// Mount options that mount(8) acts on itself instead of the filesystem, or that are ours to set.
const MOUNTS_OWN: [&str; 25] = [
    "bind",
    "rbind",
    "remount",
    "move",
    "beneath",
    "loop",
    "offset",
    "sizelimit",
    "encryption",
    "helper",
    "uhelper",
    "user",
    "users",
    "owner",
    "group",
    "defaults",
    "comment",
    "shared",
    "rshared",
    "slave",
    "rslave",
    "private",
    "rprivate",
    "unbindable",
    "runbindable",
];

/// Why a mount option is not for arms. One word may hold several options: mount splits them at commas.
fn forbidden_mount_option(option: &str) -> Option<&'static str> {
    if reaches_outside(option) {
        return Some("would reach outside the arm or bind it to another device");
    }
    option.split(',').find_map(|part| {
        let part = part.trim().to_lowercase();
        let (name, value) = part.split_once('=').unwrap_or((&part, ""));
        if value.trim_matches('"') == "panic" {
            return Some("would stop the whole machine at an error of the arm");
        }
        let is_mounts_own =
            MOUNTS_OWN.contains(&name) || ["x-", "verity."].iter().any(|own| name.starts_with(own));
        is_mounts_own.then_some("would reach outside the arm: it is mount's own and not the filesystem's")
    })
}

fn unknown_filesystem_hint(word: &str) -> String {
    if NOT_MADE.contains(&word) {
        return format!(
            "{word} cannot be made by fstrial; compare a directory on a mounted one: dir:/mnt/{word}"
        );
    }
    let names = Filesystem::names();
    did_you_mean(word, names.iter().copied().chain([RAW, DIRECTORY]))
        .unwrap_or_else(|| format!("use one of {}, {RAW} or {DIRECTORY}:PATH", names.join(", ")))
}

/// Turns mkfs words back into short-form items: `["-d", "agcount=16"]` into `agcount=16` if that parses to the same,
/// else `-d agcount=16`.
fn mkfs_items(filesystem: &str, words: &[String]) -> Vec<String> {
    let row = Filesystem::named(filesystem);
    let mut items: Vec<String> = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let mut group = vec![word.clone()];
        while let Some(next) = words.next_if(|next| !next.starts_with('-')) {
            group.push(next.clone());
        }
        let short = match (row, group.as_slice()) {
            (Some(row), [flag, value]) => {
                row.mkfs_flag_of(value).filter(|known| known == flag).map(|_| value.clone())
            }
            _ => None,
        };
        items.push(short.unwrap_or_else(|| {
            let quoted: Vec<String> =
                group.iter().map(|w| w.replace('\\', "\\\\").replace(' ', "\\ ")).collect();
            quoted.join(" ")
        }));
    }
    items
}

/// Splits at a separator that is not escaped by a backslash; escapes of other characters stay as they are.
fn split_unescaped(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = parts.last_mut().expect("there is always one part");
        if character == '\\' {
            match characters.next() {
                Some(next) if next == separator || next == '\\' => last.push(next),
                Some(next) => last.extend(['\\', next]),
                None => last.push('\\'),
            }
        } else if character == separator {
            parts.push(String::new());
        } else {
            last.push(character);
        }
    }
    parts
}

/// The longest short form of an arm, in bytes.
const MAX_ARM: usize = 4096;

impl FromStr for Arm {
    type Err = ArmError;
    fn from_str(text: &str) -> Result<Self, ArmError> {
        let error = |problem: &str, hint: Option<String>| ArmError {
            text: text.to_owned(),
            problem: problem.to_owned(),
            hint,
        };
        let too_long = || ArmError {
            text: text.chars().take(40).collect(),
            problem: format!("it is longer than {MAX_ARM} bytes"),
            hint: None,
        };
        if text.len() > MAX_ARM {
            return Err(too_long());
        }
        let head = text.split(':').next().unwrap_or_default();
        let (name, configuration) = match head.split_once('=') {
            Some((name, _)) => (Some(name), &text[name.len() + 1..]),
            None => (None, text),
        };
        let (filesystem, options) = match configuration.split_once(':') {
            Some((filesystem, options)) => (filesystem, Some(options)),
            None => (configuration, None),
        };
        let (filesystem, place) = match filesystem.split_once('@') {
            Some((filesystem, place)) => (filesystem, Some(place.to_owned())),
            None => (filesystem, None),
        };
        if filesystem.is_empty() {
            return Err(error(
                "the filesystem is missing",
                Some("write for example xfs or fast=xfs:agcount=16,noatime".into()),
            ));
        }
        let mut arm = Self { place, ..Self::plain(filesystem) };
        if filesystem == DIRECTORY {
            arm.path = options.filter(|path| !path.is_empty()).map(PathBuf::from);
        } else if let Some(options) = options {
            for item in split_unescaped(options, ',') {
                arm.add_item(&item).map_err(|problem| error(&problem, None))?;
            }
        }
        arm.name = match name {
            Some(name) => name.to_owned(),
            None => arm.default_name(),
        };
        match arm.problem() {
            Some(problem) => Err(ArmError { text: text.to_owned(), ..problem }),
            // Printed with its name it must be readable, too.
            None if arm.to_string().len() > MAX_ARM => Err(too_long()),
            None => Ok(arm),
        }
    }
}

impl Arm {
    /// Adds one item of the short form.
    fn add_item(&mut self, item: &str) -> Result<(), String> {
        if item.is_empty() {
            return Err("an option is empty".into());
        }
        if let Some(value) = item.strip_prefix("scheduler=") {
            self.scheduler = Some(value.to_owned());
        } else if let Some(value) = item.strip_prefix("nr_requests=") {
            let number = value.parse().map_err(|_| format!("`{item}` does not give a number of requests"))?;
            self.nr_requests = Some(number);
        } else if let Some(value) = item.strip_prefix("profile=") {
            self.profile = Some(value.parse()?);
        } else if let Some(layer) = Layer::named(item) {
            if let Some(other) = self.layer.replace(layer) {
                return Err(format!("an arm has one layer, got `{other}` and `{layer}`"));
            }
        } else if item.starts_with("layer=") {
            return Err(format!("a layer is one word, without `layer=`: {}", Layer::names()));
        } else if let Some((layer, place)) =
            item.split_once('@').filter(|(word, _)| Layer::named(word).is_some())
        {
            return Err(format!("the place comes before the options: {}@{place}:{layer}", self.filesystem));
        } else if let Some(layer) = layer::meant(item) {
            return Err(format!("`{item}` would be an option of mount; did you mean the layer `{layer}`?"));
        } else if item == "log=external" {
            self.log = Some(LogPlace::External);
        } else if let Some(switch) = item.strip_prefix("discard=").and_then(Switch::named) {
            // Other values (`discard=async`) are a filesystem's own.
            self.discard = Some(switch);
        } else if let Some(value) = item.strip_prefix("read_ahead=") {
            self.read_ahead = Some(value.parse().map_err(|e: crate::units::UnitError| e.to_string())?);
        } else if let Some(value) = item.strip_prefix("cache=") {
            let unknown = || format!("`cache={value}` is neither write-back nor write-through");
            self.cache = Some(CacheMode::named(value).ok_or_else(unknown)?);
        } else if let Some(value) = item.strip_prefix("rotational=") {
            let unknown = || format!("`rotational={value}` is neither on nor off");
            self.rotational = Some(Switch::named(value).ok_or_else(unknown)?);
        } else if let Some(value) = item.strip_prefix("handicap=") {
            self.handicap = Some(value.parse().map_err(|e: crate::units::UnitError| e.to_string())?);
        } else if let Some(value) = item.strip_prefix("slowed=") {
            self.slowed = Some(value.parse().map_err(|e: crate::units::UnitError| e.to_string())?);
        } else if let Some(value) = item.strip_prefix("control_of=") {
            self.control_of = Some(value.to_owned());
        } else if let Some(value) = item.strip_prefix("state=") {
            self.state = Some(value.parse().map_err(|e: StateError| e.to_string())?);
        } else if let Some(value) = item.strip_prefix("memory=") {
            self.memory = Some(value.parse().map_err(|e: crate::units::UnitError| e.to_string())?);
        } else if item.starts_with('-') {
            self.mkfs.extend(split_unescaped(item, ' ').into_iter().filter(|word| !word.is_empty()));
        } else if let Some(flag) = self.row().and_then(|row| row.mkfs_flag_of(item)) {
            self.mkfs.extend([flag.to_owned(), item.to_owned()]);
        } else if self.row().is_some_and(|row| row.mkfs_flag_of(&format!("{item}=")).is_some()) {
            return Err(format!("`{item}` is a word of mkfs that takes a value, such as {item}=1"));
        } else {
            let key = item.split_once('=').map_or("", |(key, _)| key);
            if let Some(own) = closest_spelling(key, KEYS) {
                return Err(format!("`{item}` would be an option of mount; did you mean `{own}=`?"));
            }
            self.mount.push(item.to_owned());
        }
        Ok(())
    }
}

impl fmt::Display for Arm {
    /// The short form, with the name if it adds information.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let configuration = self.configuration();
        if self.name == configuration {
            f.write_str(&configuration)
        } else {
            write!(f, "{}={configuration}", self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arm(text: &str) -> Arm {
        text.parse().unwrap_or_else(|e: ArmError| panic!("{e}"))
    }

    #[test]
    fn accepted_arms_of_any_length_round_trip() {
        for length in [1000, 2030, 2060, 4000, 4092, 5000] {
            let text = format!("dir:/srv/{}", "$".repeat(length));
            if let Ok(read) = text.parse::<Arm>() {
                assert_eq!(read.to_string().parse::<Arm>().unwrap(), read, "{length}");
            }
        }
        assert!(format!("dir:/srv/{}", "a".repeat(200)).parse::<Arm>().is_ok());
    }

    #[test]
    fn arm_items_map_to_mkfs_mount_and_queue() {
        let fast = arm(
            "fast=xfs:agcount=16,noatime,scheduler=mq-deadline,read_ahead=128KiB,cache=write-through,-m reflink=0",
        );
        assert_eq!(fast.name, "fast");
        assert_eq!(fast.mkfs, ["-d", "agcount=16", "-m", "reflink=0"]);
        assert_eq!(fast.mount, ["noatime"]);
        assert_eq!(fast.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(fast.read_ahead, Some(Bytes::kib(128)));
        assert_eq!(fast.cache, Some(CacheMode::WriteThrough));
        let queue = arm("btrfs:nr_requests=64,discard=on,discard=async");
        assert_eq!((queue.nr_requests, queue.discard), (Some(64), Some(Switch::On)));
        assert_eq!(queue.mount, ["discard=async"]);
        let layered = arm("ext4@6.12:noatime,lvm");
        assert_eq!(
            (layered.layer, layered.mount.as_slice()),
            (Some(Layer::Lvm), &["noatime".to_owned()][..])
        );
        assert_eq!(layered.to_string(), "ext4-6-12-noatime-lvm=ext4@6.12:noatime,lvm");
        assert_eq!(arm("btrfs:discard=off,noatime").mount_options(), ["nodiscard", "noatime"]);
        assert_eq!(arm("xfs:discard=off,noatime").mount_options(), ["noatime"]);
        assert_eq!(arm("ext4:data=journal,stride=16").mkfs, ["-E", "stride=16"]);
        assert_eq!(arm("ext4:data=journal,stride=16").mount, ["data=journal"]);
        assert_eq!(arm("dir:/srv/a=b:c").path.as_deref(), Some(std::path::Path::new("/srv/a=b:c")));
    }

    #[test]
    fn refusals_name_the_remedy() {
        let refused = |text: &str| text.parse::<Arm>().unwrap_err();
        assert_eq!(refused("exf4").hint.as_deref(), Some("did you mean `ext4`?"));
        assert_eq!(
            refused("ext5").hint.as_deref(),
            Some("did you mean `ext4`?"),
            "the usual one of those as near"
        );
        assert!(refused("zfs").hint.unwrap().contains("dir:/mnt/zfs"));
        assert!(refused("raw:noatime").problem.contains("no mount options"));
        assert!(refused("xfs:logdev=/dev/sdb").problem.contains("reach outside"));
        for outside in [
            "xfs:-l logdev=/dev/sdb",
            "btrfs:-f /some/path",
            "btrfs:-f ../dev/sdb",
            "ext4:-J device=LABEL=x",
            "ext4:-J device=UUID=1-2",
            "ext4:-z /tmp/undo",
            "ext4:/proc/self/root/dev/sdb=1",
            "xfs:-d name=disk",
            "xfs:-d file",
            "xfs:-c options=words",
            "xfs:-p proto",
            "ext4:-d class",
            "ext4:-qd class",
            "ext4:-z undo",
            "ext4:-F",
            "btrfs:-r class",
            "btrfs:--rootdir=class",
            "btrfs:--root class",
            "xfs:x-mount.subdir=sub",
            "xfs:noatime\\,bind",
            "ext4:X-mount.idmap=b:0:1:1",
            "ext4:offset=4096",
            "xfs:-r rtdev=sdb",
            "reiserfs:jdev=sdb",
            "ext4:journal_path=sdb",
        ] {
            assert!(refused(outside).problem.contains("reach outside"), "{outside}");
        }
        assert!(refused("ext4:-b 4096 sdb").problem.contains("for a device or a size"));
        assert!(refused("ext4:-E").problem.contains("needs a value"));
        assert!(refused("ext4:-d class").hint.unwrap().contains("leave it out; allowed for mkfs.ext4: -D"));
        for panics in ["ext4:errors=panic", "btrfs:fatal_errors=panic", "ext4:noatime\\,errors=panic"] {
            assert!(refused(panics).problem.contains("the whole machine"), "{panics}");
        }
        assert!(refused("ext4:").problem.contains("empty"));
        assert!(refused("a=").problem.contains("missing"));
        assert!(refused("dir").problem.contains("no directory"));
        assert!(refused("btrfs:log=external").problem.contains("has no journal or log"));
        assert!(refused("jfs:log=external").problem.contains("does not know"));
        assert!(refused("ext2:log=external").hint.unwrap().contains("ext4 and xfs"));
        assert!(refused("raw:log=external").problem.contains("no log"));
        assert!(refused("ext4:log=external,-J size=8").problem.contains("contradict"));
        assert!(refused("ext4:log=external,-O ^has_journal").problem.contains("contradict"));
        assert!(refused("xfs:profile=raid1").problem.contains("cannot use several devices"));
        assert!(refused("btrfs:profile=raid2").problem.contains("use one of single"));
        assert!(refused("btrfs:profile=raid1,-m dup").problem.contains("contradict"));
        assert_eq!(arm("btrfs:profile=raid0/raid1").to_string(), "btrfs:profile=raid0/raid1");
        assert!(refused("ext4:lvm@6.1").problem.ends_with("before the options: ext4@6.1:lvm"));
        assert!(refused("ext4:lvm,thin").problem.contains("one layer, got `lvm` and `thin`"));
        assert!(refused("ext4:layer=lvm").problem.contains("without `layer=`: lvm, thin, crypt"));
        for (word, layer) in [("lvn", "lvm"), ("LVM", "lvm"), ("luks", "crypt"), ("dm-thin", "thin")] {
            let problem = refused(&format!("ext4:{word}")).problem;
            assert!(problem.contains(&format!("did you mean the layer `{layer}`?")), "{problem}");
        }
        assert!(refused("btrfs:profile=raid1,lvm").problem.contains("`lvm` takes one device"));
        assert!(refused("xfs:nr_requests=3").hint.unwrap().contains("4 to"));
        assert!(refused("xfs:nr_requests=many").problem.contains("number of requests"));
        assert!(refused("xfs:nr_request=64").problem.contains("did you mean `nr_requests=`?"));
        assert!(refused("btrfs:discard=off,discard=async").problem.contains("contradict"));
    }

    #[test]
    fn a_state_is_part_of_a_filesystems_arm() {
        let aged = arm("ext4:noatime,state=aged:70%:0.9");
        assert_eq!(aged.state, Some("aged:70%:0.9".parse().unwrap()));
        assert_eq!(aged.to_string(), "ext4:noatime,state=aged:70%:0.9");
        assert_eq!(arm(&aged.to_string()), aged);
        assert_eq!(arm("old=xfs:state=filled:80%").to_string(), "old=xfs:state=filled:80%");
        let refused = |text: &str| text.parse::<Arm>().unwrap_err();
        assert!(refused("raw:state=aged").problem.contains("no state"));
        assert!(refused("raw:state=aged").hint.unwrap().contains("ext4:state=aged"));
        assert!(refused("ext4:state=old").problem.contains("write fresh"));
        let directory = Arm { state: Some(State::Fresh), path: Some("/srv".into()), ..Arm::plain("dir") };
        assert!(directory.problem().unwrap().problem.contains("the state it has"));
    }

    fn any_arm() -> impl Strategy<Value = Arm> {
        let filesystem = prop::sample::select(vec!["ext4", "btrfs", "ext3", "ext2"]);
        let valued = ("-[mbO]".prop_map(String::from), "[a-z0-9=,.\\\\ ]{1,12}".prop_map(Some));
        let mkfs_group = prop_oneof![valued, Just(("-q".to_owned(), None))];
        let mount = prop::collection::vec("[a-z_]{2,8}(=[a-z0-9,\\\\:]{1,6})?", 0..3);
        let name = "[a-z][a-z0-9-]{0,8}";
        (
            name,
            filesystem,
            prop::collection::vec(mkfs_group, 0..3),
            mount,
            prop::option::of("[a-z-]{2,8}"),
            prop::option::of(0_u64..1 << 30),
            prop::option::of(NR_REQUESTS),
            [(); 2].map(|()| prop::option::of(prop::sample::select(vec![Switch::On, Switch::Off]))),
        )
            .prop_map(
                |(
                    name,
                    filesystem,
                    groups,
                    mount,
                    scheduler,
                    read_ahead,
                    nr_requests,
                    [discard, rotational],
                )| Arm {
                    name,
                    mkfs: groups
                        .into_iter()
                        .flat_map(|(flag, value)| [Some(flag), value].into_iter().flatten())
                        .collect(),
                    mount,
                    scheduler,
                    read_ahead: read_ahead.map(Bytes),
                    nr_requests,
                    rotational,
                    discard,
                    ..Arm::plain(filesystem)
                },
            )
    }

    proptest! {
        #[test]
        fn the_short_form_reads_back(arm in any_arm()) {
            // A mount option that is also an mkfs word has no short form; the table form can express it.
            let row = arm.row().unwrap();
            prop_assume!(arm.mount.iter().all(|m| row.mkfs_flag_of(m).is_none()));
            prop_assume!(arm.mount.iter().all(|m| layer::meant(m).is_none()));
            prop_assume!(arm.problem().is_none());
            prop_assume!(!arm.mount.iter().any(|m| ["scheduler=", "cache="].iter().any(|p| m.starts_with(p))));
            let text = arm.to_string();
            prop_assert_eq!(text.parse::<Arm>().map_err(|e| TestCaseError::fail(e.to_string()))?, arm);
        }

        #[test]
        fn mkfs_arguments_contain_no_path_or_device(
            filesystem in prop::sample::select(Filesystem::names()),
            words in prop::collection::vec(
                "-{0,2}[a-zA-Z]{1,8}[= ]?(class|[.][.]|dev/sdb|device=x|name=x|[0-9]k?|[a-z,=./]{0,6})", 0..3,
            ),
        ) {
            let arm = Arm { name: "arm".into(), mkfs: words, ..Arm::plain(filesystem) };
            if let Ok(checked) = arm.checked() {
                let reported = checked.mkfs_arguments().join(" ");
                prop_assert!(!reported.contains('/') && !reported.contains("device="), "{reported}");
                for (at, word) in arm.mkfs.iter().enumerate() {
                    prop_assert!(word.starts_with('-') || arm.mkfs[at - 1].starts_with('-'), "{reported}");
                }
            }
        }

        #[test]
        fn any_text_is_an_arm_or_an_error(text in ".{0,80}") {
            if let Ok(arm) = text.parse::<Arm>() {
                prop_assert!(arm.problem().is_none());
            }
        }
    }
}
