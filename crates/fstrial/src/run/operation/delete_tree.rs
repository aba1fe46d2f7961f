//! Deleting a tree.

use super::{Numbers, Run, ns};
use fstrial_model::{units::Nanos, workload::TREE};
use fstrial_stack::operation::Places;
use std::time::Instant;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.populate()?;
    run.settle()?;
    run.begin();
    let places = Places { tree: run.path(TREE)?, ..Places::default() };
    let tool = run.tool()?;
    let deleted = run.must(&tool, &places)?;
    let began = Instant::now();
    run.standing.sync().map_err(|e| run.failed(&e))?;
    let synced: Nanos = began.elapsed().into();
    Ok(vec![ns(deleted), ns(Nanos(deleted.0 + synced.0))])
}
