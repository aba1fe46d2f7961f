//! Pictures of two axes as SVG: lines, points, ranges. They need no script, print as they are, and take their colours
//! from the style sheet. An arm has the same colour, shape and dashes everywhere.
//!
//! Each series carries its numbers (`data-x`, `data-y`), from which the page's script shows values and makes CSV.

use super::{
    axis::Axis,
    svg::{COLUMN, LINE, WIDTH, begun, float, px, short, text, width},
};
use crate::text::plain;
use maud::{Markup, html};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

const HEIGHT: f64 = 230.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 12.0;
/// Below the plot: numbers and name of the axis.
const BELOW: f64 = 40.0;
/// Most columns of the name of an axis.
const MOST_NAME: usize = 30;
/// Most columns of a number at the vertical axis.
const MOST_COLUMNS: usize = 14;

/// Colours that the style sheet has.
const COLOURS: usize = 6;
/// Ways to dash a line that it has.
const DASHES: usize = 6;
/// Shapes of points, about 7 units wide, from their middle on. They serve those who see no colours, and grey print.
const SHAPES: [&str; COLOURS] = [
    DOT,
    "m-3-3h6v6h-6z",
    "m0-4l3.8 6.8h-7.6z",
    "m0-4.2l3.6 4.2l-3.6 4.2l-3.6-4.2z",
    "m0 4l3.8-6.8h-7.6z",
    "m-1.2-3.8h2.4v2.6h2.6v2.4h-2.6v2.6h-2.4v-2.6h-2.6v-2.4h2.6z",
];

/// A line of no length: the style sheet makes a dot of it.
const DOT: &str = "h0";

/// A picture.
pub(crate) struct Chart {
    /// Its content and finding, for those who do not see it.
    pub(crate) finding: String,
    pub(crate) x: ChartAxis,
    pub(crate) y: ChartAxis,
    /// The unit of vertical values, as it is stored.
    pub(crate) unit: String,
    pub(crate) series: Vec<Series>,
    /// Vertical differences that do not matter.
    pub(crate) band: Option<(f64, f64)>,
    /// Up to where the picture is shaded: a warm-up.
    pub(crate) shaded_to: Option<f64>,
    /// Places of vertical lines: changes.
    pub(crate) rules: Vec<f64>,
}

/// An axis with its quantity.
pub(crate) struct ChartAxis {
    pub(crate) axis: Axis,
    pub(crate) name: String,
}

/// The points of one arm, or of something else.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) arm: Option<usize>,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// For each point its interval, if it has one.
    pub(crate) intervals: Vec<Option<(f64, f64)>>,
    /// A shaded range around the line: place, low, high.
    pub(crate) range: Vec<(f64, f64, f64)>,
    pub(crate) is_line: bool,
    /// True if each point has a mark.
    pub(crate) is_marked: bool,
    /// From another source, and not measured here.
    pub(crate) is_pale: bool,
}

/// The sign of an arm, for a list of arms.
pub(crate) fn sign(arm: usize) -> Markup {
    html! {
        svg class={ "sign " (looks(Some(arm))) } viewBox="0 0 24 10" aria-hidden="true" {
            path.line d="M0 5H24" {}
            path class={ "marks" @if shape(Some(arm)) == DOT { " dots" } } d={ "M12 5" (shape(Some(arm))) } {}
        }
    }
}

fn looks(arm: Option<usize>) -> String {
    match arm {
        Some(arm) => format!("c{} d{}", arm % COLOURS, arm / COLOURS % DASHES),
        None => "other".into(),
    }
}

fn shape(arm: Option<usize>) -> &'static str {
    // Arms of one colour differ in shape, too.
    arm.map_or(DOT, |arm| SHAPES[(arm + arm / COLOURS) % COLOURS])
}

/// Positions in a drawing.
struct Room<'a> {
    chart: &'a Chart,
    left: f64,
}

impl Room<'_> {
    /// In whole units, of which a page shows little more than one pixel: half of a page is places.
    fn x(&self, value: f64) -> f64 {
        let share = self.chart.x.axis.share(value).clamp(0.0, 1.0);
        (self.left + share * (WIDTH - RIGHT - self.left)).round()
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BELOW - self.chart.y.axis.share(value).clamp(0.0, 1.0) * (HEIGHT - BELOW - TOP)
    }
}

