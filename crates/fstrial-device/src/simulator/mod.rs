//! A device that only exists as arithmetic: requests go in with the time they arrive, and come out with the time they
//! are complete. It reads no clock, holds no data and draws from a seed, so that a whole device can be tested in memory
//! and the same requests at the same times always take the same time.
//!
//! ```text
//! submit ─► limits ─► volatile cache ─► members (raid) ─► positions at a member ─► complete
//!           (wait)    (complete here,     (chunks,          (flash, or a head
//!                      write out later)    mirrors)          over a platter)
//! ```
//! An event queue advances it. A request that waits for nothing completes immediately.

mod cache;
mod flash;
mod head;
mod limits;
mod member;
mod part;
mod service;

use cache::WriteCache;
use fstrial_model::{device_model::DeviceModel, units::Bytes};
use limits::Grant;
use member::Member;
use part::{Purpose, RequestPart};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use service::Timing;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

/// A point in time, in nanoseconds since some beginning.
pub type Time = u64;

/// A request to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Read, write, flush or discard.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

fstrial_model::words! {
    /// Kinds of request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Kind {
        /// Read.
        "read" Read,
        /// Write.
        "write" Write,
        /// Make everything durable that was complete before.
        "flush" Flush,
        /// Forget the data of a range.
        "discard" Discard,
    }
}

/// A request that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Completion {
    /// When.
    pub at: Time,
    /// The caller's id from the submission.
    pub id: u64,
}

/// Something that will happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request may pass the limits.
    Granted { id: u64 },
    /// A member has done a part.
    Done { member: usize, part: RequestPart },
    /// A request is complete.
    Complete { id: u64 },
}

/// A request under way.
#[derive(Debug)]
struct Open {
    request: Request,
    /// Parts that members have not done yet.
    parts: usize,
}

/// The device.
#[derive(Debug)]
pub struct Simulator {
    now: Time,
    size: u64,
    timing: Timing,
    grant: Grant,
    cache: Option<WriteCache>,
    members: Vec<Member>,
    layout: Layout,
    /// By time, and in the order they were scheduled.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
    open: HashMap<u64, Open>,
    complete: Vec<Completion>,
    random: ChaCha8Rng,
    /// No request takes time, but flash remembers writes.
    is_free: bool,
}

/// Layout of the device's bytes on its members.
#[derive(Debug, Clone, Copy)]
struct Layout {
    chunk: u64,
    /// Members that hold different data.
    columns: u64,
    /// Copies of each.
    mirrors: usize,
}

impl Layout {
    fn of(model: &DeviceModel) -> Self {
        match model.raid {
            None => Self { chunk: u64::MAX, columns: 1, mirrors: 1 },
            Some(raid) => Self {
                chunk: if raid.level == 1 { u64::MAX } else { raid.chunk.0 },
                columns: u64::from(raid.data_members()),
                mirrors: usize::from(raid.members / raid.data_members()),
            },
        }
    }

    /// Bytes on a member, whole chunks: the last stripe may be shorter than the others.
    fn size_of_a_member(&self, size: u64) -> u64 {
        if self.columns == 1 {
            return size;
        }
        size.div_ceil(self.chunk * self.columns) * self.chunk
    }

    fn members(&self) -> usize {
        usize::try_from(self.columns).expect("a few") * self.mirrors
    }

    /// The pieces of a request: column, offset there, length. Pieces that touch on a member are one.
    fn pieces(&self, offset: u64, length: u64) -> Vec<(usize, u64, u64)> {
        let mut pieces: Vec<(usize, u64, u64)> = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let (number, inside) = (at / self.chunk, at % self.chunk);
            let long = (self.chunk - inside).min(end - at);
            let column = usize::try_from(number % self.columns).expect("a few columns");
            let place = number / self.columns * self.chunk + inside;
            match pieces.iter_mut().find(|(other, start, len)| *other == column && start + *len == place) {
                Some((_, _, len)) => *len += long,
                None => pieces.push((column, place, long)),
            }
            at += long;
        }
        pieces
    }
}

