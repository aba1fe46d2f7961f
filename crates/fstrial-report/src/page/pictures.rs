//! The pictures of a workload: their list, and the content of each.

use super::{
    CHOICES,
    axis::{self, Axis, Scale},
    chart::{self, Chart, ChartAxis, Series},
    data::{CellData, ContrastData, CourseData, SectionData, TrialData},
    forests, svg,
};
use crate::numbers;
use fstrial_model::unit;
use fstrial_run::plan::threads_in_words;
use maud::{Markup, html};
use std::rc::Rc;

/// Ranges of more arms than this hide each other.
const MOST_RANGES: usize = 5;
/// Comparisons drawn with their course, for a level.
const MOST_COURSES: usize = 6;
/// Numbers of threads from which on a curve over them is better than a list.
const A_CURVE: usize = 3;

/// The pictures of a section that there is something to draw on. `anchor`: the name of its place on the page.
pub(super) fn of(data: &TrialData, section: &SectionData, anchor: &str) -> Markup {
    let id = |kind: &str| format!("{anchor}-{kind}");
    let ratios = (!forests::fit_together(&data.sections))
        .then(|| forests::ratios(data, &[section], &id("ratios"), false))
        .flatten();
    html! {
        (levels(section, &id("level")))
        div.grid {
            @if let Some(figure) = ratios { (figure) }
            @if let Some(figure) = forests::rates(data, section, &id("rates")) { (figure) }
            @if section.levels.len() >= A_CURVE {
                @let words = if section.source.is_empty() { THREADS } else { THREADS_AND_SOURCE };
                (figure(&id("threads"), words, [(None, over_threads(data, section, false))]))
                (figure(&id("latency-threads"), LATENCY_THREADS, [(None, over_threads(data, section, true))]))
            }
            @for (kind, title, of, words) in COSTS {
                @if let Some(figure) = forests::costs(data, section, &id(kind), title, of, words) { (figure) }
            }
            @for (kind, words, draw) in BY_LEVEL {
                (figure(&id(kind), words, section.levels.iter().enumerate().map(|(place, level)| {
                    (Some((place, *level)), draw(data, section, *level))
                })))
            }
            (courses(data, section, &id("course")))
        }
        (stages(data, section))
    }
}

/// The ratios of all workloads, if one picture holds them.
pub(super) fn ratios(data: &TrialData, id: &str) -> Option<Markup> {
    let sections: Vec<&SectionData> = data.sections.iter().collect();
    forests::fit_together(&data.sections).then(|| forests::ratios(data, &sections, id, true)).flatten()
}

/// A title, and a description.
type Words = (&'static str, &'static str);

const THREADS: Words = (
    "Against threads",
    "The typical value of each arm over its rounds with its 95 % interval; for fewer than six runs, their range.",
);
const THREADS_AND_SOURCE: Words = (
    "Against threads",
    "The typical value of each arm over its rounds with its 95 % interval; for fewer than six runs, their range. Pale: \
     the curves of the source, all multiplied by one number to be at the same height.",
);
const LATENCY_THREADS: Words = (
    "Latency against threads",
    "The 99th percentile of all runs together; bars from the least to the greatest of single runs.",
);
const COURSE: Words = (
    "How the decision was made",
    "Each dot is the ratio of the two arms in one round; the line is the ratio over all rounds so far \
         and the shade its interval. Once the shade is clearly on one side of 1, or inside the grey band \
         of negligible differences, the comparison is decided; among many comparisons it must be clearer \
         than that. A shade wider than the picture is cut.",
);

