//! `fstrial judge` on the output of other programs: each format, the messages about orders, and that all rows count.
//!
//! The files are in `fixtures/judge/`, whose `README.md` names the program that wrote each.

use crate::{
    report::words_of,
    support::{Ended, Lab},
};
use serde_json::Value;
use std::{fs, path::PathBuf};

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/judge").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A lab with these files in it.
fn lab(names: &[&str]) -> Lab {
    let lab = Lab::new();
    for name in names {
        lab.write(name, &fixture(name));
    }
    lab
}

fn judged(lab: &Lab, code: i32, words: &str) -> Ended {
    let ended = lab.run(&format!("judge {words}"));
    assert_eq!(ended.code(), code, "judge {words}: {ended:?}");
    ended
}

/// The terminal output of a command, as a snapshot.
fn shows(lab: &Lab, name: &str, code: i32, words: &str) {
    let ended = judged(lab, code, words);
    let text = format!("$ fstrial judge {words}\n{}{}[exit {code}]\n", ended.stdout, ended.stderr);
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, lab.redact(&text)));
}

fn verdict(ended: &Ended, index: usize) -> Value {
    ended.document()["verdicts"][index].clone()
}

/// Rounds of `a` and `b` as a list, with the places of both.
fn csv(rounds: usize, b: impl Fn(usize) -> f64, order: impl Fn(usize) -> (usize, usize)) -> String {
    let mut text = String::from("round,arm,value,order\n");
    for round in 0..rounds {
        let (of_a, of_b) = order(round);
        text += &format!("{round},a,100,{of_a}\n{round},b,{},{of_b}\n", b(round));
    }
    text
}

#[test]
fn judge_uses_all_rows() {
    let lab = Lab::new();
    // 110 in the first eight rounds and 60 in the other 32: a rule that looks after every round stops before it sees them.
    let late = |round| if round < 8 { 110.0 } else { 60.0 };
    let drawn = |round: usize| if [0, 3, 4, 6].contains(&(round % 7)) { (1, 2) } else { (2, 1) };
    lab.write("late.csv", &csv(40, late, drawn));
    shows(&lab, "judge-late", 0, "late.csv");
    shows(&lab, "judge-late-sequential", 0, "late.csv --sequential");
    let result = verdict(&judged(&lab, 0, "late.csv --json"), 0);
    assert_eq!((&result["verdict"], &result["rounds"]), (&"slower".into(), &40.into()), "{result}");
    lab.write("long.csv", &csv(1001, late, drawn));
    let refused = judged(&lab, 2, "long.csv --sequential");
    assert!(refused.stderr.contains("1000 at most"), "{}", refused.stderr);
}

#[test]
fn the_page_has_what_the_text_says() {
    let lab = lab(&["hyperfine.json", "rounds.csv", "export.csv"]);
    for file in ["hyperfine.json", "rounds.csv", "export.csv"] {
        let text = lab.run(&format!("judge {file}"));
        let written = lab.run(&format!("judge {file} --out {file}.html"));
        assert_eq!((written.code(), written.stdout), (text.code(), format!("{file}.html\n")));
        let page = fs::read_to_string(lab.path(&format!("{file}.html"))).unwrap();
        let words = words_of(&page);
        for line in text.stdout.lines().filter(|line| !line.starts_with("more is better")) {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&line), "{file}: {line:?} is not in {words}");
        }
        assert!(page.contains("<svg") && !words.contains("results export"), "{words}");
        assert_eq!(lab.run(&format!("judge {file} --out {file}.html")).code(), 2, "it is there already");
    }
}

