//! A forest plot of characters: ratios with their intervals on one logarithmic axis, for terminals, mails and Markdown.

use super::{numbers, plain, trend::Terminal};

/// Columns of a plot, at least.
const LEAST_PLOT: usize = 20;
/// Columns of a plot, at most.
const MOST_PLOT: usize = 60;

/// A line of the plot.
#[derive(Default)]
pub(crate) struct ForestLine {
    pub(crate) name: String,
    pub(crate) figure: String,
    /// The value and its interval; none for a line without a mark.
    pub(crate) drawn: Option<(f64, (f64, f64))>,
    /// True if several hosts are pooled in it.
    pub(crate) is_pooled: bool,
    /// The original figure.
    pub(crate) then: Option<f64>,
    /// True if it is only a name, which is not cut.
    pub(crate) is_heading: bool,
}

/// Characters of a plot.
struct Marks {
    one: char,
    interval: char,
    value: char,
    pooled: char,
    crossing: char,
    then: char,
    /// The value where the original figure is.
    both: char,
    left: char,
    right: char,
}

const UNICODE: Marks = Marks {
    one: '│',
    interval: '─',
    value: '●',
    pooled: '◆',
    crossing: '┼',
    then: '◇',
    both: '◈',
    left: '◂',
    right: '▸',
};
const ASCII: Marks = Marks {
    one: '|',
    interval: '-',
    value: 'o',
    pooled: '#',
    crossing: '+',
    then: 'x',
    both: '*',
    left: '<',
    right: '>',
};

/// Columns for logarithms.
struct Scale {
    low: f64,
    high: f64,
    columns: usize,
}

impl Scale {
    fn of(rows: &[ForestLine], columns: usize) -> Self {
        let then = rows.iter().filter_map(|row| Some(row.then?.ln()));
        let values: Vec<f64> = rows
            .iter()
            .filter_map(|row| Some(row.drawn?.0.ln()))
            .chain(then)
            .filter(|v| !v.is_nan())
            .collect();
        let least = values.iter().copied().fold(0.0, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        // An interval that is far wider than all values together is cut.
        let room = (most - least).max(0.05);
        let ends = rows.iter().filter_map(|row| row.drawn).flat_map(|(_, (low, high))| [low.ln(), high.ln()]);
        let ends: Vec<f64> = ends.map(|end| end.clamp(least - room, most + room)).collect();
        Self {
            low: ends.iter().copied().fold(least, f64::min),
            high: ends.iter().copied().fold(most, f64::max),
            columns,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "columns"
    )]
    fn at(&self, value: f64) -> usize {
        let share = (value.ln().clamp(self.low, self.high) - self.low) / (self.high - self.low).max(1e-9);
        (share * (self.columns - 1) as f64).round() as usize
    }

    fn draw(&self, row: &ForestLine, marks: &Marks) -> String {
        let mut cells = vec![' '; self.columns];
        cells[self.at(1.0)] = marks.one;
        if let Some((value, (from, to))) = row.drawn {
            let crossed = |cell: char| if cell == marks.one { marks.crossing } else { marks.interval };
            let (first, last) = (self.at(from.min(to)), self.at(to.max(from)));
            cells[first..=last].iter_mut().for_each(|cell| *cell = crossed(*cell));
            // An interval that exceeds the picture ends in an arrow.
            if from.ln() < self.low - 1e-9 {
                cells[0] = marks.left;
            }
            if to.ln() > self.high + 1e-9 {
                cells[self.columns - 1] = marks.right;
            }
            if let Some(then) = row.then {
                cells[self.at(then)] = marks.then;
            }
            if value.is_finite() {
                let cell = &mut cells[self.at(value)];
                *cell = match row.is_pooled {
                    true => marks.pooled,
                    false if *cell == marks.then => marks.both,
                    false => marks.value,
                };
            }
        }
        cells.into_iter().collect::<String>().trim_end().to_owned()
    }

    /// Both ends, and 1.
    fn axis(&self) -> String {
        let mut line = String::new();
        for value in [self.low.exp(), 1.0, self.high.exp()] {
            let words = if value == 1.0 { "1".into() } else { numbers::ratio(value) };
            let width = words.chars().count();
            let start = self.at(value).saturating_sub(width / 2).min(self.columns.saturating_sub(width));
            let used = line.chars().count();
            if used == 0 || start > used {
                line += &" ".repeat(start - used);
                line += &words;
            }
        }
        line
    }
}

/// The lines, each with its name, cut after `names` columns, and its figure; with the axis above if requested.
pub(crate) fn lines(rows: &[ForestLine], names: usize, has_axis: bool, terminal: Terminal) -> Vec<String> {
    let width = |of: fn(&ForestLine) -> &String| {
        let named = rows.iter().filter(|row| !row.is_heading);
        named.map(|row| of(row).chars().count()).max().unwrap_or(0)
    };
    let (names, figures) = (width(|row| &row.name).min(names), width(|row| &row.figure));
    let columns = terminal.columns.saturating_sub(names + figures + 8).clamp(LEAST_PLOT, MOST_PLOT);
    let scale = Scale::of(rows, columns);
    let marks = if terminal.unicode { &UNICODE } else { &ASCII };
    let line = |row: &ForestLine| {
        if row.is_heading {
            return plain(&row.name);
        }
        let name: String = plain(&row.name).chars().take(names).collect();
        format!("{name:<names$}  {:<figures$}  {}", row.figure, scale.draw(row, marks))
    };
    let axis = has_axis.then(|| format!("{:<names$}  {:<figures$}  {}", "", "", scale.axis()));
    axis.into_iter().chain(rows.iter().map(line)).collect()
}
