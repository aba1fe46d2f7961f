//! `pread` and `pwrite`: one request at a time, done when it is pushed.

use crate::{
    buffer::{Pages, Payload},
    drive::Engine,
    files::Files,
    requests::Request,
};
use fstrial_model::units::Nanos;
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

/// Completes each request immediately.
#[derive(Debug)]
pub(crate) struct Sync<'a> {
    files: &'a Files,
    payload: Payload,
    read: Pages,
    outcome: Option<CallResult>,
}

/// A call's return value in the kernel's form: bytes, or an error below zero. One word, because a value stored in parts
/// and read back whole right after makes the processor wait.
#[derive(Debug, Clone, Copy)]
struct CallResult(i64);

impl From<Result<usize, Errno>> for CallResult {
    #[inline]
    fn from(result: Result<usize, Errno>) -> Self {
        Self(match result {
            Ok(bytes) => bytes as i64,
            Err(errno) => -i64::from(errno.raw_os_error()),
        })
    }
}

impl From<CallResult> for Result<usize, Errno> {
    #[inline]
    fn from(outcome: CallResult) -> Self {
        usize::try_from(outcome.0).map_err(|_| Errno::from_raw_os_error(-outcome.0 as i32))
    }
}

impl<'a> Sync<'a> {
    /// For requests of up to `block_size` bytes; `payload` has one slot.
    pub(crate) fn new(files: &'a Files, payload: Payload, block_size: usize) -> Self {
        let mut read = Pages::new(block_size);
        // Touches every page before the clock runs.
        read.as_mut_slice().fill(1);
        Self { files, payload, read, outcome: None }
    }
}

impl Engine for Sync<'_> {
    const WAITS_BY: &'static str = "nothing";

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        let fd = &self.files.fds[request.file as usize];
        let result = if request.write {
            let range = self.payload.take(slot, request.len as usize);
            let bytes = &self.payload.bytes()[range];
            retry_on_intr(|| pwrite(fd, bytes, request.offset))
        } else {
            let buffer = &mut self.read.as_mut_slice()[..request.len as usize];
            retry_on_intr(|| pread(fd, &mut *buffer, request.offset))
        };
        self.outcome = Some(result.into());
    }

    #[inline]
    fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        if let Some(outcome) = self.outcome.take() {
            done(0, outcome.into());
        }
    }
}

#[cfg(test)]
impl crate::drive::Memory for Sync<'_> {
    fn last_read(&self, _: usize) -> &[u8] {
        self.read.as_slice()
    }
}
