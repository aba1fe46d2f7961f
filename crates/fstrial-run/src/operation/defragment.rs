//! The filesystem's own tool against fragmentation.

use super::{
    AROUND, MIN_BYTES_PER_SECOND, Numbers, Run,
    files::{append_in_turn, content, read},
    ns, number,
};
use fstrial_model::{job::RunFailure, measurement::Stage, units::Nanos, workload::TREE};
use fstrial_stack::{StackError, operation::Places};
use std::{path::PathBuf, time::Instant};

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let tree = run.tree()?.clone();
    let folder = run.path(TREE)?;
    let bytes = tree.size.mean().0.saturating_mul(tree.files.into());
    run.enter(Stage::Layout, Nanos(AROUND.0 + Nanos::secs(bytes / MIN_BYTES_PER_SECOND).0));
    let content = content(run.order.task.data, run.order.task.seed, 1 << 20);
    let paths = append_in_turn(&folder, tree.files, tree.size.mean(), &content);
    let paths = paths.map_err(|e| run.failed(&e))?;
    run.settle()?;
    run.begin();
    let count = |run: &Run<'_>| -> Result<u64, RunFailure> {
        let each = paths.iter().map(|path| {
            let failed = |e| StackError::io("ask for the extents of", path, e);
            fstrial_engine::pieces(path).map_err(failed)
        });
        each.sum::<Result<u64, _>>().map_err(|e| run.unless_unsupported("FIEMAP", &e))
    };
    let before = (count(run)?, rate(run, &paths)?);
    run.settle()?;
    let tool = run.tool()?;
    // Its version is queried before the clock starts.
    run.ready_arm.note_tool(tool.0);
    let places = Places { tree: folder, files: paths.clone(), ..Places::default() };
    let began = Instant::now();
    run.must(&tool, &places)?;
    run.ready_arm.sync().map_err(|e| run.failed(&e))?;
    let took: Nanos = began.elapsed().into();
    let after = (count(run)?, rate(run, &paths)?);
    Ok(vec![ns(took), number(before.0), number(after.0), before.1, after.1])
}

/// Reads files in order and gives the rate in bytes per second. The first read after a settle is cold.
fn rate(run: &mut Run<'_>, paths: &[PathBuf]) -> Result<f64, RunFailure> {
    run.settle()?;
    let began = Instant::now();
    let bytes = read(paths).map_err(|e| run.failed(&e))?;
    Ok(number(bytes) / began.elapsed().as_secs_f64().max(1e-9))
}
