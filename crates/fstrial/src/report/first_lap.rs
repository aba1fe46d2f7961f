//! What runs say of that ended before the filesystem's log was full for the first time, or before it committed at all.
//!
//! Every run begins on a new filesystem. What the log of one costs when it is full (writing home what is in it to make
//! room), and what another puts off to its next commit, comes later than the end of a short run.

use super::document::{CellReport, WorkloadReport};
use fstrial_model::units::Bytes;

/// Laps below which nothing is said: what a load hardly logs hardly matters when it comes home.
const FEW: f64 = 0.01;

/// The lines below a workload's figures.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    let arms = arms(&workload.cells);
    let laps: Vec<String> = arms.iter().filter_map(|cells| laps(cells)).collect();
    let commits: Vec<String> = arms.iter().filter_map(|cells| commits(cells)).collect();
    let mut lines = Vec::new();
    if !laps.is_empty() {
        lines.push(format!(
            "first lap of the log: within a run it wrapped {}; what a full log costs is not in these figures",
            laps.join(", ")
        ));
    }
    if !commits.is_empty() {
        lines.push(format!(
            "{}: what is put off until a commit is hardly in these figures",
            commits.join(", ")
        ));
    }
    lines
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

/// `0.04 to 0.4 times on xfs (64 MiB)`: of the levels at which the first lap was not over when the run ended.
fn laps(cells: &[&CellReport]) -> Option<String> {
    let in_first = |cell: &&&CellReport| {
        let within = cell.log_laps.unwrap_or_default();
        within >= FEW && within + cell.log_laps_before.unwrap_or_default() < 1.0
    };
    let found: Vec<_> = cells.iter().filter(in_first).collect();
    let size = Bytes(found.first()?.log_bytes?).human();
    let laps = range(found.iter().filter_map(|cell| cell.log_laps))?;
    Some(format!("{laps} times on {} ({size})", found[0].arm))
}

/// `no commit of btrfs`: of the levels at which most runs had none, though something was written.
fn commits(cells: &[&CellReport]) -> Option<String> {
    let is_rare = |cell: &&&CellReport| {
        let writes = cell.device_bytes_per_operation.is_some();
        writes && cell.commits.is_some_and(|commits| commits < 0.5)
    };
    let found: Vec<_> = cells.iter().filter(is_rare).collect();
    let most = found.iter().filter_map(|cell| cell.commits).reduce(f64::max)?;
    let arm = &found[0].arm;
    Some(if most > 0.0 {
        format!("a commit of {arm} in {:.0} % of the runs at most", most * 100.0)
    } else {
        format!("no commit of {arm} in any run")
    })
}

/// `0.4`, or `0.1 to 0.4`.
fn range(values: impl Iterator<Item = f64>) -> Option<String> {
    let (least, most) = values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    })?;
    let [least, most] = [least, most].map(|value| match value {
        ..0.095 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    });
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

    fn told(cells: Vec<CellReport>) -> Vec<String> {
        notes(&WorkloadReport {
            name: "append-fsync".into(),
            unit: "op/s".into(),
            cells,
            ..WorkloadReport::default()
        })
    }

    #[test]
    fn a_run_that_ends_in_the_first_lap_is_told_and_one_past_it_is_not() {
        let levels = [
            cell("ext4", 1, Some((0.0, 0.04)), Some(900.0)),
            cell("xfs", 1, Some((0.3, 0.4)), None),
            cell("ext4", 4, Some((0.0, 0.31)), Some(3000.0)),
            cell("xfs", 4, Some((0.7, 0.4)), None),
        ];
        let line = "first lap of the log: within a run it wrapped 0.04 to 0.3 times on ext4 (64 MiB), 0.4 times on xfs \
                    (64 MiB); what a full log costs is not in these figures";
        assert_eq!(told(levels.to_vec()), [line]);
        let past = [cell("ext4", 1, Some((1.2, 0.1)), Some(9.0)), cell("xfs", 1, Some((0.0, 3.0)), None)];
        assert_eq!(told(past.to_vec()), Vec::<String>::new());
        assert_eq!(told(vec![cell("xfs", 1, Some((0.0, 0.009)), None), cell("jfs", 1, None, None)]), [""; 0]);
    }

    #[test]
    fn runs_without_a_commit_are_told_if_they_wrote() {
        let rarely = vec![cell("btrfs", 1, None, Some(0.0)), cell("ext4", 1, None, Some(0.2))];
        let line = "no commit of btrfs in any run, a commit of ext4 in 20 % of the runs at most: what is put off until a \
                    commit is hardly in these figures";
        assert_eq!(told(rarely), [line]);
        assert_eq!(told(vec![cell("btrfs", 1, None, Some(1.0))]), [""; 0]);
        let reads = CellReport { device_bytes_per_operation: None, ..cell("btrfs", 1, None, Some(0.0)) };
        assert_eq!(told(vec![reads]), [""; 0]);
    }
}
