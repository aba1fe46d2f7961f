//! Rules over what tools print: any rule over any bytes is a number that can be compared, or an error that can be
//! shown, soon. The first line of the input is the rule, the rest is the output; both may also be taken from the tools.
#![no_main]

use fstrial_model::workload::{
    Entry, Program,
    metric::{MetricEntry, OneOrMany, Output, Take},
};
use libfuzzer_sys::fuzz_target;
use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

/// Longest time a rule may take over an input of at most some KiB.
const SLOWEST: Duration = Duration::from_secs(5);
const TAKES: [Option<Take>; 5] = [None, Some(Take::Only), Some(Take::First), Some(Take::Last), Some(Take::Sum)];
/// The rules that ship.
static PRESETS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../workloads/real-sysbench-rndrw.toml"),
        include_str!("../../workloads/real-dd-two-writers.toml"),
        include_str!("../../workloads/real-postmark.toml"),
        include_str!("../../workloads/real-bonnie.toml"),
        include_str!("../../workloads/real-dbench.toml"),
        include_str!("../../workloads/real-fio.toml"),
    ];
    let program = |text| {
        let entry: Entry = toml::from_str(text).expect("shipped presets are read by a test");
        entry.program().expect("shipped presets are checked by a test")
    };
    texts.into_iter().map(program).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let [kind, take, rest @ ..] = bytes else { return };
    let (rule, text) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    let rule = String::from_utf8_lossy(rule).into_owned();
    let text = String::from_utf8_lossy(text).into_owned();
    let output = Output { stdout: text.clone(), stderr: text, ..Output::default() };
    let mut entry = MetricEntry {
        name: "m".into(),
        unit: Some("op/s".into()),
        take: TAKES[usize::from(*take) % TAKES.len()],
        ..MetricEntry::default()
    };
    match kind % 4 {
        0 => entry.pattern = Some(rule),
        1 => entry.pointer = Some(OneOrMany::Many(rule.split(' ').map(str::to_owned).collect())),
        2 => entry.column = Some(rule.len().try_into().unwrap_or(u32::MAX)),
        _ => {
            for rule in &PRESETS[rule.len() % PRESETS.len()].metrics {
                check(rule.pick(&output).map(|picked| picked.value).map_err(|error| error.to_string()));
            }
            return;
        }
    }
    let began = Instant::now();
    let program = Entry { command: Some(vec!["x".into()]), metrics: Some(vec![entry]), ..Entry::default() }.program();
    match program {
        Ok(program) => {
            let picked = program.pick(&output);
            check(picked.map(|picked| picked[0].value).map_err(|error| error.to_string()));
        }
        Err(error) => assert!(!error.problem.is_empty()),
    }
    assert!(began.elapsed() < SLOWEST, "took {:?}", began.elapsed());
});

fn check(picked: Result<f64, String>) {
    match picked {
        Ok(value) => assert!(value.is_finite() && value > 0.0, "{value}"),
        Err(error) => assert!(!error.is_empty()),
    }
}
