//! Extracts numbers from a program's output: by regular expression, by JSON pointer, by column, or its own time.
//!
//! Output formats are arbitrary, so a rule never guesses: it finds exactly one number (or defines how several become
//! one), or it is an error that names the rule. Everything is bounded: patterns are linear in the text and limited in
//! size, matches are counted, and texts are cut by their keeper (see [`Output`]).

use super::ResultKind;
use super::entry_error::{EntryError, entry_error};
use crate::units::{Bytes, Nanos};
use regex::{Captures, Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::{borrow::Cow, collections::BTreeMap};

/// Most metrics of one program.
pub const MAX_METRICS: usize = 64;
/// Most places a rule may match.
const MAX_MATCHES: usize = 10_000;
/// Most places a rule for a percentile may match.
const MAX_RANKED: usize = 1_000_000;
/// Longest pattern or pointer, in bytes.
const MAX_RULE_BYTES: usize = 4096;
/// Remedy when nothing is found.
const LOOK: &str = "look at the program's output: it is stored with the run";
/// Most pointers of one rule.
const MAX_POINTERS: usize = 16;
/// Memory a compiled pattern may take, in bytes.
const MAX_PATTERN_MEMORY: usize = 1 << 20;

/// A metric as a user writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricEntry {
    /// Name in tables: 1 to 40 characters.
    pub name: String,
    /// The unit after scaling: bytes/s, op/s, ns, bytes and so on. Left out with `measure`, which has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The better direction; lower with `measure` by default, higher otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// Factor from the printed number to the unit; default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Place of the output: stdout (default), stderr, or `file:NAME` in the program's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A regular expression whose one group is the number; or its groups `value` and `per`, then value divided by per;
    /// or, for a percentile, `value` and `times`, then the value counts that often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// A JSON pointer, or several that are added up; `*` is every element of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<OneOrMany>,
    /// The number of a column between commas, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Not printed but measured: wall, cpu or memory of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Treatment of several matches: only (an error; default), first, last, sum, or the percentile p50, p95 or p99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take: Option<Take>,
}

/// One text, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A single string instead of a list.
    One(String),
    /// A list.
    Many(Vec<String>),
}

/// The better direction of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better, as with a rate.
    Higher,
    /// Less is better, as with a time.
    Lower,
}

/// External measurement of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Time from its start to its end, in nanoseconds.
    Wall,
    /// CPU time of it and of those children that it waited for, user and system, in nanoseconds.
    Cpu,
    /// Memory of the largest of its processes, in bytes.
    Memory,
}

/// Treatment of several matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// There must be exactly one.
    #[default]
    Only,
    /// The first match in the output.
    First,
    /// The last match in the output.
    Last,
    /// All of them, added up.
    Sum,
    /// The median.
    P50,
    /// The 95th percentile: the smallest that at least 95 % do not exceed.
    P95,
    /// The 99th percentile.
    P99,
}

impl Take {
    /// The share that does not exceed a percentile.
    fn share(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::Only | Self::First | Self::Last | Self::Sum => None,
        }
    }
}

/// Extraction of one metric, settled and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricRule {
    /// Name of the result that the rule yields.
    pub name: String,
    /// The unit after scaling.
    pub unit: String,
    /// The better direction.
    pub better: Better,
    /// Factor of the printed number; finite and above 0.
    pub scale: f64,
    /// Place of the output.
    pub from: Source,
    /// Method of extraction.
    pub pick: Pick,
    /// Treatment of several.
    pub take: Take,
}

impl MetricRule {
    /// The result it yields.
    pub fn result(&self) -> ResultKind {
        ResultKind {
            name: self.name.clone(),
            unit: self.unit.clone(),
            less_is_better: self.better == Better::Lower,
            has_latencies: false,
            offered_rate: None,
        }
    }
}

/// A text that a program leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file in its directory, by relative path.
    File(String),
}

/// Method of finding a number in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// JSON pointers, added up. The document begins at the first line that begins with `{` or `[`.
    Pointer(Vec<String>),
    /// A regular expression; `^` and `$` are ends of lines.
    Pattern(String),
    /// The column of this number, from 1, of lines with commas.
    Column(u32),
    /// Not in a text at all.
    Measure(Measure),
}

impl Pick {
    /// The job of this figure in fio's answer: its number there, or `*` for all together.
    pub(super) fn job_of_fio(&self) -> Option<&str> {
        let Self::Pointer(pointers) = self else { return None };
        pointers.first()?.strip_prefix("/jobs/")?.split('/').next()
    }
}

