//! Causes next to the figures of a server or an engine: bytes written to the device for each of its operations, and checkpoints.

use super::{
    document::{CellReport, WorkloadReport},
    first_lap::count,
    numbers,
    together::Together,
};
use fstrial_run::plan::threads_in_words;
use std::collections::BTreeSet;

/// From this share of the measured time on, the spread of the clients' start is reported.
const SPREAD: f64 = 0.05;

/// `written to the device while the clients ran, for each operation: ext4 11.2 KiB, xfs 9.79 KiB; …`, for each level;
/// none if unknown.
pub fn notes(workload: &WorkloadReport) -> Vec<String> {
    let Some(served) = workload.served.as_ref().filter(|_| !workload.secondary) else {
        return of_clients(workload);
    };
    // An engine's settings are determined by fstrial.
    let kept = served.data.as_ref().zip(served.durable.as_ref());
    let kept = kept.map(|(data, durable)| format!("{data}; durable: {durable}"));
    let levels = workload.levels();
    let of_level = |threads: u16| {
        let cells = || workload.cells.iter().filter(move |cell| cell.threads == threads);
        let written = |cell: &CellReport| cell.device_bytes_per_operation.map(numbers::bytes);
        let parts = [
            of_arms("written to the device while the clients ran, for each operation", cells(), written),
            match cells().all(|cell| cell.checkpoints == Some(0.0)) {
                true => Some("no run held a checkpoint".into()),
                false => of_arms("checkpoints in a run", cells(), |cell| cell.checkpoints.map(count)),
            },
            of_arms("compactions in a run", cells(), |cell| cell.compactions.map(count)),
        ];
        let kinds = of_kinds(cells());
        let parts = parts.into_iter().flatten().chain(kinds).collect::<Vec<_>>().join("; ");
        let level = (levels.len() > 1).then(|| threads_in_words(threads));
        let phase = served.data.as_ref().map(|_| workload.phase.clone()).filter(|phase| !phase.is_empty());
        let of: Vec<String> = phase.into_iter().chain(level).collect();
        let level = if of.is_empty() { String::new() } else { format!("{}: ", of.join(", ")) };
        let lines = [Some(parts).filter(|parts| !parts.is_empty()), by_load(cells())];
        lines.into_iter().flatten().map(|line| format!("{level}{line}")).collect::<Vec<_>>()
    };
    kept.into_iter().chain(levels.iter().copied().flat_map(of_level)).collect()
}

/// `ior-hard, write: 16 clients, each with 1 thread, began within dir:a 2.6 ms, dir:b 2.8 ms (clocks ±3 µs); the slowest had a rate of …`.
fn of_clients(workload: &WorkloadReport) -> Vec<String> {
    let of_level = |threads: u16| {
        let cells = || workload.cells.iter().filter(move |cell| cell.threads == threads);
        let known = || cells().filter_map(|cell| cell.together.as_ref());
        let doubt = known().map(|together| together.start_doubt_ns).fold(0.0, f64::max);
        let by_arm = |figure: &dyn Fn(&Together) -> String| {
            let of = |cell: &CellReport| Some(format!("{} {}", cell.arm, figure(cell.together.as_ref()?)));
            cells().filter_map(of).collect::<Vec<_>>().join(", ")
        };
        let most = known().map(|together| together.start_spread_share).fold(0.0, f64::max);
        let short = match most > SPREAD {
            true => format!(
                "; that they began apart is up to {:.0} % of the time: give each more to do (files, file_size, duration)",
                100.0 * most
            ),
            false => String::new(),
        };
        Some(format!(
            "{}: {} clients on {}, each with {}, began within {} (clocks ±{}); the slowest had {} of their mean rate{short}",
            workload.title(),
            known().next()?.clients,
            hosts_of(known()),
            threads_in_words(threads),
            by_arm(&|together| numbers::nanos(together.start_spread_ns)),
            numbers::nanos(doubt),
            by_arm(&|together| format!("{:.0} %", 100.0 * together.slowest_share)),
        ))
    };
    workload.levels().into_iter().filter_map(of_level).collect()
}

/// `3 hosts`, or `2 to 3 hosts` where runs were not alike.
fn hosts_of<'a>(known: impl Iterator<Item = &'a Together>) -> String {
    let hosts: Vec<f64> = known.map(|together| together.hosts).collect();
    let (least, most) =
        (hosts.iter().copied().fold(f64::INFINITY, f64::min), hosts.iter().copied().fold(0.0, f64::max));
    match most {
        1.0 => "one host".into(),
        _ if least < most => format!("{least} to {most} hosts"),
        _ => format!("{most} hosts"),
    }
}