impl Simulator {
    /// A device of this size that follows the model, empty and idle at time 0.
    ///
    /// # Panics
    /// If the model was not checked ([`DeviceModel::problem`]) or the size is 0.
    pub fn new(model: &DeviceModel, size: Bytes, seed: u64) -> Self {
        assert!(size.0 > 0, "a device has a size");
        let layout = Layout::of(model);
        let of_a_member = layout.size_of_a_member(size.0);
        let member = || Member::new(model, of_a_member);
        Self {
            now: 0,
            size: size.0,
            timing: Timing::of(model),
            grant: Grant::of(model.limits.as_ref()),
            cache: model.cache.map(WriteCache::new),
            members: (0..layout.members()).map(|_| member()).collect(),
            layout,
            events: BinaryHeap::new(),
            scheduled: 0,
            open: HashMap::new(),
            complete: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            is_free: false,
        }
    }

    /// Makes requests free of time and credits from now on, or restores the model: for preparations before a
    /// measurement. The state of the flash is as it would be otherwise. Pending requests keep their times.
    pub fn set_free(&mut self, is_free: bool) {
        self.is_free = is_free;
    }

    /// Takes a request at a time not before any earlier call's; `id` is the caller's.
    ///
    /// # Panics
    /// If the request reaches beyond the device, or a request of this name is under way.
    pub fn submit(&mut self, now: Time, id: u64, request: Request) {
        assert!(request.offset + request.length <= self.size, "{request:?} is outside of the device");
        self.run_until(now);
        let known = self.open.insert(id, Open { request, parts: 0 });
        assert!(known.is_none(), "request {id} is under way already");
        if self.is_free {
            return self.do_for_free(id, request);
        }
        match request.kind {
            Kind::Read | Kind::Write => {
                let granted = self.grant.at(self.now, request.length);
                if granted > self.now {
                    self.schedule(granted, Event::Granted { id })
                } else {
                    self.granted(id)
                }
            }
            Kind::Flush => self.flush(id),
            Kind::Discard => {
                self.on_members(request, Member::forget);
                let took = self.timing.discard.draw(request.length, &mut self.random);
                self.finish_in(took, id);
            }
        }
    }

    fn do_for_free(&mut self, id: u64, request: Request) {
        match request.kind {
            Kind::Write => self.on_members(request, Member::remember),
            Kind::Discard => self.on_members(request, Member::forget),
            Kind::Read | Kind::Flush => {}
        }
        self.finish(id);
    }

    /// Passes each member its piece of a request: offset and length there.
    fn on_members(&mut self, request: Request, tell: impl Fn(&mut Member, u64, u64)) {
        for (column, offset, length) in self.layout.pieces(request.offset, request.length) {
            for member in self.mirrors(column) {
                tell(&mut self.members[member], offset, length);
            }
        }
    }

    /// True if requests take no time.
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// Advances to a time and returns all completions until then, in order.
    pub fn advance(&mut self, now: Time, complete: &mut Vec<Completion>) {
        self.run_until(now);
        complete.append(&mut self.complete);
    }

    /// When something happens next, if anything is under way; a request may or may not be complete then.
    pub fn next_event(&self) -> Option<Time> {
        if self.complete.is_empty() {
            self.events.peek().map(|Reverse((at, ..))| *at)
        } else {
            Some(self.now)
        }
    }

    /// Time of the last call or event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Requests that are not complete.
    pub fn under_way(&self) -> usize {
        self.open.len()
    }

    fn run_until(&mut self, now: Time) {
        while let Some(Reverse((at, _, event))) =
            self.events.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.events.pop();
            self.now = self.now.max(at);
            match event {
                Event::Granted { id } => self.granted(id),
                Event::Done { member, part } => self.done(member, part),
                Event::Complete { id } => self.finish(id),
            }
        }
        self.now = self.now.max(now);
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    /// A request that has passed the limits.
    fn granted(&mut self, id: u64) {
        let request = self.open[&id].request;
        let Some(cache) = self.cache.as_mut().filter(|_| request.kind == Kind::Write) else {
            return self.hand_out(request, Purpose::Request(id));
        };
        if let Some(taken) = cache.take(id, request) {
            self.taken(taken);
        }
    }

