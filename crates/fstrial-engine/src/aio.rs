//! Linux AIO: up to `depth` requests of one thread in flight, one for each `io_submit`, as `InnoDB` and sysbench do.
//!
//! Only direct I/O is asynchronous: through the page cache `io_submit` itself does the I/O, and a full queue is reaped
//! immediately.
//!
//! An island: the calls have no wrapper in any library, and the kernel reads and writes memory that Rust thinks is
//! ours. Why that is sound:
//! - Each slot has its own bytes in `payload` and in `read`, and is pushed again only after its completion was reaped.
//! - A slot's bytes in `read` are looked at only while it is not in flight, and `payload` changes only the bytes of the slot that is being pushed.
//! - The heap memory of both never moves. [`Aio::drop`] waits for everything in flight before they are freed; if that
//!   fails, the queue and the memory are leaked instead.
//! - The kernel copies a control block while `io_submit` runs; it may live on the stack.
#![expect(unsafe_code, reason = "memory is shared with the kernel while requests are in flight")]

use crate::{
    EngineError,
    buffer::{PAGE, Pages, Payload},
    drive::Engine,
    files::Files,
    flush::last_errno,
    requests::Request,
};
use fstrial_model::units::Nanos;
use rustix::io::Errno;
use std::{
    mem::{ManuallyDrop, size_of},
    os::fd::AsRawFd,
    ptr,
};

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE`.
const READ: u16 = 0;
const WRITE: u16 = 1;

/// `struct iocb` of `linux/aio_abi.h`. The order of the first half of its second word depends on the byte order; both
/// parts are 0 here.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ControlBlock {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && size_of::<Event>() == 32);

/// A queue of the kernel, destroyed when dropped (which waits for requests in flight).
#[derive(Debug)]
struct Context(libc::c_ulong);

impl Context {
    fn new(depth: u16) -> Result<Self, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the pointer is to a zeroed aio_context_t, which the call fills.
        let result =
            unsafe { libc::syscall(libc::SYS_io_setup, libc::c_long::from(depth), &raw mut context) };
        if result == 0 { Ok(Self(context)) } else { Err(last_errno()) }
    }

    /// Gives the kernel one request.
    ///
    /// # Safety
    /// The block's memory stays until its completion was taken, and is not written (for a read: touched) until then.
    unsafe fn submit(&self, block: &mut ControlBlock) -> Result<(), Errno> {
        let mut blocks: [*mut ControlBlock; 1] = [block];
        loop {
            // SAFETY: one valid pointer to one valid block, which the kernel copies; its buffer is the caller's promise.
            let result =
                unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1 as libc::c_long, blocks.as_mut_ptr()) };
            match result {
                1 => return Ok(()),
                0 => return Err(Errno::AGAIN),
                _ => match last_errno() {
                    Errno::INTR => {}
                    errno => return Err(errno),
                },
            }
        }
    }

    /// Takes `min` completions at least, unless `at_most` goes by; as many as there is room for.
    fn take(&self, min: usize, room: &mut [Event], at_most: Option<Nanos>) -> Result<usize, Errno> {
        let mut time = at_most.map(|time| libc::timespec {
            tv_sec: (time.0 / 1_000_000_000) as _,
            tv_nsec: (time.0 % 1_000_000_000) as _,
        });
        let time: *mut libc::timespec = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: room for the stated number of events; the time is null or valid during the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                min as libc::c_long,
                room.len() as libc::c_long,
                room.as_mut_ptr(),
                time,
            )
        };
        usize::try_from(result).map_err(|_| last_errno())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours and is not used after this.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Tests whether a queue of `depth` can be made here.
///
/// # Errors
/// [`EngineError::AioUnavailable`].
pub(crate) fn probe(depth: u16) -> Result<(), EngineError> {
    new_context(depth).map(drop)
}

fn new_context(depth: u16) -> Result<Context, EngineError> {
    Context::new(depth).map_err(|errno| EngineError::AioUnavailable { depth, source: errno.into() })
}

/// A queue with the memory its requests use.
#[derive(Debug)]
pub(crate) struct Aio<'a> {
    context: ManuallyDrop<Context>,
    payload: ManuallyDrop<Payload>,
    read: ManuallyDrop<Pages>,
    /// Start of `read`: taken once, as none of our code may look at it while the kernel writes.
    read_start: *mut u8,
    read_stride: usize,
    /// Length of the largest request.
    len: usize,
    files: &'a Files,
    /// Completions taken from the kernel and not yet reaped: the first `taken` of `events`.
    events: Vec<Event>,
    taken: usize,
    /// Requests that the kernel did not take, and why.
    refused: Vec<(usize, Errno)>,
    /// With the kernel.
    in_flight: usize,
}

impl<'a> Aio<'a> {
    /// A queue for requests of `len` bytes. `payload` has `depth` slots.
    pub(crate) fn new(
        files: &'a Files,
        payload: Payload,
        len: usize,
        depth: u16,
    ) -> Result<Self, EngineError> {
        let context = new_context(depth)?;
        let read_stride = len.next_multiple_of(PAGE);
        let mut read = Pages::new(read_stride * usize::from(depth));
        read.as_mut_slice().fill(1);
        let read_start = read.as_mut_slice().as_mut_ptr();
        Ok(Self {
            context: ManuallyDrop::new(context),
            payload: ManuallyDrop::new(payload),
            read: ManuallyDrop::new(read),
            read_start,
            read_stride,
            len,
            files,
            events: vec![Event::default(); usize::from(depth)],
            taken: 0,
            refused: Vec::with_capacity(usize::from(depth)),
            in_flight: 0,
        })
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) -> Result<(), Errno> {
        while self.in_flight > 0 {
            self.taken = 0;
            self.take(1, None)?;
        }
        Ok(())
    }

    fn take(&mut self, min: usize, at_most: Option<Nanos>) -> Result<(), Errno> {
        loop {
            match self.context.take(min, &mut self.events, at_most) {
                Ok(taken) => {
                    self.taken = taken;
                    self.in_flight -= taken;
                    return Ok(());
                }
                Err(Errno::INTR) if at_most.is_some() => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Engine for Aio<'_> {
    const WAITS_BY: &'static str = "io_getevents for";

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        assert!(request.len as usize <= self.len, "the slot has room");
        let (opcode, buffer) = if request.write {
            let range = self.payload.take(slot, request.len as usize);
            (WRITE, self.payload.bytes()[range].as_ptr().cast_mut())
        } else {
            (READ, self.read_start.wrapping_add(slot * self.read_stride))
        };
        let mut block = ControlBlock {
            data: slot as u64,
            opcode,
            fd: self.files.fds[request.file as usize].as_raw_fd().cast_unsigned(),
            buffer: buffer.expose_provenance() as u64,
            bytes: u64::from(request.len),
            offset: request.offset.cast_signed(),
            ..ControlBlock::default()
        };
        // SAFETY: the memory is the slot's own and stays until its completion was reaped (see the top of the file).
        match unsafe { self.context.submit(&mut block) } {
            Ok(()) => self.in_flight += 1,
            Err(errno) => self.refused.push((slot, errno)),
        }
    }

    #[inline]
    fn wait(&mut self, at_most: Option<Nanos>) -> Result<(), Errno> {
        if self.taken > 0 || !self.refused.is_empty() {
            return Ok(());
        }
        self.take(1, at_most)
    }

    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        for event in &self.events[..std::mem::take(&mut self.taken)] {
            let error = || Errno::from_raw_os_error(i32::try_from(-event.result).unwrap_or(libc::EIO));
            done(event.data as usize, usize::try_from(event.result).map_err(|_| error()));
        }
        self.refused.drain(..).for_each(|(slot, errno)| done(slot, Err(errno)));
    }
}

#[cfg(test)]
impl crate::drive::Memory for Aio<'_> {
    fn last_read(&self, slot: usize) -> &[u8] {
        let start = self.read_start.wrapping_add(slot * self.read_stride).cast_const();
        // SAFETY: the bytes are the slot's own and as many as it has; it is not in flight, so the kernel does not write them.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

impl Drop for Aio<'_> {
    fn drop(&mut self) {
        if self.drain().is_err() {
            // The kernel may still write to the memory: better lost than corrupted.
            return;
        }
        // SAFETY: dropped once, here, and not used after; before the memory its requests pointed to.
        unsafe { ManuallyDrop::drop(&mut self.context) };
        // SAFETY: dropped once, here; nothing is in flight, so the kernel does not read it any more.
        unsafe { ManuallyDrop::drop(&mut self.payload) };
        // SAFETY: dropped once, here; nothing is in flight, so the kernel does not write it any more.
        unsafe { ManuallyDrop::drop(&mut self.read) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{payload, pipe_file, reaped};
    use std::time::Instant;

    /// `IOCB_CMD_POLL` (Linux 4.18): the one request that stays in flight for as long as a test wants.
    const POLL: u16 = 5;

    /// Polls a pipe that has nothing to read.
    fn poll(queue: &mut Aio<'_>) {
        let mut block = ControlBlock {
            opcode: POLL,
            fd: queue.files.fds[0].as_raw_fd().cast_unsigned(),
            buffer: u64::from(libc::POLLIN.cast_unsigned()),
            ..ControlBlock::default()
        };
        // SAFETY: a poll has no memory.
        unsafe { queue.context.submit(&mut block) }.unwrap();
        queue.in_flight += 1;
    }

    #[test]
    fn drop_waits_for_requests_in_flight() {
        let (files, writer) = pipe_file();
        let mut queue = Aio::new(&files, payload(2, 4096), 4096, 2).unwrap();
        poll(&mut queue);
        poll(&mut queue);
        let writing = std::thread::spawn(move || {
            crate::clock::sleep_ns(50_000_000);
            rustix::io::write(&writer, b"x").unwrap();
        });
        let start = Instant::now();
        drop(queue);
        assert!(start.elapsed().as_millis() >= 30, "dropped while the kernel still owned the memory");
        writing.join().unwrap();
    }

    #[test]
    fn a_wait_with_an_end_ends() {
        let (files, writer) = pipe_file();
        let mut queue = Aio::new(&files, payload(1, 4096), 4096, 1).unwrap();
        poll(&mut queue);
        let start = Instant::now();
        queue.wait(Some(Nanos::millis(20))).unwrap();
        assert!(start.elapsed().as_millis() >= 19);
        queue.reap(|_, _| panic!("nothing is complete"));
        rustix::io::write(&writer, b"x").unwrap();
        queue.wait(Some(Nanos::secs(600))).unwrap();
        let results = reaped(&mut queue);
        let [(0, Ok(events))] = results[..] else { panic!("{results:?}") };
        assert!(events & usize::from(libc::POLLIN.cast_unsigned()) != 0);
    }

    #[test]
    fn failed_submission_is_reaped_as_error() {
        let (mut files, _writer) = pipe_file();
        files.fds[0] =
            rustix::fs::open("/dev/shm", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let mut queue = Aio::new(&files, payload(2, 4096), 4096, 2).unwrap();
        for slot in [0, 1] {
            queue.push(slot, &Request { len: 4096, ..Request::default() });
        }
        queue.wait(None).unwrap();
        assert_eq!(reaped(&mut queue), [(0, Err(Errno::BADF)), (1, Err(Errno::BADF))]);
        assert_eq!(queue.in_flight, 0);
    }
}
