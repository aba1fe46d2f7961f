//! The schema: its version, who may read and who may write, and the migrations in order.
//!
//! `PRAGMA application_id` says that a file is ours, `PRAGMA user_version` which schema it has. This fstrial writes
//! [`SCHEMA`] only. An older file is brought up to date when it is opened for writing, in one transaction, so a process
//! that dies in between leaves it as it was. A newer file is refused: a program that does not
//! know a column cannot keep its promises about it.

use crate::{codec, error::Fault};
use rusqlite::{Connection, TransactionBehavior, params};

/// "fstr": marks an SQLite file as a store of fstrial.
pub const APPLICATION_ID: i32 = 0x6673_7472;

/// What turns one schema into the next: SQL, and then what SQL cannot do.
#[derive(Clone, Copy)]
struct Step {
    sql: &'static str,
    then: Option<Then>,
}

/// What a step does after its SQL, in the same transaction.
type Then = fn(&Connection) -> Result<(), Fault>;

impl Step {
    const fn of(sql: &'static str) -> Self {
        Self { sql, then: None }
    }
}

/// Step `n` turns schema `n` into `n + 1`; schema 0 is an empty file. SQLite looks at every view when a column or table
/// is renamed or dropped: a step that does so drops the views first and makes them again.
const MIGRATIONS: &[Step] = &[
    Step::of(include_str!("migrations/1.sql")),
    Step::of(include_str!("migrations/2.sql")),
    Step::of(include_str!("migrations/3.sql")),
    Step { sql: include_str!("migrations/4.sql"), then: Some(fill_quantiles) },
    Step::of(include_str!("migrations/5.sql")),
    Step::of(include_str!("migrations/6.sql")),
    Step::of(include_str!("migrations/7.sql")),
];

/// The schema this fstrial writes.
#[expect(clippy::cast_possible_truncation, reason = "a handful of files")]
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// What an SQLite file says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// Nothing at all: no table, no mark.
    Empty,
    /// A store of this schema.
    Ours(u32),
}

/// Brings a store up to the newest schema, and makes it if the file is empty.
///
/// # Errors
/// The file belongs to another program or to a newer fstrial; SQLite refused.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), Fault> {
    migrate(connection, MIGRATIONS)
}

/// Whether a store can be read as it is; false if it has an older schema.
///
/// # Errors
/// The file belongs to another program or to a newer fstrial.
pub(crate) fn is_current(connection: &Connection) -> Result<bool, Fault> {
    match label(connection)? {
        Label::Ours(newer) if newer > SCHEMA => Err(Fault::NewerSchema(newer)),
        Label::Ours(found) => Ok(found == SCHEMA),
        Label::Empty => Err(Fault::NotAStore("it is empty".into())),
    }
}

/// Checks by its main file alone that a file with something in it is ours and not newer than we are. One that says
/// nothing is refused too: SQLite takes any few bytes for an empty database, and the tables of another program may be
/// in its log only. Ours say so from their first page on, which is the first to be written.
///
/// # Errors
/// It belongs to another program or to a newer fstrial.
pub(crate) fn check_known(connection: &Connection) -> Result<(), Fault> {
    match label(connection)? {
        Label::Ours(newer) if newer > SCHEMA => Err(Fault::NewerSchema(newer)),
        Label::Ours(_) => Ok(()),
        Label::Empty => Err(Fault::NotAStore("nothing in it says what it is".into())),
    }
}

