//! Numbers in the real output of tools, and rules that are refused.

use super::*;
use proptest::prelude::*;

/// A rule as a user writes it, over this standard output.
fn pick(rule: &str, stdout: &str) -> Result<f64, String> {
    let text = format!("name = 'm'\n{}{rule}", if rule.contains("unit") { "" } else { "unit = 'op/s'\n" });
    let entry: MetricEntry = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}"));
    let rule = entry.settle().map_err(|error| format!("{} [{}]", error.problem, error.hint.unwrap()))?;
    let output = Output { stdout: stdout.to_owned(), ..Output::default() };
    rule.pick(&output).map(|picked| picked.value).map_err(|error| format!("{error} [{}]", error.hint))
}

/// Asserts a refusal with these words.
fn refused(rule: &str, stdout: &str, words: &str) {
    let error = pick(rule, stdout).unwrap_err();
    assert!(error.contains(words), "{rule} over {stdout:?}: {error}");
}

/// Printed by sysbench 1.0.20.
const SYSBENCH: &str = "
File operations:
    reads/s:                      0.00
    writes/s:                     29645.73
    fsyncs/s:                     0.00

Throughput:
    read, MiB/s:                  0.00
    written, MiB/s:               463.21

General statistics:
    total time:                          1.0054s
    total number of events:              29825

Latency (ms):
         min:                                    0.02
         avg:                                    0.07
         max:                                   18.38
         95th percentile:                        0.08
         sum:                                 1991.86
";

/// Printed by two concurrent dd 9.1.
const DD: &str = "10+0 records in\n10+0 records out\n655360 bytes (655 kB, 640 KiB) copied, 0.000234468 s, 2.8 GB/s\n\
                  10+0 records in\n10+0 records out\n655360 bytes (655 kB, 640 KiB) copied, 2.5e-05 s, 26 GB/s\n";

#[test]
fn pattern_finds_single_matching_number() {
    let written = pick("scale = 1048576\npattern = 'written, MiB/s: +([0-9.]+)'", SYSBENCH).unwrap();
    assert!((written - 463.21 * 1_048_576.0).abs() < 1.0, "{written}");
    let events = pick(
        "pattern = 'total time: +(?<per>[\\d.]+)s\\s+total number of events: +(?<value>\\d+)'",
        SYSBENCH,
    );
    assert!((events.unwrap() - 29825.0 / 1.0054).abs() < 1e-6);
    refused("pattern = 'reads/s: +([0-9.]+)'", SYSBENCH, "0 cannot be compared");
    refused("pattern = 'nothing ([0-9]+)'", SYSBENCH, "matches nothing in the standard output");
    refused("pattern = '([0-9.]+)$'", SYSBENCH, "matches more than once");
    refused("pattern = '(Latency)'", SYSBENCH, "`Latency` is not a number");
    refused("pattern = 'total time: +(\\S+)'", SYSBENCH, "`1.0054s` is not a number");
    // `^` and `$` are ends of lines.
    assert_eq!(pick("pattern = '^         max: +(.*)$'", SYSBENCH), Ok(18.38));
}

#[test]
fn take_reduces_several_matches_to_one() {
    let rule = |take: &str| format!("{take}pattern = '(?<value>\\d+) bytes .*?copied, (?<per>[\\d.e+-]+) s'");
    let (one, two) = (655_360.0 / 0.000_234_468, 655_360.0 / 2.5e-5);
    assert_eq!(pick(&rule("take = 'first'\n"), DD), Ok(one));
    assert_eq!(pick(&rule("take = 'last'\n"), DD), Ok(two));
    assert_eq!(pick(&rule("take = 'sum'\n"), DD), Ok(one + two));
    refused(&rule(""), DD, "take = \"first\", \"last\" or \"sum\"");
    assert_eq!(pick("take = 'last'\npattern = '(\\S+)'", "header 5"), Ok(5.0));
    refused("take = 'sum'\npattern = '(\\S+)'", "header 5", "`header` is not a number");
    refused("take = 'sum'\npattern = '(.)'", &"1".repeat(10_001), "more than 10000 times");
}

/// dd writes its last newline separately: the lines of two may be printed before either newline.
#[test]
fn the_lines_of_two_dd_at_once_may_be_one() {
    let text = include_str!("../../../../../workloads/real-dd-two-writers.toml");
    let entry: crate::workload::Entry = toml::from_str(text).unwrap();
    let program = entry.program().unwrap();
    let written = program.metrics.iter().find(|metric| metric.name == "written").unwrap();
    let line = "33554432 bytes (34 MB, 32 MiB) copied, 0.5 s, 67 MB/s";
    for stderr in [format!("{line}\n{line}\n"), format!("{line}{line}\n\n")] {
        let output = Output { stderr, ..Output::default() };
        let picked = written.pick(&output).unwrap();
        assert_eq!(picked.value, 2.0 * 67_108_864.0, "{output:?}");
    }
}

