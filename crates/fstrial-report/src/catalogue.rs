//! The claims of the catalogue with their results, in chapters: one document from a store, or of several machines, and
//! its forms: text, Markdown, a page, CSV, and the file that users share.

mod chapters;
mod machines;
mod rows;
pub(crate) mod text;

pub use chapters::Chapter;
pub use machines::{Machines, machines};
pub use rows::csv;
pub use text::{markdown, text as for_terminal};

use crate::claim::{ClaimReport, PartReport};
use fstrial_model::{claim::CATALOGUE, device::DeviceKind, units::Bytes};
use fstrial_run::{
    answers::{self, Answers},
    claim::ClaimVerdict,
    environment::Environment,
};
use serde::{Deserialize, Serialize};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Figures of a claim in its citation, at most.
const CITED: usize = 4;

/// The catalogue's claims with the results of a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Catalogue {
    /// Version of this format: the value of [`SCHEMA_VERSION`].
    pub claims_schema_version: u32,
    /// Version of the catalogue, which increases with every change of an expectation.
    pub catalogue: u32,
    pub fstrial: String,
    /// Each claim of the catalogue, in the order of its chapters.
    pub claims: Vec<ClaimRow>,
}

/// A claim with its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimRow {
    #[serde(flatten)]
    pub report: ClaimReport,
    /// Why it has no result: `not in this store`, `not testable here: …`; none if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The trial that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredClaim>,
}

/// Circumstances of a claim's trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasuredClaim {
    /// Number of the trial in its store.
    pub trial: i64,
    /// Day on which its first session began.
    pub day: String,
    /// False while it runs, and after an interruption or a failure.
    pub has_ended: bool,
    /// Time of its runs, in seconds.
    pub spent_seconds: f64,
    pub machine: MachineRow,
    /// Kind of the device, or the name of its model.
    pub device: String,
    /// True on the device that the claim names.
    pub is_own_device: bool,
    /// The planted slowdown and its measured effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted: Option<String>,
    /// Causes of its differences, from observed runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Receipts of its arms, or why there are none.
    pub receipts: Vec<String>,
    /// Other devices and machines, for which the verdict does not speak.
    pub not_for: String,
    /// Its ratios with their errors and without names, for synthesis over machines; none if it has no ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

/// A machine as far as it is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRow {
    pub kernel: String,
    pub processor: String,
    pub cpus: u16,
    pub memory: Bytes,
    pub virtual_machine: bool,
}

impl Catalogue {
    pub fn new(claims: Vec<ClaimRow>) -> Self {
        Self {
            claims_schema_version: SCHEMA_VERSION,
            catalogue: CATALOGUE,
            fstrial: env!("CARGO_PKG_VERSION").into(),
            claims,
        }
    }

    /// The file that users share: the claims with a result, without notes, which may name files and folders, and without what
    /// its builder added to the kernel's version.
    #[must_use]
    pub fn to_share(mut self) -> Self {
        self.claims.retain(|row| row.measured.is_some());
        for row in &mut self.claims {
            row.report.notes.clear();
            if let Some(MeasuredClaim { machine, .. }) = &mut row.measured {
                machine.kernel = machine.release().to_owned();
            }
        }
        self
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("results are plain data") + "\n"
    }

    /// A claim by its name.
    pub fn claim(&self, id: &str) -> Option<&ClaimRow> {
        self.claims.iter().find(|row| row.report.id == id)
    }

    /// The machines of its trials, each once.
    pub fn machines(&self) -> Vec<&MachineRow> {
        let mut machines: Vec<&MachineRow> = Vec::new();
        for measured in self.claims.iter().filter_map(|row| row.measured.as_ref()) {
            if !machines.contains(&&measured.machine) {
                machines.push(&measured.machine);
            }
        }
        machines
    }

    /// `58 claims: 12 confirmed, 9 reversed, …, 4 not in this store; version 9 of the catalogue`.
    pub fn summary(&self) -> String {
        let measured: Vec<ClaimVerdict> =
            self.claims.iter().filter(|row| row.open.is_none()).map(|row| row.report.verdict).collect();
        let mut open: Vec<(&str, usize)> = Vec::new();
        for reason in self.claims.iter().filter_map(|row| row.open.as_deref()) {
            let kind = reason.split_once(':').map_or(reason, |(kind, _)| kind);
            match open.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => open.push((kind, 1)),
            }
        }
        let open: String = open.iter().map(|(kind, count)| format!(", {count} {kind}")).collect();
        format!("{}{open}; version {} of the catalogue", counts(self.claims.len(), &measured), self.catalogue)
    }
}

