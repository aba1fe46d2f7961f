//! The calls that sync one file.
//!
//! An island: `sync_file_range` has no safe wrapper among the dependencies.
#![expect(unsafe_code, reason = "sync_file_range has no safe wrapper")]

use fstrial_model::workload::SyncCall;
use rustix::{
    fs::{fdatasync, fsync},
    io::{Errno, retry_on_intr},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// The name of a call, for errors.
pub(crate) fn name(call: SyncCall) -> &'static str {
    match call {
        SyncCall::Fsync => "fsync",
        SyncCall::Fdatasync => "fdatasync",
        SyncCall::SyncFileRange => "sync_file_range",
    }
}

/// True if data that the call has synced survive a power cut.
pub(crate) fn is_for_good(call: SyncCall) -> bool {
    call != SyncCall::SyncFileRange
}

/// Syncs the whole of a file. After [`SyncCall::SyncFileRange`] nothing is durable, only written back.
#[inline]
pub(crate) fn flush(fd: &OwnedFd, call: SyncCall) -> Result<(), Errno> {
    retry_on_intr(|| match call {
        SyncCall::Fsync => fsync(fd),
        SyncCall::Fdatasync => fdatasync(fd),
        SyncCall::SyncFileRange => write_back(fd),
    })
}

fn write_back(fd: &OwnedFd) -> Result<(), Errno> {
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes no pointer; the descriptor is open for as long as it is borrowed. A length of 0 is to the end.
    let result = unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, flags) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The error of the last call through libc on this thread.
#[cold]
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_works_on_a_file_and_fails_on_a_pipe() {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        for call in [SyncCall::Fsync, SyncCall::Fdatasync, SyncCall::SyncFileRange] {
            rustix::io::pwrite(&file, &[1; 10_000], 0).unwrap();
            assert_eq!(flush(&file, call), Ok(()), "{}", name(call));
            assert!(flush(&writer, call).is_err(), "{}", name(call));
        }
        assert_eq!(flush(&writer, SyncCall::SyncFileRange), Err(Errno::SPIPE));
    }
}
