//! SQLite: a table as YCSB's binding for SQL databases makes it, one connection for each thread.
//!
//! SQLite has one writer at a time, and one that finds another at work sleeps and tries again, each time longer. Here writers
//! wait for each other in the order in which they came to a lock, which costs them less; with a rollback journal readers and
//! writers do.

use fstrial_engine::{KeyValueSession, KeyValueStore, Record};
use fstrial_model::workload::{FIELD_BYTES, FIELDS, KeyValueEngine, Ycsb};
use rusqlite::{Connection, OpenFlags};
use std::{
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

/// How long SQLite itself waits for a lock: nobody but us uses the file.
const BUSY: Duration = Duration::from_secs(60);

/// A database with the table of records.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    engine: KeyValueEngine,
    /// Of each connection, in KiB.
    cache: u64,
    lock: RwLock<()>,
}

impl Database {
    pub(crate) fn create(settings: &Ycsb, threads: u16, folder: &Path) -> Result<Self, String> {
        let database = Self {
            path: folder.join("ycsb.db"),
            engine: settings.engine,
            cache: (settings.cache.0 / 1024 / u64::from(threads.max(1))).max(1),
            lock: RwLock::new(()),
        };
        let fields: String = (0..FIELDS).map(|field| format!(", field{field} BLOB NOT NULL")).collect();
        let table = format!("CREATE TABLE usertable (ycsb_key TEXT PRIMARY KEY NOT NULL{fields})");
        database.connect(OpenFlags::SQLITE_OPEN_CREATE)?.execute_batch(&table).map_err(said)?;
        Ok(database)
    }

    fn connect(&self, besides: OpenFlags) -> Result<Connection, String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | besides;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(said)?;
        connection.busy_timeout(BUSY).map_err(said)?;
        let (journal, cache) = (self.journal(), self.cache);
        let settings = format!(
            "PRAGMA journal_mode = {journal}; PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache}; PRAGMA temp_store = MEMORY;"
        );
        connection.execute_batch(&settings).map_err(said)?;
        let journal_there: String =
            connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(said)?;
        if journal_there.eq_ignore_ascii_case(journal) {
            Ok(connection)
        } else {
            Err(format!("SQLite made a journal of the kind {journal_there}, not {journal}"))
        }
    }

    const fn journal(&self) -> &'static str {
        match self.engine {
            KeyValueEngine::Sqlite => "WAL",
            KeyValueEngine::SqliteJournal => "DELETE",
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// With a write-ahead log a reader is in nobody's way.
    fn read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let is_in_the_way = self.engine == KeyValueEngine::SqliteJournal;
        is_in_the_way.then(|| self.lock.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KeyValueStore for Database {
    fn load(&self, records: &mut dyn Iterator<Item = Record<'_>>) -> Result<(), String> {
        let mut connection = self.connect(OpenFlags::empty())?;
        connection.pragma_update(None, "synchronous", "OFF").map_err(said)?;
        let transaction = connection.transaction().map_err(said)?;
        for (key, fields) in records {
            insert(&transaction, key, fields)?;
        }
        transaction.commit().map_err(said)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(said)
    }

    fn session(&self) -> Result<Box<dyn KeyValueSession + '_>, String> {
        Ok(Box::new(Session { database: self, connection: self.connect(OpenFlags::empty())? }))
    }
}

/// A thread's connection.
struct Session<'a> {
    database: &'a Database,
    connection: Connection,
}

impl KeyValueSession for Session<'_> {
    fn read(&mut self, key: &str) -> Result<Option<u64>, String> {
        let _guard = self.database.read();
        let found = self.rows("SELECT * FROM usertable WHERE ycsb_key = ?1 LIMIT ?2", key, 1)?;
        Ok((found > 0).then_some(found))
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let _guard = self.database.write();
        let statement = UPDATES[usize::from(field)];
        let mut statement = self.connection.prepare_cached(statement).map_err(said)?;
        statement.execute((value, key)).map(|changed| changed == 1).map_err(said)
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        let _guard = self.database.write();
        insert(&self.connection, key, fields)
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<u64, String> {
        let _guard = self.database.read();
        self.rows("SELECT * FROM usertable WHERE ycsb_key >= ?1 ORDER BY ycsb_key LIMIT ?2", key, count)
    }
}