impl ClaimRow {
    /// Its verdict, or why it has none.
    pub fn verdict(&self) -> &str {
        self.open.as_deref().unwrap_or(&self.report.answer)
    }

    /// Rounds that its parts rest on: `29`, `29 to 101`; none without any.
    pub fn rounds(&self) -> Option<String> {
        let of_parts = || self.report.parts.iter().map(|part| part.rounds).filter(|rounds| *rounds > 0);
        match (of_parts().min()?, of_parts().max()?) {
            (least, most) if least < most => Some(format!("{least} to {most}")),
            (_, most) => Some(most.to_string()),
        }
    }

    /// One line to paste into a mail: verdict, figure, original figure, circumstances, and the command that repeats it.
    pub fn citation(&self, catalogue: u32) -> String {
        let ClaimReport { id, said, parts, .. } = &self.report;
        let claimed = || parts.iter().filter(|part| !part.planted && part.figure.is_some());
        // One that stands for the whole, else all of them.
        let cited: Vec<&PartReport> = match claimed().find(|part| part.verdict == self.report.verdict) {
            Some(one) => vec![one],
            None => claimed().take(CITED).collect(),
        };
        let figures: String =
            cited.iter().map(|part| format!(", {} = {}", text::short(&part.subject), part.here())).collect();
        let circumstances = self.measured.as_ref().map_or_else(String::new, |measured| {
            let rounds = self.rounds().map_or_else(String::new, |rounds| format!(" {rounds} rounds,"));
            let release = measured.machine.release();
            format!(";{rounds} Linux {release}, {}, {}", measured.device, measured.day)
        });
        format!(
            "fstrial claims v{catalogue} {id}: {}{figures} (then: {said}){circumstances}; fstrial claims check {id}",
            self.verdict()
        )
    }
}

impl MachineRow {
    pub fn of(environment: &Environment) -> Self {
        Self {
            kernel: environment.kernel.clone(),
            processor: environment.processor.clone(),
            cpus: environment.cpus,
            memory: environment.memory,
            virtual_machine: environment.virtual_machine,
        }
    }

    /// The kernel's version: `6.18.44`.
    pub fn release(&self) -> &str {
        answers::release_of(&self.kernel)
    }

    /// `Linux 6.18.44 x86_64, AMD EPYC, 2 CPUs, virtual machine, 23.5 GiB`.
    pub fn in_words(&self) -> String {
        let kind = if self.virtual_machine { ", virtual machine" } else { "" };
        let cpus = crate::numbers::counted(self.cpus, "CPU");
        format!("Linux {}, {}, {cpus}{kind}, {}", self.kernel, self.processor, self.memory.human())
    }
}

/// Devices and machines for which a verdict does not speak, and the claim's own caveat.
pub fn not_for(kind: DeviceKind, cpus: u16, caveat: Option<&str>) -> String {
    let device = match kind {
        DeviceKind::Ramdisk => "a drive (this one is memory)",
        DeviceKind::Model => "a drive (this one is a model)",
        DeviceKind::Image => "a drive without the filesystem below the image",
        _ => "other drives",
    };
    let cpus = crate::numbers::counted(cpus, "processor");
    let caveat = caveat.map_or_else(String::new, |caveat| format!(". {caveat}"));
    format!("{device}, other kernels, more than {cpus}{caveat}")
}

/// True if a figure of a part is drawn: a ratio.
pub(crate) fn is_drawn(part: &PartReport) -> bool {
    part.figure.as_deref() == Some("ratio")
        && part.measured.is_some_and(|value| value.is_finite() && value > 0.0)
}

/// `41 claims: 12 confirmed, 9 reversed, …`, of this many claims with these verdicts.
pub fn counts(claims: usize, found: &[ClaimVerdict]) -> String {
    let all = [
        ClaimVerdict::Confirmed,
        ClaimVerdict::PartlyConfirmed,
        ClaimVerdict::Reversed,
        ClaimVerdict::NoDifference,
        ClaimVerdict::Smaller,
        ClaimVerdict::Measured,
        ClaimVerdict::Undecided,
        ClaimVerdict::Insensitive,
        ClaimVerdict::NotTestable,
    ];
    let count = |verdict| found.iter().filter(|found| **found == verdict).count();
    let parts = all.into_iter().filter(|verdict| count(*verdict) > 0);
    let parts: Vec<String> = parts.map(|verdict| format!("{} {}", count(verdict), verdict.words())).collect();
    let mark = if parts.is_empty() { "" } else { ": " };
    format!("{}{mark}{}", crate::numbers::counted(claims, "claim"), parts.join(", "))
}
