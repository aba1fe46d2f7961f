//! The store as its users see it: results are read as they were written, and no failure loses stored data.

mod common;
mod copy;
mod filter;
mod fixtures;
mod foreign;
mod kill;
mod round_trip;
mod sharing;
mod transfer;
mod views;
