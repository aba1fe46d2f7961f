//! The figures of a trial in tables with one unit each: a row for a workload at a level, and the other arms as ratios
//! to one of them, with a sign for each decision.

use super::HEADING;
use crate::{
    document::{CellReport, Document, WorkloadReport},
    first_lap, numbers, plain, shortened, summary, verdict,
};
use anstyle::{AnsiColor, Style};
use fstrial_model::{metric::Metric, unit};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    plan::threads_in_words,
};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns from which on there is room for the figures of every arm, and for rounds.
const ROOMY: usize = 110;
/// Rows of a table; of more those that are open, and the largest differences.
const MAX_ROWS: usize = 12;
/// Columns of the name of a workload, and of an arm.
const MAX_NAME: usize = 30;
const MAX_ARM: usize = 20;

/// All tables, and the legend of their signs.
pub(super) fn render(document: &Document, columns: usize) -> String {
    let mut cells = document.workloads.iter().flat_map(|workload| &workload.cells);
    if document.rounds == 0 && cells.all(|cell| cell.runs == 0 && !cell.failed && cell.unsupported.is_none())
    {
        return "\nno round is complete: there are no figures\n".into();
    }
    let mut out = String::new();
    let mut signs = Vec::new();
    for block in blocks(document) {
        let forms = [Form::Roomy, Form::Wide, Form::Long];
        let tables = forms.into_iter().filter(|form| columns >= ROOMY || *form != Form::Roomy);
        // Names of any length may break all of them.
        let mut tables = tables.map(|form| block.table(form));
        let table = tables.find(|table| table.width() <= columns);
        let table = table.unwrap_or_else(|| block.table(Form::Long));
        let _ = write!(out, "\n{}", table.render(document.report_command().as_deref()));
        signs.extend(table.signs());
    }
    out += &legend(&signs, document.practical_percent);
    out
}

/// Workloads with figures of one unit and the same arms.
struct Block<'a> {
    unit: &'a str,
    arms: Vec<&'a str>,
    /// The arm that all others are compared with; none without comparisons.
    reference: Option<&'a str>,
    cases: Vec<Case<'a>>,
}

/// A row: one metric of a workload at a level.
#[derive(Clone, Copy)]
struct Case<'a> {
    workload: &'a WorkloadReport,
    threads: u16,
    metric: Metric,
    /// It is the first of its workload's metrics.
    is_first: bool,
}

/// Consecutive workloads of one unit; a deciding one with those reported along with it.
fn blocks(document: &Document) -> Vec<Block<'_>> {
    let mut groups: Vec<(Vec<&str>, Vec<&WorkloadReport>)> = Vec::new();
    for workload in &document.workloads {
        let arms: Vec<&str> =
            first_lap::arms(&workload.cells).iter().map(|cells| cells[0].arm.as_str()).collect();
        match groups.last_mut() {
            Some((known, all)) if *known == arms && (workload.secondary || all[0].unit == workload.unit) => {
                all.push(workload);
            }
            _ => groups.push((arms, vec![workload])),
        }
    }
    groups.into_iter().flat_map(|(arms, workloads)| places(&arms, &workloads)).collect()
}

/// One block; where arms are compared at each of several places only, one for each place.
fn places<'a>(arms: &[&'a str], workloads: &[&'a WorkloadReport]) -> Vec<Block<'a>> {
    let places = workloads[0].places();
    let is_at = |arm: &str, place: Option<&str>| {
        let mut cells = workloads[0].cells.iter();
        places.len() == 1 || cells.any(|cell| cell.arm == arm && cell.place.as_deref() == place)
    };
    let block = |place: &Option<&str>| {
        let arms: Vec<&str> = arms.iter().copied().filter(|arm| is_at(arm, *place)).collect();
        Block {
            unit: &workloads[0].unit,
            reference: reference(&arms, workloads),
            cases: workloads.iter().flat_map(|workload| cases(workload)).collect(),
            arms,
        }
    };
    places.iter().map(block).collect()
}

/// The rows of a workload: the deciding one, and every other requested metric.
fn cases(workload: &WorkloadReport) -> Vec<Case<'_>> {
    let mut cells = workload.cells.iter();
    let has_rates = cells.all(|cell| cell.rate.is_some() || cell.device_bytes_per_operation.is_none());
    let is_asked = |metric: Metric| {
        let is_throughput = metric == Metric::Throughput;
        let mut of_it = workload.states().filter(|state| state.metric == metric);
        // Before anything can be compared, the figures that there are.
        let alone = if has_rates { Metric::Throughput } else { Metric::DeviceBytes };
        of_it.any(|state| is_throughput || state.holds_open)
            || metric == alone && workload.states().next().is_none()
    };
    let metrics: Vec<Metric> = Metric::all().filter(|metric| is_asked(*metric)).collect();
    let of_level = |threads| {
        let case = move |(index, metric): (usize, &Metric)| Case {
            workload,
            threads,
            metric: *metric,
            is_first: index == 0,
        };
        metrics.iter().enumerate().map(case)
    };
    workload.levels().into_iter().flat_map(of_level).collect()
}

