//! The coordinator's clock, as an argument, so that a whole trial can run in memory.

use fstrial_model::units::Nanos;
use std::time::Instant;

/// Time as the coordinator sees it.
pub trait Clock {
    /// Time since some fixed moment, never going back.
    fn now(&self) -> Nanos;
    /// The date and time, as RFC 3339 in UTC.
    fn timestamp(&self) -> String;
}

#[derive(Debug)]
pub struct MachineClock {
    started: Instant,
}

impl MachineClock {
    /// Starts at zero now.
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Nanos {
        self.started.elapsed().into()
    }

    fn timestamp(&self) -> String {
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
    }
}
