//! Copies from and to a shared map of each file: one request at a time, done when it is pushed.
//!
//! Each thread maps its own descriptors, so no map's descriptor is shared; the pages are those of the page cache and
//! are the same for all. Pages are mapped as they are first touched, as in an application.
//!
//! A page that is not available (the device fails, or is full when a hole or a copied-on-write block needs space)
//! raises SIGBUS, which would end the process. Here it is an outcome: the handler maps an empty page, so that the copy
//! completes, the request fails with `EIO` (the kernel does not report the actual error), and the file's pages are
//! mapped again. systemd's journal does the same. SIGBUS from anywhere else ends the process as usual.
//!
//! An island: maps of files have no safe wrapper. Why it is sound:
//! - A map is unmapped when it is dropped; nothing outside of this file sees its address.
//! - Every copy is checked to be inside its map. Copies go through raw pointers only, there are no references into a
//!   map: other threads may write the same page through their own maps, as the workload wants.
#![expect(unsafe_code, reason = "maps of files and a signal handler have no safe wrapper")]

use crate::{
    EngineError,
    buffer::{Pages, Payload},
    drive::Engine,
    error::layout,
    files::Files,
    flush::last_errno,
    requests::Request,
};
use fstrial_model::{units::Nanos, workload::SyncCall};
use rustix::io::Errno;
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, compiler_fence},
    },
};

/// The stretch of a map that a thread is copying from or to. Shared between a thread and its own signal handler only,
/// which compiler fences are enough for.
#[derive(Debug)]
struct Watch {
    start: AtomicUsize,
    end: AtomicUsize,
    /// A page of it was not available.
    failed: AtomicBool,
}

thread_local! {
    /// Has a constant start and nothing to drop, so that a signal handler may look at it at any time.
    static WATCH: Watch = const {
        Watch { start: AtomicUsize::new(0), end: AtomicUsize::new(0), failed: AtomicBool::new(false) }
    };
}

/// Size of a page, for the handler; set before it is installed.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

/// Installs the handler, once in a process.
fn catch_bus_errors() -> Result<(), EngineError> {
    static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        PAGE_SIZE.store(rustix::param::page_size(), Relaxed);
        // SAFETY: all zero is a valid sigaction: no flags, an empty mask, the default handler.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        action.sa_sigaction = handler as libc::sighandler_t;
        // Threads of the standard library have a stack for signals.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the action is valid, its handler has the signature required by SA_SIGINFO and calls only
        // async-signal-safe functions; the old action is not requested.
        let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    });
    installed.map_err(|errno| EngineError::Limit {
        what: "cannot catch the errors of memory maps (SIGBUS)".into(),
        source: errno.into(),
    })
}

/// Puts an empty page in the place of one that was not available, if this thread is copying there.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands a valid siginfo to the handler.
    let info = unsafe { &*info };
    // SAFETY: SIGBUS has an address; if it was sent by a process the value is arbitrary but initialised, and only
    // compared.
    let address = unsafe { info.si_addr() }.addr();
    let replaced = info.si_code > 0
        && WATCH.with(|watch| {
            let watched = (watch.start.load(Relaxed)..watch.end.load(Relaxed)).contains(&address);
            let replaced = watched && replace_page(address);
            if replaced {
                watch.failed.store(true, Relaxed);
            }
            replaced
        });
    if !replaced {
        // SAFETY: a call that a handler may make, with valid arguments.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: as above; it takes effect, and ends the process, when the handler returns.
        unsafe { libc::raise(signal) };
    }
}

fn replace_page(address: usize) -> bool {
    let size = PAGE_SIZE.load(Relaxed);
    let page = ptr::with_exposed_provenance_mut::<libc::c_void>(address / size * size);
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: the page is in a map of this file's (the caller checked its address), into which there are no references;
    // mmap is a bare system call and may be made in a handler.
    let result = unsafe { libc::mmap(page, size, access, flags, -1, 0) };
    result != libc::MAP_FAILED
}

/// A shared map of one whole file.
#[derive(Debug)]
struct Map {
    start: *mut u8,
    len: usize,
    /// Its pages could not be mapped again after an error: nothing can be read from it any more.
    lost: Option<Errno>,
}

