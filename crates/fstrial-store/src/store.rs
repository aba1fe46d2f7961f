//! The file itself: opening it safely, transactions, and the check of its integrity.
//!
//! A file that is not ours is recognised through an *immutable* connection, which takes no lock and makes no
//! `-wal`, `-shm` or journal next to it; only then is it opened in earnest. (Reading the header with `std::fs` would not
//! do: closing any descriptor of a file drops the POSIX locks this process holds on it, those of another [`Store`]
//! included; see "How To Corrupt An SQLite Database File" §2.2.)

use crate::{StoreError, copy, error::Fault, schema};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, config::DbConfig, limits::Limit,
};
use std::{
    fmt::Write as _,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Wait for another process that holds the lock. One run is a few milliseconds of writing, but its sync may queue
/// behind the very load that is being measured. Ctrl-C waits for it, too.
pub(crate) const BUSY: Duration = Duration::from_secs(8);

/// The largest text or blob in the file, in bytes: bounds the allocations caused by a foreign file.
const MAX_VALUE_BYTES: i32 = 64 << 20;

/// The results of every run of every trial, in one file.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Files being written, if any.
    files: Vec<OpenFile>,
}

/// A file that SQLite has open for writing, by its name and its identity at that time.
#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl OpenFile {
    /// None if there is no such file.
    fn of(path: PathBuf) -> Option<Self> {
        let identity = identity(&path)?;
        Some(Self { path, identity })
    }

    fn is_there(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let result = std::fs::metadata(path).ok()?;
    Some((result.dev(), result.ino()))
}

impl Store {
    /// Opens a store for reading and writing; creates a missing one. Several processes may have it open.
    ///
    /// # Errors
    /// The file is not a store or a newer one (then it is not touched), or cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = absolute(path.as_ref())?;
        if exists(&path)? {
            recognise(&path).map_err(|fault| fault.at(&path, OPENING))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        match connect_to_write(&path, flags) {
            Ok(connection) => {
                let files = [path.clone(), beside(&path, "-wal")].into_iter().filter_map(OpenFile::of);
                Ok(Self { connection, files: files.collect(), path })
            }
            Err(fault) => Err(fault.at(&path, OPENING)),
        }
    }

    /// Opens an existing store for reading only. Another process may be writing it; every query sees whole runs.
    /// Works for a user who may not write in its folder, too. Reading never changes a store.
    ///
    /// # Errors
    /// There is no file, it is not a store, it has a newer schema, or it cannot be opened.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = existing(path.as_ref())?;
        match recognise(&path).and_then(|()| connect_to_read(&path)) {
            Ok(connection) => Ok(Self { connection, path, files: Vec::new() }),
            Err(fault) => Err(fault.at(&path, OPENING)),
        }
    }

    /// Opens a copy of a foreign store, without a name, that lives as long as this value: its folder is only read, by
    /// descriptor, regardless of other files next to the store. Another process may be writing it.
    ///
    /// # Errors
    /// As for [`Self::open_read_only`], or there is no room for the copy.
    pub fn open_copy(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = existing(path.as_ref())?;
        match copy::connect(&path).and_then(checked).map_err(not_a_database) {
            Ok(connection) => Ok(Self { connection, path, files: Vec::new() }),
            Err(fault) => Err(fault.at(&path, OPENING)),
        }
    }

    /// A new store in a file without a name, and that file: it has all of the store once the store is dropped.
    ///
    /// # Errors
    /// There is no room, or SQLite refused.
    pub fn nameless() -> Result<(Self, File), StoreError> {
        let path = PathBuf::from(":nameless:");
        let connect = || {
            let (file, mut connection) = copy::nameless()?;
            configure(&connection)?;
            connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "OFF")?;
            schema::prepare(&mut connection)?;
            Ok((connection, file))
        };
        match connect() {
            Ok((connection, file)) => Ok((Self { connection, path, files: Vec::new() }, file)),
            Err(fault) => Err(Fault::at(fault, &path, OPENING)),
        }
    }

    /// A store that lives as long as this value.
    ///
    /// # Errors
    /// SQLite refused.
    pub fn open_in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from(":memory:");
        let connect = || {
            let mut connection = Connection::open_in_memory()?;
            configure(&connection)?;
            schema::prepare(&mut connection)?;
            Ok(connection)
        };
        match connect() {
            Ok(connection) => Ok(Self { connection, path, files: Vec::new() }),
            Err(fault) => Err(Fault::at(fault, &path, OPENING)),
        }
    }

    /// The file, as an absolute path; `:memory:` for a store in memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that changes with every write of another process: cheap to poll.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn version(&self) -> Result<i64, StoreError> {
        let ask = || self.connection.pragma_query_value(None, "data_version", |row| row.get(0));
        ask().map_err(|error| Fault::from(error).at(&self.path, "look for changes"))
    }

    /// Reads the whole file and reports everything in it that does not fit together; nothing if it is sound.
    ///
    /// # Errors
    /// SQLite could not read it at all.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        self.read("check the file", |connection| {
            let mut result = Vec::new();
            let mut integrity = connection.prepare("PRAGMA integrity_check")?;
            for line in integrity.query_map([], |row| row.get::<_, String>(0))? {
                result.push(line?);
            }
            result.retain(|line| line != "ok");
            let mut references = connection.prepare("PRAGMA foreign_key_check")?;
            for line in references.query_map([], |row| {
                let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
                Ok(format!("a row of `{table}` refers to nothing in `{parent}`"))
            })? {
                result.push(line?);
            }
            result.extend(miscounted(connection)?);
            Ok(result)
        })
    }

    /// Runs `body` in a transaction that sees one state of the file throughout.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        body: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let attempt = || {
            let transaction = self.connection.unchecked_transaction()?;
            let value = body(&transaction)?;
            transaction.finish()?;
            Ok(value)
        };
        attempt().map_err(|fault: Fault| fault.at(&self.path, doing))
    }

    /// Checks that written data can be found again: SQLite would continue with a file that has lost its name, and all
    /// of it would be gone with the last process that has it open.
    ///
    /// # Errors
    /// The file, or its log, was deleted or replaced.
    pub fn check_there(&self) -> Result<(), StoreError> {
        match self.files.iter().all(OpenFile::is_there) {
            true => Ok(()),
            false => Err(Fault::Gone.at(&self.path, OPENING)),
        }
    }

    /// Runs `body` in a transaction that is on the disk when this returns, or not at all. It takes the write lock
    /// immediately: a transaction that begins by reading could not wait for another writer.
    pub(crate) fn write<T>(
        &mut self,
        doing: &'static str,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.check_there()?;
        let Self { connection, path, .. } = self;
        let attempt = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = body(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        attempt().map_err(|fault: Fault| fault.at(path, doing))
    }
}

