//! Sources of claims: the shipped ones, by name, prefix of a name or tag, and files. And their requirements missing on
//! this machine.

use crate::cli::{in_file, lacking};
use fstrial_model::{
    arm::Arm,
    claim::{CLAIMS, Claim, Machine, Need, era::Rules},
    device::Device,
    memory::LimitedBy,
    preset,
    problem::did_you_mean,
    trial::Trial,
    units::Percent,
    workload::Workload,
};
use fstrial_run::error::ExpectedError;
use fstrial_stack::{command, memory};
use std::path::Path;

/// Default share of stalls that the rounds of a claim would show.
const STALLS: Percent = Percent(10.0);

/// A claim as it is written.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ClaimFile {
    /// The name of its file.
    name: String,
    text: String,
}

/// Availability of a claim here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Ready {
    Yes,
    /// Not available: the missing requirements.
    Missing(Vec<String>),
}

/// Check all claims that ship.
pub(super) fn all() -> Vec<ClaimFile> {
    CLAIMS.iter().map(|(id, text)| ClaimFile::of_text(id, text)).collect()
}

/// One claim: by its name, or from a file.
pub(super) fn find(name: &str) -> Result<ClaimFile, ExpectedError> {
    if name.ends_with(".toml") {
        return Ok(ClaimFile { name: name.into(), text: in_file::text(name.as_ref())? });
    }
    let known = CLAIMS.iter().find(|(id, _)| *id == name);
    known.map(|(id, text)| ClaimFile::of_text(id, text)).ok_or_else(|| match by_word(name) {
        Ok(several) => ExpectedError::usage(
            format!("`{name}` is not the name of one claim, but stands for {}", several.len()),
            format!("fstrial claims list {name}"),
        ),
        Err(unknown) => unknown,
    })
}

/// Claims by names, prefixes of names (up to a hyphen), tags, and files; each once, in the given order.
pub(super) fn choose(words: &[String]) -> Result<Vec<ClaimFile>, ExpectedError> {
    let mut chosen: Vec<ClaimFile> = Vec::new();
    for word in words {
        let result = if word.ends_with(".toml") { vec![find(word)?] } else { by_word(word)? };
        for claimed in result {
            if chosen.iter().all(|other| other.name != claimed.name) {
                chosen.push(claimed);
            }
        }
    }
    Ok(chosen)
}

fn by_word(word: &str) -> Result<Vec<ClaimFile>, ExpectedError> {
    let begins =
        |id: &str| id.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let mut result = Vec::new();
    for claimed in all() {
        if begins(&claimed.name) || claim(&claimed.read()?).tags.iter().any(|tag| tag == word) {
            result.push(claimed);
        }
    }
    if result.is_empty() { Err(unknown(word)) } else { Ok(result) }
}

fn unknown(name: &str) -> ExpectedError {
    let hint = did_you_mean(name, CLAIMS.iter().map(|(id, _)| *id))
        .unwrap_or_else(|| "`fstrial claims` lists them; a file must end in .toml".into());
    ExpectedError::usage(format!("no claim, prefix or tag matches `{name}`"), hint)
}

/// The claim of a trial that was read as one.
pub(super) fn claim(trial: &Trial) -> &Claim {
    trial.claim.as_deref().expect("it was read as a claim")
}

