//! Mounting after an unclean stop, and after a clean one.

use super::{
    Numbers, Run, Step,
    files::{content, count, write_durably},
    ns,
};
use fstrial_model::{ability::Unclean, units::Bytes};

/// Files made last before an unclean stop, at least: there must be something to recover.
const MIN_UNCLEAN: u32 = 20;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let size = run.part(Bytes::le)?;
    let arm = run.order.arm;
    let unclean = arm.row().map_or(Err("it has no filesystem of its own"), |row| row.abilities.unclean);
    let unclean = unclean.map_err(|reason| run.cannot(reason))?;
    let device = run.standing.device_size().map_err(|e| run.failed(&e))?;
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
            // The filesystem says that it was shut down, and that its journal cannot be written any more.
            (run.tell)(Step::Provokes);
            run.standing.shut_down(call).map_err(|e| run.unless_unsupported(call, &e))?;
            run.standing.set_down().map_err(|e| run.failed(&e))?;
            (run.tell)(Step::Provoked);
        }
        Unclean::Image => {
            run.standing.keep_image(size).map_err(|e| run.failed(&e))?;
            run.standing.set_down().map_err(|e| run.failed(&e))?;
            run.standing.put_image_back(size).map_err(|e| run.failed(&e))?;
        }
    }
    run.settle()?;
    let recovered = run.standing.set_up(arm).map_err(|e| run.failed(&e))?;
    // What was synced must be there: a mount that loses it has recovered nothing.
    let found = count(&folder).map_err(|e| run.failed(&e))?;
    if found != u64::from(last) {
        let what = format!("{found} of {last} files that were synced before the stop are there after it");
        return Err(run.arm_failed(what));
    }
    run.standing.set_down().map_err(|e| run.failed(&e))?;
    run.settle()?;
    let clean = run.standing.set_up(arm).map_err(|e| run.failed(&e))?;
    Ok(vec![ns(recovered), ns(clean)])
}