#[test]
fn judge_reports_unrandomised_order() {
    let lab = Lab::new();
    let value = |round: usize| 110.0 + [0.3, 0.1, 0.7, 0.2, 0.5][round % 5];
    let message = |name: &str, text: &str, part: &str| {
        lab.write(name, text);
        let reported = judged(&lab, 0, name).stdout;
        assert!(reported.contains(part), "{name}: {reported}");
        assert_eq!(
            reported.contains("NOT RANDOMISED") || reported.contains("ORDER UNKNOWN"),
            !part.is_empty(),
            "{reported}"
        );
    };
    let same = "NOT RANDOMISED: a precedes b in every round";
    message("same.csv", &csv(12, value, |_| (1, 2)), same);
    message(
        "turns.csv",
        &csv(12, value, |round| if round % 2 == 0 { (1, 2) } else { (2, 1) }),
        "take turns at coming first",
    );
    let blocks = "NOT RANDOMISED: all of a comes before any of b";
    message("blocks.csv", &csv(12, value, |round| (round, round + 12)), blocks);
    message(
        "drawn.csv",
        &csv(12, value, |round| if [0, 3, 4, 6].contains(&(round % 7)) { (1, 2) } else { (2, 1) }),
        "",
    );
    let without = |text: &str| {
        let cut = |line: &str| format!("{}\n", line.rsplit_once(',').unwrap().0);
        text.lines().map(cut).collect::<String>()
    };
    message("unknown.csv", &without(&csv(12, value, |_| (1, 2))), "ORDER UNKNOWN");
    // All of one boot, then all of the other, as a reboot gives it.
    let mut rows: Vec<String> = (1..=12).map(|round| format!("{round},v6.12,100\n")).collect();
    rows.extend((1..=12).map(|round| format!("{round},v6.13,{}\n", value(round))));
    lab.write("boots.csv", &format!("round,arm,value\n{}", rows.concat()));
    shows(&lab, "judge-boots", 0, "boots.csv");
    let result = verdict(&judged(&lab, 0, "boots.csv --json"), 0);
    assert_eq!(result["order"], "all-of-b-first", "{result}");
}

#[test]
fn judge_reads_tables() {
    let lab = lab(&["rounds.csv", "wide.csv", "export.csv"]);
    shows(&lab, "judge-rounds", 0, "rounds.csv");
    shows(&lab, "judge-rounds-base", 0, "rounds.csv --base new --less-is-better");
    shows(&lab, "judge-wide", 0, "wide.csv");
    // Times by the names of their columns.
    let wide = fixture("wide.csv").replacen("ext4;xfs;btrfs", "ext4_seconds;xfs_seconds;btrfs_seconds", 1);
    lab.write("times.csv", &wide);
    let rates = fixture("wide.csv").replacen("ext4;xfs;btrfs", "ext4 (MB/s);xfs_ops_per_sec;btrfs_ops_s", 1);
    lab.write("rates.csv", &rates);
    for (file, expected) in
        [("wide.csv", ("faster", false)), ("times.csv", ("slower", true)), ("rates.csv", ("faster", false))]
    {
        let result = verdict(&judged(&lab, 0, &format!("{file} --json")), 0);
        assert_eq!(
            (result["verdict"].as_str(), result["less_is_better"].as_bool()),
            (Some(expected.0), Some(expected.1))
        );
    }
    shows(&lab, "judge-export", 0, "export.csv");
    shows(&lab, "judge-export-metric", 0, "export.csv --metric operation_latency_ns_p99");
    shows(&lab, "judge-export-unknown-metric", 2, "export.csv --metric p99");
    shows(&lab, "judge-unknown-base", 2, "rounds.csv --base older");
    // Tabs, other letters, a mark at the beginning: the same verdict.
    let plain = judged(&lab, 0, "rounds.csv --json").document()["verdicts"].clone();
    let text = fixture("rounds.csv");
    for (name, text) in [
        ("tabs.tsv", text.replace(',', "\t")),
        ("semicolons.csv", text.replace(',', ";")),
        ("letters.csv", text.replace("round,order,arm,value", "Round, Order ,ARM,Value")),
        ("mark.csv", format!("\u{feff}{text}")),
        ("windows.csv", text.replace('\n', "\r\n")),
    ] {
        lab.write(name, &text);
        assert_eq!(judged(&lab, 0, &format!("{name} --json")).document()["verdicts"], plain, "{name}");
    }
}

