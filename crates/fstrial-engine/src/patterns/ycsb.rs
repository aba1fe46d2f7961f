//! The core workloads of YCSB: which operation comes next on which record, and the time that each takes.
//!
//! Source: `CoreWorkload` and the generators of YCSB 0.17. Keys are in hashed order: record n has the key `user` with
//! the FNV-64 hash of n. Zipfian is scrambled: a rank is drawn from 10¹⁰ + 1 items, hashed, and taken modulo the
//! records that there are and are expected to come. *Latest* is zipfian from the newest record that was acknowledged
//! backwards. A record that is not acknowledged yet is drawn again.

mod acknowledged;
mod keys;

use super::{LayoutContext, Loop, PreparedThread, PreparedThreads, Routine, Thread, prepared_threads};
use crate::{
    EngineError,
    buffer::Payload,
    error::{layout, store_failed},
    generator::{Generator, Stream},
    keyvalue::{KeyValueEngines, KeyValueSession, KeyValueStore, Scanned},
    recorder::{Lane, Recorder},
    timekeeper::Timekeeper,
};
use acknowledged::Acknowledged;
use fstrial_model::{
    job::Load,
    workload::{CoreWorkload, FIELD_BYTES, FIELDS, Proportions, Ycsb},
};
use keys::{KeyChooser, key_of};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, syncfs};
use std::{
    fmt,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const RECORD_BYTES: usize = FIELDS as usize * FIELD_BYTES;
/// Records of a scan, at most: `maxscanlength`.
const MAX_SCAN: u64 = 100;

/// Writing a field of a record.
const UPDATE: Lane = Lane::own(0, "update");
/// Inserting a record.
const INSERT: Lane = Lane::own(1, "insert");
/// Reading records that follow each other.
const SCAN: Lane = Lane::own(2, "scan");
/// Reading a record and writing a field of it.
const READ_MODIFY_WRITE: Lane = Lane::own(3, "read-modify-write");

impl Routine for Ycsb {
    fn lay_out(&self, context: LayoutContext<'_>) -> Result<PreparedThreads, EngineError> {
        let folder = context.directory().join(context.load.set.as_str());
        if context.is_new {
            mkdirat(CWD, &folder, Mode::RWXU)
                .map_err(|errno| layout("make the directory", &folder, errno))?;
        }
        let failed = |what| store_failed(&folder, what);
        let store = context.engines.open(self, context.load.threads, &folder).map_err(failed)?;
        let loaded = if self.workload == CoreWorkload::Load { 0 } else { self.records };
        // Otherwise an earlier phase has loaded them.
        if loaded > 0 && context.is_new {
            load(&*store, loaded, context.load).map_err(failed)?;
        }
        openat(CWD, &folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .and_then(syncfs)
            .map_err(|errno| layout("sync the filesystem of", &folder, errno))?;
        let shared = Arc::new(SharedLoad {
            settings: *self,
            store,
            folder,
            left: AtomicU64::new(self.records),
            keys: Acknowledged::after(loaded),
        });
        Ok(prepared_threads(
            (0..context.load.threads).map(|_| YcsbThread { shared: Arc::clone(&shared), session: None }),
        ))
    }

    fn check_records(
        &self,
        load: &Load,
        directory: &Path,
        engines: &dyn KeyValueEngines,
    ) -> Result<(), EngineError> {
        let folder = directory.join(load.set.as_str());
        let result = engines.open(self, 1, &folder).and_then(|store| store.check());
        result.map_err(|what| EngineError::Damaged { path: folder, what })
    }
}

/// Inserts the records that are there before the clock starts.
fn load(store: &dyn KeyValueStore, records: u64, load: &Load) -> Result<(), String> {
    let mut payload = Payload::new(load.data, 1, FIELD_BYTES, Generator::new(load.seed, Stream::Layout));
    let mut numbers = 0..records;
    store.load(&mut |key, fields| {
        let Some(number) = numbers.next() else { return false };
        *key = key_of(number);
        compose(&mut payload, fields);
        true
    })
}

/// Ten fields, replacing the content of `fields`.
fn compose(payload: &mut Payload, fields: &mut Vec<u8>) {
    fields.clear();
    for _ in 0..FIELDS {
        let range = payload.take(0, FIELD_BYTES);
        fields.extend_from_slice(&payload.bytes()[range]);
    }
}

/// Data shared by the threads of a load.
#[derive(Debug)]
struct SharedLoad {
    settings: Ycsb,
    store: Arc<dyn KeyValueStore>,
    folder: PathBuf,
    /// In the load phase: records that no thread has claimed yet.
    left: AtomicU64,
    keys: Acknowledged,
}

/// A thread's part.
struct YcsbThread {
    shared: Arc<SharedLoad>,
    /// Kept until the load is dropped: an engine's closing work is not a part of a run.
    session: Option<Box<dyn KeyValueSession>>,
}

impl fmt::Debug for YcsbThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YcsbThread").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl PreparedThread for YcsbThread {
    fn descriptors(&self) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }

    fn ready<'a>(&'a mut self, thread: &Thread<'_>) -> Result<Loop<'a>, EngineError> {
        let shared = &*self.shared;
        let open = || Arc::clone(&shared.store).session();
        let session = self.session.take().map_or_else(open, Ok);
        let session = session.map_err(|what| store_failed(&shared.folder, what))?;
        let client = Client {
            shared,
            session: self.session.insert(session),
            payload: thread.payload(1, FIELD_BYTES),
            record: Vec::with_capacity(RECORD_BYTES),
            generator: thread.choices(),
            chooser: KeyChooser::new(&shared.settings, thread.load.threads, shared.keys.count()),
            time: thread.time(&lanes(shared.settings.workload.proportions())),
        };
        Ok(Box::new(|start| client.run(start)))
    }
}

