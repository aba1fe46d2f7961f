//! Standard output: the one way an answer goes there. What could not be written is remembered and decides how the
//! command ends; nothing more is written after it.

mod at_start;

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

/// The first write that failed, until it is asked for.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes text for people: without colours where there is no terminal, and with lines that fit where there is one.
pub(crate) fn print(text: &str) {
    let folded = columns().map(|columns| folded(text, columns));
    remember(|| {
        let mut out = anstream::stdout().lock();
        out.write_all(folded.as_deref().unwrap_or(text).as_bytes())?;
        out.flush()
    });
}

/// How many columns the terminal has that standard output is; none where it is something else.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= LEAST_COLUMNS)
}

/// Narrower terminals fold for themselves.
const LEAST_COLUMNS: usize = 30;

/// Text whose lines have that many columns at most, broken between words; the later ones are indented by two more.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        let (end, line) = if line.ends_with('\n') { ("\n", line.trim_end_matches('\n')) } else { ("", line) };
        if textwrap::core::display_width(line) <= columns {
            return format!("{line}{end}");
        }
        let words = line.trim_start_matches(' ');
        let indent = " ".repeat(line.len() - words.len());
        let later = format!("{indent}  ");
        let options = textwrap::Options::new(columns)
            .initial_indent(&indent)
            .subsequent_indent(&later)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        format!("{}{end}", textwrap::fill(words, options))
    };
    text.split_inclusive('\n').map(fold).collect()
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
