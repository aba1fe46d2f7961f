//! The plot of a trend as SVG: points with intervals, segments, changes. Words for it are in the tables next to it.

use crate::report::trend::{SeriesReport, TrendDocument, value};
use maud::{Markup, html};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
/// Left of the plot, for numbers.
const LEFT: f64 = 80.0;
/// Above and below it.
const EDGE: f64 = 14.0;

/// Draws a series. Its points carry their words as titles, which browsers show on hover.
pub(super) fn series(document: &TrendDocument, series: &SeriesReport) -> Markup {
    let logs: Vec<f64> = series.points.iter().map(|point| point.value.ln()).collect();
    let (low, high) = logs
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| (low.min(*log), high.max(*log)));
    let room = ((high - low) * 0.15).max(0.005);
    let (low, high) = (low - room, high + room);
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
                    title { "#" (point.trial) ", " (point.started_at) ", " (point.kernel) ": " (label(logs[index])) }
                    @if let Some((from, to)) = point.interval {
                        line.interval x1=(at(x(index))) x2=(at(x(index))) y1=(at(y(from.ln()))) y2=(at(y(to.ln()))) {}
                    }
                    circle cx=(at(x(index))) cy=(at(y(logs[index]))) r="3.5" {}
                }
            }
        }
    }
}

/// A coordinate, as short as it is worth.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}
