//! Observation of a load's promises: the syncs that were acknowledged, and the changes that end earlier ones.
//!
//! One observer for the process. Without one a sync costs a load of an atomic more.

use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd},
    sync::OnceLock,
};

/// Receives the promises of loads, on the threads that make them.
pub trait SyncObserver: Send + Sync {
    /// A sync of this file or directory is about to be made.
    fn syncs(&self, of: BorrowedFd<'_>);
    /// A sync of this file or directory has returned.
    fn synced(&self, of: BorrowedFd<'_>);
    /// A sync of the whole filesystem of this file has returned.
    fn filesystem_synced(&self, of: BorrowedFd<'_>);
    /// The contents of this file are about to be cut off.
    fn truncates(&self, file: BorrowedFd<'_>);
    /// This name is about to be deleted or replaced.
    fn removes(&self, directory: BorrowedFd<'_>, name: &CStr);
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

/// Reports that a sync is about to be made.
#[inline]
pub(crate) fn syncs(of: impl AsFd) {
    if let Some(observer) = OBSERVER.get() {
        observer.syncs(of.as_fd());
    }
}

/// Reports the return of a sync.
#[inline]
pub(crate) fn synced(of: impl AsFd) {
    if let Some(observer) = OBSERVER.get() {
        observer.synced(of.as_fd());
    }
}

/// Reports the return of a sync of a whole filesystem.
#[inline]
pub(crate) fn filesystem_synced(of: impl AsFd) {
    if let Some(observer) = OBSERVER.get() {
        observer.filesystem_synced(of.as_fd());
    }
}

/// Reports that a file is about to be truncated.
#[inline]
pub(crate) fn truncates(file: impl AsFd) {
    if let Some(observer) = OBSERVER.get() {
        observer.truncates(file.as_fd());
    }
}

/// Reports that a name is about to be deleted or replaced.
#[inline]
pub(crate) fn removes(directory: impl AsFd, name: &CStr) {
    if let Some(observer) = OBSERVER.get() {
        observer.removes(directory.as_fd(), name);
    }
}
