//! Filling a filesystem up to its last block, and deleting then.

use super::{
    AROUND, MIN_BYTES_PER_SECOND, Numbers, Run,
    files::{Content, content},
    ns, number,
};
use fstrial_model::{
    measurement::Stage,
    units::{Bytes, Nanos},
};
use fstrial_stack::StackError;
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Instant,
};

/// Size of each file; it is synced when it is complete, so that counted bytes are on the device.
const FILE: u64 = 4 << 20;
/// Bytes of one write, and of one of the small ones that come when there is no room for those any more.
const WRITE: usize = 256 << 10;
const SMALL_WRITE: usize = 4 << 10;
/// The last part counts as nearly full.
const NEARLY: f64 = 0.95;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    if run.order.task.timed.filesystem_size.is_some() {
        let size = run.part(Bytes::le)?;
        run.rebuild(size)?;
    }
    let size = run.ready_arm.device_size().map_err(|e| run.failed(&e))?;
    run.settle()?;
    run.enter(Stage::Load, Nanos(AROUND.0 + Nanos::secs(size.0 / MIN_BYTES_PER_SECOND).0));
    let content = content(run.order.task.data, run.order.task.seed, 1 << 20);
    let folder = run.path("fill")?;
    let filled = fill(&folder, &content).map_err(|e| run.failed(&e))?;
    let began = Instant::now();
    let deleted = fs::remove_file(&filled.first).map_err(|e| StackError::io("delete", &filled.first, e));
    // Too little space to delete is an outcome of the filesystem, not of the requested size.
    let deleted = deleted.and_then(|()| run.ready_arm.sync());
    deleted.map_err(|e| run.arm_failed(format!("full, and then: {e}")))?;
    let took: Nanos = began.elapsed().into();
    Ok(vec![number(filled.bytes), filled.rate, filled.rate_nearly_full, ns(took)])
}

/// Result of filling up.
#[derive(Debug)]
struct FillResult {
    /// Bytes that fitted.
    bytes: u64,
    /// Bytes per second of all of it.
    rate: f64,
    /// Bytes per second of the last twentieth.
    rate_nearly_full: f64,
    /// The first file.
    first: PathBuf,
}

/// Bytes that were there after this many seconds.
type Mark = (u64, f64);

/// Writes files into a new folder until no block is left.
fn fill(folder: &Path, content: &Content) -> Result<FillResult, StackError> {
    fs::create_dir(folder).map_err(|e| StackError::io("make the folder", folder, e))?;
    let began = Instant::now();
    let mut marks: Vec<Mark> = vec![(0, 0.0)];
    let mut bytes = 0;
    // First large writes until one does not fit, then small ones.
    for (stage, size) in [("large", WRITE), ("small", SMALL_WRITE)] {
        let mut serial = 0_u64;
        loop {
            let path = folder.join(format!("{stage}-{serial:08}"));
            let (written, is_full) =
                one_file(&path, size, content).map_err(|e| StackError::io("fill", &path, e))?;
            bytes += written;
            marks.push((bytes, began.elapsed().as_secs_f64()));
            if is_full {
                break;
            }
            serial += 1;
        }
    }
    if bytes == 0 {
        let error = io::Error::from(ErrorKind::StorageFull);
        return Err(StackError::io("write a first byte below", folder, error));
    }
    let (rate, rate_nearly_full) = rates(&marks);
    Ok(FillResult { bytes, rate, rate_nearly_full, first: folder.join("large-00000000") })
}

/// Writes one file and syncs it. Returns the durable bytes, and whether the filesystem is full.
fn one_file(path: &Path, size: usize, content: &Content) -> io::Result<(u64, bool)> {
    let full = |error: &io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if full(&error) => return Ok((0, true)),
        Err(error) => return Err(error),
    };
    let mut written = 0;
    let mut is_full = false;
    while written < FILE && !is_full {
        match file.write_at(content.part(written / size as u64, size), written) {
            Ok(0) => is_full = true,
            Ok(count) => {
                written += count as u64;
                is_full = count < size;
            }
            Err(error) if full(&error) => is_full = true,
            Err(error) => return Err(error),
        }
    }
    match file.sync_data() {
        Ok(()) => Ok((written, is_full)),
        // It was taken, and there is no room for it after all.
        Err(error) if full(&error) => Ok((0, true)),
        Err(error) => Err(error),
    }
}

/// The rate over all marks, and over those from 95 % of the bytes on.
fn rates(marks: &[Mark]) -> (f64, f64) {
    let (total, end) = marks.last().copied().unwrap_or_default();
    let rate = |bytes: u64, time: f64| number(bytes.max(1)) / time.max(1e-9);
    let near = number(total) * NEARLY;
    let before = marks.iter().rev().find(|(bytes, _)| number(*bytes) <= near).copied().unwrap_or_default();
    (rate(total, end), rate(total - before.0, end - before.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_separate_slow_last_twentieth() {
        let marks: Vec<Mark> = (0..=90).map(|n| (n * 10, n as f64)).chain([(1000, 190.0)]).collect();
        let (all, near) = rates(&marks);
        assert!((all - 1000.0 / 190.0).abs() < 1e-9, "{all}");
        assert!((near - 1.0).abs() < 1e-9, "{near}");
        assert!(rates(&[(0, 0.0), (10, 1.0)]).1 > 0.0);
    }
}
