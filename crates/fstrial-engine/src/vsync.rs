//! `preadv` and `pwritev`: requests that follow each other in one file are queued, up to the depth, and go out as one
//! call.
//!
//! As fio's vsync engine does. A request that does not follow the last one queued sends the queue immediately and is
//! queued itself, so with random requests each call carries one, and its latency includes the call before it.

use crate::{
    buffer::{PAGE, Pages, Payload},
    drive::Engine,
    files::Files,
    requests::Request,
};
use fstrial_model::units::Nanos;
use rustix::io::{Errno, preadv, pwritev, retry_on_intr};
use std::{
    io::{IoSlice, IoSliceMut},
    ops::Range,
};

/// A queue of neighbours, and the results of those sent.
#[derive(Debug)]
pub(crate) struct Vsync<'a> {
    files: &'a Files,
    payload: Payload,
    /// The n-th request of a call reads into the n-th stretch.
    read: Pages,
    read_stride: usize,
    /// The first request queued.
    first: Request,
    /// End of the last one in the file.
    end: u64,
    queue: Vec<Queued>,
    /// Sent and not yet reaped.
    done: Vec<(usize, Result<usize, Errno>)>,
    /// Room for the slices of one call, empty between calls.
    writes: Vec<IoSlice<'static>>,
    reads: Vec<IoSliceMut<'static>>,
    /// Destination of a slot's last read.
    places: Vec<usize>,
}

#[derive(Debug)]
struct Queued {
    slot: usize,
    len: usize,
    /// Its bytes in the payload, if it writes.
    bytes: Range<usize>,
}

impl<'a> Vsync<'a> {
    /// For requests of up to `len` bytes; `payload` has `depth` slots.
    pub(crate) fn new(files: &'a Files, payload: Payload, len: usize, depth: u16) -> Self {
        let depth = usize::from(depth);
        let read_stride = len.next_multiple_of(PAGE);
        let mut read = Pages::new(read_stride * depth);
        // Touches every page before the clock runs.
        read.as_mut_slice().fill(1);
        Self {
            files,
            payload,
            read,
            read_stride,
            first: Request::default(),
            end: 0,
            queue: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth),
            writes: Vec::with_capacity(depth),
            reads: Vec::with_capacity(depth),
            places: vec![0; depth],
        }
    }

    /// True if a request may join those queued.
    #[inline]
    fn follows(&self, request: &Request) -> bool {
        let Request { write, file, .. } = self.first;
        self.queue.is_empty()
            || (request.write == write && request.file == file && request.offset == self.end)
    }

    /// Sends the queue.
    fn send(&mut self) {
        let result = if self.first.write { self.write() } else { self.read() };
        let mut left = result.unwrap_or(0);
        for Queued { slot, len, .. } in self.queue.drain(..) {
            // Bytes are transferred in order: those missing at the end are missing from the last requests.
            let bytes = left.min(len);
            left -= bytes;
            self.done.push((slot, result.map(|_| bytes)));
        }
    }

    fn write(&mut self) -> Result<usize, Errno> {
        let (fd, bytes) = (&self.files.fds[self.first.file as usize], self.payload.bytes());
        let mut slices = emptied(std::mem::take(&mut self.writes));
        slices.extend(self.queue.iter().map(|queued| IoSlice::new(&bytes[queued.bytes.clone()])));
        let result = retry_on_intr(|| pwritev(fd, &slices, self.first.offset));
        self.writes = emptied(slices);
        result
    }

    fn read(&mut self) -> Result<usize, Errno> {
        let fd = &self.files.fds[self.first.file as usize];
        let mut slices = emptied_mut(std::mem::take(&mut self.reads));
        let stretches = self.read.as_mut_slice().chunks_exact_mut(self.read_stride).zip(&self.queue);
        slices.extend(stretches.map(|(stretch, queued)| IoSliceMut::new(&mut stretch[..queued.len])));
        let result = retry_on_intr(|| preadv(fd, &mut slices, self.first.offset));
        self.reads = emptied_mut(slices);
        result
    }
}

