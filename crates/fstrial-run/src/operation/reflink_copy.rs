//! Copying a tree by sharing its blocks.

use super::{Numbers, Run, ns, number};
use fstrial_model::workload::TREE;
use fstrial_stack::operation::{Places, try_to_clone};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let directory = run.ready_arm.directory().map_err(|e| run.failed(&e))?.to_owned();
    try_to_clone(&directory).map_err(|e| run.unless_unsupported("FICLONE", &e))?;
    run.populate()?;
    run.settle()?;
    run.begin();
    let used = run.used()?;
    let places = Places { tree: run.path(TREE)?, copy: run.path("copy")?, ..Places::default() };
    let tool = run.tool()?;
    let copied = run.must(&tool, &places)?;
    run.ready_arm.sync().map_err(|e| run.failed(&e))?;
    Ok(vec![ns(copied), number(run.used()?.saturating_sub(used).max(1))])
}
