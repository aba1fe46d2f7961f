//! The device section of a trial: the kind of device for all arms.

mod kind;

pub use kind::DeviceKind;

use crate::{
    device_model::{self, DeviceModel},
    rows::words,
    units::{Bytes, serde_as_text},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The device every arm of a trial is built on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Source of the device, such as a file, memory or a disk; default: `image`.
    #[serde(default)]
    pub kind: DeviceKind,
    /// Its size; image, ramdisk and model only. Default: 2GiB, or the need of the workloads if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// image: the folder the file is made in (left out: the current one). model: a folder for a sparse file that holds
    /// its data (left out: they are in memory). disk: the device, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Make this many of them, 2 to 16, each of the size; image and ramdisk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u16>,
    /// Make an array of md of the members; default: btrfs spreads itself over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    /// Rotating or not, as reported by the device; default: a model reports its own, others theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<Switch>,
    /// model: the name of a model that ships, a model file (*.toml), or the model written out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
}

words! {
    /// Something that is on or off.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Switch {
        /// On.
        "on" On,
        /// Off.
        "off" Off,
    }
}

impl Default for Device {
    fn default() -> Self {
        Self::of(DeviceKind::Image)
    }
}

/// The model of a modelled device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelChoice {
    /// A model that ships, or a file that ends in `.toml`.
    Named(String),
    /// The model itself.
    Written(Box<DeviceModel>),
}

impl<'de> Deserialize<'de> for ModelChoice {
    /// By hand, because an untagged enumeration reports nothing about errors inside.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ModelChoice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a device model, a model file, or a table with the model")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ModelChoice, E> {
                Ok(ModelChoice::Named(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ModelChoice, A::Error> {
                let model = DeviceModel::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ModelChoice::Written(Box::new(model)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Device {
    /// A device of this kind with everything at its default.
    pub const fn of(kind: DeviceKind) -> Self {
        Self { kind, size: None, path: None, members: None, raid: None, rotational: None, model: None }
    }

    /// The folder of its file, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        self.kind.is_file().then(|| self.path.as_deref().unwrap_or(Path::new(".")))
    }

    /// True if its data are in memory.
    pub fn is_in_memory(&self) -> bool {
        match self.kind {
            DeviceKind::Ramdisk => true,
            DeviceKind::Model => self.path.is_none(),
            _ => false,
        }
    }

    /// The model it follows, if it is a modelled device.
    pub fn modelled(&self) -> Option<DeviceModel> {
        match self.model.as_ref()? {
            ModelChoice::Named(name) => device_model::shipped(name),
            ModelChoice::Written(model) => Some((**model).clone()),
        }
    }

    /// The same with the model written out, independent of this version's models.
    #[must_use]
    pub fn settled(&self) -> Self {
        let model = self.modelled().map(|model| ModelChoice::Written(Box::new(model)));
        Self { model, ..self.clone() }
    }
}

/// The device for journals and logs of arms with `log = "external"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogDevice {
    /// An image file or memory; default: `image`.
    #[serde(default)]
    pub kind: LogKind,
    /// Its size, 64MiB to 1GiB; default: 256MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// image: the folder the file is made in (left out: the current one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

words! {
    /// The kinds of log device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum LogKind {
        /// A loop device with direct I/O on a file made by fstrial.
        #[default]
        "image" Image,
        /// Memory.
        "ramdisk" Ramdisk,
    }
}

impl LogDevice {
    /// Sizes that every filesystem takes: XFS refuses a log of less than 64 MiB or of 2 GiB.
    const SIZES: std::ops::RangeInclusive<Bytes> = Bytes::mib(64)..=Bytes::gib(1);

    /// Its size, written out.
    pub fn size(&self) -> Bytes {
        self.size.unwrap_or(Bytes::mib(256))
    }

    /// The first invalid key, with the problem and the remedy.
    pub fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        if !Self::SIZES.contains(&self.size()) {
            return Some((
                "size",
                format!("log device size {} is out of range", self.size()),
                "use 64MiB to 1GiB, which every filesystem with a log takes",
            ));
        }
        (self.path.is_some() && self.kind == LogKind::Ramdisk)
            .then(|| ("path", "a ramdisk takes no path".into(), "leave path out"))
    }
}

/// An array of md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raid {
    /// raid0, raid1 or raid10.
    pub level: RaidLevel,
    /// Bytes on one member before the next; not for raid1. Default: 512KiB.
    pub chunk: Option<Bytes>,
}

serde_as_text!(Raid, "^raid(0|1|10)(,chunk=.+)?$", "an array of md: raid1, raid10,chunk=64KiB");

words! {
    /// Levels of md.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum RaidLevel {
        /// Striped.
        "raid0" Raid0,
        /// Copies.
        "raid1" Raid1,
        /// Striped copies, two of everything.
        "raid10" Raid10,
    }
}