/// The drawing.
pub(crate) fn draw(chart: &Chart) -> Markup {
    let below = HEIGHT - BELOW;
    let ticks = chart.y.axis.ticks(below - TOP, |_| LINE * 1.6);
    let columns = ticks.iter().map(|(_, words)| words.width()).max().unwrap_or(1).min(MOST_COLUMNS);
    let room = Room { chart, left: float(columns) * COLUMN + 12.0 };
    let bottom = chart.x.axis.ticks(WIDTH - RIGHT - room.left, |words| width(words) + 2.0 * COLUMN);
    let across =
        ticks.iter().map(|(at, _)| format!("M{} {}H{}", px(room.left), px(below - at), px(WIDTH - RIGHT)));
    let down = bottom.iter().map(|(at, _)| format!("M{} {}v4", px((room.left + at).round()), px(below)));
    let lines: String = across.chain(down).collect();
    // Where all series have the same places, these are written once.
    let mut places: Vec<String> = chart.series.iter().map(|series| values(series, |point| point.0)).collect();
    places.dedup();
    let shared = (places.len() == 1).then(|| places.swap_remove(0));
    html! {
        svg.chart role="img" aria-label=(plain(&chart.finding)) viewBox=(format!("0 0 {WIDTH} {HEIGHT}"))
            data-xname=(chart.x.name) data-yname=(chart.y.name) data-unit=(chart.unit) data-x=[&shared] {
            @if let Some(to) = chart.shaded_to {
                rect.shade x=(px(room.left)) y=(px(TOP)) width=(px((room.x(to) - room.left).max(0.0))) height=(px(below - TOP)) {}
            }
            @if let Some((low, high)) = chart.band {
                rect.band x=(px(room.left)) y=(px(room.y(high))) width=(px(WIDTH - RIGHT - room.left))
                    height=(px((room.y(low) - room.y(high)).max(0.0))) {}
            }
            path.tick d=(lines) {}
            g.axis text-anchor="end" {
                @for (at, words) in &ticks { (text(None, room.left - 6.0, below - at + 4.0, words)) }
                (text(None, WIDTH - RIGHT, HEIGHT - 5.0, &short_name(&chart.x.name)))
            }
            g.axis text-anchor="middle" {
                @for (at, words) in &bottom {
                    // The words of the outermost numbers reach no further than the picture.
                    @let half = width(words) / 2.0;
                    (text(None, (room.left + at).min(WIDTH - half), below + LINE, words))
                }
            }
            @if !chart.y.name.is_empty() {
                g.axis { (text(None, 2.0, HEIGHT - 5.0, &format!("↑ {}", short_name(&chart.y.name)))) }
            }
            @for rule in &chart.rules {
                line.rule x1=(px(room.x(*rule))) x2=(px(room.x(*rule))) y1=(px(TOP)) y2=(px(below)) {}
            }
            @for series in &chart.series { (draw_series(series, &room, shared.is_none())) }
        }
    }
}

/// Points that have a place.
fn known(series: &Series) -> impl Iterator<Item = &(f64, f64)> {
    series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite())
}

fn values(series: &Series, of: fn(&(f64, f64)) -> f64) -> String {
    known(series).map(|point| short(of(point))).collect::<Vec<_>>().join(" ")
}

/// A series; `has_places` for separate positions.
fn draw_series(series: &Series, room: &Room<'_>, has_places: bool) -> Markup {
    let points: Vec<(f64, f64)> = known(series).copied().collect();
    let at = |(x, y): &(f64, f64)| (room.x(*x), room.y(*y));
    let area = || {
        let there = series.range.iter().map(|(x, _, high)| (*x, *high));
        let back = series.range.iter().rev().map(|(x, low, _)| (*x, *low));
        line(there.chain(back).map(|point| at(&point))) + "z"
    };
    let mark = |(x, y): (f64, f64)| format!("M{} {}{}", px(x), px(y), shape(series.arm));
    let marks = || points.iter().map(|point| mark(at(point))).collect::<String>();
    html! {
        g class={ (looks(series.arm)) @if series.is_pale { " pale" } } data-arm=[series.arm] data-name=(plain(&series.name))
            data-x=[has_places.then(|| values(series, |point| point.0))] data-y=(values(series, |point| point.1)) {
            @if !series.range.is_empty() { path.area d=(area()) {} }
            @if series.is_line { path.line d=(line(points.iter().map(at))) {} }
            @if series.intervals.iter().any(Option::is_some) { path.whisker d=(whiskers(series, room)) {} }
            @if series.is_marked { path class={ "marks" @if shape(series.arm) == DOT { " dots" } } d=(marks()) {} }
        }
    }
}

