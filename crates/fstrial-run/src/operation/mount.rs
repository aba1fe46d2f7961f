//! Mounting, cold, and unmounting.

use super::{Numbers, Run, median, ns};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.populate()?;
    run.begin();
    run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
    let arm = run.order.arm;
    let mut unmounted = Vec::new();
    let mounted = run.repeat(|run| {
        run.settle()?;
        let took = run.ready_arm.set_up(arm).map_err(|e| run.failed(&e))?;
        unmounted.push(run.ready_arm.set_down().map_err(|e| run.failed(&e))?);
        Ok(took)
    })?;
    run.ready_arm.set_up(arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(mounted), ns(median(unmounted))])
}