#[test]
fn json_is_found_after_notes_and_followed_by_pointers() {
    let fio = "note: both iodepth >= 1 and synchronous I/O engine are selected\n{\n\"jobs\" : [\n{\"write\" : {\"iops\" : 2.5,
        \"clat_ns\" : {\"percentile\" : {\"99.000000\" : 329728}}}}, {\"write\" : {\"iops\" : 4}, \"a/b\" : {\"~\" : \"7\"}}]}\n";
    assert_eq!(pick("take = 'sum'\npointer = '/jobs/*/write/iops'", fio), Ok(6.5));
    assert_eq!(pick("pointer = '/jobs/1/write/iops'", fio), Ok(4.0));
    assert_eq!(pick("pointer = ['/jobs/0/write/iops', '/jobs/1/write/iops']", fio), Ok(6.5));
    assert_eq!(pick("pointer = '/jobs/0/write/clat_ns/percentile/99.000000'", fio), Ok(329_728.0));
    assert_eq!(pick("pointer = '/jobs/1/a~1b/~0'", fio), Ok(7.0));
    refused("pointer = '/jobs/*/write/iops'", fio, "more than once");
    refused("pointer = '/jobs/2/write/iops'", fio, "leads nowhere");
    refused("pointer = '/jobs/01x'", fio, "leads nowhere");
    refused("pointer = '/jobs/0'", fio, "leads to an object");
    refused("pointer = '/a'", "no json", "there is no JSON in the standard output");
    refused("pointer = '/a'", "{\"a\": 1", "cannot be read");
    refused("pointer = '/a'", &"[".repeat(100_000), "cannot be read");
    assert_eq!(pick("pointer = '/a'", "{\"a\": 1}\n{\"a\": 2}"), Ok(1.0), "the first document");
}

#[test]
fn columns_of_bonnie_are_counted_from_one() {
    // Printed by bonnie++ 2.00a for 8 MiB.
    let csv = "1.98,2.00a,arm,1,1795315436,8M,,8192,5,686,50,+++++,+++,+++++,+++,1615,72,+++++,+++,+++++,+++,1,,,,,\n";
    assert_eq!(pick("scale = 1024\ncolumn = 10", csv), Ok(686.0 * 1024.0));
    refused("column = 12", csv, "too short to be rated by bonnie++");
    refused("column = 7", csv, "there is no number");
    refused("column = 6", csv, "`8M` is not a number");
    refused("column = 60", csv, "no line of the standard output has 60 columns");
    assert_eq!(pick("take = 'last'\ncolumn = 2", "name,rate\nx,\"5\"\n"), Ok(5.0));
    refused("column = 2", "name,rate\nx,5\n", "more than once");
}

#[test]
fn only_finite_numbers_above_zero_can_be_compared() {
    for text in ["inf", "nan", "NaN", "0x10", "1,000", "1_000", "", "1.2.3", "--1", "infinity", "e"] {
        assert!(pick("pattern = '^(.*)$'", text).is_err(), "{text}");
    }
    for text in ["0", "-1", "0.0", "-0", "1e-400"] {
        refused("pattern = '^(.*)$'", text, "cannot be compared");
    }
    refused("pattern = '^(.*)$'", "1e999", "is not a number");
    refused("scale = 1e300\npattern = '^(.*)$'", "1e300", "cannot be compared");
    refused("pattern = '(?<value>1) (?<per>0)'", "1 0", "cannot be compared");
    assert_eq!(pick("pattern = '^(.*)$'", " 1.5e3 "), Ok(1500.0));
}

#[test]
fn measured_numbers_have_their_own_unit() {
    let entry: MetricEntry = toml::from_str("name = 'cpu'\nmeasure = 'cpu'").unwrap();
    let rule = entry.settle().unwrap();
    assert_eq!((rule.unit.as_str(), rule.better), ("ns", Better::Lower));
    let output = Output { cpu: Nanos(5), wall: Nanos(7), memory: Bytes(9), ..Output::default() };
    assert_eq!(rule.pick(&output).unwrap().value, 5.0);
    refused("unit = 's'\nmeasure = 'wall'", "", "it is measured in ns");
    refused("unit = 'ns'\nmeasure = 'wall'\nscale = 1e-9", "", "printed output");
}

