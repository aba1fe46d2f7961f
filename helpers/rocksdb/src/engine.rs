//! RocksDB: a log-structured merge tree.

use fstrial_engine::{KeyValueEngines, KeyValueStore, NextRecord, OpenStores, Scanned};
use fstrial_kv::lsm::{Store, Tree};
use fstrial_model::{
    counter::{Counter, Counters},
    units::Bytes,
    workload::{KeyValueEngine, Ycsb},
};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, Error, IteratorMode, Options, ReadOptions, WriteOptions,
};
use std::{fmt, path::Path, sync::Arc};

static OPEN: OpenStores = OpenStores::new();

/// RocksDB, and all engines that fstrial has itself.
#[derive(Debug)]
pub struct Engines;

impl KeyValueEngines for Engines {
    fn open(&self, settings: &Ycsb, threads: u16, folder: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        match settings.engine {
            KeyValueEngine::Rocksdb => Ok(OPEN.opened(Arc::new(Store::new(Rocks::open(settings, folder)?)))),
            _ => fstrial_kv::Engines.open(settings, threads, folder),
        }
    }

    fn version(&self, engine: KeyValueEngine) -> String {
        match engine {
            KeyValueEngine::Rocksdb => version(),
            _ => fstrial_kv::Engines.version(engine),
        }
    }

    fn counts(&self) -> Counters {
        OPEN.counts().plus(&fstrial_kv::Engines.counts())
    }
}

/// The version of the library that this was built with.
pub fn version() -> String {
    concat!("RocksDB ", env!("ROCKSDB_VERSION")).into()
}

struct Rocks {
    db: DB,
    synced: WriteOptions,
}

impl fmt::Debug for Rocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rocks").finish_non_exhaustive()
    }
}

impl Rocks {
    fn open(settings: &Ycsb, folder: &Path) -> Result<Self, String> {
        let Bytes(cache) = settings.cache;
        let cache = usize::try_from(cache).map_err(|e| e.to_string())?;
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(cache).map_err(message)?);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        // As large as the cache: else all that is written in a run stays in memory.
        options.set_write_buffer_size(cache);
        // Random bytes would gain nothing.
        options.set_compression_type(DBCompressionType::None);
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Self { db: DB::open(&options, folder.join("ycsb")).map_err(message)?, synced })
    }

    /// All records from a key on.
    fn from(&self, mode: IteratorMode<'_>) -> impl Iterator<Item = Result<(Box<[u8]>, Box<[u8]>), String>> {
        self.db.iterator(mode).map(|record| record.map_err(message))
    }
}

impl Tree for Rocks {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        let (mut key, mut fields) = (String::new(), Vec::new());
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        while next(&mut key, &mut fields) {
            self.db.put_opt(&key, &fields, &unlogged).map_err(message)?;
        }
        self.db.flush().map_err(message)
    }

    fn check(&self) -> Result<(), String> {
        let mut reading = ReadOptions::default();
        reading.set_verify_checksums(true);
        reading.fill_cache(false);
        let mut all = self.db.iterator_opt(IteratorMode::Start, reading);
        all.try_for_each(|record| record.map(drop)).map_err(message)
    }

    fn get(&self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        let result = self.db.get_pinned(key).map_err(message)?;
        Ok(result.map(|record| into.extend_from_slice(&record)).is_some())
    }

    fn put(&self, key: &str, fields: &[u8]) -> Result<(), String> {
        self.db.put_opt(key, fields, &self.synced).map_err(message)
    }

    /// Nothing is left to do: RocksDB writes and syncs its log in the call of the write, once for all threads that are in it.
    fn commit(&self) -> Result<(), String> {
        Ok(())
    }

    fn scan(&self, key: &str, count: u16) -> Result<Scanned, String> {
        let mut result = Scanned { bytes: 0, from_key: false };
        let from = IteratorMode::From(key.as_bytes(), Direction::Forward);
        for record in self.from(from).take(usize::from(count)) {
            let (first, fields) = record?;
            result.from_key |= result.bytes == 0 && *first == *key.as_bytes();
            result.bytes += fields.len() as u64;
        }
        Ok(result)
    }

    fn counts(&self) -> Counters {
        let table = self.db.property_value("rocksdb.cfstats-no-file-histogram").ok().flatten();
        let compactions = table.as_deref().and_then(compactions);
        [(Counter::Compactions, compactions)].into_iter().collect()
    }
}

/// Compactions in the level table of RocksDB's statistics: those of all levels but the first, whose count
/// includes flushed memtables.
fn compactions(table: &str) -> Option<u64> {
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = lines.find(|words| words.contains(&"Comp(cnt)"))?;
    // Sizes have a separate unit: columns are counted from the end.
    let from_end = header.len() - header.iter().position(|word| *word == "Comp(cnt)")?;
    let count = |words: &Vec<&str>| words.get(words.len().checked_sub(from_end)?)?.parse::<u64>().ok();
    let levels = lines.take_while(|words| words.first().is_some_and(|word| *word != "Sum"));
    let levels = levels.filter(|words| words[0].strip_prefix('L').is_some_and(|level| level != "0"));
    Some(levels.filter_map(|words| count(&words)).sum())
}

/// The text of a RocksDB error.
fn message(error: Error) -> String {
    error.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Ycsb { engine: KeyValueEngine::Rocksdb, cache: Bytes::mib(1), ..Ycsb::default() };
        let tree = Rocks::open(&settings, folder.path()).unwrap();
        assert_eq!(tree.counts().get(Counter::Compactions), Some(0));
        for number in 0..20_000_u32 {
            let key = format!("user{:08}", number.wrapping_mul(2_654_435_761) % 100_000);
            tree.db.put(key, [1; 1000]).unwrap();
        }
        tree.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        let count = tree.counts().get(Counter::Compactions).unwrap();
        assert!((1..100).contains(&count), "{count}");
    }
}