    /// A write that the cache has taken: complete, and to be written out.
    fn taken(&mut self, cache::CachedWrite { id, serial, request, latency }: cache::CachedWrite) {
        let transfer = self.timing.write.transfer(request.length);
        self.finish_in(latency + transfer, id);
        self.hand_out(request, Purpose::WriteOut(serial));
    }

    /// Gives the pieces of a request to the members.
    fn hand_out(&mut self, request: Request, purpose: Purpose) {
        let mut parts = 0;
        let mut busy = Vec::new();
        for (column, offset, length) in self.layout.pieces(request.offset, request.length) {
            let mirrors = self.mirrors(column);
            let chosen = match request.kind {
                // The mirror with the least to do; the first of equals.
                Kind::Read => {
                    let least = mirrors.min_by_key(|member| self.members[*member].waiting());
                    let least = least.expect("there is a member");
                    least..least + 1
                }
                _ => mirrors,
            };
            for member in chosen {
                self.members[member].push(RequestPart {
                    purpose,
                    is_write: request.kind == Kind::Write,
                    offset,
                    length,
                    came: self.now,
                });
                busy.push(member);
                parts += 1;
            }
        }
        match purpose {
            Purpose::Request(id) => self.open.get_mut(&id).expect("it is under way").parts = parts,
            Purpose::WriteOut(serial) => {
                self.cache.as_mut().expect("only a cache writes out").parts(serial, parts);
            }
        }
        for member in busy {
            self.start(member);
        }
        if parts == 0 {
            self.part_of(purpose, 0);
        }
    }

    fn mirrors(&self, column: usize) -> std::ops::Range<usize> {
        column * self.layout.mirrors..(column + 1) * self.layout.mirrors
    }

    /// Lets a member begin all it can.
    fn start(&mut self, member: usize) {
        let is_urgent = self.cache.as_ref().is_some_and(WriteCache::is_urgent);
        while let Some((part, took)) =
            self.members[member].begin(self.now, is_urgent, &self.timing, &mut self.random)
        {
            self.schedule(self.now + took, Event::Done { member, part });
        }
    }

    fn done(&mut self, member: usize, part: RequestPart) {
        self.members[member].end();
        self.part_of(part.purpose, 1);
        self.start(member);
    }

    /// Counts parts of a request or a write-out as done.
    fn part_of(&mut self, purpose: Purpose, done: usize) {
        match purpose {
            Purpose::Request(id) => {
                let open = self.open.get_mut(&id).expect("it is under way");
                open.parts -= done;
                if open.parts == 0 {
                    self.finish(id);
                }
            }
            Purpose::WriteOut(serial) => {
                let cache = self.cache.as_mut().expect("only a cache writes out");
                let released = cache.part_done(serial, done);
                for id in released.flushes {
                    self.finish_flush(id);
                }
                for taken in released.taken {
                    self.taken(taken);
                }
            }
        }
    }

    fn flush(&mut self, id: u64) {
        if !self.cache.as_mut().is_some_and(|cache| cache.must_wait(id)) {
            return self.finish_flush(id);
        }
        // Members may have let the cache wait behind reads.
        for member in 0..self.members.len() {
            self.start(member);
        }
    }

    fn finish_flush(&mut self, id: u64) {
        let took = self.timing.flush.draw(0, &mut self.random);
        self.finish_in(took, id);
    }

    fn finish_in(&mut self, took: Time, id: u64) {
        if took == 0 { self.finish(id) } else { self.schedule(self.now + took, Event::Complete { id }) }
    }

    fn finish(&mut self, id: u64) {
        self.open.remove(&id).expect("it is under way");
        self.complete.push(Completion { at: self.now, id });
    }
}

#[cfg(test)]
mod tests;
