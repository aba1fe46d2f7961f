//! Events as JSON lines on standard output, for programs.

use crate::{
    error::ExpectedError,
    run::event::{Event, Listener},
};
use std::io::Write;

/// Prints every event as one line.
#[derive(Debug, Default)]
pub struct JsonLines;

/// Prints one value as one line on standard output. A reader that went away is not an error.
pub fn print(value: &impl serde::Serialize) {
    let line = serde_json::to_string(value).expect("events and documents are plain data");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

impl Listener for JsonLines {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        print(event);
        Ok(())
    }
}