#[test]
fn judge_takes_no_column_of_keys_for_an_arm() {
    let lab = Lab::new();
    let rows: String = (0..8).map(|i| format!("6.12,{}\n6.13,{}\n", 100 + i, 140 + i)).collect();
    lab.write("kernels.csv", &format!("kernel,iops\n{rows}"));
    shows(&lab, "judge-keys", 2, "kernels.csv");
    shows(&lab, "judge-arm-column", 0, "kernels.csv --arm-column kernel --metric iops");
    shows(&lab, "judge-arm-column-unknown", 2, "kernels.csv --arm-column kernal --metric iops");
    lab.write("words.csv", &format!("fs,test,mbps\n{}", "ext4,seq,100\nxfs,seq,120\n".repeat(8)));
    shows(&lab, "judge-words", 2, "words.csv");
    // One column of words and one of numbers can be nothing else.
    lab.write("two.csv", &format!("mbps,fs\n{}", "100,ext4\n120,xfs\n".repeat(8)));
    let rounds: String = (0..8).map(|round| format!("{round},ext4,100\n{round},xfs,120\n")).collect();
    lab.write("rounds.csv", &format!("round,fs,mbps\n{rounds}"));
    lab.write("run.csv", &format!("run,fs,mbps\n{rounds}"));
    lab.write("arm.csv", &format!("mbps,arm\n{}", "100,ext4\n120,xfs\n".repeat(8)));
    lab.write("value.csv", &format!("fs,value\n{}", "ext4,100\nxfs,120\n".repeat(8)));
    lab.write("errors.csv", &format!("fs,errors\n{}", "ext4,100\nxfs,120\n".repeat(8)));
    for (message, metric) in [
        ("words.csv --arm-column fs --metric mbps", "mbps"),
        ("two.csv", "mbps"),
        ("rounds.csv", "mbps"),
        ("run.csv", "mbps"),
        ("arm.csv", "mbps"),
        ("value.csv", "value"),
        ("errors.csv", "errors"),
    ] {
        let result = verdict(&judged(&lab, 0, &format!("{message} --json")), 0);
        let figures = [&result["verdict"], &result["a"], &result["metric"]];
        assert_eq!(figures, ["faster", "xfs", metric], "{message}: {result}");
    }
    // Of times less is better, and words of which each is another name nothing.
    for name in ["seconds", "elapsed", "p99", "ms"] {
        lab.write("times.csv", &format!("fs,{name}\n{}", "ext4,100\nxfs,120\n".repeat(8)));
        let result = verdict(&judged(&lab, 0, "times.csv --json"), 0);
        assert_eq!([&result["verdict"], &result["a"]], ["slower", "xfs"], "{name}: {result}");
    }
    lab.write("days.csv", "day,mbps\n2026-11-01,100\n2026-11-02,101\n2026-11-03,102\n");
    assert!(judged(&lab, 2, "days.csv").stderr.contains("is not a number"));
}

#[test]
fn judge_reads_hyperfine_output_as_unpaired() {
    let lab = lab(&["hyperfine.json", "hyperfine-one-run.json"]);
    shows(&lab, "judge-hyperfine", 0, "hyperfine.json");
    shows(&lab, "judge-hyperfine-one-run", 3, "hyperfine-one-run.json");
    shows(&lab, "judge-hyperfine-sequential", 2, "hyperfine.json --sequential");
    let result = verdict(&judged(&lab, 0, "hyperfine.json --json"), 0);
    assert_eq!((&result["method"], &result["order"]), (&"rank-sum".into(), &"unpaired".into()), "{result}");
    // One of the twelve ended with another code than 0.
    assert_eq!(result["values"], serde_json::json!([11, 10]), "{result}");
    lab.write(
        "summary.csv",
        "command,mean,stddev,median,user,system,min,max\na,1,0.1,1,1,1,1,1\nb,2,0.1,2,2,2,2,2\n",
    );
    shows(&lab, "judge-hyperfine-csv", 2, "summary.csv");
    lab.write("summary.md", "| Command | Mean [s] |\n|:---|---:|\n| `a` | 1.2 |\n");
    let refused = judged(&lab, 2, "summary.md");
    assert!(refused.stderr.contains("hyperfine --export-json"), "{refused:?}");
}

#[test]
fn judge_reads_go_benchmarks() {
    let lab = lab(&["go-old.txt", "go-new.txt"]);
    let reported = judged(&lab, 0, "old=go-old.txt new=go-new.txt").stdout;
    assert!(
        reported.contains("Copy") && reported.contains("Repeat") && reported.contains("not randomised"),
        "{reported}"
    );
    let result = judged(&lab, 0, "old=go-old.txt new=go-new.txt --metric B/op,MB/s --json").document();
    let units: Vec<&str> =
        result["verdicts"].as_array().unwrap().iter().map(|v| v["unit"].as_str().unwrap()).collect();
    assert!(units.contains(&"B/op") && units.contains(&"MB/s"), "{result}");
    shows(&lab, "judge-go-one-side", 2, "go-old.txt");
    let line = |arm: &str, ns: u32| {
        format!("BenchmarkRun/arm={arm}/workload=append-4 1 {ns} ns/op {} op/s\n", 10_000 - 5 * ns)
    };
    let lines: String = (0..6).map(|i| line("ext4", 1000 + i) + &line("xfs", 900 + i)).collect();
    lab.write("export.txt", &format!("trial: 7\nUnit op/s better=higher\n{lines}PASS\n"));
    shows(&lab, "judge-go-export", 0, "export.txt");
    let result = verdict(&judged(&lab, 0, "export.txt --metric op/s --json"), 0);
    assert_eq!(
        (&result["verdict"], &result["less_is_better"]),
        (&"faster".into(), &false.into()),
        "{result}"
    );
}