/// The lanes that operations in these proportions need.
fn lanes(of: Proportions) -> Vec<Lane> {
    let all = [
        (Lane::TURN, true),
        (Lane::READ, of.read + of.read_modify_write > 0),
        (UPDATE, of.update + of.read_modify_write > 0),
        (INSERT, of.insert > 0),
        (SCAN, of.scan > 0),
        (READ_MODIFY_WRITE, of.read_modify_write > 0),
    ];
    all.into_iter().filter_map(|(lane, used)| used.then_some(lane)).collect()
}

/// The next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Operation {
    /// The one of a draw from 0 to 99.
    fn drawn(of: Proportions, draw: u8) -> Self {
        let all = [
            (Self::Read, of.read),
            (Self::Update, of.update),
            (Self::Insert, of.insert),
            (Self::Scan, of.scan),
            (Self::ReadModifyWrite, of.read_modify_write),
        ];
        let mut below = 0;
        let result = all.into_iter().find(|(_, share)| {
            below += share;
            draw < below
        });
        result.expect("proportions are 100 % in all").0
    }

    /// Its name in errors.
    const fn call(self) -> &'static str {
        match self {
            Self::Read => "read a record of",
            Self::Update => "update a record of",
            Self::Insert => "insert a record into",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read and update a record of",
        }
    }
}

/// One of YCSB's client threads.
struct Client<'a> {
    shared: &'a SharedLoad,
    session: &'a mut Box<dyn KeyValueSession>,
    payload: Payload,
    /// The last record that was read, or made.
    record: Vec<u8>,
    generator: Generator,
    chooser: KeyChooser,
    time: Timekeeper,
}

impl Client<'_> {
    /// Works from tick `start` on, until the time is over, the amount is done or too much failed.
    fn run(mut self, start: u64) -> Recorder {
        self.time.start_at(start);
        let settings = self.shared.settings;
        let proportions = settings.workload.proportions();
        let mut left = settings.operations.unwrap_or(u64::MAX);
        while left > 0 && self.has_more() {
            let Some(due) = self.time.next_turn() else { break };
            left -= 1;
            let operation = Operation::drawn(proportions, self.generator.below(100) as u8);
            match self.operate(operation) {
                Ok(bytes) => self.time.turned(due, bytes),
                Err(what) => {
                    self.time.lap();
                    self.time.error(operation.call(), &self.shared.folder, &what);
                }
            }
        }
        self.time.finish()
    }

    /// True if a load has records left to insert; always for other workloads.
    fn has_more(&self) -> bool {
        self.shared.settings.workload != CoreWorkload::Load
            || self
                .shared
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
    }

    /// Does an operation; gives the bytes of the records that it read and wrote.
    fn operate(&mut self, operation: Operation) -> Result<u64, String> {
        match operation {
            Operation::Read => {
                let key = self.key();
                self.read(&key)
            }
            Operation::Update => {
                let key = self.key();
                self.update(&key)
            }
            Operation::Insert => self.insert(),
            Operation::Scan => {
                let (key, count) = (self.key(), 1 + self.generator.below(MAX_SCAN) as u16);
                let Scanned { bytes, from_key } = self.session.scan(&key, count)?;
                self.time.part(SCAN);
                if from_key { Ok(bytes) } else { Err(missing(&key)) }
            }
            Operation::ReadModifyWrite => {
                let key = self.key();
                let before = self.time.now;
                let bytes = self.read(&key)? + self.update(&key)?;
                let took = self.time.since(before);
                self.time.recorder.part(READ_MODIFY_WRITE, took);
                Ok(bytes)
            }
        }
    }

    /// The key of a record that is there.
    fn key(&mut self) -> String {
        key_of(self.chooser.draw(&mut self.generator, self.shared.keys.count()))
    }

    fn read(&mut self, key: &str) -> Result<u64, String> {
        let is_there = self.session.read(key, &mut self.record)?;
        self.time.part(Lane::READ);
        if is_there && self.record.len() == RECORD_BYTES {
            Ok(RECORD_BYTES as u64)
        } else {
            Err(missing(key))
        }
    }

    fn update(&mut self, key: &str) -> Result<u64, String> {
        let field = self.generator.below(u64::from(FIELDS)) as u16;
        let range = self.payload.take(0, FIELD_BYTES);
        if !self.session.update(key, field, &self.payload.bytes()[range])? {
            return Err(missing(key));
        }
        self.time.part(UPDATE);
        Ok(FIELD_BYTES as u64)
    }

    fn insert(&mut self) -> Result<u64, String> {
        let number = self.shared.keys.next();
        let Ycsb { workload, records, .. } = self.shared.settings;
        if workload != CoreWorkload::Load && number >= records + self.shared.settings.most_inserts() {
            self.shared.keys.acknowledge(number);
            return Err(format!(
                "the inserts have reached the number of loaded records, {records}: use more records"
            ));
        }
        compose(&mut self.payload, &mut self.record);
        let inserted = self.session.insert(&key_of(number), &self.record);
        self.time.part(INSERT);
        // As in YCSB, one that failed is acknowledged too: else no later one ever would be.
        self.shared.keys.acknowledge(number);
        inserted.map(|()| RECORD_BYTES as u64)
    }
}

fn missing(key: &str) -> String {
    format!("{key} is missing or incomplete, although it was inserted")
}

#[cfg(test)]
mod tests;
