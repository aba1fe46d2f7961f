//! Verdicts in plain words.

use super::numbers;
use fstrial_model::metric::Metric;
use fstrial_run::{
    contrast::{Assay, ContrastState, Lever, Outcome},
    plan::threads_in_words,
};
use fstrial_stats::{panel::LADDER, total::rounds_to_see};

/// One line on one contrast: `xfs is 1.42× ext4 [1.36, 1.49] at 4 threads: faster; 7 rounds`. `practical` is the band
/// in percent; `round_seconds` turns rounds still needed into a time.
pub fn line(
    state: &ContrastState,
    practical: f64,
    round_seconds: Option<f64>,
    unequal: Option<&str>,
) -> String {
    // Values that were measured elsewhere have no level.
    let level = match state.threads {
        0 => String::new(),
        threads => format!(" at {}", threads_in_words(threads)),
    };
    let mut text = match (state.verdict, state.ratio) {
        (Outcome::Failed, _) => {
            format!("{} against {}{level}: no ratio, one of them failed", state.a, state.b)
        }
        (Outcome::Unsupported, _) => {
            format!("{} against {}{level}: no ratio, one of them cannot", state.a, state.b)
        }
        (_, None) if state.too_few_operations => {
            format!(
                "{} of {} against {}{level}: too few operations for a conclusion",
                state.metric.row().words,
                state.a,
                state.b
            )
        }
        (_, None) => format!("{} against {}{level}: no complete round", state.a, state.b),
        (_, Some(ratio)) => with_ratio(state, ratio, &level, practical, round_seconds),
    };
    if let Some(reason) = unequal {
        text += &format!(" — UNEQUAL DURABILITY: {reason}");
    }
    text
}

fn with_ratio(
    state: &ContrastState,
    ratio: f64,
    level: &str,
    practical: f64,
    round_seconds: Option<f64>,
) -> String {
    let interval = state.interval.map_or_else(String::new, |ends| {
        format!(" {}{}", numbers::ratio_interval(ends), of_level(state.interval_level))
    });
    let ratio = numbers::ratio(ratio);
    let comparison = match state.metric {
        Metric::Throughput if state.is_lead => {
            format!("{} is {ratio} that of {}{interval}{level}", state.a, state.b)
        }
        Metric::Throughput if state.less_is_better => {
            format!("{} takes {ratio} as much as {}{interval}{level}", state.a, state.b)
        }
        Metric::Throughput => format!("{} is {ratio} {}{interval}{level}", state.a, state.b),
        metric => {
            format!("{} of {} is {ratio} that of {}{interval}{level}", metric.row().words, state.a, state.b)
        }
    };
    let (verdict, rounds) = (judgement(state, practical), rounds_in_words(state.rounds));
    format!("{comparison}: {verdict}; {rounds}{}{}", over_all(state), outlook(state, round_seconds))
}

/// The level of an interval, if it is not 95 %: ` (99.9 %)`. More digits would be meaningless.
pub fn of_level(level: f64) -> String {
    let percent = level * 100.0;
    if (percent - 95.0).abs() < 0.05 {
        String::new()
    } else if percent < 99.0 {
        format!(" ({percent:.0} %)")
    } else {
        format!(" ({:.1} %)", (percent * 10.0).floor() / 10.0)
    }
}

/// The result of all rounds together, if it differs from that of a typical one.
fn over_all(state: &ContrastState) -> String {
    let quick = state.faster_between_stalls();
    let Some(ratio) = state.total_ratio.filter(|_| quick.is_some() || state.waits_for_total) else {
        return String::new();
    };
    let says =
        quick.map_or(", which leaves it open".into(), |arm| format!(": {arm} is faster between stalls"));
    format!("; over all rounds it is {}{says}", numbers::ratio(ratio))
}

/// Number with its noun: `1 round`, `7 rounds`.
pub fn rounds_in_words(rounds: usize) -> String {
    if rounds == 1 { "1 round".into() } else { format!("{rounds} rounds") }
}