/// Trials whose counts differ from their runs. The list of trials shows the counts.
fn miscounted(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare(
        "SELECT trial.id FROM trial LEFT JOIN tally ON tally.trial = trial.id WHERE (tally.rounds, tally.runs, \
         tally.failed_runs) IS NOT (SELECT count(DISTINCT round), count(*), count(*) FILTER (WHERE status = 'failed' \
         AND CASE WHEN json_valid(failure) THEN failure ->> '$.kind' END IS NOT 'cannot') FROM run WHERE run.trial = \
         trial.id) OR tally.runs IS NOT (SELECT coalesce(sum(runs), 0) FROM cell WHERE trial = trial.id)",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(format!("the counts of trial {} are not those of its runs", row.get::<_, i64>(0)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Operation of an error without a more specific one.
const OPENING: &str = "read the schema";

/// SQLite treats `:memory:` and the empty path specially; an absolute path is always a file.
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|source| StoreError::Io { path: path.to_owned(), source })
}

/// True if there is a nonempty file. Anything but a regular file is refused before it is opened, since opening can
/// block (a FIFO) or have effects (a device).
fn exists(path: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len() > 0),
        Ok(metadata) => {
            let kind = if metadata.is_dir() { "it is a folder" } else { "it is not a regular file" };
            Err(Fault::NotAStore(kind.into()).at(path, OPENING))
        }
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(StoreError::Io { path: path.to_owned(), source }),
    }
}

/// The absolute path of a file with something in it.
fn existing(path: &Path) -> Result<PathBuf, StoreError> {
    let path = absolute(path)?;
    if exists(&path)? {
        return Ok(path);
    }
    let nothing = Fault::NotAStore("there is nothing in it".into());
    Err(match std::fs::metadata(&path) {
        Ok(_) => nothing.at(&path, OPENING),
        Err(source) => StoreError::Io { path, source },
    })
}

fn not_a_database(fault: Fault) -> Fault {
    match fault.is(ErrorCode::NotADatabase) {
        true => Fault::NotAStore("it is not an SQLite database".into()),
        false => fault,
    }
}

/// Refuses a file that is not ours or newer than we are, without touching it or anything next to it.
///
/// The main file may be half written: a process is moving pages out of the log at this moment, or was killed while it
/// did. The header then promises more pages than there are, which is only an error to one who ignores the log and
/// the journal, as we do here. With a writable schema, meant for rescue tools, SQLite reads the header regardless; the
/// connection cannot write anything.
fn recognise(path: &Path) -> Result<(), Fault> {
    let connection = connect_immutable(path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    schema::check(&connection).map_err(not_a_database)
}

fn connect_to_write(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let mut connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    configure(&connection)?;
    // Checks again: the main file may be out of date, for the newest pages can be in the write-ahead log.
    schema::prepare(&mut connection)?;
    use_write_ahead_log(&mut connection)?;
    // SQLite makes the log when it first reads; from here on it is there.
    schema::check(&connection)?;
    Ok(connection)
}

fn connect_to_read(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || checked(Connection::open_with_flags(path, flags)?);
    match connect() {
        Err(fault) if is_shared_memory_refused(&fault) && is_complete(path) => {
            // A database in WAL mode needs a `-shm` file even to be read, and we may not make one in this folder.
            checked(connect_immutable(path)?)
        }
        other => other,
    }
}

fn checked(connection: Connection) -> Result<Connection, Fault> {
    configure(&connection)?;
    schema::check(&connection)?;
    Ok(connection)
}

fn is_shared_memory_refused(fault: &Fault) -> bool {
    fault.is(ErrorCode::CannotOpen) || fault.is(ErrorCode::ReadOnly)
}

/// True if all of the store is in the main file. With a log there is a writer, or one was killed; with a journal one
/// was killed, and its last change has to be rolled back first.
fn is_complete(path: &Path) -> bool {
    let has_content = |end| std::fs::metadata(beside(path, end)).is_ok_and(|metadata| metadata.len() > 0);
    !["-wal", "-journal"].into_iter().any(has_content)
}

/// The name of a file of the same store.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(end);
    beside.into()
}