/// A line through points: the first by its place, the others by their distance from the one before.
fn line(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    let mut before: Option<(f64, f64)> = None;
    for (x, y) in points.map(|(x, y)| ((x * 10.0).round(), (y * 10.0).round())) {
        match before.replace((x, y)) {
            None => out += &format!("M{} {}", px(x / 10.0), px(y / 10.0)),
            Some((left, top)) => {
                let (x, y) = (px((x - left) / 10.0), px((y - top) / 10.0));
                let space = if y.starts_with('-') { "" } else { " " };
                let _ = write!(out, "l{x}{space}{y}");
            }
        }
    }
    out
}

fn whiskers(series: &Series, room: &Room<'_>) -> String {
    let mut out = String::new();
    for ((x, _), interval) in series.points.iter().zip(&series.intervals) {
        if let Some((low, high)) = interval.filter(|_| x.is_finite()) {
            let _ = write!(out, "M{} {}V{}", px(room.x(*x)), px(room.y(low)), px(room.y(high)));
        }
    }
    out
}

/// The name of an axis, cut if it is overlong.
fn short_name(name: &str) -> String {
    begun(name, MOST_NAME)
}

#[cfg(test)]
mod tests {
    use super::{super::axis::Scale, *};
    use proptest::prelude::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let side = |values: Vec<f64>, name: &str| ChartAxis {
            axis: Axis::around(values.into_iter(), Scale::Log, false, std::rc::Rc::new(short)),
            name: name.into(),
        };
        Chart {
            finding: "what it finds".into(),
            unit: "op/s".into(),
            x: side(points.iter().map(|point| point.0).collect(), "round"),
            y: side(points.iter().map(|point| point.1).collect(), "op/s"),
            series: vec![Series {
                arm: Some(7),
                name: "xfs".into(),
                intervals: points.iter().map(|(_, y)| Some((y * 0.9, y * 1.1))).collect(),
                range: points.iter().map(|(x, y)| (*x, y * 0.8, y * 1.2)).collect(),
                points,
                is_line: true,
                is_marked: true,
                is_pale: true,
            }],
            band: Some((1.0, 2.0)),
            shaded_to: Some(1.5),
            rules: vec![1.2],
        }
    }

    #[test]
    fn line_path_uses_relative_coordinates() {
        let points = [(10.0, 20.0), (11.26, 19.0), (11.26, 30.04)];
        assert_eq!(line(points.into_iter()), "M10 20l1.3-1l0 11");
    }

    #[test]
    fn series_svg_has_data_and_classes() {
        let svg = draw(&chart(vec![(1.0, 12_345.6), (2.0, 0.012_345)])).into_string();
        assert!(svg.contains("data-x=\"1 2\"") && svg.contains("data-y=\"12350 0.01235\""), "{svg}");
        assert!(svg.contains("class=\"c1 d1 pale\""), "{svg}");
        assert!(!svg.contains("NaN"));
    }

    proptest! {
        #[test]
        fn chart_coordinates_stay_inside_svg(points in prop::collection::vec((1e-3_f64..1e6, 1e-6_f64..1e9), 1..30)) {
            let svg = draw(&chart(points)).into_string();
            let numbers = |attribute: &str| -> Vec<f64> {
                let start = format!(" {attribute}=\"");
                svg.split(&start).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
            };
            for x in ["x", "x1", "x2"].iter().flat_map(|name| numbers(name)) {
                prop_assert!((0.0..=WIDTH).contains(&x), "{x}");
            }
            for y in ["y", "y1", "y2"].iter().flat_map(|name| numbers(name)) {
                prop_assert!((0.0..=HEIGHT).contains(&y), "{y}");
            }
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
