//! The folder of a campaign: its files, each written whole or not at all, and its lock.

use super::lines::CampaignOrder;
use crate::{error::ExpectedError, numbers::hex};
use fstrial_stack::private_dir::PrivateDir;
use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

/// Most bytes of a log that are read, from its end.
const LAST: u64 = 4096;
/// Characters of its last line that are shown.
const SHOWN: usize = 300;
/// Between a host and a claim in the name of a store: in no name of either.
const OF: char = '~';
/// Characters of the name of a claim.
const MAX_NAME: usize = 80;
/// Most bytes of small files.
const SMALL: u64 = 16 << 20;

/// The folder of a campaign; locked while this value exists, except for readers.
pub struct Folder {
    dir: PrivateDir,
    _lock: Option<File>,
}

impl Folder {
    /// Makes or opens a folder, and locks it. `is_shared`: other hosts run a program in it.
    ///
    /// # Errors
    /// Others can write to it, or to a folder on the way; another command follows its campaign.
    pub fn make(path: &Path, is_shared: bool) -> Result<Self, ExpectedError> {
        let is_sticky = |folder: &Path| folder.metadata().is_ok_and(|result| result.mode() & 0o1000 != 0);
        if let Some(folder) = path.ancestors().skip(1).find(|folder| is_shared && is_sticky(folder)) {
            return Err(ExpectedError::usage(
                format!(
                    "every user can make {} in {} on a node, with a program in it that jobs would run",
                    path.display(),
                    folder.display()
                ),
                "name a folder with --folder that only you can write, on every node",
            ));
        }
        let dir = PrivateDir::make(path)?;
        let file = dir.file(".lock", OFlags::CREATE | OFlags::RDWR)?;
        let failed = |source| ExpectedError::File { what: "lock", path: path.to_owned(), source };
        let file = file.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { dir, _lock: Some(file) }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ExpectedError::usage(
                format!("another command follows the campaign in {}", path.display()),
                "wait for it, or name another folder with --folder",
            )),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Opens the folder of a campaign that another command follows.
    ///
    /// # Errors
    /// There is none, or others can write to it.
    pub fn look_at(path: &Path) -> Result<Self, ExpectedError> {
        let dir = PrivateDir::open(path)?.map(|dir| Self { dir, _lock: None });
        match dir {
            Some(folder) if !folder.hosts()?.is_empty() => Ok(folder),
            _ => Err(ExpectedError::usage(
                format!("{} is not the folder of a campaign", path.display()),
                "name that of `fstrial run … --on`, such as trial.hosts",
            )),
        }
    }

    pub fn dir(&self) -> &PrivateDir {
        &self.dir
    }

