//! Space overhead of a tree.

use super::{Numbers, Run, number};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.settle()?;
    let used = run.used()?;
    run.populate()?;
    run.settle()?;
    run.begin();
    let taken = run.used()?.saturating_sub(used).max(1);
    Ok(vec![number(taken) / f64::from(run.tree()?.files)])
}
