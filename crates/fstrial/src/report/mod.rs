//! What people and programs are shown. Functions of what was measured: no clock, no host.

pub mod audit;
pub mod claim;
pub mod document;
pub mod fio_json;
pub mod json_lines;
pub mod numbers;
pub mod progress;
pub mod steps;
pub mod summary;
pub mod table;
pub mod verdict;
