//! A trial as it runs, on the whole terminal: verdicts with their intervals, and how they came about.
//!
//! ```text
//! events, or the store ─► Model ─► view::draw (a pure function of model, choices and time) ─► Screen
//! ```
//!
//! `--watch` hears the trial's events ([`listener`]); `fstrial watch` reads the store. Nothing here decides anything.

pub mod listener;
pub mod look;
pub mod model;
mod plot;
pub mod screen;
pub mod text;
pub mod view;

#[cfg(test)]
mod tests;
