//! The pictures of a workload: which there are, and what each shows.

use super::{
    data::{CellData, SectionData},
    plot,
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

/// In the order of the page.
const PICTURES: [Picture; 10] = [
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
        kind: "rounds",
        title: "How the decision was made",
        about: "Each dot is the ratio of the two arms in one round; the line is the ratio over all rounds so far and the \
                band its interval. Once the band lies clearly on one side of 1, or inside the grey band of differences that \
                do not matter, it is decided; among many comparisons it must be clearer than that.",
        is_there: |section| section.contrasts.iter().any(|contrast| contrast.course.is_some()),
    },
    Picture {
        kind: "latency",
        title: "Latency percentiles",
        about: "All runs together; bars from the least to the greatest of single runs, where every run has enough. Percentiles with fewer than ten \
                operations beyond them are left out.",
        is_there: |section| any(section, |cell| !cell.latency.is_empty()),
    },
    Picture {
        kind: "cdf",
        title: "Distribution of latencies",
        about: "The share of operations that took at most this long, all runs together.",
        is_there: |section| any(section, |cell| !cell.latency.is_empty()),
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
pub(super) fn of(section: &SectionData, at: (usize, usize)) -> Markup {
    let (trial, index) = at;
    html! {
        div.grid {
            @for Picture { kind, title, about, .. } in PICTURES.iter().filter(|picture| (picture.is_there)(section)) {
                (plot(&format!("t{trial}-s{index}-{kind}"), kind, at, title, about))
            }
        }
    }
}
