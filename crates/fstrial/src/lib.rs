//! fstrial: randomized controlled trials for Linux filesystems.
//!
//! `cli` parses the request, `fstrial-run` executes it, `fstrial-report` shows it. Terms are defined in
//! docs/glossary.md.

pub mod cli;
