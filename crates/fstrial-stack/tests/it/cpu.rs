//! The machine's CPU time, against a load of a known size.

use crate::support::skip;
use fstrial_stack::cpu::{self, CpuCount};
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

/// Spins for a tenth of the time, in bursts that begin with a timer: too short for a tick to see.
fn spin() {
    let end = Instant::now() + WINDOW;
    while Instant::now() < end {
        let start = Instant::now();
        while start.elapsed() < BURST {
            std::hint::spin_loop();
        }
        thread::park_timeout(PERIOD - BURST);
    }
}

#[test]
fn bursts_shorter_than_a_tick_are_counted() {
    let name = "bursts_shorter_than_a_tick_are_counted";
    if cpu::is_sampled() {
        return skip(name, "this kernel only samples idle time");
    }
    for _ in 0..TRIES {
        let idle = || busy_while(|| thread::park_timeout(WINDOW));
        let (before, spinning, after) = (idle(), busy_while(spin), idle());
        if (before - after).abs() < QUIET && before < 0.5 {
            let added = spinning - f64::midpoint(before, after);
            // A timer wakes late, never early, so that it is a little less than a tenth; waking costs something.
            assert!((0.08..0.13).contains(&added), "{before} {spinning} {after}");
            return;
        }
    }
    skip(name, "the machine was never equally busy in two windows");
}
