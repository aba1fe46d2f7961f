//! Verdicts on measurements of other tools, as text and as JSON.

use super::{
    numbers, plain,
    verdict::{self, rounds_in_words},
};
use fstrial_run::{
    contrast::Outcome,
    elsewhere::{ArmOrder, Finding, Method, Quantity},
};
use serde_json::{Value, json};

/// Properties of the files.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Their names, as text.
    pub files: String,
    /// The word for their format.
    pub format: &'static str,
    /// The arms, in the order of the file.
    pub arms: Vec<String>,
    /// Number of rounds; none of unpaired data.
    pub rounds: Option<usize>,
    /// True if the sequential rule was requested.
    pub is_sequential: bool,
    /// Omissions.
    pub notes: Vec<String>,
}

/// One document with everything.
pub fn json(facts: &Facts, found: &[Finding]) -> Value {
    let warnings: Vec<String> = warnings(found);
    json!({
        "schema_version": super::document::SCHEMA_VERSION,
        "files": facts.files,
        "format": facts.format,
        "arms": facts.arms,
        "rounds": facts.rounds,
        "sequential": facts.is_sequential,
        "notes": facts.notes,
        "warnings": warnings,
        "verdicts": found,
    })
}

/// The answer as text. `practical` is the band in percent.
pub fn text(facts: &Facts, found: &[Finding], practical: f64) -> String {
    let mut text = format!("{}: {}\n", plain(&facts.files), how(facts));
    for line in warnings(found).iter().chain(&facts.notes) {
        text += &format!("{}\n", plain(line));
    }
    let mut last: Option<&Quantity> = None;
    for found in found {
        let heading = heading(&found.quantity);
        if !heading.is_empty() && last != Some(&found.quantity) {
            text += &format!("\n{}\n", plain(&heading));
        } else if last.is_none() {
            text += match found.quantity.less_is_better {
                true => "\nless is better\n",
                false => "\nmore is better; of times and costs: --less-is-better\n",
            };
        }
        last = Some(&found.quantity);
        let indent = if heading.is_empty() { "" } else { "  " };
        text += &format!("{indent}{}\n", plain(&line(found, practical)));
    }
    text
}

/// The data and the method of judging.
pub(crate) fn how(facts: &Facts) -> String {
    match (facts.rounds, facts.is_sequential) {
        (None, _) => "values without rounds, which are not paired: judged once, by ranks".into(),
        (Some(rounds), false) => format!("{}, judged once, all together", rounds_in_words(rounds)),
        (Some(rounds), true) => format!("{}, judged one after the other", rounds_in_words(rounds)),
    }
}

/// The quantity: `random-write, threads 4: throughput (op/s, more is better)`.
pub(crate) fn heading(quantity: &Quantity) -> String {
    let parts = [&quantity.workload, &quantity.metric].into_iter().filter(|part| !part.is_empty());
    let name = parts.map(String::as_str).collect::<Vec<_>>().join(": ");
    if name.is_empty() {
        return name;
    }
    let way = if quantity.less_is_better { "less is better" } else { "more is better" };
    let is_named = !quantity.unit.is_empty() && quantity.unit != quantity.metric;
    if is_named { format!("{name} ({}, {way})", quantity.unit) } else { format!("{name} ({way})") }
}

