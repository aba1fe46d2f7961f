//! From stored trials to answers: a contrast, its ratio and error, the machine that it was measured on, how the trial
//! ended. [`crate::history`] puts them in order; the report pools them over hosts.

use super::{
    cell::Of,
    claim_words, contrast, course,
    environment::Environment,
    judge::{Estimate, Judge},
    numbers::hex,
    plan::Plan,
    round::{Earlier, Round},
    stored,
};
use crate::error::ExpectedError;
use fstrial_model::{
    claim::{Bound, ClaimQuestion},
    metric::Metric,
    trial::Compare,
    units::Bytes,
};
use fstrial_stats::Decision;
use fstrial_store::{Store, StoreError, StoredTrial, TrialId, TrialStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Subject of an answer, in the words of its trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Name of the workload in its trial.
    pub workload: String,
    /// The phase, or the group of threads in it; empty if the workload has only one.
    pub phase: String,
    /// The level.
    pub threads: u16,
    /// Unit of the figure itself.
    pub unit: String,
    /// True if less is better.
    pub less_is_better: bool,
}

/// Identity of a machine, as far as stores record it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Host {
    /// The name that its scheduler has for it, else its own.
    pub name: String,
    /// A digest of its machine-id; none in trials from before it was stored.
    pub machine: Option<String>,
}

/// End of a trial, as far as it can bias the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// It ran the number of rounds that was fixed before.
    Fixed,
    /// Its budget ended, or it was interrupted.
    Budget,
    /// Its own verdict on this contrast, which comes sooner where chance exaggerates the difference.
    Verdict,
}

/// A trial's answer to one contrast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The arm (or workload) that is measured against the other.
    pub a: String,
    /// The arm (or workload) it is measured against.
    pub b: String,
    pub metric: Metric,
    pub subject: Subject,
    /// Index in [`Answers::questions`].
    pub question: usize,
    /// `a` over `b` as the trial's own answer has it.
    pub ratio: Estimate,
    /// The standard error of its logarithm.
    pub standard_error: f64,
    pub stop: Stop,
    /// The claim that expects something of the ratio.
    pub expected: Option<Expected>,
}

/// A claim's expectation of a ratio, which is a part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Name of the claim.
    pub claim: String,
    /// The part, from 0.
    pub part: usize,
    /// Number of the claim's parts.
    pub parts: usize,
    /// The comparison: `xfs @ 2 / xfs @ 1`.
    pub what: String,
    pub bound: Bound,
    /// True if it is about a planted cause.
    pub planted: bool,
    pub blind: Blind,
}

/// Conditions that hide the effect of a claim in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// The machine has fewer processors than the claim takes.
    pub few_processors: bool,
    /// A cell ran at the limit of its device.
    pub at_limit: bool,
    /// All cells did.
    pub at_ceiling: bool,
}

impl Blind {
    /// Joined with the conditions of another trial.
    pub const fn join(&mut self, other: &Self) {
        self.few_processors |= other.few_processors;
        self.at_limit |= other.at_limit;
        self.at_ceiling |= other.at_ceiling;
    }
}

/// True if the answers of several hosts to a part of a claim can be pooled: [`Expected`] exists for no others.
pub const fn is_pooled(requested: &ClaimQuestion) -> bool {
    matches!(requested, ClaimQuestion::Ratio { .. } | ClaimQuestion::Better { .. })
}

/// Settings that distinguish questions, by name.
pub type Settings = BTreeMap<String, String>;

/// The answers of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    pub host: Host,
    pub kernel: String,
    pub processor: String,
    pub cpus: u16,
    pub memory: Bytes,
    pub virtual_machine: bool,
    /// The band in which a difference does not matter, a fraction.
    pub practical: f64,
    /// The metrics that the trial decides on.
    pub decides: Vec<Metric>,
    /// Each once.
    pub questions: Vec<Settings>,
    pub answers: Vec<Answer>,
}

/// The version whose answers are kept.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The machine of a trial, if its last session names one.
pub fn host_of(trial: &StoredTrial) -> Option<Host> {
    let environment: Environment = serde_json::from_str(&trial.sessions.last()?.environment).ok()?;
    Some(Host::of(&environment))
}

