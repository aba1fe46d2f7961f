//! Lays out the files of a load before any clock runs: full size, in order, synced; never over a file that was there.
//!
//! Files are written without preallocation unless the load requests it: on btrfs, for example, preallocated
//! extents are written in place and uncompressed, so a preallocated file would ignore
//! the arm's mount options.

use crate::{
    EngineError, Seat, Target, Usage,
    clock::Clock,
    keyvalue::{KeyValueEngines, NoEngines},
    patterns::{LayoutContext, PreparedThreads, routine},
    tree::Trees,
    validate,
};
use fstrial_model::{job::Load, workload::SetName};
use std::{collections::BTreeSet, path::Path};

/// A phase whose files are laid out: ready to run, once.
#[derive(Debug)]
pub struct PreparedPhase {
    pub(crate) clock: Clock,
    /// Each load with the work of its threads.
    pub(crate) groups: Vec<(Load, PreparedThreads)>,
}

/// The directory or device on which the phases of a run work, one after the other. Tracks the existing file sets.
#[derive(Debug)]
pub struct Site<'a> {
    target: Target<'a>,
    /// The sets that were laid out.
    sets: BTreeSet<SetName>,
    /// State of the trees of files.
    trees: Trees,
    /// Permissions on a device that is used without a layout. `None`: loads lay out their files.
    existing_device: Option<Usage>,
    engines: &'a dyn KeyValueEngines,
    seat: Seat,
}

/// Lays out the files of a single load: see [`Site::prepare`].
///
/// # Errors
/// See [`Site::prepare`].
pub fn prepare(load: &Load, target: Target<'_>) -> Result<PreparedPhase, EngineError> {
    Site::new(target).prepare(std::slice::from_ref(load))
}

impl<'a> Site<'a> {
    /// A place without a layout yet.
    pub fn new(target: Target<'a>) -> Self {
        let (sets, trees) = (BTreeSet::new(), Trees::default());
        Self { target, sets, trees, existing_device: None, engines: &NoEngines, seat: Seat::ALONE }
    }

    /// Shares the site among several processes. Only for request loads and for file sets in the order
    /// `own` or `shuffled`; amounts in the load are totals of all processes.
    #[must_use]
    pub fn among(mut self, seat: Seat) -> Self {
        self.trees.is_made_elsewhere = seat.rank > 0;
        Self { seat, ..self }
    }

    /// Assumes that file sets already here are complete: they are not listed, because listing would cache the metadata
    /// to be measured.
    #[must_use]
    pub fn with_complete_sets(mut self) -> Self {
        self.trees.are_whole = true;
        self
    }

    /// A device used without a layout. Loads that write are refused unless `usage` permits it.
    pub fn existing_device(device: &'a Path, usage: Usage) -> Self {
        Self { existing_device: Some(usage), ..Self::new(Target::BlockDevice(device)) }
    }

    /// Marks the files of these loads as existing: [`Site::prepare`] laid them out in an earlier process.
    #[must_use]
    pub fn with_files_of<'l>(mut self, loads: impl Iterator<Item = &'l Load>) -> Self {
        self.sets.extend(loads.map(|load| load.set.clone()));
        self
    }

    /// The same with engines for loads on key-value stores.
    #[must_use]
    pub fn with_engines(self, engines: &'a dyn KeyValueEngines) -> Self {
        Self { engines, ..self }
    }

    /// Lays out the files of a phase's concurrent loads: written whole, in order, with the load's data, and synced.
    /// Takes as long as the device takes to write them. Files that an earlier load of the same set has laid out are
    /// used as they are. The files stay after the run.
    ///
    /// # Errors
    /// A refusal ([`EngineError::is_refusal`]) if a load is impossible here: it is invalid, or lacks space, direct
    /// I/O, `io_uring` or descriptors. Otherwise [`EngineError::Layout`] with the call, the path and the errno.
    ///
    /// # Panics
    /// If `loads` is empty, or if the loads differ in warm-up, duration or end: a bug in the caller.
    pub fn prepare(&mut self, loads: &[Load]) -> Result<PreparedPhase, EngineError> {
        let first = loads.first().expect("a phase has loads");
        let time = |load: &Load| (load.until, load.warmup, load.duration);
        assert!(loads.iter().all(|load| time(load) == time(first)), "the loads of a phase run concurrently");
        let groups = loads.iter().map(|load| Ok((load.clone(), self.lay_out(load)?)));
        let groups = groups.collect::<Result<_, EngineError>>()?;
        Ok(PreparedPhase { clock: Clock::best(), groups })
    }

    /// Makes the engine check all records of a load after its phase: the measurement is valid only if none is missing.
    /// Nothing to do for a load without an engine.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if records are missing or wrong.
    pub fn check(&self, load: &Load) -> Result<(), EngineError> {
        match self.target {
            Target::Directory(path) => routine(&load.pattern).check_records(load, path, self.engines),
            Target::BlockDevice(_) => Ok(()),
        }
    }

    fn lay_out(&mut self, load: &Load) -> Result<PreparedThreads, EngineError> {
        validate(load, matches!(self.target, Target::BlockDevice(_)))?;
        let is_new = self.sets.insert(load.set.clone());
        routine(&load.pattern).lay_out(LayoutContext {
            load,
            target: self.target,
            is_new,
            existing_device: self.existing_device,
            trees: &mut self.trees,
            engines: self.engines,
            seat: self.seat,
        })
    }
}
