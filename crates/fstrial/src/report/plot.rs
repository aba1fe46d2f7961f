//! A plot of text: points with their intervals and the segments between changes, for 80 columns.

const ROWS: usize = 9;
/// Columns left of it: numbers and the axis.
const MARGIN: usize = 10;

/// One point: a logarithm with its interval.
pub type Dot = (f64, Option<(f64, f64)>);

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
};

pub struct Plot<'a> {
    /// The points, in order.
    pub dots: &'a [Dot],
    /// Levels: index of the first point, index behind the last one, and the segment itself as a logarithm.
    pub segments: &'a [(usize, usize, f64)],
    /// Indexes of points with which a segment changed.
    pub changes: &'a [usize],
    /// A value in words, from its logarithm.
    pub label: &'a dyn Fn(f64) -> String,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

impl Plot<'_> {
    /// Its lines, each at most `width` columns. Points that do not fit next to each other share a column: it shows the one
    /// in the middle of them, and all their intervals. Intervals are cut where the points end.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let signs = if self.unicode { &UNICODE } else { &ASCII };
        let room = width.saturating_sub(MARGIN).max(1);
        if self.dots.is_empty() {
            return Vec::new();
        }
        let share = self.dots.len().div_ceil(room);
        let step = (room / self.dots.len().div_ceil(share)).clamp(1, 3);
        let column = |index: usize| index / share * step;
        let columns = column(self.dots.len() - 1) + 1;
        let (low, high) = self.range();
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
        for (index, (log, interval)) in self.dots.iter().enumerate() {
            if let Some((from, to)) = interval.filter(|(from, to)| *to >= low && *from <= high) {
                let shown = if share == 1 { (row(to), row(from)) } else { (row(*log), row(*log)) };
                (shown.0..=shown.1).for_each(|at| canvas[at][column(index)] = signs.interval);
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

    /// From the least to the greatest point, and never nothing.
    fn range(&self) -> (f64, f64) {
        let logs = || self.dots.iter().map(|(log, _)| *log);
        let (low, high) = (logs().fold(f64::INFINITY, f64::min), logs().fold(f64::NEG_INFINITY, f64::max));
        let room = ((high - low) * 0.1).max(0.005);
        (low - room, high + room)
    }

    fn frame(
        &self,
        signs: &Signs,
        canvas: &[Vec<char>],
        (low, high): (f64, f64),
        column: &dyn Fn(usize) -> usize,
    ) -> Vec<String> {
        let width = MARGIN - 2;
        let mut lines = Vec::new();
        for (at, cells) in canvas.iter().enumerate() {
            let log = high - (high - low) * at as f64 / (ROWS - 1) as f64;
            let labelled = at % (ROWS / 2) == 0;
            let (label, axis) =
                if labelled { ((self.label)(log), signs.tick) } else { (String::new(), signs.axis) };
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
