//! The picture: a pure function of the model, of the user's choices, and of the time. Meaning never rests on colour.

use super::{
    look::Look,
    model::{ContrastLine, Model},
    plot, text,
};
use crate::{numbers, verdict};
use fstrial_model::{metric::Metric, unit};
use fstrial_run::{contrast::Outcome, plan::threads_in_words};
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Widget, Wrap},
};

/// Columns and rows below which nothing sensible can be shown.
pub const MIN_TERMINAL: (u16, u16) = (60, 16);
/// From this many columns on, two panes are side by side.
const WIDE: u16 = 110;
/// Rows of the head.
const HEAD: u16 = 4;

/// Content of the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// The selected contrast, round by round.
    Rounds,
    /// Throughput against threads.
    Threads,
    /// The last run, over its time.
    LastRun,
    /// Failures and warnings.
    Messages,
}

impl Pane {
    const ALL: [Self; 4] = [Self::Rounds, Self::Threads, Self::LastRun, Self::Messages];

    fn name(self) -> &'static str {
        match self {
            Self::Rounds => "round by round",
            Self::Threads => "threads",
            Self::LastRun => "last run",
            Self::Messages => "messages",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Choices {
    /// Index of the selected contrast.
    pub selected: usize,
    /// The first contrast shown.
    pub(super) first: usize,
    /// Contrasts that fitted when it was drawn last.
    pub(super) page: usize,
    pub pane: Pane,
    pub help: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Self { selected: 0, first: 0, page: 1, pane: Pane::Rounds, help: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// To the next contrast.
    Down,
    /// To the one before.
    Up,
    PageDown,
    PageUp,
    Top,
    Bottom,
    NextPane,
    PreviousPane,
    /// Help, or back from it.
    Help,
}

impl Choices {
    /// Handles a key, with this many contrasts.
    pub fn go(&mut self, to: Move, contrasts: usize) {
        let last = contrasts.saturating_sub(1);
        let pane = |step: usize| {
            let at = Pane::ALL.iter().position(|pane| *pane == self.pane).unwrap_or(0);
            Pane::ALL[(at + step) % Pane::ALL.len()]
        };
        match to {
            Move::Down => self.selected = (self.selected + 1).min(last),
            Move::Up => self.selected = self.selected.saturating_sub(1),
            Move::PageDown => self.selected = (self.selected + self.page).min(last),
            Move::PageUp => self.selected = self.selected.saturating_sub(self.page),
            Move::Top => self.selected = 0,
            Move::Bottom => self.selected = last,
            Move::NextPane => self.pane = pane(1),
            Move::PreviousPane => self.pane = pane(Pane::ALL.len() - 1),
            Move::Help => self.help = !self.help,
        }
    }

    /// Moves the part of the list that is shown so that the selected one is in it.
    fn show_selected(&mut self, rows: usize, contrasts: usize) {
        self.page = rows.max(1);
        self.selected = self.selected.min(contrasts.saturating_sub(1));
        let least = (self.selected + 1).saturating_sub(self.page);
        self.first =
            self.first.clamp(least, self.selected).min(contrasts.saturating_sub(self.page).max(least));
    }
}

/// Draws the whole picture. `now` is on the model's clock, in seconds.
pub fn draw(frame: &mut Frame<'_>, model: &Model, choices: &mut Choices, look: Look, now: f64) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < MIN_TERMINAL.0 || area.height < MIN_TERMINAL.1 {
        too_small(buffer, area, look);
    } else {
        let rows = |y: u16, height: u16| Rect::new(area.x, area.y + y, area.width, height);
        head(buffer, rows(0, HEAD), model, look, now);
        let rest = area.height - HEAD - 1;
        let wanted = u16::try_from(model.contrasts.len()).unwrap_or(u16::MAX).saturating_add(1);
        let listed = wanted.clamp(3, (rest * 2 / 5).max(5));
        list(buffer, rows(HEAD, listed), model, choices, look);
        panes(buffer, rows(HEAD + listed, rest - listed), model, *choices, look);
        let keys = " q quit · ↑↓ select · Tab next pane · ? help";
        buffer.set_stringn(area.x, area.bottom() - 1, keys, usize::from(area.width), look.pale());
        if choices.help {
            help(buffer, area, look);
        }
    }
    if !look.unicode {
        text::to_ascii(buffer);
    }
}

fn too_small(buffer: &mut Buffer, area: Rect, look: Look) {
    let words = format!(
        "The terminal is too small: {} × {}. The view needs {} columns and {} rows. q quits.",
        area.width, area.height, MIN_TERMINAL.0, MIN_TERMINAL.1
    );
    Paragraph::new(words).style(look.plain()).wrap(Wrap { trim: true }).render(area, buffer);
}

/// Name, device, progress, current work.
fn head(buffer: &mut Buffer, area: Rect, model: &Model, look: Look, now: f64) {
    let width = usize::from(area.width);
    let number = model.trial.map_or_else(String::new, |id| format!("trial {id} · "));
    let right = format!("{number}{} ", model.status);
    let name = if model.name.is_empty() { "a trial without a name" } else { &model.name };
    let left = text::fitted(&format!(" {name}"), width.saturating_sub(text::columns(&right) + 1));
    let title = format!("{left} {right}");
    buffer.set_stringn(area.x, area.y, title, width, look.bold().add_modifier(Modifier::REVERSED));
    let mut put = |row: u16, line: &str, style: Style| {
        let line = text::cut(&format!(" {line}"), width);
        buffer.set_stringn(area.x, area.y + row, line, width, style);
    };
    put(1, &model.device, look.plain());
    put(2, &progress(model, now), look.plain());
    match (&model.advice, &model.now) {
        (Some(advice), _) => put(3, advice, look.of(Color::Yellow)),
        (None, Some((what, since))) => {
            put(3, &format!("{what} · {}", numbers::wait(now - since)), look.of(Color::Cyan));
        }
        (None, None) => {}
    }
}

/// Rounds, verdicts and the time that is left.
fn progress(model: &Model, now: f64) -> String {
    let mut parts = Vec::new();
    parts.push(match model.round {
        0 => "no round yet".to_owned(),
        round => format!("round {round}"),
    });
    if model.runs.1 > 0 && model.ends_at.is_some() {
        parts.push(format!("{} of {} runs", model.runs.0, model.runs.1));
    }
    if let Some((decided, all)) = model.decided() {
        parts.push(format!("{decided} of {all} decided"));
    }
    if let Some(ends_at) = model.ends_at {
        parts.push(format!("at most {} left", numbers::wait(ends_at - now)));
        if let Some(needed) = model.rounds_needed() {
            parts.push(format!("the last takes {} in all", verdict::rounds_range(needed)));
        }
    }
    parts.join(" · ")
}

/// The word for a verdict with its sign, and its colour.
fn word(line: &ContrastLine) -> (String, Color) {
    let state = &line.state;
    let (sign, colour) = match state.verdict {
        Outcome::Faster => ('▲', Color::Green),
        Outcome::Slower => ('▼', Color::Red),
        Outcome::Equivalent => ('=', Color::Cyan),
        Outcome::Undecided => (if state.open { '·' } else { '?' }, Color::Yellow),
        Outcome::Failed => ('✗', Color::Red),
        Outcome::Insensitive => ('≈', Color::Yellow),
        Outcome::Unsupported => ('–', Color::DarkGray),
    };
    let word = match state.verdict {
        Outcome::Equivalent => "equivalent".to_owned(),
        Outcome::Insensitive => "insensitive".to_owned(),
        Outcome::Undecided if state.ratio.is_none() && !state.too_few_operations => "no round".to_owned(),
        _ => verdict::judgement(state, 0.0),
    };
    (format!("{sign} {word}"), colour)
}

/// Subject of a comparison, as text: `xfs / ext4 · random-write · 4 threads · p99`.
fn title(line: &ContrastLine) -> String {
    let state = &line.state;
    let mut title = format!("{} / {} · {}", state.a, state.b, state.workload);
    if !state.phase.is_empty() {
        title += &format!(", {}", state.phase);
    }
    title += &format!(" · {}", threads_in_words(state.threads));
    if state.metric != Metric::Throughput {
        title += &format!(" · {}", state.metric.name());
    }
    title
}

/// The same in short, with the distinguishing part of a workload's contrasts first:
/// `xfs / ext4 @4 · p99 · random-write`.
fn short_title(line: &ContrastLine) -> String {
    let state = &line.state;
    let metric = match state.metric {
        Metric::Throughput => String::new(),
        metric => format!(" · {}", metric.name()),
    };
    let phase = if state.phase.is_empty() { String::new() } else { format!(", {}", state.phase) };
    format!("{} / {} @{}{metric} · {}{phase}", state.a, state.b, state.threads, state.workload)
}

/// `1.42× [1.36, 1.49]`, or the ratio alone.
fn figures(line: &ContrastLine, with_interval: bool) -> String {
    match (line.state.ratio, line.state.interval.filter(|_| with_interval)) {
        (Some(ratio), Some(ends)) => format!("{} {}", numbers::ratio(ratio), numbers::ratio_interval(ends)),
        (Some(ratio), None) => numbers::ratio(ratio),
        (None, _) if line.state.too_few_operations => "too few operations".into(),
        (None, _) => String::new(),
    }
}

/// The band in which a difference on a metric does not matter.
fn band(line: &ContrastLine, practical: f64) -> f64 {
    line.state.metric.band(practical)
}

/// All contrasts, as many as there is room for.
fn list(buffer: &mut Buffer, area: Rect, model: &Model, choices: &mut Choices, look: Look) {
    const VERDICT: usize = 14;
    /// Columns from which on there is room for intervals in figures; the bars show them as well.
    const ROOMY: usize = 76;
    let rows = usize::from(area.height - 1);
    choices.show_selected(rows, model.contrasts.len());
    let width = usize::from(area.width);
    let room = if width < ROOMY { 7 } else { 21 };
    let bar = ((width - VERDICT - room - 4) * 2 / 5) | 1;
    let name = width - VERDICT - room - bar - 4;
    let (from, all) = (choices.first, model.contrasts.len());
    let shown = &model.contrasts[from..(from + rows).min(all)];
    let reach = plot::reach(model.contrasts.iter());
    let count = match all {
        0 => "nothing is compared".to_owned(),
        _ if all > rows => format!("contrasts {}–{} of {all}", from + 1, from + shown.len()),
        _ => "contrasts".to_owned(),
    };
    let (low, high) = (numbers::ratio((-reach).exp()), numbers::ratio(reach.exp()));
    let scale = text::fitted(&low, bar - text::columns(&high)) + &high;
    let heading = text::fitted(&format!(" {count}"), width - bar - 1) + &scale;
    buffer.set_stringn(area.x, area.y, heading, width, look.pale());
    for (row, line) in shown.iter().enumerate() {
        let is_selected = from + row == choices.selected;
        let style = if is_selected { look.bold() } else { look.plain() };
        let (word, colour) = word(line);
        let picture = line
            .state
            .ratio
            .map(|ratio| plot::bar(bar, reach, band(line, model.practical), ratio, line.state.interval));
        let spans = [
            Span::styled(if is_selected { "▸" } else { " " }, style),
            Span::styled(text::fitted(&word, VERDICT), style.fg(look.shade(colour))),
            Span::styled(text::fitted(&short_title(line), name), style),
            Span::raw(" "),
            Span::styled(text::fitted(&figures(line, width >= ROOMY), room), style),
            Span::raw(" "),
            Span::styled(picture.unwrap_or_default(), style.fg(look.shade(colour))),
        ];
        let y = area.y + 1 + u16::try_from(row).unwrap_or(0);
        buffer.set_line(area.x, y, &Line::from(spans.to_vec()), area.width);
    }
}

/// The lower half: one pane, or two if there is room.
fn panes(buffer: &mut Buffer, area: Rect, model: &Model, choices: Choices, look: Look) {
    let selected = model.contrasts.get(choices.selected);
    let is_pair = area.width >= WIDE && matches!(choices.pane, Pane::Rounds | Pane::Threads);
    if is_pair {
        let half = Rect { width: area.width / 2, ..area };
        let other = Rect { x: area.x + half.width, width: area.width - half.width, ..area };
        pane(buffer, half, Pane::Rounds, (model, selected), choices.pane, look);
        pane(buffer, other, Pane::Threads, (model, selected), choices.pane, look);
    } else {
        pane(buffer, area, choices.pane, (model, selected), choices.pane, look);
    }
}

fn pane(
    buffer: &mut Buffer,
    area: Rect,
    which: Pane,
    (model, selected): (&Model, Option<&ContrastLine>),
    chosen: Pane,
    look: Look,
) {
    let tabs = Pane::ALL.iter().map(|pane| {
        let name = if *pane == chosen { format!("[{}]", pane.name()) } else { format!(" {} ", pane.name()) };
        Span::styled(name, if *pane == chosen { look.bold() } else { look.pale() })
    });
    let is_pair = which != chosen;
    let heading = if is_pair { Line::raw(format!(" {} ", which.name())) } else { Line::from_iter(tabs) };
    let block = Block::bordered().border_style(look.pale()).title(heading);
    let inner = block.inner(area);
    block.render(area, buffer);
    match (which, selected) {
        (Pane::Rounds, Some(line)) => rounds(buffer, inner, line, model, look),
        (Pane::Threads, Some(line)) => curves(buffer, inner, line, model, look),
        (Pane::LastRun, _) => last_run(buffer, inner, model, look),
        (Pane::Messages, _) => messages(buffer, inner, model, look),
        (Pane::Rounds | Pane::Threads, None) => nothing(buffer, inner, "nothing is compared", look),
    }
}

/// Writes a line at the top of an area and returns the rest of it.
fn top(buffer: &mut Buffer, area: Rect, line: &Line<'_>) -> Rect {
    buffer.set_line(area.x, area.y, line, area.width);
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

fn nothing(buffer: &mut Buffer, area: Rect, why: &str, look: Look) {
    Paragraph::new(why).style(look.pale()).wrap(Wrap { trim: true }).render(area, buffer);
}

fn rounds(buffer: &mut Buffer, area: Rect, line: &ContrastLine, model: &Model, look: Look) {
    let (word, colour) = word(line);
    let width = usize::from(area.width);
    let tail = format!(" {word} {}", figures(line, true));
    let name = text::cut(&title(line), width.saturating_sub(text::columns(&tail)));
    let heading = Line::from(vec![Span::styled(name, look.bold()), Span::styled(tail, look.of(colour))]);
    let area = top(buffer, area, &heading);
    let rounds = verdict::rounds_in_words(line.state.rounds);
    let needed = match line.state.rounds_needed {
        Some(needed) if line.state.verdict == Outcome::Undecided => {
            format!(" · takes {} in all", verdict::rounds_range(needed))
        }
        _ => String::new(),
    };
    let suggestive = if line.state.suggestive { " · suggestive only" } else { "" };
    let legend = format!("• a round  line: so far  bars: interval · {rounds}{needed}{suggestive}");
    let area = top(buffer, area, &Line::styled(text::cut(&legend, width), look.pale()));
    if line.course.is_empty() {
        let why = match line.state.verdict {
            Outcome::Failed => "no ratio: one of the two failed",
            Outcome::Unsupported => "no ratio: unsupported by one of the two",
            _ => "the first round is not over",
        };
        nothing(buffer, area, why, look);
    } else {
        plot::course(buffer, area, look, line, band(line, model.practical));
    }
}

fn curves(buffer: &mut Buffer, area: Rect, line: &ContrastLine, model: &Model, look: Look) {
    let Some(curves) = line.curves.and_then(|index| model.curves.get(index)) else {
        return nothing(buffer, area, "this contrast is not about throughput at a level", look);
    };
    let unit = unit::beside(&curves.unit);
    let width = usize::from(area.width);
    let heading =
        format!("{} · {} against threads", curves.title, if unit.is_empty() { "figure" } else { unit });
    let area = top(buffer, area, &Line::styled(text::cut(&heading, width), look.bold()));
    let level = line.state.threads;
    let mut legend = Vec::new();
    for (index, of) in curves.lines.iter().enumerate() {
        let style = look.of(plot::SERIES[index % plot::SERIES.len()]);
        let at = of.cells.iter().find(|cell| cell.threads == level).and_then(|cell| cell.typical.value());
        let rate = at.map_or_else(String::new, |rate| format!(" {}", numbers::figure(rate, &curves.unit)));
        legend.push(Span::styled(format!("{} {}{rate}  ", plot::letter(index), of.name), style));
    }
    let area = top(buffer, area, &Line::from(legend));
    if curves.lines.iter().flat_map(|of| &of.cells).all(|cell| cell.typical.runs() == 0) {
        nothing(buffer, area, "no run is over yet", look);
    } else {
        plot::threads(buffer, area, look, curves);
    }
}

fn last_run(buffer: &mut Buffer, area: Rect, model: &Model, look: Look) {
    let Some(run) = &model.last_run else {
        return nothing(buffer, area, "no run with a course in time is over yet", look);
    };
    let most = run.operations.iter().max().copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let rate = numbers::rate(most as f64 / run.step.max(1e-9));
    let tail = format!(" · at most {rate} op/s");
    let width = usize::from(area.width);
    let name = text::cut(&run.title, width.saturating_sub(text::columns(&tail)));
    let area = top(buffer, area, &Line::styled(name + &tail, look.bold()));
    plot::last_run(buffer, area, look, run);
}

fn messages(buffer: &mut Buffer, area: Rect, model: &Model, look: Look) {
    if model.messages.is_empty() {
        return nothing(buffer, area, "no failure and no warning", look);
    }
    let rows = usize::from(area.height);
    let from = model.messages.len().saturating_sub(rows);
    for (row, message) in model.messages[from..].iter().enumerate() {
        let y = area.y + u16::try_from(row).unwrap_or(0);
        let line = text::cut(message, usize::from(area.width));
        buffer.set_stringn(area.x, y, line, usize::from(area.width), look.plain());
    }
}

/// Keys and signs.
fn help(buffer: &mut Buffer, area: Rect, look: Look) {
    const LINES: [&str; 14] = [
        "q Esc       leave the view; the trial continues",
        "Ctrl-C      with --watch: stop the trial, with the partial answer",
        "↑ ↓ j k     select a contrast   PgUp PgDn g G  far",
        "Tab         the next pane, Shift-Tab the one before",
        "?           this, and back",
        "",
        "xfs / ext4 @4      the ratio of xfs to ext4 at 4 threads",
        "▲ faster ▼ slower  of the first over the second; of latency: lower",
        "= equivalent       the difference does not matter (the band ░)",
        "· open  ? not decided  ✗ failed  – unsupported",
        "├──●──┤  the ratio and its interval; │ is 1: no difference",
        "‹ ›      the interval extends beyond the scale",
        "",
        "The intervals hold whenever one looks. See docs/watch.md.",
    ];
    let width = 70.min(area.width);
    let height = u16::try_from(LINES.len()).unwrap_or(0) + 2;
    let height = height.min(area.height);
    let box_area = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(box_area, buffer);
    let lines: Vec<Line<'_>> = LINES.iter().map(|line| Line::raw(*line)).collect();
    let block = Block::bordered().title(" help ").border_style(look.bold());
    Paragraph::new(lines).block(block).render(box_area, buffer);
}
