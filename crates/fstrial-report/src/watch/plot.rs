//! Plots in character cells: the ratio round by round, throughput against threads, a run over its time, and an interval
//! as a bar.

use super::{
    look::Look,
    model::{ContrastLine, Curves, LastRun},
    text,
};
use crate::numbers;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Color,
    symbols::Marker,
    text::Line as TextLine,
    widgets::{
        Sparkline, Widget,
        canvas::{Canvas, Context, Line, Points},
    },
};

/// Range of a plot's axis, and its labels.
struct Axis {
    bounds: [f64; 2],
    labels: Vec<(f64, String)>,
}

/// Draws axes and, between them, the output of `paint`.
fn plot(buffer: &mut Buffer, area: Rect, look: Look, x: &Axis, y: &Axis, paint: impl Fn(&mut Context<'_>)) {
    let widest = y.labels.iter().map(|(_, label)| text::columns(label)).max().unwrap_or(0);
    let left = u16::try_from(widest).unwrap_or(0) + 1;
    if area.width < left + 8 || area.height < 4 {
        return;
    }
    let inner = Rect::new(area.x + left, area.y, area.width - left, area.height - 1);
    let marker = if look.unicode { Marker::Braille } else { Marker::Custom('.') };
    Canvas::default()
        .marker(marker)
        .x_bounds(x.bounds)
        .y_bounds(y.bounds)
        .paint(|context| paint(context))
        .render(inner, buffer);
    for row in inner.top()..inner.bottom() {
        buffer.set_string(inner.x - 1, row, "│", look.pale());
    }
    for (at, label) in &y.labels {
        let row = inner.y + (inner.height - 1 - cell_of(*at, y.bounds, inner.height));
        let start = left - 1 - u16::try_from(text::columns(label)).unwrap_or(0);
        buffer.set_string(area.x + start, row, label, look.plain());
    }
    let mut free_from = inner.x;
    for (at, label) in &x.labels {
        let width = u16::try_from(text::columns(label)).unwrap_or(0);
        let middle = inner.x + cell_of(*at, x.bounds, inner.width);
        let start = middle.saturating_sub(width / 2).min(inner.right().saturating_sub(width)).max(inner.x);
        if start >= free_from {
            buffer.set_string(start, inner.bottom(), label, look.plain());
            free_from = start + width + 1;
        }
    }
}

/// The cell of a value, among this many.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
fn cell_of(value: f64, [low, high]: [f64; 2], cells: u16) -> u16 {
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    (share * f64::from(cells.saturating_sub(1))).round() as u16
}

/// The ratio of a contrast round by round (•), with the running estimate (line) and its interval (bars), on a log axis.
pub(super) fn course(buffer: &mut Buffer, area: Rect, look: Look, line: &ContrastLine, band: f64) {
    let course = &line.course;
    let Some(last) = course.last() else { return };
    let [low, high] = course_bounds(line, band);
    let label = |log: f64| (log, numbers::ratio(log.exp()));
    let mut labels = vec![label(high), label(0.0), label(low)];
    // In a low plot the middle one may fall on an end.
    labels.dedup_by(|a, b| (a.0 - b.0).abs() < (high - low) / 6.0);
    let y = Axis { bounds: [low, high], labels };
    let end = f64::from(last.round.max(12));
    let round = |n: f64| (n, format!("{n:.0}"));
    let x = Axis {
        bounds: [0.5, end + 0.5],
        labels: vec![(1.0, "round 1".into()), round((end / 2.0).round()), round(end)],
    };
    plot(buffer, area, look, &x, &y, |context| {
        for at in [0.0, band.ln_1p(), -band.ln_1p()] {
            let step = if at == 0.0 { 0.125 } else { 0.5 };
            context.draw(&Points::new(&dots(&x, at, step), look.shade(Color::DarkGray)));
        }
        for point in course {
            if let Some((from, to)) = point.interval {
                let at = f64::from(point.round);
                context.draw(&Line::new(at, from.ln(), at, to.ln(), look.shade(Color::Blue)));
            }
        }
        for pair in course.windows(2) {
            if let (Some(from), Some(to)) = (pair[0].estimate, pair[1].estimate) {
                let (at, then) = (f64::from(pair[0].round), f64::from(pair[1].round));
                context.draw(&Line::new(at, from.ln(), then, to.ln(), look.shade(Color::Cyan)));
            }
        }
        for point in course {
            if let Some(ratio) = point.ratio {
                // Those beyond the axis are on its edge.
                let height = ratio.ln().clamp(low, high);
                context.print(f64::from(point.round), height, TextLine::styled("•", look.bold()));
            }
        }
    });
}

/// A horizontal row of dots.
fn dots(x: &Axis, at: f64, step: f64) -> Vec<(f64, f64)> {
    let [from, to] = x.bounds;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred rounds")]
    let count = ((to - from) / step) as u32;
    (0..=count).map(|n| (from + f64::from(n) * step, at)).collect()
}

/// Range of a course's axis: 1, the band, the estimates, and ratios and intervals as far as they matter. Those of the
/// first rounds may be far enough off to hide the rest.
fn course_bounds(line: &ContrastLine, band: f64) -> [f64; 2] {
    let course = &line.course;
    let latest = course.iter().rev().find_map(|point| point.interval);
    let later = course.iter().skip(course.len() / 4);
    let firm = later.filter_map(|point| point.estimate).chain([1.0 + band, 1.0 / (1.0 + band)]);
    let firm: Vec<f64> = firm.chain(latest.into_iter().flat_map(|(low, high)| [low, high])).collect();
    let far = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v.ln().abs()).fold(0.0, f64::max);
    let reach = 1.5 * far(&mut firm.iter().copied());
    let loose = course.iter().filter_map(|point| point.ratio).map(|ratio| ratio.ln().clamp(-reach, reach));
    let all: Vec<f64> = firm.iter().map(|ratio| ratio.ln()).chain(loose).collect();
    let (low, high) = all.iter().fold((0.0_f64, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    let room = 0.08 * (high - low);
    [low - room, high + room]
}

/// Throughput against threads, on a log axis of threads; each arm by a letter.
pub(super) fn threads(buffer: &mut Buffer, area: Rect, look: Look, curves: &Curves) {
    let cells = || curves.lines.iter().flat_map(|line| &line.cells);
    let tops = cells().flat_map(|cell| {
        let high = cell.typical.interval_or_range().map(|(_, high)| high);
        [cell.typical.value(), high].into_iter().flatten()
    });
    let top = tops.fold(0.0, f64::max);
    if top <= 0.0 {
        return;
    }
    let mut levels: Vec<u16> = cells().map(|cell| cell.threads).collect();
    levels.sort_unstable();
    levels.dedup();
    let at = |threads: u16| f64::from(threads).log2();
    let ends = (at(levels[0]), at(levels[levels.len() - 1]));
    let x = Axis {
        bounds: [ends.0 - 0.4, ends.1 + 0.4],
        labels: levels.iter().map(|threads| (at(*threads), threads.to_string())).collect(),
    };
    let label = |value: f64| (value, numbers::figure(value, &curves.unit));
    let y = Axis { bounds: [0.0, top * 1.05], labels: vec![label(top), label(top / 2.0), (0.0, "0".into())] };
    plot(buffer, area, look, &x, &y, |context| {
        for (index, line) in curves.lines.iter().enumerate() {
            let colour = look.shade(SERIES[index % SERIES.len()]);
            for cell in &line.cells {
                if let Some((low, high)) = cell.typical.interval_or_range() {
                    context.draw(&Line::new(at(cell.threads), low, at(cell.threads), high, colour));
                }
            }
            for pair in line.cells.windows(2) {
                if let (Some(from), Some(to)) = (pair[0].typical.value(), pair[1].typical.value()) {
                    context.draw(&Line::new(at(pair[0].threads), from, at(pair[1].threads), to, colour));
                }
            }
        }
        // Letters above all lines; where two meet the later one is seen, and the legend has the figures of both.
        for (index, line) in curves.lines.iter().enumerate() {
            let colour = look.of(SERIES[index % SERIES.len()]);
            for cell in &line.cells {
                if let Some(rate) = cell.typical.value() {
                    let letter = TextLine::styled(letter(index).to_string(), colour);
                    context.print(at(cell.threads), rate, letter);
                }
            }
        }
    });
}

/// Colours of arms; their letters distinguish them, too.
pub(super) const SERIES: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Red, Color::Blue];

pub(super) fn letter(index: usize) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    LETTERS.get(index).map_or('?', |letter| char::from(*letter))
}

