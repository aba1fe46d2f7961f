//! Looking at every file of a tree, cold and warm.

use super::{Numbers, Run, ns};
use fstrial_model::workload::TREE;
use fstrial_stack::operation::Places;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.populate()?;
    run.settle()?;
    run.begin();
    let places = Places { tree: run.path(TREE)?, ..Places::default() };
    let tool = run.tool()?;
    let cold = run.must(&tool, &places)?;
    let warm = run.must(&tool, &places)?;
    Ok(vec![ns(cold), ns(warm)])
}
