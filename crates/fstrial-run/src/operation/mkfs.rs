//! Making the filesystem.

use super::{Numbers, Run, ns};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.begin();
    run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
    let arm = run.order.arm;
    run.ready_arm.note_tool(arm.row().map_or("", |row| row.mkfs));
    let made = run.repeat(|run| {
        run.settle()?;
        run.ready_arm.make_again(arm, None).map_err(|e| run.failed(&e))
    })?;
    run.ready_arm.set_up(arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(made)])
}