/// Kept output of a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The files that rules ask for, by name; one that does not exist is missing here.
    pub files: BTreeMap<String, String>,
    /// Time from start to end.
    pub wall: Nanos,
    /// CPU time, user and system.
    pub cpu: Nanos,
    /// Memory of its largest process.
    pub memory: Bytes,
}

/// One number that was picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PickedNumber {
    /// The rule's name.
    pub name: String,
    /// The number in `unit`; finite and above 0.
    pub value: f64,
    /// Unit of `value`, as in the rule.
    pub unit: String,
    /// The better direction.
    pub better: Better,
}

/// A rule that found no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metric `{metric}`: {problem}")]
pub struct PickError {
    /// The rule's name.
    pub metric: String,
    /// The reason, without the remedy, which is in `hint`.
    pub problem: String,
    /// The remedy.
    pub hint: String,
}

/// Problem and remedy, before the metric is known.
type Wrong = (String, String);

fn wrong<T>(problem: impl Into<String>, hint: impl Into<String>) -> Result<T, Wrong> {
    Err((problem.into(), hint.into()))
}

impl MetricEntry {
    /// Settles and checks the rule.
    ///
    /// # Errors
    /// The problem.
    pub(crate) fn settle(&self) -> Result<MetricRule, EntryError> {
        self.rule().map_err(|(problem, hint)| {
            entry_error("metric", format!("the metric `{:.60}`: {problem}", self.name), hint)
        })
    }

    fn rule(&self) -> Result<MetricRule, Wrong> {
        let length = self.name.chars().count();
        if !(1..=40).contains(&length) || self.name.contains(|c: char| c.is_control() || c == '@') {
            return wrong("it is not valid as a name", "use 1 to 40 characters without @");
        }
        let pick = self.pick()?;
        let (unit, better) = match &pick {
            Pick::Measure(measure) => (Some(measure.unit()), Better::Lower),
            _ => (None, Better::Higher),
        };
        if let (Some(own), Some(given)) = (unit, self.unit.as_deref())
            && own != given
        {
            return wrong(format!("it is measured in {own}"), "leave `unit` and `scale` out");
        }
        let Some(unit) = self.unit.as_deref().or(unit) else {
            return wrong("it has no unit", "write unit = \"bytes/s\", \"op/s\" or \"ns\"");
        };
        if !(1..=20).contains(&unit.chars().count()) || unit.contains(char::is_control) {
            return wrong(
                format!("`{unit:.60}` is not valid as a unit"),
                "use 1 to 20 characters: bytes/s, op/s, ns",
            );
        }
        let scale = self.scale.unwrap_or(1.0);
        if !scale.is_finite() || scale <= 0.0 {
            return wrong("`scale` must be above 0", "write scale = 1048576 to turn MiB/s into bytes/s");
        }
        if matches!(pick, Pick::Measure(_))
            && (self.scale.is_some() || self.from.is_some() || self.take.is_some())
        {
            return wrong(
                "`scale`, `from` and `take` apply to printed output",
                "leave them out with `measure`",
            );
        }
        let take = self.take.unwrap_or_default();
        if take.share().is_none() && self.pattern.as_ref().is_some_and(|pattern| pattern.contains("<times>"))
        {
            return wrong("only a percentile weights values by `times`", "write take = \"p99\"");
        }
        Ok(MetricRule {
            name: self.name.clone(),
            unit: unit.to_owned(),
            better: self.better.unwrap_or(better),
            scale,
            from: self.source()?,
            pick,
            take,
        })
    }

    fn pick(&self) -> Result<Pick, Wrong> {
        let one = "write one of pattern = '…', pointer = \"/…\", column = 1 or measure = \"wall\"";
        let picks = [
            self.pattern.as_ref().map(|pattern| Pick::Pattern(pattern.clone())),
            self.pointer.as_ref().map(|pointer| {
                Pick::Pointer(match pointer {
                    OneOrMany::One(one) => vec![one.clone()],
                    OneOrMany::Many(many) => many.clone(),
                })
            }),
            self.column.map(Pick::Column),
            self.measure.map(Pick::Measure),
        ];
        let mut picks = picks.into_iter().flatten();
        let (Some(pick), None) = (picks.next(), picks.next()) else {
            return wrong("the place of the number needs to be given exactly once", one);
        };
        match &pick {
            Pick::Pattern(pattern) => drop(compile_number(pattern)?),
            Pick::Pointer(pointers) => check_pointers(pointers)?,
            Pick::Column(0) => return wrong("columns count from 1", "write column = 1 for the first"),
            Pick::Column(_) | Pick::Measure(_) => {}
        }
        Ok(pick)
    }

