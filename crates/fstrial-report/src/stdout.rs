//! Standard output: the only path of an answer to it. A failed write is remembered and decides the exit status of the
//! command; nothing more is written after it.

mod at_start;

use super::wrapped;
use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

/// The first write that failed, until it is taken.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes display text, without colours if there is no terminal.
pub fn print(text: &str) {
    remember(|| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    });
}

/// Writes lists and sentences for display: on a terminal with folded lines. They contain no commands to copy.
pub fn print_folded(text: &str) {
    match columns() {
        Some(columns) => print(&folded(text, columns)),
        None => print(text),
    }
}

/// Number of columns of standard output's terminal; none if it is not one.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= LEAST_COLUMNS)
}

/// Narrower terminals fold for themselves.
const LEAST_COLUMNS: usize = 30;

/// Text folded to at most that many columns, broken between words. Continuation lines of a list item are indented to
/// its last column; others by two more than the line.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        let words = line.trim_end_matches('\n');
        if textwrap::core::display_width(words) <= columns {
            return line.to_owned();
        }
        let text = words.trim_start_matches(' ');
        let indent = words.len() - text.len();
        let shown: Vec<char> =
            anstream::adapter::strip_str(words).to_string().chars().take(columns / 2).collect();
        let gap = shown.windows(2).rposition(|two| two == [' ', ' ']).map(|at| at + 2);
        let last_column = gap.filter(|at| *at > indent);
        let end = &line[words.len()..];
        format!("{}{end}", wrapped(text, columns, indent, last_column.unwrap_or(indent + 2)))
    };
    text.split_inclusive('\n').map(fold).collect()
}

/// Writes bytes as they are.
pub fn write(bytes: &[u8]) {
    remember(|| {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    });
}

/// The first write that failed, once; none if all were written.
pub fn take_failure() -> Option<io::Error> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn remember(write: impl FnOnce() -> io::Result<()>) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = is_open().and_then(|()| write()).err();
    }
}

/// For writers that need the result: the error is remembered and returned.
fn reported<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
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

/// Standard output for piecewise writing.
#[derive(Debug)]
pub struct Pieces;

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        reported(|| io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        reported(|| io::stdout().flush())
    }
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn long_lines_are_folded_below_their_last_column_and_others_two_columns_in() {
        let text = "short\n  a line of words that goes on\n  name   what it is, in words\n/a/path/that/is/too/long/for/it\n";
        let lines = [
            "short",
            "  a line of words that",
            "    goes on",
            "  name   what it is,",
            "         in words",
            "/a/path/that/is/too/long/for/it",
            "",
        ];
        assert_eq!(folded(text, 22), lines.join("\n"));
        assert_eq!(folded("\u{1b}[1mbold\u{1b}[0m and more", 13), "\u{1b}[1mbold\u{1b}[0m and more");
        assert_eq!(folded("\u{1b}[1mé\u{1b}[0m   × and more", 10), "\u{1b}[1mé\u{1b}[0m   × and\n    more");
    }
}
