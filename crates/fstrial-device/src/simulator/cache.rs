//! The write cache: takes writes while it has room, and releases the flushes and writes that waited once it has written
//! something out.

use super::{Request, Time};
use fstrial_model::device_model::Cache;
use std::collections::{BTreeMap, VecDeque};

/// A write cache and the requests that wait for it.
#[derive(Debug)]
pub(super) struct WriteCache {
    size: u64,
    is_volatile: bool,
    latency: Time,
    used: u64,
    next_serial: u64,
    /// Writes in it: bytes, and parts that members have not written out.
    dirty: BTreeMap<u64, (u64, usize)>,
    /// Writes that found no room, in their order.
    no_room: VecDeque<(u64, Request)>,
    /// Flushes that wait until every write below a serial is written out.
    flushes: VecDeque<(u64, u64)>,
}

/// A write that is in the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedWrite {
    pub(super) id: u64,
    pub(super) serial: u64,
    pub(super) request: Request,
    pub(super) latency: Time,
}

/// Requests released by a write-out.
#[derive(Debug, Default)]
pub(super) struct ReleasedWork {
    pub(super) flushes: Vec<u64>,
    pub(super) taken: Vec<CachedWrite>,
}

impl WriteCache {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            size: cache.size.0,
            is_volatile: cache.volatile,
            latency: cache.latency.0,
            used: 0,
            next_serial: 0,
            dirty: BTreeMap::new(),
            no_room: VecDeque::new(),
            flushes: VecDeque::new(),
        }
    }

    /// Takes a write if there is room and no other waits before it; else it waits.
    pub(super) fn take(&mut self, id: u64, request: Request) -> Option<CachedWrite> {
        // A write larger than the whole cache passes when the cache is empty.
        let fits = self.used + request.length <= self.size || self.used == 0;
        if !fits || !self.no_room.is_empty() {
            self.no_room.push_back((id, request));
            return None;
        }
        Some(self.admit(id, request))
    }

    fn admit(&mut self, id: u64, request: Request) -> CachedWrite {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.used += request.length;
        self.dirty.insert(serial, (request.length, 0));
        CachedWrite { id, serial, request, latency: self.latency }
    }

    /// Sets the number of parts of a write in the cache.
    pub(super) fn parts(&mut self, serial: u64, parts: usize) {
        self.dirty.get_mut(&serial).expect("it is in the cache").1 = parts;
    }

    /// True if a flush must wait; it is then remembered.
    pub(super) fn must_wait(&mut self, id: u64) -> bool {
        if self.dirty.is_empty() || !self.is_volatile {
            return false;
        }
        self.flushes.push_back((id, self.next_serial));
        true
    }

    /// True if requests wait for the write-out.
    pub(super) fn is_urgent(&self) -> bool {
        !self.flushes.is_empty() || !self.no_room.is_empty()
    }

    /// This many parts of a write are written out.
    pub(super) fn part_done(&mut self, serial: u64, done: usize) -> ReleasedWork {
        let mut released = ReleasedWork::default();
        let (bytes, parts) = self.dirty.get_mut(&serial).expect("it is in the cache");
        *parts -= done;
        if *parts > 0 {
            return released;
        }
        self.used -= *bytes;
        self.dirty.remove(&serial);
        let oldest = self.dirty.first_key_value().map_or(u64::MAX, |(serial, _)| *serial);
        while let Some((id, below)) = self.flushes.front().copied().filter(|(_, below)| *below <= oldest) {
            debug_assert!(below <= self.next_serial, "a flush waits for what came before it");
            self.flushes.pop_front();
            released.flushes.push(id);
        }
        while let Some((id, request)) = self.no_room.front().copied() {
            if self.used + request.length > self.size && self.used > 0 {
                break;
            }
            self.no_room.pop_front();
            released.taken.push(self.admit(id, request));
        }
        released
    }
}
