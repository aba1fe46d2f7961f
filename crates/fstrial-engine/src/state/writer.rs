//! Buffered writes by plain system calls, for files that make up a state.

use crate::{
    EngineError,
    buffer::{Filler, PAGE},
    error::layout,
    generator::{Generator, Stream},
};
use fstrial_model::{units::Bytes, workload::Data};
use rustix::{
    fs::{Advice, Mode, OFlags, fadvise, openat, syncfs},
    io::{Errno, pwrite, retry_on_intr},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Bytes per write.
const CHUNK: usize = 256 << 10;

/// Writes files below one folder.
#[derive(Debug)]
pub(super) struct Writer {
    root: PathBuf,
    folder: OwnedFd,
    filler: Filler,
    buffer: Vec<u8>,
    is_filled: bool,
    /// Bytes written in all.
    pub(super) written: u64,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open<'a> {
    pub(super) fd: OwnedFd,
    pub(super) name: &'a str,
}

impl Writer {
    /// For files below `root`, which exists.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn new(root: &Path, data: Data, seed: u64) -> Result<Self, EngineError> {
        let folder = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| layout("open", root, e))?;
        let filler = Filler::new(data, PAGE, Generator::new(seed, Stream::Payload(0)));
        Ok(Self {
            root: root.to_owned(),
            folder,
            filler,
            buffer: vec![0; CHUNK],
            is_filled: false,
            written: 0,
        })
    }

    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes a file that is not there yet.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    pub(super) fn create<'a>(&self, name: &'a str) -> Result<Open<'a>, EngineError> {
        self.open_with(name, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)
    }

    /// Opens a file for writing.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn open<'a>(&self, name: &'a str) -> Result<Open<'a>, EngineError> {
        self.open_with(name, OFlags::WRONLY)
    }

    fn open_with<'a>(&self, name: &'a str, flags: OFlags) -> Result<Open<'a>, EngineError> {
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = openat(&self.folder, name, flags | OFlags::CLOEXEC, mode)
            .map_err(|e| layout("open", self.path(name), e))?;
        Ok(Open { fd, name })
    }

    /// Writes a stretch of a file.
    ///
    /// # Errors
    /// No space is left, even after a sync; or the write fails.
    pub(super) fn write(&mut self, file: &Open<'_>, mut at: u64, length: u64) -> Result<(), EngineError> {
        let end = at + length;
        let mut synced = false;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            if self.filler.varies() || !self.is_filled {
                let filled = if self.filler.varies() { len.next_multiple_of(PAGE) } else { CHUNK };
                self.filler.fill(&mut self.buffer[..filled]);
                self.is_filled = true;
            }
            match retry_on_intr(|| pwrite(&file.fd, &self.buffer[..len], at)) {
                Ok(wrote) => {
                    at += wrote as u64;
                    self.written += wrote as u64;
                }
                // Deleted space may only be free after the journal or the tree is written.
                Err(Errno::NOSPC) if !synced => {
                    synced = true;
                    self.sync()?;
                }
                Err(Errno::NOSPC) => {
                    return Err(EngineError::NoSpace {
                        path: self.path(file.name),
                        needed: Bytes(self.written + end - at),
                        source: Errno::NOSPC.into(),
                    });
                }
                Err(error) => return Err(layout("write to", self.path(file.name), error)),
            }
        }
        Ok(())
    }

    /// Begins to write out a file's dirty pages, so that its blocks are chosen now. Does not wait.
    ///
    /// # Errors
    /// The kernel refuses the advice.
    pub(super) fn push_out(&self, file: &Open<'_>) -> Result<(), EngineError> {
        fadvise(&file.fd, 0, None, Advice::DontNeed)
            .map_err(|e| layout("write back", self.path(file.name), e))
    }

    /// Syncs the filesystem.
    ///
    /// # Errors
    /// It could not write.
    pub(super) fn sync(&self) -> Result<(), EngineError> {
        syncfs(self.folder.as_fd()).map_err(|e| layout("sync the filesystem of", &self.root, e))
    }

    /// Space in use and space that can be filled, in bytes, as `df` counts them; and the size of a block.
    ///
    /// # Errors
    /// The filesystem does not answer.
    pub(super) fn space(&self) -> Result<Space, EngineError> {
        let stat =
            rustix::fs::fstatvfs(&self.folder).map_err(|e| layout("ask for the space on", &self.root, e))?;
        let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        Ok(Space { used, available: stat.f_bavail * stat.f_frsize, block: stat.f_frsize })
    }
}

/// Space on a filesystem, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    pub(super) used: u64,
    pub(super) available: u64,
    pub(super) block: u64,
}

impl Space {
    /// Share in use, as `df` shows it.
    pub(super) fn utilisation(&self) -> f64 {
        self.used as f64 / (self.used + self.available).max(1) as f64
    }

    /// Bytes to write until this share is in use; 0 if it is already.
    pub(super) fn missing(&self, share: f64) -> u64 {
        let wanted = (self.used + self.available) as f64 * share;
        (wanted - self.used as f64).max(0.0) as u64
    }
}
