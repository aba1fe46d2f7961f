//! Looking at every file of a tree, cold and warm.

use super::{Numbers, Run, ns};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let (tool, places) = run.begin_on_tree()?;
    let cold = run.must(&tool, &places)?;
    let warm = run.must(&tool, &places)?;
    Ok(vec![ns(cold), ns(warm)])
}
