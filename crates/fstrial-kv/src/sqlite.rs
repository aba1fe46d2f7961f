//! SQLite: the table of YCSB's binding for SQL databases, one connection for each thread.
//!
//! SQLite has one writer at a time, and one that finds another at work sleeps and tries again, each time longer, up to
//! seconds. Here writers wait for a lock of ours, in no promised order; with a rollback journal readers and writers
//! wait for each other.

use fstrial_engine::{KeyValueSession, KeyValueStore, NextRecord, Scanned};
use fstrial_model::workload::{FIELD_BYTES, FIELDS, Ycsb};
use rusqlite::{Connection, OpenFlags};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

/// The cache of the connection that loads, in KiB.
const LOADING: u32 = 64 * 1024;
/// Time for which SQLite waits for a lock: no other process uses the file.
const BUSY: Duration = Duration::from_secs(60);

/// The way a commit becomes durable before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    WriteAhead,
    Rollback,
}

impl Journal {
    /// Values of `journal_mode` and `synchronous`. FULL does not sync the folder after a rollback journal was deleted.
    const fn settings(self) -> (&'static str, &'static str) {
        match self {
            Self::WriteAhead => ("wal", "FULL"),
            Self::Rollback => ("delete", "EXTRA"),
        }
    }
}

/// A database with the table of records.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    journal: Journal,
    /// Per connection, in KiB.
    cache: u64,
    lock: RwLock<()>,
}

impl Database {
    pub(crate) fn open(
        journal: Journal,
        settings: &Ycsb,
        threads: u16,
        folder: &Path,
    ) -> Result<Self, String> {
        let database = Self {
            path: folder.join("ycsb.db"),
            journal,
            cache: (settings.cache.0 / 1024 / u64::from(threads.max(1))).max(1),
            lock: RwLock::new(()),
        };
        let fields: String = (0..FIELDS).map(|field| format!(", field{field} BLOB NOT NULL")).collect();
        let table =
            format!("CREATE TABLE IF NOT EXISTS usertable (ycsb_key TEXT PRIMARY KEY NOT NULL{fields})");
        database.connect(OpenFlags::SQLITE_OPEN_CREATE)?.execute_batch(&table).map_err(message)?;
        Ok(database)
    }

    fn connect(&self, besides: OpenFlags) -> Result<Connection, String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | besides;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(message)?;
        connection.busy_timeout(BUSY).map_err(message)?;
        let ((journal, synchronous), cache) = (self.journal.settings(), self.cache);
        set(&connection, "journal_mode", journal)?;
        let settings = format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{cache}; PRAGMA temp_store = MEMORY;"
        );
        connection.execute_batch(&settings).map_err(message)?;
        Ok(connection)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// No lock with a write-ahead log: readers block no writer.
    fn read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let is_in_the_way = self.journal == Journal::Rollback;
        is_in_the_way.then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sets a pragma and checks the value in its answer.
fn set(connection: &Connection, pragma: &str, value: &str) -> Result<(), String> {
    let result: String =
        connection.pragma_update_and_check(None, pragma, value, |row| row.get(0)).map_err(message)?;
    if result == value { Ok(()) } else { Err(format!("SQLite has {pragma} {result}, not {value}")) }
}

impl KeyValueStore for Database {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let mut connection = self.connect(OpenFlags::empty())?;
        set(&connection, "journal_mode", "off")?;
        let settings = format!("PRAGMA synchronous = OFF; PRAGMA cache_size = -{LOADING};");
        connection.execute_batch(&settings).map_err(message)?;
        let transaction = connection.transaction().map_err(message)?;
        let (mut key, mut fields) = (String::new(), Vec::new());
        while next(&mut key, &mut fields) {
            insert(&transaction, &key, &fields)?;
        }
        transaction.commit().map_err(message)?;
        set(&connection, "journal_mode", self.journal.settings().0)
    }

    fn check(&self) -> Result<(), String> {
        let connection = self.connect(OpenFlags::empty())?;
        let result: String =
            connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).map_err(message)?;
        if result == "ok" { Ok(()) } else { Err(result) }
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        let connection = self.connect(OpenFlags::empty())?;
        // Not in the first operations.
        for statement in UPDATES.into_iter().chain([READ, SCAN, INSERT]) {
            connection.prepare_cached(statement).map_err(message)?;
        }
        Ok(Box::new(SqliteSession { database: self, connection }))
    }
}

