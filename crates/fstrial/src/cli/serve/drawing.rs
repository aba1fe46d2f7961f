//! The plot of a trend as SVG: points with intervals, segments, changes. Words for it are in the tables next to it.

use crate::report::{
    plot::{self, Dot},
    trend::{SeriesReport, TrendDocument, value},
};
use maud::{Markup, html};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
/// Left of the plot, for numbers.
const LEFT: f64 = 80.0;
/// Above and below it.
const EDGE: f64 = 14.0;

/// Draws a series. Its points carry their words as titles, which browsers show on hover.
pub(super) fn series(document: &TrendDocument, series: &SeriesReport) -> Markup {
    let points = series.points.iter();
    let dots: Vec<Dot> =
        points.map(|p| (p.value.ln(), p.interval.map(|(from, to)| (from.ln(), to.ln())))).collect();
    let (low, high) = plot::range(&dots);
    let count = series.points.len().max(2) as f64;
    let x = |index: usize| LEFT + (index as f64 + 0.5) * (WIDTH - LEFT) / count;
    let y = |log: f64| EDGE + (high - log.clamp(low, high)) / (high - low) * (HEIGHT - 2.0 * EDGE);
    let label = |log: f64| value(document, series, log.exp());
    let half = 0.5 * (WIDTH - LEFT) / count;
    html! {
        svg.trend viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="the points in order; the tables have the figures" {
            @for part in 0..=4 {
                @let log = low + (high - low) * f64::from(part) / 4.0;
                line.grid x1=(LEFT) x2=(WIDTH) y1=(at(y(log))) y2=(at(y(log))) {}
                text.label x=(LEFT - 8.0) y=(at(y(log) + 4.0)) { (label(log)) }
            }
            @for segment in &series.segments {
                @let height = at(y(segment.value.ln()));
                line.segment x1=(at(x(segment.first) - half)) x2=(at(x(segment.last) + half)) y1=(height) y2=(height) {}
            }
            @for change in &series.changes {
                @let place = at(x(change.at) - half);
                line.change x1=(place) x2=(place) y1=(EDGE) y2=(HEIGHT - EDGE) {}
            }
            @for (index, point) in series.points.iter().enumerate() {
                g {
                    title { "#" (point.trial) ", " (point.started_at) ", " (point.kernel) ": " (label(dots[index].0)) }
                    @if let Some((from, to)) = dots[index].1 {
                        line.interval x1=(at(x(index))) x2=(at(x(index))) y1=(at(y(from))) y2=(at(y(to))) {}
                        // It goes on beyond the picture.
                        @if to > high { text.cut x=(at(x(index))) y=(at(EDGE)) { "↑" } }
                        @if from < low { text.cut x=(at(x(index))) y=(at(HEIGHT - 4.0)) { "↓" } }
                    }
                    circle cx=(at(x(index))) cy=(at(y(dots[index].0))) r="3.5" {}
                }
            }
        }
    }
}

/// A coordinate, as short as it is worth.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}