#[test]
fn judge_reads_pgbench_sysbench_and_fio() {
    let names: Vec<String> = ["pgbench", "sysbench-fileio"]
        .iter()
        .flat_map(|tool| (1..=4).map(move |run| format!("{tool}-{run}.txt")))
        .chain(["fio-1.json", "fio-2.json", "sysbench-cpu.txt", "sysbench-memory.txt"].map(str::to_owned))
        .collect();
    let lab = lab(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let metric = |words: &str, index: usize| verdict(&judged(&lab, 3, &format!("{words} --json")), index);
    let result = metric("old=pgbench-1.txt,pgbench-2.txt new=pgbench-3.txt,pgbench-4.txt", 0);
    assert_eq!(
        (&result["metric"], &result["values"]),
        (&"tps".into(), &serde_json::json!([2, 2])),
        "{result}"
    );
    let files =
        "old=sysbench-fileio-1.txt,sysbench-fileio-2.txt new=sysbench-fileio-3.txt,sysbench-fileio-4.txt";
    let result = judged(&lab, 3, &format!("{files} --json")).document();
    assert_eq!(
        result["verdicts"].as_array().unwrap().len(),
        1,
        "reads are 0 throughout, and nothing is said about them"
    );
    assert_eq!(result["verdicts"][0]["metric"], "writes/s", "{result}");
    let result = metric("a=sysbench-cpu.txt b=sysbench-cpu.txt", 0);
    assert_eq!(
        (&result["metric"], &result["verdict"]),
        (&"events per second".into(), &"undecided".into()),
        "{result}"
    );
    let result = metric("a=sysbench-memory.txt b=sysbench-memory.txt", 0);
    assert_eq!(result["metric"], "memory operations", "{result}");
    let result = metric("ext4=fio-1.json xfs=fio-2.json", 0);
    assert_eq!((&result["workload"], &result["metric"]), (&"rw".into(), &"write.iops".into()), "{result}");
    let latency = metric("ext4=fio-1.json xfs=fio-2.json --metric write.clat_p99", 0);
    assert_eq!((&latency["unit"], &latency["less_is_better"]), (&"ns".into(), &true.into()), "{latency}");
    shows(&lab, "judge-pgbench-one-side", 2, "pgbench-1.txt");
    shows(&lab, "judge-mixed-kinds", 2, "a=pgbench-1.txt b=fio-1.json");
    shows(&lab, "judge-known-direction", 2, "a=pgbench-1.txt b=pgbench-2.txt --less-is-better");
    // Enough runs of a side decide.
    let tps = |tps: f64| {
        format!(
            "pgbench (15.14)\nlatency average = 2.000 ms\ntps = {tps} (without initial connection time)\n"
        )
    };
    for (arm, rate) in [("ext4", 500.0), ("xfs", 610.0)] {
        let runs: String = (0..5_u32).map(|run| tps(rate + f64::from(run * 7 % 5))).collect();
        lab.write(&format!("{arm}.txt"), &runs);
    }
    shows(&lab, "judge-pgbench", 0, "ext4=ext4.txt xfs=xfs.txt");
}

#[test]
fn judge_reports_table_errors() {
    let lab = Lab::new();
    for (name, text) in [
        ("judge-without-a-value-column", "round,arm,time\n1,a,1\n1,b,2\n"),
        ("judge-without-an-arm-column", "round,value\n1,1\n"),
        ("judge-with-a-decimal-comma", "a;b\n1,5;2,5\n"),
        ("judge-with-a-short-row", "round,arm,value\n1,a\n"),
        ("judge-with-two-columns-of-values", "arm,value,VALUE\na,1,2\n"),
        ("judge-with-two-arms-of-one-name", "ext4,ext4\n1,2\n"),
        ("judge-without-a-round", "round,arm,value\n,a,1\n"),
        ("judge-with-no-common-workload", "workload,arm,value\nx,a,1\ny,b,1\n"),
    ] {
        lab.write("table.csv", text);
        shows(&lab, name, 2, "table.csv");
    }
    // Without a column of rounds a list is two groups.
    let rows: String = (0..6).map(|i| format!("old,{}\nnew,{}\n", 100 + i, 120 + i)).collect();
    lab.write("groups.csv", &format!("arm,value\n{rows}"));
    shows(&lab, "judge-groups", 0, "groups.csv");
}