/// The baseline; if all ratios are of one pair, the second arm of it; else the arm with figures that leads most often. None without
/// a ratio to it.
fn reference<'a>(arms: &[&'a str], workloads: &[&WorkloadReport]) -> Option<&'a str> {
    let states = || workloads.iter().flat_map(|workload| workload.states());
    let is_here = |state: &&ContrastState| state.ratio.is_some() && arms.contains(&state.a.as_str());
    let first = states().find(is_here)?;
    let is_pair = |state: &ContrastState| (&state.a, &state.b) == (&first.a, &first.b);
    if workloads[0].has_baseline || states().filter(is_here).all(is_pair) {
        return arms.iter().copied().find(|arm| *arm == first.b);
    }
    let rankings = || workloads.iter().flat_map(|workload| summary::rankings_of(workload));
    let leads = |arm: &&str| {
        rankings().filter(|one| one.among != summary::Among::Open && one.leading.contains(arm)).count()
    };
    let has_a_ratio = |arm: &&str| states().filter(is_here).any(|state| [&*state.a, &*state.b].contains(arm));
    arms.iter().copied().rev().filter(has_a_ratio).max_by_key(leads)
}

impl<'a> Case<'a> {
    fn cell(&self, arm: &str) -> Option<&'a CellReport> {
        self.workload.cells.iter().find(|cell| cell.arm == arm && cell.threads == self.threads)
    }

    /// True if an arm lacks a figure that it should have.
    fn has_failed(&self) -> bool {
        self.workload
            .cells
            .iter()
            .any(|cell| cell.threads == self.threads && (cell.failed || cell.unsupported.is_some()))
    }

    /// The figure of an arm, in the unit of the block or with its own.
    fn figure(&self, arm: &str) -> String {
        let Some(cell) = self.cell(arm) else { return "–".into() };
        if cell.failed {
            return "FAILED".into();
        }
        if cell.unsupported.is_some() {
            return "unsupported".into();
        }
        let quantile = |index: usize| cell.latency_ns.and_then(|all| all[index]).map(numbers::nanos);
        let figure = match self.metric {
            Metric::Throughput => cell.rate.map(|rate| match self.workload.unit.as_str() {
                unit::TIME | unit::BYTES | unit::BYTES_PER_FILE => numbers::figure(rate, &self.workload.unit),
                unit::BYTES_PER_SECOND => numbers::grouped(rate / f64::from(1 << 20)),
                _ => numbers::grouped(rate),
            }),
            Metric::P50 => quantile(0),
            Metric::P99 => quantile(1),
            Metric::P999 => quantile(2),
            Metric::CpuTime => cell.cpu_per_operation_ns.map(numbers::nanos),
            Metric::DeviceBytes => cell.device_bytes_per_operation.map(numbers::bytes),
            // Cells have no figure of others.
            _ => None,
        };
        figure.unwrap_or_else(|| "–".into())
    }

    /// Its name: for a further metric, or a result reported along with a workload, only that.
    fn name(&self, unit: &str) -> String {
        let name = match (self.metric, self.workload.secondary) {
            (_, false) if self.is_first => self.workload.title().replace("highest rate with", "rate at"),
            (Metric::Throughput, true) => format!("  {}", self.workload.phase),
            (metric, _) => format!("  {}", metric.row().words),
        };
        let own = unit::beside(&self.workload.unit);
        let is_other = self.workload.secondary && self.workload.unit != unit && !own.is_empty();
        let name = if is_other { format!("{name}, {own}") } else { name };
        shortened(&plain(&name), MAX_NAME)
    }

    /// An arm over another, whichever way round the contrast is.
    fn pair(&self, arm: &str, reference: &str) -> Option<Pair<'a>> {
        self.workload.verdicts.iter().find_map(|report| {
            let state = &report.contrast;
            let is_here = state.threads == self.threads && state.metric == self.metric;
            let is_turned = match (state.a.as_str(), state.b.as_str()) {
                (a, b) if (a, b) == (arm, reference) => false,
                (a, b) if (b, a) == (arm, reference) => true,
                _ => return None,
            };
            is_here.then_some(Pair { state, is_turned, is_unequal: report.unequal_durability.is_some() })
        })
    }
}

