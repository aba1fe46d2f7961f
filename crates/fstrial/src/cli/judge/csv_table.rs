//! Tables: a row for each value, or a column for each arm; with commas, semicolons or tabs.
//!
//! Exports of fstrial are tables with a row for each value. Their runs that failed are left out and counted, and of
//! their many numbers those are judged that trials are about.

use super::builder::{Builder, RawValue, RoundName};
use csv::StringRecord;
use fstrial_model::unit;
use fstrial_run::{elsewhere::Quantity, error::ExpectedError};
use std::collections::BTreeSet;

/// The expected form of a table, in errors.
const COLUMNS: &str = "the first line names the columns: arm and value, with round and order if every arm was measured \
                       once in each round; or a column for each arm, named after it";
/// If the usual values of columns differ by a larger factor, one with few different numbers is treated as keys.
const ALIKE: f64 = 10.0;
/// Different numbers of a column of keys, at most.
const KEYS: usize = 3;
/// The longest piece of a file that an error shows.
const SHOWN: usize = 40;

/// Names of columns, in small letters with `_` for spaces, and their meanings.
const KNOWN: [(&str, Column); 17] = [
    ("arm", Column::Arm),
    ("variant", Column::Arm),
    ("value", Column::Value),
    ("round", Column::Round),
    ("block", Column::Round),
    ("rep", Column::Round),
    ("repetition", Column::Round),
    ("order", Column::Order),
    ("slot", Column::Order),
    ("position", Column::Order),
    ("workload", Column::Workload),
    ("benchmark", Column::Workload),
    ("phase", Column::Phase),
    ("threads", Column::Threads),
    ("metric", Column::Metric),
    ("unit", Column::Unit),
    ("trial", Column::Trial),
];

/// Names of a column that numbers the rounds of a table with a column for each arm.
const NUMBERS: [&str; 5] = ["run", "iteration", "index", "n", "#"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Arm,
    Value,
    Round,
    Order,
    Workload,
    Phase,
    Threads,
    Metric,
    Unit,
    Trial,
}

/// Reads a table.
pub(super) fn read(builder: &mut Builder<'_>, text: &str, name: &str) -> Result<(), ExpectedError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = reader(text);
    let header = reader.headers().cloned().map_err(|error| unread(&error, name))?;
    let mut known: Vec<Option<Column>> = header.iter().map(known).collect();
    let columns = match builder.arm_column().zip(builder.metric()) {
        Some((arm, value)) => Some((named(&header, arm, name)?, named(&header, value, name)?)),
        None => words_and_numbers(text, &header, &known),
    };
    if let Some((arm, value)) = columns {
        for (at, meaning) in [(arm, Column::Arm), (value, Column::Value)] {
            known.iter_mut().filter(|known| **known == Some(meaning)).for_each(|known| *known = None);
            known[at] = Some(meaning);
        }
        if known.contains(&Some(Column::Metric)) {
            return Err(ExpectedError::usage(
                format!(
                    "{name} has a column of metrics, so that `{}` is more than one number",
                    &header[value]
                ),
                "call the columns arm and value, and leave --arm-column out",
            ));
        }
    }
    let numbers = header.iter().position(|cell| NUMBERS.contains(&cell.to_lowercase().as_str()));
    if let Some(numbers) =
        numbers.filter(|_| !known.iter().any(|k| matches!(k, Some(Column::Arm | Column::Round))))
    {
        known[numbers] = Some(Column::Round);
    }
    check_header(&header, &known, name)?;
    let is_wide = !known.contains(&Some(Column::Arm));
    let rows = Rows { name, header: &header, is_wide, value: columns.map(|(_, value)| &header[value]) };
    if is_wide {
        read_wide(builder, reader, &rows, &known)
    } else {
        read_long(builder, reader, &rows, &known)
    }
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .delimiter(delimiter(text))
        .from_reader(text.as_bytes())
}

