//! Entry points for the fuzzer (`crates/fstrial-attack`) to parsers that only commands use.

use super::{Cli, Command, judge};
use clap::Parser;
use fstrial_report::{elsewhere, page};
use fstrial_run::{environment::Environment, place::wire};
use std::{hint::black_box, path::Path};

/// The words of a command line, one on each line: patterns, times and sizes of every flag among them.
pub fn command_line(text: &str) {
    if let Err(error) = Cli::try_parse_from(std::iter::once("fstrial").chain(text.lines())) {
        black_box(error.to_string());
    }
}

/// A file for `fstrial judge`, judged to the end: as one that names its arms, and as two arms.
pub fn judge(file: &Path) {
    let path = file.display().to_string();
    for files in [vec![path.clone()], vec![format!("a={path}"), format!("b={path},{path}")]] {
        let words = ["fstrial", "judge"].into_iter().map(str::to_owned).chain(files);
        let Ok(Cli { command: Some(Command::Judge(args)), .. }) = Cli::try_parse_from(words) else { return };
        if let Ok((facts, table, result)) = judge::judged(&args) {
            black_box((elsewhere::text(&facts, &result, 3.0), elsewhere::json(&facts, &result)));
            black_box(page::judge::page(&facts, &table, &result, 3.0));
        }
    }
}

/// The lines that cross between a trial and the agent at a place.
pub fn place_lines(bytes: &[u8]) {
    wire::read_all(bytes);
}

/// The environment of a session, as a store has it.
pub fn environment(text: &str) {
    if let Ok(environment) = serde_json::from_str::<Environment>(text) {
        let again = serde_json::to_string(&environment).expect("it is plain data");
        assert_eq!(serde_json::from_str::<Environment>(&again).expect("it was read before"), environment);
    }
}
