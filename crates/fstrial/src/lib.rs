//! fstrial: randomized controlled trials for Linux filesystems.
//!
//! `cli` reads what is asked, `run` does it, `report` shows it. The words are those of docs/glossary.md.

#![expect(
    missing_docs,
    reason = "only the program, its tests and its fuzzers use this library: a name may be enough"
)]

pub mod cli;
pub mod error;
pub mod exit_code;
pub mod numbers;
pub mod report;
pub mod run;