    fn source(&self) -> Result<Source, Wrong> {
        match self.from.as_deref() {
            None | Some("stdout") => Ok(Source::Stdout),
            Some("stderr") => Ok(Source::Stderr),
            Some(other) => match other.strip_prefix("file:") {
                Some(name) if is_inside(name) => Ok(Source::File(name.to_owned())),
                Some(name) => wrong(
                    format!("`{name:.100}` is not in the program's directory"),
                    "name a file in it, such as file:result.json",
                ),
                None => wrong(
                    format!("there is no `{other:.60}` to read from"),
                    "write from = \"stdout\", \"stderr\" or \"file:NAME\"",
                ),
            },
        }
    }
}

/// True for a plain relative path that stays inside.
fn is_inside(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    name.len() <= 255 && !name.contains('\0') && name.split('/').all(part)
}

fn check_pointers(pointers: &[String]) -> Result<(), Wrong> {
    if pointers.is_empty() || pointers.len() > MAX_POINTERS {
        return wrong(
            format!("a rule has 1 to {MAX_POINTERS} pointers"),
            "write pointer = \"/jobs/0/read/iops\"",
        );
    }
    match pointers.iter().find(|pointer| !pointer.starts_with('/') || pointer.len() > MAX_RULE_BYTES) {
        Some(bad) => wrong(
            format!("`{bad:.60}` is not a JSON pointer"),
            "a pointer begins with a slash: /jobs/0/read/iops, or /jobs/*/read/iops for all of a list",
        ),
        None => Ok(()),
    }
}

/// Compiles a pattern, of which `^` and `$` are the ends of a line.
pub(super) fn compile(pattern: &str) -> Result<Regex, Wrong> {
    if pattern.len() > MAX_RULE_BYTES {
        return wrong(
            format!("the pattern has {} bytes", pattern.len()),
            format!("use at most {MAX_RULE_BYTES}"),
        );
    }
    let compiled = RegexBuilder::new(pattern)
        .multi_line(true)
        .size_limit(MAX_PATTERN_MEMORY)
        .dfa_size_limit(MAX_PATTERN_MEMORY)
        .nest_limit(50)
        .build();
    match compiled {
        Ok(regex) => Ok(regex),
        Err(regex::Error::CompiledTooBig(_)) => {
            wrong("the pattern grows too large", "use smaller counts of repetition")
        }
        Err(error) => {
            // The reason is the last line; the lines before it draw the pattern.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            wrong(
                format!("the pattern does not compile: {reason}"),
                "write it in single quotes, where a backslash is a backslash: pattern = 'iops: ([0-9.]+)'",
            )
        }
    }
}

/// Compiles a pattern and checks that it captures the number.
fn compile_number(pattern: &str) -> Result<Regex, Wrong> {
    let regex = compile(pattern)?;
    let named: Vec<&str> = regex.capture_names().flatten().collect();
    let groups = regex.captures_len() - 1;
    match (named.as_slice(), groups) {
        ([], 1)
        | (["value"], _)
        | (["value", "per"] | ["per", "value"] | ["value", "times"] | ["times", "value"], _) => Ok(regex),
        (_, 0) => wrong(
            "the pattern has no group to capture the number",
            "put the number in parentheses: 'iops: ([0-9.]+)'",
        ),
        _ => wrong(
            "the pattern has several groups",
            "write (?:…) for those that are not the number, or name them (?<value>…) and (?<per>…)",
        ),
    }
}

impl Measure {
    /// Unit of the number: `ns` for times, `bytes` for memory.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Wall | Self::Cpu => "ns",
            Self::Memory => "bytes",
        }
    }
}

impl MetricRule {
    /// Picks the number.
    ///
    /// # Errors
    /// There is none, there are several, or it cannot be compared.
    pub fn pick(&self, output: &Output) -> Result<PickedNumber, PickError> {
        let picked = self.find(output).and_then(|number| self.scaled(number));
        picked.map_err(|(problem, hint)| PickError { metric: self.name.clone(), problem, hint })
    }