/// The columns of the arms and of the values, found by their contents if their names do not tell: of all columns
/// without a known name one has repeated words, and one has numbers. One of the two may have its known name.
fn words_and_numbers(text: &str, header: &StringRecord, known: &[Option<Column>]) -> Option<(usize, usize)> {
    let at = |column| known.iter().position(|known| *known == Some(column));
    let counts_rows = |name: &str| name.is_empty() || NUMBERS.contains(&name.to_lowercase().as_str());
    let unknown: Vec<usize> =
        (0..known.len()).filter(|at| known[*at].is_none() && !counts_rows(&header[*at])).collect();
    let mut ways = match (at(Column::Arm), at(Column::Value), unknown.as_slice()) {
        _ if at(Column::Metric).is_some() => return None,
        (None, None, [one, other]) => vec![(*one, *other), (*other, *one)],
        (Some(arm), None, [value]) => vec![(arm, *value)],
        (None, Some(value), [arm]) => vec![(*arm, value)],
        _ => return None,
    };
    let is_named = at(Column::Arm).is_some();
    let (mut words, mut rows) = (BTreeSet::new(), 0_usize);
    for row in reader(text).into_records() {
        let row = row.ok()?;
        let is_number = |at: usize| row[at].parse::<f64>().is_ok();
        ways.retain(|(arm, value)| {
            !row[*arm].is_empty() && (is_named || !is_number(*arm)) && is_number(*value)
        });
        words.insert(row[ways.first()?.0].to_owned());
        rows += 1;
    }
    ways.first().copied().filter(|_| words.len() < rows)
}

/// Index of the column of this name.
fn named(header: &StringRecord, wanted: &str, name: &str) -> Result<usize, ExpectedError> {
    header.iter().position(|cell| cell == wanted).ok_or_else(|| {
        let columns: Vec<String> = header.iter().map(shortened).collect();
        ExpectedError::usage(
            format!("{name} has no column `{wanted}`"),
            format!("its columns are {}", columns.join(", ")),
        )
    })
}

/// The separator of the line of names.
fn delimiter(text: &str) -> u8 {
    let is_names = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let line = text.lines().find(is_names).unwrap_or_default();
    let count = |separator: &u8| line.bytes().filter(|byte| byte == separator).count();
    // Of equals the last: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

fn known(name: &str) -> Option<Column> {
    let plain = name.to_lowercase().replace([' ', '-'], "_");
    KNOWN.iter().find(|(known, _)| *known == plain).map(|(_, column)| *column)
}

/// Context for errors.
struct Rows<'a> {
    name: &'a str,
    header: &'a StringRecord,
    /// True if there is a column for each arm.
    is_wide: bool,
    /// Name of the column of the values, if it describes them.
    value: Option<&'a str>,
}

impl Rows<'_> {
    fn place(&self, row: &StringRecord) -> String {
        row.position().map_or_else(|| self.name.to_owned(), |at| format!("{}, line {}", self.name, at.line()))
    }

    fn number(&self, row: &StringRecord, column: usize) -> Result<f64, ExpectedError> {
        let text = row.get(column).unwrap_or_default();
        text.parse().map_err(|_| {
            let hint = if text.contains(',') {
                "write a decimal point, and nothing between thousands".to_owned()
            } else if !self.is_wide {
                format!("leave failed runs out; {COLUMNS}")
            } else {
                let name = shortened(self.header.get(column).unwrap_or_default());
                format!(
                    "if `{name}` names the arms: --arm-column {name} --metric COLUMN; else leave failed runs and columns that are \
                     not arms out; {COLUMNS}"
                )
            };
            let column = shortened(self.header.get(column).unwrap_or_default());
            ExpectedError::usage(
                format!("{}: column {column}: `{}` is not a number", self.place(row), shortened(text)),
                hint,
            )
        })
    }
}

/// A piece of a file, as much as an error shows.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if text.chars().count() > SHOWN {
        shown.push('…');
    }
    shown
}

fn unread(error: &csv::Error, name: &str) -> ExpectedError {
    let words = match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map(|pos| format!(", line {}", pos.line())).unwrap_or_default();
            format!("{name}{line}: {len} columns, but the first line names {expected_len}")
        }
        _ => format!("{name}: {error}"),
    };
    ExpectedError::usage(words, COLUMNS)
}

