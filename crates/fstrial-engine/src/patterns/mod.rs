//! The patterns that the engine does, each in a file of its own.
//!
//! A pattern is asked for its [`Routine`], which checks a load, lays out its files and gives each thread its
//! [`ThreadWork`]. That makes ready all that the thread's loop needs and gives the loop, which is called once. So the
//! table is looked at once for each thread; inside a loop nothing is chosen by pattern any more.

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
pub(crate) use io::Work as IoWork;

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

/// How a pattern is done. Its settings implement this.
pub(crate) trait Routine: Behaviour {
    /// Refuses what cannot be done. Looks at nothing but the settings.
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
    fn lay_out(&self, ground: Ground<'_>) -> Result<Works, EngineError>;

    /// Checks what a load in this directory has left, where an engine can.
    fn check_records(&self, _: &Load, _directory: &Path, _: &dyn KeyValueEngines) -> Result<(), EngineError> {
        Ok(())
    }
}

/// What the settings' own check says.
fn checked(result: Result<(), EntryError>) -> Result<(), EngineError> {
    result.or_else(|error| {
        let hint = error.hint.map_or(String::new(), |hint| format!(": {hint}"));
        refuse(format!("{}{hint}", error.problem), "change the workload")
    })
}

/// Where a load lays out its files, and what is known of the place.
pub(crate) struct Ground<'a> {
    pub(crate) load: &'a Load,
    pub(crate) target: Target<'a>,
    /// No load before it has laid out its set.
    pub(crate) is_new: bool,
    /// What may be done to a device that is used as it is.
    pub(crate) as_it_is: Option<Usage>,
    /// What is known of the trees of files.
    pub(crate) trees: &'a mut Trees,
    /// Who makes key-value stores.
    pub(crate) engines: &'a dyn KeyValueEngines,
    /// Who it is of those that work here.
    pub(crate) seat: Seat,
}

impl<'a> Ground<'a> {
    /// The directory of a pattern that does not run on a bare device.
    fn directory(&self) -> &'a Path {
        match self.target {
            Target::Directory(path) => path,
            Target::BlockDevice(_) => unreachable!("refused by validate"),
        }
    }
}

/// What one thread works on: laid out, and not begun.
pub(crate) trait ThreadWork: Debug + Send {
    /// The descriptors that the thread is lent; none where it shares those that it opens with other threads.
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>>;

    /// Allocates everything that the loop needs; gives the loop. Called on the thread that runs it.
    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError>;
}

/// A thread's loop: from the tick of the start on, until the time is over, the amount is done or too much failed.
pub(crate) type Loop<'a> = Box<dyn FnOnce(u64) -> Recorder + 'a>;

/// The works of a load's threads, in their order.
pub(crate) type Works = Vec<Box<dyn ThreadWork>>;

fn works<W: ThreadWork + 'static>(works: impl IntoIterator<Item = W>) -> Works {
    works.into_iter().map(|work| -> Box<dyn ThreadWork> { Box::new(work) }).collect()
}

/// Which thread of which load.
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

    /// What its choices are drawn from.
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
