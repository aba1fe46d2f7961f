//! `io_uring`: up to `depth` requests of one thread in flight, submitted and reaped in batches.
//!
//! Needs Linux 5.6. If the kernel supports it (6.1), the ring belongs to its one thread and completions are processed
//! when that thread asks; files and buffers are registered if the limits allow it. Refused features are left out, so
//! the same load runs on an old kernel, only slower.
//!
//! An island: the kernel reads and writes memory that Rust thinks is ours. Why that is sound:
//! - Each slot has its own bytes in `payload` and in `read`, and is pushed again only after its completion was reaped.
//! - A slot's bytes in `read` are looked at only while it is not in flight, and `payload` changes only the bytes of the slot that is being pushed.
//! - The heap memory of both never moves. [`Uring::drop`] waits for everything in flight before they are freed; if
//!   that fails, the ring and the memory are leaked instead.
#![expect(unsafe_code, reason = "memory is shared with the kernel while requests are in flight")]

use crate::{
    EngineError,
    buffer::{PAGE, Pages, Payload},
    drive::Engine,
    files::Files,
    requests::Request,
};
use fstrial_model::{units::Nanos, workload::Io};
use io_uring::{Builder, IoUring, opcode, squeue::Entry, types};
use rustix::io::Errno;
use std::{
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, RawFd},
};

/// Index of the registered payload and read buffers.
const PAYLOAD: u16 = 0;
const READ: u16 = 1;

/// A ring with the memory its requests use.
pub(crate) struct Uring<'a> {
    ring: ManuallyDrop<IoUring>,
    payload: ManuallyDrop<Payload>,
    read: ManuallyDrop<Pages>,
    /// Start of `read`: taken once, as none of our code may look at it while the kernel writes.
    read_start: *mut u8,
    read_stride: usize,
    /// Length of the largest request.
    len: u32,
    /// Registered files are used by their index.
    files: &'a Files,
    fixed_files: bool,
    fixed_buffers: bool,
    /// Pushed and not yet reaped.
    in_flight: usize,
}

/// Tests whether a ring for such a load can be made here.
///
/// # Errors
/// [`EngineError::UringUnavailable`].
pub(crate) fn probe(io: &Io) -> Result<(), EngineError> {
    new_ring(io).map(drop)
}

/// A ring as the load wants it, with the newest options that the kernel takes.
fn new_ring(io: &Io) -> Result<IoUring, EngineError> {
    let depth = u32::from(io.depth);
    let with = |setup: &dyn Fn(&mut Builder)| {
        let mut builder = IoUring::builder();
        setup(&mut builder);
        builder.build(depth)
    };
    let newest = |builder: &mut Builder| {
        builder.setup_submit_all();
        builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    };
    with(&newest).or_else(|_| with(&|_| {})).map_err(|source| EngineError::UringUnavailable { source })
}

impl<'a> Uring<'a> {
    /// A ring for the calling thread, and only for it. `payload` has as many slots as the load has depth.
    pub(crate) fn new(files: &'a Files, payload: Payload, len: usize, io: &Io) -> Result<Self, EngineError> {
        let ring = new_ring(io)?;
        let read_stride = len.next_multiple_of(PAGE);
        let mut read = Pages::new(read_stride * usize::from(io.depth));
        read.as_mut_slice().fill(1);
        let read_start = read.as_mut_slice().as_mut_ptr();
        let mut this = Self {
            ring: ManuallyDrop::new(ring),
            payload: ManuallyDrop::new(payload),
            read: ManuallyDrop::new(read),
            read_start,
            read_stride,
            len: u32::try_from(len).expect("validated: at most 1 GiB"),
            files,
            fixed_files: false,
            fixed_buffers: false,
            in_flight: 0,
        };
        this.register();
        Ok(this)
    }

    /// Registers as much as the kernel allows: saves a reference count and a page walk for each request.
    fn register(&mut self) {
        let fds: Vec<RawFd> = self.files.fds.iter().map(AsRawFd::as_raw_fd).collect();
        self.fixed_files = self.ring.submitter().register_files(&fds).is_ok();
        let payload = self.payload.bytes();
        let payload = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        let read = libc::iovec { iov_base: self.read_start.cast(), iov_len: self.read.as_slice().len() };
        // SAFETY: both stretches of memory are ours, never move, and are freed only after the ring is (see `drop`).
        let registered = unsafe { self.ring.submitter().register_buffers(&[payload, read]) };
        self.fixed_buffers = registered.is_ok();
        // Saves the lookup of the ring's own descriptor at each call; kernels before 5.18 refuse it.
        let _optional = self.ring.submitter().register_ring_fd();
    }

