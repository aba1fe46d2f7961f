//! Limits of short runs: the ratio of their counts, a log filled for the first time, a commit.
//!
//! Every run begins on a new filesystem. The cost of a full log (writing its content back to make room), and work
//! deferred to the next commit, come after the end of a short run.

use super::{
    claim::ClaimReport,
    document::{CellReport, Document, WorkloadReport},
    numbers,
};
use fstrial_model::units::Bytes;
use fstrial_run::plan::threads_in_words;

/// Laps below which nothing is reported: little logged data hardly matters when it is written back.
const FEW: f64 = 0.01;
/// Operations of a run below which one more or less changes a rate by more than is small: 1 of 30 is 3 %.
const OPERATIONS: f64 = 30.0;
/// Operations required of a longer run.
const ENOUGH: f64 = 100.0;

/// The lines below a workload's figures.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    let arms = arms(&workload.cells);
    // Work without device writes on one arm may still be in memory there, or on all of them: work without bytes is on
    // metadata.
    let cells = || workload.cells.iter();
    let writes = cells().any(|cell| cell.device_bytes_per_operation.is_some())
        || cells().all(|cell| cell.device_share.is_none());
    // Work with a natural end has no warm-up.
    let timed =
        workload.duration_seconds.filter(|_| workload.warmup_seconds.is_some_and(|warmup| warmup > 0.0));
    let few = workload.duration_seconds.and_then(|seconds| few(&arms, seconds));
    few.into_iter().chain(laps(&arms, timed)).chain(writes.then(|| commits(&arms)).flatten()).collect()
}

/// The claim that a trial was there for, with how far its runs came.
pub fn claim_of(document: Document) -> Option<ClaimReport> {
    let mut claim = document.claim?;
    for line in document.workloads.iter().flat_map(notes) {
        // Several workloads may have the same remark.
        if !claim.notes.contains(&line) {
            claim.notes.push(line);
        }
    }
    Some(claim)
}

/// The cells of each arm, in the order of the arms.
pub(super) fn arms(cells: &[CellReport]) -> Vec<Vec<&CellReport>> {
    let mut arms: Vec<Vec<&CellReport>> = Vec::new();
    for cell in cells {
        match arms.iter_mut().find(|known| known[0].arm == cell.arm) {
            Some(known) => known.push(cell),
            None => arms.push(vec![cell]),
        }
    }
    arms
}

/// The operations of a run, on the arms that had few: the rate of n in a given time has its neighbours 1/n away, which
/// the intervals of runs that are all alike do not show.
fn few(arms: &[Vec<&CellReport>], seconds: f64) -> Option<String> {
    let of = |cells: &Vec<&CellReport>| {
        let counts = || cells.iter().filter_map(|cell| cell.operations);
        let least = counts().reduce(f64::min).filter(|least| *least < OPERATIONS)?;
        let shown = range(counts(), |count| format!("{count:.0}"))?;
        Some((least, format!("{shown} on {}", cells[0].arm)))
    };
    let (counts, parts): (Vec<f64>, Vec<String>) = arms.iter().filter_map(of).unzip();
    let least = counts.into_iter().reduce(f64::min)?.max(1.0);
    Some(format!(
        "a run has too few operations for an exact ratio ({}): one more or less is {:.0} %; runs of about {:.0} s would \
         have enough",
        parts.join(", "),
        100.0 / least,
        (seconds * ENOUGH / least).ceil(),
    ))
}

/// Progress of runs in the log, of all arms that have one, if any run ended in its first lap; with the warm-up that
/// passes it if a run measures that many seconds.
fn laps(arms: &[Vec<&CellReport>], seconds: Option<f64>) -> Option<String> {
    let is_first = |cell: &CellReport| {
        cell.log_laps.map(|within| within + cell.log_laps_before.unwrap_or_default() < 1.0)
    };
    let cells = || arms.iter().flatten();
    let firsts = cells().filter(|cell| is_first(cell) == Some(true)).filter_map(|cell| cell.log_laps);
    let least = firsts.filter(|within| *within >= FEW).reduce(f64::min)?;
    let remedy = seconds.map_or_else(String::new, |seconds| {
        format!("; a warm-up of about {} leaves that behind", numbers::wait(seconds / least))
    });
    // For levels in their first lap, or past it; with the levels, if an arm has both.
    let of = |first: bool, in_words: fn(f64) -> String| -> Vec<String> {
        let parts = arms.iter().filter_map(|cells| {
            let of_lap = || cells.iter().filter(|cell| is_first(cell) == Some(first));
            let size = Bytes(of_lap().next()?.log_bytes?).human();
            let laps = range(of_lap().filter_map(|cell| cell.log_laps), in_words)?;
            let is_split = cells.iter().any(|cell| is_first(cell) == Some(!first));
            let levels: Vec<String> = of_lap().map(|cell| threads_in_words(cell.threads)).collect();
            let at = if is_split { format!(" at {}", levels.join(", ")) } else { String::new() };
            Some(format!("{laps} on {}{at} ({size})", cells[0].arm))
        });
        parts.collect()
    };
    let first = of(true, |within| format!("{:.0} %", within * 100.0));
    let past = of(false, |within| format!("{} times", count(within)));
    let filled = format!("a run fills {}", first.join(", "));
    Some(if past.is_empty() {
        format!(
            "runs are too short to fill the journal, so their figures leave out the cost of a full \
                 one: {filled}{remedy}"
        )
    } else {
        format!(
            "only some runs are long enough to fill the journal and to include the cost of a full \
                 one: {filled}, but after the first lap it wraps {}{remedy}",
            past.join(", ")
        )
    })
}

