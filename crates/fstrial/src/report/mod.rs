//! What people and programs are shown. Functions of what was measured: no clock, no host.

pub mod again;
pub mod at_device;
pub mod claim;
pub mod diff;
pub mod document;
pub mod elsewhere;
pub mod export;
pub mod fio_json;
pub mod first_lap;
pub mod json_lines;
pub mod lkml;
pub mod markdown;
pub mod page;
pub mod plot;
pub mod progress;
pub mod quotient;
mod remarks;
pub mod screen;
pub mod served;
pub(crate) mod stdout;
pub mod steps;
pub mod summary;
pub mod table;
mod text;
pub mod trend;
pub mod verdict;
pub mod watch;

pub(crate) use crate::numbers;
pub(crate) use text::{USUAL_COLUMNS, is_unicode, plain, plain_lines, shortened, wrapped};