    /// Writes a file whole, or not at all.
    ///
    /// # Errors
    /// There is no room, or the folder is not ours.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), ExpectedError> {
        self.keep_with_mode(name, bytes, 0o600)
    }

    fn keep_with_mode(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), ExpectedError> {
        let new = format!(".{name}.part");
        self.remove(&new);
        let mut file = self.dir.create(new.as_ref())?;
        let path = self.dir.path().join(name);
        file.write_all(bytes)
            .and_then(|()| Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?))
            .and_then(|()| file.sync_all())
            .map_err(|source| ExpectedError::File { what: "write", path, source })?;
        self.dir.rename(new.as_ref(), name.as_ref())?;
        Ok(())
    }

    /// A small file; none if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ExpectedError> {
        Ok(self.dir.read(name.as_ref(), SMALL)?)
    }

    pub(super) fn remove(&self, name: &str) {
        // One that is not there is gone already.
        let _ = self.dir.remove(name.as_ref());
    }

    /// The hosts with started jobs, in the order of their names.
    pub(super) fn hosts(&self) -> Result<Vec<String>, ExpectedError> {
        self.hosts_with(".job")
    }

    /// The stores without their ending: names of hosts, of claims with theirs after a tilde.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn stores(&self) -> Result<Vec<String>, ExpectedError> {
        self.hosts_with(".db")
    }

    /// The hosts that have a file with this ending.
    fn hosts_with(&self, ending: &str) -> Result<Vec<String>, ExpectedError> {
        let names = self.dir.names()?;
        let hosts = names.iter().filter_map(|name| name.to_str()?.strip_suffix(ending));
        // A file that is being written begins with a dot.
        let mut hosts: Vec<String> = hosts.filter(|host| !host.starts_with('.')).map(str::to_owned).collect();
        hosts.sort();
        Ok(hosts)
    }

    /// True if a host has a store, of a trial or of any claim.
    pub(super) fn has_store(&self, host: &str) -> Result<bool, ExpectedError> {
        let of_claims = format!("{host}{OF}");
        Ok(self.stores()?.iter().any(|store| store == host || store.starts_with(&of_claims)))
    }

    /// Keeps the store of a trial, or of a claim.
    pub(super) fn keep_store(&self, host: &str, claim: &str, bytes: &[u8]) -> Result<(), ExpectedError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // A name may come from elsewhere.
        let claim: String = claim.chars().filter(|c| is_name(*c)).take(MAX_NAME).collect();
        let of = if claim.is_empty() { String::new() } else { format!("{OF}{claim}") };
        self.keep(&format!("{host}{of}.db"), bytes)
    }

    /// The attempt of the last order of a host.
    pub(super) fn attempt(&self, host: &str) -> Option<String> {
        let order = self.read(&format!("{host}.order")).ok()??;
        serde_json::from_slice::<CampaignOrder>(&order).ok().map(|order| order.attempt)
    }

    /// The number of the last job of a host.
    pub(super) fn job(&self, host: &str) -> Result<Option<String>, ExpectedError> {
        let job = self.read(&format!("{host}.job"))?;
        let job = job.map(|job| String::from_utf8_lossy(&job).trim().to_owned());
        Ok(job.filter(|job| !job.is_empty()))
    }

    /// Keeps the order of an attempt, before its job; the log is that of this attempt.
    pub(super) fn prepare(&self, order: &CampaignOrder) -> Result<(), ExpectedError> {
        self.remove(&format!("{}.log", order.host));
        let line = serde_json::to_string(order).expect("an order is plain data") + "\n";
        self.keep(&format!("{}.order", order.host), line.as_bytes())
    }

    /// Removes the files of a host that takes no job.
    pub(super) fn forget(&self, host: &str) {
        if matches!(self.has_store(host), Ok(false)) {
            ["order", "out", "log", "job"].iter().for_each(|ending| self.remove(&format!("{host}.{ending}")));
        }
    }

    /// The reason why a job ended without an answer, and the last line of its standard error.
    pub(super) fn last_words(&self, host: &str, why: &str) -> String {
        let last = || -> Option<String> {
            let file = self.dir.file(format!("{host}.log"), OFlags::RDONLY).ok()??;
            let size = file.metadata().ok()?.len();
            let mut bytes = vec![0; usize::try_from(size.min(LAST)).ok()?];
            file.read_exact_at(&mut bytes, size.saturating_sub(LAST)).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
            Some(line.trim().chars().take(SHOWN).collect())
        };
        last().map_or_else(|| why.to_owned(), |last| format!("{why}: {last}"))
    }

    /// This program in the folder, under a name that only these bytes have: one that runs is never replaced. Gives its path.
    ///
    /// # Errors
    /// It cannot be read, or there is no room for it.
    pub fn program(&self) -> Result<String, ExpectedError> {
        let failed = |source| ExpectedError::File { what: "copy", path: self.dir.path().to_owned(), source };
        let mut ours = Vec::new();
        let open = rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let mut file = File::from(open.map_err(|error| failed(error.into()))?);
        file.read_to_end(&mut ours).map_err(failed)?;
        let name = format!("fstrial-{}", hex(&Sha256::digest(&ours)[..6]));
        let path = self.dir.path().join(&name);
        let is_there = path
            .metadata()
            .is_ok_and(|result| result.len() == ours.len() as u64 && result.mode() & 0o777 == 0o755);
        if !is_there {
            self.keep_with_mode(&name, &ours, 0o755)?;
        }
        Ok(path.display().to_string())
    }
}

/// A word that no other attempt has.
pub(super) fn token() -> String {
    let mut bytes = [0_u8; 8];
    let _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    hex(&bytes)
}