/// A thread's connection.
struct SqliteSession {
    database: Arc<Database>,
    connection: Connection,
}

impl KeyValueSession for SqliteSession {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        let _guard = self.database.read();
        into.clear();
        self.rows(READ, key, 1, &mut |_, field| into.extend_from_slice(field))?;
        Ok(!into.is_empty())
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let _guard = self.database.write();
        let statement = UPDATES[usize::from(field)];
        let mut statement = self.connection.prepare_cached(statement).map_err(message)?;
        statement.execute((value, key)).map(|changed| changed == 1).map_err(message)
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        let _guard = self.database.write();
        insert(&self.connection, key, fields)
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        let _guard = self.database.read();
        let mut result = Scanned { bytes: 0, from_key: false };
        self.rows(SCAN, key, count, &mut |first, field| {
            result.from_key |= result.bytes == 0 && first == key.as_bytes();
            result.bytes += field.len() as u64;
        })?;
        Ok(result)
    }
}

impl SqliteSession {
    /// Reads rows, and passes every field of each on with the row's key.
    fn rows(
        &self,
        query: &str,
        key: &str,
        count: u16,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), String> {
        let mut statement = self.connection.prepare_cached(query).map_err(message)?;
        let mut rows = statement.query((key, count)).map_err(message)?;
        while let Some(row) = rows.next().map_err(message)? {
            let bytes = |column: usize| {
                let value = row.get_ref(column).map_err(message)?;
                value.as_bytes().map_err(|error| error.to_string())
            };
            let record_key = bytes(0)?;
            for field in 0..usize::from(FIELDS) {
                see(record_key, bytes(1 + field)?);
            }
        }
        Ok(())
    }
}

const READ: &str = "SELECT * FROM usertable WHERE ycsb_key = ?1 LIMIT ?2";
const SCAN: &str = "SELECT * FROM usertable WHERE ycsb_key >= ?1 ORDER BY ycsb_key LIMIT ?2";
const INSERT: &str = "INSERT INTO usertable VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
/// Updates of each field.
const UPDATES: [&str; FIELDS as usize] = [
    "UPDATE usertable SET field0 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field1 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field2 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field3 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field4 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field5 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field6 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field7 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field8 = ?1 WHERE ycsb_key = ?2",
    "UPDATE usertable SET field9 = ?1 WHERE ycsb_key = ?2",
];

fn insert(connection: &Connection, key: &str, fields: &[u8]) -> Result<(), String> {
    let mut statement = connection.prepare_cached(INSERT).map_err(message)?;
    statement.raw_bind_parameter(1, key).map_err(message)?;
    for (number, field) in fields.chunks_exact(FIELD_BYTES).enumerate() {
        statement.raw_bind_parameter(2 + number, field).map_err(message)?;
    }
    statement.raw_execute().map(drop).map_err(message)
}

/// The text of an SQLite error with its number, which alone identifies the failed call.
fn message(error: rusqlite::Error) -> String {
    match error.sqlite_error() {
        Some(code) => format!("{error} (SQLite {})", code.extended_code),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_uses_durable_commit_settings() {
        // FULL is 2, EXTRA 3.
        for (kind, journal, synchronous) in
            [(Journal::WriteAhead, "wal", 2), (Journal::Rollback, "delete", 3)]
        {
            let folder = tempfile::tempdir().unwrap();
            let database = Database::open(kind, &Ycsb::default(), 2, folder.path()).unwrap();
            database.load(&mut |_, _| false).unwrap();
            let connection = database.connect(OpenFlags::empty()).unwrap();
            let result =
                |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            // Half of 8 MiB for each of two threads.
            assert_eq!((result("synchronous"), result("cache_size")), (synchronous, -4096));
            let result: String =
                connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!(result, journal);
        }
    }

    #[test]
    fn sqlite_compile_options_match_distributions() {
        let connection = Connection::open_in_memory().unwrap();
        let mut statement = connection.prepare("PRAGMA compile_options").unwrap();
        let options = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let options: Vec<String> = options.map(Result::unwrap).collect();
        // With it all connections share one cache, and one lock around each of its pages.
        assert!(!options.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{options:?}");
        assert!(options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"), "{options:?}");
    }
}