    fn scaled(&self, number: f64) -> Result<PickedNumber, Wrong> {
        let value = number * self.scale;
        if !value.is_finite() || value <= 0.0 {
            return wrong(
                format!("{number} cannot be compared: verdicts are ratios, of numbers above 0"),
                "pick a number that the program really measures in this mode, or give it more to do",
            );
        }
        Ok(PickedNumber { name: self.name.clone(), value, unit: self.unit.clone(), better: self.better })
    }

    fn find(&self, output: &Output) -> Result<f64, Wrong> {
        let text = match &self.from {
            Source::Stdout => &output.stdout,
            Source::Stderr => &output.stderr,
            Source::File(name) => match output.files.get(name) {
                Some(text) => text,
                None => {
                    return wrong(
                        format!("the program left no file `{name}`"),
                        "names are relative to the directory it runs in",
                    );
                }
            },
        };
        match &self.pick {
            Pick::Measure(measure) => Ok(measured(*measure, output)),
            Pick::Pointer(pointers) => self.by_pointer(text, pointers),
            Pick::Pattern(pattern) => {
                let regex = compile_number(pattern)?;
                let numbers = regex.captures_iter(text).map(|captures| of_captures(&captures));
                self.reduce(numbers, &format!("`{pattern:.100}` matches nothing in {}", self.place()))
            }
            Pick::Column(column) => {
                let index = *column as usize - 1;
                let cells = text.lines().filter_map(|line| line.split(',').nth(index));
                let nothing = format!("no line of {} has {column} columns", self.place());
                self.reduce(cells.map(|cell| once(number(cell.trim_matches('"')))), &nothing)
            }
        }
    }

    fn place(&self) -> Cow<'static, str> {
        match &self.from {
            Source::Stdout => "the standard output".into(),
            Source::Stderr => "the standard error".into(),
            Source::File(name) => format!("the file `{name}`").into(),
        }
    }

    /// Reduces the matches, each with its multiplicity, to one number. Stops as early as possible.
    fn reduce(
        &self,
        matched: impl Iterator<Item = Result<Match, Wrong>>,
        nothing: &str,
    ) -> Result<f64, Wrong> {
        if let Some(share) = self.take.share() {
            return percentile(share, matched, nothing);
        }
        let mut result: Option<Result<f64, Wrong>> = None;
        for (index, matched) in matched.enumerate() {
            let number = matched.map(|(number, _)| number);
            if index >= MAX_MATCHES {
                return wrong(
                    format!("it matches more than {MAX_MATCHES} times"),
                    "describe more of the line that holds the number",
                );
            }
            result = Some(match (self.take, result) {
                (Take::First, None) => return number,
                (Take::Only, Some(_)) => {
                    return wrong(
                        "it matches more than once",
                        "describe more of the line, or write take = \"first\", \"last\" or \"sum\"",
                    );
                }
                // Of those that are passed over, it does not matter whether they are numbers.
                (Take::Last, _) | (_, None) => number,
                (_, Some(sum)) => sum.and_then(|sum| Ok(sum + number?)),
            });
        }
        result.unwrap_or_else(|| wrong(nothing, LOOK))
    }

    fn by_pointer(&self, text: &str, pointers: &[String]) -> Result<f64, Wrong> {
        let document = document(text, &self.place())?;
        let mut sum = None;
        for pointer in pointers {
            let mut matched = Vec::new();
            let steps: Vec<Cow<'_, str>> = pointer.split('/').skip(1).map(unescape).collect();
            follow(&document, &steps, &mut matched);
            let numbers = matched.into_iter().map(|value| match value {
                Json::Number(value) => value.as_f64().map_or_else(|| number(&value.to_string()), Ok),
                Json::String(value) => number(value),
                other => wrong(
                    format!("`{pointer:.100}` leads to {}, not to a number", kind_of(other)),
                    "go on to a number inside it",
                ),
            });
            let nothing = format!("`{pointer:.100}` leads nowhere in {}", self.place());
            let number = self.reduce(numbers.map(once), &nothing)?;
            sum = Some(sum.map_or(number, |sum: f64| sum + number));
        }
        sum.map_or_else(|| wrong("it has no pointer", "write pointer = \"/…\""), Ok)
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days, 2^53 bytes are 8 PiB")]
fn measured(measure: Measure, output: &Output) -> f64 {
    match measure {
        Measure::Wall => output.wall.0 as f64,
        Measure::Cpu => output.cpu.0 as f64,
        Measure::Memory => output.memory.0 as f64,
    }
}

/// A number, and how often it is there.
type Match = (f64, f64);

fn once(number: Result<f64, Wrong>) -> Result<Match, Wrong> {
    number.map(|number| (number, 1.0))
}

/// The smallest number that at least a share of all does not exceed.
fn percentile(
    share: f64,
    matched: impl Iterator<Item = Result<Match, Wrong>>,
    nothing: &str,
) -> Result<f64, Wrong> {
    let mut ranked = matched.take(MAX_RANKED + 1).collect::<Result<Vec<Match>, Wrong>>()?;
    if ranked.len() > MAX_RANKED {
        return wrong(
            format!("it matches more than {MAX_RANKED} times"),
            "print how often each value is there: sort -n FILE | uniq -c",
        );
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = ranked.iter().map(|(_, times)| times).sum();
    if ranked.is_empty() {
        return wrong(nothing, LOOK);
    }
    let needed = (1.0 / (1.0 - share)).round();
    if all < needed {
        return wrong(
            format!("{all} numbers have no percentile like that: at least {needed} are needed"),
            "use a longer duration",
        );
    }
    let rank = (share * all).ceil();
    let mut passed = 0.0;
    let reached = ranked.iter().find(|(_, times)| {
        passed += times;
        passed >= rank
    });
    Ok(reached.map_or(f64::NAN, |(number, _)| *number))
}

/// The number of a match, and its multiplicity: its only group, or `value` divided by `per`, or `value` with
/// multiplicity `times`.
fn of_captures(captures: &Captures<'_>) -> Result<Match, Wrong> {
    let text = |group: Option<regex::Match<'_>>| match group {
        Some(group) => number(group.as_str()),
        None => wrong("the group with the number took no part in the match", "make the group match always"),
    };
    let value = text(captures.name("value").or_else(|| captures.get(1)))?;
    match (captures.name("per"), captures.name("times")) {
        (Some(per), _) => Ok((value / text(Some(per))?, 1.0)),
        (None, Some(times)) => Ok((value, text(Some(times))?.max(0.0))),
        (None, None) => Ok((value, 1.0)),
    }
}

/// Reads a printed number: digits, a point, an exponent; nothing else.
fn number(text: &str) -> Result<f64, Wrong> {
    let text = text.trim();
    if text.is_empty() {
        return wrong("there is no number in that place", "the program may have left this part out");
    }
    if text.bytes().all(|byte| byte == b'+') {
        return wrong(
            format!("`{text:.20}`: that took under half a second, too short to be rated by bonnie++"),
            "give it more to do: a larger file_size, or more files",
        );
    }
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if is_plain && number.is_finite() => Ok(number),
        _ => wrong(
            format!("`{text:.60}` is not a number"),
            "leave units and signs out of the group; thousands must not be separated",
        ),
    }
}

