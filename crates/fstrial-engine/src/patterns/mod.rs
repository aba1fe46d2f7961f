//! The patterns of the engine, each in a separate file.
//!
//! A pattern has a [`Routine`], which checks a load, lays out its files and gives each thread its [`PreparedThread`].
//! That prepares the thread's loop and returns it, to be called once. So the table is consulted once for each thread;
//! inside a loop nothing is chosen by pattern any more.

mod files;
mod flow;
mod flush;
mod io;
mod log;
mod postmark;
mod ycsb;

use crate::{
    EngineError, Seat, Target, Usage,
    arrival::Arrivals,
    buffer::Payload,
    clock::{Clock, Pace},
    error::refuse,
    generator::{Generator, Stream},
    keyvalue::KeyValueEngines,
    recorder::{Lane, Recorder, Timeline},
    timekeeper::Timekeeper,
    tree::Trees,
};
use fstrial_model::{
    job::Load,
    workload::{Behaviour, EntryError, Pattern},
};
use std::{fmt::Debug, os::fd::BorrowedFd, path::Path};

#[cfg(test)]
pub(crate) use io::IoThread;

/// The table: how each pattern is done.
pub(crate) fn routine(pattern: &Pattern) -> &dyn Routine {
    match pattern {
        Pattern::Io(settings) => settings,
        Pattern::Files(settings) => settings,
        Pattern::Flow(settings) => settings,
        Pattern::Postmark(settings) => settings,
        Pattern::Log(settings) => settings,
        Pattern::Flush(settings) => settings,
        Pattern::Ycsb(settings) => settings,
    }
}

/// Implementation of a pattern. Its settings implement this.
pub(crate) trait Routine: Behaviour {
    /// Refuses unsupported settings. Considers nothing but the settings.
    fn validate(&self, _threads: u16, block_device: bool) -> Result<(), EngineError> {
        if block_device {
            return refuse(
                "a bare device holds no files",
                "use a workload of kind \"io\" on it, or put a filesystem on it",
            );
        }
        checked(self.check())
    }

    /// Lays out the files, syncs them, and gives the work of each thread.
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError>;

    /// Checks the records of a load in this directory, if an engine can.
    fn check_records(&self, _: &Load, _directory: &Path, _: &dyn KeyValueEngines) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The result of the settings' own check.
fn checked(result: Result<(), EntryError>) -> Result<(), EngineError> {
    result.or_else(|error| {
        let hint = error.hint.map_or(String::new(), |hint| format!(": {hint}"));
        refuse(format!("{}{hint}", error.problem), "change the workload")
    })
}

/// The place where a load lays out its files.
pub(crate) struct LayoutContext<'a> {
    pub(crate) load: &'a Load,
    pub(crate) target: Target<'a>,
    /// No load before it has laid out its set.
    pub(crate) is_new: bool,
    /// Permissions on a device that is used as it is.
    pub(crate) existing_device: Option<Usage>,
    /// State of the trees of files.
    pub(crate) trees: &'a mut Trees,
    /// Factory of key-value stores.
    pub(crate) engines: &'a dyn KeyValueEngines,
    /// Position among the concurrent processes here.
    pub(crate) seat: Seat,
}

impl<'a> LayoutContext<'a> {
    /// The directory of a pattern that does not run on a bare device.
    fn directory(&self) -> &'a Path {
        match self.target {
            Target::Directory(path) => path,
            Target::BlockDevice(_) => unreachable!("refused by validate"),
        }
    }
}

/// A thread's prepared work, laid out and not begun.
pub(crate) trait PreparedThread: Debug + Send {
    /// The descriptors lent to the thread; none if it shares the opened ones with other threads.
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// Allocates everything that the loop needs; gives the loop. Called on the thread that runs it.
    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError>;
}

/// A thread's loop: from the tick of the start on, until the time is over, the amount is done or too much failed.
pub(crate) type Loop<'a> = Box<dyn FnOnce(u64) -> Recorder + 'a>;

/// The prepared threads of a load, in their order.
pub(crate) type PreparedThreads = Vec<Box<dyn PreparedThread>>;

fn prepared_threads<W: PreparedThread + 'static>(threads: impl IntoIterator<Item = W>) -> PreparedThreads {
    threads.into_iter().map(|work| -> Box<dyn PreparedThread> { Box::new(work) }).collect()
}

/// Identity of a thread in its load.
pub(crate) struct Thread<'a> {
    pub(crate) number: usize,
    pub(crate) load: &'a Load,
    pub(crate) clock: Clock,
    pub(crate) timeline: Timeline,
}

impl Thread<'_> {
    /// The bytes that it writes: this many slots of this many bytes.
    fn payload(&self, slots: usize, len: usize) -> Payload {
        let generator = Generator::new(self.load.seed, Stream::Payload(self.number));
        Payload::new(self.load.data, slots, len, generator)
    }

    fn choices(&self) -> Generator {
        Generator::new(self.load.seed, Stream::Requests(self.number))
    }

    /// Its time, with a record of these lanes.
    fn time(&self, lanes: &[Lane]) -> Timekeeper {
        let recorder = Recorder::new(self.timeline, lanes).among(self.load.threads);
        Timekeeper::new(recorder, Pace::new(self.clock, self.load.handicap)).offered(Arrivals::of(
            self.load,
            self.number,
            self.clock,
        ))
    }
}
