//! Causes next to the figures of a server: bytes written to the device for each of its operations, and checkpoints.

use super::{
    document::{CellReport, WorkloadReport},
    first_lap::count,
    numbers,
};
use fstrial_run::plan::threads_in_words;

/// `written to the device while the clients ran, for each operation: ext4 11.2 KiB, xfs 9.79 KiB; …`, for each level; none where
/// nothing is known.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    if workload.served.is_none() || workload.secondary {
        return Vec::new();
    }
    let levels = workload.levels();
    let of_level = |threads: u16| {
        let cells = || workload.cells.iter().filter(move |cell| cell.threads == threads);
        let written = |cell: &CellReport| cell.device_bytes_per_operation.map(numbers::bytes);
        let said = [
            of_arms("written to the device while the clients ran, for each operation", cells(), written),
            match cells().all(|cell| cell.checkpoints == Some(0.0)) {
                true => Some("no run held a checkpoint of the server".into()),
                false => {
                    of_arms("checkpoints of the server in a run", cells(), |cell| cell.checkpoints.map(count))
                }
            },
        ];
        let said = said.into_iter().flatten().collect::<Vec<_>>().join("; ");
        let level = if levels.len() > 1 { format!("{}: ", threads_in_words(threads)) } else { String::new() };
        (!said.is_empty()).then(|| format!("{level}{said}"))
    };
    levels.iter().copied().filter_map(of_level).collect()
}

fn of_arms<'a>(
    what: &str,
    cells: impl Iterator<Item = &'a CellReport>,
    figure: impl Fn(&CellReport) -> Option<String>,
) -> Option<String> {
    let told = cells.filter_map(|cell| Some(format!("{} {}", cell.arm, figure(cell)?)));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{what}: {}", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Served;

    #[test]
    fn a_server_has_its_bytes_and_checkpoints_next_to_its_figures() {
        let cell = |arm: &str, threads, bytes, checkpoints| CellReport {
            arm: arm.into(),
            threads,
            device_bytes_per_operation: bytes,
            checkpoints,
            ..CellReport::default()
        };
        let cells = vec![
            cell("ext4", 1, Some(11_469.0), Some(0.625)),
            cell("xfs", 1, Some(10_025.0), Some(0.0)),
            cell("ext4", 8, None, None),
            cell("xfs", 8, Some(9_000.0), None),
        ];
        let served = Some(Served { durable: None });
        let workload = WorkloadReport { cells, served, ..WorkloadReport::default() };
        let lines = [
            "1 thread: written to the device while the clients ran, for each operation: ext4 11.2 KiB, xfs 9.79 KiB; checkpoints of the \
             server in a run: ext4 0.6, xfs 0",
            "8 threads: written to the device while the clients ran, for each operation: xfs 8.79 KiB",
        ];
        assert_eq!(notes(&workload), lines);
        let none = vec![cell("ext4", 1, None, Some(0.0)), cell("xfs", 1, None, Some(0.0))];
        let none = notes(&WorkloadReport { cells: none, ..workload.clone() });
        assert_eq!(none, ["no run held a checkpoint of the server"]);
        assert_eq!(notes(&WorkloadReport { secondary: true, ..workload.clone() }), [""; 0]);
        assert_eq!(notes(&WorkloadReport { served: None, ..workload }), [""; 0]);
    }
}