impl RaidLevel {
    /// mdadm's name of it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid10 => 10,
        }
    }

    /// The fewest members.
    pub const fn least_members(self) -> u16 {
        match self {
            Self::Raid0 | Self::Raid1 => 2,
            Self::Raid10 => 4,
        }
    }
}

impl fmt::Display for Raid {
    /// `raid10,chunk=64KiB`, as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        self.chunk.map_or(Ok(()), |chunk| write!(f, ",chunk={chunk}"))
    }
}

impl FromStr for Raid {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once(',').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let level = RaidLevel::named(word)
            .ok_or_else(|| format!("there is no level `{word}`; use one of {}", RaidLevel::names()))?;
        let chunk = rest.map(|rest| {
            let value = rest.strip_prefix("chunk=").ok_or_else(|| format!("`{rest}` is not chunk=SIZE"))?;
            value.parse().map_err(|e: crate::units::UnitError| e.to_string())
        });
        Ok(Self { level, chunk: chunk.transpose()? })
    }
}

impl Raid {
    /// The chunk, where the level has one.
    pub fn chunk(&self) -> Option<Bytes> {
        (self.level != RaidLevel::Raid1).then(|| self.chunk.unwrap_or(Bytes::kib(512)))
    }

    /// The problem with it over this many members, if any, and the remedy.
    fn problem(&self, members: u16) -> Option<(String, String)> {
        let least = self.level.least_members();
        if members < least {
            let hint = format!("write members = {least}, or more");
            return Some((
                format!("{} needs at least {least} members, got {members}", self.level.name()),
                hint,
            ));
        }
        match self.chunk {
            Some(_) if self.level == RaidLevel::Raid1 => {
                Some(("raid1 has no chunk: it stripes nothing".into(), "leave chunk out".into()))
            }
            Some(chunk) => device_model::chunk_problem(chunk),
            None => None,
        }
    }
}

impl Device {
    /// The problem with its members and their array, if any: the key, the problem, the remedy.
    pub(crate) fn members_problem(&self) -> Option<(&'static str, String, String)> {
        let Some(members) = self.members else {
            let hint = "write members = 4 (--set device.members=4), and raid = \"raid10\"".to_owned();
            return self.raid.map(|raid| ("raid", format!("{} needs members", raid.level.name()), hint));
        };
        if !self.can_be_several() {
            let hint = "use image or ramdisk, or leave members out".into();
            return Some((
                "members",
                format!("a device of kind {} cannot have members", self.kind.name()),
                hint,
            ));
        }
        if !(2..=16).contains(&members) {
            return Some(("members", format!("members = {members} is out of range"), "use 2 to 16".into()));
        }
        let (problem, hint) = self.raid?.problem(members)?;
        Some(("raid", problem, hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_reads_back_and_a_wrong_one_names_the_remedy() {
        for text in ["raid10,chunk=64KiB", "raid1", "raid0"] {
            assert_eq!(text.parse::<Raid>().unwrap().to_string(), text);
        }
        assert!("raid5".parse::<Raid>().unwrap_err().contains("use one of raid0"));
        assert!("raid0,64KiB".parse::<Raid>().unwrap_err().contains("chunk=SIZE"));
        let problem = |raid: Option<&str>, members, kind| {
            let raid = raid.map(|text| text.parse().unwrap());
            Device { kind, members, raid, ..Device::default() }.members_problem().map(|(key, ..)| key)
        };
        assert_eq!(problem(Some("raid10"), Some(4), DeviceKind::Image), None);
        assert_eq!(problem(None, Some(2), DeviceKind::Ramdisk), None);
        assert_eq!(problem(Some("raid10"), Some(2), DeviceKind::Image), Some("raid"));
        assert_eq!(problem(Some("raid1,chunk=64KiB"), Some(2), DeviceKind::Image), Some("raid"));
        assert_eq!(problem(Some("raid0,chunk=48KiB"), Some(2), DeviceKind::Image), Some("raid"));
        assert_eq!(problem(Some("raid0"), None, DeviceKind::Image), Some("raid"));
        assert_eq!(problem(None, Some(1), DeviceKind::Image), Some("members"));
        assert_eq!(problem(None, Some(4), DeviceKind::Disk), Some("members"));
    }
}
