//! Verdicts on measurements made elsewhere, for people and as JSON.

use super::{
    numbers, plain,
    verdict::{self, rounds_in_words},
};
use fstrial_run::{
    contrast::Outcome,
    elsewhere::{Finding, Method, Order, Quantity},
};
use serde_json::{Value, json};

/// What is known of the files.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Their names, in words.
    pub files: String,
    /// The word for their format.
    pub format: &'static str,
    /// The arms, in the order of the file.
    pub arms: Vec<String>,
    /// How many rounds there are; none of unpaired data.
    pub rounds: Option<usize>,
    /// Whether the sequential rule was asked for.
    pub is_sequential: bool,
    /// What was left out.
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

/// The answer for people. `practical` is the band in percent.
pub fn text(facts: &Facts, found: &[Finding], practical: f64) -> String {
    let mut text = format!("{}: {}\n", plain(&facts.files), how(facts));
    for line in warnings(found).iter().chain(&facts.notes) {
        text += &format!("{}\n", plain(line));
    }
    let mut last: Option<&Quantity> = None;
    for found in found {
        let heading = heading(&found.asked);
        if !heading.is_empty() && last != Some(&found.asked) {
            text += &format!("\n{}\n", plain(&heading));
        } else if last.is_none() {
            text += match found.asked.less_is_better {
                true => "\nless is better\n",
                false => "\nmore is better; of times and costs: --less-is-better\n",
            };
        }
        last = Some(&found.asked);
        let indent = if heading.is_empty() { "" } else { "  " };
        text += &format!("{indent}{}\n", plain(&line(found, practical)));
    }
    text
}

/// What there is and how it was judged.
fn how(facts: &Facts) -> String {
    match (facts.rounds, facts.is_sequential) {
        (None, _) => "values without rounds, which are not paired: judged once, by ranks".into(),
        (Some(rounds), false) => format!("{}, judged once, all together", rounds_in_words(rounds)),
        (Some(rounds), true) => format!("{}, judged one after the other", rounds_in_words(rounds)),
    }
}

/// What was measured: `random-write, threads 4: throughput (op/s, more is better)`.
fn heading(asked: &Quantity) -> String {
    let parts = [&asked.workload, &asked.metric].into_iter().filter(|part| !part.is_empty());
    let name = parts.map(String::as_str).collect::<Vec<_>>().join(": ");
    if name.is_empty() {
        return name;
    }
    let way = if asked.less_is_better { "less is better" } else { "more is better" };
    let is_named = !asked.unit.is_empty() && asked.unit != asked.metric;
    if is_named { format!("{name} ({}, {way})", asked.unit) } else { format!("{name} ({way})") }
}

