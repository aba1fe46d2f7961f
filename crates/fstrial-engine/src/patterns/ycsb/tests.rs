//! Loads on a store in memory, and the draws against YCSB's own.

use super::*;
use crate::{
    KeyValueEngines, NextRecord, Site, Target,
    testing::{count, directory, load_of},
};
use fstrial_model::{
    measurement::{LoadResult, OperationKind},
    units::Nanos,
    workload::{Pattern, Until},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Records in memory, and one in how many of those that are inserted is forgotten; 0 is none.
#[derive(Debug, Clone, Default)]
struct Memory {
    records: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    forgets: u64,
    inserted: Arc<AtomicU64>,
    /// Number of loads of the records before the clock.
    loaded: Arc<AtomicU64>,
}

impl Memory {
    fn with<T>(&self, of: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        of(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KeyValueEngines for Memory {
    fn open(&self, _: &Ycsb, _: u16, _: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        Ok(Arc::new(self.clone()))
    }
}

impl KeyValueStore for Memory {
    fn load(&self, next: &mut NextRecord<'_>) -> Result<(), String> {
        self.loaded.fetch_add(1, Ordering::Relaxed);
        let (mut key, mut fields) = (String::new(), Vec::new());
        while next(&mut key, &mut fields) {
            self.with(|all| all.insert(key.clone(), fields.clone()));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let all = self.with(|all| all.values().all(|fields| fields.len() == RECORD_BYTES));
        if all { Ok(()) } else { Err("a record has lost a part".into()) }
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        Ok(Box::new((*self).clone()))
    }
}

impl KeyValueSession for Memory {
    fn read(&mut self, key: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        Ok(self.with(|all| all.get(key).map(|fields| into.clone_from(fields))).is_some())
    }

    fn update(&mut self, key: &str, field: u16, value: &[u8]) -> Result<bool, String> {
        let at = usize::from(field) * FIELD_BYTES;
        let write = |fields: &mut Vec<u8>| fields[at..at + FIELD_BYTES].copy_from_slice(value);
        Ok(self.with(|all| all.get_mut(key).map(write)).is_some())
    }

    fn insert(&mut self, key: &str, fields: &[u8]) -> Result<(), String> {
        let number = self.inserted.fetch_add(1, Ordering::Relaxed) + 1;
        if self.forgets > 0 && number.is_multiple_of(self.forgets) {
            return Ok(());
        }
        let before = self.with(|all| all.insert(key.to_owned(), fields.to_vec()));
        before.map_or(Ok(()), |_| Err(format!("{key} is there already")))
    }

    fn scan(&mut self, key: &str, count: u16) -> Result<Scanned, String> {
        let matched = |all: &mut BTreeMap<String, Vec<u8>>| {
            let matched = all.range(key.to_owned()..).take(usize::from(count));
            Scanned {
                bytes: matched.map(|(_, fields)| fields.len() as u64).sum(),
                from_key: all.contains_key(key),
            }
        };
        Ok(self.with(matched))
    }
}

fn run(memory: &Memory, settings: Ycsb, threads: u16) -> LoadResult {
    let directory = directory();
    let load = Load {
        pattern: Pattern::Ycsb(settings),
        threads,
        until: Until::Done,
        warmup: Nanos(0),
        ..load_of(crate::testing::io(), threads)
    };
    let mut site = Site::new(Target::Directory(directory.path())).with_engines(memory);
    site.prepare(&[load]).unwrap().run(&mut |_| {}).unwrap()
}

fn settings(workload: CoreWorkload, operations: u64) -> Ycsb {
    Ycsb { workload, records: 1000, operations: Some(operations), ..Ycsb::default() }
}

#[test]
fn workloads_run_operations_in_expected_proportions() {
    for workload in CoreWorkload::ALL.into_iter().filter(|workload| *workload != CoreWorkload::Load) {
        let memory = Memory::default();
        let result = run(&memory, settings(workload, 5000), 2);
        assert_eq!((result.first_error.as_ref(), result.operations), (None, 10_000), "{workload}");
        let of = workload.proportions();
        for (kind, share) in [
            ("read", of.read + of.read_modify_write),
            ("update", of.update + of.read_modify_write),
            ("insert", of.insert),
            ("scan", of.scan),
            ("read-modify-write", of.read_modify_write),
        ] {
            let done = result
                .histograms
                .contains_key(&OperationKind::new(kind))
                .then(|| count(&result, OperationKind::new(kind)));
            assert_eq!(done.is_some(), share > 0, "{workload} {kind}");
            // Five standard deviations.
            let (done, share) = (done.unwrap_or(0) as f64, f64::from(share) / 100.0);
            let spread = 5.0 * (10_000.0 * share * (1.0 - share)).sqrt();
            assert!((done - 10_000.0 * share).abs() <= spread, "{workload} {kind}: {done}");
        }
        let inserted = memory.inserted.load(Ordering::Relaxed);
        assert_eq!(memory.with(|all| all.len() as u64), 1000 + inserted, "{workload}");
    }
}

#[test]
fn a_load_inserts_every_record_once() {
    let memory = Memory::default();
    let load = Ycsb { operations: None, ..settings(CoreWorkload::Load, 1) };
    let result = run(&memory, load, 3);
    assert_eq!((result.first_error, result.operations, result.bytes), (None, 1000, 1_000_000));
    let expected: std::collections::BTreeSet<String> = (0..1000).map(key_of).collect();
    assert!(memory.with(|all| all.keys().eq(expected.iter())));
}

#[test]
fn missing_acknowledged_record_is_an_error() {
    for (workload, forgets) in [(CoreWorkload::D, 10), (CoreWorkload::E, 1)] {
        let forgetful = Memory { forgets, ..Memory::default() };
        let result = run(&forgetful, settings(workload, 5000), 1);
        let error = result.first_error.expect("what was inserted is read");
        assert!(error.contains("is missing or incomplete, although it was inserted"), "{workload}: {error}");
    }
}

#[test]
fn a_run_has_room_for_as_many_records_again() {
    let result = run(&Memory::default(), Ycsb { records: 100, ..settings(CoreWorkload::D, 5000) }, 1);
    let error = result.first_error.expect("5 % of 5000 are more than 100");
    assert!(error.contains("the inserts have reached the number of loaded records, 100"), "{error}");
}

#[test]
fn a_later_phase_works_on_the_records_of_an_earlier_one() {
    let (directory, memory) = (directory(), Memory::default());
    let mut site = Site::new(Target::Directory(directory.path())).with_engines(&memory);
    for (workload, operations) in [(CoreWorkload::Load, 1000), (CoreWorkload::A, 500)] {
        let of = Ycsb { operations: (workload == CoreWorkload::A).then_some(500), ..settings(workload, 1) };
        let load = load_of(crate::testing::io(), 1);
        let load = Load { pattern: Pattern::Ycsb(of), until: Until::Done, warmup: Nanos(0), ..load };
        let result = site.prepare(&[load]).unwrap().run(&mut |_| {}).unwrap();
        assert_eq!((result.first_error.as_ref(), result.operations), (None, operations), "{workload}");
    }
    let loaded = memory.loaded.load(Ordering::Relaxed);
    assert_eq!((memory.with(|all| all.len()), loaded), (1000, 0));
}

#[test]
fn new_keys_are_expected_as_ycsb_expects_them() {
    let expected =
        |workload, operations, threads| match KeyChooser::new(&settings(workload, operations), threads, 1000)
        {
            KeyChooser::Scrambled { records, .. } => records,
            KeyChooser::Latest { .. } => panic!("{workload}"),
        };
    assert_eq!(expected(CoreWorkload::B, 5000, 2), 1001);
    // 2 × 5 % of 2 × 2000 operations.
    assert_eq!(expected(CoreWorkload::E, 2000, 2), 1401);
    assert_eq!(expected(CoreWorkload::E, i32::MAX as u64, 1024), 2001);
}

#[test]
fn keys_are_those_of_ycsb() {
    // `buildKeyName` of YCSB 0.17.0 itself.
    for (record, key) in [
        (0, "user6284781860667377211"),
        (1, "user8517097267634966620"),
        (2, "user1820151046732198393"),
        (999, "user2071219101098386137"),
        (12_345, "user1792800413050876852"),
        (10_000_000_000, "user1201321332300452516"),
    ] {
        assert_eq!(key_of(record), key);
    }
}

/// Checks that counts match the distribution of YCSB's ten million draws: χ² of two samples, five standard deviations.
fn agree(ours: &[u64], ycsb: &[u64]) -> Result<(), String> {
    let [n, m] = [ours, ycsb].map(|counts| counts.iter().sum::<u64>() as f64);
    let bins = ours.iter().zip(ycsb).filter(|(a, b)| **a + **b > 0);
    let terms: Vec<f64> = bins
        .map(|(a, b)| {
            let (a, b) = (*a as f64, *b as f64);
            ((m / n).sqrt() * a - (n / m).sqrt() * b).powi(2) / (a + b)
        })
        .collect();
    let (chi2, freedom) = (terms.iter().sum::<f64>(), terms.len() as f64 - 1.0);
    let most = freedom + 5.0 * (2.0 * freedom).sqrt();
    if chi2 < most { Ok(()) } else { Err(format!("χ² is {chi2:.0}, and at most {most:.0} was expected")) }
}

/// Counts of `ScrambledZipfianGenerator(0, 1000)` of YCSB 0.17.0 per 25 records, of the first thousand, in ten million
/// draws.
const ZIPFIAN: [u64; 40] = [
    331_227, 216_965, 221_702, 233_228, 178_000, 637_871, 168_761, 263_391, 356_375, 205_217, 275_404,
    163_846, 258_627, 195_685, 240_565, 207_079, 201_718, 305_063, 174_139, 281_016, 224_194, 308_516,
    226_699, 185_180, 439_088, 187_195, 260_153, 288_661, 246_790, 252_424, 182_129, 255_542, 201_152,
    239_445, 189_714, 221_502, 280_524, 238_924, 275_535, 180_754,
];

#[test]
fn zipfian_keys_are_as_often_drawn_as_by_ycsb() {
    let mut chooser = KeyChooser::new(&settings(CoreWorkload::B, 1), 1, 1000);
    let mut generator = Generator::new(1, Stream::Requests(0));
    let mut counts = [0_u64; 40];
    (0..1_000_000).for_each(|_| counts[chooser.draw(&mut generator, 1000) as usize / 25] += 1);
    agree(&counts, &ZIPFIAN).unwrap();
    counts.swap(5, 6);
    assert!(agree(&counts, &ZIPFIAN).is_err(), "the test tells other keys apart");
}

/// Counts of `SkewedLatestGenerator` of YCSB 0.17.0 by distance from the newest record, in ten million draws: with
/// record 999 as the newest, and after it had become record 1999. Beyond 1 the steps are factors of 1.5.
const LATEST: [[u64; 20]; 2] = [
    [
        1_295_199, 652_158, 509_963, 363_177, 513_628, 366_047, 515_460, 519_337, 473_054, 522_883, 513_601,
        529_062, 525_948, 532_084, 531_913, 536_795, 539_082, 542_916, 17_693, 0,
    ],
    [
        1_179_603, 594_296, 0, 0, 520_492, 370_909, 525_478, 526_657, 479_466, 531_449, 521_838, 535_539,
        533_594, 539_504, 539_539, 545_024, 545_551, 548_432, 549_965, 412_664,
    ],
];

#[test]
fn the_latest_keys_are_as_often_drawn_as_by_ycsb() {
    let mut chooser = KeyChooser::new(&settings(CoreWorkload::D, 1), 1, 1000);
    let mut generator = Generator::new(1, Stream::Requests(0));
    let step = |back: u64| match back {
        0 | 1 => back as usize,
        _ => (2 + ((back as f64).ln() / 1.5_f64.ln() - 1.0) as usize).min(19),
    };
    for (there, ycsb) in [1000, 2000].into_iter().zip(LATEST) {
        let mut counts = [0_u64; 20];
        (0..1_000_000).for_each(|_| counts[step(there - 1 - chooser.draw(&mut generator, there))] += 1);
        agree(&counts, &ycsb).unwrap_or_else(|what| panic!("{there} records: {what}\n{counts:?}"));
    }
}