/// The word for a verdict: throughput is faster or slower, latency and bytes are lower or higher.
pub fn judgement(state: &ContrastState, practical: f64) -> String {
    let less = state.less_is_better;
    match state.verdict {
        Outcome::Faster if state.is_lead => if less { "lower" } else { "higher" }.into(),
        Outcome::Slower if state.is_lead => if less { "higher" } else { "lower" }.into(),
        Outcome::Faster => if less { "lower" } else { "faster" }.into(),
        Outcome::Slower => if less { "higher" } else { "slower" }.into(),
        Outcome::Equivalent => {
            let band = state.metric.row().band.map_or(practical, |band| band * 100.0);
            format!("equivalent (within ±{band}%)")
        }
        Outcome::Insensitive => "insensitive: the planted slowdown was not detected either".into(),
        Outcome::Undecided => "undecided".into(),
        Outcome::Failed => "failed".into(),
        Outcome::Unsupported => "unsupported".into(),
    }
}

/// Stalls that the verdicts of a trial could not have detected: the rarest that its fewest rounds would show. None
/// without a verdict.
pub fn unseen_stalls<'a>(states: impl Iterator<Item = &'a ContrastState>) -> Option<String> {
    let is_decided = |state: &&ContrastState| {
        (state.near || state.verdict.is_decided())
            && state.metric.quantile().is_none()
            && state.control.is_none()
    };
    let fewest = states.filter(is_decided).min_by_key(|state| state.rounds)?;
    let share = fewest.unseen_stalls_percent.ceil();
    let requested = match share > 10.0 {
        true => {
            format!("; stalls = \"10%\" in a trial waits for the {} that would show it", rounds_to_see(0.10))
        }
        false => String::new(),
    };
    Some(format!(
        "{} can miss an arm that stalls in up to {share:.0} % of its runs{requested}",
        rounds_in_words(fewest.rounds)
    ))
}

/// Result of a control, if anything depends on it; none for other contrasts.
pub fn control_line(state: &ContrastState) -> Option<String> {
    let control = state.control?;
    let level = threads_in_words(state.threads);
    let cost = |ratio: f64| 100.0 * if state.less_is_better { ratio - 1.0 } else { ratio.recip() - 1.0 };
    let interval = state.interval.map(|(low, high)| {
        let (x, y) = (cost(low), cost(high));
        format!(" [{:.1}, {:.1}]", x.min(y), x.max(y))
    });
    let of = match state.metric {
        Metric::Throughput => String::new(),
        metric => format!(" of {}", metric.row().words),
    };
    let lever = match control.lever {
        Lever::Load => "load",
        Lever::Device => "device",
    };
    let figures = format!(
        "control: {} planted in the {lever} of {} cost {:.1} %{}{of} at {level}, {}",
        control.planted,
        state.b,
        cost(state.ratio?),
        interval.unwrap_or_default(),
        rounds_in_words(state.rounds)
    );
    match control.found {
        Assay::Seen => Some(format!("{figures}: seen")),
        Assay::Unseen => Some(format!(
            "{figures}: NOT detected. Another resource is the bottleneck, so equality there says \
                 nothing about the arms"
        )),
        Assay::Overdosed => Some(format!(
            "{figures}: more than twice the planted slowdown, so it has another cause, and equality \
                 there says nothing about the arms"
        )),
        Assay::Unknown | Assay::Unasked => state.open.then(|| format!("{figures}: not known yet")),
    }
}

/// Results of the known controls: one line if all were detected, else a line for each.
pub fn control_lines(states: &[ContrastState]) -> Vec<String> {
    let controls = || states.iter().filter_map(|state| Some((state, state.control?)));
    let seen = controls().filter(|(_, control)| control.found == Assay::Seen).count();
    if seen < 2 || seen < controls().count() {
        return states.iter().filter_map(control_line).collect();
    }
    let mut doses: Vec<String> = controls().map(|(_, control)| control.planted.to_string()).collect();
    doses.sort_unstable();
    doses.dedup();
    vec![format!("slowdowns of {} were planted in {seen} places, and seen in all of them", doses.join(", "))]
}

