//! Values with their intervals, one below the other, drawn as SVG: pictures that need no script, print as they are and
//! take their colours from the style sheet.
//!
//! Every label has separate lines above its mark and is wrapped, never cut; an interval that extends beyond the picture
//! ends in an arrow.

use super::{
    axis::{self, Axis, Words},
    svg::{COLUMN, LINE, WIDTH, float, px, short, text, width},
};
use crate::text::plain;
use maud::{Markup, html};
use std::rc::Rc;
use unicode_width::UnicodeWidthChar;

/// Free room at the left and the right.
const EDGE: f64 = 10.0;
/// Height of the mark below a label.
const MARK: f64 = 16.0;
/// Lines of a label: a longer name is overlong on purpose.
const MAX_LINES: usize = 6;
/// Extension of the axis beyond all values for the sake of intervals, as a factor.
const FARTHEST: f64 = 30.0;

/// A drawing of values with intervals.
pub(super) struct Forest {
    /// Its content and finding, for those who do not see it.
    pub(super) finding: String,
    /// Quantity of the axis.
    pub(super) axis: String,
    pub(super) scale: Scale,
    pub(super) rows: Vec<ForestRow>,
}

/// Layout of values.
pub(super) enum Scale {
    /// From zero on, with the format of tick labels, and the unit in which they are round.
    Linear(Words, f64),
    /// Ratios on a logarithmic axis that contains 1, with the band of those that do not matter.
    Ratio((f64, f64)),
}

/// A value.
pub(super) struct ForestRow {
    /// Heading of a group that begins with it: the level, or the pair.
    pub(super) heading: Option<String>,
    /// The arms that it is about.
    pub(super) arms: Vec<usize>,
    pub(super) label: String,
    /// The value and its interval as text.
    pub(super) figure: String,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// True if it is decided: its mark is filled.
    pub(super) is_sure: bool,
    /// The original figure of a claim.
    pub(super) then: Option<f64>,
}

/// Places on the axis.
struct Placed {
    axis: Axis,
    /// Ratios that do not matter.
    band: Option<(f64, f64)>,
}

impl Placed {
    fn of(forest: &Forest) -> Self {
        let is_log = matches!(forest.scale, Scale::Ratio(_));
        let known = |value: &f64| value.is_finite() && (*value > 0.0 || !is_log);
        let values = forest.rows.iter().flat_map(|row| [Some(row.value), row.then]).flatten();
        let values: Vec<f64> = values.filter(known).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min) / FARTHEST;
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) * FARTHEST;
        let ends = forest.rows.iter().filter_map(|row| row.interval).flat_map(|(low, high)| [low, high]);
        let ends =
            ends.filter(known).map(|end| if is_log { end.max(least).min(most) } else { end.min(most) });
        match &forest.scale {
            Scale::Linear(words, unit) => {
                let values = ends.chain(values);
                let axis = Axis::around(values, axis::Scale::Linear, true, Rc::clone(words)).round_in(*unit);
                Self { axis, band: None }
            }
            Scale::Ratio(band) => {
                let words = Rc::new(|value: f64| {
                    let digits = format!("{value:.6}");
                    format!("{}×", digits.trim_end_matches('0').trim_end_matches('.'))
                });
                let values = ends.chain(values).chain([1.0, band.0, band.1]);
                Self { axis: Axis::around(values, axis::Scale::Log, false, words), band: Some(*band) }
            }
        }
    }

    /// Position of a value, and whether it is inside.
    fn at(&self, value: f64) -> (f64, bool) {
        let share = self.axis.share(value);
        (EDGE + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * EDGE), self.axis.holds(value))
    }

    /// Round numbers far enough from each other, with their text.
    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let ticks = self.axis.ticks(WIDTH - 2.0 * EDGE, |words| width(words) + COLUMN);
        ticks.into_iter().map(|(at, words)| (at + EDGE, words))
    }
}

/// The drawing.
pub(super) fn draw(forest: &Forest) -> Markup {
    let axis = Placed::of(forest);
    let mut below = 0.0;
    let drawn: Vec<Markup> = forest.rows.iter().map(|row| draw_row(row, &axis, &mut below)).collect();
    let (bottom, names) = (below + 6.0, lines(&forest.axis, WIDTH - 2.0 * EDGE));
    let height = bottom + LINE + names.iter().map(|_| LINE).sum::<f64>() + 4.0;
    html! {
        svg.forest role="img" aria-label=(plain(&forest.finding)) viewBox=(format!("0 0 {WIDTH} {height:.0}")) {
            (draw_axis(&axis, bottom, &names))
            @for row in drawn { (row) }
        }
    }
}

