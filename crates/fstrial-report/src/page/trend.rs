//! The picture of a trend: points with intervals, segments, changes. Words for it are in the tables next to it.

use super::{
    axis::{Axis, Scale},
    chart::{self, Chart, ChartAxis, Series},
    svg,
};
use crate::{
    numbers,
    plot::{self, Dot},
    trend::{SeriesReport, TrendDocument},
};
use maud::Markup;
use std::rc::Rc;

/// Draws a series.
pub fn series(document: &TrendDocument, series: &SeriesReport) -> Markup {
    let points = || series.points.iter().enumerate();
    let place = |index: usize| svg::float(index) + 1.0;
    let dots: Vec<Dot> =
        points().map(|(_, p)| (p.value.ln(), p.interval.map(|(from, to)| (from.ln(), to.ln())))).collect();
    let (low, high) = plot::range(&dots);
    let names: Vec<(f64, String)> =
        points().map(|(index, p)| (place(index), format!("#{}", p.trial))).collect();
    let places = names.iter().map(|(place, _)| *place).collect();
    let name = move |at: f64| {
        let name = names.iter().find(|(place, _)| (place - at).abs() < 0.5);
        name.map(|(_, name)| name.clone()).unwrap_or_default()
    };
    let (is_ratio, unit) = (document.against.is_some(), series.unit.clone());
    let value =
        move |value: f64| if is_ratio { numbers::ratio(value) } else { numbers::figure(value, &unit) };
    let segments = series.segments.iter().map(|segment| Series {
        name: "segment".into(),
        points: vec![(place(segment.first) - 0.4, segment.value), (place(segment.last) + 0.4, segment.value)],
        is_line: true,
        ..Series::default()
    });
    let trials = Series {
        arm: Some(0),
        name: "trial".into(),
        points: points().map(|(index, p)| (place(index), p.value)).collect(),
        intervals: series.points.iter().map(|p| p.interval).collect(),
        is_marked: true,
        ..Series::default()
    };
    let last = place(series.points.len());
    let drawn = Chart {
        finding: "the points in order; the tables have the figures".into(),
        x: ChartAxis {
            axis: Axis::new(Scale::Linear, (0.5, last - 0.5), Rc::new(name)).marked(places),
            name: "trial".into(),
        },
        y: ChartAxis {
            axis: Axis::new(Scale::Log, (low.exp(), high.exp()), Rc::new(value)),
            name: String::new(),
        },
        unit: String::new(),
        series: segments.chain([trials]).collect(),
        band: None,
        shaded_to: None,
        rules: series.changes.iter().map(|change| place(change.at) - 0.5).collect(),
    };
    chart::draw(&drawn)
}
