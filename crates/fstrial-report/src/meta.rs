//! The trials of many hosts together: a question for each contrast that they share, its pooled ratio, the spread
//! between hosts, and a prediction for the next one.

mod claims;
mod text;

pub use text::render;
pub(crate) use text::{answer, prediction, remarks, spread, title};

use claims::{ClaimOfHosts, PartOfHosts};
use fstrial_model::{metric::Metric, units::Bytes};
use fstrial_run::{
    answers::{self, Answer, Answers, Expected, Host, Stop, Subject},
    contrast::Outcome,
    panels::ALPHA,
};
use fstrial_stats::{
    meta::{Effect, MIN_HOSTS, MIN_VARIANCE, Slope, Synthesis, leave_one_out},
    student,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Raised when a field changes its meaning or goes away; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;
/// Rounds below which a host does not count: its error would rest on too few (docs/statistics.md).
pub const MIN_ROUNDS: usize = 5;
/// Hosts below which there is no regression: a property that sets so few apart would do so by chance.
const MIN_REGRESSION: usize = 10;
/// Hosts above which none is left out in turn: none of them matters, and the work grows with their square.
const MAX_LEFT_OUT: usize = 200;

/// The pooled result of many hosts' trials.
#[derive(Debug, Clone, Serialize)]
pub struct MetaDocument {
    pub schema_version: u32,
    /// Stores that were read.
    pub stores: usize,
    /// Trials that count.
    pub trials: usize,
    /// Hosts that count.
    pub hosts: usize,
    pub questions: Vec<QuestionReport>,
    /// The claims that questions are parts of.
    pub claims: Vec<ClaimOfHosts>,
    /// Number of excluded trials, by the reason.
    pub left_out: BTreeMap<String, Vec<String>>,
    pub warnings: Vec<String>,
}

/// A contrast that several hosts have measured.
#[derive(Debug, Clone, Serialize)]
pub struct QuestionReport {
    /// The arm (or workload) that is measured against the other.
    pub a: String,
    /// The arm (or workload) it is measured against.
    pub b: String,
    pub metric: Metric,
    #[serde(flatten)]
    pub subject: Subject,
    /// The settings in which it differs from other questions about these arms.
    pub differs_in: BTreeMap<String, String>,
    /// The band in which a difference does not matter, in percent.
    pub practical_percent: f64,
    /// In the order of their ratios.
    pub hosts: Vec<HostReport>,
    pub pooled: Pooled,
    /// The verdict on the mean of hosts like these.
    pub verdict: Outcome,
    /// The expectation of a claim.
    pub part: Option<PartOfHosts>,
    /// The same without the hosts whose trials stopped at their own verdict; none without such hosts, and without
    /// others.
    pub without_stopped: Option<Pooled>,
    /// The pooled ratio without each host in turn: the least and the greatest, each with the host left out.
    pub left_out_in_turn: Option<[(String, f64); 2]>,
    /// Dependence of the ratio on properties of the hosts.
    pub slopes: Vec<SlopeReport>,
}

/// One host.
#[derive(Debug, Clone, Serialize)]
pub struct HostReport {
    #[serde(flatten)]
    pub host: Host,
    pub kernel: String,
    pub processor: String,
    pub cpus: u16,
    /// Its trials of this question, as they are called in their stores.
    pub trials: Vec<String>,
    pub rounds: usize,
    /// `a` over `b`, over all of its trials.
    pub ratio: f64,
    /// 95 % interval of `ratio`: lower and upper end.
    pub interval: (f64, f64),
    /// Its weight in the pooled ratio, in percent.
    pub weight_percent: f64,
    /// The end of its trials; the worst, if they differ.
    pub stop: Stop,
}

/// Some hosts together. Ratios are `a` over `b` on the metric itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Pooled {
    pub hosts: usize,
    pub ratio: f64,
    /// Its interval of 95 %. None below three hosts.
    pub interval: Option<(f64, f64)>,
    /// The interval of 95 % for the next host like these. None below three hosts.
    pub prediction: Option<(f64, f64)>,
    /// τ: the standard deviation of the logarithm of the ratio between hosts.
    pub tau: f64,
    /// I² in percent.
    pub inconsistency_percent: f64,
    pub q: f64,
}

/// A property of hosts, and the factor by which the ratio changes with it.
#[derive(Debug, Clone, Serialize)]
pub struct SlopeReport {
    /// `each doubling of the CPUs`.
    pub property: &'static str,
    pub factor: f64,
    pub interval: (f64, f64),
}