/// The memory of a vector of slices for slices of other things: collecting a vector's own iterator into one of the
/// same layout keeps its memory, so nothing is allocated.
fn emptied<'b>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'b>> {
    slices.clear();
    slices.into_iter().map(|_| unreachable!("cleared")).collect()
}

/// As [`emptied`].
fn emptied_mut<'b>(mut slices: Vec<IoSliceMut<'_>>) -> Vec<IoSliceMut<'b>> {
    slices.clear();
    slices.into_iter().map(|_| unreachable!("cleared")).collect()
}

impl Engine for Vsync<'_> {
    const WAITS_BY: &'static str = "nothing";

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        if !self.follows(request) {
            self.send();
        }
        if self.queue.is_empty() {
            self.first = *request;
        }
        self.places[slot] = self.queue.len();
        let len = request.len as usize;
        let bytes = if request.write { self.payload.take(slot, len) } else { 0..0 };
        self.end = request.offset + u64::from(request.len);
        self.queue.push(Queued { slot, len, bytes });
    }

    #[inline]
    fn is_ready(&self) -> bool {
        !self.done.is_empty()
    }

    #[inline]
    fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
        if self.done.is_empty() && !self.queue.is_empty() {
            self.send();
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        self.done.drain(..).for_each(|(slot, result)| done(slot, result));
    }
}

#[cfg(test)]
impl crate::drive::Memory for Vsync<'_> {
    fn last_read(&self, slot: usize) -> &[u8] {
        &self.read.as_slice()[self.places[slot] * self.read_stride..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_file, payload, reaped};

    const LEN: usize = 1000;

    fn request(write: bool, block: u64) -> Request {
        Request { write, offset: block * LEN as u64, len: LEN as u32, ..Request::default() }
    }

    fn with_engine(test: impl FnOnce(&mut Vsync<'_>)) {
        let files = memory_file(0);
        test(&mut Vsync::new(&files, payload(8, LEN), LEN, 8));
    }

    #[test]
    fn neighbours_wait_for_each_other_and_others_send_them() {
        with_engine(|engine| {
            (0..3).for_each(|n| engine.push(n, &request(true, n as u64)));
            assert!(!engine.is_ready() && engine.queue.len() == 3);
            engine.push(3, &request(true, 7));
            assert!(engine.is_ready(), "a gap sends what is queued");
            engine.wait(None).unwrap();
            assert_eq!(reaped(engine), [(0, Ok(LEN)), (1, Ok(LEN)), (2, Ok(LEN))]);
            engine.push(4, &request(false, 8));
            assert_eq!(reaped(engine), [(3, Ok(LEN))], "a read does not follow a write");
            engine.wait(None).unwrap();
            assert_eq!(reaped(engine), [(4, Ok(0))]);
        });
    }

    #[test]
    fn a_short_call_is_short_for_the_last_requests() {
        with_engine(|engine| {
            rustix::fs::ftruncate(&engine.files.fds[0], 2 * LEN as u64 + 10).unwrap();
            (0..4).for_each(|n| engine.push(n, &request(false, n as u64)));
            engine.wait(None).unwrap();
            assert_eq!(reaped(engine), [(0, Ok(LEN)), (1, Ok(LEN)), (2, Ok(10)), (3, Ok(0))]);
        });
    }

    #[test]
    fn no_call_allocates() {
        with_engine(|engine| {
            let rooms = |engine: &Vsync<'_>| {
                (
                    engine.writes.as_ptr(),
                    engine.writes.capacity(),
                    engine.reads.as_ptr(),
                    engine.reads.capacity(),
                )
            };
            let before = rooms(engine);
            for round in 0..10 {
                (0..8).for_each(|n| engine.push(n, &request(round % 2 == 0, n as u64)));
                engine.wait(None).unwrap();
                assert_eq!(reaped(engine).len(), 8);
            }
            assert_eq!(rooms(engine), before);
        });
    }
}
