//! A way to hand requests to the kernel around another one, which lets one thread at a time do so for each file: the lock
//! of an old kernel's inode, planted where today's kernel has none.

use crate::{drive::Engine, requests::Request};
use fstrial_model::{units::Nanos, workload::SyncCall};
use rustix::io::Errno;
use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

/// The locks of a set of files, and which of them are those of a thread's files.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    of_all: Arc<[Mutex<()>]>,
    first_file: usize,
}

impl Locks {
    /// A lock for each of this many files.
    pub(crate) fn new(files: usize) -> Self {
        Self { of_all: (0..files).map(|_| Mutex::new(())).collect(), first_file: 0 }
    }

    /// The same for a thread whose files begin with this one.
    pub(crate) fn from(&self, first_file: usize) -> Self {
        Self { of_all: Arc::clone(&self.of_all), first_file }
    }
}

/// Holds the lock of a file while a request of it is pushed: the inner engine's work there is serialised.
#[derive(Debug)]
pub(crate) struct Serialised<E> {
    inner: E,
    locks: Locks,
}

impl<E> Serialised<E> {
    pub(crate) fn new(inner: E, locks: Locks) -> Self {
        Self { inner, locks }
    }
}

impl<E: Engine> Engine for Serialised<E> {
    const WAITS_BY: &'static str = E::WAITS_BY;

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        let lock = &self.locks.of_all[self.locks.first_file + request.file as usize];
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.push(slot, request);
    }

    #[inline]
    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    #[inline]
    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno> {
        self.inner.wait(at_most)
    }

    #[inline]
    fn reap(&mut self, done: impl FnMut(usize, Result<usize, Errno>)) {
        self.inner.reap(done);
    }

    fn sync(&mut self, file: usize, fd: &OwnedFd, call: SyncCall) -> (&'static str, Result<(), Errno>) {
        self.inner.sync(file, fd, call)
    }
}

#[cfg(test)]
impl<E: crate::drive::Memory> crate::drive::Memory for Serialised<E> {
    fn last_read(&self, slot: usize) -> &[u8] {
        self.inner.last_read(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::{Duration, Instant},
    };

    /// Counts concurrent entries, and stays until another enters, or for a while.
    struct Crowd<'a> {
        inside: &'a AtomicUsize,
        most: &'a AtomicUsize,
    }

    impl Engine for Crowd<'_> {
        const WAITS_BY: &'static str = "nothing";

        fn push(&mut self, _: usize, _: &Request) {
            self.most.fetch_max(self.inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let began = Instant::now();
            while self.inside.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_millis(20) {
                thread::yield_now();
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }

        fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
            Ok(())
        }

        fn reap(&mut self, _: impl FnMut(usize, Result<usize, Errno>)) {}
    }

    /// Maximum of two threads inside concurrently, each with ten requests of its file.
    fn most_at_once(files: [u32; 2]) -> usize {
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let locks = Locks::new(2);
        thread::scope(|scope| {
            for file in files {
                let crowd = Crowd { inside: &inside, most: &most };
                let mut engine = Serialised::new(crowd, locks.from(0));
                scope.spawn(move || {
                    let request = Request { file, ..Request::default() };
                    (0..10).for_each(|_| engine.push(0, &request));
                });
            }
        });
        most.into_inner()
    }

    #[test]
    fn requests_of_one_file_wait_for_one_another() {
        assert_eq!(most_at_once([1, 1]), 1);
    }

    #[test]
    fn requests_of_two_files_do_not() {
        assert_eq!(most_at_once([0, 1]), 2);
    }

    #[test]
    fn threads_with_files_of_their_own_have_locks_of_their_own() {
        let locks = Locks::new(4);
        let (first, second) = (locks.from(0), locks.from(2));
        let held = first.of_all[first.first_file + 1].lock().unwrap();
        assert!(second.of_all[second.first_file + 1].try_lock().is_ok());
        drop(held);
    }
}
