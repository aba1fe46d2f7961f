//! A table of file descriptors of a thread's own.
//!
//! Threads of a process share one table. While they do, the kernel counts a reference to the file up and down for each
//! system call (two atomic operations, about 40 ns of a `pread` here), and takes a lock that all threads share for
//! each `open` and `close`. A process with one thread pays neither, nor does a thread with its own table; so what is
//! measured is the filesystem, not the generator's table.
//!
//! An island: descriptors are closed that others own, but only this thread's copies of them.
#![expect(unsafe_code, reason = "no wrapper closes a range of descriptors")]

use rustix::io::Errno;
use std::marker::PhantomData;

/// While this lives, the calling thread has its own copy of the process's table: what the thread opens, others do not
/// see, and what they open or close, it does not. To be dropped last of all that has descriptors.
#[derive(Debug)]
pub(crate) struct OwnTable {
    /// Not to be sent to another thread.
    this_thread: PhantomData<*const ()>,
}

impl OwnTable {
    /// Needs Linux 5.9. None where the kernel (or a container's filter) refuses: then the table stays shared.
    pub(crate) fn new() -> Option<Self> {
        // An empty range: what counts is the flag. `unshare` would do the same, but filters often forbid it.
        close_range(u32::MAX, libc::CLOSE_RANGE_UNSHARE).ok()?;
        Some(Self { this_thread: PhantomData })
    }
}

impl Drop for OwnTable {
    /// Closes the copies now. The kernel would when the thread is gone, but it tells whoever joins the thread a moment
    /// before; an unmount that follows at once would find the filesystem busy.
    fn drop(&mut self) {
        let closed = close_range(0, 0);
        debug_assert!(closed.is_ok(), "it worked in `new`");
    }
}

/// Closes all descriptors of this thread's table from `first` on.
fn close_range(first: u32, flags: u32) -> Result<(), Errno> {
    // SAFETY: no memory is passed. Called with an empty range, or by `OwnTable::drop` on a table that no other thread
    // has; what this thread owned was dropped before, and what it borrowed lives on in its owner's table.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) };
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
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

    #[test]
    fn what_a_thread_closes_stays_open_elsewhere() {
        let (reader, writer) = pipe().unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let table = OwnTable::new();
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
    fn what_a_thread_opens_nobody_else_sees() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _table = OwnTable::new().unwrap();
                // Far above what other tests have open.
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
