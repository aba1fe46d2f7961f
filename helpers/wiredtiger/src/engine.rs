//! Records in WiredTiger, as MongoDB keeps documents: one table, a record is one value, and a write of a field writes the record
//! again in a transaction, which is tried again where another one came first.

use crate::calls::{self, Connection, Cursor, Failed};
use fstrial_engine::{KeyValueEngines, KeyValueSession, KeyValueStore, NextRecord, Scanned};
use fstrial_model::workload::{KeyValueEngine, Ycsb};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// What a log file may take. MongoDB's is 100 MiB.
const LOG_FILE: &str = "16MB";
/// Pause between syncs of the log: `storage.journal.commitIntervalMs` of MongoDB.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// Records of a transaction while they are loaded: few, because what is not committed cannot leave a small cache.
const BATCH: usize = 20;
/// MongoDB's, without the compression, which records of random bytes would not gain from.
const TABLE: &str = "key_format=u,value_format=u,memory_page_max=10m,split_pct=90,leaf_value_max=64MB,checksum=on,leaf_page_max=32KB,\
                     allocation_size=4KB";

/// WiredTiger, and all engines that fstrial has itself.
#[derive(Debug)]
pub struct Engines;

impl KeyValueEngines for Engines {
    fn open(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        open(settings, threads, folder)
    }
}

/// Opens a store, or makes it where there is none.
///
/// # Errors
/// What the engine says.
pub fn open(settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
    match settings.engine {
        KeyValueEngine::Wiredtiger => Ok(Arc::new(Store::open(settings, threads, folder, false)?)),
        KeyValueEngine::WiredtigerJ => Ok(Arc::new(Store::open(settings, threads, folder, true)?)),
        _ => fstrial_kv::open(settings, threads, folder),
    }
}

/// A database, and the thread that syncs its log where writes do not wait for that.
#[derive(Debug)]
struct Store {
    connection: Arc<Connection>,
    syncing: Option<Syncing>,
}

impl Store {
    /// Opens a database, or makes it where there is none. `journaled`: a write returns when the log is synced.
    fn open(settings: &Ycsb, threads: u16, folder: &Path, journaled: bool) -> Result<Self, String> {
        let home = folder.join("ycsb");
        match fs::create_dir(&home) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.to_string()),
            _ => {}
        }
        let config = format!(
            "create,cache_size={}B,session_max={},eviction=(threads_min=4,threads_max=4),statistics=(fast),\
             log=(enabled=true,file_max={LOG_FILE}),file_manager=(close_idle_time=100000),checkpoint=(wait={},log_size=2GB),\
             transaction_sync=(enabled={journaled},method=fsync)",
            settings.cache.0,
            u32::from(threads) + 100,
            settings.checkpoints_every().0 / 1_000_000_000,
        );
        let connection = Arc::new(Connection::open(&home, &config)?);
        connection.create(TABLE)?;
        let syncing = (!journaled).then(|| Syncing::start(&connection)).transpose()?;
        Ok(Self { connection, syncing })
    }

}

impl KeyValueStore for Store {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let (mut key, mut fields) = (String::new(), Vec::new());
        let mut session = self.connection.session()?;
        let mut has_more = true;
        while has_more {
            session.begin()?;
            for _ in 0..BATCH {
                has_more = next(&mut key, &mut fields);
                if !has_more {
                    break;
                }
                session.put(key.as_bytes(), &fields)?;
            }
            session.commit_unsynced()?;
        }
        session.reset()?;
        Ok(session.checkpoint()?)
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        let cursor = self.connection.session()?;
        Ok(Box::new(Session { cursor, record: Vec::new(), _store: self }))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.syncing.take());
    }
}

/// The thread that syncs the log.
#[derive(Debug)]
struct Syncing {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncing {
    fn start(connection: &Arc<Connection>) -> Result<Self, String> {
        let mut session = connection.session()?;
        let (ends, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            while ended.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // WiredTiger itself stops at a log that it cannot write.
                let _ = session.sync_log();
            }
        });
        Ok(Self { ends: Some(ends), thread: Some(thread) })
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        drop(self.ends.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread's use of the records. The cursor is closed before the database.
struct Session {
    cursor: Cursor,
    /// A record with a field that was changed.
    record: Vec<u8>,
    _store: Arc<Store>,
}

impl Session {
    /// Does something in a transaction, again for as long as another one has the same record.
    fn transact(&mut self, mut work: impl FnMut(&mut Self) -> Result<bool, Failed>) -> Result<bool, String> {
        loop {
            self.cursor.begin()?;
            match work(self).and_then(|done| self.cursor.commit().map(|()| done)) {
                Ok(done) => return Ok(done),
                // A commit that fails has rolled back already.
                Err(failed) if failed.is_conflict() => drop(self.cursor.roll_back()),
                Err(failed) => {
                    let _ = self.cursor.roll_back();
                    return Err(failed.into());
                }
            }
        }
    }
}

impl KeyValueSession for Session {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        into.clear();
        let found = self.cursor.get(key.as_bytes())?.map(|record| into.extend_from_slice(record)).is_some();
        self.cursor.reset()?;
        Ok(found)
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let at = usize::from(field) * value.len();
        self.transact(|session| {
            let Some(record) = session.cursor.get(key.as_bytes())? else { return Ok(false) };
            session.record.clear();
            session.record.extend_from_slice(record);
            session.record[at..at + value.len()].copy_from_slice(value);
            session.cursor.put(key.as_bytes(), &session.record).map(|()| true)
        })
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.transact(|session| session.cursor.put(key.as_bytes(), fields).map(|()| true)).map(drop)
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        let mut found = Scanned { bytes: 0, from_key: false };
        let mut at = self.cursor.seek(key.as_bytes())?;
        found.from_key = at == Some(calls::Found::Itself);
        for read in 1..=count {
            if at.is_none() {
                break;
            }
            found.bytes += self.cursor.value()?.len() as u64;
            at = if read < count { self.cursor.next()? } else { None };
        }
        self.cursor.reset()?;
        Ok(found)
    }
}
