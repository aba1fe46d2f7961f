//! The answer in a few lines: who leads, who is behind, who could not be told apart.

use super::{
    document::{CellReport, Document, VerdictReport, WorkloadReport},
    numbers,
};
use crate::run::{
    contrast::{ContrastState, Outcome},
    plan::threads_in_words,
};
use fstrial_model::metric::Metric;

/// Who won a workload at a level.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    /// The workload, or one of its phases.
    pub workload: &'a WorkloadReport,
    pub threads: u16,
    /// Arms that none was found to be ahead of, in their order; never empty.
    pub leading: Vec<&'a str>,
    /// Whether all of those are equivalent to each other; false for a single one.
    pub equivalent: bool,
    /// Whether any of those were compared with each other: with a baseline, others are not.
    pub compared: bool,
    /// The others, each with its ratio to the first that leads.
    pub behind: Vec<(&'a str, Option<Ratio>)>,
    /// Arms that failed, or cannot do it.
    pub out: Vec<&'a str>,
    /// Whether any two of its arms are of unequal durability.
    pub unequal: bool,
}

/// A ratio with its interval, if there is one yet.
pub type Ratio = (f64, Option<(f64, f64)>);

/// One line for each workload and level: `random-write, 1 thread: xfs leads; ext4 has 0.74× its throughput`.
pub fn lines(document: &Document) -> Vec<String> {
    standings(document).iter().map(Standing::line).collect()
}

/// Who won each workload at each level, where anything is known.
pub fn standings(document: &Document) -> Vec<Standing<'_>> {
    document.workloads.iter().flat_map(standings_of).collect()
}

/// Who won a workload at each of its levels, where anything is known.
pub fn standings_of(workload: &WorkloadReport) -> Vec<Standing<'_>> {
    workload.levels().into_iter().flat_map(|threads| of_level(workload, threads)).collect()
}

/// One, or with leads one for each place: arms at different places are not compared.
fn of_level(workload: &WorkloadReport, threads: u16) -> Vec<Standing<'_>> {
    let mut places: Vec<Option<&str>> = Vec::new();
    for cell in &workload.cells {
        let place = cell.place.as_deref().filter(|_| !workload.leads.is_empty());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let at = |place| of_level_at(workload, threads, place);
    places.into_iter().filter_map(at).collect()
}

fn of_level_at<'a>(workload: &'a WorkloadReport, threads: u16, place: Option<&str>) -> Option<Standing<'a>> {
    let of_level = |report: &&VerdictReport| {
        report.contrast.threads == threads && report.contrast.metric == Metric::Throughput
    };
    let reports: Vec<&VerdictReport> = workload.verdicts.iter().filter(of_level).collect();
    let is_there = |cell: &&CellReport| place.is_none() || cell.place.as_deref() == place;
    let cells: Vec<&CellReport> =
        workload.cells.iter().filter(|cell| cell.threads == threads).filter(is_there).collect();
    let is_of_these = |state: &&ContrastState| cells.iter().any(|cell| cell.arm == state.a);
    let verdicts: Vec<&ContrastState> =
        reports.iter().map(|report| &report.contrast).filter(is_of_these).collect();
    if verdicts.iter().all(|state| state.ratio.is_none()) {
        return None;
    }
    let (able, out): (Vec<_>, Vec<_>) =
        cells.into_iter().partition(|cell| !cell.failed && cell.cannot.is_none());
    let (behind, leading): (Vec<&str>, Vec<&str>) =
        able.iter().map(|cell| cell.arm.as_str()).partition(|arm| is_behind(arm, &verdicts));
    let first = *leading.first()?;
    Some(Standing {
        workload,
        threads,
        equivalent: leading.len() > 1 && are_equivalent(&leading, &verdicts),
        compared: are_compared(&leading, &verdicts),
        behind: behind.into_iter().map(|arm| (arm, ratio_to(&verdicts, arm, first))).collect(),
        out: out.iter().map(|cell| cell.arm.as_str()).collect(),
        unequal: reports.iter().any(|report| report.unequal_durability.is_some()),
        leading,
    })
}

impl Standing<'_> {
    /// Who leads, in words.
    pub fn leaders(&self) -> String {
        match self.leading.as_slice() {
            [one] => format!("{one} leads"),
            several if self.equivalent => format!("{} are equivalent", several.join(" and ")),
            several if self.compared => format!("{} could not be told apart", several.join(" and ")),
            several => format!("{} lead, not compared with each other", several.join(" and ")),
        }
    }

    /// All of it in a line.
    fn line(&self) -> String {
        let first = self.leading[0];
        let mut parts = vec![self.leaders()];
        parts.extend(self.behind.iter().map(|(arm, ratio)| match ratio {
            Some((ratio, _)) if self.workload.less_is_better => {
                format!("{arm} takes {} what {first} takes", numbers::ratio(*ratio))
            }
            Some((ratio, _)) => format!("{arm} has {} the throughput of {first}", numbers::ratio(*ratio)),
            None => format!("{arm} is behind"),
        }));
        if !self.out.is_empty() {
            parts.push(format!("without {}", self.out.join(" and ")));
        }
        let unequal = if self.unequal { " (UNEQUAL DURABILITY)" } else { "" };
        let (title, level) = (self.workload.title(), threads_in_words(self.threads));
        format!("{title}, {level}: {}{unequal}", parts.join("; "))
    }
}

/// Whether any other arm was found to be faster.
fn is_behind(arm: &str, verdicts: &[&ContrastState]) -> bool {
    verdicts.iter().any(|state| {
        (state.a == arm && state.verdict == Outcome::Slower)
            || (state.b == arm && state.verdict == Outcome::Faster)
    })
}

/// Whether every two of the arms were found to be equivalent. With a baseline others are not compared with each other.
fn are_equivalent(arms: &[&str], verdicts: &[&ContrastState]) -> bool {
    let found = |one: &str, other: &str| {
        verdicts.iter().any(|state| {
            [(one, other), (other, one)].contains(&(state.a.as_str(), state.b.as_str()))
                && state.verdict == Outcome::Equivalent
        })
    };
    arms.iter().enumerate().all(|(index, one)| arms[..index].iter().all(|other| found(one, other)))
}

/// Whether any two of the arms were compared with each other.
fn are_compared(arms: &[&str], verdicts: &[&ContrastState]) -> bool {
    verdicts.iter().any(|state| arms.contains(&state.a.as_str()) && arms.contains(&state.b.as_str()))
}

/// The ratio of an arm to another, whichever way round the contrast is.
fn ratio_to(verdicts: &[&ContrastState], arm: &str, other: &str) -> Option<Ratio> {
    verdicts.iter().find_map(|state| match (state.a.as_str(), state.b.as_str()) {
        (a, b) if (a, b) == (arm, other) => Some((state.ratio?, state.interval)),
        (a, b) if (b, a) == (arm, other) => {
            Some((1.0 / state.ratio?, state.interval.map(|(low, high)| (1.0 / high, 1.0 / low))))
        }
        _ => None,
    })
}