fn one_number_each(name: &str, what: &str) -> ExpectedError {
    ExpectedError::usage(
        format!("{name} looks like {what}, which has one number for each command"),
        "judge its JSON, which has all runs: hyperfine --export-json FILE",
    )
}

/// Refuses a header without column names, or without the necessary ones.
fn check_header(header: &StringRecord, known: &[Option<Column>], name: &str) -> Result<(), ExpectedError> {
    if header.iter().next().is_some_and(|cell| cell.starts_with("| Command")) {
        return Err(one_number_each(name, "a Markdown table of hyperfine's"));
    }
    if header.iter().any(|cell| cell.parse::<f64>().is_ok()) {
        let line = shortened(&header.iter().collect::<Vec<_>>().join(","));
        return Err(ExpectedError::usage(
            format!("{name}: the first line names no columns: `{line}`"),
            "write their names above it: round,arm,value and optionally order; or, with a column for each arm, the names \
             of the arms",
        ));
    }
    let has = |column| known.contains(&Some(column));
    let is_hyperfine =
        ["command", "mean", "stddev"].iter().all(|name| header.iter().any(|cell| cell == *name));
    if is_hyperfine {
        return Err(one_number_each(name, "hyperfine's CSV"));
    }
    match (has(Column::Arm), has(Column::Value)) {
        (true, false) => {
            Err(ExpectedError::usage(format!("{name}: there is an arm column, but no value column"), COLUMNS))
        }
        (false, true) => {
            Err(ExpectedError::usage(format!("{name}: there is a value column, but no arm column"), COLUMNS))
        }
        _ => twice(header, known, name),
    }
}

/// Refuses two columns of one meaning, and two arms of one name.
fn twice(header: &StringRecord, known: &[Option<Column>], name: &str) -> Result<(), ExpectedError> {
    for (index, cell) in header.iter().enumerate() {
        let before = &known[..index];
        let is_again = match known[index] {
            Some(column) => before.contains(&Some(column)),
            None => !cell.is_empty() && header.iter().take(index).any(|other| other == cell),
        };
        if is_again {
            return Err(ExpectedError::usage(
                format!("{name}: two columns are `{}`", shortened(cell)),
                "leave one of them out, or name them differently",
            ));
        }
    }
    Ok(())
}

/// A row for each value.
fn read_long(
    builder: &mut Builder<'_>,
    mut reader: csv::Reader<&[u8]>,
    rows: &Rows<'_>,
    known: &[Option<Column>],
) -> Result<(), ExpectedError> {
    builder.is_list = true;
    let at = |column| known.iter().position(|known| *known == Some(column));
    let (value_at, round_at, order_at) = (at(Column::Value), at(Column::Round), at(Column::Order));
    let mut failed = 0_usize;
    for row in reader.records() {
        let row = row.map_err(|error| unread(&error, rows.name))?;
        let place = rows.place(&row);
        let cell = |column| at(column).and_then(|at| row.get(at)).unwrap_or_default();
        let value = rows.number(&row, value_at.unwrap_or_default())?;
        if cell(Column::Metric) == "failed" {
            failed += usize::from(value != 0.0);
            continue;
        }
        let round = round_at.map(|at| round(cell(Column::Trial), row.get(at).unwrap_or_default(), &place));
        let order = order_at.filter(|at| row.get(*at).is_some_and(|cell| !cell.is_empty()));
        let (quantity, is_main) = quantity(builder, rows, &cell);
        let result = RawValue {
            arm: cell(Column::Arm).to_owned(),
            quantity,
            is_main,
            round: round.transpose()?,
            order: order.map(|at| rows.number(&row, at)).transpose()?,
            value,
        };
        builder.add(result, &place)?;
    }
    if at(Column::Trial).is_some() {
        builder.notes.push(
            "a trial stops once it is decided, so judging all of its rounds together is biased: \
                 `fstrial report --format text` prints its own verdicts"
                .into(),
        );
    }
    if failed > 0 {
        builder.notes.push(if failed == 1 {
            "one run failed and is left out".into()
        } else {
            format!("{failed} runs failed and are left out")
        });
    }
    Ok(())
}

