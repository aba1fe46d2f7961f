//! Records in WiredTiger, as a standalone MongoDB keeps documents: values in the order in which they were inserted, and
//! an index of their keys. A write of a field writes the record again in a transaction, which is tried again where
//! another one came first.

use crate::calls::{Connection, Failed, Found, Session};
use fstrial_engine::{KeyValueEngines, KeyValueSession, KeyValueStore, NextRecord, OpenStores, Scanned};
use fstrial_model::{
    counter::{Counter, Counters},
    workload::{KeyValueEngine, Ycsb},
};
use std::{
    ffi::CStr,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicI64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Limit of a log file. MongoDB's is 100 MiB.
const LOG_FILE: &str = "16MB";
/// Pause between syncs of the log: `storage.journal.commitIntervalMs` of MongoDB.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// MongoDB's for a collection, without the compression, which records of random bytes would not gain from.
const RECORDS: &CStr = c"key_format=q,value_format=u,memory_page_max=10m,split_pct=90,leaf_value_max=64MB,checksum=on,leaf_page_max=32KB,\
                       allocation_size=4KB";
/// MongoDB's for an index.
const INDEX: &CStr =
    c"key_format=u,value_format=q,leaf_page_max=16k,prefix_compression=true,checksum=on,allocation_size=4KB";

static OPEN: OpenStores = OpenStores::new();

/// WiredTiger, and all engines that fstrial has itself.
#[derive(Debug)]
pub struct Engines;

impl KeyValueEngines for Engines {
    fn open(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        match settings.engine {
            KeyValueEngine::Wiredtiger | KeyValueEngine::WiredtigerJ => {
                Ok(OPEN.opened(Arc::new(Store::open(settings, threads, folder)?)))
            }
            _ => fstrial_kv::Engines.open(settings, threads, folder),
        }
    }

    fn version(&self, engine: KeyValueEngine) -> String {
        match engine {
            KeyValueEngine::Wiredtiger | KeyValueEngine::WiredtigerJ => crate::version(),
            _ => fstrial_kv::Engines.version(engine),
        }
    }

    fn counts(&self) -> Counters {
        OPEN.counts().plus(&fstrial_kv::Engines.counts())
    }
}

/// A database, and who syncs its log.
#[derive(Debug)]
struct Store {
    connection: Arc<Connection>,
    log: Log,
    /// The number of the next record.
    next: AtomicI64,
}

#[derive(Debug)]
enum Log {
    /// A write returns when it is synced. Concurrent waiters share a sync.
    Awaited,
    /// A thread syncs it from time to time.
    Synced(Syncing),
}

impl Store {
    /// Opens a database, or creates a missing one.
    fn open(settings: &Ycsb, threads: u16, folder: &Path) -> Result<Self, String> {
        let home = folder.join("ycsb");
        fs::create_dir_all(&home).map_err(|e| e.to_string())?;
        let config = format!(
            "create,cache_size={}B,session_max={},eviction=(threads_min=4,threads_max=4),statistics=(fast),\
             log=(enabled=true,file_max={LOG_FILE}),file_manager=(close_idle_time=100000),checkpoint=(wait={},log_size=2GB)",
            settings.cache.0,
            u32::from(threads) + 100,
            settings.checkpoints_every().0 / 1_000_000_000,
        );
        let connection = Arc::new(Connection::open(&home, &config)?);
        connection.plain_session()?.create(RECORDS, INDEX)?;
        let next = AtomicI64::new(connection.session()?.last()? + 1);
        let log = match settings.engine {
            KeyValueEngine::WiredtigerJ => Log::Awaited,
            _ => Log::Synced(Syncing::start(&connection)?),
        };
        Ok(Self { connection, log, next })
    }

    /// Commits a record of a key that is new.
    fn add(&self, session: &mut Session, key: &str, fields: &[u8]) -> Result<(), String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        transact(session, &mut |session| {
            session.put(number, fields)?;
            session.index(key.as_bytes(), number)
        })
    }
}

impl KeyValueStore for Store {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let (mut key, mut fields) = (String::new(), Vec::new());
        let mut session = self.connection.session()?;
        while next(&mut key, &mut fields) {
            self.add(&mut session, &key, &fields)?;
        }
        session.reset()?;
        Ok(session.checkpoint()?)
    }

    fn check(&self) -> Result<(), String> {
        Ok(self.connection.plain_session()?.verify()?)
    }

    fn counts(&self) -> Counters {
        let count = self.connection.plain_session().and_then(|mut session| session.checkpoints());
        [(Counter::Checkpoints, count.ok())].into_iter().collect()
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        let session = self.connection.session()?;
        Ok(Box::new(Client { session, record: Vec::new(), store: self }))
    }
}