impl ClaimFile {
    pub(super) fn of_text(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// Its name, and its text unless it ships.
    pub(super) fn to_host(&self) -> (String, Option<String>) {
        let ships = CLAIMS.iter().any(|(id, text)| *id == self.name && *text == self.text);
        (self.name.clone(), (!ships).then(|| self.text.clone()))
    }

    /// The same on a host.
    ///
    /// # Errors
    /// No claim of this name ships.
    pub(in crate::cli) fn of_host(name: &str, text: Option<&String>) -> Result<Self, ExpectedError> {
        text.map_or_else(|| find(name), |text| Ok(Self::of_text(name, text)))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn read(&self) -> Result<Trial, ExpectedError> {
        Ok(Trial::read_claim(&self.name, &self.text)?)
    }

    /// The trial on a machine, and its availability there. If it cannot run, it is the trial as written. `device`
    /// replaces the claim's own, with that one's size if it has none. Kernels of its guests are those of `home`.
    pub(in crate::cli) fn prepare(
        &self,
        machine: &Machine,
        device: Option<&Device>,
        home: &Path,
    ) -> Result<(Trial, Ready), ExpectedError> {
        let written = self.read()?;
        let missing: Vec<String> =
            claim(&written).needs.iter().filter_map(|need| missing(need, machine)).collect();
        if !missing.is_empty() {
            return Ok((written, Ready::Missing(missing)));
        }
        let mut fitted = written.clone();
        fitted.normalise();
        if let Some(device) = device {
            let own = &written.device;
            let size = device.size.or(own.size.filter(|_| device.kind.is_made()));
            fitted.device = Device { size, ..device.clone() };
        }
        let left_out = leave_out(&mut fitted);
        // Arms in guests are built under the kernel of the guest.
        let of_guest = written.places.iter().find_map(|place| place.kernel.as_ref()?.parse().ok());
        let there = Machine { kernel: of_guest.unwrap_or(machine.kernel), ..*machine };
        if let Err(missing) = fitted.fit(&there, &Rules::shipped()) {
            return Ok((written, Ready::Missing(vec![missing])));
        }
        if let Some(claim) = &mut fitted.claim {
            claim.substituted.extend(left_out);
        }
        let mut trial = fitted.checked(&self.name, &self.text)?;
        if trial.trial.name.is_empty() {
            trial.trial.name = claim(&trial).id.clone();
        }
        // No claim is called without a difference unless one would have been detected.
        trial.trial.control = !claim(&trial).question;
        // And no verdict rests on rounds in which a stall of one run in ten would hardly have come up.
        trial.trial.stalls.get_or_insert(STALLS);
        trial.add_control(machine.cpus);
        let mut missing = lacking::of_trial(&trial, machine.cpus);
        missing.extend(lacking::of_guests(&trial, home));
        missing.extend(missing_memory(&trial, machine.cpus));
        let ready = if missing.is_empty() { Ready::Yes } else { Ready::Missing(missing) };
        Ok((trial, ready))
    }
}

/// Message about an unmet requirement.
fn missing(need: &Need, machine: &Machine) -> Option<String> {
    match need {
        Need::Workload(name) => preset::preset(name)
            .is_none()
            .then(|| format!("it takes the workload {name}, which this version of fstrial does not have")),
        Need::Kernel(what) => {
            Some(format!("it requires {what}; a claim that measures no times can name a kernel as a place"))
        }
        Need::KernelBefore(version) => {
            (machine.kernel >= *version).then(|| format!("it takes a kernel before {version}"))
        }
        Need::Program(name) => command::find(name)
            .is_none()
            .then(|| format!("it takes the program {name}, which is not installed here")),
        Need::Device(what) => Some(format!("it requires {what}, which fstrial cannot detect")),
    }
}

/// Leaves out the optional arms whose filesystem is not available here, if any expectation remains; returns a note.
fn leave_out(trial: &mut Trial) -> Option<String> {
    let is_missing = |arm: &&Arm| lacking::of_arm(trial, arm).is_some();
    let optional = &claim(trial).optional;
    let arms = trial.arms.iter().filter(|arm| optional.contains(&arm.name)).filter(is_missing);
    let (names, mut filesystems): (Vec<String>, Vec<String>) =
        arms.map(|arm| (arm.name.clone(), arm.filesystem.clone())).unzip();
    filesystems.dedup();
    let mut less = trial.clone();
    less.leave_out(&names);
    if names.is_empty() || claim(&less).expectations.is_empty() {
        return None;
    }
    *trial = less;
    let filesystems = filesystems.join(" and ");
    Some(format!("left out with their expectations: {} ({filesystems} not available here)", names.join(", ")))
}

/// Why the memory of the trial's loads cannot be limited here, or not so that its figures could decide the claim.
fn missing_memory(trial: &Trial, cpus: u16) -> Option<String> {
    let limit = trial.arms.iter().filter_map(|arm| trial.memory_of(arm)).max()?;
    let by = match memory::require(limit) {
        Ok(by) => by,
        Err(error) => return Some(error.to_string()),
    };
    let is_unlike = |workload: &Workload| by == LimitedBy::V1 && workload.is_buffered_write();
    let named = trial.resolve_workloads(cpus).ok()?.into_iter().find(is_unlike)?.name;
    Some(format!(
        "`{named}` writes through the page cache with a limit for the memory, and {by} does not slow down writers as a \
         machine with this much memory does; cgroup v2 does"
    ))
}