#[test]
fn invalid_metric_rules_are_refused() {
    for (rule, words) in [
        ("", "the place of the number needs to be given exactly once"),
        ("pattern = '(a)'\ncolumn = 1", "exactly once"),
        ("pattern = 'a'", "has no group"),
        ("pattern = '(a)(b)'", "several groups"),
        ("pattern = '(?<rate>a)'", "several groups"),
        ("pattern = '(a'", "does not compile: unclosed group"),
        ("pattern = '(\\w{1000}{1000})'", "grows too large"),
        ("pattern = '(a)\\1'", "backreferences are not supported"),
        ("pointer = 'jobs/0'", "is not a JSON pointer"),
        ("pointer = []", "1 to 16 pointers"),
        ("column = 0", "count from 1"),
        ("column = 1\nscale = 0", "must be above 0"),
        ("column = 1\nscale = -1", "must be above 0"),
        ("column = 1\nscale = inf", "must be above 0"),
        ("column = 1\nfrom = 'out.txt'", "there is no `out.txt` to read from"),
        ("column = 1\nfrom = 'file:/etc/passwd'", "is not in the program's directory"),
        ("column = 1\nfrom = 'file:../x'", "is not in"),
        ("column = 1\nfrom = 'file:'", "is not in"),
        ("unit = ''\ncolumn = 1", "not valid as a unit"),
    ] {
        refused(rule, "", words);
    }
    let long = format!("pattern = '({})'", "a".repeat(5000));
    refused(&long, "", "the pattern has 5002 bytes");
    let entry = MetricEntry { name: "m".into(), column: Some(1), ..MetricEntry::default() };
    assert!(entry.settle().unwrap_err().problem.contains("it has no unit"));
    let entry = MetricEntry { name: "a@b".into(), measure: Some(Measure::Wall), ..MetricEntry::default() };
    assert!(entry.settle().unwrap_err().problem.contains("not valid as a name"));
}

#[test]
fn pathological_pattern_matches_in_linear_time() {
    let text = "a".repeat(1 << 20);
    refused("pattern = '^(?:a+)+(b)$'", &text, "matches nothing");
}

proptest! {
    #[test]
    fn a_printed_number_is_read_back(value in 1e-9_f64..1e18) {
        prop_assert_eq!(pick("pattern = 'v=(\\S+)'", &format!("x\nv={value}\ny")), Ok(value));
        // serde_json may be off in the last bit.
        let json = pick("pointer = '/v'", &format!("{{\"v\": {value:e}}}")).unwrap();
        prop_assert!((json / value - 1.0).abs() < 1e-15, "{}", json);
        prop_assert_eq!(pick("column = 2", &format!("x,{value}")), Ok(value));
    }

    #[test]
    fn sums_are_those_of_a_loop(values in prop::collection::vec(1_u32..1000, 1..50)) {
        let text: String = values.iter().map(|value| format!("n {value}\n")).collect();
        let sum = f64::from(values.iter().sum::<u32>());
        prop_assert_eq!(pick("take = 'sum'\npattern = '^n (.*)$'", &text), Ok(sum));
        prop_assert_eq!(pick("take = 'sum'\npointer = '/*'", &format!("{values:?}")), Ok(sum));
    }

    #[test]
    fn any_rule_over_any_text_is_a_number_or_an_error(
        pattern in "[a-z0-9().*+?|^$\\[\\]{},\\\\]{0,20}", pointer in "[/a-z0-9*~]{0,12}", text in ".{0,200}",
    ) {
        let entry = |pattern, pointer| MetricEntry {
            name: "m".into(), unit: Some("x".into()), pattern, pointer, take: Some(Take::Sum), ..MetricEntry::default()
        };
        let output = Output { stdout: text, ..Output::default() };
        for entry in [entry(Some(pattern), None), entry(None, Some(OneOrMany::One(pointer)))] {
            if let Ok(rule) = entry.settle() {
                let _ = rule.pick(&output);
            }
        }
    }
}

#[test]
fn percentiles_cover_all_matches() {
    let lines: String = (1..=200).rev().map(|number| format!("{number}\n")).collect();
    for (take, expected) in [("p50", 100.0), ("p95", 190.0), ("p99", 198.0)] {
        assert_eq!(pick(&format!("take = '{take}'\npattern = '^(\\d+)$'"), &lines), Ok(expected), "{take}");
        assert_eq!(pick(&format!("take = '{take}'\ncolumn = 1"), &lines), Ok(expected), "{take}");
        let counted = format!("take = '{take}'\npattern = '^ *(?<times>\\d+) (?<value>\\d+)$'");
        assert_eq!(pick(&counted, "  1 1000\n 98 7\n  1 8\n"), Ok(if take == "p99" { 8.0 } else { 7.0 }));
    }
    refused("take = 'p99'\npattern = '^(\\d+)$'", "1\n2\n", "2 numbers have no percentile like that");
    refused("take = 'p99'\npattern = '^(\\d+)$'", "", "matches nothing");
    refused("pattern = '^(?<times>\\d+) (?<value>\\d+)$'", "", "only a percentile");
}
