//! The full check, read-only.

use super::{Numbers, Run, Tool, ns};
use fstrial_stack::{StackError, operation::Places};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let (program, mut words) = run.tool()?;
    words.push("{device}");
    pass(run, &(program, words))
}

/// Runs a check on the unmounted filesystem, which must find nothing.
pub(super) fn pass(run: &mut Run<'_>, tool: &Tool) -> Numbers {
    run.populate()?;
    run.begin();
    run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
    run.settle()?;
    let done = run.finish(tool, &Places::default())?;
    if !done.status.success() {
        let corrupt = StackError::Corrupt { last_lines: done.last_lines(), line: done.line };
        return Err(run.failed(&corrupt));
    }
    run.ready_arm.set_up(run.order.arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(done.wall)])
}