/// The band, the lines of the axis, its numbers and their names.
fn draw_axis(axis: &Placed, bottom: f64, names: &[String]) -> Markup {
    let line = |at: f64| format!("M{} 0V{}", px(at), px(bottom));
    let ticks: Vec<(f64, String)> = axis.ticks().collect();
    html! {
        @if let Some((low, high)) = axis.band {
            @let (from, to) = (axis.at(low).0, axis.at(high).0);
            rect.band x=(px(from)) y="0" width=(px(to - from)) height=(px(bottom)) {}
            path.one d=(line(axis.at(1.0).0)) {}
        }
        path.tick d=(ticks.iter().map(|(at, _)| line(*at)).collect::<String>()) {}
        g.axis text-anchor="middle" {
            @for (at, word) in &ticks {
                // The words of the outermost lines reach no further than the picture.
                @let half = width(word) / 2.0;
                (text(None, at.clamp(half.min(WIDTH / 2.0), (WIDTH - half).max(WIDTH / 2.0)), bottom + LINE - 3.0, word))
            }
            @for (index, name) in names.iter().enumerate() {
                (text(None, WIDTH / 2.0, bottom + LINE * (float(index) + 2.0), name))
            }
        }
    }
}

/// A row with its heading, below the ones drawn before.
fn draw_row(row: &ForestRow, axis: &Placed, below: &mut f64) -> Markup {
    let mut next = || {
        *below += LINE;
        *below - 4.0
    };
    let room = WIDTH - 2.0 * EDGE;
    let heading = row.heading.as_deref().map(|heading| lines(heading, room)).unwrap_or_default();
    let labels = lines(&row.label, room);
    let figures = lines(&row.figure, room);
    // On one line if there is room for both.
    let last = labels.last().map_or(0.0, |label| width(label));
    let together =
        !labels.is_empty() && figures.len() == 1 && last + width(&figures[0]) + 2.0 * COLUMN < room;
    let heading: Vec<_> = heading.iter().map(|line| text(Some("heading"), EDGE, next(), line)).collect();
    let mut at = 0.0;
    let labels: Vec<_> = labels
        .iter()
        .map(|line| {
            at = next();
            text(Some("label"), EDGE, at, line)
        })
        .collect();
    let figure = |line: &String| {
        let y = if together { at } else { next() };
        text(Some("figure"), WIDTH - EDGE, y, line)
    };
    let figures: Vec<_> = figures.iter().map(figure).collect();
    let end = |which: usize| {
        let (low, high) = row.interval?;
        Some([low, high][which]).filter(|end| end.is_finite()).map(short)
    };
    let middle = *below + MARK / 2.0 - 2.0;
    *below += MARK;
    html! {
        g data-of=[row.heading.as_deref().map(plain)] data-name=(plain(&row.label)) data-value=(short(row.value))
            data-low=[end(0)] data-high=[end(1)] data-then=[row.then.map(short)]
            data-arms=(row.arms.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")) {
            @for line in heading.iter().chain(&labels).chain(&figures) { (line) }
            (mark(row, axis, middle))
        }
    }
}

/// The interval and the value.
fn mark(row: &ForestRow, axis: &Placed, y: f64) -> Markup {
    let end = |(at, inside): (f64, bool), towards: f64| {
        let (x, top, low) = (px(at), px(y - 4.0), px(y + 4.0));
        // A cap, or an arrow if it extends further.
        match inside {
            true => format!("M{x} {top}v8"),
            false => format!("M{tail} {top}L{x} {}L{tail} {low}", px(y), tail = px(at - towards)),
        }
    };
    let whisker = |(low, high)| {
        let (from, to) = (axis.at(low), axis.at(high));
        format!("M{} {}H{}{}{}", px(from.0), px(y), px(to.0), end(from, -5.0), end(to, 5.0))
    };
    html! {
        @if let Some(ends) = row.interval { path.whisker d=(whisker(ends)) {} }
        @if let Some(then) = row.then {
            path.then d=(format!("M{} {}l5 5l-5 5l-5-5z", px(axis.at(then).0), px(y - 5.0))) {}
        }
        circle class={ "dot" @if !row.is_sure { " open" } } cx=(px(axis.at(row.value).0)) cy=(px(y)) r="4.5" {}
    }
}

