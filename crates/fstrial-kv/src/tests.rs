//! Common behaviour of all engines.

use super::*;
use fstrial_engine::Scanned;
use fstrial_model::workload::{FIELD_BYTES, FIELDS};
use std::{os::unix::fs::FileExt, path::PathBuf};

fn settings(engine: KeyValueEngine) -> Ycsb {
    Ycsb { engine, ..Ycsb::default() }
}

fn fields(byte: u8) -> Vec<u8> {
    vec![byte; usize::from(FIELDS) * FIELD_BYTES]
}

#[test]
fn records_are_kept_changed_and_read_in_the_order_of_their_keys() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let store = Engines.open(&settings(engine), 2, folder.path()).unwrap();
        let loaded = [("user2", fields(2)), ("user1", fields(1))];
        load(&*store, &loaded);
        {
            let mut session = Arc::clone(&store).session().unwrap();
            let mut record = vec![9];
            assert_eq!(session.read("user1", &mut record), Ok(true), "{engine}");
            assert_eq!((session.read("user0", &mut Vec::new()), record), (Ok(false), fields(1)));
            assert_eq!(session.update("user2", 9, &[7; FIELD_BYTES]), Ok(true));
            assert_eq!(session.update("user0", 0, &[7; FIELD_BYTES]), Ok(false));
            session.insert("user3", &fields(3)).unwrap();
            for (key, count, bytes, from_key) in [
                ("user2", 10, 2000, true),
                ("user2", 1, 1000, true),
                ("user20", 10, 1000, false),
                ("v", 10, 0, false),
            ] {
                assert_eq!(session.scan(key, count), Ok(Scanned { bytes, from_key }), "{engine} {key}");
            }
        }
        drop(store);
        let mut changed = fields(2);
        changed[9 * FIELD_BYTES..].fill(7);
        let there = [("user1", fields(1)), ("user2", changed), ("user3", fields(3))];
        let again = Engines.open(&settings(engine), 2, folder.path()).unwrap();
        let result = all(&again, &["user1", "user2", "user3"]);
        assert_eq!(result, there.map(|(_, fields)| Some(fields)), "{engine}");
    }
}

#[test]
fn concurrent_sessions_never_fail_or_lose_updates() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let store = Engines.open(&settings(engine), 4, folder.path()).unwrap();
        let keys: Vec<String> = (0..50).map(|number| format!("user{number}")).collect();
        let before = fields(0);
        load(&*store, &keys.iter().map(|key| (key.as_str(), before.clone())).collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (store, keys) = (&store, &keys);
                scope.spawn(move || {
                    let (mut session, mut record) = (Arc::clone(store).session().unwrap(), Vec::new());
                    for (number, key) in keys.iter().enumerate() {
                        let value = [thread + 1; FIELD_BYTES];
                        assert_eq!(session.update(key, u16::from(thread), &value), Ok(true));
                        assert_eq!(session.read(&keys[(number * 7) % keys.len()], &mut record), Ok(true));
                    }
                });
            }
        });
        let mut after = fields(0);
        (0..4).for_each(|thread| after[thread * FIELD_BYTES..][..FIELD_BYTES].fill(thread as u8 + 1));
        assert_eq!(all(&store, &["user0", "user49"]), [Some(after.clone()), Some(after)], "{engine}");
    }
}

#[test]
fn damaged_records_are_found() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<(String, Vec<u8>)> = (0..3000).map(|n| (format!("user{n:06}"), fields(1))).collect();
        let store = Engines.open(&settings(engine), 1, folder.path()).unwrap();
        load(
            &*store,
            &records.iter().map(|(key, fields)| (key.as_str(), fields.clone())).collect::<Vec<_>>(),
        );
        drop(store);
        let check = || Engines.open(&settings(engine), 1, folder.path()).and_then(|store| store.check());
        assert_eq!(check(), Ok(()), "{engine}");
        let files =
            files_in(folder.path()).into_iter().filter(|file| file.metadata().unwrap().len() > 1 << 20);
        for file in files {
            let at = file.metadata().unwrap().len() / 3;
            std::fs::File::options()
                .write(true)
                .open(file)
                .unwrap()
                .write_all_at(&[0xa5; 100_000], at)
                .unwrap();
        }
        assert!(check().is_err(), "{engine}");
    }
}

/// All files in a folder and those in it.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

/// The records of some keys.
fn all(store: &Arc<dyn KeyValueStore>, keys: &[&str]) -> Vec<Option<Vec<u8>>> {
    let mut session = Arc::clone(store).session().unwrap();
    let mut read = |key: &str| {
        let mut record = Vec::new();
        session.read(key, &mut record).unwrap().then_some(record)
    };
    keys.iter().map(|key| read(key)).collect()
}

fn load(store: &dyn KeyValueStore, records: &[(&str, Vec<u8>)]) {
    let mut records = records.iter();
    let next = &mut |key: &mut String, fields: &mut Vec<u8>| {
        let Some((of, record)) = records.next() else { return false };
        (*of).clone_into(key);
        fields.clone_from(record);
        true
    };
    store.load(next).unwrap();
}
