//! Log-structured merge trees as stores: a record is one value, and a write of a field writes the record again, as YCSB's bindings for
//! such stores do.

use fstrial_engine::{KeyValueSession, KeyValueStore, NextRecord, Scanned};
use fstrial_model::counter::Counters;
use std::{
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

/// Locks for updates, chosen by the hash of the key. An engine may sync while it holds one, so there are enough that different records
/// rarely share one.
const STRIPES: usize = 1 << 14;

/// Operations of the tree itself.
pub trait Tree: Debug + Send + Sync {
    /// As of [`KeyValueStore::load`].
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String>;

    /// As of [`KeyValueStore::check`].
    fn check(&self) -> Result<(), String>;

    /// Appends a record to `into`; whether there is one.
    fn get(&self, key: &str, into: &mut Vec<u8>) -> Result<bool, String>;

    /// Writes a record, durable once [`Tree::commit`] has returned; an engine that syncs each write may do so here.
    fn put(&self, key: &str, fields: &[u8]) -> Result<(), String>;

    /// Makes this thread's writes durable.
    fn commit(&self) -> Result<(), String>;

    /// As of [`KeyValueSession::scan`].
    fn scan(&self, key: &str, count: u16) -> Result<Scanned, String>;

    /// As of [`KeyValueStore::counts`].
    fn counts(&self) -> Counters;
}

/// A tree with the records.
#[derive(Debug)]
pub struct Store<T> {
    tree: T,
    stripes: Vec<Mutex<()>>,
}

impl<T: Tree> Store<T> {
    /// Around a tree.
    pub fn new(tree: T) -> Self {
        Self { tree, stripes: (0..STRIPES).map(|_| Mutex::new(())).collect() }
    }

    fn stripe(&self, key: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.stripes[hasher.finish() as usize % STRIPES]
    }
}

impl<T: Tree + 'static> KeyValueStore for Store<T> {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        self.tree.load(next)
    }

    fn check(&self) -> Result<(), String> {
        self.tree.check()
    }

    fn counts(&self) -> Counters {
        self.tree.counts()
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        Ok(Box::new(LsmSession { store: self, record: Vec::new() }))
    }
}

/// A thread's use of a tree.
struct LsmSession<T> {
    store: Arc<Store<T>>,
    /// A record with a field that was changed.
    record: Vec<u8>,
}

impl<T: Tree> KeyValueSession for LsmSession<T> {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        into.clear();
        self.store.tree.get(key, into)
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let Store { tree, .. } = &*self.store;
        let guard = self.store.stripe(key).lock().unwrap_or_else(PoisonError::into_inner);
        self.record.clear();
        if !tree.get(key, &mut self.record)? {
            return Ok(false);
        }
        let at = usize::from(field) * value.len();
        self.record[at..at + value.len()].copy_from_slice(value);
        tree.put(key, &self.record)?;
        drop(guard);
        tree.commit().map(|()| true)
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.store.tree.put(key, fields)?;
        self.store.tree.commit()
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        self.store.tree.scan(key, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::{Duration, Instant},
    };

    const TOGETHER: usize = 16;

    /// A tree that writes as long as all others are not writing too.
    #[derive(Debug, Default)]
    struct Slow {
        writing: AtomicUsize,
    }

    impl Tree for Slow {
        fn load(&self, _: &mut NextRecord<'_>) -> Result<(), String> {
            Ok(())
        }

        fn check(&self) -> Result<(), String> {
            Ok(())
        }

        fn get(&self, _: &str, into: &mut Vec<u8>) -> Result<bool, String> {
            into.extend_from_slice(b"field");
            Ok(true)
        }

        fn put(&self, _: &str, _: &[u8]) -> Result<(), String> {
            self.writing.fetch_add(1, Ordering::SeqCst);
            let began = Instant::now();
            while self.writing.load(Ordering::SeqCst) < TOGETHER {
                if began.elapsed() > Duration::from_secs(10) {
                    return Err("the others wait".into());
                }
                thread::yield_now();
            }
            Ok(())
        }

        fn commit(&self) -> Result<(), String> {
            Ok(())
        }

        fn scan(&self, _: &str, _: u16) -> Result<Scanned, String> {
            Err("not here".into())
        }

        fn counts(&self) -> Counters {
            Counters::default()
        }
    }

    #[test]
    fn updates_of_different_records_do_not_wait_for_each_other() {
        let store = Arc::new(Store::new(Slow::default()));
        thread::scope(|scope| {
            for record in 0..TOGETHER {
                let mut session = Arc::clone(&store).session().unwrap();
                scope.spawn(move || {
                    assert_eq!(session.update(&format!("user{record}"), 0, b"value"), Ok(true))
                });
            }
        });
    }
}