/// An arm as a ratio to another.
#[derive(Clone, Copy)]
struct Pair<'a> {
    state: &'a ContrastState,
    /// The contrast is the other way round.
    is_turned: bool,
    is_unequal: bool,
}

impl Pair<'_> {
    /// True if it is better than the other, if that is known; the contrast may be in the opposite order.
    fn is_better(self) -> Option<bool> {
        match self.state.verdict {
            Outcome::Faster => Some(!self.is_turned),
            Outcome::Slower => Some(self.is_turned),
            _ => None,
        }
    }

    /// On which side of the other its figure is.
    fn sign(self) -> char {
        match (self.is_better(), self.state.verdict) {
            (Some(is_better), _) if is_better == self.state.less_is_better => '<',
            (Some(_), _) => '>',
            (None, Outcome::Equivalent) => '=',
            (None, Outcome::Undecided) if self.state.near => '~',
            (None, Outcome::Undecided) => '?',
            (None, _) => '-',
        }
    }

    fn style(self) -> Style {
        match self.is_better() {
            Some(true) => AnsiColor::Green.on_default(),
            Some(false) => AnsiColor::Red.on_default(),
            None => Style::new(),
        }
    }

    /// `> 1.34  [1.20, 1.49]`; none without a ratio.
    fn words(self) -> Option<String> {
        let turn = |ratio: f64| if self.is_turned { ratio.recip() } else { ratio };
        let ratio = numbers::ratio_digits(turn(self.state.ratio?));
        let interval = self.state.interval.map_or_else(String::new, |(low, high)| {
            let ends = if self.is_turned { (turn(high), turn(low)) } else { (low, high) };
            // Equal and close ones share one level, which the legend shows.
            let level = match self.state.verdict {
                Outcome::Equivalent => String::new(),
                _ if self.state.near => String::new(),
                _ => verdict::of_level(self.state.interval_level),
            };
            format!(" {}{level}", numbers::ratio_interval(ends))
        });
        let unequal = if self.is_unequal { " *" } else { "" };
        Some(format!("{} {ratio:<5}{interval}{unequal}", self.sign()))
    }

    /// Its informativeness: open ones first, then the size of the difference.
    fn weight(self) -> f64 {
        let size = self.state.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        if self.state.verdict == Outcome::Undecided && !self.state.near { 1e3 + size } else { size }
    }
}

/// Layout of a table.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// With the figures of every arm, and rounds.
    Roomy,
    /// With a column for each arm.
    Wide,
    /// With a row for each arm.
    Long,
}

