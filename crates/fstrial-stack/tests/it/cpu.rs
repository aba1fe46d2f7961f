//! The machine's CPU time, against a load of a known size.

use crate::support::skip;
use fstrial_stack::cpu::{self, CpuCount};
use rustix::time::{ClockId, clock_gettime};
use std::{
    thread,
    time::{Duration, Instant},
};

const WINDOW: Duration = Duration::from_millis(1500);
const PERIOD: Duration = Duration::from_millis(4);
const BURST: Duration = Duration::from_micros(400);
/// Two windows that differ by less than this were equally disturbed.
const QUIET: f64 = 0.01;
const TRIES: usize = 15;

/// Processors that were busy while this ran, on average.
fn busy_while(work: impl FnOnce()) -> f64 {
    let (before, start) = (CpuCount::now().unwrap(), Instant::now());
    work();
    let busy = before.busy_until(CpuCount::now().unwrap()).unwrap();
    busy.as_secs_f64() / start.elapsed().as_secs_f64()
}

/// Spins for a tenth of the time, in bursts that begin with a timer: too short for a tick to see. Returns the processors
/// that it got on average, which are fewer where the machine is not its own.
fn spin() -> f64 {
    let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let (began, before) = (Instant::now(), own());
    let end = Instant::now() + WINDOW;
    while Instant::now() < end {
        let start = Instant::now();
        while start.elapsed() < BURST {
            std::hint::spin_loop();
        }
        thread::park_timeout(PERIOD - BURST);
    }
    (own() - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

#[test]
fn bursts_shorter_than_a_tick_are_counted() {
    let name = "bursts_shorter_than_a_tick_are_counted";
    if cpu::is_sampled() {
        return skip(name, "this kernel only samples idle time");
    }
    for _ in 0..TRIES {
        let idle = || busy_while(|| thread::park_timeout(WINDOW));
        let mut spun = 0.0;
        let (before, spinning, after) = (idle(), busy_while(|| spun = spin()), idle());
        if (before - after).abs() < QUIET && before < 0.5 && spun > 0.05 {
            let added = spinning - f64::midpoint(before, after);
            // Waking costs something in addition.
            assert!((spun - 0.02..spun + 0.03).contains(&added), "{before} {spinning} {after}, {spun} of it");
            return;
        }
    }
    skip(name, "the machine was never equally busy in two windows");
}