/// The commits within a run on the arms of which most runs had none.
fn commits(arms: &[Vec<&CellReport>]) -> Option<String> {
    let of = |cells: &Vec<&CellReport>| {
        let counts = || cells.iter().filter_map(|cell| cell.commits);
        let least = counts().reduce(f64::min)?;
        Some((least, format!("{} on {}", range(counts(), count)?, cells[0].arm)))
    };
    let few = arms.iter().filter_map(of).filter(|(least, _)| *least < 0.5);
    let parts: Vec<String> = few.map(|(_, part)| part).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "runs are too short for the filesystem's own commits, and work deferred to a commit is \
                 not in their figures (a longer --duration includes it): commits in a run: {}",
            parts.join(", ")
        )
    })
}

/// `0`, `0.04`, `1.2`, `900`.
pub(super) fn count(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        ..0.095 => format!("{value:.2}"),
        ..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `0.4`, or `0.1 to 0.4`.
fn range(values: impl Iterator<Item = f64>, in_words: fn(f64) -> String) -> Option<String> {
    let (least, most) = values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    })?;
    let [least, most] = [least, most].map(in_words);
    Some(if least == most { least } else { format!("{least} to {most}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(arm: &str, threads: u16, log: Option<(f64, f64)>, commits: Option<f64>) -> CellReport {
        CellReport {
            arm: arm.into(),
            threads,
            runs: 6,
            rate: Some(1.0),
            device_bytes_per_operation: Some(4096.0),
            log_bytes: log.map(|_| 64 << 20),
            log_laps: log.map(|(_, within)| within),
            log_laps_before: log.map(|(before, _)| before),
            commits,
            ..CellReport::default()
        }
    }

    fn reported(cells: Vec<CellReport>) -> Vec<String> {
        notes(&WorkloadReport {
            name: "append-fsync".into(),
            unit: "op/s".into(),
            cells,
            ..WorkloadReport::default()
        })
    }

    #[test]
    fn warns_about_runs_within_first_journal_lap() {
        let levels = [
            cell("ext4", 1, Some((0.0, 0.04)), Some(900.0)),
            cell("xfs", 1, Some((0.3, 0.4)), None),
            cell("ext4", 4, Some((0.0, 0.31)), Some(3000.0)),
            cell("xfs", 4, Some((0.7, 0.4)), None),
        ];
        let line = "only some runs are long enough to fill the journal and to include the cost of a full one: a run fills 4 % to 31 % on ext4 (64 MiB), 40 % on \
                    xfs at 1 thread (64 MiB), but after the first lap it wraps 0.4 times on xfs at 4 threads (64 MiB)";
        assert_eq!(reported(levels.to_vec()), [line]);
        let line = "runs are too short to fill the journal, so their figures leave out the cost of a full one: a run fills 4 % to 31 % on ext4 (64 MiB), 40 % on xfs (64 MiB)";
        assert_eq!(reported(levels[..3].to_vec()), [line]);
        let timed = WorkloadReport { cells: levels[..3].to_vec(), ..WorkloadReport::default() };
        let timed = WorkloadReport { warmup_seconds: Some(0.25), duration_seconds: Some(1.0), ..timed };
        // A lap of ext4 with one thread takes 25 times as long as a run.
        assert_eq!(notes(&timed), [format!("{line}; a warm-up of about 25 s leaves that behind")]);
        let past = [cell("ext4", 1, Some((1.2, 0.1)), Some(9.0)), cell("xfs", 1, Some((0.0, 3.0)), None)];
        assert_eq!(reported(past.to_vec()), Vec::<String>::new());
        assert_eq!(
            reported(vec![cell("xfs", 1, Some((0.0, 0.009)), None), cell("jfs", 1, None, None)]),
            [""; 0]
        );
    }

    #[test]
    fn warns_about_runs_with_few_operations() {
        let cell = |arm: &str, threads, operations| CellReport {
            operations: Some(operations),
            ..cell(arm, threads, None, None)
        };
        let timed = |cells| {
            let duration_seconds = Some(0.1);
            notes(&WorkloadReport { cells, duration_seconds, ..WorkloadReport::default() })
        };
        assert_eq!(
            timed(vec![
                cell("ext4", 1, 4.0),
                cell("xfs", 1, 2.0),
                cell("ext4", 4, 31.0),
                cell("btrfs", 1, 30.0)
            ]),
            [
                "a run has too few operations for an exact ratio (4 to 31 on ext4, 2 on xfs): one more or less is \
                 50 %; runs of about 5 s would have enough"
            ]
        );
        assert_eq!(timed(vec![cell("ext4", 1, 30.0)]), [""; 0]);
        assert_eq!(
            notes(&WorkloadReport { cells: vec![cell("postmark", 1, 1.0)], ..WorkloadReport::default() }),
            [""; 0]
        );
    }

    #[test]
    fn warns_about_writing_runs_without_commits() {
        let in_memory = CellReport { device_bytes_per_operation: None, ..cell("btrfs", 1, None, Some(0.0)) };
        let rarely = vec![in_memory, cell("ext4", 1, None, Some(0.2)), cell("ext3", 1, None, Some(900.0))];
        let line = "runs are too short for the filesystem's own commits, and work deferred to a commit is not in their figures (a \
                    longer --duration includes it): commits in a run: 0 on btrfs, 0.2 on ext4";
        assert_eq!(reported(rarely), [line]);
        assert_eq!(reported(vec![cell("btrfs", 1, None, Some(1.0))]), [""; 0]);
        let nothing = CellReport { device_bytes_per_operation: None, ..cell("btrfs", 1, None, Some(0.0)) };
        assert_eq!(
            reported(vec![CellReport { device_share: Some(0.0), ..nothing.clone() }]),
            [""; 0],
            "it reads"
        );
        assert_eq!(reported(vec![nothing]).len(), 1, "it deletes, say");
    }
}