impl Answers {
    /// The same with a pseudonym for the host, and a digest for the settings of each question: equal ones stay equal, and
    /// none can be read.
    #[must_use]
    pub fn without_names(self) -> Self {
        let digest = |settings: Settings| {
            let digest = Sha256::digest(serde_json::to_string(&settings).expect("settings are plain data"));
            Settings::from([("settings".into(), hex(&digest[..8]))])
        };
        let kernel = release_of(&self.kernel).to_owned();
        let questions = self.questions.into_iter().map(digest).collect();
        Self { host: self.host.pseudonym(), kernel, questions, ..self }
    }
}

/// The version in the name of a kernel: `6.18.44`, without what its builder added.
pub fn release_of(kernel: &str) -> &str {
    kernel.split([' ', '-', '+']).next().unwrap_or_default()
}

impl Host {
    pub fn of(environment: &Environment) -> Self {
        let name = environment.node.as_ref().unwrap_or(&environment.host).clone();
        Self { name, machine: environment.machine.clone() }
    }

    /// The same machine under a pseudonym: a digest.
    #[must_use]
    pub fn pseudonym(&self) -> Self {
        let digest = Sha256::digest(format!("fstrial host {}", self.machine.as_ref().unwrap_or(&self.name)));
        Self { name: format!("host-{}", hex(&digest[..8])), machine: None }
    }
}

/// A stored trial's answers to its contrasts, without those of controls; or the reason why it has none. Read from the
/// kept answers, otherwise from its runs.
///
/// # Errors
/// The store cannot be read.
pub fn of_trial(store: &Store, trial: &StoredTrial) -> Result<Result<Answers, String>, ExpectedError> {
    let kept = store.kept_answers(trial.summary.id, VERSION)?;
    match kept.and_then(|json| serde_json::from_str(&json).ok()) {
        Some(answers) => Ok(Ok(answers)),
        None => computed(store, trial),
    }
}

/// Stores the answers of an ended trial with it; nothing for one without answers.
///
/// # Errors
/// The store cannot be read or written.
pub fn keep(store: &mut Store, trial: TrialId) -> Result<(), ExpectedError> {
    let stored = store.trial(trial)?;
    let Ok(answers) = computed(store, &stored)? else { return Ok(()) };
    let json = serde_json::to_string(&answers).expect("answers are plain data");
    Ok(store.keep_answers(trial, VERSION, &json)?)
}

fn computed(store: &Store, trial: &StoredTrial) -> Result<Result<Answers, String>, ExpectedError> {
    let read = match Read::of(store, trial) {
        Ok(read) => read,
        Err(reason) => return Ok(Err(reason)),
    };
    if read.plan.places.len() > 1 {
        return Ok(Err("its arms were on several hosts".into()));
    }
    let first = read.plan.trial.arms.first().map(|arm| arm.name.clone()).unwrap_or_default();
    let (read, rounds) = match read.with_rounds(store, trial, &first)? {
        Ok(matched) => matched,
        Err(reason) => return Ok(Err(reason)),
    };
    let judge = course::judged(&read.plan, rounds);
    let mut questions = Vec::new();
    let answers = 0..read.plan.contrasts.len();
    let answers: Vec<Answer> =
        answers.filter_map(|index| read.answer(trial, &judge, index, &mut questions)).collect();
    if answers.is_empty() {
        return Ok(Err("it has no ratio: too few rounds, or a failure".into()));
    }
    let (settings, environment) = (&read.plan.trial.trial, &read.environment);
    let mut decides = settings.decide_on.clone();
    if answers.iter().any(|answer| answer.expected.is_some()) {
        decides = answers.iter().map(|answer| answer.metric).collect::<BTreeSet<_>>().into_iter().collect();
    }
    Ok(Ok(Answers {
        host: Host::of(environment),
        kernel: environment.kernel.clone(),
        processor: environment.processor.clone(),
        cpus: environment.cpus,
        memory: environment.memory,
        virtual_machine: environment.virtual_machine,
        practical: settings.practical.fraction(),
        decides,
        questions,
        answers,
    }))
}

/// A stored trial, understood.
pub(crate) struct Read {
    pub(crate) plan: Plan,
    pub(crate) environment: Environment,
}

