//! A plot of text: points with their intervals and the segments between changes, for 80 columns.

const ROWS: usize = 9;
/// Columns left of it: numbers and the axis.
const MARGIN: usize = 10;

/// One point: a logarithm with its interval.
pub(crate) type Dot = (f64, Option<(f64, f64)>);

struct Signs {
    dot: char,
    several: char,
    interval: char,
    segment: char,
    axis: char,
    tick: char,
    corner: char,
    floor: char,
    change: char,
    above: char,
    below: char,
}

const UNICODE: Signs = Signs {
    dot: '●',
    several: '◉',
    interval: '│',
    segment: '─',
    axis: '│',
    tick: '┤',
    corner: '└',
    floor: '─',
    change: '▲',
    above: '↑',
    below: '↓',
};
const ASCII: Signs = Signs {
    dot: 'o',
    several: '@',
    interval: '|',
    segment: '-',
    axis: '|',
    tick: '+',
    corner: '`',
    floor: '-',
    change: '^',
    above: '^',
    below: 'v',
};

pub(crate) struct Plot<'a> {
    /// The points, in order.
    pub dots: &'a [Dot],
    /// Levels: index of the first point, index after the last one, and the segment itself as a logarithm.
    pub segments: &'a [(usize, usize, f64)],
    /// Indexes of points with which a segment changed.
    pub changes: &'a [usize],
    /// A value as text, from its logarithm.
    pub label: &'a dyn Fn(f64) -> String,
    /// True if the terminal shows more than ASCII.
    pub unicode: bool,
}

impl Plot<'_> {
    /// Its lines, each at most `width` columns. Points that do not fit next to each other share a column: it shows the
    /// one in the middle of them, and no intervals. An arrow marks an interval that extends beyond the picture.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let signs = if self.unicode { &UNICODE } else { &ASCII };
        let room = width.saturating_sub(MARGIN).max(1);
        if self.dots.is_empty() {
            return Vec::new();
        }
        let share = self.dots.len().div_ceil(room);
        let step = (room / self.dots.len().div_ceil(share)).clamp(1, 3);
        let column = |index: usize| index / share * step;
        let columns = column(self.dots.len() - 1) + 1;
        let (low, high) = range(self.dots);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and ROWS − 1")]
        let row = |log: f64| {
            let share = ((high - log) / (high - low)).clamp(0.0, 1.0);
            (share * (ROWS - 1) as f64).round() as usize
        };
        let mut canvas = vec![vec![' '; columns]; ROWS];
        for &(start, end, segment) in self.segments {
            let last = column(end.saturating_sub(1)).min(columns - 1);
            canvas[row(segment)][column(start)..=last].fill(signs.segment);
        }
        for (index, (_, interval)) in self.dots.iter().enumerate() {
            let Some((from, to)) = interval.filter(|_| share == 1) else { continue };
            (row(to)..=row(from)).for_each(|at| canvas[at][column(index)] = signs.interval);
            if to > high {
                canvas[0][column(index)] = signs.above;
            }
            if from < low {
                canvas[ROWS - 1][column(index)] = signs.below;
            }
        }
        for (at, several) in self.shown(share) {
            let sign = if several { signs.several } else { signs.dot };
            canvas[row(self.dots[at].0)][column(at)] = sign;
        }
        self.frame(signs, &canvas, (low, high), &column)
    }

    /// The points that are drawn: of those that share a column the one in the middle.
    fn shown(&self, share: usize) -> Vec<(usize, bool)> {
        let chunks = self.dots.chunks(share).enumerate();
        let middle = |(chunk, dots): (usize, &[Dot])| {
            let mut order: Vec<usize> = (0..dots.len()).collect();
            order.sort_by(|a, b| dots[*a].0.total_cmp(&dots[*b].0));
            (chunk * share + order[dots.len() / 2], dots.len() > 1)
        };
        chunks.map(middle).collect()
    }

    fn frame(
        &self,
        signs: &Signs,
        canvas: &[Vec<char>],
        (low, high): (f64, f64),
        column: &dyn Fn(usize) -> usize,
    ) -> Vec<String> {
        let width = MARGIN - 2;
        let (mut lines, mut last) = (Vec::new(), String::new());
        for (at, cells) in canvas.iter().enumerate() {
            let log = high - (high - low) * at as f64 / (ROWS - 1) as f64;
            let label = (at % (ROWS / 2) == 0).then(|| (self.label)(log)).filter(|label| *label != last);
            last = label.clone().unwrap_or(last);
            let (label, axis) = label.map_or((String::new(), signs.axis), |label| (label, signs.tick));
            let cells: String = cells.iter().collect();
            lines.push(format!("{label:>width$} {axis}{}", cells.trim_end()));
        }
        let mut floor = vec![signs.floor; canvas[0].len()];
        self.changes.iter().for_each(|index| floor[column(*index)] = signs.change);
        let floor: String = floor.into_iter().collect();
        lines.push(format!("{:>width$} {}{floor}", "", signs.corner));
        lines
    }
}