/// Operations of a run over its time.
pub(super) fn last_run(buffer: &mut Buffer, area: Rect, look: Look, run: &LastRun) {
    let width = usize::from(area.width);
    if width == 0 || area.height < 2 {
        return;
    }
    let steps = &run.operations;
    // Several steps share a column, or a step has several columns: a column has the mean of its steps.
    let column = |n: usize| {
        let from = n * steps.len() / width;
        let to = ((n + 1) * steps.len() / width).clamp(from + 1, steps.len());
        let part = &steps[from.min(steps.len() - 1)..to];
        part.iter().sum::<u64>() / part.len() as u64
    };
    let columns: Vec<u64> = (0..width).map(column).collect();
    let graph = Rect { height: area.height - 1, ..area };
    Sparkline::default().data(&columns).style(look.of(Color::Cyan)).render(graph, buffer);
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let seconds = run.step * steps.len() as f64;
    let end = format!("{seconds:.1} s");
    buffer.set_string(area.x, graph.bottom(), "0 s, with its warm-up", look.pale());
    let start = area.right().saturating_sub(u16::try_from(end.len()).unwrap_or(0));
    buffer.set_string(start, graph.bottom(), &end, look.pale());
}

/// Range of the intervals' bars, in logarithms: as far as the farthest, but not so far that the others vanish.
pub(super) fn reach<'a>(lines: impl Iterator<Item = &'a ContrastLine>) -> f64 {
    let ends = lines.filter_map(|line| Some((line.state.ratio?, line.state.interval)));
    let far = ends.map(|(ratio, interval)| {
        let (low, high) = interval.unwrap_or((ratio, ratio));
        let narrow = |end: f64| end.ln().abs().min(1.5 * ratio.ln().abs() + 0.4);
        narrow(low).max(narrow(high)).max(ratio.ln().abs())
    });
    far.fold(0.1, f64::max).min(2.5)
}

