//! Formats of measurement files.

use clap::ValueEnum;

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table with a line of names: columns arm and value, or a column for each arm; exports of fstrial.
    Csv,
    /// Output of `hyperfine --export-json`.
    Hyperfine,
    /// Output of `go test -bench`.
    Go,
    /// Output of pgbench.
    Pgbench,
    /// Output of sysbench.
    Sysbench,
    /// Output of fio with `--output-format=json`.
    Fio,
}

impl Format {
    /// The word on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Hyperfine => "hyperfine",
            Self::Go => "go",
            Self::Pgbench => "pgbench",
            Self::Sysbench => "sysbench",
            Self::Fio => "fio",
        }
    }

    /// Its name, in a sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Hyperfine => "hyperfine's JSON",
            Self::Go => "Go benchmark text",
            Self::Pgbench => "pgbench's output",
            Self::Sysbench => "sysbench's output",
            Self::Fio => "fio's JSON",
        }
    }

    /// The format of a text. Anything unrecognised is a table.
    pub(super) fn of(text: &str) -> Self {
        let begins = |words: &[&str]| {
            text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)))
        };
        // fio may print notes before its JSON.
        if text.contains("\"fio version\"") {
            Self::Fio
        } else if text.trim_start().starts_with('{') {
            Self::Hyperfine
        } else if begins(&["sysbench ", "General statistics:", "SQL statistics:"]) {
            Self::Sysbench
        } else if begins(&["pgbench (", "tps = ", "number of transactions actually processed:"]) {
            Self::Pgbench
        } else if text.lines().any(is_go_benchmark) {
            Self::Go
        } else {
            Self::Csv
        }
    }
}

/// `BenchmarkName-8  100  12.5 ns/op`.
fn is_go_benchmark(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(|name| name.starts_with("Benchmark"))
        && words.next().is_some_and(|count| count.parse::<u64>().is_ok())
        && words.next().is_some_and(|value| value.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_values_match_parser_names() {
        for format in Format::value_variants() {
            assert_eq!(format.to_possible_value().unwrap().get_name(), format.name());
        }
    }

    #[test]
    fn detects_format_from_content() {
        for (text, format) in [
            ("round,arm,value\n", Format::Csv),
            ("", Format::Csv),
            ("{\n  \"results\": []}", Format::Hyperfine),
            ("goos: linux\nBenchmarkCopy-2 \t 20 \t 55.1 ns/op\n", Format::Go),
            ("Benchmark,value\n", Format::Csv),
            ("pgbench (15.14)\ntransaction type: x\n", Format::Pgbench),
            ("sysbench 1.0.20 (using LuaJIT)\n", Format::Sysbench),
            ("fio: a note\n{\n  \"fio version\" : \"fio-3.33\"}", Format::Fio),
        ] {
            assert_eq!(Format::of(text), format, "{text}");
        }
    }
}