/// Connects to the main file alone: no lock, no log, no file made next to it. Only a URI can request it.
fn connect_immutable(path: &Path) -> Result<Connection, Fault> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            write!(uri, "%{byte:02X}").expect("a string takes everything");
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// Settings of every connection.
fn configure(connection: &Connection) -> Result<(), Fault> {
    connection.busy_timeout(BUSY)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    // A file from elsewhere may carry triggers and views that run code of its author's when we read or write.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // In WAL mode the same as FULL: every commit is synced. Without WAL it also syncs the folder when the journal is
    // deleted, without which FULL may lose the last commit at a power cut.
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    Ok(())
}

/// Readers then never wait for a writer. A filesystem that cannot do it leaves the rollback journal in use, which is
/// slower and as safe.
fn use_write_ahead_log(connection: &mut Connection) -> Result<(), Fault> {
    for _ in 0..100 {
        let answer = connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        match answer.map_err(Fault::from) {
            Ok(()) => return Ok(()),
            // SQLite does not wait here on its own. Another process is making or opening the same store: wait for the
            // end of its transaction by asking for the write lock.
            Err(fault) if fault.is(ErrorCode::DatabaseBusy) => {
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?.finish()?;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn missing_or_replaced_store_is_not_written() {
        for (gone, replaced) in [("s.db", false), ("s.db", true), ("s.db-wal", false)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("s.db");
            let mut store = Store::open(&path).unwrap();
            store.write("write", |_| Ok(())).unwrap();
            let gone = folder.path().join(gone);
            std::fs::rename(&gone, folder.path().join("elsewhere")).unwrap();
            if replaced {
                std::fs::write(&gone, "").unwrap();
            }
            let error = store.write("write", |_| Ok(())).unwrap_err();
            assert!(
                matches!(&error, StoreError::Gone { path: there } if *there == path),
                "{gone:?}: {error}"
            );
            std::fs::remove_file(&gone).ok();
            std::fs::rename(folder.path().join("elsewhere"), &gone).unwrap();
            store.write("write", |_| Ok(())).unwrap();
        }
    }

    #[test]
    fn a_commit_is_synced_and_references_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("s.db")).unwrap();
        let pragma = |name: &str| {
            store
                .connection
                .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
                .unwrap()
        };
        assert_eq!(pragma("journal_mode"), rusqlite::types::Value::Text("wal".into()));
        // 2 is FULL, 3 is EXTRA.
        assert_eq!(pragma("synchronous"), rusqlite::types::Value::Integer(3));
        assert_eq!(pragma("foreign_keys"), rusqlite::types::Value::Integer(1));
        assert_eq!(pragma("busy_timeout"), rusqlite::types::Value::Integer(8_000));
    }

    #[test]
    fn special_sqlite_names_open_as_plain_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in [":memory:", "file:a?mode=memory", "50% & more #1?.db", "ö\n.db"] {
            let path = folder.path().join(name);
            drop(Store::open(&path).unwrap());
            assert!(path.is_file(), "{name:?}");
            drop(Store::open(&path).unwrap());
            drop(Store::open_read_only(&path).unwrap());
        }
    }

    #[test]
    fn full_disk_loses_only_the_current_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path().join("s.db")).unwrap();
        let trial = common::create_trial(&mut store);
        common::record(&mut store, trial, 0).unwrap();
        let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let limit = |store: &Store, pages: i64| {
            store.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        };
        limit(&store, pages + 6);
        let mut stored = 1;
        let error = loop {
            match common::record(&mut store, trial, stored) {
                Ok(_) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), format!("cannot record a run in the store {}", store.path().display()));
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("full"), "{cause}");
        assert!(error.hint().unwrap().contains("free space"));
        common::assert_runs(&store, trial, stored);
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        // With free space it resumes at the same place.
        limit(&store, 1 << 20);
        common::record(&mut store, trial, stored).unwrap();
        common::assert_runs(&Store::open_read_only(store.path()).unwrap(), trial, stored + 1);
    }

    #[test]
    fn opens_store_read_only_in_unwritable_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        drop(Store::open(&path).unwrap());
        // The view of a user without write permission. The tests may run as root, so the refusal is simulated.
        std::fs::create_dir(folder.path().join("s.db-shm")).unwrap();
        let store = Store::open_read_only(&path).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        assert!(!folder.path().join("s.db-wal").metadata().is_ok_and(|log| log.len() > 0));
    }
}
