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
//! Without a rate the loop is closed: a thread makes its next request when one has completed. A request is timed from the moment the
//! one before it completed (clock reads are chained, one for each system call), so the generator's own few
//! nanoseconds are part of the latency and nothing falls between two requests. With `io_uring`, AIO and `vsync` all
//! requests that were submitted together share their start, and all that were reaped together their end, as an
//! application sees them. Operations belong to the window in which they *complete*.
//!
//! # Backends
//!
//! | backend | system calls | in flight for each thread |
//! |---|---|---|
//! | `sync` | `pread`, `pwrite` | 1 |
//! | `vsync` | `preadv`, `pwritev`: neighbours go out as one call | 1 call, of up to `depth` requests |
//! | `aio` | `io_submit` for each request, `io_getevents` when the queue is full | `depth`, if direct |
//! | `io_uring` | `io_uring_enter` for all that were made since the last | `depth` |
//! | `mmap` | none: copies from and to a shared map, `msync` | 1 |
//!
//! One loop drives all of them, and one set of tests holds for all. Short transfers and errors are outcomes on each;
//! on a map too, where the signal of a page that is not available (SIGBUS) is caught and the request fails with `EIO`.
//!
//! With a rate the loop is open: requests are due at set times, and are timed from then on, however late they go out
//! (see `arrival`).
//!
//! The hot loop allocates nothing, takes no lock and writes no cache line of another thread, not in the kernel's table
//! of descriptors either: each thread has its own. Memory does not grow with the length of the run. Errors while
//! measuring are an outcome: they are counted, the first is kept as text, and a thread that saw 16 of them stops.
//!
//! A write that owes a sync (`fsync_every`) is complete when the sync is: no new request goes out, those in flight
//! complete, then every file that the thread has written since its last sync is synced, one call after the other. Each
//! call is recorded separately too. The sync is an ordinary system call with every backend, so that its CPU time is the
//! thread's own; work that `io_uring` passes to the kernel's worker threads is not in a thread's CPU time. A sync that
//! counts requests instead of writes belongs to none of them. The syncs of a thread after its time (`fsync_at_end`) are
//! not recorded; only their errors count. An update (a read and a write of the same block) is one operation in the same
//! way.
//!
//! ```no_run
//! use fstrial_engine::{EngineError, Moment, Target, prepare};
//! # use fstrial_model::{job::Load, measurement::LoadResult};
//! fn measure(load: &Load) -> Result<LoadResult, EngineError> {
//!     let prepared = prepare(load, Target::Directory("/mnt/arm".as_ref()))?;
//!     prepared.run(&mut |moment| match moment {
//!         Moment::Ready => { /* they start when this returns */ }
//!         Moment::TimedStart => { /* read the machine's counters */ }
//!         Moment::TimedEnd => { /* and again */ }
//!     })
//! }
//! ```

mod aio;
mod arrival;
#[cfg(test)]
mod backend_tests;
mod buffer;
pub mod clock;
mod cursor;
mod descriptors;
mod distribution;
mod drive;
mod error;
mod fiemap;
mod files;
mod flush;
mod generator;
mod histogram;
mod keyvalue;
mod layout;
mod mmap;
mod overhead;
mod patterns;
mod permutation;
mod promises;
mod recorder;
mod requests;
mod run;
mod serialise;
mod state;
mod sync;
mod tails;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timekeeper;
mod tree;
mod uring;
mod validate;
mod vsync;

pub use error::EngineError;
pub use fiemap::pieces;
pub use files::pace_layouts;
pub use keyvalue::{KeyValueEngines, KeyValueSession, KeyValueStore, NextRecord, OpenStores, Scanned};
pub use layout::{PreparedPhase, Site, prepare};
pub use overhead::{Overhead, loop_around_nothing, loop_cost_ns, measure_overhead};
pub use promises::{Change, SyncObserver, Synced, observe_syncs};
pub use recorder::encode;
pub use run::{Moment, group_name};
pub use state::{Made, Recipe, StateSummary, finish_state, make_state};
pub use target::{Seat, Target, Usage};
pub use validate::validate;
