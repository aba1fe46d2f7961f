//! One place in the files for all threads of a load: the one who asks gets the next request, or the next sync of a series.
//!
//! As sysbench's generator behind its mutex: the order of requests, the count that makes a series of syncs due and the
//! ratio of reads to writes belong to all threads together. The execution of a request is its thread's own.

use crate::requests::{Geometry, Request, Requests};
use fstrial_model::{
    job::Load,
    workload::{FsyncCounts, Io, Sharing, Until},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The next step of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Request(Request),
    /// A file of the series of syncs that has come due.
    Sync(u32),
    /// The amount is done.
    Nothing,
}

/// Source of a thread's requests.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each thread, and read in its loop")]
pub(crate) enum Source {
    /// From itself.
    Own(Requests),
    /// From the place that all threads share.
    Shared(Arc<Cursor>),
}

impl Source {
    /// See [`Requests::completed`].
    #[inline]
    pub(crate) fn completed(&mut self, write: bool) {
        match self {
            Self::Own(requests) => requests.completed(write),
            Self::Shared(cursor) => cursor.place().requests.completed(write),
        }
    }
}

impl From<Requests> for Source {
    fn from(requests: Requests) -> Self {
        Self::Own(requests)
    }
}

/// True if the cursor counts towards the syncs and hands them out; otherwise each thread does, for itself.
pub(crate) fn counts_syncs(io: &Io) -> bool {
    io.sharing == Sharing::Cursor && io.fsync_counts == FsyncCounts::Requests
}

/// The place that all threads share.
#[derive(Debug)]
pub(crate) struct Cursor(Mutex<CursorPosition>);

#[derive(Debug)]
struct CursorPosition {
    requests: Requests,
    /// Requests still to be handed out.
    left: u64,
    /// Requests handed out.
    out: u64,
    /// A series of syncs is due after this many requests; 0 is never.
    every: u64,
    files: u32,
    /// True if a write was handed out since the last series.
    written: bool,
    /// The file that the series in hand continues with.
    next_sync: u32,
}

impl Cursor {
    /// The cursor of a load, if its threads share one.
    pub(crate) fn of(load: &Load, io: &Io, geometry: Geometry) -> Option<Arc<Self>> {
        (io.sharing == Sharing::Cursor).then(|| {
            let left = match load.until {
                Until::Time => u64::MAX,
                Until::Done => io.requests.unwrap_or(geometry.blocks),
            };
            let every = if counts_syncs(io) { u64::from(io.fsync_every) } else { 0 };
            let (requests, files) = (Requests::new(load, io, geometry, 0), geometry.files);
            let place = CursorPosition { requests, left, out: 0, every, files, written: false, next_sync: 0 };
            Arc::new(Self(Mutex::new(place)))
        })
    }

    pub(crate) fn next(&self) -> Next {
        self.place().next()
    }

    /// A panic of another thread leaves nothing half done here.
    fn place(&self) -> MutexGuard<'_, CursorPosition> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CursorPosition {
    fn next(&mut self) -> Next {
        if self.written && self.every > 0 && self.out.is_multiple_of(self.every) {
            return Next::Sync(self.sync());
        }
        if self.left == 0 {
            return Next::Nothing;
        }
        self.out += 1;
        let request = self.requests.next();
        self.left -= 1;
        self.written |= request.write || request.update;
        Next::Request(request)
    }

    /// Threads that ask during a series get the next file of it.
    fn sync(&mut self) -> u32 {
        let file = self.next_sync;
        self.next_sync += 1;
        if self.next_sync == self.files {
            self.next_sync = 0;
            self.written = false;
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{io, load_of};
    use fstrial_model::{
        units::{Bytes, Percent},
        workload::{Access, Mix},
    };

    fn cursor(io: &Io) -> Arc<Cursor> {
        let io = Io { sharing: Sharing::Cursor, fsync_counts: FsyncCounts::Requests, ..io.clone() };
        Cursor::of(&load_of(io.clone(), 3), &io, Geometry::on_files(&io, 3, 0)).unwrap()
    }

    /// As the tool prints under strace: r and w for requests, s0 and on for syncs.
    fn reported(cursor: &Arc<Cursor>, times: usize) -> String {
        let one = |_| match cursor.next() {
            Next::Request(request) => {
                cursor.place().requests.completed(request.write);
                String::from(if request.write { "w" } else { "r" })
            }
            Next::Sync(file) => format!("s{file}"),
            Next::Nothing => "-".into(),
        };
        (0..times).map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn series_are_counted_over_all_and_handed_out_file_by_file() {
        let writes = Io { reads: Percent(0.0), files: 2, fsync_every: 5, ..io() };
        // sysbench 1.0.20, traced: --file-test-mode=rndwr --file-num=2 --file-fsync-freq=5 --events=12.
        assert_eq!(reported(&cursor(&writes), 12), "w w w w w s0 s1 w w w w w");
        let mixed = Io { reads: Percent(60.0), mix: Mix::Ratio, ..writes.clone() };
        assert_eq!(reported(&cursor(&mixed), 14), "r w r w r s0 s1 r w r w r s0 s1");
        let reads = Io { reads: Percent(100.0), ..writes };
        assert_eq!(reported(&cursor(&reads), 12), "r r r r r r r r r r r r");
    }

    #[test]
    fn shared_cursor_hands_out_each_block_once() {
        let io = Io { access: Access::Sequential, total_size: Bytes::mib(1), files: 4, ..io() };
        let io = Io { sharing: Sharing::Cursor, fsync_every: 0, ..io };
        let load = Load { until: Until::Done, ..load_of(io.clone(), 3) };
        let cursor = Cursor::of(&load, &io, Geometry::on_files(&io, 3, 0)).unwrap();
        let mut seen: Vec<(u32, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut seen = Vec::new();
                        while let Next::Request(request) = cursor.next() {
                            seen.push((request.file, request.offset));
                        }
                        seen
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        seen.sort_unstable();
        let all = (0..4).flat_map(|file| (0..64).map(move |block| (file, block * 4096)));
        assert_eq!(seen, all.collect::<Vec<_>>());
    }

    #[test]
    fn others_have_none() {
        let io = io();
        assert!(Cursor::of(&load_of(io.clone(), 1), &io, Geometry::on_files(&io, 1, 0)).is_none());
    }
}