type Cost = (
    &'static str,
    (&'static str, &'static str, &'static str),
    fn(&CellData) -> Option<f64>,
    fn(f64) -> String,
);

/// Cost of an operation.
const COSTS: [Cost; 3] = [
    (
        "cpu",
        (
            "CPU for each operation",
            "Time of the whole machine that was not idle, kernel threads and neighbours included.",
            unit::TIME,
        ),
        |cell| cell.cpu_ns,
        numbers::nanos,
    ),
    (
        "device",
        (
            "Bytes to the device per byte requested",
            "Bytes written to the device in the measured time, journal, metadata and copies included.",
            "",
        ),
        |cell| Some(cell.device_bytes? / cell.asked_bytes?),
        numbers::plain,
    ),
    (
        "space",
        (
            "Space used",
            "Size of the device less the free space after a run: data and the filesystem's metadata.",
            unit::BYTES,
        ),
        |cell| cell.space_used_bytes,
        numbers::bytes,
    ),
];

type Draw = fn(&TrialData, &SectionData, u16) -> Option<Chart>;

/// A drawing for each number of threads.
const BY_LEVEL: [(&str, Words, Draw); 3] = [
    (
        "latency",
        (
            "Latency percentiles",
            "The latency that this share of operations did not exceed, all runs together. Shares with fewer than ten operations \
             beyond them are left out.",
        ),
        percentiles,
    ),
    (
        "series",
        (
            "Within a run",
            "Operations a second from the start of the warm-up (shaded) on: the median round; of up to five arms the range of all \
             rounds, too.",
        ),
        in_a_run,
    ),
    ("runs", ("Every run", "Each run by its round."), runs),
];

/// A level: its place among those of the workload, and its number of threads.
type Level = Option<(usize, u16)>;

/// A figure with the drawings that there are; nothing without any.
fn figure(
    id: &str,
    (title, about): Words,
    drawings: impl IntoIterator<Item = (Level, Option<Chart>)>,
) -> Markup {
    let drawings: Vec<(Level, Chart)> =
        drawings.into_iter().filter_map(|(level, chart)| Some((level, chart?))).collect();
    html! {
        @if !drawings.is_empty() {
            figure.plot id=(id) {
                figcaption { h4 { (title) } p { (about) } }
                @for (level, chart) in &drawings { (drawing(*level, None, chart)) }
            }
        }
    }
}

/// A drawing with its heading. `pair`: the arms that it compares, with their names.
fn drawing(level: Level, pair: Option<(&ContrastData, &str)>, drawn: &Chart) -> Markup {
    let place = level.map(|(place, _)| place);
    html! {
        div.drawing data-level=[place] data-arms=[pair.map(|(contrast, _)| format!("{} {}", contrast.a, contrast.b))] {
            p.of {
                @if let Some((_, title)) = pair { (title) ", " }
                @if let Some((_, threads)) = level { (threads_in_words(threads)) }
            }
            (chart::draw(drawn))
        }
    }
}

/// Selection of the number of threads, if there are several. The style sheet does the rest.
fn levels(section: &SectionData, name: &str) -> Markup {
    let last = section.levels.len().saturating_sub(1);
    html! {
        @if last > 0 && last < CHOICES {
            fieldset.choose {
                legend.unseen { "Number of threads in the pictures" }
                @for (place, threads) in section.levels.iter().enumerate() {
                    label { input type="radio" name=(name) class={ "l" (place) } checked[place == last]; (threads_in_words(*threads)) }
                }
            }
        }
    }
}

fn at_level(what: &str, level: u16) -> String {
    format!("{what} at {}", threads_in_words(level))
}

fn cells_at(section: &SectionData, level: u16) -> impl Iterator<Item = &CellData> {
    section.cells.iter().filter(move |cell| cell.threads == level)
}

fn side(axis: Axis, name: impl Into<String>) -> ChartAxis {
    ChartAxis { axis, name: name.into() }
}

/// The rates of a workload on an axis.
fn rate_side(
    section: &SectionData,
    values: impl Iterator<Item = f64>,
    from_zero: bool,
    words: axis::Words,
) -> ChartAxis {
    let values: Vec<f64> = values.collect();
    let unit = forests::round_in(&section.unit, values.iter().copied().fold(0.0, f64::max));
    let axis = Axis::around(values.into_iter(), Scale::Linear, from_zero, words);
    side(axis.round_in(unit), forests::axis_of(section))
}

/// Writes figures without rounding: runs may be within a few per cent of each other.
fn whole_figures_of(section: &SectionData) -> axis::Words {
    let plain = |value: f64| match value.abs() >= 1000.0 {
        true => numbers::thousands(&format!("{:.0}", value.max(0.0))),
        false => numbers::plain(value),
    };
    match section.unit.as_str() {
        unit::TIME | unit::BYTES | unit::BYTES_PER_FILE => forests::figures_of(section),
        unit::BYTES_PER_SECOND => Rc::new(move |value| plain(value / f64::from(1 << 20))),
        _ => Rc::new(plain),
    }
}

fn latency_side(values: impl Iterator<Item = f64>) -> ChartAxis {
    side(Axis::around(values, Scale::Log, false, Rc::new(numbers::nanos)), "latency")
}

/// A chart of the drawn series; none without points.
fn chart(
    section: &SectionData,
    what: &str,
    unit: &str,
    x: ChartAxis,
    y: ChartAxis,
    series: Vec<Series>,
) -> Option<Chart> {
    let finding = format!("{what} in {}; the CSV has the numbers", section.title);
    let mut series: Vec<Series> = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    // A line of one point would not be seen.
    series.iter_mut().for_each(|series| series.is_marked |= series.points.len() == 1);
    (!series.is_empty()).then_some(Chart {
        finding,
        unit: unit.into(),
        x,
        y,
        series,
        band: None,
        shaded_to: None,
        rules: Vec::new(),
    })
}

fn over_threads(data: &TrialData, section: &SectionData, is_latency: bool) -> Option<Chart> {
    let value = |cell: &CellData| -> Option<(f64, Option<(f64, f64)>)> {
        if !is_latency {
            return Some((cell.rate?, cell.rate_interval));
        }
        cell.p99
    };
    let series: Vec<Series> = (0..data.arms.len())
        .map(|arm| {
            let of_arm = section.cells.iter().filter(|cell| cell.arm == arm);
            let known: Vec<_> = of_arm.filter_map(|cell| Some((cell.threads, value(cell)?))).collect();
            Series {
                arm: Some(arm),
                name: data.arms[arm].clone(),
                points: known.iter().map(|(threads, (value, _))| (f64::from(*threads), *value)).collect(),
                intervals: known.iter().map(|(_, (_, interval))| *interval).collect(),
                is_line: true,
                is_marked: true,
                ..Series::default()
            }
        })
        .collect();
    let pale = section.source.iter().filter(|_| !is_latency).map(|(arm, curve)| Series {
        arm: Some(*arm),
        name: format!("{}, then", data.arms[*arm]),
        points: curve.clone(),
        is_line: true,
        is_pale: true,
        ..Series::default()
    });
    let series: Vec<Series> = series.into_iter().chain(pale).collect();
    let levels: Vec<f64> = section.levels.iter().map(|level| f64::from(*level)).collect();
    let threads =
        Axis::around(levels.iter().copied(), Scale::Log, false, Rc::new(|value| format!("{value:.0}")));
    let ends = series
        .iter()
        .flat_map(|series| series.intervals.iter().flatten().flat_map(|(low, high)| [*low, *high]));
    let values = ends.chain(series.iter().flat_map(|series| series.points.iter().map(|point| point.1)));
    let values: Vec<f64> = values.collect();
    let y = match is_latency {
        true => latency_side(values.into_iter()),
        false => rate_side(section, values.into_iter(), true, forests::figures_of(section)),
    };
    let what =
        if is_latency { LATENCY_THREADS.0.into() } else { format!("{} against threads", section.what()) };
    chart(
        section,
        &what,
        if is_latency { unit::TIME } else { &section.unit },
        side(threads.marked(levels), "threads"),
        y,
        series,
    )
}

fn percentiles(data: &TrialData, section: &SectionData, level: u16) -> Option<Chart> {
    let series: Vec<Series> = cells_at(section, level)
        .map(|cell| Series {
            arm: Some(cell.arm),
            name: data.arms[cell.arm].clone(),
            points: cell.cdf.iter().map(|(ns, share)| (*share, *ns)).collect(),
            is_line: true,
            ..Series::default()
        })
        .collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let y = latency_side(points().map(|point| point.1));
    let words = Rc::new(|share: f64| format!("p{}", numbers::plain(share * 100.0)));
    let last = points().map(|point| point.0).fold(0.5, f64::max);
    let x = Axis::new(Scale::Tail, (0.0, last), words);
    chart(
        section,
        &at_level("Latency percentiles", level),
        unit::TIME,
        side(x, "share of operations"),
        y,
        series,
    )
}

fn in_a_run(data: &TrialData, section: &SectionData, level: u16) -> Option<Chart> {
    let cells: Vec<_> =
        cells_at(section, level).filter_map(|cell| Some((cell, cell.series.as_ref()?))).collect();
    let at = |step: f64, index: usize| step * (svg::float(index) + 0.5);
    let has_ranges = cells.len() <= MOST_RANGES;
    let series: Vec<Series> = cells
        .iter()
        .map(|(cell, course)| {
            let step = course.step_seconds;
            let ends = course.low.iter().zip(&course.high).enumerate();
            Series {
                arm: Some(cell.arm),
                name: data.arms[cell.arm].clone(),
                points: course
                    .typical
                    .iter()
                    .enumerate()
                    .map(|(index, rate)| (at(step, index), *rate))
                    .collect(),
                range: ends
                    .filter(|_| has_ranges)
                    .map(|(index, (low, high))| (at(step, index), *low, *high))
                    .collect(),
                is_line: true,
                ..Series::default()
            }
        })
        .collect();
    let highest =
        cells.iter().flat_map(|(_, course)| if has_ranges { &course.high } else { &course.typical });
    let length = cells.iter().map(|(_, course)| course.step_seconds * svg::float(course.typical.len()));
    let seconds = Axis::new(Scale::Linear, (0.0, length.fold(0.0, f64::max)), Rc::new(numbers::plain));
    // Rates of windows are operations, regardless of the unit of the workload.
    let rates = Axis::around(highest.copied(), Scale::Linear, true, Rc::new(numbers::rate));
    let drawn = chart(
        section,
        &at_level("Operations a second in a run", level),
        unit::OPERATIONS,
        side(seconds, "s"),
        side(rates, "op/s"),
        series,
    )?;
    Some(Chart { shaded_to: section.warmup_seconds.filter(|seconds| *seconds > 0.0), ..drawn })
}

fn runs(data: &TrialData, section: &SectionData, level: u16) -> Option<Chart> {
    let series: Vec<Series> = cells_at(section, level)
        .map(|cell| Series {
            arm: Some(cell.arm),
            name: data.arms[cell.arm].clone(),
            points: cell.rounds.iter().map(|(round, rate)| (f64::from(*round), *rate)).collect(),
            is_marked: true,
            ..Series::default()
        })
        .collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let y = rate_side(section, points().map(|point| point.1), false, whole_figures_of(section));
    let x = round_side(points().map(|point| point.0));
    chart(section, &at_level("Every run", level), &section.unit, x, y, series)
}

fn round_side(rounds: impl Iterator<Item = f64>) -> ChartAxis {
    let rounds: Vec<f64> = rounds.collect();
    let last = rounds.iter().copied().fold(1.0, f64::max);
    let step =
        [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0].into_iter().find(|step| last / step <= 8.0);
    let step = step.unwrap_or(1000.0);
    let marked = (0..12).map(|index| if index == 0 { 1.0 } else { f64::from(index) * step });
    let axis = Axis::around(rounds.into_iter(), Scale::Linear, false, Rc::new(numbers::plain));
    side(axis.marked(marked.collect()), "round")
}

/// Course of the comparisons with the best arm: the most informative.
fn courses(data: &TrialData, section: &SectionData, id: &str) -> Markup {
    let mut drawings = Vec::new();
    let mut left_out = 0;
    for (place, level) in section.levels.iter().enumerate() {
        let here = forests::known_of(section).filter(|contrast| contrast.threads == *level);
        let mut contrasts: Vec<&ContrastData> = here.collect();
        let all = contrasts.len();
        contrasts.retain(|contrast| forests::has_best(section, contrast));
        contrasts.truncate(MOST_COURSES);
        left_out += all - contrasts.len();
        for contrast in contrasts {
            let drawn = contrast.course.as_ref().and_then(|of| course(data, section, contrast, of));
            drawings.extend(drawn.map(|drawn| (Some((place, *level)), contrast, drawn)));
        }
    }
    let title = |contrast: &ContrastData| forests::pair(data, contrast);
    html! {
        @if !drawings.is_empty() {
            figure.plot.wide id=(id) {
                figcaption { h4 { (COURSE.0) } p { (COURSE.1) } }
                div.grid {
                    @for (level, contrast, drawn) in &drawings { (drawing(*level, Some((contrast, &title(contrast))), drawn)) }
                }
                @if left_out > 0 { p.note { (left_out) " more comparisons are not drawn: those with the best arm are the most informative." } }
            }
        }
    }
}

fn course(
    data: &TrialData,
    section: &SectionData,
    contrast: &ContrastData,
    of: &CourseData,
) -> Option<Chart> {
    let rounds = || of.rounds.iter().map(|round| f64::from(*round));
    let points = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
        rounds().zip(values).filter_map(|(round, value)| Some((round, (*value)?))).collect()
    };
    let pairs = points(&of.pairs);
    let range = rounds().zip(&of.interval).filter_map(|(round, ends)| Some((round, (*ends)?.0, (*ends)?.1)));
    let range: Vec<(f64, f64, f64)> = range.filter(|(_, low, high)| *low > 0.0 && high.is_finite()).collect();
    // The final interval is that of the verdict, not that of the last round.
    let last = contrast.ratio.zip(rounds().next_back()).map(|(ratio, round)| (round, ratio));
    let (low, high) = forests::band(data.practical);
    let so_far = points(&of.ratio);
    let values = pairs
        .iter()
        .chain(&so_far)
        .map(|point| point.1)
        .chain(contrast.interval.into_iter().flat_map(|(low, high)| [low, high]));
    let axis = Axis::around(values.chain([low, high]), Scale::Log, false, Rc::new(numbers::ratio_digits));
    let series = vec![
        Series { name: "ratio so far".into(), points: so_far, range, is_line: true, ..Series::default() },
        Series { name: "ratio of the round".into(), points: pairs, is_marked: true, ..Series::default() },
        Series {
            name: "ratio".into(),
            points: last.into_iter().collect(),
            intervals: vec![contrast.interval],
            is_marked: true,
            ..Series::default()
        },
    ];
    let what = format!("{}, round by round", forests::pair(data, contrast));
    let drawn = chart(
        section,
        &what,
        "",
        round_side(rounds()),
        side(axis, if section.less_is_better { "ratio, less is better" } else { "ratio" }),
        series,
    )?;
    Some(Chart { band: Some((low, high)), ..drawn })
}

/// Duration of the steps around a run.
fn stages(data: &TrialData, section: &SectionData) -> Markup {
    let level = section.levels.last().copied().unwrap_or_default();
    let cells: Vec<&CellData> = cells_at(section, level).filter(|cell| !cell.stages.is_empty()).collect();
    let mut names: Vec<&str> = cells.iter().flat_map(|cell| cell.stages.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let seconds = |cell: &CellData, name: &str| {
        cell.stages.get(name).map_or_else(|| "–".into(), |seconds| numbers::nanos(seconds * 1e9))
    };
    html! {
        @if !cells.is_empty() {
            details {
                summary { "The steps around a run" }
                div.scroll tabindex="0" role="group" aria-label={ "Steps around a run of " (section.title) } {
                    table {
                        caption { "Medians, at " (threads_in_words(level)) }
                        thead { tr { th scope="col" { "arm" } @for name in &names { th scope="col" { (name) } } } }
                        tbody {
                            @for cell in &cells {
                                tr { th scope="row" { (data.arms[cell.arm]) } @for name in &names { td { (seconds(cell, name)) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
