//! What a job is told, and what it says: lines of JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fs::File, io, os::unix::fs::FileExt};

/// Longest line: a store of a hundred megabytes is not one of a trial.
const MAX_LINE: usize = 128 << 20;
const CHUNK: usize = 1 << 20;

/// What a job is to do: the first line of its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The version of fstrial that it comes from, which must be that of the job.
    pub fstrial: String,
    /// The trial file.
    pub trial: String,
    /// The host, as it is called in the campaign; none where the scheduler tells the job.
    #[serde(default)]
    pub host: Option<String>,
    /// Whether standard input stays open, and its end is an order to stop.
    #[serde(default)]
    pub holds: bool,
}

/// What a job says.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line {
    /// It works on its trial, of which it has these rounds.
    Begun { rounds: u32 },
    /// It has these rounds.
    Rounds { done: u32 },
    /// A store with its trial, in base64.
    Store { bytes: String },
    /// It has ended: with all rounds, or why not.
    Ended { complete: bool, why: String },
}

impl Line {
    /// The line of a store.
    pub fn of_store(bytes: &[u8]) -> Self {
        Self::Store { bytes: STANDARD.encode(bytes) }
    }
}

/// The seed of a host: its own, and the same whenever the host is asked again.
pub fn seed_of_host(seed: u64, host: &str) -> u64 {
    let digest = Sha256::digest(format!("{seed} {host}"));
    let bytes = digest.iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    // Trial files hold signed numbers.
    bytes >> 1
}

/// The lines of a file that grows.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    at: u64,
    rest: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(file: File) -> Self {
        Self { file, at: 0, rest: Vec::new() }
    }

    /// The lines that are new. What is not one of ours, such as the rest of a line that a killed job began, is skipped.
    pub(super) fn read(&mut self) -> Vec<Line> {
        let mut found = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match self.file.read_at(&mut chunk, self.at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            self.at += read as u64;
            for part in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    found.extend(serde_json::from_slice(&self.rest).ok());
                    self.rest.clear();
                } else if self.rest.len() > MAX_LINE {
                    self.rest.clear();
                }
            }
        }
        found
    }
}
