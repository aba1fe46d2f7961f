//! Places: where arms are built in addition to the device of the trial: on other hosts, and how each is reached, or on other
//! devices.

use crate::device::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name of a place, in characters.
const MAX_NAME: usize = 40;
/// The most words of a command.
const MAX_WORDS: usize = 64;

/// Where arms are built: another host, another device of this host, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// What arms call it.
    pub name: String,
    /// The command that runs `fstrial agent` there, with its standard input and output, such as `["ssh", "host",
    /// "fstrial", "agent"]`. No shell is involved. Left out: it is this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its device, an image, a ramdisk or a model; left out: one like the trial's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
}

/// Why a word cannot be the name of a place, if it cannot: names come after the `@` of an arm.
pub fn name_problem(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    let is_good = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    (!is_good).then(|| {
        format!("the name of a place is 1 to {MAX_NAME} letters, digits, dots, dashes and underscores")
    })
}

impl Place {
    /// The same with the model of its device written out.
    #[must_use]
    pub(crate) fn settled(&self) -> Self {
        Self { device: self.device.as_ref().map(Device::settled), ..self.clone() }
    }

    /// Whether it is a device of the host where fstrial was started.
    pub fn is_here(&self) -> bool {
        self.command.is_empty()
    }

    /// The key of what is impossible about it, with what and what to try.
    pub(crate) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        if let Some(problem) = name_problem(&self.name) {
            return Some(("name", problem, "call it for example node-1"));
        }
        let words = &self.command;
        if let Some(device) = &self.device {
            if !device.kind.is_made() {
                return Some((
                    "device",
                    format!("a place cannot have a {} of its own", device.kind.name()),
                    "use an image, a ramdisk or a modelled device, or make it the device of the trial",
                ));
            }
            if words.is_empty() {
                return None;
            }
        }
        if words.first().is_none_or(String::is_empty) || words.len() > MAX_WORDS {
            let problem = format!("the command of a place has 1 to {MAX_WORDS} words, the first a program");
            return Some((
                "command",
                problem,
                "write for example [\"ssh\", \"host\", \"fstrial\", \"agent\"], or give it a device of this host",
            ));
        }
        None
    }
}

impl std::str::FromStr for Place {
    type Err = String;

    /// `NAME=COMMAND`, the command split at spaces.
    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write for example node=\"ssh host fstrial agent\"";
        let (name, command) = text.split_once('=').ok_or_else(|| format!("there is no =; {example}"))?;
        let command = command.split_whitespace().map(str::to_owned).collect();
        let place = Self { name: name.to_owned(), command, device: None };
        match place.problem() {
            Some((_, problem, _)) => Err(format!("{problem}; {example}")),
            None => Ok(place),
        }
    }
}