/// `throughput on each load: xfs / ext4 1.18, 1.21, 0.97 (not on one side)`: typical figures over those of the first
/// arm that has any; none with fewer than two loads.
fn by_load<'a>(mut cells: impl Iterator<Item = &'a CellReport>) -> Option<String> {
    let has_any = |cell: &&CellReport| cell.rate_by_load.iter().any(Option::is_some);
    let base = cells.find(has_any).filter(|cell| cell.rate_by_load.len() > 1)?;
    let over_base = |cell: &CellReport| {
        let two = cell.rate_by_load.iter().zip(&base.rate_by_load);
        let ratios: Vec<Option<f64>> = two.map(|(a, b)| Some((*a)? / (*b)?)).collect();
        let known = || ratios.iter().copied().flatten();
        known().next()?;
        let parts = ratios.iter().map(|ratio| ratio.map_or("–".into(), |ratio| format!("{ratio:.2}")));
        let is_split = known().any(|ratio| ratio < 1.0) && known().any(|ratio| ratio > 1.0);
        let split = if is_split { " (not on one side)" } else { "" };
        Some(format!("{} / {} {}{split}", cell.arm, base.arm, parts.collect::<Vec<_>>().join(", ")))
    };
    let parts: Vec<String> = cells.filter_map(over_base).collect();
    (!parts.is_empty()).then(|| format!("throughput on each load: {}", parts.join("; ")))
}

/// `p50 and p99 of read: ext4 3.1 µs, 9.2 µs · xfs …`, for each kind of operation; none of a workload that has only one.
fn of_kinds<'a>(cells: impl Iterator<Item = &'a CellReport> + Clone) -> Vec<String> {
    let kinds: BTreeSet<&String> = cells.clone().flat_map(|cell| cell.latency_of_kinds_ns.keys()).collect();
    let of = |kind: &String| {
        let parts = |cell: &CellReport| {
            let [p50, p99, _] = *cell.latency_of_kinds_ns.get(kind)?;
            let known = |ns: Option<f64>| ns.map_or("–".into(), numbers::nanos);
            Some(format!("{} {}, {}", cell.arm, known(p50), known(p99)))
        };
        let parts: Vec<String> = cells.clone().filter_map(parts).collect();
        format!("p50 and p99 of {kind}: {}", parts.join(" · "))
    };
    kinds.iter().filter(|_| kinds.len() > 1).map(|kind| of(kind)).collect()
}

fn of_arms<'a>(
    what: &str,
    cells: impl Iterator<Item = &'a CellReport>,
    figure: impl Fn(&CellReport) -> Option<String>,
) -> Option<String> {
    let parts = cells.filter_map(|cell| Some(format!("{} {}", cell.arm, figure(cell)?)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{what}: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Served;

    #[test]
    fn server_notes_list_device_bytes_and_checkpoints() {
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
        let served = Some(Served::default());
        let workload = WorkloadReport { cells, served, ..WorkloadReport::default() };
        let lines = [
            "1 thread: written to the device while the clients ran, for each operation: ext4 11.2 KiB, xfs 9.79 KiB; checkpoints in a \
             run: ext4 0.6, xfs 0",
            "8 threads: written to the device while the clients ran, for each operation: xfs 8.79 KiB",
        ];
        assert_eq!(notes(&workload), lines);
        let engine = Served { durable: Some("each write".into()), data: Some("9 records".into()) };
        let engine = WorkloadReport { served: Some(engine), ..workload.clone() };
        assert_eq!(notes(&engine)[0], "9 records; durable: each write");
        let on_loads = |rates: [&[Option<f64>]; 2]| {
            let cells = ["ext4", "xfs"]
                .iter()
                .zip(rates)
                .map(|(arm, rates)| CellReport { rate_by_load: rates.to_vec(), ..cell(arm, 1, None, None) });
            notes(&WorkloadReport { cells: cells.collect(), ..workload.clone() })
        };
        let (ext4, none) = ([Some(100.0), Some(200.0)], [Some(100.0), None]);
        assert_eq!(on_loads([&ext4, &[Some(120.0), None]]), ["throughput on each load: xfs / ext4 1.20, –"]);
        let split = "throughput on each load: xfs / ext4 1.20, 0.99 (not on one side)";
        assert_eq!(on_loads([&ext4, &[Some(120.0), Some(198.0)]]), [split]);
        assert_eq!(on_loads([&none, &[None, Some(198.0)]]), [""; 0]);
        assert_eq!(on_loads([&ext4[..1], &ext4[..1]]), [""; 0]);
        let none = vec![cell("ext4", 1, None, Some(0.0)), cell("xfs", 1, None, Some(0.0))];
        let none = notes(&WorkloadReport { cells: none, ..workload.clone() });
        assert_eq!(none, ["no run held a checkpoint"]);
        assert_eq!(notes(&WorkloadReport { secondary: true, ..workload.clone() }), [""; 0]);
        assert_eq!(notes(&WorkloadReport { served: None, ..workload }), [""; 0]);
    }
}
