//! The calls in `calls.c`, with owners of the handles they open.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::{Arc, Mutex, PoisonError},
};

/// `WT_CONNECTION`, `WT_SESSION` and `WT_CURSOR`.
#[repr(C)]
struct Opaque([u8; 0]);

/// `fst_session` of `calls.c`.
#[repr(C)]
#[derive(Debug)]
struct Handles {
    session: *mut Opaque,
    records: *mut Opaque,
    index: *mut Opaque,
}

unsafe extern "C" {
    fn fst_open(folder: *const c_char, config: *const c_char, connection: *mut *mut Opaque) -> c_int;
    fn fst_close(connection: *mut Opaque) -> c_int;
    fn fst_session_open(connection: *mut Opaque, cursors: c_int, opened: *mut Handles) -> c_int;
    fn fst_session_close(of: *mut Handles) -> c_int;
    fn fst_create(of: *mut Handles, records: *const c_char, index: *const c_char) -> c_int;
    fn fst_verify(of: *mut Handles) -> c_int;
    fn fst_begin(of: *mut Handles) -> c_int;
    fn fst_commit(of: *mut Handles) -> c_int;
    fn fst_rollback(of: *mut Handles) -> c_int;
    fn fst_log_sync(of: *mut Handles) -> c_int;
    fn fst_checkpoint(of: *mut Handles) -> c_int;
    fn fst_reset(of: *mut Handles) -> c_int;
    fn fst_checkpoints(of: *mut Handles, count: *mut i64) -> c_int;
    fn fst_log_syncs(of: *mut Handles, count: *mut i64) -> c_int;
    fn fst_last(of: *mut Handles, number: *mut i64) -> c_int;
    fn fst_get(
        of: *mut Handles,
        key: *const c_void,
        key_length: usize,
        number: *mut i64,
        value: *mut *const c_void,
        length: *mut usize,
    ) -> c_int;
    fn fst_put(of: *mut Handles, number: i64, value: *const c_void, length: usize) -> c_int;
    fn fst_index(of: *mut Handles, key: *const c_void, key_length: usize, number: i64) -> c_int;
    fn fst_seek(of: *mut Handles, key: *const c_void, key_length: usize, is_it: *mut c_int) -> c_int;
    fn fst_next(of: *mut Handles) -> c_int;
    fn fst_record(of: *mut Handles, value: *mut *const c_void, length: *mut usize) -> c_int;
    fn fst_is_rollback(failed: c_int) -> c_int;
    fn fst_is_absent(failed: c_int) -> c_int;
    fn fst_message(failed: c_int, into: *mut c_char, length: usize);
    fn fst_version() -> *const c_char;
}

/// An error of WiredTiger, or of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed(pub c_int);

impl Failed {
    /// Another transaction came first: it may be tried again.
    pub fn is_conflict(self) -> bool {
        unsafe { fst_is_rollback(self.0) != 0 }
    }

    fn is_absent(self) -> bool {
        unsafe { fst_is_absent(self.0) != 0 }
    }
}

impl From<Failed> for String {
    fn from(failed: Failed) -> Self {
        // WiredTiger has the message of an unknown error in memory that all threads share.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = [0; 256];
        unsafe { fst_message(failed.0, message.as_mut_ptr(), message.len()) };
        // It ends with a zero.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        message.to_string_lossy().into_owned()
    }
}

fn checked(failed: c_int) -> Result<(), Failed> {
    if failed == 0 { Ok(()) } else { Err(Failed(failed)) }
}

/// Result of a call: an empty one may have no address either.
///
/// # Safety
/// The bytes are valid for as long as the result is used.
unsafe fn given<'a>(value: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 { &[] } else { unsafe { slice::from_raw_parts(value.cast(), length) } }
}

/// The version that is linked.
pub fn version() -> String {
    unsafe { CStr::from_ptr(fst_version()) }.to_string_lossy().into_owned()
}

/// An open database.
#[derive(Debug)]
pub struct Connection(NonNull<Opaque>);

// Connections are for all threads; see "Multithreading" in WiredTiger's manual.
unsafe impl Send for Connection {}
unsafe impl Sync for Connection {}

impl Connection {
    /// Opens the database in a folder.
    pub fn open(folder: &Path, config: &str) -> Result<Self, String> {
        let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        let config = CString::new(config).map_err(|e| e.to_string())?;
        let mut connection = ptr::null_mut();
        checked(unsafe { fst_open(folder.as_ptr(), config.as_ptr(), &raw mut connection) })?;
        Ok(Self(NonNull::new(connection).expect("a call that succeeds gives a handle")))
    }

    /// A session with cursors on the records.
    pub fn session(self: &Arc<Self>) -> Result<Session, Failed> {
        self.open_session(true)
    }

    /// A session without cursors, for operations on the database as a whole: it holds no table.
    pub fn plain_session(self: &Arc<Self>) -> Result<Session, Failed> {
        self.open_session(false)
    }

