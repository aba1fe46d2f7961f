//! `fstrial judge`: the verdict on measurements made elsewhere.

use super::{Home, in_file};
use crate::{
    error::ExpectedError,
    exit_code,
    report::{json_lines, verdict},
    run::{
        contrast::{ContrastState, Outcome},
        course,
        plan::Plan,
        round::Round,
        sample::Sample,
    },
};
use clap::Args;
use fstrial_model::{trial::Settings, units::Percent};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};

/// Rounds the decision rule plans with if the file has fewer; and at most.
const PLANNED_ROUNDS: (u32, u32) = (12, 200);
/// Least and most arms.
const ARMS: (usize, usize) = (2, 64);
/// Most rows read.
const MAX_ROWS: usize = 1_000_000;
/// Most rounds judged, and most numbers kept for all contrasts together: half a gigabyte.
const MAX_JUDGED: (usize, usize) = (4000, 1 << 26);

/// Judge measurements made elsewhere: a CSV file with the columns round, arm, value, and optionally order (position
/// in the round).
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
}

/// One arm's value in a round.
#[derive(Debug, Clone, Copy)]
struct Value {
    value: f64,
    order: Option<u64>,
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
            super::print(&format!("{}\n", verdict::line(state, args.practical.0, None, None)));
        }
    }
    let undecided = states.iter().any(|state| state.verdict == Outcome::Undecided);
    Ok(if undecided { exit_code::UNDECIDED } else { exit_code::VERDICT })
}

/// The number of rounds in the file, and the verdicts on them.
pub(super) fn judged(args: &JudgeArgs) -> Result<(usize, Vec<ContrastState>), ExpectedError> {
    let (arms, rounds) = read(args)?;
    Ok((rounds.len(), judge(args, &arms, rounds)?))
}

fn read(args: &JudgeArgs) -> Result<(Vec<String>, Rounds), ExpectedError> {
    let name = args.file.display().to_string();
    let source = in_file::open(&args.file, in_file::DATA)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(source);
    let hint = "the first line names the columns: round,arm,value and optionally order";
    let mut arms: Vec<String> = Vec::new();
    let mut rounds = Rounds::new();
    let unread = |error: csv::Error, columns: &csv::StringRecord| {
        let words = in_words(&error, columns);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => in_file::failed(&args.file, error),
            _ => ExpectedError::usage(format!("{name}: {words}"), hint),
        }
    };
    let columns = reader.headers().cloned().map_err(|error| unread(error, &csv::StringRecord::new()))?;
    for (index, row) in reader.deserialize::<Row>().enumerate() {
        let row = row.map_err(|error| unread(error, &columns))?;
        if index >= MAX_ROWS {
            return Err(in_file::too_much(&args.file, &format!("has more than {MAX_ROWS} rows")));
        }
        let place = format!("{name}, row {}", index + 2);
        let value = value(&row, &place)?;
        let arm = arms.iter().position(|known| *known == row.arm).unwrap_or_else(|| {
            arms.push(row.arm.clone());
            arms.len() - 1
        });
        if rounds.entry(row.round).or_default().insert(arm, value).is_some() {
            return Err(ExpectedError::usage(
                format!("{place}: round {} has {} twice", row.round, row.arm),
                "every arm has one value in a round",
            ));
        }
        if arms.len() > ARMS.1 {
            break;
        }
    }
    let (least, most) = ARMS;
    if !(least..=most).contains(&arms.len()) {
        let count = match arms.len() {
            0 => "no arms".into(),
            1 => "only one arm".into(),
            _ => format!("more than {most} arms"),
        };
        return Err(ExpectedError::usage(
            format!("{name} has {count}"),
            format!("a comparison needs {least} to {most} arms"),
        ));
    }
    Ok((arms, rounds))
}

/// Checks the numbers of a row.
fn value(row: &Row, place: &str) -> Result<Value, ExpectedError> {
    if !(row.value.is_finite() && row.value > 0.0) {
        return Err(ExpectedError::usage(
            format!("{place}: the value {} is not a positive number", row.value),
            "leave failed runs out",
        ));
    }
    Ok(Value { value: row.value, order: row.order })
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
fn judge(args: &JudgeArgs, arms: &[String], rounds: Rounds) -> Result<Vec<ContrastState>, ExpectedError> {
    if args.practical.is_zero() {
        return Err(ExpectedError::usage(
            "--practical 0%: with no band around it nothing is equivalent",
            "name the smallest difference that matters, such as 1%",
        ));
    }
    if let Some(name) = args.baseline.as_ref().filter(|name| !arms.contains(name)) {
        return Err(ExpectedError::usage(
            format!("no arm is called `{name}`"),
            format!("the arms are {}", arms.join(", ")),
        ));
    }
    let settings =
        Settings { practical: args.practical, baseline: args.baseline.clone(), ..Settings::default() };
    let plan = Plan::of_values(arms, args.less_is_better, settings);
    let judged = most_rounds(plan.contrasts.len());
    if rounds.len() > judged {
        super::say(&format!(
            "the first {judged} of {} rounds are judged: more take too much memory\n",
            rounds.len()
        ));
    }
    let planned = args.planned.unwrap_or(rounds.len());
    let planned = u32::try_from(planned).unwrap_or(u32::MAX).clamp(PLANNED_ROUNDS.0, PLANNED_ROUNDS.1);
    let rounds = (1..).zip(rounds.into_values().take(judged)).map(|(number, values)| round(number, &values));
    let (mut judge, _) = course::replay(&plan, Some(planned), rounds.collect());
    judge.finish();
    Ok(judge.states())
}

/// The values of a round as the judge takes them. Without the position of each nothing is known of their order.
fn round(number: u32, values: &BTreeMap<usize, Value>) -> Round {
    let is_ordered = values.values().all(|value| value.order.is_some());
    let runs = values.iter().map(|(arm, value)| {
        let slot = value.order.filter(|_| is_ordered).and_then(|order| usize::try_from(order).ok());
        (*arm, Ok(vec![Sample::of_value(number, slot.unwrap_or(0), value.value)]))
    });
    Round { number, is_resumed: false, runs: runs.collect() }
}

/// How many rounds are judged of so many contrasts. Each may keep an average of every two of its rounds; a verdict holds
/// wherever a trial stops, so it holds for the rounds before that end, too.
fn most_rounds(contrasts: usize) -> usize {
    let (most, numbers) = MAX_JUDGED;
    (2 * numbers / contrasts.max(1)).isqrt().min(most)
}
