//! The pictures of a workload: which there are, and what each shows.

use super::{
    data::{CellData, SectionData, TrialData},
    forests, plot, small_plot,
};
use maud::{Markup, html};

struct Picture {
    /// Its name for the script.
    kind: &'static str,
    title: &'static str,
    about: &'static str,
    /// Whether there is anything to draw.
    is_there: fn(&SectionData) -> bool,
}

fn any(section: &SectionData, has: fn(&CellData) -> bool) -> bool {
    section.cells.iter().any(has)
}

fn has_latency(section: &SectionData) -> bool {
    any(section, |cell| !cell.latency.is_empty())
}

/// In the order of the page.
const PICTURES: [Picture; 13] = [
    Picture {
        kind: "throughput",
        title: "Throughput against threads",
        about: "The typical rate of each arm over its rounds with its 95 % interval; of fewer than six runs, their range.",
        is_there: |section| section.levels.len() > 1 && any(section, CellData::is_rated),
    },
    Picture {
        kind: "throughput",
        title: "Throughput",
        about: "The typical rate of each arm over its rounds with its 95 % interval; of fewer than six runs, their range.",
        is_there: |section| section.levels.len() == 1 && any(section, CellData::is_rated),
    },
    Picture {
        kind: "latencies",
        title: "Latency against threads",
        about: "The mean, a percentile or the greatest latency of each arm, all runs together; bars from the least to the greatest of \
                single runs, where every run has enough.",
        is_there: |section| section.levels.len() > 1 && has_latency(section),
    },
    Picture {
        kind: "tradeoff",
        title: "Throughput against latency",
        about: "A line for each arm, a point for each number of threads: what more throughput costs in latency.",
        is_there: |section| {
            section.levels.len() > 1
                && !section.less_is_better
                && has_latency(section)
                && any(section, CellData::is_rated)
        },
    },
    Picture {
        kind: "rounds",
        title: "How the decision was made",
        about: "Each dot is the ratio of the two arms in one round; the line is the ratio over all rounds so far and the \
                band its interval. Once the band lies clearly on one side of 1, or inside the grey band of differences that \
                do not matter, it is decided; among many comparisons it must be clearer than that.",
        is_there: |section| section.contrasts.iter().any(|contrast| contrast.course.is_some()),
    },
    Picture {
        kind: "runs",
        title: "Every run",
        about: "Each run by its round; point at one for its value and its place in the order of the round.",
        is_there: |section| any(section, |cell| !cell.rounds.is_empty()),
    },
    Picture {
        kind: "latency",
        title: "Latency percentiles",
        about: "All runs together; bars from the least to the greatest of single runs, where every run has enough. Percentiles with fewer than ten \
                operations beyond them are left out.",
        is_there: has_latency,
    },
    Picture {
        kind: "cdf",
        title: "Distribution of latencies",
        about: "The share of operations that took at most this long, all runs together.",
        is_there: has_latency,
    },
    Picture {
        kind: "series",
        title: "In the course of a run",
        about: "Operations a second from the start of the warm-up (shaded) on: the median round, and the range of all \
                rounds.",
        is_there: |section| any(section, |cell| cell.series.is_some()),
    },
    Picture {
        kind: "cpu",
        title: "CPU for each operation",
        about: "Time of the whole machine that was not idle, kernel threads and neighbours included.",
        is_there: |section| any(section, |cell| cell.cpu_ns.is_some()),
    },
    Picture {
        kind: "device",
        title: "Bytes to the device for each byte asked",
        about: "What was written to the device in the measured time: journal, metadata and copies included.",
        is_there: |section| any(section, |cell| cell.device_bytes.is_some()),
    },
    Picture {
        kind: "space",
        title: "Space used",
        about: "Size of the device less what was left after a run: data and the filesystem's own.",
        is_there: |section| any(section, |cell| cell.space_used_bytes.is_some()),
    },
    Picture {
        kind: "stages",
        title: "The steps around a run",
        about: "How long making, mounting and unmounting the filesystem took, laying out its files, and checking it where it is checked: medians.",
        is_there: |section| any(section, |cell| !cell.stages.is_empty()),
    },
];

/// The pictures of a section that there is something to draw on. `at`: its trial and place.
pub(super) fn of(data: &TrialData, at: (usize, usize)) -> Markup {
    let (trial, index) = at;
    let section = &data.sections[index];
    let id = |kind: &str| format!("t{trial}-s{index}-{kind}");
    html! {
        div.grid {
            @if let Some(rates) = forests::rates(data, section, &id("rates")) { (rates) }
            @for (place, Picture { kind, title, about, .. }) in PICTURES.iter().filter(|picture| (picture.is_there)(section)).enumerate() {
                @if place == 1 { @if let Some(ratios) = forests::ratios(data, section, &id("ratios")) { (ratios) } }
                (plot(&id(kind), kind, at, title, about))
            }
        }
        p.note.no-script { "More pictures are drawn by a script, and scripts do not run here; their figures follow." }
    }
}

/// Throughput and latency of all arms in all workloads, small and side by side; `None` if there is one workload only.
pub(super) fn overview(data: &TrialData, trial: usize) -> Option<Markup> {
    let has_rates = |section: &&SectionData| any(section, CellData::is_rated);
    let small = |kind: &str, (index, section): (usize, &SectionData), what: &str| {
        let title = format!("{}: {what}", section.title);
        small_plot(&format!("t{trial}-s{index}-small-{kind}"), kind, (trial, index), &title)
    };
    let rows = |kind: &'static str, what: &'static str, has: fn(&SectionData) -> bool| {
        let sections = data.sections.iter().enumerate().filter(move |(_, section)| has(section));
        sections.map(move |at| small(kind, at, what)).collect::<Vec<_>>()
    };
    (data.sections.iter().filter(has_rates).count() > 1).then(|| {
        let rates = rows("throughput", "throughput", |section| any(section, CellData::is_rated));
        let latencies = rows("latencies", "latency", has_latency);
        html! {
            section.overview {
                h3 { "All workloads at a glance" }
                div.grid.small { @for picture in &rates { (picture) } }
                @if !latencies.is_empty() { div.grid.small { @for picture in &latencies { (picture) } } }
            }
        }
    })
}