/// An interval on a log axis with 1 in its middle and the band of negligible differences around it: `────░░│░├──●──┤─`.
/// Parts beyond the axis end in an arrow.
pub(super) fn bar(width: usize, reach: f64, band: f64, ratio: f64, interval: Option<(f64, f64)>) -> String {
    let cells = u16::try_from(width).unwrap_or(0);
    let at = |ratio: f64| usize::from(cell_of(ratio.ln(), [-reach, reach], cells));
    let mut bar: Vec<char> = vec!['·'; width];
    if width < 5 {
        return String::new();
    }
    bar[at(1.0 / (1.0 + band))..=at(1.0 + band)].fill('░');
    bar[at(1.0)] = '│';
    if let Some((low, high)) = interval {
        let (from, to) = (at(low), at(high));
        bar[from..=to].fill('─');
        if at(1.0) > from && at(1.0) < to {
            bar[at(1.0)] = '│';
        }
        bar[from] = if low.ln() < -reach { '‹' } else { '├' };
        bar[to] = if high.ln() > reach { '›' } else { '┤' };
    }
    bar[at(ratio)] = '●';
    bar.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_match_their_intervals() {
        let reach = 2.0_f64.ln();
        assert_eq!(bar(21, reach, 0.03, 1.0, None), "·········░●░·········".replace('░', "·"));
        assert_eq!(bar(21, reach, 0.10, 1.42, Some((1.25, 1.6))), "·········░│░·├─●─┤···");
        assert_eq!(bar(21, reach, 0.10, 0.9, Some((0.2, 1.1))), "‹───────●─│┤·········");
        assert_eq!(bar(21, reach, 0.10, 1.9, Some((1.8, 9.0))), "·········░│░······├●›");
        assert_eq!(bar(4, reach, 0.10, 1.9, None), "");
    }
}