impl Session<'_> {
    /// Reads rows to the last field; gives the bytes of their fields.
    fn rows(&self, query: &str, key: &str, count: u16) -> Result<u64, String> {
        let mut statement = self.connection.prepare_cached(query).map_err(said)?;
        let mut rows = statement.query((key, count)).map_err(said)?;
        let mut bytes = 0;
        while let Some(row) = rows.next().map_err(said)? {
            for field in 0..usize::from(FIELDS) {
                let value = row.get_ref(1 + field).map_err(said)?;
                bytes += value.as_bytes().map_err(|error| error.to_string())?.len() as u64;
            }
        }
        Ok(bytes)
    }
}

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
    let statement = "INSERT INTO usertable VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let mut statement = connection.prepare_cached(statement).map_err(said)?;
    statement.raw_bind_parameter(1, key).map_err(said)?;
    for (number, field) in fields.chunks_exact(FIELD_BYTES).enumerate() {
        statement.raw_bind_parameter(2 + number, field).map_err(said)?;
    }
    statement.raw_execute().map(drop).map_err(said)
}

/// What SQLite says of a failure.
fn said(error: rusqlite::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(engine: KeyValueEngine, folder: &Path) -> Database {
        Database::create(&Ycsb { engine, ..Ycsb::default() }, 2, folder).unwrap()
    }

    fn fields(byte: u8) -> Vec<u8> {
        vec![byte; usize::from(FIELDS) * FIELD_BYTES]
    }

    /// The bytes of a field, read by a connection of its own.
    fn field(database: &Database, key: &str, field: u16) -> Vec<u8> {
        let connection = database.connect(OpenFlags::empty()).unwrap();
        let query = format!("SELECT field{field} FROM usertable WHERE ycsb_key = ?1");
        connection.query_row(&query, [key], |row| row.get(0)).unwrap()
    }

    #[test]
    fn records_are_kept_changed_and_read_in_the_order_of_their_keys() {
        for engine in KeyValueEngine::ALL {
            let folder = tempfile::tempdir().unwrap();
            let database = database(engine, folder.path());
            let loaded = [("user2", fields(2)), ("user1", fields(1))];
            database.load(&mut loaded.iter().map(|(key, fields)| (*key, fields.as_slice()))).unwrap();
            let mut session = database.session().unwrap();
            assert_eq!(
                (session.read("user1"), session.read("user0")),
                (Ok(Some(1000)), Ok(None)),
                "{engine}"
            );
            assert_eq!(session.update("user2", 9, &[7; FIELD_BYTES]), Ok(true));
            assert_eq!(session.update("user0", 0, &[7; FIELD_BYTES]), Ok(false));
            assert_eq!(field(&database, "user2", 9), [7; FIELD_BYTES]);
            assert_eq!(field(&database, "user2", 8), [2; FIELD_BYTES]);
            session.insert("user3", &fields(3)).unwrap();
            assert!(session.insert("user3", &fields(4)).unwrap_err().contains("UNIQUE"), "{engine}");
            assert_eq!((session.scan("user2", 10), session.scan("user2", 1)), (Ok(2000), Ok(1000)));
            assert_eq!((session.scan("user20", 10), session.scan("v", 10)), (Ok(1000), Ok(0)));
        }
    }

    #[test]
    fn settings_are_those_that_make_a_commit_durable() {
        for (engine, journal) in [(KeyValueEngine::Sqlite, "wal"), (KeyValueEngine::SqliteJournal, "delete")]
        {
            let folder = tempfile::tempdir().unwrap();
            let database = database(engine, folder.path());
            database.load(&mut std::iter::empty()).unwrap();
            let connection = database.connect(OpenFlags::empty()).unwrap();
            let found =
                |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
            // FULL is 2; half of 8 MiB for each of two threads.
            assert_eq!((found("synchronous"), found("cache_size")), (2, -4096));
            let found: String =
                connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
            assert_eq!(found, journal);
        }
    }

    #[test]
    fn writers_and_readers_at_once_are_never_refused() {
        for engine in KeyValueEngine::ALL {
            let folder = tempfile::tempdir().unwrap();
            let database = database(engine, folder.path());
            let keys: Vec<String> = (0..50).map(|number| format!("user{number}")).collect();
            let all = fields(0);
            database.load(&mut keys.iter().map(|key| (key.as_str(), all.as_slice()))).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4_u8 {
                    let (database, keys) = (&database, &keys);
                    scope.spawn(move || {
                        let mut session = database.session().unwrap();
                        for (number, key) in keys.iter().enumerate() {
                            let field = u16::from(thread);
                            assert_eq!(session.update(key, field, &[thread + 1; FIELD_BYTES]), Ok(true));
                            assert_eq!(session.read(&keys[(number * 7) % keys.len()]), Ok(Some(1000)));
                        }
                    });
                }
            });
            for thread in 0..4 {
                assert_eq!(field(&database, "user49", thread), [thread as u8 + 1; FIELD_BYTES], "{engine}");
            }
        }
    }
}
