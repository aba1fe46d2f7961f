//! The device section of a trial: what kind of device every arm is built on.

use crate::{
    arm::closest,
    device_model::{self, DeviceModel, MODELS},
    trial::{Problem, problem},
    units::Bytes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{fmt, path::PathBuf};

/// The device every arm of a trial is built on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What kind.
    #[serde(default)]
    pub kind: DeviceKind,
    /// Its size; image, ramdisk and model only. Left out: 2GiB, or what the workloads need if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// image: the folder the file is made in (left out: the current one). model: a folder for a sparse file that holds
    /// its data (left out: they are in memory). disk: the device, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// model: the name of a model that ships, a model file (*.toml), or the model written out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
}

impl Default for Device {
    fn default() -> Self {
        Self::of(DeviceKind::Image)
    }
}

/// Which model a modelled device follows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelChoice {
    /// A model that ships, or a file that ends in `.toml`.
    Named(String),
    /// The model itself.
    Written(Box<DeviceModel>),
}

impl<'de> Deserialize<'de> for ModelChoice {
    /// By hand, because an untagged enumeration says nothing of what is wrong inside.
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
        Self { kind, size: None, path: None, model: None }
    }

    /// What is impossible about its model.
    pub(crate) fn model_problem(&self) -> Option<Problem> {
        let at = &["device", "model"];
        match (self.kind, &self.model) {
            (DeviceKind::Model, None) => Some(problem(
                &["device", "kind"],
                "kind = \"model\" names no model",
                "write model = \"gp3-3000\"; `fstrial device list` shows the models there are",
            )),
            (DeviceKind::Model, Some(ModelChoice::Named(name))) if device_model::shipped(name).is_none() => {
                let hint = match closest(name, MODELS.iter().map(|(name, _)| *name)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        "`fstrial device list` shows the models there are; a file must end in .toml".into()
                    }
                };
                Some(problem(at, format!("there is no device model `{name}`"), hint))
            }
            (DeviceKind::Model, Some(ModelChoice::Written(model))) => model.problem().map(|found| Problem {
                path: at.iter().map(|part| (*part).to_owned()).chain(found.path).collect(),
                ..found
            }),
            (DeviceKind::Model, Some(ModelChoice::Named(_))) | (_, None) => None,
            (kind, Some(_)) => Some(problem(
                at,
                format!("a model beside kind = \"{}\"", kind.name()),
                "write kind = \"model\"",
            )),
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

/// The kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A loop device with direct I/O on a file of our own, allocated and written in full.
    #[default]
    Image,
    /// Memory: brd, a zram device of our own, or a loop device on a file in memory.
    Ramdisk,
    /// A device that behaves as a model says, with data in memory.
    Model,
    /// A whole real device, which is erased.
    Disk,
    /// Existing directories; every arm is `dir:PATH`.
    Directory,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Image, Self::Ramdisk, Self::Model, Self::Disk, Self::Directory];

    /// The name in files and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Ramdisk => "ramdisk",
            Self::Model => "model",
            Self::Disk => "disk",
            Self::Directory => "directory",
        }
    }

    /// Whether we make it, of a size to be chosen.
    pub const fn is_made(self) -> bool {
        matches!(self, Self::Image | Self::Ramdisk | Self::Model)
    }
}
