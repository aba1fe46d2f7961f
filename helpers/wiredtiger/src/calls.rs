//! The calls in `calls.c`, with owners of what they open.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};

/// `WT_CONNECTION`, `WT_SESSION` and `WT_CURSOR`.
#[repr(C)]
struct Opaque([u8; 0]);

unsafe extern "C" {
    fn fst_open(folder: *const c_char, config: *const c_char, connection: *mut *mut Opaque) -> c_int;
    fn fst_close(connection: *mut Opaque) -> c_int;
    fn fst_create(connection: *mut Opaque, config: *const c_char) -> c_int;
    fn fst_session(connection: *mut Opaque, session: *mut *mut Opaque, cursor: *mut *mut Opaque) -> c_int;
    fn fst_session_close(session: *mut Opaque) -> c_int;
    fn fst_begin(session: *mut Opaque) -> c_int;
    fn fst_commit(session: *mut Opaque) -> c_int;
    fn fst_commit_unsynced(session: *mut Opaque) -> c_int;
    fn fst_rollback(session: *mut Opaque) -> c_int;
    fn fst_log_sync(session: *mut Opaque) -> c_int;
    fn fst_checkpoint(session: *mut Opaque) -> c_int;
    fn fst_get(cursor: *mut Opaque, key: *const c_void, key_length: usize, value: *mut *const c_void, length: *mut usize) -> c_int;
    fn fst_put(cursor: *mut Opaque, key: *const c_void, key_length: usize, value: *const c_void, length: usize) -> c_int;
    fn fst_seek(cursor: *mut Opaque, key: *const c_void, key_length: usize, is_it: *mut c_int) -> c_int;
    fn fst_value(cursor: *mut Opaque, value: *mut *const c_void, length: *mut usize) -> c_int;
    fn fst_next(cursor: *mut Opaque) -> c_int;
    fn fst_reset(cursor: *mut Opaque) -> c_int;
    fn fst_is_rollback(failed: c_int) -> c_int;
    fn fst_is_absent(failed: c_int) -> c_int;
    fn fst_message(failed: c_int) -> *const c_char;
    fn fst_version() -> *const c_char;
}

/// An error of WiredTiger, or of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed(c_int);

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
        // A static string, or one of the thread that lives until its next call.
        let message = unsafe { CStr::from_ptr(fst_message(failed.0)) };
        message.to_string_lossy().into_owned()
    }
}

fn checked(failed: c_int) -> Result<(), Failed> {
    if failed == 0 { Ok(()) } else { Err(Failed(failed)) }
}

/// The version that is linked.
pub fn version() -> String {
    unsafe { CStr::from_ptr(fst_version()) }.to_string_lossy().into_owned()
}

fn opened(pointer: *mut Opaque) -> NonNull<Opaque> {
    NonNull::new(pointer).expect("a call that succeeds gives a handle")
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
        Ok(Self(opened(connection)))
    }

    /// Makes the table of the records, where there is none.
    pub fn create(&self, config: &str) -> Result<(), String> {
        let config = CString::new(config).map_err(|e| e.to_string())?;
        Ok(checked(unsafe { fst_create(self.0.as_ptr(), config.as_ptr()) })?)
    }

    /// A session with a cursor on the records.
    pub fn session(self: &Arc<Self>) -> Result<Cursor, Failed> {
        let (mut session, mut cursor) = (ptr::null_mut(), ptr::null_mut());
        checked(unsafe { fst_session(self.0.as_ptr(), &raw mut session, &raw mut cursor) })?;
        Ok(Cursor { session: opened(session), cursor: opened(cursor), _connection: Arc::clone(self) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        unsafe { fst_close(self.0.as_ptr()) };
    }
}

/// What a search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The record of the key.
    Itself,
    /// The next one.
    Later,
}

/// A session and its cursor, which one thread uses at a time.
#[derive(Debug)]
pub struct Cursor {
    session: NonNull<Opaque>,
    cursor: NonNull<Opaque>,
    /// Is closed after it.
    _connection: Arc<Connection>,
}

// A session may go from thread to thread, if only one uses it at a time, which `&mut` sees to.
unsafe impl Send for Cursor {}

impl Cursor {
    fn call(&mut self, call: unsafe extern "C" fn(*mut Opaque) -> c_int) -> Result<(), Failed> {
        checked(unsafe { call(self.session.as_ptr()) })
    }

    pub fn begin(&mut self) -> Result<(), Failed> {
        self.call(fst_begin)
    }

    pub fn commit(&mut self) -> Result<(), Failed> {
        self.call(fst_commit)
    }

    pub fn commit_unsynced(&mut self) -> Result<(), Failed> {
        self.call(fst_commit_unsynced)
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

    /// The value of a key, if there is one.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, Failed> {
        let (mut value, mut length) = (ptr::null(), 0);
        let cursor = self.cursor.as_ptr();
        let got = checked(unsafe { fst_get(cursor, key.as_ptr().cast(), key.len(), &raw mut value, &raw mut length) });
        match got {
            Err(failed) if failed.is_absent() => Ok(None),
            // It lives until the next call on the cursor, which needs `&mut`.
            got => got.map(|()| Some(unsafe { slice::from_raw_parts(value.cast(), length) })),
        }
    }

    /// Writes a value, in place of any that the key had.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failed> {
        let (key, key_length) = (key.as_ptr().cast(), key.len());
        checked(unsafe { fst_put(self.cursor.as_ptr(), key, key_length, value.as_ptr().cast(), value.len()) })
    }

    /// Goes to the first record at or after a key.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Found>, Failed> {
        let mut is_it = 0;
        let sought = unsafe { fst_seek(self.cursor.as_ptr(), key.as_ptr().cast(), key.len(), &raw mut is_it) };
        self::is_there(checked(sought), if is_it == 0 { Found::Later } else { Found::Itself })
    }

    /// Goes to the next record.
    pub fn next(&mut self) -> Result<Option<Found>, Failed> {
        is_there(checked(unsafe { fst_next(self.cursor.as_ptr()) }), Found::Later)
    }

    /// The value of the record that it is at.
    pub fn value(&mut self) -> Result<&[u8], Failed> {
        let (mut value, mut length) = (ptr::null(), 0);
        checked(unsafe { fst_value(self.cursor.as_ptr(), &raw mut value, &raw mut length) })?;
        Ok(unsafe { slice::from_raw_parts(value.cast(), length) })
    }

    /// Lets go of the record that it is at.
    pub fn reset(&mut self) -> Result<(), Failed> {
        checked(unsafe { fst_reset(self.cursor.as_ptr()) })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        unsafe { fst_session_close(self.session.as_ptr()) };
    }
}

fn is_there(went: Result<(), Failed>, found: Found) -> Result<Option<Found>, Failed> {
    match went {
        Ok(()) => Ok(Some(found)),
        Err(failed) if failed.is_absent() => Ok(None),
        Err(failed) => Err(failed),
    }
}