impl Pooled {
    fn of(synthesis: &Synthesis) -> Self {
        let ends = |(low, high): (f64, f64)| (low.exp(), high.exp());
        Self {
            hosts: synthesis.hosts,
            ratio: synthesis.log_ratio.exp(),
            interval: synthesis.interval(1.0 - ALPHA).map(ends),
            prediction: synthesis.prediction(1.0 - ALPHA).map(ends),
            tau: synthesis.between.sqrt(),
            inconsistency_percent: 100.0 * synthesis.inconsistency,
            q: synthesis.q,
        }
    }
}

/// A trial of a host, of one question.
struct Member {
    host: usize,
    trial: String,
    /// As the question has it, on a logarithmic scale.
    effect: Effect,
    interval: Option<(f64, f64)>,
    rounds: usize,
    stop: Stop,
}

struct Question {
    a: String,
    b: String,
    metric: Metric,
    subject: Subject,
    settings: answers::Settings,
    practical: f64,
    expected: Option<Expected>,
    members: Vec<Member>,
}

/// Data of a host.
struct Known {
    host: Host,
    kernel: String,
    processor: String,
    cpus: u16,
    memory: Bytes,
    is_virtual: bool,
}

/// Key of answers to one question, in either order of the arms.
type Key = (String, String, Metric, Subject, answers::Settings);

/// Collects trials, one after the other: only a few numbers of each are kept.
#[derive(Default)]
pub struct Collection {
    questions: Vec<Question>,
    by_key: HashMap<Key, usize>,
    hosts: Vec<Known>,
    by_host: HashMap<Host, usize>,
    trials: usize,
    left_out: BTreeMap<String, Vec<String>>,
}

impl Collection {
    /// Adds the answers of a trial, under its name: `lab.db #3`.
    pub fn add(&mut self, trial: &str, answers: Answers, is_wanted: impl Fn(&Answer) -> bool) {
        let host = self.host_of(&answers);
        let mut has_few = true;
        for metric in &answers.decides {
            if !answers.answers.iter().any(|answer| answer.metric == *metric) {
                self.leave_out(
                    trial,
                    &format!("it has no ratio of {}: too few operations or rounds", metric.name()),
                );
            }
        }
        for answer in answers.answers.iter().filter(|answer| is_wanted(answer)) {
            let is_sound = answer.ratio.value > 0.0
                && answer.ratio.value.is_finite()
                && answer.standard_error.is_finite();
            if answer.ratio.rounds < MIN_ROUNDS || !is_sound {
                continue;
            }
            has_few = false;
            let practical = answer.metric.band(answers.practical);
            let settings = answers.questions.get(answer.question).cloned().unwrap_or_default();
            let (question, is_inverse) = self.question_of(answer, settings, practical);
            // A limit of one host is a limit of all.
            if let (Some(known), Some(expected)) = (&mut self.questions[question].expected, &answer.expected)
            {
                known.blind.join(&expected.blind);
            }
            let sign = if is_inverse { -1.0 } else { 1.0 };
            let ratio = if is_inverse { answer.ratio.inverse() } else { answer.ratio };
            self.questions[question].members.push(Member {
                host,
                trial: trial.to_owned(),
                effect: Effect {
                    log_ratio: sign * answer.ratio.value.ln(),
                    variance: answer.standard_error * answer.standard_error,
                },
                interval: ratio.interval,
                rounds: ratio.rounds,
                stop: answer.stop,
            });
        }
        if has_few {
            self.leave_out(trial, &format!("it has no such contrast with {MIN_ROUNDS} rounds"));
        } else {
            self.trials += 1;
        }
    }

    /// Notes that a trial, or a store, does not count.
    pub fn leave_out(&mut self, what: &str, reason: &str) {
        self.left_out.entry(reason.to_owned()).or_default().push(what.to_owned());
    }

    fn host_of(&mut self, answers: &Answers) -> usize {
        *self.by_host.entry(answers.host.clone()).or_insert_with(|| {
            self.hosts.push(Known {
                host: answers.host.clone(),
                kernel: answers.kernel.clone(),
                processor: answers.processor.clone(),
                cpus: answers.cpus,
                memory: answers.memory,
                is_virtual: answers.virtual_machine,
            });
            self.hosts.len() - 1
        })
    }