/// A round from a cell.
fn round(trial: &str, cell: &str, place: &str) -> Result<RoundName, ExpectedError> {
    if cell.is_empty() {
        return Err(ExpectedError::usage(
            format!("{place}: the round is missing"),
            "number the rounds; without any, leave the column out",
        ));
    }
    Ok(match cell.parse() {
        Ok(number) => (trial.to_owned(), number, String::new()),
        Err(_) => (trial.to_owned(), u64::MAX, cell.to_owned()),
    })
}

/// Subject of a row, and whether it is judged by default.
fn quantity<'r>(
    builder: &Builder<'_>,
    rows: &Rows<'r>,
    cell: &impl Fn(Column) -> &'r str,
) -> (Quantity, bool) {
    let mut workload = cell(Column::Workload).to_owned();
    for (column, before) in [(Column::Phase, " · "), (Column::Threads, ", threads ")] {
        if !cell(column).is_empty() {
            workload += &format!("{before}{}", cell(column));
        }
    }
    let (metric, unit) = (rows.value.unwrap_or_else(|| cell(Column::Metric)), cell(Column::Unit));
    let less_is_better = builder.is_less_better() || is_less_better(metric, unit);
    let is_main = rows.value.is_some()
        || metric.is_empty()
        || !OF_EXPORTS.contains(&metric) && !metric.contains("_latency_ns_");
    (Quantity { workload, metric: metric.to_owned(), unit: unit.to_owned(), less_is_better }, is_main)
}

/// Numbers of our exports that trials do not decide on by default: judged when they are named.
const OF_EXPORTS: [&str; 9] = [
    "bytes_per_second",
    "operations",
    "errors",
    "cpu_per_operation_ns",
    "cpu_machine_per_operation_ns",
    "device_bytes_per_operation",
    "log_laps",
    "commits",
    "generator_share_of_core",
];

/// Names of columns of times.
const TIMES: [&str; 7] = ["time", "elapsed", "real", "wall", "wall_time", "runtime", "duration"];

/// Words of a latency, wherever they are in a name: `update_lat`, `mean response time`.
const LATENCIES: [&str; 4] = ["lat", "latencies", "response", "elapsed"];

/// Times and costs.
fn is_less_better(metric: &str, unit: &str) -> bool {
    let (name, units) =
        (metric.to_lowercase(), ["s", "ms", "us", "µs", unit::TIME, "sec", "secs", "seconds"]);
    let words: Vec<&str> =
        name.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty()).collect();
    let is_quantile =
        |word: &&str| word.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
    let ends_in_time = words.last().is_some_and(|last| units.contains(last) || TIMES.contains(last));
    let is_of_time = ends_in_time || words.iter().any(|word| is_quantile(word) || LATENCIES.contains(word));
    units.contains(&unit)
        || name.ends_with("_per_operation")
        || name.contains("latency")
        || is_of_time && !is_rate(&name)
}

/// True if the name of an arm's column ends like that of a time: `ext4_seconds`, `xfs (ms)`.
fn is_column_of_times(name: &str) -> bool {
    let last = name.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default();
    !is_rate(name) && last.chars().count() > 1 && is_less_better(last, "")
}

/// True if a name is of a rate and not of a time: `MB/s`, `ops_per_sec`.
fn is_rate(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains('/') || name.split(|c: char| !c.is_alphanumeric()).any(|word| RATES.contains(&word))
}

/// Words of a rate.
const RATES: [&str; 13] = [
    "per",
    "ops",
    "op",
    "tx",
    "mb",
    "requests",
    "rate",
    "throughput",
    "iops",
    "tps",
    "qps",
    "operations",
    "transactions",
];