    #[inline]
    fn entry(&mut self, slot: usize, request: &Request) -> Entry {
        let file = request.file;
        if self.fixed_files {
            self.entry_on(types::Fixed(file), slot, request)
        } else {
            self.entry_on(types::Fd(self.files.fds[file as usize].as_raw_fd()), slot, request)
        }
    }

    #[inline]
    fn entry_on(&mut self, fd: impl Into<RingFile>, slot: usize, request: &Request) -> Entry {
        let (len, fixed) = (request.len, self.fixed_buffers);
        assert!(len <= self.len, "the slot has room");
        let fd = fd.into();
        /// The same call for both ways to name a file, which have no type in common.
        macro_rules! on {
            ($op:ident, $($argument:expr),*) => {
                match fd {
                    RingFile::Fixed(fd) => opcode::$op::new(fd, $($argument),*).offset(request.offset).build(),
                    RingFile::Fd(fd) => opcode::$op::new(fd, $($argument),*).offset(request.offset).build(),
                }
            };
        }
        let entry = if request.write {
            let range = self.payload.take(slot, len as usize);
            let bytes = self.payload.bytes()[range].as_ptr();
            if fixed { on!(WriteFixed, bytes, len, PAYLOAD) } else { on!(Write, bytes, len) }
        } else {
            let bytes = self.read_start.wrapping_add(slot * self.read_stride);
            if fixed { on!(ReadFixed, bytes, len, READ) } else { on!(Read, bytes, len) }
        };
        entry.user_data(slot as u64)
    }

    /// Needs Linux 5.11.
    fn wait_at_most(&mut self, time: Nanos) -> Result<(), Errno> {
        let time = types::Timespec::new()
            .sec(time.0 / 1_000_000_000)
            .nsec(u32::try_from(time.0 % 1_000_000_000).unwrap_or(0));
        match self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time)) {
            Ok(_) => Ok(()),
            Err(error) => match errno(error) {
                Errno::TIME | Errno::INTR => Ok(()),
                errno => Err(errno),
            },
        }
    }

    /// Makes the kernel release the files. It takes a ring down some time after it is closed, and until then its files
    /// keep the filesystem from being unmounted.
    fn let_go(&mut self) {
        // Harmless if nothing was registered.
        let _refused = (self.ring.submitter().unregister_files(), self.ring.submitter().unregister_buffers());
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) -> Result<(), Errno> {
        while self.in_flight > 0 {
            self.wait(None)?;
            self.reap(|_, _| {});
        }
        Ok(())
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

enum RingFile {
    Fixed(types::Fixed),
    Fd(types::Fd),
}

impl From<types::Fixed> for RingFile {
    fn from(fd: types::Fixed) -> Self {
        Self::Fixed(fd)
    }
}

impl From<types::Fd> for RingFile {
    fn from(fd: types::Fd) -> Self {
        Self::Fd(fd)
    }
}

impl Engine for Uring<'_> {
    const WAITS_BY: &'static str = "io_uring_enter for";

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        let entry = self.entry(slot, request);
        // SAFETY: the entry's memory is the slot's own and stays until its completion was reaped (see the top of the
        // file); its file outlives the ring.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // There are as many entries as slots, but a kernel thread that submits gives them back in batches, perhaps
            // after the first of the batch is complete.
            let waited = self.ring.submitter().squeue_wait();
            assert!(waited.is_ok(), "there are as many entries as slots: {waited:?}");
        }
        self.in_flight += 1;
    }

    #[inline]
    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno> {
        if let Some(at_most) = at_most {
            return self.wait_at_most(at_most);
        }
        loop {
            match self.ring.submit_and_wait(1).map_err(errno) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        for completion in self.ring.completion() {
            self.in_flight -= 1;
            let result = completion.result();
            let result = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
            done(completion.user_data() as usize, result);
        }
    }
}

