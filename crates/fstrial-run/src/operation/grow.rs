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
    let before = run.standing.total_space().map_err(|e| run.failed(&e))?;
    let tool = run.tool()?;
    let done = run.finish(&tool, places)?;
    if is_forbidden(&done) && !has_resource_capability() {
        return Err(run.cannot(&format!(
            "{} needs the capability CAP_SYS_RESOURCE here, which this process has not (a container?): {}",
            tool.0,
            done.last_lines().lines().last().unwrap_or_default()
        )));
    }
    let took = run.succeeded(done)?.wall;
    let after = run.standing.total_space().map_err(|e| run.failed(&e))?;
    if !has_changed(before, after) {
        let what = format!("{} succeeded, and the size went from {before} to {after}", tool.0);
        return Err(run.arm_failed(what));
    }
    Ok(vec![ns(took)])
}

/// Whether a tool failed because the kernel does not let it; anything else is a failure of the arm.
fn is_forbidden(done: &CommandOutput) -> bool {
    let refusals = ["Permission denied", "Operation not permitted"];
    let said = |text: &str| refusals.iter().any(|refusal| text.contains(refusal));
    !done.status.success() && (said(&done.stdout) || said(&done.stderr))
}
