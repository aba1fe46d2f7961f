//! Whether the device took part: what a load reads from the page cache, or leaves in it, says nothing about a disk.

use super::document::{CellReport, WorkloadReport};

/// Below this share of what the load read and wrote, the device hardly took part.
const LITTLE: f64 = 0.05;

/// The line below a workload's figures, where the device took part in a twentieth of it at most.
pub fn note(workload: &WorkloadReport) -> Option<String> {
    let known: Vec<(&CellReport, f64)> =
        workload.cells.iter().filter_map(|cell| Some((cell, cell.device_share?))).collect();
    let little: Vec<_> = known.iter().filter(|(_, share)| *share < LITTLE).collect();
    let most = little.iter().map(|(_, share)| *share).reduce(f64::max)?;
    let percent = if most < 0.005 { "0".into() } else { format!("up to {:.0}", most * 100.0) };
    let mut arms: Vec<&str> = Vec::new();
    for (cell, _) in &little {
        if !arms.contains(&cell.arm.as_str()) {
            arms.push(&cell.arm);
        }
    }
    let on = if little.len() == known.len() { String::new() } else { format!(" on {}", arms.join(", ")) };
    Some(format!(
        "of what was read and written{on}, {percent} % passed the device: this compares memory and CPU, not disks"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(shares: &[(&str, Option<f64>)]) -> Option<String> {
        let cell = |(arm, device_share): &(&str, Option<f64>)| CellReport {
            arm: (*arm).into(),
            device_share: *device_share,
            ..CellReport::default()
        };
        note(&WorkloadReport { cells: shares.iter().map(cell).collect(), ..WorkloadReport::default() })
    }

    #[test]
    fn a_load_that_stays_in_memory_is_told_and_one_that_reaches_the_device_is_not() {
        assert_eq!(
            said(&[("ext4", Some(0.0004)), ("xfs", Some(0.0))]).unwrap(),
            "of what was read and written, 0 % passed the device: this compares memory and CPU, not disks"
        );
        assert_eq!(
            said(&[("ext4", Some(0.9)), ("xfs", Some(0.02)), ("xfs", Some(0.03))]).unwrap(),
            "of what was read and written on xfs, up to 3 % passed the device: this compares memory and CPU, not disks"
        );
        assert_eq!(said(&[("ext4", Some(1.2)), ("xfs", None)]), None);
        assert_eq!(said(&[("a", None)]), None, "a directory has no counters");
    }
}