impl<'a> Block<'a> {
    /// The arms shown as ratios to the reference; all without one.
    fn others(&self) -> impl Iterator<Item = &'a str> {
        self.arms.iter().copied().filter(|arm| Some(*arm) != self.reference)
    }

    /// The unit of the rates, or the metric of figures that are not rates.
    fn heading(&self) -> &'a str {
        match self.cases.iter().find(|case| case.is_first).filter(|case| case.metric != Metric::Throughput) {
            Some(case) => case.metric.row().words,
            None => unit::heading(self.unit),
        }
    }

    fn table(&self, form: Form) -> Table<'a> {
        let mut levels: Vec<u16> = self.cases.iter().map(|case| case.threads).collect();
        levels.dedup();
        let unit = self.heading();
        let mut table = Table::default();
        match levels[..] {
            [] => return table,
            [0] => table.column(unit, false),
            [level] => table.column(&format!("{unit}, {}", threads_in_words(level)), false),
            _ => {
                table.column(unit, false);
                table.column("threads", true);
            }
        }
        let has_level = levels.len() > 1;
        self.reference.iter().for_each(|reference| table.of_arms(&[reference], true));
        table.keys = table.columns.len() - usize::from(form != Form::Long && self.reference.is_some());
        self.head(form, &mut table);
        for case in &self.cases {
            let mut keys = vec![case.name(self.unit)];
            keys.extend(has_level.then(|| case.threads.to_string()));
            keys.extend(self.reference.map(|reference| case.figure(reference)));
            table.rows.extend(self.rows(case, form, &keys));
        }
        table.keep_most_telling();
        table
    }

    /// The columns after the reference.
    fn head(&self, form: Form, table: &mut Table<'_>) {
        if form == Form::Long {
            table.column("arm", false);
            table.column("", true);
            self.reference.iter().for_each(|reference| table.of_arms(&["", reference], false));
            return;
        }
        for arm in self.others() {
            if form == Form::Roomy || self.reference.is_none() {
                table.of_arms(&[arm], true);
            }
            let Some(reference) = self.reference else { continue };
            table.of_arms(&[arm, reference], false);
            if form == Form::Roomy {
                table.column("rounds", true);
            }
        }
    }

    /// A row for the case, or one for each arm in it.
    fn rows(&self, case: &Case<'a>, form: Form, keys: &[String]) -> Vec<TableRow<'a>> {
        let pair = |arm| self.reference.map(|reference| case.pair(arm, reference));
        if form == Form::Long {
            let of_arm = |arm: &'a str| {
                let mut row = TableRow::of(case, Some(arm), keys);
                row.cells.extend([shortened(&plain(arm), MAX_ARM), case.figure(arm)]);
                pair(arm).into_iter().for_each(|pair| row.pair(pair, String::new()));
                row
            };
            return self.others().map(of_arm).collect();
        }
        let mut row = TableRow::of(case, None, keys);
        for arm in self.others() {
            let pair = pair(arm);
            if form == Form::Roomy || pair.is_none() {
                row.cells.push(case.figure(arm));
            }
            let Some(pair) = pair else { continue };
            // A missing ratio has its reason here, unless there is a separate column for it.
            let instead = if form == Form::Roomy { String::new() } else { case.figure(arm) };
            row.pair(pair, instead);
            if form == Form::Roomy {
                row.cells.push(pair.map_or_else(String::new, |pair| pair.state.rounds.to_string()));
            }
        }
        vec![row]
    }
}

/// A row of text; of cells with a pair, which.
struct TableRow<'a> {
    of: Case<'a>,
    /// The arm that it is of, where each has a row.
    arm: Option<&'a str>,
    cells: Vec<String>,
    pairs: Vec<(usize, Pair<'a>)>,
}

impl<'a> TableRow<'a> {
    fn of(case: &Case<'a>, arm: Option<&'a str>, keys: &[String]) -> Self {
        Self { of: *case, arm, cells: keys.to_vec(), pairs: Vec::new() }
    }

    /// Adds a pair, or its replacement.
    fn pair(&mut self, pair: Option<Pair<'a>>, instead: String) {
        let words = pair.and_then(|pair| Some((pair, pair.words()?)));
        self.pairs.extend(words.as_ref().map(|(pair, _)| (self.cells.len(), *pair)));
        self.cells.push(words.map_or(instead, |(_, words)| words));
    }

    fn weight(&self) -> f64 {
        let most = self.pairs.iter().map(|(_, pair)| pair.weight()).fold(0.0, f64::max);
        if self.of.has_failed() { f64::INFINITY } else { most }
    }

    /// True if they stay together: they are one, or one of them is a figure reported along with the other's.
    fn is_with(&self, other: &TableRow<'_>) -> bool {
        let is_along = |row: &TableRow<'_>| row.of.workload.secondary || !row.of.is_first;
        let are_of_one = self.of.threads == other.of.threads
            && self.of.workload.name == other.of.workload.name
            && self.arm == other.arm;
        std::ptr::eq(self, other) || (are_of_one && (is_along(self) || is_along(other)))
    }
}

#[derive(Default)]
struct Table<'a> {
    /// Headings, each with the alignment of its column: true for right.
    columns: Vec<(String, bool)>,
    /// Key columns of a row: values equal to the row above are left blank.
    keys: usize,
    rows: Vec<TableRow<'a>>,
    /// Rows that are not shown.
    left_out: usize,
}

impl<'a> Table<'a> {
    fn column(&mut self, head: &str, is_right: bool) {
        self.columns.push((plain(head), is_right));
    }

    /// A column that is headed by arms.
    fn of_arms(&mut self, arms: &[&str], is_right: bool) {
        let names: Vec<String> = arms.iter().map(|arm| shortened(&plain(arm), MAX_ARM)).collect();
        self.columns.push((names.join(" / "), is_right));
    }

