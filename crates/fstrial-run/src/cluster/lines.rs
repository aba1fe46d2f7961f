//! The order of a job, and the lines of its answer: JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use fstrial_model::{device::Device, units::Nanos};
use fstrial_stack::private_dir::PrivateDir;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{io, os::unix::fs::FileExt};

/// Longest line: no trial's store reaches a hundred megabytes.
const MAX_LINE: usize = 128 << 20;
/// Most bytes that are read at a time: other hosts have lines, too.
const MAX_READ: u64 = 256 << 20;
const CHUNK: usize = 1 << 20;

/// The order of a job: the first line of its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignOrder {
    /// The version of fstrial that it comes from, which must be that of the job.
    pub fstrial: String,
    pub work: HostWork,
    /// The host, as its campaign calls it.
    pub host: String,
    /// Names the attempt: every line of its job has it.
    pub attempt: String,
    /// True if standard input stays open, and its end is an order to stop.
    #[serde(default)]
    pub holds: bool,
}

/// A trial or claims that a campaign runs on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostWork {
    /// A trial file.
    Trial(String),
    /// Claims, each fitted to its host.
    Claims(Claims),
}

/// Claims that every host checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The name of each, and its text unless it ships with fstrial.
    pub files: Vec<(String, Option<String>)>,
    /// The device that replaces their own.
    pub device: Option<Device>,
    /// True for short runs.
    pub quick: bool,
    /// Wall time for each in place of its rounds' estimate.
    pub budget: Option<Nanos>,
}

/// A line of a job's answer.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct HostLine {
    /// The attempt of its order.
    pub attempt: String,
    #[serde(flatten)]
    pub news: News,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum News {
    /// The trial begins, or is resumed with these rounds.
    Begun { rounds: u32 },
    /// It has these rounds.
    Rounds { done: u32 },
    /// A claim is not measured on this host.
    LeftOut { claim: String, why: String },
    /// A store with one of its trials, in base64; of a claim with its name.
    Store {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        claim: String,
        bytes: String,
    },
    /// The job ends: with all rounds, or why not.
    Ended { complete: bool, why: String },
}

impl News {
    /// The line of a store. `claim`: the name of the claim that its trial is of, or nothing.
    pub fn of_store(claim: &str, bytes: &[u8]) -> Self {
        Self::Store { claim: claim.to_owned(), bytes: STANDARD.encode(bytes) }
    }
}

/// The seed of a host: distinct, and reproducible.
pub fn seed_of_host(seed: u64, host: &str) -> u64 {
    let digest = Sha256::digest(format!("{seed} {host}"));
    let bytes = digest.iter().take(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    // Trial files hold signed numbers.
    bytes >> 1
}

/// A file of lines that grows.
#[derive(Debug, Default)]
pub(super) struct Lines {
    at: u64,
    rest: Vec<u8>,
}

impl Lines {
    /// Passes the new lines of a file on, up to a bound. Anything else, such as the rest of a line that a killed job began, is
    /// skipped. It is opened each time: over NFS an open file may show an old state.
    pub(super) fn read(&mut self, folder: &PrivateDir, name: &str, mut hear: impl FnMut(HostLine)) {
        let Ok(Some(file)) = folder.file(name, OFlags::RDONLY) else { return };
        let mut chunk = vec![0; CHUNK];
        let most = self.at + MAX_READ;
        while self.at < most {
            let read = match file.read_at(&mut chunk, self.at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            self.at += read as u64;
            for part in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    if let Ok(line) = serde_json::from_slice(&self.rest) {
                        hear(line);
                    }
                    self.rest.clear();
                } else if self.rest.len() > MAX_LINE {
                    self.rest.clear();
                }
            }
        }
    }
}
