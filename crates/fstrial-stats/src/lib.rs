//! Paired sequential verdicts: the mathematics of a trial. No clock, no files, no I/O.
//!
//! A *round* measures the two cells of a contrast once each, in random order, and gives one [`Pair`]. A [`Panel`] holds
//! all questions of a trial, takes the pairs round by round and lists after each round the questions with an answer.
//!
//! Basis: the assignment of a round's cells to slots is the coordinator's own coin flip. If the two cells do not
//! differ, swapping their labels in any round changes nothing, so the sign of each log-ratio is a fair coin under any
//! behaviour of the machine. A signed-rank test on those signs ([`signed_rank`]) is therefore exact; [`schedule`] pays
//! for looking after every round; [`total`] prevents an arm that did less over all rounds from being called faster.
//!
//! Everything here is a deterministic function of its arguments: no randomness, and all transcendental functions come
//! from `libm`, so a stored trial gives the same verdict when it is recomputed on another machine.
//!
//! Not guaranteed: that the caller really randomised the order, that a *run* measured the quantity the user cares
//! about, or that an effect of today exists tomorrow.
//!
//! ```
//! use fstrial_stats::{Decision, Done, Multiplicity, Pair, Panel, Question};
//!
//! let questions = vec![Question::comparison(libm::log(1.03))];
//! let mut panel = Panel::new(questions, 0.05, Multiplicity::BenjaminiHochberg);
//! for amount in [1200.0, 1210.0, 1190.0, 1205.0, 1180.0, 1215.0, 1202.0] {
//!     let [a, b] = [Done { amount, time: 1.0 }, Done { amount: 1000.0, time: 1.0 }];
//!     panel.push(0, Pair::of_done(a, b));
//!     panel.settle();
//! }
//! assert_eq!(panel.verdict(0).decision, Decision::Faster);
//! ```
#![forbid(unsafe_code)]

pub mod change;
mod contrast;
pub mod estimate;
pub mod groups;
pub mod meta;
pub mod normal;
pub mod panel;
pub mod part;
pub mod power;
pub mod quantile;
mod question;
pub mod schedule;
mod selection;
pub mod share;
pub mod shift;
pub mod sight;
pub mod signed_rank;
pub mod spread;
pub mod steady;
pub mod student;
pub mod total;

pub use estimate::{Done, Pair};
pub use panel::{Decision, Multiplicity, Panel, Verdict};
pub use question::Question;