/// The first JSON document of a text, which may come after notes.
fn document(text: &str, place: &str) -> Result<Json, Wrong> {
    let starts = text.starts_with(['{', '[']).then_some(0);
    let start = starts.or_else(|| {
        [text.find("\n{"), text.find("\n[")].into_iter().flatten().min().map(|newline| newline + 1)
    });
    let Some(start) = start else {
        return wrong(
            format!("there is no JSON in {place}"),
            "ask the program for it: fio --output-format=json",
        );
    };
    match serde_json::Deserializer::from_str(&text[start..]).into_iter().next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(error)) => wrong(
            format!("the JSON in {place} cannot be read: {error}"),
            "it may have been cut off: at most 16 MiB are kept",
        ),
        None => wrong(format!("the JSON in {place} is empty"), "see the program's output"),
    }
}

/// A step of a JSON pointer as RFC 6901 writes it.
fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

/// Collects the values that the steps lead to.
fn follow<'a>(value: &'a Json, steps: &[Cow<'_, str>], matched: &mut Vec<&'a Json>) {
    let Some((step, rest)) = steps.split_first() else {
        matched.push(value);
        return;
    };
    match value {
        Json::Object(members) => {
            if let Some(member) = members.get(step.as_ref()) {
                follow(member, rest, matched);
            }
        }
        Json::Array(elements) if step == "*" => {
            for element in elements {
                // One more than may be: that there are too many is then seen.
                if matched.len() > MAX_RANKED {
                    return;
                }
                follow(element, rest, matched);
            }
        }
        Json::Array(elements) => {
            let index = step.parse::<usize>().ok().filter(|_| !step.starts_with('+'));
            if let Some(element) = index.and_then(|index| elements.get(index)) {
                follow(element, rest, matched);
            }
        }
        _ => {}
    }
}

fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
