//! Runs a prepared load: starts its threads, opens the gate for all at once, calls the hook at both ends of the
//! measured time, and puts the records together.

use crate::{
    EngineError, Prepared,
    buffer::Payload,
    clock::{Anchor, Clock, Pace, sleep_ns},
    descriptors::OwnTable,
    drive::{self, Drive, Engine},
    fileset::{self, Turns},
    generator::{Generator, Stream},
    layout::{Files, ThreadWork},
    pattern::{Geometry, Requests},
    recorder::{Recorder, Shape, Timeline},
    sync::Sync,
    uring::Uring,
};
use fstrial_model::{
    job::Load,
    measurement::LoadResult,
    workload::{Backend, Io},
};
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, ScopedJoinHandle},
};

/// An instant of a run at which the caller may want to read the machine's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The warm-up is over, the measured time starts.
    TimedStart,
    /// The measured time is over. Requests in flight may still be.
    TimedEnd,
}

/// Where threads wait for each other and for the start.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// Threads that are ready, or never will be.
    arrived: usize,
    /// At least one never will be.
    failed: bool,
    start: Option<Start>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    /// All begin at this tick.
    At(u64),
    /// Some thread could not get ready: all go home.
    Never,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self, ready: bool) {
        let mut state = self.lock();
        state.arrived += 1;
        state.failed |= !ready;
        self.changed.notify_all();
    }

    fn wait_for_start(&self) -> Start {
        let mut state = self.lock();
        loop {
            if let Some(start) = state.start {
                return start;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all have arrived; says whether all are ready.
    fn wait_for_all(&self, threads: usize) -> bool {
        let waiting = |state: &mut GateState| state.arrived < threads;
        !self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner).failed
    }

    fn open(&self, start: Start) {
        self.lock().start = Some(start);
        self.changed.notify_all();
    }
}

/// Arrives when a thread is ready, or when it fails or panics on the way.
struct Arrival<'a> {
    gate: &'a Gate,
    ready: bool,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.gate.arrive(self.ready);
    }
}

impl Prepared {
    /// Runs the load: warm-up, then the measured time, on one thread each. `begin` is called on the calling thread at
    /// both ends of the measured time (as late as the scheduler wakes it, which on a machine with all processors
    /// busy can be milliseconds).
    ///
    /// # Errors
    /// Only if the load could not be run (threads, rings) or its clock was wrong. Failed operations are not an error:
    /// they stand in the result.
    pub fn run(self, begin: &mut dyn FnMut(Moment)) -> Result<LoadResult, EngineError> {
        // The files belong to this thread, so that they are open exactly as long as it says: the load's threads only
        // borrow them (see `descriptors`).
        let Self { load, clock, mut threads } = self;
        let gate = Gate::default();
        let recorders = std::thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads.len());
            let mut spawned = Ok(());
            for (number, work) in threads.iter_mut().enumerate() {
                let (load, gate) = (&load, &gate);
                let thread = Builder::new().name(format!("load-{number}"));
                match thread.spawn_scoped(scope, move || run_thread(number, load, clock, work, gate)) {
                    Ok(handle) => handles.push(handle),
                    Err(source) => {
                        let what = format!("cannot start thread {} of {}", number + 1, load.threads);
                        spawned = Err(EngineError::Limit { what, source });
                        break;
                    }
                }
            }
            let ready = gate.wait_for_all(handles.len()) && spawned.is_ok();
            let drift = if ready {
                conduct(&load, &clock, &gate, begin)
            } else {
                gate.open(Start::Never);
                Ok(())
            };
            let recorders = join(handles);
            spawned.and(recorders).and_then(|recorders| drift.map(|()| recorders))
        })?;
        Ok(Recorder::merge(recorders))
    }
}

/// The main thread's part: opens the gate and calls the hook at both moments.
fn conduct(
    load: &Load,
    clock: &Clock,
    gate: &Gate,
    begin: &mut dyn FnMut(Moment),
) -> Result<(), EngineError> {
    let anchor = Anchor::now(clock);
    let start = clock.now();
    gate.open(Start::At(start));
    let timeline = Timeline::new(*clock, start, load.warmup, load.duration);
    sleep_until(clock, timeline.timed);
    begin(Moment::TimedStart);
    sleep_until(clock, timeline.end);
    begin(Moment::TimedEnd);
    anchor.check(clock)
}

fn sleep_until(clock: &Clock, tick: u64) {
    while let Some(left) = tick.checked_sub(clock.now()).filter(|left| *left > 0) {
        sleep_ns(clock.nanos(left).max(1));
    }
}

/// Waits for all threads; their first error wins.
fn join(
    handles: Vec<ScopedJoinHandle<'_, Result<Option<Recorder>, EngineError>>>,
) -> Result<Vec<Recorder>, EngineError> {
    let mut results = Vec::with_capacity(handles.len());
    for handle in handles {
        match handle.join() {
            Ok(result) => results.push(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    results.into_iter().filter_map(Result::transpose).collect()
}

/// The whole life of one load thread. None if it was sent home.
fn run_thread(
    number: usize,
    load: &Load,
    clock: Clock,
    work: &mut ThreadWork,
    gate: &Gate,
) -> Result<Option<Recorder>, EngineError> {
    // Dropped last: what has descriptors comes after.
    let _table = OwnTable::new();
    let arrival = Arrival { gate, ready: false };
    let timeline = Timeline::new(clock, 0, load.warmup, load.duration);
    let payload =
        |slots, len| Payload::new(load.data, slots, len, Generator::new(load.seed, Stream::Payload(number)));
    match work {
        ThreadWork::Io { io, files, geometry } => {
            let part = Part { number, load, clock, io, files, geometry: *geometry, timeline };
            let len = io.block_size.0 as usize;
            match io.backend {
                Backend::Sync => part.run(Sync::new(files, payload(1, len), len), arrival),
                Backend::IoUring => {
                    let payload = payload(usize::from(io.depth), len);
                    part.run(Uring::new(files, payload, len, io.depth)?, arrival)
                }
            }
        }
        ThreadWork::Files { set, ring } => {
            let payload = payload(1, fileset::part_size(set));
            let choices = Generator::new(load.seed, Stream::Requests(number));
            let recorder = Recorder::new(timeline, Shape::Files, &fileset::lanes(set));
            let turns = Turns::new(set, ring, payload, choices, recorder, Pace::new(clock, load.handicap));
            Ok(at_start(arrival, |start| turns.run(start)))
        }
    }
}

/// What a thread needs to drive requests.
struct Part<'a> {
    number: usize,
    load: &'a Load,
    clock: Clock,
    io: &'a Io,
    files: &'a Files,
    geometry: Geometry,
    timeline: Timeline,
}

impl Part<'_> {
    fn run(self, engine: impl Engine, arrival: Arrival<'_>) -> Result<Option<Recorder>, EngineError> {
        let recorder = Recorder::new(self.timeline, Shape::Io, &drive::lanes(self.io));
        let requests = Requests::new(self.load, self.io, self.geometry, self.number);
        let drive = Drive::new(
            engine,
            self.io,
            requests,
            self.files,
            recorder,
            Pace::new(self.clock, self.load.handicap),
        );
        Ok(at_start(arrival, |start| drive.run(start)))
    }
}

/// Tells that this thread is ready and waits for the start.
fn at_start(mut arrival: Arrival<'_>, run: impl FnOnce(u64) -> Recorder) -> Option<Recorder> {
    let gate = arrival.gate;
    arrival.ready = true;
    drop(arrival);
    match gate.wait_for_start() {
        Start::At(start) => Some(run(start)),
        Start::Never => None,
    }
}
