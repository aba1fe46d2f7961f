//! Claims: a statement about speed with its source, and the expectations on a trial that decide it.
//!
//! A claim file is a trial file with a `[claim]` table. Features of the author's system that this kernel lacks are
//! replaced by rule ([`era`]), sizes and levels are scaled to the machine ([`Scale`]), and both are printed with the
//! answer.

mod catalogue;
mod cell;
pub mod era;
mod expectation;
mod question;
mod scale;
mod shipped;

pub use catalogue::CATALOGUE;
pub use cell::{CellName, Level};
pub use expectation::{Expectation, Number};
pub use question::{Bound, ClaimQuestion, Part, Spot};
pub use scale::{Machine, Scale, SizeRule};
pub use shipped::CLAIMS;

use crate::{
    arm::Arm,
    problem::{Problem, problem},
    trial::Trial,
    units::Nanos,
};
use era::Rules;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The longest of a claim's texts, in characters.
const MAX_TEXT: usize = 2000;
/// Expectations of a claim, at most.
const MAX_EXPECTATIONS: usize = 64;

/// A statement with its source, and its expectations of the trial it is in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Claim {
    /// Name: small letters, digits and hyphens, such as `chinner-2012-xfs-scales`.
    pub id: String,
    /// The claim, in one sentence.
    pub statement: String,
    /// Person or company that made the claim, such as `Vadim Tkachenko`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub author: String,
    /// Date: a year, a month (`2012-03`) or a day.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Its publication.
    #[serde(rename = "where", skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The day of the last change of the expectations, or of the trial that decides it (`2026-11-23`). Measurements
    /// from then on are a test; earlier ones may have shaped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub fixed: Option<Date>,
    /// Original hardware and software.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// The original figures in a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub said: String,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Limits of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// A question without a statement: its answer is the measured figure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub question: bool,
    /// Minimum of processors: with fewer, only the verdict *confirmed* counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Requirements in addition to those of the trial itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// Arms that are left out, with the expectations that name them, if their filesystem is not available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
    /// Budget of a quick check, if the usual one is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quick: Option<Nanos>,
    /// Other words for its verdicts.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub answers: Answers,
    /// Scaling to the machine.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub scale: Scale,
    /// Replacements of features that this kernel lacks; written by the check, not by users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub substituted: Vec<String>,
    /// Scaling applied for the machine; written by the check, not by users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaled: Vec<String>,
    /// Tables and curves of the source.
    #[serde(rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<OriginalTable>,
    /// Expectations; the claim holds only if all of them hold.
    #[serde(rename = "expect", skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
}

/// Other words for verdicts, for a claim that is a question in disguise: `patched` for confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Answers {
    /// For confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<String>,
    /// For reversed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reversed: Option<String>,
    /// For no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_difference: Option<String>,
    /// For smaller than claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaller: Option<String>,
}

/// A table or curve of the source, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginalTable {
    /// Its subject.
    pub title: String,
    /// Unit of its figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each with as many entries as there are columns.
    pub rows: Vec<Vec<Number>>,
}

/// Something that must be there for a claim to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Need {
    /// A preset of this name.
    Workload(String),
    /// Another kernel, as text.
    Kernel(String),
    /// A kernel before this version.
    KernelBefore(era::Version),
    /// A program on the path.
    Program(String),
    /// A device, as text.
    Device(String),
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, what) = text.split_once(':').unwrap_or((text, ""));
        let what = what.trim().to_owned();
        let kinds = "workload:PRESET, kernel:WORDS, program:NAME, device:WORDS or kernel-before:VERSION";
        match kind {
            _ if what.is_empty() => Err(format!("`{text}` is not a requirement; write {kinds}")),
            "workload" => Ok(Self::Workload(what)),
            "kernel" => Ok(Self::Kernel(what)),
            "kernel-before" => what.parse().map(Self::KernelBefore),
            "program" => Ok(Self::Program(what)),
            "device" => Ok(Self::Device(what)),
            _ => Err(format!("unknown requirement `{kind}`; use one of {kinds}")),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, what) = match self {
            Self::KernelBefore(version) => return write!(f, "kernel-before:{version}"),
            Self::Workload(what) => ("workload", what),
            Self::Kernel(what) => ("kernel", what),
            Self::Program(what) => ("program", what),
            Self::Device(what) => ("device", what),
        };
        write!(f, "{kind}:{what}")
    }
}

strings_in_files!(Need);

