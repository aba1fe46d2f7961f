//! Making it larger while it is mounted.

use super::{Numbers, Run, ns};
use fstrial_model::units::Bytes;
use fstrial_stack::{command::CommandOutput, host::has_resource_capability, operation::Places};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let size = run.part(Bytes::lt)?;
    run.rebuild(size)?;
    resize(run, &Places::default(), |before, after| after > before)
}

/// Changes the size of a populated filesystem while it is mounted, and looks whether it has.
pub(super) fn resize(run: &mut Run<'_>, places: &Places, has_changed: fn(Bytes, Bytes) -> bool) -> Numbers {
    run.populate()?;
    run.settle()?;
    run.begin();
    let before = run.ready_arm.total_space().map_err(|e| run.failed(&e))?;
    let tool = run.tool()?;
    let done = run.finish(&tool, places)?;
    if is_forbidden(&done) && !has_resource_capability() {
        return Err(run.unsupported(&format!(
            "{} needs CAP_SYS_RESOURCE here, which this process lacks (in a container?): {}",
            tool.0,
            done.last_lines().lines().last().unwrap_or_default()
        )));
    }
    let took = run.succeeded(done)?.wall;
    let after = run.ready_arm.total_space().map_err(|e| run.failed(&e))?;
    if !has_changed(before, after) {
        let what = format!("{} succeeded, and the size went from {before} to {after}", tool.0);
        return Err(run.arm_failed(what));
    }
    Ok(vec![ns(took)])
}

/// True if a tool failed because the kernel denied permission; any other failure is the arm's.
fn is_forbidden(done: &CommandOutput) -> bool {
    let refusals = ["Permission denied", "Operation not permitted"];
    let is_refusal = |text: &str| refusals.iter().any(|refusal| text.contains(refusal));
    !done.status.success() && (is_refusal(&done.stdout) || is_refusal(&done.stderr))
}