impl Map {
    fn new(fd: &OwnedFd, len: usize) -> Result<Self, Errno> {
        // SAFETY: no fixed address, so nothing is replaced; the descriptor is open.
        let start = unsafe { map(ptr::null_mut(), fd, 0, len, 0) }?;
        start.expose_provenance();
        Ok(Self { start, len, lost: None })
    }

    /// Address of a request's bytes.
    #[inline]
    fn place(&self, offset: u64, len: usize) -> *mut u8 {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(len));
        assert!(end.is_some_and(|end| end <= self.len), "requests are inside their file");
        // SAFETY: the place and the bytes from there on are inside of the map, as was just checked.
        unsafe { self.start.add(offset as usize) }
    }

    /// Maps the pages around a request from the file again.
    #[cold]
    fn restore(&mut self, fd: &OwnedFd, offset: u64, len: usize) {
        let page = PAGE_SIZE.load(Relaxed);
        let start = offset as usize / page * page;
        let end = (offset as usize + len).next_multiple_of(page).min(self.len.next_multiple_of(page));
        let place = self.place(start as u64, 0);
        // SAFETY: the pages are this map's own, and there are no references into it.
        let result = unsafe { map(place, fd, start, end - start, libc::MAP_FIXED) };
        self.lost = result.err();
    }

    fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the range is exactly this map's.
        let result = unsafe { libc::msync(self.start.cast(), self.len, libc::MS_SYNC) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

/// Maps a stretch of a file for reading and writing.
///
/// # Safety
/// With `MAP_FIXED` in `flags`, the memory at `place` is the caller's own map and there are no references into it.
unsafe fn map(
    place: *mut u8,
    fd: &OwnedFd,
    offset: usize,
    len: usize,
    flags: libc::c_int,
) -> Result<*mut u8, Errno> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
    // SAFETY: the caller's promise.
    let start =
        unsafe { libc::mmap(place.cast(), len, access, libc::MAP_SHARED | flags, fd.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED { Err(last_errno()) } else { Ok(start.cast()) }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this map's, nothing outside of this file has its address, and no copy runs.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Copies each request immediately.
#[derive(Debug)]
pub(crate) struct Mmap<'a> {
    files: &'a Files,
    maps: Vec<Map>,
    payload: Payload,
    read: Pages,
    result: Option<Result<usize, Errno>>,
}

impl<'a> Mmap<'a> {
    /// Maps the first `size` bytes of every file. For requests of up to `len` bytes; `payload` has one slot.
    ///
    /// # Errors
    /// [`EngineError::Limit`] if there is no room for the maps; otherwise [`EngineError::Layout`].
    pub(crate) fn new(
        files: &'a Files,
        payload: Payload,
        len: usize,
        size: u64,
    ) -> Result<Self, EngineError> {
        catch_bus_errors()?;
        let mut read = Pages::new(len);
        // Touches every page before the clock runs.
        read.as_mut_slice().fill(1);
        let whole = usize::try_from(size).map_err(|_| too_large(&files.paths[0], Errno::OVERFLOW))?;
        let map = |(fd, path): (&OwnedFd, &std::path::PathBuf)| {
            Map::new(fd, whole).map_err(|errno| match errno {
                Errno::NOMEM | Errno::AGAIN | Errno::OVERFLOW => too_large(path, errno),
                _ => layout("map", path, errno),
            })
        };
        let maps = files.fds.iter().zip(&files.paths).map(map).collect::<Result<_, _>>()?;
        Ok(Self { files, maps, payload, read, result: None })
    }

    #[inline]
    fn copy(&mut self, slot: usize, request: &Request) -> Result<usize, Errno> {
        let map = &mut self.maps[request.file as usize];
        if let Some(errno) = map.lost {
            return Err(errno);
        }
        let len = request.len as usize;
        assert!(len <= self.read.as_slice().len(), "the buffer has room");
        let place = map.place(request.offset, len);
        let (from, to) = if request.write {
            let range = self.payload.take(slot, len);
            (self.payload.bytes()[range].as_ptr(), place)
        } else {
            (place.cast_const(), self.read.as_mut_slice().as_mut_ptr())
        };
        // SAFETY: both have `len` bytes: the place was checked, and so was the payload's range by its index, and the
        // length of the destination. Maps and heap memory do not overlap.
        let whole = unsafe { watched_copy(from, to, len, place.addr()) };
        std::hint::black_box(to);
        if whole {
            return Ok(len);
        }
        map.restore(&self.files.fds[request.file as usize], request.offset, len);
        Err(Errno::IO)
    }
}

/// Copies, and returns whether every page of the map was available.
///
/// # Safety
/// Both pointers have `len` bytes that do not overlap; those at address `watched` are in a map of this file's.
#[inline]
unsafe fn watched_copy(from: *const u8, to: *mut u8, len: usize, watched: usize) -> bool {
    WATCH.with(|watch| {
        watch.start.store(watched, Relaxed);
        watch.end.store(watched + len, Relaxed);
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, to, len) };
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
        watch.end.store(0, Relaxed);
        let failed = watch.failed.load(Relaxed);
        if failed {
            watch.failed.store(false, Relaxed);
        }
        !failed
    })
}