/// Consequences of the values' order, each kind once: with the first pair of arms that has it.
pub(crate) fn warnings(found: &[Finding]) -> Vec<String> {
    let mut orders: Vec<ArmOrder> = found.iter().map(|found| found.order).collect();
    orders.sort_unstable();
    orders.dedup();
    let of_order = |order: ArmOrder| {
        let of: Vec<&Finding> = found.iter().filter(|found| found.order == order).collect();
        let first = *of.first()?;
        let mut pairs: Vec<(&str, &str)> = of.iter().map(|found| (&*found.a, &*found.b)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let others = match pairs.len() {
            1 => String::new(),
            2 => " (the same for one more pair)".into(),
            pairs => format!(" (the same for {} more pairs)", pairs - 1),
        };
        warning(first, &others)
    };
    orders.into_iter().filter_map(of_order).collect()
}

/// Consequence of one comparison's order.
fn warning(found: &Finding, others: &str) -> Option<String> {
    let (a, b) = (&found.a, &found.b);
    let drift = "a drift of the machine would look the same";
    let block = |first: &str, second: &str| {
        format!("NOT RANDOMISED: all of {first} comes before any of {second}{others}; {drift}")
    };
    let first = |first: &str, second: &str| {
        format!(
            "NOT RANDOMISED: {first} precedes {second} in every round, or nearly every one{others}; \
                 {drift}, and so would any after-effect of the first on the second"
        )
    };
    match found.order {
        ArmOrder::Varied => None,
        ArmOrder::Unknown => Some(format!(
            "ORDER UNKNOWN: no column gives the order in which the arms of a round were measured. If \
                 it was not random, {drift}"
        )),
        ArmOrder::Alternating => Some(format!(
            "NOT RANDOMISED: {a} and {b} take turns at coming first{others}; a machine that changes at the same pace would \
             look the same"
        )),
        ArmOrder::AFirst => Some(first(a, b)),
        ArmOrder::BFirst => Some(first(b, a)),
        ArmOrder::AllOfAFirst => Some(block(a, b)),
        ArmOrder::AllOfBFirst => Some(block(b, a)),
        ArmOrder::Unpaired => Some(format!(
            "NOT RANDOMISED: there are no rounds in which an order was drawn; if one arm was measured after the other, {drift}"
        )),
    }
}

/// One comparison: `b is 1.10× a [1.085, 1.12]: faster; 40 rounds; order unknown`.
pub(crate) fn line(found: &Finding, practical: f64) -> String {
    let Some(ratio) = found.ratio else {
        return format!("{} against {}: no round has both", found.a, found.b);
    };
    let interval = interval(found.interval, found.interval_level);
    let ratio = numbers::ratio(ratio);
    let comparison = match found.quantity.less_is_better {
        true if is_time(&found.quantity) => {
            format!("{} takes {ratio} as much as {}{interval}", found.a, found.b)
        }
        true => format!("{} has {ratio} that of {}{interval}", found.a, found.b),
        false => format!("{} is {ratio} {}{interval}", found.a, found.b),
    };
    let mark = match found.order {
        ArmOrder::Unknown => "; order unknown",
        order if order.is_not_random() => "; not randomised",
        _ => "",
    };
    format!(
        "{comparison}: {}; {}{}{mark}",
        judgement(found, practical),
        basis(found),
        over_all(found, practical)
    )
}

fn interval(ends: Option<(f64, f64)>, level: f64) -> String {
    ends.map(|ends| format!(" {}{}", numbers::ratio_interval(ends), verdict::of_level(level)))
        .unwrap_or_default()
}

/// True if less is less time, as far as the file shows.
fn is_time(quantity: &Quantity) -> bool {
    let unit = quantity.unit.as_str();
    unit.is_empty() || ["s", "ms", "us", "µs", "ns", "seconds"].contains(&unit) || unit.ends_with("ns/op")
}

/// The word for a verdict, and why there is none.
fn judgement(found: &Finding, practical: f64) -> String {
    let word = in_a_word(found.verdict, found.quantity.less_is_better, practical);
    if found.verdict != Outcome::Undecided {
        return word;
    }
    if found.method == Method::RankSum && found.values == [1, 1] {
        return "no verdict, one number a side".into();
    }
    if found.interval.is_none() && found.method != Method::Sequential {
        return format!("{word}: too few, {}", fewest(found.method));
    }
    let known = verdict::known(found.within_percent);
    if found.waits_for_total {
        return format!(
            "{word}{known}; over all rounds it is {}, which does not bear it out",
            found.total_ratio.map(numbers::ratio).unwrap_or_default()
        );
    }
    if found.suggestive {
        return format!(
            "{word}{known}; suggestive on its own, but not after correcting for the number of comparisons"
        );
    }
    word + &known
}

fn in_a_word(verdict: Outcome, less_is_better: bool, practical: f64) -> String {
    match (verdict, less_is_better) {
        (Outcome::Faster, false) => "faster".into(),
        (Outcome::Slower, false) => "slower".into(),
        (Outcome::Faster, true) => "lower".into(),
        (Outcome::Slower, true) => "higher".into(),
        (Outcome::Equivalent, _) => format!("equivalent (within ±{practical}%)"),
        _ => "undecided".into(),
    }
}

/// Minimum of values (at 5 %: 2/2⁶ and 2/70).
fn fewest(method: Method) -> &'static str {
    match method {
        Method::RankSum => "at least 4 values a side are needed",
        Method::SignedRank | Method::Sequential => "at least 6 rounds are needed",
    }
}

/// Rounds or values that a verdict rests on, as text.
fn basis(found: &Finding) -> String {
    match (found.rounds, found.values) {
        (Some(rounds), _) => {
            format!("{}{}", rounds_in_words(rounds), outlook(found))
        }
        (None, [1, 1]) => "1 value a side".into(),
        (None, [a, b]) => format!("{a} and {b} values"),
    }
}

/// Requirements of a deciding measurement.
fn outlook(found: &Finding) -> String {
    if found.verdict != Outcome::Undecided || found.interval.is_none() {
        return String::new();
    }
    match found.rounds_needed {
        Some(needed) => format!(", a new measurement would take {}", verdict::rounds_range(needed)),
        None => ", a decision is out of reach at this noise".into(),
    }
}

