//! `fstrial judge`: the verdict on measurements made elsewhere.

use super::Home;
use crate::{
    error::ExpectedError,
    exit_code,
    report::{json_lines, verdict},
    run::judge::{ALPHA, ContrastState, Outcome, ratio, ratio_interval, rounded_up},
};
use clap::Args;
use fstrial_model::{trial::Metric, units::Percent};
use fstrial_stats::{Multiplicity, Pair, Panel, Question};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};

/// Rounds the decision rule plans with if the file has fewer; and at most.
const PLANNED_ROUNDS: (usize, usize) = (12, 200);
/// Most rows read.
const MAX_ROWS: usize = 1_000_000;

/// Judge measurements made elsewhere: a CSV file with the columns round, arm, value, and optionally order (position
/// in the round) and cv (variation inside the run).
///
/// Every arm is measured once in every round, in an order that should have been drawn at random: without that the
/// verdict is worth as much as the order. Values are rates (more is better) unless --less-is-better.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The file; - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Values are latencies or durations.
    #[arg(long)]
    less_is_better: bool,

    /// Compare every arm with this one only [default: all pairs].
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,

    /// Differences smaller than this do not matter.
    #[arg(long, value_name = "PERCENT", default_value = "3%")]
    practical: Percent,

    /// The number of rounds that was planned before the first value was seen [default: as many as there are].
    #[arg(long, value_name = "N")]
    planned: Option<usize>,

    /// The verdicts as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    _home: Home,
}

#[derive(Debug, Deserialize)]
struct Row {
    round: u64,
    arm: String,
    value: f64,
    order: Option<u64>,
    cv: Option<f64>,
}

/// One arm's value in a round.
#[derive(Debug, Clone, Copy)]
struct Value {
    value: f64,
    order: Option<u64>,
    cv: f64,
}

/// Rounds in order, each with the values of its arms by index.
type Rounds = BTreeMap<u64, BTreeMap<usize, Value>>;

pub(crate) fn exec(args: &JudgeArgs) -> Result<u8, ExpectedError> {
    let (rounds, states) = judged(args)?;
    if args.json {
        json_lines::print(
            &serde_json::json!({ "schema_version": crate::report::document::SCHEMA_VERSION, "rounds": rounds, "verdicts": states }),
        );
    } else {
        for state in &states {
            super::print(&format!("{}\n", line(args, state)));
        }
    }
    let undecided = states.iter().any(|state| state.verdict == Outcome::Undecided);
    Ok(if undecided { exit_code::UNDECIDED } else { exit_code::VERDICT })
}

/// The number of rounds in the file, and the verdicts on them.
pub(super) fn judged(args: &JudgeArgs) -> Result<(usize, Vec<ContrastState>), ExpectedError> {
    let (arms, rounds) = read(args)?;
    Ok((rounds.len(), judge(args, &arms, &rounds)?))
}

/// There are no threads here, so the level is left out of the sentence.
fn line(args: &JudgeArgs, state: &ContrastState) -> String {
    verdict::line(state, args.practical.0, None, None).replace(" at 0 threads", "")
}

/// Reads and checks the file.
fn read(args: &JudgeArgs) -> Result<(Vec<String>, Rounds), ExpectedError> {
    let name = args.file.display().to_string();
    let source: Box<dyn std::io::Read> = if name == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(&args.file).map_err(|source| ExpectedError::File {
            what: "read",
            path: args.file.clone(),
            source,
        })?)
    };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(source);
    let hint = "the first line names the columns: round,arm,value and optionally order,cv";
    let mut arms: Vec<String> = Vec::new();
    let mut rounds = Rounds::new();
    let columns = reader.headers().cloned().unwrap_or_default();
    for (index, row) in reader.deserialize::<Row>().enumerate() {
        let row = row
            .map_err(|error| ExpectedError::usage(format!("{name}: {}", in_words(&error, &columns)), hint))?;
        let place = format!("{name}, row {}", index + 2);
        if index >= MAX_ROWS {
            return Err(ExpectedError::usage(
                format!("{name} has more than {MAX_ROWS} rows"),
                "is this the right file?",
            ));
        }
        if !(row.value.is_finite() && row.value > 0.0) {
            return Err(ExpectedError::usage(
                format!("{place}: the value {} is not a positive number", row.value),
                "leave failed runs out",
            ));
        }
        if row.cv.is_some_and(|cv| !(cv.is_finite() && cv >= 0.0)) {
            return Err(ExpectedError::usage(
                format!("{place}: the cv is not a number from 0 on"),
                "cv is a fraction: 0.03 for 3 %",
            ));
        }
        let arm = arms.iter().position(|known| *known == row.arm).unwrap_or_else(|| {
            arms.push(row.arm.clone());
            arms.len() - 1
        });
        let value = Value { value: row.value, order: row.order, cv: row.cv.unwrap_or(0.0) };
        if rounds.entry(row.round).or_default().insert(arm, value).is_some() {
            return Err(ExpectedError::usage(
                format!("{place}: round {} has {} twice", row.round, row.arm),
                "every arm has one value in a round",
            ));
        }
    }
    if arms.len() < 2 || arms.len() > 64 {
        return Err(ExpectedError::usage(
            format!("{name} has {} arms", arms.len()),
            "a comparison needs 2 to 64 arms",
        ));
    }
    Ok((arms, rounds))
}

