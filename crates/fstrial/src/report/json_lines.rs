//! Events as JSON lines on standard output, for programs.

use crate::{
    error::ExpectedError,
    report::stdout,
    run::event::{Event, Listener},
};

/// Prints every event as one line.
#[derive(Debug, Default)]
pub struct JsonLines;

/// Prints one value as one line on standard output.
pub fn print(value: &impl serde::Serialize) {
    let line = serde_json::to_string(value).expect("events and documents are plain data");
    stdout::write(format!("{line}\n").as_bytes());
}

impl Listener for JsonLines {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        print(event);
        Ok(())
    }
}
