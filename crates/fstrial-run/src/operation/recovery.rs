//! Mounting after an unclean stop, and after a clean one.

use super::{
    Numbers, OperationEvent, Run,
    files::{content, count, write_durably},
    ns,
};
use fstrial_model::{ability::Unclean, units::Bytes};

/// Files made last before an unclean stop, at least: there must be something to recover.
const MIN_UNCLEAN: u32 = 20;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let size = run.part(Bytes::le)?;
    let arm = run.order.arm;
    let unclean = arm.row().map_or(Err("it has no filesystem to itself"), |row| row.abilities.unclean);
    let unclean = unclean.map_err(|reason| run.unsupported(reason))?;
    let device = run.ready_arm.device_size().map_err(|e| run.failed(&e))?;
    if unclean == Unclean::Image && size.0.saturating_mul(2) > device.0 {
        return Err(run.refused(
            &format!("{size} of filesystem and a copy of it do not fit on a device of {device}"),
            "use a larger device (its size), or a smaller filesystem_size",
        ));
    }
    run.rebuild(size)?;
    run.populate()?;
    run.settle()?;
    run.begin();
    let last = run.tree()?.files.div_ceil(10).max(MIN_UNCLEAN);
    let content = content(run.order.task.data, run.order.task.seed, 4096);
    let folder = run.path("last")?;
    write_durably(&folder, last, &content).map_err(|e| run.failed(&e))?;
    match unclean {
        Unclean::Shutdown(call) => {
            // The filesystem reports that it was shut down, and that its journal cannot be written any more.
            (run.tell)(OperationEvent::Provokes);
            run.ready_arm.shut_down(call).map_err(|e| run.unless_unsupported(call, &e))?;
            run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
            (run.tell)(OperationEvent::Provoked);
        }
        Unclean::Image => {
            run.ready_arm.keep_image(size).map_err(|e| run.failed(&e))?;
            run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
            run.ready_arm.put_image_back(size).map_err(|e| run.failed(&e))?;
        }
    }
    run.settle()?;
    let recovered = run.ready_arm.set_up(arm).map_err(|e| run.failed(&e))?;
    // Synced files must be there: a mount that loses them has recovered nothing.
    let files = count(&folder).map_err(|e| run.failed(&e))?;
    if files != u64::from(last) {
        let what = format!("after the stop {files} of {last} synced files are there");
        return Err(run.arm_failed(what));
    }
    run.ready_arm.set_down().map_err(|e| run.failed(&e))?;
    run.settle()?;
    let clean = run.ready_arm.set_up(arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(recovered), ns(clean)])
}
