//! Observation of a load's promises: the syncs that were acknowledged, and the changes that end earlier promises.
//!
//! A change is reported before its call and after it, a sync likewise: a sync promises the changes that were over before it
//! began. One observer for the process. Without one each report costs a load of an atomic.

use std::{
    ffi::CStr,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::OnceLock,
};

/// A change that an earlier promise does not survive.
#[derive(Debug)]
pub enum Change<'a> {
    /// Bytes of a file are written or cut off.
    Content {
        /// The file.
        file: BorrowedFd<'a>,
        /// Offsets in bytes; the end may be beyond that of the file.
        range: Range<u64>,
    },
    /// A name is created, or its file is moved away.
    Name {
        /// An open directory.
        directory: BorrowedFd<'a>,
        /// A path below it.
        name: &'a CStr,
    },
    /// A name is deleted or replaced, and its file with it.
    Removal {
        /// An open directory.
        directory: BorrowedFd<'a>,
        /// A path below it.
        name: &'a CStr,
    },
}

/// The subject of a sync.
#[derive(Debug)]
pub enum Synced<'a> {
    /// A file with its content, or a directory with its names.
    One(BorrowedFd<'a>),
    /// The whole filesystem.
    Filesystem,
}

/// Receives the promises of loads, on the threads that make them.
pub trait SyncObserver: Send + Sync {
    /// A change is about to be made. Returns its number.
    fn begins(&self, change: &Change<'_>) -> u64;
    /// The call of this change has returned.
    fn ended(&self, change: u64);
    /// A sync is about to be made. Returns its place among changes and syncs.
    fn syncs(&self) -> u64;
    /// The sync that began at this place was successful.
    fn synced(&self, what: &Synced<'_>, begun: u64);
}

static OBSERVER: OnceLock<Box<dyn SyncObserver>> = OnceLock::new();

/// Sets the observer of this process.
///
/// # Panics
/// If it has one already.
pub fn observe_syncs(observer: Box<dyn SyncObserver>) {
    assert!(OBSERVER.set(observer).is_ok(), "a process has one observer");
}

/// True if there is an observer, which has open files: threads share their table of descriptors with it.
pub(crate) fn are_observed() -> bool {
    OBSERVER.get().is_some()
}

/// A change until its call has returned.
#[must_use = "a change ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Ongoing(Option<u64>);

impl Drop for Ongoing {
    #[inline]
    fn drop(&mut self) {
        if let (Some(change), Some(observer)) = (self.0, OBSERVER.get()) {
            observer.ended(change);
        }
    }
}

#[inline]
fn begins<'a>(change: impl FnOnce() -> Change<'a>) -> Ongoing {
    Ongoing(OBSERVER.get().map(|observer| observer.begins(&change())))
}

/// Bytes of a file are about to be written or cut off.
#[inline]
pub(crate) fn writes(file: &impl AsFd, range: Range<u64>) -> Ongoing {
    begins(|| Change::Content { file: file.as_fd(), range })
}

/// `length` bytes of a file are about to be written at `offset`.
#[inline]
pub(crate) fn writes_at(file: &impl AsFd, offset: u64, length: usize) -> Ongoing {
    writes(file, offset..offset.saturating_add(length as u64))
}

/// A name is about to be created, or its file to be moved away.
#[inline]
pub(crate) fn names(directory: &impl AsFd, name: &CStr) -> Ongoing {
    begins(|| Change::Name { directory: directory.as_fd(), name })
}

/// A name is about to be deleted or replaced.
#[inline]
pub(crate) fn removes(directory: &impl AsFd, name: &CStr) -> Ongoing {
    begins(|| Change::Removal { directory: directory.as_fd(), name })
}

/// A sync is about to be made: of a file, of a directory, or without either of the whole filesystem.
#[inline]
pub(crate) fn syncs() -> Begun {
    Begun(OBSERVER.get().map(|observer| observer.syncs()))
}

/// A sync under way; dropped if it fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(Option<u64>);

impl Begun {
    /// It was successful.
    #[inline]
    pub(crate) fn done(self, of: &impl AsFd) {
        self.report(|| Synced::One(of.as_fd()));
    }

    /// It was successful, and of the whole filesystem.
    #[inline]
    pub(crate) fn done_for_all(self) {
        self.report(|| Synced::Filesystem);
    }

    #[inline]
    fn report<'a>(self, what: impl FnOnce() -> Synced<'a>) {
        if let (Some(begun), Some(observer)) = (self.0, OBSERVER.get()) {
            observer.synced(&what(), begun);
        }
    }
}
