//! A way to hand requests to the kernel around another one, which seals what is written and looks at what is read.

use crate::{
    buffer::stamp,
    drive::{Engine, Memory, NOT_AS_WRITTEN},
    generator::Generator,
    ledger::{Ledger, Mismatch},
    requests::Request,
};
use fstrial_model::{
    units::Nanos,
    workload::{Io, SyncCall},
};
use rustix::io::Errno;
use std::{os::fd::OwnedFd, sync::Arc};

/// A way to hand requests to the kernel that seals what it writes, and looks at what it reads.
pub(crate) struct Verified<'a, E> {
    inner: E,
    ledger: &'a Ledger,
    /// The number in the set of the thread's first file.
    first_file: u32,
    stamps: Option<Generator>,
    flights: Vec<Request>,
    /// For each block that a slot has room for, the number of the write that its read is to find.
    known: Vec<u32>,
    /// Blocks of the largest request.
    room: usize,
    /// Complete, and not yet looked at; empty between calls.
    done: Vec<(usize, Result<usize, Errno>)>,
    mismatches: Vec<(u32, Mismatch)>,
}

/// What is to be verified of a thread's files.
#[derive(Debug, Clone)]
pub(crate) struct Verification {
    pub(crate) ledger: Arc<Ledger>,
    /// The number in the set of the thread's first file.
    pub(crate) first_file: u32,
}

impl<'a, E: Engine + Memory> Verified<'a, E> {
    /// `stamps` are those of the payload of `inner`, which leaves its bytes alone.
    pub(crate) fn new(inner: E, verification: &'a Verification, stamps: Option<Generator>, io: &Io) -> Self {
        let depth = usize::from(io.depth);
        let room = (io.largest_request().0 / io.block_size.0) as usize;
        Self {
            inner,
            ledger: &verification.ledger,
            first_file: verification.first_file,
            stamps,
            flights: vec![Request::default(); depth],
            known: vec![0; room * depth],
            room,
            done: Vec::with_capacity(depth),
            mismatches: Vec::with_capacity(room * depth),
        }
    }

    /// Makes the next bytes of a slot new, and seals each block of them.
    fn seal(&mut self, slot: usize, request: &Request) {
        let (ledger, file) = (self.ledger, self.first_file + request.file);
        let bytes = self.inner.payload().upcoming(slot, request.len as usize);
        if let Some(stamps) = &mut self.stamps {
            stamp(bytes, stamps);
        }
        for (block, offset) in blocks(bytes.chunks_mut(ledger.block_size as usize), request, ledger) {
            ledger.header(file, offset, ledger.begin(file, offset)).seal(block);
        }
    }
}

/// The blocks of a request, each with its offset.
fn blocks<I>(
    parts: impl Iterator<Item = I>,
    request: &Request,
    ledger: &Ledger,
) -> impl Iterator<Item = (I, u64)> {
    parts.zip((request.offset..).step_by(ledger.block_size as usize))
}

impl<E: Engine + Memory> Engine for Verified<'_, E> {
    const WAITS_BY: &'static str = E::WAITS_BY;

    fn push(&mut self, slot: usize, request: &Request) {
        self.flights[slot] = *request;
        if request.write {
            self.seal(slot, request);
        } else {
            let (ledger, file) = (self.ledger, self.first_file + request.file);
            let known = self.known[slot * self.room..]
                .iter_mut()
                .take(request.len as usize / ledger.block_size as usize);
            blocks(known, request, ledger).for_each(|(known, offset)| *known = ledger.known(file, offset));
        }
        self.inner.push(slot, request);
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno> {
        self.inner.wait(at_most)
    }

    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        let Self { inner, ledger, first_file, flights, known, room, done: finished, mismatches, .. } = self;
        inner.reap(|slot, result| finished.push((slot, result)));
        for (slot, mut result) in finished.drain(..) {
            let request = &flights[slot];
            let (file, len, size) =
                (*first_file + request.file, request.len as usize, ledger.block_size as usize);
            let is_whole = result == Ok(len);
            if request.write {
                blocks(0..len / size, request, ledger)
                    .for_each(|(_, offset)| ledger.end(file, offset, is_whole));
            } else if is_whole {
                let bytes = &inner.last_read(slot)[..len];
                let wanted = bytes.chunks(size).zip(&known[slot * *room..]);
                for ((block, write), offset) in blocks(wanted, request, ledger) {
                    // A write may have begun since, and who knows what of it was read.
                    if *write == 0 || ledger.known(file, offset) != *write {
                        continue;
                    }
                    let wanted = ledger.header(file, offset, *write);
                    if let Some(found) = wanted.problem(block) {
                        result = Ok(NOT_AS_WRITTEN);
                        mismatches.push((request.file, Mismatch { wanted, found }));
                    }
                }
            }
            done(slot, result);
        }
    }

    fn sync(&mut self, file: usize, fd: &OwnedFd, call: SyncCall) -> (&'static str, Result<(), Errno>) {
        self.inner.sync(file, fd, call)
    }

    fn mismatch(&mut self) -> Option<(u32, Mismatch)> {
        self.mismatches.pop()
    }
}

#[cfg(test)]
mod tests;