#[cfg(test)]
impl crate::drive::Memory for Uring<'_> {
    fn last_read(&self, slot: usize) -> &[u8] {
        let start = self.read_start.wrapping_add(slot * self.read_stride).cast_const();
        // SAFETY: the bytes are the slot's own and as many as it has; it is not in flight, so the kernel does not write them.
        unsafe { std::slice::from_raw_parts(start, self.len as usize) }
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        if self.drain().is_err() {
            // The kernel may still write to the memory: better lost than corrupted.
            return;
        }
        self.let_go();
        // SAFETY: dropped once, here, and not used after; before the memory its requests pointed to.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        // SAFETY: dropped once, here; nothing is in flight, so the kernel does not read it any more.
        unsafe { ManuallyDrop::drop(&mut self.payload) };
        // SAFETY: dropped once, here; nothing is in flight, so the kernel does not write it any more.
        unsafe { ManuallyDrop::drop(&mut self.read) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_file, payload, pipe_file, reaped};
    use std::time::Instant;

    fn of_depth(depth: u16) -> Io {
        Io { depth, ..Io::default() }
    }

    #[test]
    fn drop_waits_for_inflight_requests() {
        // Reads of an empty pipe stay in flight until something is written.
        let (files, writer) = pipe_file();
        let mut ring = Uring::new(&files, payload(2, 4096), 4096, &of_depth(2)).unwrap();
        // Pipes have no offsets; the request's is 0, which the kernel accepts for streams.
        ring.push(0, &Request { len: 4096, ..Request::default() });
        ring.push(1, &Request { len: 4096, ..Request::default() });
        ring.ring.submit().unwrap();
        let dropping = std::thread::spawn(move || {
            // Two pages, one for each read.
            crate::clock::sleep_ns(50_000_000);
            rustix::io::write(&writer, &[7; 4096]).unwrap();
            rustix::io::write(&writer, &[7; 4096]).unwrap();
        });
        assert_eq!(ring.in_flight, 2);
        let start = Instant::now();
        drop(ring);
        assert!(start.elapsed().as_millis() >= 30, "dropped while the kernel still owned the memory");
        dropping.join().unwrap();
    }

    #[test]
    fn a_wait_with_an_end_ends() {
        let (files, writer) = pipe_file();
        let mut ring = Uring::new(&files, payload(1, 4096), 4096, &of_depth(1)).unwrap();
        ring.push(0, &Request { len: 4096, ..Request::default() });
        let start = Instant::now();
        ring.wait(Some(Nanos::millis(20))).unwrap();
        assert!(start.elapsed().as_millis() >= 19);
        ring.reap(|_, _| panic!("nothing is complete"));
        rustix::io::write(&writer, &[7; 4096]).unwrap();
        ring.wait(Some(Nanos::secs(600))).unwrap();
        assert_eq!(reaped(&mut ring), [(0, Ok(4096))]);
    }

    #[test]
    fn oversized_ring_is_refused() {
        // Above the kernel's limit.
        let error = probe(&Io { depth: u16::MAX, ..Io::default() }).unwrap_err();
        assert!(matches!(error, EngineError::UringUnavailable { .. }) && error.hint().is_some(), "{error}");
    }

    #[test]
    fn drop_with_pushed_but_unsubmitted_requests_is_clean() {
        let files = memory_file(8192);
        let mut ring = Uring::new(&files, payload(4, 4096), 4096, &of_depth(4)).unwrap();
        for slot in 0..4 {
            ring.push(slot, &Request { write: slot % 2 == 0, len: 4096, ..Request::default() });
        }
        drop(ring);
    }

    #[test]
    fn works_without_registration() {
        let files = memory_file(0);
        let mut ring = Uring::new(&files, payload(1, 4096), 4096, &of_depth(1)).unwrap();
        (ring.fixed_files, ring.fixed_buffers) = (false, false);
        for write in [true, false] {
            ring.push(0, &Request { write, len: 4096, ..Request::default() });
            ring.wait(None).unwrap();
            assert_eq!(reaped(&mut ring), [(0, Ok(4096))]);
        }
        let written = ring.payload.bytes()[..4096].to_vec();
        assert_eq!(ring.read.as_mut_slice(), &written[..], "what was written is read");
    }
}