    /// The question of an answer, and whether it has the arms the other way round.
    fn question_of(&mut self, answer: &Answer, settings: answers::Settings, practical: f64) -> (usize, bool) {
        let mut key: Key =
            (answer.a.clone(), answer.b.clone(), answer.metric, answer.subject.clone(), settings);
        if let Some(known) = self.by_key.get(&key) {
            return (*known, false);
        }
        // A claim fixes the numerator, and the two may be one arm at two levels.
        if answer.expected.is_none() {
            std::mem::swap(&mut key.0, &mut key.1);
            if let Some(known) = self.by_key.get(&key) {
                return (*known, true);
            }
            std::mem::swap(&mut key.0, &mut key.1);
        }
        let number = self.questions.len();
        self.questions.push(Question {
            a: key.0.clone(),
            b: key.1.clone(),
            metric: answer.metric,
            subject: answer.subject.clone(),
            settings: key.4.clone(),
            practical,
            expected: answer.expected.clone(),
            members: Vec::new(),
        });
        self.by_key.insert(key, number);
        (number, false)
    }

    /// Their pooled result. `practical`: the band as a fraction, instead of the trials' own.
    pub fn document(mut self, stores: usize, practical: Option<f64>) -> MetaDocument {
        if let Some(fraction) = practical {
            self.questions.iter_mut().for_each(|question| question.practical = fraction);
        }
        let differing: Vec<_> = self.questions.iter().map(|question| self.differing(question)).collect();
        let reports = self.questions.iter().zip(differing);
        let (mut questions, evidence): (Vec<_>, Vec<Evidence>) =
            reports.map(|(question, differs)| self.report(question, differs)).unzip();
        for (report, is_found) in questions.iter_mut().zip(result(&evidence)) {
            report.verdict = is_found;
        }
        let claim = |report: &QuestionReport| {
            report.part.as_ref().map(|part| (part.expected.claim.clone(), part.expected.what.clone()))
        };
        questions.sort_by_key(|report| (claim(report), report.differs_in.len()));
        MetaDocument {
            schema_version: SCHEMA_VERSION,
            stores,
            trials: self.trials,
            hosts: questions
                .iter()
                .flat_map(|report| report.hosts.iter().map(|host| &host.host))
                .collect::<BTreeSet<_>>()
                .len(),
            warnings: self.warnings(),
            claims: claims::claims(&questions),
            questions,
            left_out: self.left_out,
        }
    }

    /// The settings in which a question differs from others about the same arms, workload and level.
    fn differing(&self, question: &Question) -> BTreeMap<String, String> {
        let is_like = |other: &&Question| {
            (&other.a, &other.b, other.metric, &other.subject)
                == (&question.a, &question.b, question.metric, &question.subject)
        };
        let others: Vec<&Question> = self.questions.iter().filter(is_like).collect();
        let differs = |name: &String| {
            others.iter().any(|other| other.settings.get(name) != question.settings.get(name))
        };
        let names: BTreeSet<&String> = others.iter().flat_map(|other| other.settings.keys()).collect();
        let value = |name: &String| question.settings.get(name).cloned().unwrap_or_else(|| "none".into());
        // Its claim is in its own words.
        let is_named = |name: &&String| {
            question.expected.is_some() && ["claim", "what", "bound"].contains(&name.as_str())
        };
        names
            .into_iter()
            .filter(|name| !is_named(name) && differs(name))
            .map(|name| (name.clone(), value(name)))
            .collect()
    }

    /// The report on a question, its verdict still open, and the deciding evidence.
    fn report(
        &self,
        question: &Question,
        differs_in: BTreeMap<String, String>,
    ) -> (QuestionReport, Evidence) {
        let (hosts, effects) = self.by_host(question);
        let synthesis = Synthesis::of(&effects).expect("a question has a host");
        let is_fixed: Vec<usize> =
            (0..hosts.len()).filter(|index| hosts[*index].stop != Stop::Verdict).collect();
        let others: Vec<Effect> = is_fixed.iter().map(|index| effects[*index]).collect();
        let without_stopped = (others.len() < effects.len()).then(|| Synthesis::of(&others)).flatten();
        let evidence = Evidence::of(&synthesis, question);
        let mut report = QuestionReport {
            a: question.a.clone(),
            b: question.b.clone(),
            metric: question.metric,
            subject: question.subject.clone(),
            differs_in,
            practical_percent: 100.0 * question.practical,
            pooled: Pooled::of(&synthesis),
            verdict: Outcome::Undecided,
            part: question.expected.as_ref().map(|expected| PartOfHosts {
                expected: expected.clone(),
                verdict: claims::verdict(expected, &Pooled::of(&synthesis), question.practical),
            }),
            without_stopped: without_stopped.map(|others| Pooled::of(&others)),
            left_out_in_turn: left_out_in_turn(&hosts, &effects),
            slopes: self.slopes(&hosts, &effects),
            hosts,
        };
        let weights: Vec<f64> = effects
            .iter()
            .map(|effect| (effect.variance.max(MIN_VARIANCE) + synthesis.between).recip())
            .collect();
        let all: f64 = weights.iter().sum();
        for (host, weight) in report.hosts.iter_mut().zip(&weights) {
            host.weight_percent = 100.0 * weight / all;
        }
        report.hosts.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        (report, evidence)
    }

