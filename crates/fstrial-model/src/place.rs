//! Places: where arms are built in addition to the device of the trial: on other hosts, under other kernels, on other
//! devices, or in other boots of this host.
//!
//! A trial does not hold the command that reaches another host: the file may come from elsewhere, and the command would
//! run as root. The command line supplies it.

use crate::device::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name of a place, in characters.
const MAX_NAME: usize = 40;

/// Passage of time at the place of an arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// As on the machine.
    #[default]
    Real,
    /// Virtual time: each instruction of the one emulated processor takes a nanosecond, and an idle processor jumps to its next timer.
    Virtual,
    /// At the speed of the emulator, so times do not describe a machine.
    Emulator,
}

/// A place for arms: another host, another device of this host, both, or a boot of this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceSpec {
    /// Its name in arms and in `--place NAME=COMMAND`.
    pub name: String,
    /// Its device, an image, a ramdisk or a model; default: one like the trial's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// It is a guest under this kernel, one of `fstrial kernels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The guest runs on the host's own processors, by KVM. Otherwise one is emulated: in virtual time if the device is
    /// in the guest's memory (a ramdisk, a model); if not, only counts are compared.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub kvm: bool,
    /// Its device is made by an agent, on another host. A place without a device is always reached so.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub agent: bool,
    /// This host, booted for it: under another kernel, or with other parameters. Then all places are boots;
    /// `--as-arm NAME` names the current one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub boot: bool,
}

/// Why a word cannot be the name of a place, if it cannot: names come after the `@` of an arm.
pub fn name_problem(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    let is_good = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    (!is_good).then(|| {
        format!("the name of a place is 1 to {MAX_NAME} letters, digits, dots, dashes and underscores")
    })
}

impl PlaceSpec {
    /// Another host.
    pub fn elsewhere(name: &str) -> Self {
        Self { name: name.to_owned(), device: None, kernel: None, kvm: false, agent: false, boot: false }
    }

    /// A boot of this host.
    pub fn boot(name: &str) -> Self {
        Self { boot: true, ..Self::elsewhere(name) }
    }

    /// A guest under a kernel of this name.
    pub fn guest(kernel: &str) -> Self {
        Self { kernel: Some(kernel.to_owned()), ..Self::elsewhere(kernel) }
    }

    /// The same with the model of its device written out.
    #[must_use]
    pub(crate) fn settled(&self) -> Self {
        Self { device: self.device.as_ref().map(Device::settled), ..self.clone() }
    }

    /// True if it is on another host, reached by a command.
    pub fn takes_command(&self) -> bool {
        !self.is_here() && self.kernel.is_none()
    }

    /// True for the host that runs fstrial: a device of it, or a boot.
    pub fn is_here(&self) -> bool {
        self.boot || self.device.is_some() && !self.agent && self.kernel.is_none()
    }

    /// The key of an impossible setting, with the problem and the remedy.
    pub(crate) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        if let Some(problem) = name_problem(&self.name) {
            return Some(("name", problem, "call it for example node-1"));
        }
        if self.kernel.as_deref().is_some_and(|kernel| name_problem(kernel).is_some()) {
            return Some((
                "kernel",
                "that is not the name of a kernel".into(),
                "`fstrial kernels` lists them",
            ));
        }
        if self.kvm && self.kernel.is_none() {
            return Some(("kvm", "only a guest runs by KVM".into(), "name its kernel, or leave kvm out"));
        }
        if self.boot && (self.kernel.is_some() || self.agent || self.device.is_some()) {
            let hint = "leave boot out, or device, kernel and agent: a boot uses the device of the trial";
            return Some(("boot", "a boot is this host, and has only the device of the trial".into(), hint));
        }
        let device = self.device.as_ref().filter(|device| !device.kind.is_made())?;
        Some((
            "device",
            format!("a place cannot have a separate {}", device.kind.name()),
            "use an image, a ramdisk or a modelled device, or make it the device of the trial",
        ))
    }
}