/// Range of a picture of these points, from the lowest to the highest: all points, and their intervals unless a few are
/// so wide that they would hide the movement of the points. Never empty.
pub(crate) fn range(dots: &[Dot]) -> (f64, f64) {
    let least = |logs: &mut dyn Iterator<Item = f64>| logs.fold(f64::INFINITY, f64::min);
    let most = |logs: &mut dyn Iterator<Item = f64>| logs.fold(f64::NEG_INFINITY, f64::max);
    let logs = || dots.iter().map(|(log, _)| *log);
    let intervals = || dots.iter().filter_map(|(_, interval)| *interval);
    let (low, high) = (least(&mut logs()), most(&mut logs()));
    let mut widths: Vec<f64> = intervals().map(|(from, to)| to - from).collect();
    widths.sort_by(f64::total_cmp);
    let usual = widths.get(widths.len() / 2).copied().unwrap_or(0.0);
    let reach = (high - low).max(1.5 * usual);
    let from = least(&mut intervals().map(|(from, _)| from)).max(low - reach).min(low);
    let to = most(&mut intervals().map(|(_, to)| to)).min(high + reach).max(high);
    // Below 4 % in all the tick labels would be identical.
    let room = ((to - from) * 0.05).max((0.04 - (to - from)) / 2.0);
    (from - room, to + room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(values: &[f64], unicode: bool) -> String {
        let dots: Vec<Dot> = values.iter().map(|log| (*log, Some((log - 0.01, log + 0.01)))).collect();
        let segments = [(0, 8, 0.0), (8, values.len(), -0.05)];
        let label = |log: f64| format!("{:.3}x", log.exp());
        let plot = Plot { dots: &dots, segments: &segments, changes: &[8], label: &label, unicode };
        plot.lines(80).join("\n")
    }

    #[test]
    fn a_fall_is_seen() {
        let values: Vec<f64> =
            (0..16).map(|i| if i < 8 { 0.0 } else { -0.05 } + 0.004 * f64::from(i * 7 % 5)).collect();
        insta::assert_snapshot!(format!("{}\n{}", drawn(&values, true), drawn(&values, false)));
        assert!(drawn(&values, false).is_ascii());
    }

    fn picture(dots: &[Dot]) -> Vec<String> {
        let label = |log: f64| format!("{:.2}x", log.exp());
        Plot { dots, segments: &[(0, dots.len(), dots[0].0)], changes: &[], label: &label, unicode: true }
            .lines(80)
    }

    #[test]
    fn single_uncertain_point_keeps_whole_interval_in_plot() {
        let lines = picture(&[(2.34_f64.ln(), Some((0.993_f64.ln(), 8.86_f64.ln())))]);
        let labels: Vec<f64> = lines
            .iter()
            .filter_map(|line| line.trim_start().split_once("x ┤"))
            .map(|(label, _)| label.parse().unwrap())
            .collect();
        assert_eq!(labels.len(), 3, "{lines:?}");
        assert!(labels[0] > 8.86 && labels[2] < 0.993, "the whole interval is in the picture: {labels:?}");
    }

    #[test]
    fn overlong_interval_is_clipped_and_marked() {
        let mut dots: Vec<Dot> = (0..12)
            .map(|i| 0.02 * f64::from(i * 5 % 3))
            .map(|log| (log, Some((log - 0.01, log + 0.01))))
            .collect();
        dots[4].1 = Some((-3.0, 0.05));
        let lines = picture(&dots);
        assert_eq!(lines.iter().filter(|line| line.contains('↓')).count(), 1, "{lines:?}");
        assert!(!lines.concat().contains('↑'));
        let (low, high) = range(&dots);
        assert!(low > -0.2 && high < 0.2, "{low} to {high}");
    }

    #[test]
    fn ticks_never_repeat() {
        for values in [vec![1.61_f64], vec![2.34; 9], vec![2.34, 2.341, 2.339]] {
            let dots: Vec<Dot> = values.iter().map(|value| (value.ln(), None)).collect();
            let lines = picture(&dots);
            let mut labels: Vec<&str> =
                lines.iter().filter_map(|line| line.split_once('┤')).map(|(label, _)| label).collect();
            let all = labels.len();
            labels.dedup();
            assert_eq!((labels.len(), all), (3, 3), "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn every_plot_fits(logs in prop::collection::vec(-20.0..20.0_f64, 1..700), unicode in any::<bool>()) {
            let dots: Vec<Dot> = logs.iter().map(|log| (*log, (*log > 0.0).then_some((log - 1.0, log + 1.0)))).collect();
            let last = dots.len() - 1;
            let label = |_: f64| "1.000×".to_owned();
            let plot = Plot { dots: &dots, segments: &[(0, dots.len(), logs[0])], changes: &[last], label: &label, unicode };
            let lines = plot.lines(80);
            prop_assert_eq!(lines.len(), ROWS + 1);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= 80));
        }
    }
}