/// Result of all rounds if the sequential rule stopped before, or if sums differ.
fn over_all(found: &Finding, practical: f64) -> String {
    if let Some(all) = found.over_all {
        let ratio = all.ratio.map(numbers::ratio).unwrap_or_default();
        let word = in_a_word(all.verdict, found.quantity.less_is_better, practical);
        let disagree = if all.verdict == found.verdict { "" } else { ", THE ROUNDS DISAGREE" };
        return format!(
            "; over all {} it is {ratio}{}: {word}{disagree}",
            rounds_in_words(all.rounds),
            interval(all.interval, all.interval_level)
        );
    }
    let apart = found.total_ratio.filter(|_| found.total_is_apart && !found.waits_for_total);
    apart.map(|ratio| format!("; the ratio of sums is {}", numbers::ratio(ratio))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Finding {
        Finding {
            a: "new".into(),
            b: "old".into(),
            quantity: Quantity {
                workload: String::new(),
                metric: String::new(),
                unit: String::new(),
                less_is_better: false,
            },
            verdict: Outcome::Faster,
            ratio: Some(1.1),
            interval: Some((1.085, 1.12)),
            interval_level: 0.95,
            method: Method::SignedRank,
            order: ArmOrder::Varied,
            rounds: Some(40),
            values: [40, 40],
            suggestive: false,
            rounds_needed: None,
            within_percent: None,
            near: false,
            total_ratio: Some(1.1),
            total_is_apart: false,
            waits_for_total: false,
            over_all: None,
        }
    }

    #[test]
    fn lines_read_as_sentences() {
        let times = Quantity { unit: "s".into(), less_is_better: true, ..found().quantity };
        let undecided = Finding {
            verdict: Outcome::Undecided,
            ratio: Some(1.04),
            interval: Some((0.97, 1.12)),
            ..found()
        };
        let unpaired = Finding {
            method: Method::RankSum,
            order: ArmOrder::Unpaired,
            rounds: None,
            values: [10, 12],
            total_ratio: None,
            total_is_apart: false,
            ..found()
        };
        let over_all = fstrial_run::elsewhere::OverAll {
            verdict: Outcome::Slower,
            ratio: Some(0.61),
            interval: Some((0.6, 0.63)),
            interval_level: 0.95,
            rounds: 40,
        };
        let lines = [
            found(),
            Finding { order: ArmOrder::Unknown, ..found() },
            Finding { order: ArmOrder::BFirst, ..found() },
            Finding {
                quantity: times.clone(),
                verdict: Outcome::Faster,
                ratio: Some(0.9),
                ..unpaired.clone()
            },
            Finding {
                quantity: Quantity { unit: "B/op".into(), ..times },
                verdict: Outcome::Slower,
                ..unpaired.clone()
            },
            Finding { verdict: Outcome::Equivalent, ratio: Some(1.004), ..found() },
            Finding { rounds_needed: Some((60, 140)), ..undecided.clone() },
            Finding { rounds_needed: None, ..undecided.clone() },
            Finding { suggestive: true, ..undecided.clone() },
            Finding { within_percent: Some(10.0), near: true, interval_level: 0.9, ..undecided.clone() },
            Finding { within_percent: Some(10.0), suggestive: true, ..undecided.clone() },
            Finding { waits_for_total: true, ..undecided.clone() },
            Finding { interval: None, rounds: Some(5), ..undecided.clone() },
            Finding { interval: None, verdict: Outcome::Undecided, values: [3, 3], ..unpaired.clone() },
            Finding { interval: None, verdict: Outcome::Undecided, values: [1, 1], ..unpaired },
            Finding { total_ratio: Some(0.9), total_is_apart: true, ..found() },
            Finding { method: Method::Sequential, rounds: Some(8), over_all: Some(over_all), ..found() },
            Finding { ratio: None, ..undecided },
        ];
        let lines: Vec<String> = lines.iter().map(|found| line(found, 3.0)).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn warns_once_per_arm_order() {
        let of = |order, a: &str| Finding { order, a: a.into(), ..found() };
        let all = [
            of(ArmOrder::Unknown, "x"),
            of(ArmOrder::Unknown, "y"),
            of(ArmOrder::Varied, "x"),
            of(ArmOrder::BFirst, "x"),
            of(ArmOrder::BFirst, "y"),
            of(ArmOrder::AllOfAFirst, "x"),
            of(ArmOrder::Alternating, "x"),
            of(ArmOrder::Unpaired, "x"),
        ];
        insta::assert_snapshot!(warnings(&all).join("\n"));
    }
}
