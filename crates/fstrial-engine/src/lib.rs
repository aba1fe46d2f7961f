//! Makes I/O at the kernel's limit and records every latency. Knows no filesystem, no root, no statistics.
//!
//! # The life of a load
//!
//! ```text
//!  Load ──► validate ──► prepare ──► Prepared ──► run ──────────────────────────────────► LoadResult
//!           pure check    lays out the            one thread each: ring, buffers, histograms
//!                         files, syncs them       │
//!                                                 ├─ all ready? ── one common start ──┐
//!                                                 │                                   ▼
//!                 common clock    start                     TimedStart             TimedEnd
//!                                   ├──────── warm-up ──────────┼─────── duration ────┤
//!                 each thread       │ request, request, ...     │ request, request ...│ those in flight complete
//!                 what counts       │ series, steady windows    │ + windows,          │ and do not count
//!                                   │                           │   histograms, bytes │
//!                 main thread     sleeps ──────────────── hook(TimedStart) ───── hook(TimedEnd), joins, merges
//! ```
//!
//! The loop is closed: a thread makes its next request when one has completed. A request is timed from the moment the
//! one before it completed (clock reads are chained, one for each system call), so the generator's own few
//! nanoseconds are part of the latency and nothing falls between two requests. With `io_uring` all requests that were
//! submitted together share their start, and all that were reaped together their end, as an application sees them.
//! Operations belong to the window in which they *complete*.
//!
//! The hot loop allocates nothing, takes no lock and writes no cache line of another thread, not in the kernel's table of
//! descriptors either: each thread has its own. Memory does not grow with the length of the run. Errors while measuring are an outcome: they are counted, the first is kept in words, and a
//! thread that saw 16 of them stops.
//!
//! A write that owes a sync (`fsync_every`) is complete when the sync is: no new request goes out, those in flight
//! complete, then every file that the thread has written since its last sync is synced, one call after the other.
//! Each call is recorded by itself too. The sync is the ordinary system call with either backend, so that its CPU time
//! is the thread's own; work that `io_uring` hands to the kernel's worker threads is not in a thread's CPU time.
//!
//! ```no_run
//! use fstrial_engine::{EngineError, Moment, Target, prepare};
//! # use fstrial_model::{job::Load, measurement::LoadResult};
//! fn measure(load: &Load) -> Result<LoadResult, EngineError> {
//!     let prepared = prepare(load, Target::Directory("/mnt/arm".as_ref()))?;
//!     prepared.run(&mut |moment| match moment {
//!         Moment::TimedStart => { /* read the machine's counters */ }
//!         Moment::TimedEnd => { /* and again */ }
//!     })
//! }
//! ```

mod buffer;
pub mod clock;
mod descriptors;
mod drive;
mod error;
mod fileset;
mod generator;
mod histogram;
mod layout;
mod overhead;
mod pattern;
mod recorder;
mod run;
mod sync;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod uring;
mod validate;

pub use error::EngineError;
pub use layout::{Prepared, Target, prepare};
pub use overhead::{Overhead, loop_around_nothing, measure_overhead};
pub use run::Moment;
pub use validate::validate;
