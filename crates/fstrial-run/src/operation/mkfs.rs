//! Making the filesystem.

use super::{Numbers, Run, ns};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.begin();
    run.standing.set_down().map_err(|e| run.failed(&e))?;
    let arm = run.order.arm;
    run.standing.note_tool(arm.row().map_or("", |row| row.mkfs));
    let made = run.repeat(|run| {
        run.settle()?;
        run.standing.make_again(arm, None).map_err(|e| run.failed(&e))
    })?;
    run.standing.set_up(arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(made)])
}
