//! Detects loads that bypass the device: reads from the page cache, and writes left in it, do not measure a disk.

use super::{document::WorkloadReport, first_lap};

/// Below this share of the bytes that the load read and wrote, the device hardly took part.
const LITTLE: f64 = 0.05;

/// The line below a workload's figures, where the device took part in a twentieth of it at most.
pub(crate) fn note(workload: &WorkloadReport) -> Option<String> {
    if !workload.cells.is_empty() && workload.cells.iter().all(|cell| cell.device_idle) {
        return Some(
            "this compares memory and CPU, not disks: not a byte went to the device or came from it in most runs".into(),
        );
    }
    let is_little = |share: &f64| *share < LITTLE;
    let shares = || workload.cells.iter().filter_map(|cell| cell.device_share);
    let most = shares().filter(is_little).reduce(f64::max)?;
    let percent =
        if most < 0.005 { "less than 0.5".into() } else { format!("at most {:.0}", (most * 100.0).ceil()) };
    let on = if shares().all(|share| is_little(&share)) {
        String::new()
    } else {
        let mut arms = first_lap::arms(&workload.cells);
        arms.retain(|cells| cells.iter().any(|cell| cell.device_share.as_ref().is_some_and(is_little)));
        let arms: Vec<&str> = arms.iter().map(|cells| cells[0].arm.as_str()).collect();
        format!(" on {}", arms.join(", "))
    };
    Some(format!(
        "this compares memory and CPU{on}, not disks: of the bytes read and written, {percent} % went to the device or came from it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::CellReport;

    fn message(shares: &[(&str, Option<f64>)]) -> Option<String> {
        let cell = |(arm, device_share): &(&str, Option<f64>)| CellReport {
            arm: (*arm).into(),
            device_share: *device_share,
            ..CellReport::default()
        };
        note(&WorkloadReport { cells: shares.iter().map(cell).collect(), ..WorkloadReport::default() })
    }

    #[test]
    fn warns_only_about_in_memory_loads() {
        assert_eq!(
            message(&[("ext4", Some(0.0004)), ("xfs", Some(0.0))]).unwrap(),
            "this compares memory and CPU, not disks: of the bytes read and written, less than 0.5 % went to the device or came \
             from it"
        );
        assert_eq!(
            message(&[("ext4", Some(0.9)), ("xfs", Some(0.02)), ("xfs", Some(0.024))]).unwrap(),
            "this compares memory and CPU on xfs, not disks: of the bytes read and written, at most 3 % went to the device or \
             came from it"
        );
        assert_eq!(message(&[("ext4", Some(1.2)), ("xfs", None)]), None);
        assert_eq!(message(&[("a", None)]), None, "a directory has no counters");
        let cell = |device_idle: bool| CellReport { device_idle, ..CellReport::default() };
        let of = |cells: Vec<CellReport>| note(&WorkloadReport { cells, ..WorkloadReport::default() });
        assert!(of(vec![cell(true), cell(true)]).unwrap().ends_with("came from it in most runs"));
        assert_eq!(of(vec![cell(true), cell(false)]), None);
    }
}