    /// The hosts of a question, each with the effect of all of its trials.
    fn by_host(&self, question: &Question) -> (Vec<HostReport>, Vec<Effect>) {
        let mut members: BTreeMap<usize, Vec<&Member>> = BTreeMap::new();
        question.members.iter().for_each(|member| members.entry(member.host).or_default().push(member));
        let one = |(host, members): (usize, Vec<&Member>)| {
            let known = &self.hosts[host];
            let weight = |member: &&Member| member.effect.variance.max(MIN_VARIANCE).recip();
            let all: f64 = members.iter().map(weight).sum();
            let sum: f64 = members.iter().map(|member| weight(member) * member.effect.log_ratio).sum();
            let effect = Effect { log_ratio: sum / all, variance: all.recip() };
            let rounds: usize = members.iter().map(|member| member.rounds).sum();
            // Its own, if it has one trial with an interval.
            let own = if members.len() == 1 { members[0].interval } else { None };
            let half = student::two_sided_quantile(ALPHA, rounds - members.len()) * effect.variance.sqrt();
            let around = ((effect.log_ratio - half).exp(), (effect.log_ratio + half).exp());
            let report = HostReport {
                host: known.host.clone(),
                kernel: known.kernel.clone(),
                processor: known.processor.clone(),
                cpus: known.cpus,
                trials: members.iter().map(|member| member.trial.clone()).collect(),
                rounds,
                ratio: effect.log_ratio.exp(),
                interval: own.unwrap_or(around),
                weight_percent: 0.0,
                stop: members
                    .iter()
                    .map(|member| member.stop)
                    .max_by_key(|stop| *stop as u8)
                    .unwrap_or(Stop::Budget),
            };
            (report, effect)
        };
        members.into_iter().map(one).unzip()
    }

    fn slopes(&self, hosts: &[HostReport], effects: &[Effect]) -> Vec<SlopeReport> {
        if hosts.len() < MIN_REGRESSION {
            return Vec::new();
        }
        let known = |of: &dyn Fn(&Known) -> f64| -> Vec<f64> {
            hosts.iter().map(|host| of(&self.hosts[self.by_host[&host.host]])).collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "its logarithm is taken")]
        let properties: [(&'static str, Vec<f64>); 3] = [
            ("each doubling of the CPUs", known(&|host| f64::from(host.cpus.max(1)).log2())),
            ("each doubling of memory", known(&|host| (host.memory.0.max(1) as f64).log2())),
            ("a virtual machine, against others", known(&|host| f64::from(u8::from(host.is_virtual)))),
        ];
        let slope = |(property, values): (&'static str, Vec<f64>)| {
            // One host that stands out makes no slope.
            let middle = values.iter().sum::<f64>() / values.len() as f64;
            let above = values.iter().filter(|value| **value > middle).count();
            if above.min(values.len() - above) < MIN_HOSTS {
                return None;
            }
            let slope = Slope::of(effects, &values)?;
            let (low, high) = slope.interval(1.0 - ALPHA);
            Some(SlopeReport { property, factor: slope.per_unit.exp(), interval: (low.exp(), high.exp()) })
        };
        properties.into_iter().filter_map(slope).collect()
    }

    /// Machines that may be one under several names.
    fn warnings(&self) -> Vec<String> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for known in &self.hosts {
            if let Some(machine) = &known.host.machine {
                names.entry(machine).or_default().insert(&known.host.name);
            }
        }
        let several = names.into_values().filter(|names| names.len() > 1);
        several
            .map(|names| {
                let names: Vec<&str> = names.into_iter().collect();
                format!(
                    "{} have one machine-id: clones, or one machine under several names; each counts as a host",
                    crate::summary::listed(&names)
                )
            })
            .collect()
    }
}