/// Undecided contrasts of latency metrics, in a line for each metric and reason: `p99 undecided: xfs / ext4 at 1 thread
/// 0.91× [0.74, 1.04], …`.
pub fn undecided_latency(states: &[&ContrastState]) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in Metric::all() {
        let undecided =
            |state: &&&ContrastState| state.metric == metric && state.verdict == Outcome::Undecided;
        let of_metric: Vec<&ContrastState> = states.iter().filter(undecided).copied().collect();
        let known: Vec<String> = of_metric.iter().filter_map(|state| with_interval(state)).collect();
        if !known.is_empty() {
            lines.push(format!("{} undecided: {}", metric.row().words, known.join(" · ")));
        }
        for (what, is_it) in [("operations in a run", true), ("rounds", false)] {
            let unknown = of_metric.iter().filter(|state| state.too_few_operations == is_it);
            let unknown: Vec<String> =
                unknown.filter(|state| with_interval(state).is_none()).map(|state| contrast(state)).collect();
            let which = match unknown.len() {
                0 => continue,
                1..=MOST_NAMED => unknown.join(" · "),
                more => format!("{more} contrasts"),
            };
            lines.push(format!("{}: too few {what} for a conclusion about {which}", metric.row().words));
        }
    }
    lines
}

/// Contrasts of which nothing is known that are named; more are counted.
const MOST_NAMED: usize = 3;

/// `xfs / ext4 at 1 thread`.
fn contrast(state: &ContrastState) -> String {
    format!("{} / {} at {}", state.a, state.b, threads_in_words(state.threads))
}

fn with_interval(state: &ContrastState) -> Option<String> {
    let (ratio, interval) = (numbers::ratio(state.ratio?), numbers::ratio_interval(state.interval?));
    Some(format!("{} {ratio} {interval}", contrast(state)))
}

/// Rounds after which an undecided contrast is likely to be decided, beyond those that it has; none if that is out of reach.
pub fn rounds_more(state: &ContrastState) -> Option<(u64, u64)> {
    let (low, high) = state.rounds_needed?;
    let beyond = |rounds: u64| rounds.saturating_sub(state.rounds as u64).max(1);
    (state.verdict == Outcome::Undecided).then(|| (beyond(low), beyond(high)))
}

/// `8 to 20 rounds`, `1 round`.
pub fn rounds_range((low, high): (u64, u64)) -> String {
    let ends = if low == high { high.to_string() } else { format!("{low} to {high}") };
    format!("{ends} {}", if high == 1 { "round" } else { "rounds" })
}

/// Requirement of a decision: `8 to 20 rounds more, 8 to 20 min`.
#[expect(clippy::cast_precision_loss, reason = "a number of rounds for display")]
pub fn more_in_words(more: (u64, u64), round_seconds: Option<f64>) -> String {
    let time = |seconds| numbers::wait_range(seconds * more.0 as f64, seconds * more.1 as f64);
    let time = round_seconds.map_or_else(String::new, |seconds| format!(", {}", time(seconds)));
    format!("{} more{time}", rounds_range(more))
}

/// Known distance of an undecided contrast: `; at most 5 % apart, which is not shown of 3 %`.
pub(super) fn known(within_percent: Option<f64>) -> String {
    let Some(within) = within_percent else { return String::new() };
    let mut narrower =
        LADDER.iter().map(|fraction| fraction * 100.0).filter(|percent| *percent < within - 1e-9);
    let next =
        narrower.next().map_or_else(String::new, |next| format!(", which is not shown of {next:.0} %"));
    format!("; at most {within:.0} % apart{next}")
}