fn too_large(path: &Path, errno: Errno) -> EngineError {
    EngineError::Limit {
        what: format!("cannot map {} into memory", path.display()),
        source: io::Error::from(errno),
    }
}

impl Engine for Mmap<'_> {
    const WAITS_BY: &'static str = "nothing";

    #[inline]
    fn push(&mut self, slot: usize, request: &Request) {
        self.result = Some(self.copy(slot, request));
    }

    #[inline]
    fn wait(&mut self, _: Option<Nanos>) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn reap(&mut self, mut done: impl FnMut(usize, Result<usize, Errno>)) {
        if let Some(result) = self.result.take() {
            done(0, result);
        }
    }

    /// `msync` of the whole map, whichever call is wanted: it syncs data as `fdatasync` does.
    fn sync(&mut self, file: usize, _: &OwnedFd, _: SyncCall) -> (&'static str, Result<(), Errno>) {
        ("msync", self.maps[file].sync())
    }
}

#[cfg(test)]
impl crate::drive::Memory for Mmap<'_> {
    fn last_read(&self, _: usize) -> &[u8] {
        self.read.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Memory;
    use crate::testing::{memory_file, payload, pipe_file, reaped};

    const LEN: usize = 10_000;

    fn engine(files: &Files, size: u64) -> Mmap<'_> {
        Mmap::new(files, payload(1, LEN), LEN, size).unwrap()
    }

    fn result(engine: &mut Mmap<'_>, write: bool, offset: u64) -> Result<usize, Errno> {
        engine.push(0, &Request { write, offset, len: LEN as u32, ..Request::default() });
        engine.wait(None).unwrap();
        reaped(engine).pop().unwrap().1
    }

    #[test]
    fn inaccessible_pages_fail_only_their_request() {
        let files = memory_file(40_000);
        let mut engine = engine(&files, 40_000);
        assert_eq!(result(&mut engine, true, 20_000), Ok(LEN));
        // The second and the third page of the request are beyond the end now.
        rustix::fs::ftruncate(&files.fds[0], 24_576).unwrap();
        for write in [true, false, true] {
            assert_eq!(result(&mut engine, write, 20_000), Err(Errno::IO));
            assert_eq!(result(&mut engine, write, 0), Ok(LEN));
        }
        // The replacement pages are gone: writes reach the file again.
        rustix::fs::ftruncate(&files.fds[0], 40_000).unwrap();
        assert_eq!(result(&mut engine, true, 20_000), Ok(LEN));
        let mut bytes = vec![0; LEN];
        rustix::io::pread(&files.fds[0], &mut bytes, 20_000).unwrap();
        assert_eq!(result(&mut engine, false, 20_000), Ok(LEN));
        assert!(engine.last_read(0) == bytes && bytes.iter().any(|byte| *byte != 0));
    }

    #[test]
    fn impossible_mappings_are_refused() {
        let (files, _writer) = pipe_file();
        let error = Mmap::new(&files, payload(1, LEN), LEN, 40_000).unwrap_err();
        assert!(error.to_string().contains("map pipe"), "{error}");
        let files = memory_file(1);
        let error = Mmap::new(&files, payload(1, LEN), LEN, 1 << 62).unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains("cannot map memfd"), "{error}");
    }

    #[test]
    #[should_panic(expected = "inside their file")]
    fn request_beyond_mapping_panics() {
        let files = memory_file(40_000);
        let _result = result(&mut engine(&files, 40_000), true, 30_001);
    }
}
