//! fstrial: randomized controlled trials for Linux filesystems.
//!
//! `cli` reads what is asked, `run` does it, `report` shows it. The words are those of docs/glossary.md.

pub mod cli;
pub mod error;
pub mod exit_code;
pub mod numbers;
pub mod report;
pub mod run;
