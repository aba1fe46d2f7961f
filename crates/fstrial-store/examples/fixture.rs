//! Makes the fixture of the current schema: `cargo run -p fstrial-store --example fixture -- fixtures/store`.
//!
//! Run it once for each released schema and check the file in as `schema-N.db`; the tests open all of them with the code
//! of the day. To make an old one again, run it at the commit that released that schema.

#[path = "../tests/it/common/mod.rs"]
#[expect(dead_code, reason = "shared with the tests, which use the rest")]
mod common;

use fstrial_store::{SCHEMA, Store, TrialStatus};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("name the folder to make it in")?);
    let path = folder.join(format!("schema-{SCHEMA}.db"));
    if path.exists() {
        return Err(format!("{} exists; a fixture is not overwritten", path.display()).into());
    }
    let mut store = Store::open(&path)?;
    let trial = common::create_trial(&mut store);
    store.change_tags(trial, &["sample".into(), "v1".into()], &[])?;
    store.set_arm_facts(trial, "ext4", &common::facts("ext4"))?;
    for index in 0..4 {
        common::record(&mut store, trial, index)?;
    }
    store.finish_trial(trial, TrialStatus::Interrupted, common::ENDED)?;
    store.reopen_trial(trial, &common::SESSION)?;
    for index in 4..8 {
        common::record(&mut store, trial, index)?;
    }
    store.warn(trial, &["the device was late".into()])?;
    store.finish_trial(trial, TrialStatus::Decided, common::ENDED)?;
    common::create_trial(&mut store);
    Ok(())
}