/// A column for each arm, and a row for each round.
fn read_wide(
    builder: &mut Builder<'_>,
    mut reader: csv::Reader<&[u8]>,
    rows: &Rows<'_>,
    known: &[Option<Column>],
) -> Result<(), ExpectedError> {
    let round_at = known.iter().position(|known| *known == Some(Column::Round));
    let is_arm = |index: &usize| known[*index].is_none() && !rows.header[*index].is_empty();
    let arms: Vec<usize> = (0..rows.header.len()).filter(is_arm).collect();
    for arm in &arms {
        builder.name_arm(&rows.header[*arm], rows.name)?;
    }
    let is_less_better =
        builder.is_less_better() || arms.iter().all(|arm| is_column_of_times(&rows.header[*arm]));
    let (mut number, mut empty) = (0, 0_usize);
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
    for row in reader.records() {
        let row = row.map_err(|error| unread(&error, rows.name))?;
        let place = rows.place(&row);
        number += 1;
        let name = match round_at {
            Some(at) => round("", row.get(at).unwrap_or_default(), &place)?,
            None => (String::new(), number, String::new()),
        };
        for (arm, column) in arms.iter().zip(&mut columns) {
            if row.get(*arm).is_none_or(str::is_empty) {
                empty += 1;
                continue;
            }
            let quantity = Quantity {
                workload: String::new(),
                metric: String::new(),
                unit: String::new(),
                less_is_better: is_less_better,
            };
            let (arm, value) = (rows.header[*arm].to_owned(), rows.number(&row, *arm)?);
            column.push(value);
            let result =
                RawValue { arm, quantity, is_main: true, round: Some(name.clone()), order: None, value };
            builder.add(result, &place)?;
        }
    }
    check_alike(rows, &arms, columns)?;
    if empty > 0 {
        builder.notes.push(if empty == 1 {
            "one cell is empty and is left out".into()
        } else {
            format!("{empty} cells are empty and are left out")
        });
    }
    Ok(())
}

/// Refuses a column of keys, whose numbers repeat and are of another size than the others.
fn check_alike(rows: &Rows<'_>, arms: &[usize], mut columns: Vec<Vec<f64>>) -> Result<(), ExpectedError> {
    columns.iter_mut().for_each(|values| values.sort_unstable_by(f64::total_cmp));
    let middles =
        arms.iter().zip(&columns).filter_map(|(arm, values)| Some((*arm, *values.get(values.len() / 2)?)));
    let middles: Vec<(usize, f64)> = middles.filter(|(_, middle)| *middle > 0.0).collect();
    let by_size = |one: &&(usize, f64), other: &&(usize, f64)| one.1.total_cmp(&other.1);
    let (Some(least), Some(most)) = (middles.iter().min_by(by_size), middles.iter().max_by(by_size)) else {
        return Ok(());
    };
    let are_keys = |values: &Vec<f64>| {
        values.len() > 2 * KEYS && values.chunk_by(|one, next| one == next).count() <= KEYS
    };
    if most.1 <= ALIKE * least.1 || !columns.iter().any(are_keys) {
        return Ok(());
    }
    let [small, large] = [least, most].map(|(at, middle)| (shortened(&rows.header[*at]), *middle));
    let first = shortened(&rows.header[arms[0]]);
    let other = if first == large.0 { &small.0 } else { &large.0 };
    Err(ExpectedError::usage(
        format!(
            "{}: the columns `{}` (about {}) and `{}` (about {}) are hardly two arms",
            rows.name, small.0, small.1, large.0, large.1
        ),
        format!(
            "if `{first}` names the arms: --arm-column {first} --metric {other}; else write the columns arm and value"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::is_less_better;

    #[test]
    fn distinguishes_time_names_from_rate_names() {
        for name in [
            "time",
            "p99",
            "p99_ms",
            "p99.9 (ms)",
            "update_p99",
            "update_us",
            "mean_us",
            "response_time",
            "lat",
            "wall_s",
            "update_latency_ns_p99",
            "device_bytes_per_operation",
            "Latency avg",
        ] {
            assert!(is_less_better(name, ""), "{name}");
        }
        for name in [
            "value",
            "throughput",
            "ops_per_sec",
            "MB/s",
            "tx/s",
            "requests_per_s",
            "p99_throughput",
            "operations",
            "rate",
        ] {
            assert!(!is_less_better(name, ""), "{name}");
        }
    }
}
