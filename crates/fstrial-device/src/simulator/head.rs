//! A head over a platter: the time to reach a place from the position of the head and the platter.
//!
//! Seek time grows with the square root of the distance, between the time to the next track and that across the disk
//! (the long-standing approximation for short and medium distances; Ruemmler and Wilkes, An introduction to disk drive
//! modeling, IEEE Computer 27(3), 1994). Tracks get shorter from the beginning of the device to its end, as the
//! bandwidth does. Places are counted in rotations from the beginning: with a bandwidth r(x) = r₀ − k·x, N(x) = ∫ dx /
//! (r(x)·T) = −ln(1 − k·x/r₀) / (k·T).

use super::{Time, part::RequestPart, service::to_nanos};
use fstrial_model::device_model::Disk;

/// Position of the head.
#[derive(Debug)]
pub(super) struct Head {
    /// Time of a rotation, in ns.
    turn_ns: f64,
    track_seek_ns: f64,
    full_seek_ns: f64,
    /// Bytes in a nanosecond at the beginning.
    outer: f64,
    /// By how much less for every byte further in.
    slope: f64,
    size: f64,
    read_ahead: u64,
    /// The byte under the head when the last part was done.
    at: u64,
    /// When that was.
    since: Time,
    /// True if the last part was a read, after which it reads ahead.
    reads_ahead: bool,
}

#[expect(clippy::cast_precision_loss, reason = "disks are far below 2^52 bytes, times below 2^52 ns")]
impl Head {
    pub(super) fn new(disk: &Disk, size: u64) -> Self {
        let (outer, inner) = (disk.outer_bandwidth.0.0 as f64 / 1e9, disk.inner_bandwidth.0.0 as f64 / 1e9);
        Self {
            turn_ns: 60e9 / f64::from(disk.rpm),
            track_seek_ns: disk.track_seek.0 as f64,
            full_seek_ns: disk.full_seek.0 as f64,
            outer,
            slope: (outer - inner) / disk.capacity.map_or(size, |capacity| capacity.0.max(size)) as f64,
            size: size as f64,
            read_ahead: disk.read_ahead.0,
            at: 0,
            since: 0,
            reads_ahead: false,
        }
    }

    /// Rotations from the beginning of the device to a byte.
    fn rotations(&self, byte: u64) -> f64 {
        let (x, k) = (byte as f64, self.slope);
        if k * self.size < self.outer * 1e-9 {
            return x / (self.outer * self.turn_ns);
        }
        -(-k * x / self.outer).ln_1p() / (k * self.turn_ns)
    }

    /// Time to pass over bytes, in ns.
    fn transfer(&self, offset: u64, length: u64) -> f64 {
        (self.rotations(offset + length) - self.rotations(offset)) * self.turn_ns
    }

    /// The time until its first byte is at hand, in ns: move, and wait for the platter.
    pub(super) fn reach(&self, now: Time, part: &RequestPart) -> Time {
        if let Some(ready) = self.in_buffer(part) {
            return ready.saturating_sub(now);
        }
        if self.goes_on(part) {
            return 0;
        }
        let (from, to) = (self.rotations(self.at), self.rotations(part.offset));
        let seek = if part.offset == self.at || (from.floor() - to.floor()).abs() < 0.5 {
            0.0
        } else {
            let distance = self.at.abs_diff(part.offset) as f64 / self.size;
            self.track_seek_ns + (self.full_seek_ns - self.track_seek_ns) * distance.sqrt()
        };
        let arrives = now as f64 + seek;
        let behind = (to - arrives / self.turn_ns).rem_euclid(1.0);
        // A rounding error must not turn a part just under the head into a whole rotation.
        let behind = if behind > 1.0 - 1e-6 { 0.0 } else { behind };
        to_nanos(seek + behind * self.turn_ns)
    }

    /// True if a part starts at the end of the last one and arrived by then, so that the head just continues: the
    /// drive's overhead per request delays the next request only if that comes late.
    fn goes_on(&self, part: &RequestPart) -> bool {
        part.offset == self.at && part.came <= self.since
    }

    /// Time at which a part that follows the last read is in the read-ahead buffer.
    fn in_buffer(&self, part: &RequestPart) -> Option<Time> {
        let follows = part.offset >= self.at && part.offset + part.length <= self.at + self.read_ahead;
        if part.is_write || !self.reads_ahead || !follows {
            return None;
        }
        Some(self.since + to_nanos(self.transfer(self.at, part.offset - self.at)))
    }

    /// Does a part: the time it takes from now, in ns.
    pub(super) fn work(&mut self, now: Time, part: &RequestPart) -> Time {
        let ready = self.in_buffer(part);
        let took = match ready {
            // Read ahead already, or about to be: the platter has gone on all the time.
            Some(ready) => {
                let end = ready + to_nanos(self.transfer(part.offset, part.length));
                // The buffer holds no more: after a pause the platter has waited for it to empty.
                let buffer = to_nanos(self.read_ahead as f64 / self.outer);
                self.since = end.max(now.saturating_sub(buffer));
                end.saturating_sub(now)
            }
            None if self.goes_on(part) => {
                self.since += to_nanos(self.transfer(part.offset, part.length));
                self.since.saturating_sub(now)
            }
            None => {
                let took = self.reach(now, part) + to_nanos(self.transfer(part.offset, part.length));
                self.since = now + took;
                took
            }
        };
        self.at = part.offset + part.length;
        self.reads_ahead = !part.is_write;
        took
    }
}