impl Read {
    pub(crate) fn of(store: &Store, stored: &StoredTrial) -> Result<Self, String> {
        match stored.summary.status {
            TrialStatus::Running => return Err("it still runs, or was killed".into()),
            TrialStatus::Failed => return Err("the trial failed".into()),
            TrialStatus::Decided | TrialStatus::BudgetEnded | TrialStatus::Interrupted => {}
        }
        let sessions = stored.sessions.iter().map(|session| serde_json::from_str(&session.environment));
        let sessions: Vec<Environment> = sessions
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the environment of a session cannot be read: {error}"))?;
        let is_other =
            |two: &[Environment]| (&two[0].kernel, &two[0].fstrial) != (&two[1].kernel, &two[1].fstrial);
        if sessions.windows(2).any(is_other) {
            return Err("it was resumed with another kernel or fstrial".into());
        }
        let (plan, environment) = stored::planned(store, stored).map_err(|error| match error {
            ExpectedError::Store(StoreError::Damaged { what, .. }) => what,
            error => error.to_string(),
        })?;
        Ok(Self { plan, environment })
    }

    /// The same with the machine that an arm was built on, and the rounds of the trial; or why they cannot be read.
    pub(crate) fn with_rounds(
        self,
        store: &Store,
        trial: &StoredTrial,
        arm: &str,
    ) -> Result<Result<(Self, Vec<Round>), String>, ExpectedError> {
        let earlier = match stored::earlier(store, &self.plan, trial.summary.id) {
            Ok(earlier) => earlier,
            Err(ExpectedError::Store(StoreError::Damaged { what, .. })) => return Ok(Err(what)),
            Err(error) => return Err(error),
        };
        let read = self.at_the_place_of(arm, &earlier);
        Ok(read
            .map(|read| (read, earlier.rounds))
            .ok_or_else(|| "the environment of its runs cannot be read".into()))
    }

    /// The same with the machine that built an arm, if that is at a separate place. None if it cannot be read.
    fn at_the_place_of(self, arm: &str, earlier: &Earlier) -> Option<Self> {
        let arms = &self.plan.trial.arms;
        let place = arms.iter().find(|other| other.name == arm).and_then(|arm| arm.place.as_ref());
        let Some(stored) = place.and_then(|place| earlier.environments.get(place)) else { return Some(self) };
        Some(Self { environment: serde_json::from_str(stored).ok()?, ..self })
    }

    pub(crate) fn subject(&self, metric: Metric, cell: usize, result: usize) -> Subject {
        let cell = self.plan.cells[cell];
        let kind = &self.plan.results[cell.workload][result];
        Subject {
            workload: self.plan.workloads[cell.workload].name.clone(),
            phase: kind.name.clone(),
            threads: cell.threads,
            unit: metric.unit(kind).to_owned(),
            less_is_better: metric.less_is_better(kind),
        }
    }

    pub(crate) fn release(&self) -> &str {
        self.environment.kernel.split(' ').next().unwrap_or_default()
    }

    /// The device by kind, size and model: stable across boots.
    fn device(&self) -> String {
        without_nodes(self.device_and_folder().0).0
    }

    /// The device as text, and the folder of a file.
    fn device_and_folder(&self) -> (&str, Option<&str>) {
        let device = self.environment.device.as_str();
        match device.rsplit_once(" in /").filter(|_| self.plan.trial.device.kind.is_file()) {
            Some((file, _)) => (file, Some(&device[file.len() + " in ".len()..])),
            None => (device, None),
        }
    }

    /// Settings that distinguish questions on the same machine.
    pub(crate) fn settings(
        &self,
        stored: &StoredTrial,
        arms: &[&str],
        cell: usize,
    ) -> BTreeMap<String, String> {
        let mut settings = self.question(stored, arms, &[cell]);
        flatten("memory limited by", &json(&self.environment.memory_limited_by), &mut settings);
        settings.insert("device".into(), self.device());
        settings.insert("device.size".into(), self.plan.device_size.to_string());
        settings.insert("processor".into(), self.environment.processor.clone());
        settings.insert("cpus".into(), self.environment.cpus.to_string());
        for arm in stored.arms.iter().filter(|arm| arms.contains(&arm.name.as_str())) {
            if let Some(facts) = &arm.facts {
                flatten(&format!("durability of {}", arm.name), &json(&facts.durability), &mut settings);
            }
        }
        settings
    }

