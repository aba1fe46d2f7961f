//! The full check that may repair.

use super::{Numbers, Run, check};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let tool = run.tool()?;
    check::pass(run, &tool)
}
