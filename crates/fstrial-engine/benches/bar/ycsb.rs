//! Overhead of a YCSB client around an engine that does nothing: choosing, drawing a key and its text,
//! values, two records.

use crate::contenders::Outcome;
use fstrial_engine::{KeyValueEngines, KeyValueSession, KeyValueStore, NextRecord, Scanned, Site, Target};
use fstrial_model::{
    job::Load,
    units::Nanos,
    workload::{CoreWorkload, FIELD_BYTES, FIELDS, Pattern, SetName, Until, Ycsb},
};
use std::{io::Write, path::Path, sync::Arc};

pub(crate) fn print(out: &mut impl Write, full: bool) -> Outcome<()> {
    for workload in [CoreWorkload::A, CoreWorkload::C] {
        let operations = if full { 3_000_000 } else { 1_000 };
        let ns = cost(Ycsb { workload, operations: Some(operations), ..Ycsb::default() })?;
        writeln!(out, "  {:34}{ns:9.1}", format!("YCSB's workload {workload} around nothing"))?;
    }
    Ok(())
}

/// Nanoseconds for each operation of one client.
fn cost(settings: Ycsb) -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let load = Load {
        pattern: Pattern::Ycsb(settings),
        set: SetName::load(),
        threads: 1,
        warmup: Nanos(0),
        duration: Nanos::secs(600),
        until: Until::Done,
        seed: 1,
        data: fstrial_model::workload::Data::Random,
        rate: None,
        handicap: fstrial_model::units::Percent(0.0),
    };
    let mut site = Site::new(Target::Directory(folder.path())).with_engines(&Nothing);
    let result = site.prepare(&[load])?.run(&mut |_| {})?;
    Ok(result.duration.as_secs_f64() * 1e9 / result.operations as f64)
}

/// An engine that keeps nothing and finds everything.
#[derive(Debug, Clone, Copy)]
struct Nothing;

impl KeyValueEngines for Nothing {
    fn open(&self, _: &Ycsb, _: u16, _: &Path) -> Result<Arc<dyn KeyValueStore>, String> {
        Ok(Arc::new(Self))
    }
}

impl KeyValueStore for Nothing {
    fn load(&self, _: &mut NextRecord<'_>) -> Result<(), String> {
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn KeyValueSession>, String> {
        Ok(Box::new(*self))
    }
}

impl KeyValueSession for Nothing {
    fn read(&mut self, _: &str, into: &mut Vec<u8>) -> Result<bool, String> {
        into.resize(usize::from(FIELDS) * FIELD_BYTES, 0);
        Ok(true)
    }

    fn update(&mut self, _: &str, _: u16, _: &[u8]) -> Result<bool, String> {
        Ok(true)
    }

    fn insert(&mut self, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn scan(&mut self, _: &str, _: u16) -> Result<Scanned, String> {
        Ok(Scanned { bytes: 0, from_key: true })
    }
}
