//! The store as its users see it: what goes in comes out, and nothing that goes wrong loses what was stored.

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
