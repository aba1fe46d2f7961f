//! The straight line: plan → rounds → jobs → place → worker → measurements → verdicts.

#![expect(
    missing_docs,
    reason = "only the program, its tests and its fuzzers use this library: a name may be enough"
)]

pub mod answers;
pub mod attached;
pub mod audit;
pub mod boots;
pub mod cell;
pub mod claim;
pub mod claim_words;
pub mod clock;
pub mod cluster;
pub mod contrast;
mod control;
pub mod coordinator;
pub mod course;
pub mod durability;
pub mod elsewhere;
pub mod environment;
pub mod error;
pub mod event;
pub mod evidence;
pub mod exit_code;
mod failure;
mod find_rate;
pub mod fit;
pub mod forecast;
pub mod history;
pub mod interrupt;
pub mod judge;
pub mod kernels;
pub mod kvm;
pub mod latencies;
pub mod look;
pub mod numbers;
mod operation;
pub mod panels;
pub mod parts;
pub mod place;
pub mod plan;
pub mod prepared;
pub mod probe;
pub mod program;
pub mod recorder;
pub mod round;
pub mod sample;
pub mod session;
pub mod stored;
mod tail;
pub mod typical;
mod untimed;
pub mod warnings;
pub mod worker;