    fn open_session(self: &Arc<Self>, cursors: bool) -> Result<Session, Failed> {
        let mut handles =
            Handles { session: ptr::null_mut(), records: ptr::null_mut(), index: ptr::null_mut() };
        checked(unsafe { fst_session_open(self.0.as_ptr(), c_int::from(cursors), &raw mut handles) })?;
        Ok(Session { handles, _connection: Arc::clone(self) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It writes a last checkpoint: the check after a run detects data lost by a failure.
        if let Err(failed) = checked(unsafe { fst_close(self.0.as_ptr()) }) {
            eprintln!("closing the database: {}", String::from(failed));
        }
    }
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The record of the key.
    Itself,
    /// The next one.
    Later,
}

/// A session and its cursors, which one thread uses at a time.
#[derive(Debug)]
pub struct Session {
    handles: Handles,
    /// Is closed after it.
    _connection: Arc<Connection>,
}

// A session may go from thread to thread, if only one uses it at a time, which `&mut` sees to.
unsafe impl Send for Session {}

impl Session {
    fn call(&mut self, call: unsafe extern "C" fn(*mut Handles) -> c_int) -> Result<(), Failed> {
        checked(unsafe { call(&raw mut self.handles) })
    }

    fn number(&mut self, call: unsafe extern "C" fn(*mut Handles, *mut i64) -> c_int) -> Result<i64, Failed> {
        let mut number = 0;
        checked(unsafe { call(&raw mut self.handles, &raw mut number) })?;
        Ok(number)
    }

    /// Makes the tables of the records and of their keys, where they are not there.
    pub fn create(&mut self, records: &CStr, index: &CStr) -> Result<(), Failed> {
        checked(unsafe { fst_create(&raw mut self.handles, records.as_ptr(), index.as_ptr()) })
    }

    /// WiredTiger's own check of both tables, on which there may be no cursor.
    pub fn verify(&mut self) -> Result<(), Failed> {
        self.call(fst_verify)
    }

    /// Checkpoints that were completed since the database was opened.
    pub fn checkpoints(&mut self) -> Result<u64, Failed> {
        self.number(fst_checkpoints).map(|count| u64::try_from(count).unwrap_or(0))
    }

    /// Syncs of the log since then.
    #[cfg_attr(not(test), expect(dead_code, reason = "what a write waits for is only tested"))]
    pub fn log_syncs(&mut self) -> Result<u64, Failed> {
        self.number(fst_log_syncs).map(|count| u64::try_from(count).unwrap_or(0))
    }

    /// The greatest number of a record; 0 if there is none.
    pub fn last(&mut self) -> Result<i64, Failed> {
        self.number(fst_last)
    }

    pub fn begin(&mut self) -> Result<(), Failed> {
        self.call(fst_begin)
    }

    pub fn commit(&mut self) -> Result<(), Failed> {
        self.call(fst_commit)
    }

    pub fn roll_back(&mut self) -> Result<(), Failed> {
        self.call(fst_rollback)
    }

    pub fn sync_log(&mut self) -> Result<(), Failed> {
        self.call(fst_log_sync)
    }

    pub fn checkpoint(&mut self) -> Result<(), Failed> {
        self.call(fst_checkpoint)
    }

    /// Lets go of the records that the cursors are at.
    pub fn reset(&mut self) -> Result<(), Failed> {
        self.call(fst_reset)
    }

    /// The number and the value of a key, if there is one.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<(i64, &[u8])>, Failed> {
        let (mut number, mut value, mut length) = (0, ptr::null(), 0);
        let got = checked(unsafe {
            let (key, key_length) = (key.as_ptr().cast(), key.len());
            fst_get(&raw mut self.handles, key, key_length, &raw mut number, &raw mut value, &raw mut length)
        });
        match got {
            Err(failed) if failed.is_absent() => Ok(None),
            // It lives until the next call, which needs `&mut`.
            got => got.map(|()| Some((number, unsafe { given(value, length) }))),
        }
    }

    /// Writes the value of a record, in place of any that it had.
    pub fn put(&mut self, number: i64, value: &[u8]) -> Result<(), Failed> {
        checked(unsafe { fst_put(&raw mut self.handles, number, value.as_ptr().cast(), value.len()) })
    }

    /// Gives a record its key.
    pub fn index(&mut self, key: &[u8], number: i64) -> Result<(), Failed> {
        checked(unsafe { fst_index(&raw mut self.handles, key.as_ptr().cast(), key.len(), number) })
    }

    /// Goes to the first key at or after one.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Found>, Failed> {
        let mut is_it = 0;
        let sought =
            unsafe { fst_seek(&raw mut self.handles, key.as_ptr().cast(), key.len(), &raw mut is_it) };
        is_there(checked(sought), if is_it == 0 { Found::Later } else { Found::Itself })
    }

    /// Goes to the next key.
    pub fn next(&mut self) -> Result<Option<Found>, Failed> {
        is_there(self.call(fst_next), Found::Later)
    }

    /// The value of the record at the current key.
    pub fn record(&mut self) -> Result<&[u8], Failed> {
        let (mut value, mut length) = (ptr::null(), 0);
        checked(unsafe { fst_record(&raw mut self.handles, &raw mut value, &raw mut length) })?;
        Ok(unsafe { given(value, length) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe { fst_session_close(&raw mut self.handles) };
    }
}

fn is_there(result: Result<(), Failed>, found: Found) -> Result<Option<Found>, Failed> {
    match result {
        Ok(()) => Ok(Some(found)),
        Err(failed) if failed.is_absent() => Ok(None),
        Err(failed) => Err(failed),
    }
}