    /// Leaves rows out if there are too many, each with its accompanying rows: open ones and large differences stay.
    fn keep_most_telling(&mut self) {
        let all = self.rows.len();
        while self.rows.len() > MAX_ROWS {
            let together = |at: usize| {
                let row = &self.rows[at];
                (0..self.rows.len()).filter(|other| self.rows[*other].is_with(row)).collect::<Vec<usize>>()
            };
            let weight =
                |rows: &Vec<usize>| rows.iter().map(|at| self.rows[*at].weight()).fold(0.0, f64::max);
            // Among equally informative ones, the last.
            let groups = (0..self.rows.len()).rev().map(together);
            let least = groups.min_by(|a, b| weight(a).total_cmp(&weight(b))).expect("there are rows");
            least.into_iter().rev().for_each(|at| drop(self.rows.remove(at)));
        }
        self.left_out = all - self.rows.len();
    }

    fn signs(&self) -> Vec<(char, Pair<'a>)> {
        let pairs = self.rows.iter().flat_map(|row| &row.pairs);
        pairs.map(|(_, pair)| (pair.sign(), *pair)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let of = |(column, (head, _)): (usize, &(String, bool))| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            cells.chain([head]).map(|text| text.width()).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(of).collect()
    }

    fn width(&self) -> usize {
        self.widths().iter().map(|width| width + 2).sum::<usize>().saturating_sub(2)
    }

    fn render(&self, report: Option<&str>) -> String {
        let widths = self.widths();
        let mut out = self.line(&widths, self.columns.iter().map(|(head, _)| (head.as_str(), HEADING)));
        let mut before: Option<&TableRow<'_>> = None;
        for row in &self.rows {
            let is_same = |other: &&TableRow<'_>| {
                std::ptr::eq(other.of.workload, row.of.workload) && other.of.metric == row.of.metric
            };
            let above = before.filter(is_same).map_or(&[] as &[String], |other| &other.cells);
            let same = row.cells.iter().zip(above).take(self.keys).take_while(|(a, b)| a == b).count();
            before = Some(row);
            let style = |column: usize| {
                let pair = row.pairs.iter().find(|(at, _)| *at == column);
                pair.map_or_else(Style::new, |(_, pair)| pair.style())
            };
            let cells = row.cells.iter().enumerate();
            let reported =
                cells.map(|(column, text)| (if column < same { "" } else { text.as_str() }, style(column)));
            out += &self.line(&widths, reported);
        }
        if self.left_out > 0 {
            let all = report.map_or_else(String::new, |report| format!(": {report} --format markdown"));
            let _ = writeln!(out, "… {} more{all}", numbers::counted(self.left_out, "row"));
        }
        out
    }

    /// Cells in columns of these widths.
    fn line<'c>(&self, widths: &[usize], cells: impl Iterator<Item = (&'c str, Style)>) -> String {
        let reported = cells.zip(widths).zip(&self.columns).map(|(((text, style), width), (_, is_right))| {
            let room = " ".repeat(width - text.width());
            let shown = format!("{style}{text}{style:#}");
            if *is_right { format!("{room}{shown}") } else { format!("{shown}{room}") }
        });
        format!("{}\n", reported.collect::<Vec<_>>().join("  ").trim_end())
    }
}

/// Legend of the signs that occur in the tables.
fn legend(signs: &[(char, Pair<'_>)], practical: f64) -> String {
    let is_of =
        |wanted: char| signs.iter().filter(move |(sign, _)| *sign == wanted).map(|(_, pair)| pair.state);
    let less = signs.iter().any(|(_, pair)| pair.state.less_is_better);
    let level_of =
        |sign| is_of(sign).next().map_or_else(String::new, |state| verdict::of_level(state.interval_level));
    // Latencies have separate bands.
    let band = match is_of('=').all(|state| state.metric.row().band.is_none()) {
        true => format!(" within {} %", numbers::plain(practical)),
        false => String::new(),
    };
    let meanings = [
        ('=', format!("equal{band}{}", level_of('='))),
        ('<', if less { "less" } else { "slower" }.to_owned()),
        ('>', if less { "more" } else { "faster" }.to_owned()),
        ('~', format!("near enough for either{}", level_of('~'))),
        ('?', "open".to_owned()),
        ('-', "insensitive".to_owned()),
    ];
    let is_there = |(sign, _): &(char, String)| is_of(*sign).next().is_some();
    let mut reported: Vec<String> =
        meanings.into_iter().filter(is_there).map(|(sign, words)| format!("{sign} {words}")).collect();
    if signs.iter().any(|(_, pair)| pair.is_unequal) {
        reported.push("* UNEQUAL DURABILITY".into());
    }
    if reported.is_empty() { String::new() } else { format!("{}\n", reported.join("  ")) }
}