/// What is wrong with a row, by line and column as a person counts them.
fn in_words(error: &csv::Error, columns: &csv::StringRecord) -> String {
    let csv::ErrorKind::Deserialize { pos, err } = error.kind() else { return error.to_string() };
    let line = pos.as_ref().map(|pos| format!("line {}: ", pos.line())).unwrap_or_default();
    let column = err.field().and_then(|field| columns.get(usize::try_from(field).ok()?));
    let column = column.map(|column| format!("column {column}: ")).unwrap_or_default();
    format!("{line}{column}{}", err.kind())
}

/// Judges every pair, round by round, as a trial would have.
fn judge(args: &JudgeArgs, arms: &[String], rounds: &Rounds) -> Result<Vec<ContrastState>, ExpectedError> {
    let base = match &args.baseline {
        None => None,
        Some(name) => Some(arms.iter().position(|arm| arm == name).ok_or_else(|| {
            ExpectedError::usage(
                format!("no arm is called `{name}`"),
                format!("the arms are {}", arms.join(", ")),
            )
        })?),
    };
    let pairs: Vec<(usize, usize)> = match base {
        Some(base) => (0..arms.len()).filter(|a| *a != base).map(|a| (a, base)).collect(),
        None => (0..arms.len()).flat_map(|b| (b + 1..arms.len()).map(move |a| (a, b))).collect(),
    };
    let band = args.practical.fraction().ln_1p();
    let planned = args.planned.unwrap_or(rounds.len()).clamp(PLANNED_ROUNDS.0, PLANNED_ROUNDS.1);
    let questions = pairs.iter().map(|_| Question::comparison(band)).collect();
    let mut panel = Panel::new(questions, ALPHA, planned, Multiplicity::BenjaminiHochberg);
    for values in rounds.values() {
        for (index, (a, b)) in pairs.iter().enumerate() {
            if let (Some(a), Some(b)) = (values.get(a), values.get(b)) {
                let a_first = a.order.zip(b.order).map(|(a, b)| a < b);
                let pair = if args.less_is_better {
                    Pair::from_rates(b.value, b.cv, a.value, a.cv, a_first)
                } else {
                    Pair::from_rates(a.value, a.cv, b.value, b.cv, a_first)
                };
                panel.push(index, pair);
            }
        }
        panel.settle();
    }
    panel.finish();
    Ok(pairs
        .iter()
        .enumerate()
        .map(|(index, (a, b))| state(args, &panel, index, &arms[*a], &arms[*b]))
        .collect())
}

fn state(args: &JudgeArgs, panel: &Panel, index: usize, a: &str, b: &str) -> ContrastState {
    let verdict = panel.verdict(index);
    ContrastState {
        a: a.to_owned(),
        b: b.to_owned(),
        workload: String::new(),
        threads: 0,
        phase: String::new(),
        metric: Metric::Throughput,
        less_is_better: args.less_is_better,
        verdict: verdict.decision.into(),
        ratio: verdict.estimate.map(|log| ratio(log, args.less_is_better)),
        interval: verdict.interval.map(|logs| ratio_interval(logs, args.less_is_better)),
        interval_level: verdict.interval_level,
        rounds: verdict.rounds,
        open: false,
        holds_open: true,
        rounds_needed: verdict.rounds_needed.map(rounded_up),
        suggestive: verdict.excludes_zero_undecided,
        too_few_operations: false,
    }
}
