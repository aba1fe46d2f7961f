//! Claims over hosts: the verdict of the hosts' mean on each part that is a ratio, and on the whole.

use super::{Pooled, QuestionReport};
use crate::numbers::{self, counted};
use fstrial_model::claim::Bound;
use fstrial_run::{
    answers::{Blind, Expected},
    claim::{ClaimVerdict, needs_processors, of_parts, saw_no_effect},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The expectation of a claim's part, and the result over all hosts.
#[derive(Debug, Clone, Serialize)]
pub struct PartOfHosts {
    #[serde(flatten)]
    pub expected: Expected,
    pub verdict: ClaimVerdict,
}

/// A claim over all hosts.
#[derive(Debug, Clone, Serialize)]
pub struct ClaimOfHosts {
    pub claim: String,
    /// Parts that are ratios of two figures.
    pub pooled: usize,
    /// All parts of the claim, including those that are not ratios.
    pub parts: usize,
    /// The verdict on the pooled parts together.
    pub verdict: ClaimVerdict,
    /// Most hosts that a part has.
    pub hosts: usize,
}

/// The verdict on a part: by the interval of the mean ratio of hosts. `band`: a fraction within which a difference does not matter.
///
/// A trial's blind result says nothing, as on one host.
pub(super) fn verdict(expected: &Expected, pooled: &Pooled, band: f64) -> ClaimVerdict {
    let Some((low, high)) = pooled.interval else { return ClaimVerdict::Undecided };
    let is_within = |band: f64| low > (1.0 + band).recip() && high < 1.0 + band;
    let result = match expected.bound {
        Bound::Within(share) if is_within(share) => ClaimVerdict::Confirmed,
        Bound::Within(share) if low > 1.0 + share || high < (1.0 + share).recip() => ClaimVerdict::Reversed,
        Bound::Within(_) => ClaimVerdict::Undecided,
        Bound::Above(bound) => beyond(bound, (low, high), is_within(band)),
        Bound::Below(bound) => beyond(bound.recip(), (high.recip(), low.recip()), is_within(band)),
    };
    let Blind { few_processors, at_limit, at_ceiling } = expected.blind;
    let denies =
        matches!(result, ClaimVerdict::Smaller | ClaimVerdict::NoDifference | ClaimVerdict::Reversed);
    let is_blind = expected.planted && denies
        || few_processors && needs_processors(expected.bound, result)
        || at_limit && result == ClaimVerdict::Smaller
        || at_ceiling && saw_no_effect(expected.bound, result);
    if is_blind { ClaimVerdict::Insensitive } else { result }
}

/// Compares a ratio with a bound. Beyond 1 but short of a bound above 1 is less than claimed.
fn beyond(bound: f64, (low, high): (f64, f64), is_same: bool) -> ClaimVerdict {
    match () {
        () if low > bound => ClaimVerdict::Confirmed,
        () if is_same && bound >= 1.0 => ClaimVerdict::NoDifference,
        () if high < bound.min(1.0) => ClaimVerdict::Reversed,
        () if high < bound && low > 1.0 => ClaimVerdict::Smaller,
        () => ClaimVerdict::Undecided,
    }
}

/// The claims of the questions, in the order of their names.
pub(super) fn claims(questions: &[QuestionReport]) -> Vec<ClaimOfHosts> {
    let mut by_name: BTreeMap<&str, Vec<(&QuestionReport, &PartOfHosts)>> = BTreeMap::new();
    for question in questions {
        if let Some(part) = &question.part {
            by_name.entry(&part.expected.claim).or_default().push((question, part));
        }
    }
    let one = |(claim, questions): (&str, Vec<(&QuestionReport, &PartOfHosts)>)| {
        // A part about all processors is a question for each number of them: that of most hosts answers.
        let mut parts: BTreeMap<usize, (&QuestionReport, &PartOfHosts)> = BTreeMap::new();
        for (question, part) in questions {
            let known = parts.entry(part.expected.part).or_insert((question, part));
            if question.pooled.hosts > known.0.pooled.hosts {
                *known = (question, part);
            }
        }
        let verdicts = parts.values().map(|(_, part)| (part.verdict, part.expected.planted));
        ClaimOfHosts {
            claim: claim.to_owned(),
            pooled: parts.len(),
            parts: parts.values().map(|(_, part)| part.expected.parts).max().unwrap_or_default(),
            verdict: of_parts(verdicts).unwrap_or(ClaimVerdict::Undecided),
            hosts: parts.values().map(|(question, _)| question.pooled.hosts).max().unwrap_or_default(),
        }
    };
    by_name.into_iter().map(one).collect()
}

impl ClaimOfHosts {
    /// `closson-2012-…: confirmed on 5 hosts together (2 of its 3 parts: the others are not ratios, or without a host)`.
    pub fn line(&self) -> String {
        let Self { claim, pooled, parts, verdict, hosts } = self;
        let rest = match pooled < parts {
            true => format!(" ({pooled} of its {parts} parts: the others are not ratios, or without a host)"),
            false => String::new(),
        };
        format!("{claim}: {} on {} together{rest}", verdict.words(), counted(*hosts, "host"))
    }
}

impl PartOfHosts {
    /// `closson-2012-xfs-two-writers: xfs in locked / xfs in one`.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.expected.claim, self.expected.what)
    }

    /// `1.20× [1.11, 1.30] on hosts like these; claimed above 1.50×: smaller than claimed`.
    pub(super) fn answer(&self, pooled: &Pooled) -> String {
        let claimed = match self.expected.bound {
            Bound::Above(bound) => format!("above {}", numbers::ratio(bound)),
            Bound::Below(bound) => format!("below {}", numbers::ratio(bound)),
            Bound::Within(share) => format!("within ±{} % of 1", numbers::plain(100.0 * share)),
        };
        let ratio = numbers::ratio(pooled.ratio);
        let result = match pooled.interval {
            Some(ends) => format!("{ratio} {} on hosts like these", numbers::ratio_interval(ends)),
            None => format!("{ratio} on {}, of which three are needed", counted(pooled.hosts, "host")),
        };
        format!("{result}; claimed {claimed}: {}", self.verdict.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(bound: Bound, interval: (f64, f64), blind: Blind) -> ClaimVerdict {
        let expected = Expected {
            claim: "c".into(),
            part: 0,
            parts: 1,
            what: "a / b".into(),
            bound,
            planted: false,
            blind,
        };
        let pooled = Pooled {
            hosts: 3,
            ratio: 1.0,
            interval: Some(interval),
            prediction: None,
            tau: 0.0,
            inconsistency_percent: 0.0,
            q: 0.0,
        };
        verdict(&expected, &pooled, 0.03)
    }

    #[test]
    fn verdict_of_host_mean_follows_claim_bound() {
        for (bound, interval, verdict) in [
            (Bound::Above(1.5), (1.6, 1.9), ClaimVerdict::Confirmed),
            (Bound::Above(1.5), (1.4, 1.6), ClaimVerdict::Undecided),
            (Bound::Above(1.5), (1.1, 1.4), ClaimVerdict::Smaller),
            (Bound::Above(1.5), (0.98, 1.02), ClaimVerdict::NoDifference),
            (Bound::Above(1.5), (0.9, 1.2), ClaimVerdict::Undecided),
            (Bound::Above(1.5), (0.7, 0.9), ClaimVerdict::Reversed),
            // "At least 95 % of": 1.0 is as claimed, 0.9 is not.
            (Bound::Above(0.95), (0.98, 1.02), ClaimVerdict::Confirmed),
            (Bound::Above(0.95), (0.85, 0.92), ClaimVerdict::Reversed),
            (Bound::Below(0.5), (0.3, 0.4), ClaimVerdict::Confirmed),
            (Bound::Below(0.5), (0.6, 0.8), ClaimVerdict::Smaller),
            (Bound::Below(0.5), (1.2, 1.4), ClaimVerdict::Reversed),
            (Bound::Below(1.0), (1.2, 1.4), ClaimVerdict::Reversed),
            (Bound::Within(0.05), (0.98, 1.03), ClaimVerdict::Confirmed),
            (Bound::Within(0.05), (1.06, 1.2), ClaimVerdict::Reversed),
            (Bound::Within(0.05), (0.98, 1.2), ClaimVerdict::Undecided),
        ] {
            assert_eq!(result(bound, interval, Blind::default()), verdict, "{bound:?} {interval:?}");
        }
        let few = Blind { few_processors: true, ..Blind::default() };
        let limit = Blind { at_limit: true, ..Blind::default() };
        let ceiling = Blind { at_limit: true, at_ceiling: true, ..Blind::default() };
        for (bound, interval, blind, verdict) in [
            (Bound::Above(1.5), (0.7, 0.9), few, ClaimVerdict::Insensitive),
            (Bound::Above(1.5), (1.6, 1.9), few, ClaimVerdict::Confirmed),
            (Bound::Below(1.3), (0.98, 1.02), few, ClaimVerdict::Insensitive),
            (Bound::Above(1.5), (1.1, 1.4), limit, ClaimVerdict::Insensitive),
            (Bound::Above(1.5), (0.7, 0.9), limit, ClaimVerdict::Reversed),
            (Bound::Above(0.9), (0.98, 1.02), ceiling, ClaimVerdict::Insensitive),
            (Bound::Within(0.05), (0.98, 1.03), ceiling, ClaimVerdict::Insensitive),
        ] {
            assert_eq!(result(bound, interval, blind), verdict, "{bound:?} {interval:?} {blind:?}");
        }
    }
}
