//! A modelled device in real time: takes requests from a front end, performs them on the data, and answers each when
//! the simulation completes it.
//!
//! The thread that brought a request answers it if it completes immediately; one thread that sleeps until the next due
//! time answers all others. Data are read and written when a request arrives, not when it completes: two concurrent
//! requests for the same bytes have no order on any device.

use crate::{
    backing::Backing,
    simulator::{Completion, Kind, Request, Simulator, Time},
};
use fstrial_model::{
    device_model::DeviceModel,
    units::{Bytes, Nanos, Percent},
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io,
    num::NonZeroU64,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// An answer later than this after it was due is counted as late.
const LATE_NS: Time = 200_000;

/// Called when a request completes.
pub type CompletionCallback = Box<dyn FnOnce() + Send>;

/// Work of a device since its last renewal, free work left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of read requests.
    pub reads: u64,
    /// Total length of the read requests.
    pub bytes_read: u64,
    /// Number of write requests.
    pub writes: u64,
    /// Total length of the write requests.
    pub bytes_written: u64,
    /// Number of flush requests.
    pub flushes: u64,
    /// Number of discard requests; their bytes are not counted.
    pub discards: u64,
    /// Answers that came more than 0.2 ms after they were due, because this machine had other things to do.
    pub late: u64,
}

impl Counts {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.bytes_read += other.bytes_read;
        self.writes += other.writes;
        self.bytes_written += other.bytes_written;
        self.flushes += other.flushes;
        self.discards += other.discards;
        self.late += other.late;
    }

    fn count(&mut self, request: Request) {
        match request.kind {
            Kind::Read => (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + request.length),
            Kind::Write => {
                (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + request.length);
            }
            Kind::Flush => self.flushes += 1,
            Kind::Discard => self.discards += 1,
        }
    }
}

/// A device that is served.
pub struct Server {
    model: DeviceModel,
    backing: Backing,
    beginning: Instant,
    state: Mutex<State>,
    /// Rung when something is due earlier than the timer thread knows.
    earlier: Condvar,
}

struct State {
    simulator: Simulator,
    /// With the time at which the request came.
    waiting: HashMap<u64, (Time, CompletionCallback)>,
    next_id: u64,
    /// Overhead of the path to the device: a request counts as having arrived this much earlier.
    head_start: Time,
    /// The deadline that the timer thread waits for; none: for a notification.
    timer: Option<Time>,
    counts: Counts,
}

impl Server {
    /// Begins to serve a device.
    ///
    /// # Panics
    /// If the model was not checked, or no thread can be started.
    pub fn start(model: DeviceModel, backing: Backing) -> Arc<Self> {
        let simulator = Simulator::new(&model, Bytes(backing.size()), 0);
        let server = Arc::new(Self {
            model,
            backing,
            beginning: Instant::now(),
            state: Mutex::new(State {
                simulator,
                waiting: HashMap::new(),
                next_id: 0,
                head_start: 0,
                timer: None,
                counts: Counts::default(),
            }),
            earlier: Condvar::new(),
        });
        let timer = Arc::clone(&server);
        let spawned = thread::Builder::new().name("timer".into()).spawn(move || timer.keep_time());
        spawned.expect("a thread can be started");
        server
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.backing.size()
    }

    /// A copy of its present data, in memory.
    ///
    /// # Errors
    /// As [`Backing::copy`].
    pub fn copy(&self) -> io::Result<Backing> {
        self.backing.copy()
    }

    /// True if discards have an effect on it.
    pub fn takes_discards(&self) -> bool {
        self.model.discard.is_some()
    }

