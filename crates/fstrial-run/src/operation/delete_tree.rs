//! Deleting a tree.

use super::{Numbers, Run, ns};
use fstrial_model::units::Nanos;
use std::time::Instant;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let (tool, places) = run.begin_on_tree()?;
    let deleted = run.must(&tool, &places)?;
    let began = Instant::now();
    run.ready_arm.sync().map_err(|e| run.failed(&e))?;
    let synced: Nanos = began.elapsed().into();
    Ok(vec![ns(deleted), ns(Nanos(deleted.0 + synced.0))])
}
