//! Common parts of every thread's loop: its record, its clock, and its due times.

use crate::{
    arrival::{Arrivals, Next},
    clock::Pace,
    recorder::{Lane, Recorder},
};
use std::{fmt, path::Path};

/// The time of one thread: the record so far, and the next step.
pub(crate) struct Timekeeper {
    pub(crate) recorder: Recorder,
    pub(crate) pace: Pace,
    /// The last reading of the clock.
    pub(crate) now: u64,
    /// When turns are due; none makes the next one when one is done.
    pub(crate) arrivals: Option<Arrivals>,
}

impl Timekeeper {
    /// A closed loop: the next turn begins when the one before is done.
    pub(crate) fn new(recorder: Recorder, pace: Pace) -> Self {
        Self { recorder, pace, now: 0, arrivals: None }
    }

    /// An open loop if there are arrivals.
    pub(crate) fn offered(self, arrivals: Option<Arrivals>) -> Self {
        Self { arrivals, ..self }
    }

    /// The run began at tick `start`. To be called once, first thing, on the thread that runs.
    pub(crate) fn start_at(&mut self, start: u64) {
        self.recorder.start_at(start);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.start_at(start);
        }
        self.now = self.pace.clock.now();
        // A thread that was woken when the time was over makes its first operation all the same: else its arm would have
        // failed, and it was the machine that was slow.
        self.recorder.tick(self.now.min(self.recorder.last_tick()));
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn look(&mut self) {
        self.now = self.pace.clock.now();
        self.recorder.tick(self.now);
    }

    /// Reads the clock after a call that began at the reading before; gives the ticks it took.
    #[inline]
    pub(crate) fn lap(&mut self) -> u64 {
        let before = self.now;
        self.now = self.pace.after(before);
        self.recorder.tick(self.now);
        self.since(before)
    }

    /// As [`Timekeeper::lap`], of a part of an operation that is recorded.
    #[inline]
    pub(crate) fn part(&mut self, lane: Lane) {
        let took = self.lap();
        self.recorder.part(lane, took);
    }

    /// Ticks from `start` to the last reading of the clock.
    #[inline]
    pub(crate) fn since(&self, start: u64) -> u64 {
        self.now.saturating_sub(start)
    }

    /// Waits until a turn is due, and gives the tick from which its latency counts; none when the time is over.
    #[inline]
    pub(crate) fn next_turn(&mut self) -> Option<u64> {
        while !self.recorder.is_over() {
            match Arrivals::next(&mut self.arrivals, self.now) {
                Next::Turn(due) => return Some(due),
                Next::Rested(now) => {
                    self.now = now;
                    self.recorder.tick(now);
                }
            }
        }
        None
    }

    /// A turn that began at tick `start` is done.
    #[inline]
    pub(crate) fn turned(&mut self, start: u64, bytes: u64) {
        self.recorder.operation(Lane::TURN, self.since(start), bytes);
    }

    /// A call on `path` failed.
    #[cold]
    pub(crate) fn error(&mut self, call: &str, path: &Path, what: &dyn fmt::Display) {
        self.recorder.error(self.now, call, path, what);
    }

    /// The thread stops, now.
    pub(crate) fn finish(mut self) -> Recorder {
        self.recorder.finish(self.now);
        self.recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, recorder::Timeline};
    use fstrial_model::units::{Nanos, Percent};

    #[test]
    fn thread_woken_late_runs_one_turn() {
        let clock = Clock::monotonic("test");
        let timeline = Timeline::new(clock, 0, Nanos(20_000_000), Nanos(100_000_000));
        let recorder = Recorder::new(timeline, &[Lane::TURN]);
        let mut time = Timekeeper::new(recorder, Pace::new(clock, Percent(0.0)));
        let late = clock.now() - clock.ticks(3_000_000_000);
        time.start_at(late);
        let mut turns = 0;
        while let Some(start) = time.next_turn() {
            turns += 1;
            time.lap();
            time.turned(start, 512);
        }
        let result = Recorder::merge(vec![time.finish()]);
        assert_eq!((turns, result.operations, result.bytes), (1, 1, 512));
        assert!(result.duration > Nanos(2_900_000_000), "{:?}", result.duration);
    }
}