impl Trial {
    /// Fits the trial of a claim to a machine: features that its kernel lacks are replaced, sizes and levels are
    /// scaled, and both are noted in the claim. A trial without a claim stays as it is.
    ///
    /// # Errors
    /// The feature without a replacement, and the requirement of a check.
    pub fn fit(&mut self, machine: &Machine, rules: &Rules) -> Result<(), String> {
        let Some(claim) = self.claim.take() else { return Ok(()) };
        self.normalise();
        let before = self.arms.clone();
        let substituted = rules.apply(self, machine.kernel)?;
        let scaled = claim.scale.apply(self, machine);
        if let Some((one, other)) = made_alike(&before, &self.arms) {
            return Err(format!(
                "{one} and {other} are identical today: the option that distinguished them was removed"
            ));
        }
        // Default levels follow from the processors: written out, as the claim's own are.
        for entry in &mut self.workloads {
            if entry.threads.is_none() {
                entry.threads = entry.resolve(machine.cpus).ok().map(|workload| workload.threads);
            }
        }
        self.claim = Some(Box::new(Claim { substituted, scaled, ..claim.settled(machine.cpus) }));
        Ok(())
    }
}

impl Trial {
    /// Takes arms out of the trial of a claim, with the expectations that name them.
    pub fn leave_out(&mut self, arms: &[String]) {
        self.arms.retain(|arm| !arms.contains(&arm.name));
        if let Some(claim) = &mut self.claim {
            claim.optional.retain(|name| !arms.contains(name));
            claim.expectations.retain(|expected| !expected.cells().any(|cell| arms.contains(&cell.arm)));
            // A single remaining arm has no opponent.
            if self.arms.len() < 2 {
                claim.expectations.retain(|expected| !expected.no_single_winner);
            }
        }
    }
}

/// Two arms that differed, and no longer do.
fn made_alike<'a>(before: &[Arm], after: &'a [Arm]) -> Option<(&'a str, &'a str)> {
    let nameless = |arm: &Arm| Arm { name: String::new(), ..arm.clone() };
    let alike = |arms: &[Arm], a: usize, b: usize| nameless(&arms[a]) == nameless(&arms[b]);
    let mut pairs = (0..after.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let (a, b) = pairs.find(|(a, b)| alike(after, *a, *b) && !alike(before, *a, *b))?;
    Some((&after[a].name, &after[b].name))
}

impl Claim {
    /// Only the deciding parts, without descriptions.
    #[must_use]
    pub fn without_words(self) -> Self {
        let bare = |expected: Expectation| Expectation { says: None, reading: None, then: None, ..expected };
        Self {
            id: self.id,
            question: self.question,
            expectations: self.expectations.into_iter().map(bare).collect(),
            ..Self::default()
        }
    }

    /// The first thing wrong about it, but for the cells that it names ([`parts`](Self::parts) finds those).
    pub(crate) fn problem(&self) -> Option<Problem> {
        let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if self.id.is_empty() || self.id.len() > 80 || !self.id.chars().all(is_id) {
            return Some(problem(
                &["claim", "id"],
                format!("`{}` cannot be the name of a claim", self.id),
                "use small letters, digits and hyphens, such as id = \"me-2026-xfs-deletes-slowly\"",
            ));
        }
        if self.statement.is_empty() {
            return Some(problem(
                &["claim", "statement"],
                "the claim has no statement",
                "state the claim in one sentence: statement = \"…\"",
            ));
        }
        self.texts_problem().or_else(|| self.tables_problem()).or_else(|| self.expectations_problem())
    }

    fn texts_problem(&self) -> Option<Problem> {
        let texts = [
            ("statement", &self.statement),
            ("author", &self.author),
            ("date", &self.date),
            ("where", &self.place),
            ("setup", &self.setup),
            ("said", &self.said),
        ];
        let caveat = self.caveat.iter().map(|text| ("caveat", text));
        let (key, _) = texts.into_iter().chain(caveat).find(|(_, text)| text.chars().count() > MAX_TEXT)?;
        let hint = format!("keep it below {MAX_TEXT} characters");
        Some(problem(&["claim", key], "the text is too long", hint))
    }

    fn tables_problem(&self) -> Option<Problem> {
        let is_bad = |table: &OriginalTable| table.rows.iter().any(|row| row.len() != table.columns.len());
        let at = self.tables.iter().position(is_bad)?;
        Some(problem(
            &["claim", "table", &at.to_string(), "rows"],
            "a row has more or fewer entries than `columns` has names",
            "give every row as many entries as `columns` has names",
        ))
    }

    fn expectations_problem(&self) -> Option<Problem> {
        if self.expectations.len() > MAX_EXPECTATIONS {
            let message = format!("the claim has {} expectations", self.expectations.len());
            let hint = format!("use at most {MAX_EXPECTATIONS}");
            return Some(problem(&["claim", "expect"], message, hint));
        }
        match (self.question, self.expectations.is_empty()) {
            (false, true) => Some(problem(
                &["claim", "statement"],
                "the statement has no expectation",
                "add [[claim.expect]], such as ratio = [\"xfs @ 4\", \"ext4 @ 4\"] with above = 1, or \
                     set question = true",
            )),
            (true, false) => Some(problem(
                &["claim", "question"],
                "the claim has a question and an expectation; a question states nothing",
                "leave out question, or the expectations",
            )),
            _ => None,
        }
    }
}
