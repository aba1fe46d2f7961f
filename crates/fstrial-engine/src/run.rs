//! Runs a prepared load: starts its threads, opens the gate for all together, calls the hook at both ends of the
//! measured time, and merges the records.

use crate::{
    EngineError, PreparedPhase,
    clock::{Anchor, Clock, sleep_ns},
    descriptors::OwnTable,
    patterns::{PreparedThread, PreparedThreads, Thread},
    promises,
    recorder::{Recorder, Timeline},
};
use fstrial_model::{
    job::Load,
    measurement::LoadResult,
    units::Nanos,
    workload::{Rate, Until},
};
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, ScopedJoinHandle},
};

/// The name of the threads of a group, of those that run together, before their number: `load0` of `load0-3`. The kernel has room for
/// 15 bytes of a name.
pub fn group_name(group: usize) -> String {
    format!("load{group}")
}

/// An instant of a run at which the caller may want to read the machine's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// All threads are ready; they start when the caller returns.
    Ready,
    /// The warm-up is over, the measured time starts.
    TimedStart,
    /// The measured time is over. Requests in flight may still be.
    TimedEnd,
}

/// Rendezvous of threads before the start.
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

    /// Waits until all have arrived; returns whether all are ready.
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

impl PreparedPhase {
    /// Runs its only load: see [`PreparedPhase::run_all`].
    ///
    /// # Errors
    /// See [`PreparedPhase::run_all`].
    pub fn run(self, begin: &mut dyn FnMut(Moment)) -> Result<LoadResult, EngineError> {
        self.run_all(begin).map(|mut results| results.swap_remove(0))
    }

    /// Runs the loads concurrently: warm-up, then the measured time, on a thread for each of theirs. `begin` is called
    /// on the calling thread before they start and at both ends of the measured time (as late as the scheduler wakes
    /// it, which on a machine with all processors busy can be milliseconds). Returns a result for each load, in their
    /// order.
    ///
    /// # Errors
    /// Only if the loads could not be run (threads, rings) or their clock was wrong. Failed operations are not an
    /// error: they are in the results.
    pub fn run_all(mut self, begin: &mut dyn FnMut(Moment)) -> Result<Vec<LoadResult>, EngineError> {
        self.run_once(begin)
    }

    /// Runs the loads for this time, one of them at this rate or in a closed loop, on the files as the last run has
    /// left them: for loads that can continue for any time. Otherwise as [`PreparedPhase::run_all`].
    ///
    /// # Errors
    /// See [`PreparedPhase::run_all`].
    pub fn run_at(
        &mut self,
        load: usize,
        rate: Option<Rate>,
        duration: Nanos,
        begin: &mut dyn FnMut(Moment),
    ) -> Result<Vec<LoadResult>, EngineError> {
        for (number, (each, _)) in self.groups.iter_mut().enumerate() {
            each.duration = duration;
            if number == load {
                each.rate = rate;
            }
        }
        self.run_once(begin)
    }

    fn run_once(&mut self, begin: &mut dyn FnMut(Moment)) -> Result<Vec<LoadResult>, EngineError> {
        // The files belong to this thread, so that their lifetime is explicit: the load's threads only borrow them (see
        // `descriptors`).
        let clock = self.clock;
        let (loads, mut works): (Vec<&Load>, Vec<&mut PreparedThreads>) =
            self.groups.iter_mut().map(|(load, works)| (&*load, works)).unzip();
        let total: usize = works.iter().map(|works| works.len()).sum();
        let gate = Gate::default();
        let mut recorders = std::thread::scope(|scope| {
            let mut handles: Vec<Vec<_>> = loads.iter().map(|_| Vec::new()).collect();
            let mut spawned = Ok(());
            let all = works.iter_mut().enumerate().flat_map(|(group, works)| {
                works.iter_mut().enumerate().map(move |(number, work)| (group, number, work))
            });
            for (group, number, work) in all {
                let (load, gate) = (loads[group], &gate);
                let thread = Builder::new().name(format!("{}-{number}", group_name(group)));
                match thread.spawn_scoped(scope, move || run_thread(number, load, clock, &mut **work, gate)) {
                    Ok(handle) => handles[group].push(handle),
                    Err(source) => {
                        let started: usize = handles.iter().map(Vec::len).sum();
                        let what = format!("cannot start thread {} of {total}", started + 1);
                        spawned = Err(EngineError::Limit { what, source });
                        break;
                    }
                }
            }
            let started = handles.iter().map(Vec::len).sum();
            let ready = gate.wait_for_all(started) && spawned.is_ok();
            if !ready {
                gate.open(Start::Never);
                return spawned.and(join_all(handles));
            }
            let anchor = Anchor::now(&clock);
            conduct(loads[0], &clock, &gate, begin);
            let recorders = join_all(handles)?;
            if loads[0].until == Until::Done {
                begin(Moment::TimedEnd);
            }
            anchor.check(&clock).map(|()| recorders)
        })?;
        Ok(recorders.drain(..).map(Recorder::merge).collect())
    }
}

/// The main thread's part: opens the gate and calls the hook at each moment, except the last if its time is unknown.
fn conduct(load: &Load, clock: &Clock, gate: &Gate, begin: &mut dyn FnMut(Moment)) {
    begin(Moment::Ready);
    let start = clock.now();
    gate.open(Start::At(start));
    let timeline = Timeline::of(*clock, start, load);
    sleep_until(clock, timeline.timed);
    begin(Moment::TimedStart);
    if load.until == Until::Time {
        sleep_until(clock, timeline.end);
        begin(Moment::TimedEnd);
    }
}

fn sleep_until(clock: &Clock, tick: u64) {
    while let Some(left) = tick.checked_sub(clock.now()).filter(|left| *left > 0) {
        sleep_ns(clock.nanos(left).max(1));
    }
}

/// A load thread; it ends with its recorder, or with none if it was sent home.
type Running<'a> = ScopedJoinHandle<'a, Result<Option<Recorder>, EngineError>>;

/// Waits for the threads of all groups.
fn join_all(groups: Vec<Vec<Running<'_>>>) -> Result<Vec<Vec<Recorder>>, EngineError> {
    // All of them, before the first error is passed on: it may be why others stopped.
    let joined: Vec<_> = groups.into_iter().map(join).collect();
    joined.into_iter().collect()
}

/// Waits for all threads; their first error wins.
fn join(handles: Vec<Running<'_>>) -> Result<Vec<Recorder>, EngineError> {
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
    work: &mut dyn PreparedThread,
    gate: &Gate,
) -> Result<Option<Recorder>, EngineError> {
    // Dropped last: everything with descriptors comes after. In the unit tests many loads of one process run
    // concurrently, and a copy of the table would keep the filesystems of all of them busy; `tests/unmount.rs` is alone
    // in its process.
    let lent = work.descriptors().filter(|_| cfg!(not(test)) && !promises::are_observed());
    let _table = lent.map(|lent| OwnTable::new(&lent));
    let arrival = Arrival { gate, ready: false };
    let timeline = Timeline::of(clock, 0, load);
    let run = work.ready(&Thread { number, load, clock, timeline })?;
    Ok(at_start(arrival, run))
}

/// Reports that this thread is ready and waits for the start.
fn at_start(mut arrival: Arrival<'_>, run: impl FnOnce(u64) -> Recorder) -> Option<Recorder> {
    let gate = arrival.gate;
    arrival.ready = true;
    drop(arrival);
    match gate.wait_for_start() {
        Start::At(start) => Some(run(start)),
        Start::Never => None,
    }
}