/// A text in lines that fit, broken at spaces if possible.
fn lines(text: &str, room: f64) -> Vec<String> {
    let mut result: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in plain(text).split_inclusive(' ') {
        if !line.is_empty() && width(&line) + width(word.trim_end()) > room {
            result.push(std::mem::take(&mut line));
        }
        for letter in word.chars() {
            if width(&line) + float(letter.width().unwrap_or(1)) * COLUMN > room && letter != ' ' {
                result.push(std::mem::take(&mut line));
            }
            line.push(letter);
        }
    }
    result.push(line);
    let mut result: Vec<String> = result.into_iter().map(|line| line.trim().to_owned()).collect();
    result.retain(|line| !line.is_empty());
    if result.len() > MAX_LINES {
        result.truncate(MAX_LINES);
        if let Some(last) = result.last_mut() {
            last.pop();
            last.push('…');
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{super::PICTURES, *};
    use proptest::prelude::*;

    fn row(label: &str, value: f64, interval: Option<(f64, f64)>) -> ForestRow {
        let figure = format!("{}×", crate::numbers::plain(value));
        ForestRow {
            heading: None,
            arms: vec![0, 1],
            label: label.into(),
            figure,
            value,
            interval,
            is_sure: interval.is_some(),
            then: None,
        }
    }

    fn ratios(rows: Vec<ForestRow>) -> Forest {
        Forest {
            finding: "xfs leads".into(),
            axis: "ratio of throughput".into(),
            scale: Scale::Ratio((0.97, 1.03)),
            rows,
        }
    }

    /// The numbers of an attribute, in order.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let name = format!(" {attribute}=\"");
        let parts = svg.split(name.as_str()).skip(1);
        parts.filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    fn height(svg: &str) -> f64 {
        let (_, rest) = svg.split_once(&format!("viewBox=\"0 0 {WIDTH} ")).expect("it has a view box");
        rest.split('"').next().and_then(|number| number.parse().ok()).expect("it has a height")
    }

    /// Each text with its class, place and anchor.
    fn texts(svg: &str) -> Vec<(f64, f64, String, String)> {
        let of = |part: &str, name: &str| {
            let (_, rest) = part.split_once(&format!(" {name}=\"")).expect("an attribute");
            rest.split('"').next().expect("its value").to_owned()
        };
        assert!(PICTURES.contains("svg .figure {\n  text-anchor: end;\n}"));
        assert!(svg.contains("<g class=\"axis\" text-anchor=\"middle\">"), "{svg}");
        let parts = svg.split("<text").skip(1).map(|part| {
            let (head, rest) = part.split_once('>').expect("a start tag");
            let words = rest.split('<').next().expect("words");
            let words =
                words.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
            let place = |name| of(head, name).parse::<f64>().expect("a number");
            // Those of the axis are in a group without a class, and the style sheet ends a figure at its position.
            let anchor = match head.contains("class=").then(|| of(head, "class")).as_deref() {
                None => "middle",
                Some("figure") => "end",
                Some(_) => "start",
            };
            (place("x"), place("y"), anchor.to_owned(), words)
        });
        parts.collect()
    }

    #[test]
    fn a_picture_of_ratios() {
        let mut first = row("xfs / ext4", 1.42, Some((1.31, 1.55)));
        first.heading = Some("4 threads".into());
        let forest =
            ratios(vec![first, row("btrfs / ext4", 0.4, Some((0.001, 0.9))), row("raw / ext4", 2.0, None)]);
        insta::assert_snapshot!(draw(&forest).into_string().replace("><", ">\n<"));
    }

    #[test]
    fn unbounded_interval_ends_in_arrow() {
        let ended = draw(&ratios(vec![row("a", 1.2, Some((1.1, 1.3)))])).into_string();
        let endless = draw(&ratios(vec![row("a", 1.2, Some((0.0, f64::INFINITY)))])).into_string();
        assert_eq!(ended.matches("v8").count(), 2, "{ended}");
        assert_eq!(endless.matches("v8").count(), 0, "{endless}");
        assert!(!endless.contains("NaN") && !endless.contains("inf"), "{endless}");
    }

    #[test]
    fn a_wide_interval_is_shown_whole() {
        let forest = ratios(vec![row("a", 2.34, Some((0.993, 8.86)))]);
        let axis = Placed::of(&forest);
        assert!(axis.at(0.993).1 && axis.at(8.86).1 && axis.at(1.0).1);
        assert!(axis.ticks().count() >= 3);
    }

    proptest! {
        #[test]
        fn forest_labels_and_marks_stay_inside_svg(
            rows in prop::collection::vec(
                ("[ -~ä文]{0,90}", 1e-6_f64..1e6, prop::option::of((0.0_f64..2.0, 1.0_f64..9.0))),
                1..12,
            ),
            linear: bool,
        ) {
            let rows = rows.into_iter().map(|(label, value, ends)| {
                row(&label, value, ends.map(|(low, high)| (value * low, value * high.max(low))))
            });
            let mut forest = ratios(rows.collect());
            if linear {
                forest.scale = Scale::Linear(Rc::new(crate::numbers::rate), 1.0);
            }
            let svg = draw(&forest).into_string();
            let high = height(&svg);
            for (x, y, anchor, words) in texts(&svg) {
                let wide = width(&words);
                let left = match anchor.as_str() { "start" => x, "middle" => x - wide / 2.0, _ => x - wide };
                prop_assert!(left >= -0.1 && left + wide <= WIDTH + 0.1, "{words:?} from {left}, {wide} wide");
                prop_assert!(y > 8.0 && y <= high - 3.0, "{words:?} at {y} of {high}");
            }
            let leading = |text: &str| text.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?.parse().ok();
            let paths = svg.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let drawn = paths.flat_map(|path| path.split(['M', 'H']).filter_map(leading));
            let placed = ["x1", "x2", "cx"].into_iter().flat_map(|attribute| numbers(&svg, attribute));
            for x in placed.chain(drawn) {
                prop_assert!((0.0..=WIDTH).contains(&x), "{x}");
            }
            prop_assert!(!svg.contains("NaN"));
        }
    }
}
