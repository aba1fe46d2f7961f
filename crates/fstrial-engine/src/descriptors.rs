//! A table of file descriptors of a thread's own.
//!
//! Threads of a process share one table. While they do, the kernel counts a reference to the file up and down for each
//! system call (two atomic operations, about 40 ns of a `pread` here), and takes a lock that all threads share for each
//! `open` and `close`. A process with one thread pays neither, nor does a thread with its own table; so the measurement
//! is of the filesystem, not of the generator's table.
//!
//! An island: descriptors are closed that others own, but only this thread's copies of them.
#![expect(unsafe_code, reason = "no wrapper closes a range of descriptors")]

use rustix::io::Errno;
use std::{
    marker::PhantomData,
    ops::RangeInclusive,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Descriptors 0 to 2.
const STANDARD_STREAMS: u32 = 3;

/// While this lives, the calling thread has its own table, with copies of the descriptors that it is lent: files it
/// opens are invisible to others, whose opens and closes do not affect it. To be dropped after everything that has
/// descriptors.
#[derive(Debug)]
pub(crate) struct OwnTable {
    /// Not to be sent to another thread.
    this_thread: PhantomData<*const ()>,
}

impl OwnTable {
    /// Needs Linux 5.9. None where the kernel (or a container's filter) refuses: then the table stays shared.
    ///
    /// Copies not in `lent` are closed, except for the standard streams: a file that another thread deletes would live
    /// on as long as a copy of its descriptor.
    pub(crate) fn new(lent: &[BorrowedFd<'_>]) -> Option<Self> {
        // An empty range: only the flag matters. `unshare` would do the same, but filters often forbid it.
        close_range(u32::MAX..=u32::MAX, libc::CLOSE_RANGE_UNSHARE).ok()?;
        let mut keep: Vec<u32> = lent.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
        keep.sort_unstable();
        let mut from = STANDARD_STREAMS;
        for number in keep.into_iter().chain([u32::MAX]) {
            if from < number {
                close(from..=number - 1);
            }
            from = from.max(number.saturating_add(1));
        }
        Some(Self { this_thread: PhantomData })
    }
}

impl Drop for OwnTable {
    /// Closes the copies now. The kernel would when the thread is gone, but it reports that to a joining thread a
    /// moment before; an immediate unmount would find the filesystem busy.
    fn drop(&mut self) {
        close(0..=u32::MAX);
    }
}

/// Closes the open descriptors of a range, in this thread's own table.
fn close(range: RangeInclusive<u32>) {
    let closed = close_range(range, 0);
    debug_assert!(closed.is_ok(), "it worked in `new`");
}

fn close_range(range: RangeInclusive<u32>, flags: u32) -> Result<(), Errno> {
    // SAFETY: no memory is passed. Called with a range without open descriptors, or by `close` on a table that no other
    // thread has; this thread's owned descriptors were dropped before, and borrowed ones live on in their owner's
    // table.
    let result = unsafe { libc::syscall(libc::SYS_close_range, *range.start(), *range.end(), flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{io::fcntl_getfd, pipe::pipe};
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_closed_by_thread_stay_open_elsewhere() {
        let (reader, writer) = pipe().unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let table = OwnTable::new(&[writer.as_fd()]);
                assert!(table.is_some(), "needs Linux 5.9");
                rustix::io::write(&writer, b"a").unwrap();
                drop(table);
                rustix::io::write(&writer, b"b")
            });
            assert_eq!(thread.join().unwrap(), Err(Errno::BADF), "the thread's copies are closed");
        });
        let mut bytes = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(1), "ours is open");
        drop(writer);
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(0), "nobody else holds the other end");
    }

    #[test]
    fn own_table_keeps_only_lent_descriptors() {
        let pipes: Vec<_> = (0..5).map(|_| pipe().unwrap()).collect();
        let writers: Vec<_> = pipes.iter().map(|(_, writer)| writer.as_fd()).collect();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _table = OwnTable::new(&[writers[3], writers[1]]).unwrap();
                writers.iter().map(|writer| rustix::io::write(writer, b"a").is_ok()).collect::<Vec<_>>()
            });
            assert_eq!(thread.join().unwrap(), [false, true, false, true, false]);
        });
        assert!(pipes.iter().all(|(_, writer)| rustix::io::write(writer, b"b").is_ok()), "ours are open");
    }

    #[test]
    fn descriptors_opened_by_thread_stay_private() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _table = OwnTable::new(&[]).unwrap();
                // Far above the descriptors of other tests.
                let high = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 900).unwrap();
                send.send(high.as_fd().as_raw_fd()).unwrap();
                let _ended = wait.recv();
            });
            let number = receive.recv().unwrap();
            // SAFETY: only asks whether it is open; it is not, which is the point.
            let elsewhere = unsafe { BorrowedFd::borrow_raw(number) };
            assert_eq!(fcntl_getfd(elsewhere), Err(Errno::BADF));
            drop(done);
        });
    }
}