/// The thread that syncs the log.
#[derive(Debug)]
struct Syncing {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Its first error; 0 without any.
    failed: Arc<AtomicI32>,
}

impl Syncing {
    fn start(connection: &Arc<Connection>) -> Result<Self, String> {
        let mut session = connection.plain_session()?;
        let (ends, ended) = mpsc::channel::<()>();
        let failed = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&failed);
        let work = move || {
            while ended.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(Failed(code)) = session.sync_log() {
                    return seen.store(code, Ordering::Relaxed);
                }
            }
        };
        let thread =
            thread::Builder::new().name("syncs the log".into()).spawn(work).map_err(|e| e.to_string())?;
        Ok(Self { ends: Some(ends), thread: Some(thread), failed })
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        drop(self.ends.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Does something in a transaction, again for as long as another one has the same record.
fn transact<T>(
    session: &mut Session,
    work: &mut dyn FnMut(&mut Session) -> Result<T, Failed>,
) -> Result<T, String> {
    loop {
        session.begin()?;
        let done = match work(session) {
            // One that fails has rolled back already.
            Ok(done) => session.commit().map(|()| done),
            Err(failed) => session.roll_back().and(Err(failed)),
        };
        match done {
            Err(failed) if failed.is_conflict() => thread::yield_now(),
            done => return Ok(done?),
        }
    }
}

/// A thread's use of the records. The session is closed before the database.
struct Client {
    session: Session,
    /// A record with a field that was changed.
    record: Vec<u8>,
    store: Arc<Store>,
}

impl Client {
    /// Makes a committed write ready to acknowledge: waits for the log, or reports a failed sync.
    fn acknowledged(&mut self) -> Result<(), String> {
        match &self.store.log {
            Log::Awaited => Ok(self.session.sync_log()?),
            Log::Synced(syncing) => match syncing.failed.load(Ordering::Relaxed) {
                0 => Ok(()),
                code => Err(format!("the log could not be synced: {}", String::from(Failed(code)))),
            },
        }
    }

    fn read_into(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, Failed> {
        Ok(self.session.get(key.as_bytes())?.map(|(_, record)| into.extend_from_slice(record)).is_some())
    }

    fn scan_from(&mut self, key: &str, count: u16) -> Result<Scanned, Failed> {
        let mut result = Scanned { bytes: 0, from_key: false };
        let mut at = self.session.seek(key.as_bytes())?;
        result.from_key = at == Some(Found::Itself);
        for read in 1..=count {
            if at.is_none() {
                break;
            }
            result.bytes += self.session.record()?.len() as u64;
            at = if read < count { self.session.next()? } else { None };
        }
        Ok(result)
    }
}

impl KeyValueSession for Client {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        into.clear();
        let result = self.read_into(key, into);
        self.session.reset()?;
        Ok(result?)
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let (at, changed) = (usize::from(field) * value.len(), &mut self.record);
        let result = transact(&mut self.session, &mut |session| {
            let Some((number, record)) = session.get(key.as_bytes())? else { return Ok(false) };
            changed.clear();
            changed.extend_from_slice(record);
            changed[at..at + value.len()].copy_from_slice(value);
            session.put(number, changed).map(|()| true)
        })?;
        self.acknowledged().map(|()| result)
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.store.add(&mut self.session, key, fields)?;
        self.acknowledged()
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        let result = self.scan_from(key, count);
        self.session.reset()?;
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_sync_log_only_in_journaled_engine() {
        for (engine, journaled) in [(KeyValueEngine::Wiredtiger, false), (KeyValueEngine::WiredtigerJ, true)]
        {
            let folder = tempfile::tempdir().unwrap();
            let settings = Ycsb { engine, ..Ycsb::default() };
            let store = Arc::new(Store::open(&settings, 1, folder.path()).unwrap());
            let mut counter = store.connection.session().unwrap();
            let mut client = Arc::clone(&store).session().unwrap();
            let before = counter.log_syncs().unwrap();
            (0..100).for_each(|number| client.insert(&format!("user{number}"), &[1; 1000]).unwrap());
            let syncs = counter.log_syncs().unwrap() - before;
            assert_eq!(syncs >= 100, journaled, "{syncs} syncs for 100 writes, one after the other");
        }
    }
}