/// The least and the greatest pooled ratio without one host.
fn left_out_in_turn(hosts: &[HostReport], effects: &[Effect]) -> Option<[(String, f64); 2]> {
    if effects.len() <= MIN_HOSTS || effects.len() > MAX_LEFT_OUT {
        return None;
    }
    let others = leave_one_out(effects);
    let named = others.iter().zip(hosts).map(|(other, host)| (host.host.name.clone(), other.log_ratio.exp()));
    let named: Vec<(String, f64)> = named.collect();
    let least = named.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.clone();
    let greatest = named.iter().max_by(|a, b| a.1.total_cmp(&b.1))?.clone();
    Some([least, greatest])
}

/// Evidence for the decision on the mean of hosts.
struct Evidence {
    /// The two-sided p of a ratio of 1; none below three hosts.
    p: Option<f64>,
    /// True if it is within the band, by two one-sided tests.
    is_within: bool,
    is_better: bool,
}

impl Evidence {
    fn of(synthesis: &Synthesis, question: &Question) -> Self {
        let band = question.practical.ln_1p();
        let error = |hosts: usize| {
            student::two_sided(synthesis.log_ratio.abs() / synthesis.standard_error, hosts - 1)
        };
        let narrow = synthesis.interval(1.0 - 2.0 * ALPHA);
        Self {
            p: Some(synthesis.hosts).filter(|hosts| *hosts >= MIN_HOSTS).map(error),
            is_within: narrow.is_some_and(|(low, high)| low > -band && high < band),
            is_better: (synthesis.log_ratio > 0.0) != question.subject.less_is_better,
        }
    }
}

/// The verdicts: differences by Benjamini and Hochberg over all questions.
fn result(evidence: &[Evidence]) -> Vec<Outcome> {
    let mut sorted: Vec<f64> = evidence.iter().filter_map(|of| of.p).collect();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a few questions")]
    let allowed = |rank: usize| ALPHA * (rank + 1) as f64 / sorted.len() as f64;
    let last = (0..sorted.len()).rev().find(|rank| sorted[*rank] <= allowed(*rank)).map(|rank| sorted[rank]);
    let verdict = |of: &Evidence| match of.p.zip(last) {
        _ if of.is_within => Outcome::Equivalent,
        Some((p, last)) if p <= last && of.is_better => Outcome::Faster,
        Some((p, last)) if p <= last => Outcome::Slower,
        _ => Outcome::Undecided,
    };
    evidence.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::claim::Bound;
    use fstrial_run::{answers::Blind, judge::Estimate};

    /// A host's result for one arm at two levels.
    fn result(host: &str, ratio: f64) -> Answers {
        let subject = Subject {
            workload: "w".into(),
            phase: String::new(),
            threads: 4,
            unit: "op/s".into(),
            less_is_better: false,
        };
        let expected = Expected {
            claim: "c".into(),
            part: 0,
            parts: 1,
            what: "xfs @ 4 / xfs @ 1".into(),
            bound: Bound::Above(1.5),
            planted: false,
            blind: Blind::default(),
        };
        Answers {
            host: Host { name: host.into(), machine: None },
            kernel: String::new(),
            processor: String::new(),
            cpus: 4,
            memory: Bytes(0),
            virtual_machine: false,
            practical: 0.03,
            decides: vec![Metric::Throughput],
            questions: vec![BTreeMap::new()],
            answers: vec![Answer {
                a: "xfs".into(),
                b: "xfs".into(),
                metric: Metric::Throughput,
                subject,
                question: 0,
                ratio: Estimate { value: ratio, interval: None, rounds: 8 },
                standard_error: 0.01,
                stop: Stop::Fixed,
                expected: Some(expected),
            }],
        }
    }

    #[test]
    fn an_arm_at_two_levels_has_one_direction_on_all_hosts() {
        let mut collection = Collection::default();
        for (host, ratio) in [("x", 1.9), ("y", 1.8), ("z", 2.1)] {
            collection.add(host, result(host, ratio), |_| true);
        }
        let document = collection.document(3, None);
        let ratios: Vec<f64> = document.questions[0].hosts.iter().map(|host| host.ratio).collect();
        assert!(ratios.iter().zip([1.8, 1.9, 2.1]).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{ratios:?}");
        assert_eq!(document.claims[0].verdict, fstrial_run::claim::ClaimVerdict::Confirmed);
    }
}