/// What the order of the values means, each kind once: with the first pair of arms that has it.
fn warnings(found: &[Finding]) -> Vec<String> {
    let mut orders: Vec<Order> = found.iter().map(|found| found.order).collect();
    orders.sort_unstable();
    orders.dedup();
    let of_order = |order: Order| {
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

/// What the order of one comparison means.
fn warning(found: &Finding, others: &str) -> Option<String> {
    let (a, b) = (&found.a, &found.b);
    let drift = "a drift of the machine would look the same";
    let block = |first: &str, second: &str| {
        format!("NOT RANDOMISED: all of {first} comes before any of {second}{others}; {drift}")
    };
    let first = |first: &str, second: &str| {
        format!(
            "NOT RANDOMISED: {first} comes before {second} in every round, or nearly so{others}; {drift}, and so would \
             whatever the first leaves behind for the second"
        )
    };
    match found.order {
        Order::Varied => None,
        Order::Unknown => Some(format!(
            "ORDER UNKNOWN: no column says in which order the arms of a round were measured. If it was not drawn at random, \
             {drift}"
        )),
        Order::Alternating => Some(format!(
            "NOT RANDOMISED: {a} and {b} take turns at coming first{others}; a machine that changes at the same pace would \
             look the same"
        )),
        Order::AFirst => Some(first(a, b)),
        Order::BFirst => Some(first(b, a)),
        Order::AllOfAFirst => Some(block(a, b)),
        Order::AllOfBFirst => Some(block(b, a)),
        Order::Unpaired => Some(format!(
            "NOT RANDOMISED: there are no rounds in which an order was drawn; if one arm was measured after the other, {drift}"
        )),
    }
}

/// One comparison: `b is 1.10× a [1.085, 1.12]: faster; 40 rounds; order unknown`.
fn line(found: &Finding, practical: f64) -> String {
    let Some(ratio) = found.ratio else {
        return format!("{} against {}: no round has both", found.a, found.b);
    };
    let interval = interval(found.interval, found.interval_level);
    let ratio = numbers::ratio(ratio);
    let comparison = match found.asked.less_is_better {
        true if is_time(&found.asked) => {
            format!("{} takes {ratio} what {} takes{interval}", found.a, found.b)
        }
        true => format!("{} has {ratio} that of {}{interval}", found.a, found.b),
        false => format!("{} is {ratio} {}{interval}", found.a, found.b),
    };
    let mark = match found.order {
        Order::Unknown => "; order unknown",
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

/// Whether less of it is less time, as far as the file says.
fn is_time(asked: &Quantity) -> bool {
    let unit = asked.unit.as_str();
    unit.is_empty() || ["s", "ms", "us", "µs", "ns", "seconds"].contains(&unit) || unit.ends_with("ns/op")
}

/// The word for a verdict, and why there is none.
fn judgement(found: &Finding, practical: f64) -> String {
    let word = in_a_word(found.verdict, found.asked.less_is_better, practical);
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

/// How many values it takes at least (at 5 %: 2/2⁶ and 2/70).
fn fewest(method: Method) -> &'static str {
    match method {
        Method::RankSum => "at least 4 values a side are needed",
        Method::SignedRank | Method::Sequential => "at least 6 rounds are needed",
    }
}

/// What it rests on.
fn basis(found: &Finding) -> String {
    match (found.rounds, found.values) {
        (Some(rounds), _) => {
            format!("{}{}", rounds_in_words(rounds), outlook(found))
        }
        (None, [1, 1]) => "1 value a side".into(),
        (None, [a, b]) => format!("{a} and {b} values"),
    }
}

/// What a measurement that decides would take.
fn outlook(found: &Finding) -> String {
    if found.verdict != Outcome::Undecided || found.interval.is_none() {
        return String::new();
    }
    match found.rounds_needed {
        Some(needed) => format!(", a new measurement would take {}", verdict::rounds_range(needed)),
        None => ", a decision is out of reach at this noise".into(),
    }
}

/// What all rounds say where the sequential rule stopped before, or where sums say something else.
fn over_all(found: &Finding, practical: f64) -> String {
    if let Some(all) = found.over_all {
        let ratio = all.ratio.map(numbers::ratio).unwrap_or_default();
        let word = in_a_word(all.verdict, found.asked.less_is_better, practical);
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
            asked: Quantity {
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
            order: Order::Varied,
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
        let times = Quantity { unit: "s".into(), less_is_better: true, ..found().asked };
        let undecided = Finding {
            verdict: Outcome::Undecided,
            ratio: Some(1.04),
            interval: Some((0.97, 1.12)),
            ..found()
        };
        let unpaired = Finding {
            method: Method::RankSum,
            order: Order::Unpaired,
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
            Finding { order: Order::Unknown, ..found() },
            Finding { order: Order::BFirst, ..found() },
            Finding { asked: times.clone(), verdict: Outcome::Faster, ratio: Some(0.9), ..unpaired.clone() },
            Finding {
                asked: Quantity { unit: "B/op".into(), ..times },
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
    fn each_kind_of_order_is_said_once() {
        let of = |order, a: &str| Finding { order, a: a.into(), ..found() };
        let all = [
            of(Order::Unknown, "x"),
            of(Order::Unknown, "y"),
            of(Order::Varied, "x"),
            of(Order::BFirst, "x"),
            of(Order::BFirst, "y"),
            of(Order::AllOfAFirst, "x"),
            of(Order::Alternating, "x"),
            of(Order::Unpaired, "x"),
        ];
        insta::assert_snapshot!(warnings(&all).join("\n"));
    }
}
