//! Standard output: the one way an answer goes there. What could not be written is remembered and decides how the
//! command ends; nothing more is written after it.

mod at_start;

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

/// The first write that failed, until it is asked for.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes text for people, without colours where there is no terminal.
pub(crate) fn print(text: &str) {
    remember(|| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    });
}

/// Writes bytes as they are.
pub(crate) fn write(bytes: &[u8]) {
    remember(|| {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    });
}

/// The first write that failed, once; none if all were written.
pub(crate) fn take_failure() -> Option<io::Error> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn remember(write: impl FnOnce() -> io::Result<()>) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = is_open().and_then(|()| write()).err();
    }
}

/// For writers that want to know: the error is remembered and told.
fn told<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    is_open().and_then(|()| write()).inspect_err(|error| {
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
    })
}

fn is_open() -> io::Result<()> {
    match at_start::was_closed() {
        true => Err(io::Error::other("it is closed")),
        false => Ok(()),
    }
}

/// Standard output for what is written piece by piece.
#[derive(Debug)]
pub(crate) struct Pieces;

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        told(|| io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        told(|| io::stdout().flush())
    }
}