    /// Settings that distinguish questions on any machine: the trial file's entries for these arms and the workloads of
    /// these cells.
    fn question(&self, stored: &StoredTrial, arms: &[&str], cells: &[usize]) -> BTreeMap<String, String> {
        let trial = &self.plan.trial;
        let mut settings = BTreeMap::new();
        for (position, cell) in cells.iter().enumerate() {
            let name = if position == 0 { "workload" } else { "other workload" };
            flatten(name, &json(&self.plan.workloads[self.plan.cells[*cell].workload]), &mut settings);
        }
        settings.retain(|name, _| !name.contains("workload.name") && !name.contains("workload.threads"));
        flatten("device", &json(&trial.device), &mut settings);
        settings.remove("device.path");
        flatten("log device", &json(&trial.log_device), &mut settings);
        settings.remove("log device.path");
        flatten("state", &json(&trial.trial.state), &mut settings);
        flatten("restore", &json(&trial.trial.restore), &mut settings);
        flatten("memory", &json(&trial.trial.memory), &mut settings);
        if trial.trial.clients > 1 {
            settings.insert("clients".into(), trial.trial.clients.to_string());
        }
        for arm in stored.arms.iter().filter(|arm| arms.contains(&arm.name.as_str())) {
            settings.insert(format!("arm {}", arm.name), arm.configuration.clone());
        }
        settings
    }

    /// Circumstances that may differ from point to point.
    pub(crate) fn circumstances(&self, stored: &StoredTrial, arms: &[&str]) -> BTreeMap<String, String> {
        let environment = &self.environment;
        let mut with = BTreeMap::from([
            ("kernel".into(), environment.kernel.clone()),
            ("fstrial".into(), environment.fstrial.clone()),
            ("host".into(), environment.host.clone()),
            ("distribution".into(), environment.distribution.clone()),
            ("memory".into(), environment.memory.human()),
            ("clock".into(), environment.clocksource.clone()),
        ]);
        with.extend(environment.governor.clone().map(|governor| ("governor".into(), governor)));
        let (device, folder) = self.device_and_folder();
        with.extend(folder.map(|folder| ("folder of the image".into(), folder.to_owned())));
        with.extend(without_nodes(device).1.map(|node| ("device node".into(), node)));
        for arm in stored.arms.iter().filter(|arm| arms.contains(&arm.name.as_str())) {
            with.extend(arm.facts.iter().flat_map(|facts| facts.tools.clone()));
        }
        with
    }

    /// One answer; its question is added to those that are known.
    fn answer(
        &self,
        stored: &StoredTrial,
        judge: &Judge<'_>,
        index: usize,
        questions: &mut Vec<Settings>,
    ) -> Option<Answer> {
        let contrast = &self.plan.contrasts[index];
        if contrast.of != Of::Ratio || self.plan.is_control(contrast.a) {
            return None;
        }
        let (a, b) = self.plan.names(contrast);
        let (arms, cells): (Vec<&str>, Vec<usize>) = match self.plan.trial.trial.compare {
            Compare::Arms => (vec![&a, &b], vec![contrast.a]),
            Compare::Workloads => (vec![self.plan.arm_name(contrast.a)], vec![contrast.a, contrast.b]),
        };
        let (ratio, standard_error) = (judge.ratio(index)?, judge.standard_error(index)?);
        let expected = self.expected(judge, index)?;
        let mut requested = self.question(stored, &arms, &cells);
        if let Some(expected) = &expected {
            // Files have the size that suits the host.
            requested.retain(|name, _| !name.ends_with("file_size"));
            requested.insert("claim".into(), expected.claim.clone());
            requested.insert("what".into(), expected.what.clone());
            requested.insert("bound".into(), format!("{:?}", expected.bound));
        }
        let question = questions.iter().position(|known| *known == requested).unwrap_or_else(|| {
            questions.push(requested);
            questions.len() - 1
        });
        Some(Answer {
            metric: contrast.metric,
            subject: self.subject(contrast.metric, contrast.a, contrast.result_a),
            ratio,
            standard_error,
            stop: self.stop(judge, index),
            expected,
            question,
            a,
            b,
        })
    }

