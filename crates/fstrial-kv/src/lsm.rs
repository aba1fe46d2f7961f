//! Log-structured merge trees as stores: a record is one value, and a write of a field writes the record again, as YCSB's bindings for
//! such stores do.

use fstrial_engine::{KeyValueSession, KeyValueStore, NextRecord, Scanned};
use fstrial_model::measurement::Counters;
use std::{
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

/// Updates of records whose keys share one of these wait for each other.
const STRIPES: usize = 64;

/// What a tree does itself.
pub trait Tree: Debug + Send + Sync {
    /// As of [`KeyValueStore::load`].
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String>;

    /// As of [`KeyValueStore::check`].
    fn check(&self) -> Result<(), String>;

    /// Appends a record to `into`; whether there is one.
    fn get(&self, key: &str, into: &mut Vec<u8>) -> Result<bool, String>;

    /// Writes a record, durable once [`Tree::commit`] has returned.
    fn put(&self, key: &str, fields: &[u8]) -> Result<(), String>;

    /// Makes what this thread has put durable.
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
        Ok(Box::new(Session { store: self, record: Vec::new() }))
    }
}

/// A thread's use of a tree.
struct Session<T> {
    store: Arc<Store<T>>,
    /// A record with a field that was changed.
    record: Vec<u8>,
}

impl<T: Tree> KeyValueSession for Session<T> {
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
