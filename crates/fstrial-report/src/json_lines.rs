//! Events and the answer as JSON lines on standard output, for programs: each has an `event` and a `time`.

use super::document::Document;
use crate::stdout;
use fstrial_run::{
    error::ExpectedError,
    event::{Event, Listener},
};
use serde::Serialize;

/// Prints every event as one line.
#[derive(Debug, Default)]
pub struct JsonLines;

/// One value as one line.
pub fn line(value: &impl Serialize) -> String {
    let line = serde_json::to_string(value).expect("events and documents are plain data");
    format!("{line}\n")
}

/// Prints one value as one line on standard output.
pub fn print(value: &impl Serialize) {
    stdout::write(line(value).as_bytes());
}

/// An event, with its moment.
#[derive(Serialize)]
struct Timed<'a, T: Serialize> {
    #[serde(flatten)]
    event: &'a T,
    /// RFC 3339, UTC, to the millisecond.
    time: String,
}

impl<'a, T: Serialize> Timed<'a, T> {
    fn now(event: &'a T) -> Self {
        Self { event, time: format!("{:.3}", jiff::Timestamp::now()) }
    }
}

/// The last event of a trial.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum Last<'a> {
    Answer(&'a Document),
}

/// Prints the answer as the last event of its trial.
pub fn print_answer(document: &Document) {
    print(&Timed::now(&Last::Answer(document)));
}

impl Listener for JsonLines {
    fn hear(&mut self, event: &Event<'_>) -> Result<(), ExpectedError> {
        print(&Timed::now(event));
        Ok(())
    }
}
