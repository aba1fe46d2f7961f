//! Events as JSON lines on standard output, for programs.

use crate::{
    error::ExpectedError,
    report::stdout,
    run::event::{Event, Listener},
};

/// Prints every event as one line.
#[derive(Debug, Default)]
pub struct JsonLines;

/// One value as one line.
pub fn line(value: &impl serde::Serialize) -> String {
    let line = serde_json::to_string(value).expect("events and documents are plain data");
    format!("{line}\n")
}

/// Prints one value as one line on standard output.
pub fn print(value: &impl serde::Serialize) {
    stdout::write(line(value).as_bytes());
}

impl Listener for JsonLines {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        print(event);
        Ok(())
    }
}
