//! fstrial: randomized controlled trials for Linux filesystems.
//!
//! `cli` reads what is asked, `fstrial-run` does it, `fstrial-report` shows it. The words are those of docs/glossary.md.

pub mod cli;