/// Remaining time of an undecided contrast.
fn outlook(state: &ContrastState, round_seconds: Option<f64>) -> String {
    if state.verdict != Outcome::Undecided {
        return String::new();
    }
    if state.waits_for_control {
        return match state.holds_open {
            true => "; inside the band, but a planted slowdown was not seen yet".into(),
            false => format!(
                "; inside the band, and no slowdown was planted for it (--decide-on {})",
                state.metric.name()
            ),
        };
    }
    let mut text = known(state.within_percent);
    if state.suggestive {
        text += "; probably so: on its own it would be, but not after correcting for the number of questions";
    }
    match rounds_more(state) {
        None if state.interval.is_none() => {}
        None => text += "; a decision is out of reach at this noise",
        Some(more) => {
            text += &format!("; a decision would take {}", more_in_words(more, round_seconds));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecided_latencies_are_grouped_by_reason() {
        let of = |a: &str, too_few_operations: bool| ContrastState {
            a: a.into(),
            metric: Metric::P99,
            verdict: Outcome::Undecided,
            ratio: None,
            interval: None,
            too_few_operations,
            ..state()
        };
        let states = [of("a", true), of("b", false), of("c", false), of("d", false), of("e", false)];
        let message = undecided_latency(&states.iter().collect::<Vec<_>>());
        let few = "p99: too few operations in a run for a conclusion about a / ext4 at 4 threads";
        assert_eq!(message, [few, "p99: too few rounds for a conclusion about 4 contrasts"]);
    }
    use fstrial_model::units::Percent;
    use fstrial_run::contrast::Control;

    fn state() -> ContrastState {
        ContrastState {
            threads: 4,
            verdict: Outcome::Faster,
            ratio: Some(1.42),
            interval: Some((1.36, 1.49)),
            rounds: 7,
            ..ContrastState::between("xfs", "ext4", "random-write")
        }
    }

    #[test]
    fn lines_read_as_sentences() {
        let undecided = ContrastState {
            verdict: Outcome::Undecided,
            ratio: Some(1.04),
            interval: Some((0.97, 1.12)),
            rounds: 9,
            rounds_needed: Some((17, 40)),
            suggestive: false,
            within_percent: None,
            ..state()
        };
        let message = |state: ContrastState| line(&state, 3.0, None, None);
        let lines = [
            message(state()),
            message(ContrastState {
                metric: Metric::P99,
                less_is_better: true,
                ratio: Some(0.71),
                interval: Some((0.6, 0.8)),
                ..state()
            }),
            message(ContrastState {
                verdict: Outcome::Equivalent,
                ratio: Some(1.004),
                interval: Some((0.99, 1.01)),
                threads: 1,
                ..state()
            }),
            message(ContrastState {
                metric: Metric::DeviceBytes,
                less_is_better: true,
                verdict: Outcome::Slower,
                ratio: Some(2.31),
                interval: Some((2.29, 2.33)),
                ..state()
            }),
            line(&undecided, 3.0, Some(20.0), None),
            message(ContrastState { suggestive: true, rounds_needed: None, ..undecided.clone() }),
            message(ContrastState { within_percent: Some(5.0), ..undecided.clone() }),
            message(ContrastState { within_percent: Some(1.0), ..undecided.clone() }),
            message(ContrastState { interval: None, ratio: Some(1.3), rounds: 2, ..undecided.clone() }),
            message(ContrastState {
                too_few_operations: true,
                ratio: None,
                metric: Metric::P99,
                ..undecided.clone()
            }),
            message(ContrastState { verdict: Outcome::Failed, ratio: None, ..state() }),
            message(ContrastState { total_ratio: Some(0.95), total_is_apart: true, ..undecided.clone() }),
            message(ContrastState {
                interval: Some((1.01, 1.06)),
                total_ratio: Some(0.99),
                waits_for_total: true,
                ..undecided.clone()
            }),
            line(&state(), 3.0, None, Some("no cache flushes (barriers off) on xfs")),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn control_line_names_slowed_component() {
        let message = |lever, found| {
            let control = Control { planted: Percent(6.0), lever, found };
            let state = ContrastState {
                control: Some(control),
                open: true,
                ratio: Some(0.94),
                interval: Some((0.92, 0.96)),
                ..state()
            };
            control_line(&state).unwrap()
        };
        insta::assert_snapshot!(
            [
                message(Lever::Load, Assay::Seen),
                message(Lever::Device, Assay::Seen),
                message(Lever::Device, Assay::Unseen),
                message(Lever::Device, Assay::Overdosed),
                message(Lever::Load, Assay::Unknown),
            ]
            .join("\n")
        );
        let with = |found| ContrastState {
            control: Some(Control { planted: Percent(6.0), lever: Lever::Load, found }),
            ..state()
        };
        let all = control_lines(&[with(Assay::Seen), state(), with(Assay::Seen)]);
        assert_eq!(all, ["slowdowns of 6% were planted in 2 places, and seen in all of them"]);
        assert_eq!(control_lines(&[with(Assay::Seen), with(Assay::Unseen)]).len(), 2);
    }
}