    /// The claim's expectation of a contrast, `Some(None)` without a claim. `None` if the ratio of this contrast alone
    /// does not answer a part, or other programs may have decided it.
    fn expected(&self, judge: &Judge<'_>, index: usize) -> Option<Option<Expected>> {
        let Some(claim) = self.plan.trial.claim.as_ref().filter(|claim| !claim.question) else {
            return Some(None);
        };
        let all = &self.plan.parts;
        let part = all.iter().position(|part| part.contrasts.contains(&index))?;
        let contrast = &self.plan.contrasts[index];
        let bound = match all[part].part.question {
            // Of a bound and the direction the ratio is the same.
            ClaimQuestion::Ratio { bound, .. }
                if all[part].contrasts[0] == index && all[part].part.because.is_none() =>
            {
                bound
            }
            ClaimQuestion::Better { .. } if contrast::less_is_better(&self.plan, contrast) => {
                Bound::Below(1.0)
            }
            ClaimQuestion::Better { .. } => Bound::Above(1.0),
            _ => return None,
        };
        // Neighbours may have decided it; see [`Judge::part`].
        if judge.lost_to_others(part).is_some() {
            return None;
        }
        let blind = Blind {
            few_processors: claim.cpus.is_some_and(|cpus| self.plan.cpus < cpus),
            at_limit: judge.is_at_limit(index),
            at_ceiling: judge.is_at_ceiling(index),
        };
        Some(Some(Expected {
            claim: claim.id.clone(),
            part,
            parts: all.len(),
            what: claim_words::subject(&self.plan, &all[part].part),
            bound,
            planted: all[part].part.planted,
            blind,
        }))
    }

    fn stop(&self, judge: &Judge<'_>, index: usize) -> Stop {
        match judge.decision(index).0 {
            _ if !self.plan.trial.trial.sequential && judge.has_all_rounds() => Stop::Fixed,
            _ if !self.plan.trial.trial.sequential => Stop::Budget,
            Decision::Undecided => Stop::Budget,
            _ => Stop::Verdict,
        }
    }
}

/// A device as text without its temporary names, and the first of these names. For a ramdisk the driver remains.
fn without_nodes(device: &str) -> (String, Option<String>) {
    let is_node = |word: &&str| word.starts_with("/dev/");
    let node = device.split(' ').find(is_node).map(|word| word.trim_end_matches(',').to_owned());
    let kept = device.split(' ').filter_map(|word| match word.strip_prefix("/dev/") {
        None => Some(word),
        Some(name) if name.starts_with("zram") => Some("zram"),
        Some(name) if name.starts_with("ram") => Some("ram"),
        Some(_) => None,
    });
    (kept.collect::<Vec<_>>().join(" "), node)
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("settings are plain data")
}

/// Every value of a tree by its path: `workload.phases.0.duration`.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, into));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| flatten(&format!("{path}.{index}"), value, into));
        }
        Value::String(text) => {
            into.insert(path.to_owned(), text.clone());
        }
        Value::Bool(_) | Value::Number(_) => {
            into.insert(path.to_owned(), value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_kind_size_and_model() {
        for (device, kept, node) in [
            (
                "ramdisk: /dev/zram12 of 2 GiB, added for this trial",
                "ramdisk: zram of 2 GiB, added for this trial",
                "/dev/zram12",
            ),
            ("ramdisk: /dev/ram0 (brd), 1 GiB", "ramdisk: ram (brd), 1 GiB", "/dev/ram0"),
            (
                "disk: /dev/sda (WDC WD40), 4 TiB, erased by every run",
                "disk: (WDC WD40), 4 TiB, erased by every run",
                "/dev/sda",
            ),
            ("disk: /dev/vdb, 4 TiB, erased by every run", "disk: 4 TiB, erased by every run", "/dev/vdb"),
            (
                "md raid0 of 2 members, each: disk: /dev/nvme0n1 (X), 1 TiB, erased by every run",
                "md raid0 of 2 members, each: disk: (X), 1 TiB, erased by every run",
                "/dev/nvme0n1",
            ),
        ] {
            assert_eq!(without_nodes(device), (kept.to_owned(), Some(node.to_owned())));
        }
        assert_eq!(without_nodes("image: of 1 GiB"), ("image: of 1 GiB".to_owned(), None));
    }

    #[test]
    fn flatten_indexes_arrays_and_skips_nulls() {
        let mut matched = BTreeMap::new();
        flatten("a", &serde_json::json!({"b": [1, {"c": "x"}], "d": null, "e": true}), &mut matched);
        let expected = [("a.b.0", "1"), ("a.b.1.c", "x"), ("a.e", "true")];
        assert_eq!(matched, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