    /// Reads this many bytes; gives them, and the request to [`submit`](Self::submit).
    ///
    /// # Errors
    /// `EINVAL` beyond the end, and those of a file on a disk.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<(Request, Vec<u8>)> {
        let request = self.inside(Kind::Read, offset, length.into(), Errno::INVAL)?;
        Ok((request, self.backing.read(offset, length as usize)?))
    }

    /// Writes; gives the request to [`submit`](Self::submit).
    ///
    /// # Errors
    /// `ENOSPC` beyond the end, and those of a file on a disk.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<Request> {
        let request = self.inside(Kind::Write, offset, data.len() as u64, Errno::NOSPC)?;
        self.backing.write(offset, data).map(|()| request)
    }

    /// The request to [`submit`](Self::submit) for a flush.
    pub fn flush() -> Request {
        Request { kind: Kind::Flush, offset: 0, length: 0 }
    }

    /// Makes a range read as zeroes; gives the request to [`submit`](Self::submit).
    ///
    /// # Errors
    /// `ENOSPC` beyond the end, `EOPNOTSUPP` of a device that takes no discards, and those of a file on a disk.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<Request> {
        let request = self.inside(Kind::Discard, offset, length, Errno::NOSPC)?;
        if self.model.discard.is_none() {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.backing.discard(offset, length).map(|()| request)
    }

    /// Makes a range read as zeroes, by a discard if that may be and the device takes any, else by a write; gives the request to
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// `ENOSPC` beyond the end, and those of a file on a disk.
    pub fn write_zeroes(&self, offset: u64, length: u64, may_discard: bool) -> io::Result<Request> {
        if may_discard && self.takes_discards() {
            return self.discard(offset, length);
        }
        let request = self.inside(Kind::Write, offset, length, Errno::NOSPC)?;
        self.backing.discard(offset, length).map(|()| request)
    }

    /// A request, if it is inside of the device.
    fn inside(&self, kind: Kind, offset: u64, length: u64, beyond: Errno) -> io::Result<Request> {
        let is_inside = self.backing.holds(offset, length);
        is_inside.then_some(Request { kind, offset, length }).ok_or_else(|| beyond.into())
    }

    /// Restores its initial state: idle, empty caches, full credits, all flash erased. The data stay. Pending requests
    /// are answered immediately. From now on it is slower than its model by this much.
    pub fn renew(&self, seed: u64, slowed: Percent) {
        self.follow(&self.model.slowed(slowed), seed, |state| state.counts = Counts::default());
    }

    /// Follows another model for a moment, to measure the overhead of the path to the device; [`renew`](Self::renew)
    /// ends it. Pending requests (udev reads a new device as soon as it appears) are answered immediately.
    pub fn pretend(&self, model: &DeviceModel) {
        self.follow(model, 0, |state| state.head_start = 0);
    }

    /// Follows a model from now on, and answers the requests under way, of which its simulator knows nothing.
    fn follow(&self, model: &DeviceModel, seed: u64, reset: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        state.simulator = self.fresh(model, seed);
        reset(&mut state);
        let answers: Vec<CompletionCallback> = state.waiting.drain().map(|(_, (_, answer))| answer).collect();
        drop(state);
        answers.into_iter().for_each(|answer| answer());
    }

    /// A device at the present moment.
    fn fresh(&self, model: &DeviceModel, seed: u64) -> Simulator {
        let mut simulator = Simulator::new(model, Bytes(self.backing.size()), seed);
        simulator.advance(self.now(), &mut Vec::new());
        simulator
    }

    /// Sets the overhead of the path to the device, which is subtracted from now on.
    pub fn set_head_start(&self, head_start: Nanos) {
        self.lock().head_start = head_start.0;
    }

    /// Lets requests take no time (true), or the model's (false), from now on.
    pub fn set_free(&self, is_free: bool) {
        self.lock().simulator.set_free(is_free);
    }

    /// Work since the last renewal.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves numbers, no broken structures; going on beats a hanging filesystem.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Nanos::from(self.beginning.elapsed()).0
    }

    /// Takes a request, whose data are done already; `answer` is called when it completes.
    pub fn submit(&self, request: Request, answer: CompletionCallback) {
        let now = self.now();
        let mut state = self.lock();
        let state_of = &mut *state;
        if !state_of.simulator.is_free() {
            state_of.counts.count(request);
        }
        let id = state_of.next_id;
        state_of.next_id += 1;
        state_of.waiting.insert(id, (now, answer));
        // The simulation never goes back; if it has gone on since, the request has no head start.
        let came = now.saturating_sub(state_of.head_start).max(state_of.simulator.now());
        state_of.simulator.submit(came, id, request);
        let answers = state_of.due(now);
        let next = state_of.simulator.next_event();
        let must_ring = next.is_some_and(|next| state_of.timer.is_none_or(|timer| next < timer));
        if must_ring {
            state_of.timer = next;
        }
        drop(state);
        if must_ring {
            self.earlier.notify_one();
        }
        answers.into_iter().for_each(|answer| answer());
    }

    /// Answers requests as they become due, for the life of the process.
    fn keep_time(&self) {
        // The kernel would otherwise let a sleeper wait 50 us longer, to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut state = self.lock();
        loop {
            let now = self.now();
            let answers = state.due(now);
            if !answers.is_empty() {
                drop(state);
                answers.into_iter().for_each(|answer| answer());
                state = self.lock();
                continue;
            }
            let next = state.simulator.next_event();
            state.timer = next;
            state = match next {
                None => self.earlier.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let sleep = Duration::from_nanos(next.saturating_sub(now));
                    self.earlier.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl State {
    /// The answers that are due, in the order in which they are.
    fn due(&mut self, now: Time) -> Vec<CompletionCallback> {
        let mut complete: Vec<Completion> = Vec::new();
        // Event by event, so that the simulation does not run ahead to the present: requests on their way count as
        // having come a little earlier.
        while let Some(next) = self.simulator.next_event().filter(|next| *next <= now) {
            self.simulator.advance(next, &mut complete);
        }
        let mut answers = Vec::with_capacity(complete.len());
        for done in complete {
            // Gone if the device was renewed since.
            let Some((came, answer)) = self.waiting.remove(&done.id) else { continue };
            // With its head start a request may be due before it came: that is not late.
            self.counts.late +=
                u64::from(!self.simulator.is_free() && now - done.at.max(came).min(now) > LATE_NS);
            answers.push(answer);
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::device_model::Service;
    use std::sync::mpsc;

    fn server(model: DeviceModel) -> Arc<Server> {
        Server::start(model, Backing::in_memory(Bytes::mib(1)).unwrap())
    }

    fn read() -> Request {
        Request { kind: Kind::Read, offset: 0, length: 4096 }
    }

    #[test]
    fn the_ideal_device_answers_before_submit_returns() {
        let server = server(DeviceModel::default());
        let (sender, receiver) = mpsc::channel();
        server.submit(read(), Box::new(move || sender.send(()).unwrap()));
        receiver.try_recv().unwrap();
        assert_eq!(server.counts(), Counts { reads: 1, bytes_read: 4096, ..Counts::default() });
    }

    #[test]
    fn rejects_access_beyond_end_and_unsupported_discards() {
        let server = server(DeviceModel::default());
        let (end, errno) = (1 << 20, |error: io::Error| Errno::from_io_error(&error).unwrap());
        assert_eq!(errno(server.read(end - 512, 1024).unwrap_err()), Errno::INVAL);
        assert_eq!(errno(server.write(end - 512, &[0; 1024]).unwrap_err()), Errno::NOSPC);
        assert_eq!(errno(server.write(u64::MAX, &[0; 2]).unwrap_err()), Errno::NOSPC);
        assert_eq!(errno(server.discard(end, 1).unwrap_err()), Errno::NOSPC);
        assert_eq!(errno(server.discard(0, 4096).unwrap_err()), Errno::OPNOTSUPP);
        server.write(end - 512, &[7; 512]).unwrap();
        let (request, data) = server.read(end - 512, 512).unwrap();
        assert_eq!((request.kind, request.length, data), (Kind::Read, 512, vec![7; 512]));
    }

    #[test]
    fn requests_never_complete_before_due_time() {
        let latency = Service { latency: Nanos::millis(20), ..Service::default() };
        let server = server(DeviceModel { read: latency, parallelism: Some(2), ..DeviceModel::default() });
        let (sender, receiver) = mpsc::channel();
        let began = Instant::now();
        for number in 0..4 {
            let sender = sender.clone();
            server.submit(read(), Box::new(move || sender.send((number, began.elapsed())).unwrap()));
        }
        for least in [20, 20, 40, 40] {
            let (_, took) = receiver.recv().unwrap();
            assert!(took >= Duration::from_millis(least), "{took:?}");
        }
    }

    #[test]
    fn an_earlier_answer_is_not_held_up_by_a_later_one() {
        let write = Service { latency: Nanos::secs(10), ..Service::default() };
        let read_service = Service { latency: Nanos::millis(1), ..Service::default() };
        let server = server(DeviceModel { read: read_service, write, ..DeviceModel::default() });
        let (sender, receiver) = mpsc::channel();
        let slow = sender.clone();
        let request = Request { kind: Kind::Write, ..read() };
        server.submit(request, Box::new(move || slow.send("write").unwrap()));
        thread::park_timeout(Duration::from_millis(20));
        server.submit(read(), Box::new(move || sender.send("read").unwrap()));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(5)), Ok("read"));
        server.renew(1, Percent(0.0));
        assert_eq!(receiver.try_recv(), Ok("write"), "what was under way is answered");
        assert_eq!(server.counts(), Counts::default());
    }

    #[test]
    fn an_early_reader_is_answered_when_the_device_pretends_to_be_another() {
        let latency = Service { latency: Nanos::secs(10), ..Service::default() };
        let server = server(DeviceModel { read: latency, ..DeviceModel::default() });
        let (sender, receiver) = mpsc::channel();
        server.submit(read(), Box::new(move || sender.send(()).unwrap()));
        server.pretend(&DeviceModel::default());
        receiver.try_recv().unwrap();
    }

    #[test]
    fn a_head_start_is_taken_off() {
        let latency = Service { latency: Nanos::secs(5), ..Service::default() };
        let server = server(DeviceModel { read: latency, ..DeviceModel::default() });
        thread::park_timeout(Duration::from_millis(30));
        server.set_head_start(Nanos::secs(5));
        let (sender, receiver) = mpsc::channel();
        server.submit(read(), Box::new(move || sender.send(()).unwrap()));
        // The device is younger than its head start: most of the five seconds are left.
        assert!(receiver.recv_timeout(Duration::from_millis(20)).is_err());
        server.set_head_start(Nanos(0));
        server.renew(1, Percent(0.0));
        receiver.try_recv().unwrap();
    }
}
