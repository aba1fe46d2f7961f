//! The schema, and whether a file has it.
//!
//! `PRAGMA application_id` marks a file as ours, `PRAGMA user_version` is its schema. A newer file is refused: a
//! program that does not know a column cannot keep its promises about it.

use crate::error::Fault;
use rusqlite::{Connection, TransactionBehavior};

/// "fstr": marks an SQLite file as a store of fstrial.
pub const APPLICATION_ID: i32 = 0x6673_7472;

/// The schema this fstrial reads and writes.
pub const SCHEMA: u32 = 1;
/// Its tables and views.
const TABLES: &str = include_str!("schema.sql");

/// A table that stores from before it get when they are written.
const ANSWERS: &str = include_str!("answers.sql");

/// Kind of an SQLite file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// Nothing at all: no table, no mark.
    Empty,
    /// A store of this schema.
    Ours(u32),
}

/// Makes a store of an empty file.
///
/// # Errors
/// The file belongs to another program or to a newer fstrial; SQLite refused.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), Fault> {
    if label(connection)? != Label::Empty {
        check(connection)?;
        return Ok(connection.execute_batch(ANSWERS)?);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it while we waited for the lock.
    if label(&transaction)? != Label::Empty {
        return check(&transaction);
    }
    // In one transaction: no reader may find a file with half a schema.
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(ANSWERS)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()?;
    Ok(())
}

/// Checks that a file is a store of this schema. An unmarked one is refused too: SQLite accepts any few bytes as an
/// empty database, and the tables of another program may be in its log only. Ours are marked from their first page on,
/// which is the first to be written.
///
/// # Errors
/// The file is empty, or belongs to another program or to a newer fstrial.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    match label(connection)? {
        Label::Ours(newer) if newer > SCHEMA => Err(Fault::NewerSchema(newer)),
        Label::Ours(_) => Ok(()),
        Label::Empty => Err(Fault::NotAStore("it has no application id".into())),
    }
}

/// Reads the marks of a file, all of it from one state of the file: another process may be making it right now, and
/// then the old mark and the new tables would look like a foreign database.
fn label(connection: &Connection) -> Result<Label, Fault> {
    if !connection.is_autocommit() {
        return label_in_transaction(connection);
    }
    let transaction = connection.unchecked_transaction()?;
    label_in_transaction(&transaction)
}

fn label_in_transaction(connection: &Connection) -> Result<Label, Fault> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application == APPLICATION_ID {
        return match u32::try_from(version) {
            Ok(version @ 1..) => Ok(Label::Ours(version)),
            _ => Err(Fault::damaged(format!("its schema number {version} is not valid"))),
        };
    }
    if application == 0 && version == 0 {
        let objects: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if objects == 0 {
            return Ok(Label::Empty);
        }
    }
    Err(Fault::NotAStore(match application {
        0 => "it is an SQLite database of another program".into(),
        other => format!("it is an SQLite database of another program (application_id {other:#010x})"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_schema_is_damage() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.pragma_update(None, "user_version", -1).unwrap();
        assert!(matches!(check(&connection), Err(Fault::Damaged { .. })));
    }
}
