//! Output for readers and programs: functions of measurements, without clock and host. Progress and `watch` use both.

#![expect(
    missing_docs,
    reason = "only the program, its tests and its fuzzers use this library: a name may be enough"
)]

pub mod again;
mod at_device;
pub mod bar;
pub mod campaign;
pub mod catalogue;
pub mod claim;
pub mod diff;
pub mod document;
pub mod elsewhere;
pub mod evidence;
pub mod export;
pub mod fio_json;
pub mod first_lap;
mod flame;
mod forest;
pub mod json_lines;
pub mod lkml;
pub mod markdown;
pub mod meta;
pub mod page;
mod plot;
pub mod progress;
mod quotient;
pub mod receipt;
mod remarks;
pub mod screen;
pub mod served;
#[cfg(test)]
mod simulation;
pub mod stdout;
pub mod steps;
pub mod summary;
pub mod table;
mod text;
mod together;
pub mod trend;
pub mod verdict;
pub mod watch;

pub(crate) use fstrial_run::numbers;
pub use text::{USUAL_COLUMNS, is_unicode, plain, plain_lines, shortened, wrapped};

/// The word of a verdict in JSON.
fn stored_word(verdict: impl serde::Serialize) -> String {
    let word = serde_json::to_value(verdict).expect("a verdict is plain data");
    word.as_str().expect("a verdict is one word").to_owned()
}