fn migrate(connection: &mut Connection, migrations: &[Step]) -> Result<(), Fault> {
    if !is_behind(connection, migrations.len())? {
        return Ok(());
    }
    // All steps at once: nobody who reads may find a file that has a schema of the past for a moment.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it while we waited for the lock.
    if !is_behind(&transaction, migrations.len())? {
        return Ok(());
    }
    let done = schema_of(label(&transaction)?);
    for step in &migrations[done as usize..] {
        transaction.execute_batch(step.sql)?;
        if let Some(then) = step.then {
            then(&transaction)?;
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(migrations.len()).expect("a handful"))?;
    transaction.commit()?;
    Ok(())
}

/// Computes the quantiles of histograms that were stored without. One that does not decode keeps none: it must not make
/// everything else unreadable, and anyone who reads its run is told.
fn fill_quantiles(connection: &Connection) -> Result<(), Fault> {
    let mut all = connection.prepare("SELECT rowid, latencies_ns FROM histogram WHERE operations IS NULL")?;
    let mut fill = connection.prepare(
        "UPDATE histogram SET operations = ?2, p50_ns = ?3, p90_ns = ?4, p99_ns = ?5, p999_ns = ?6, p9999_ns = ?7, \
         max_ns = ?8 WHERE rowid = ?1",
    )?;
    // Numbers first: what is read must not change under the reader.
    let mut found = Vec::new();
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(quantiles) = codec::quantiles(&row.get::<_, Vec<u8>>(1)?) {
            found.push((row.get::<_, i64>(0)?, quantiles));
        }
    }
    for (id, q) in found {
        fill.execute(params![id, q.operations, q.p50, q.p90, q.p99, q.p999, q.p9999, q.max])?;
    }
    Ok(())
}

fn is_behind(connection: &Connection, newest: usize) -> Result<bool, Fault> {
    let found = schema_of(label(connection)?);
    if found as usize > newest {
        return Err(Fault::NewerSchema(found));
    }
    Ok((found as usize) < newest)
}

const fn schema_of(label: Label) -> u32 {
    match label {
        Label::Empty => 0,
        Label::Ours(schema) => schema,
    }
}

/// Reads what a file says it is, all of it from one state of the file: another process may be making it right now, and
/// then the mark of before and the tables of after would look like the database of a stranger.
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
            _ => Err(Fault::damaged(format!("it says that its schema is {version}"))),
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

    fn tables(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn migrations_run_in_order_and_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        let steps = ["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y; CREATE TABLE b (z)"].map(Step::of);
        migrate(&mut connection, &steps[..1]).unwrap();
        assert_eq!(label(&connection).unwrap(), Label::Ours(1));
        connection.execute("INSERT INTO a VALUES (7)", []).unwrap();
        for _ in 0..2 {
            migrate(&mut connection, &steps).unwrap();
            assert_eq!(label(&connection).unwrap(), Label::Ours(2));
        }
        let kept: (i64, Option<i64>) =
            connection.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(kept, (7, None));
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_schema_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[Step::of("CREATE TABLE a (x)")]).unwrap();
        let before = tables(&connection);
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (y); CREATE TABLE a (again)"].map(Step::of);
        assert!(migrate(&mut connection, &broken).is_err());
        assert_eq!((label(&connection).unwrap(), tables(&connection)), (Label::Ours(1), before));
    }

    #[test]
    fn every_step_from_every_schema_ends_at_the_same_tables() {
        let text = |connection: &Connection| {
            let mut statement = connection
                .prepare("SELECT group_concat(name || ifnull(sql, ''), ';' ORDER BY name) FROM sqlite_schema")
                .unwrap();
            statement.query_row([], |row| row.get::<_, String>(0)).unwrap()
        };
        let mut fresh = Connection::open_in_memory().unwrap();
        prepare(&mut fresh).unwrap();
        for start in 1..=MIGRATIONS.len() {
            let mut old = Connection::open_in_memory().unwrap();
            migrate(&mut old, &MIGRATIONS[..start]).unwrap();
            prepare(&mut old).unwrap();
            assert_eq!(text(&old), text(&fresh));
        }
    }

    #[test]
    fn a_negative_schema_is_damage() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.pragma_update(None, "user_version", -1).unwrap();
        assert!(matches!(is_current(&connection), Err(Fault::Damaged { .. })));
    }
}
