//! Whether a load makes sense: a pure check, before anything is touched.

use crate::{EngineError, pattern::Geometry};
use fstrial_model::{
    job::Load,
    units::Nanos,
    workload::{Access, Backend, EntryError, FileSet, Io, Pattern, Sharing, Step},
};

/// Threads of one load at most.
const THREADS_MAX: u16 = 1024;
/// Requests in flight for each thread at most.
const DEPTH_MAX: u16 = 4096;
/// Size of one request at most.
const BLOCK_MAX: u64 = 1 << 30;
/// Memory for the requests in flight of one thread at most (also the kernel's limit for one registered buffer).
const FLIGHT_MAX: u64 = 1 << 30;
/// Files of one thread at most.
const FILES_MAX: u32 = 10_000_000;
/// Steps of a turn at most.
const STEPS_MAX: usize = 64;
/// Warm-up and measured time at most: 30 days.
const TIME_MAX: Nanos = Nanos::secs(30 * 86_400);
/// Measured time at least: ten windows of 0.1 ms.
const TIME_MIN: Nanos = Nanos::millis(1);

fn refuse(problem: impl Into<String>, hint: &'static str) -> Result<(), EngineError> {
    Err(EngineError::Impossible { problem: problem.into(), hint })
}

/// Checks that the engine can do a load, in a directory or on a bare block device. Looks at nothing but the load.
///
/// # Errors
/// [`EngineError::Impossible`] names the combination that makes no sense, with a hint.
pub fn validate(load: &Load, block_device: bool) -> Result<(), EngineError> {
    if load.threads == 0 || load.threads > THREADS_MAX {
        return refuse(
            format!("a load has 1 to {THREADS_MAX} threads, not {}", load.threads),
            "change threads",
        );
    }
    if load.duration < TIME_MIN || load.duration > TIME_MAX || load.warmup > TIME_MAX {
        let problem = format!("cannot measure {} after a warm-up of {}", load.duration, load.warmup);
        return refuse(problem, "measure 1ms to 30d, after a warm-up of at most 30d");
    }
    match &load.pattern {
        Pattern::Io(io) => {
            sizes(io)?;
            combination(io, block_device)?;
            shares(io, load.threads)
        }
        Pattern::Files(_) | Pattern::Flow(_) | Pattern::Postmark(_) | Pattern::Log(_) | Pattern::Flush(_)
            if block_device =>
        {
            refuse(
                "a bare device holds no files",
                "use a workload of kind \"io\" on it, or put a filesystem on it",
            )
        }
        Pattern::Files(set) => file_set(set),
        Pattern::Flow(flow) => settings(flow.check()),
        Pattern::Postmark(postmark) => settings(postmark.check()),
        Pattern::Log(log) => settings(log.check()),
        Pattern::Flush(flush) => settings(flush.check()),
    }
}

/// What the pattern's own check says.
fn settings(checked: Result<(), EntryError>) -> Result<(), EngineError> {
    checked.or_else(|error| {
        let hint = error.hint.map_or(String::new(), |hint| format!(": {hint}"));
        refuse(format!("{}{hint}", error.problem), "change the workload")
    })
}

fn sizes(io: &Io) -> Result<(), EngineError> {
    if !(0.0..=100.0).contains(&io.reads.0) {
        return refuse(format!("{}% of requests cannot read", io.reads.0), "use reads = \"0%\" to \"100%\"");
    }
    if io.block_size.0 == 0 || io.block_size.0 > BLOCK_MAX {
        return refuse(format!("a request cannot have {}", io.block_size), "use a block_size of 1B to 1GiB");
    }
    if io.files == 0 || io.files > FILES_MAX {
        return refuse(format!("cannot use {} files", io.files), "use 1 to 10000000 files");
    }
    if io.depth == 0 || io.depth > DEPTH_MAX {
        return refuse(format!("cannot keep {} requests in flight", io.depth), "use a depth of 1 to 4096");
    }
    if u64::from(io.depth) * io.block_size.0 > FLIGHT_MAX {
        let problem = format!("{} requests of {} in flight take too much memory", io.depth, io.block_size);
        return refuse(problem, "keep depth times block_size within 1GiB");
    }
    Ok(())
}

fn combination(io: &Io, block_device: bool) -> Result<(), EngineError> {
    if io.backend == Backend::Sync && io.depth != 1 {
        let problem = format!("pread and pwrite keep one request in flight, not {}", io.depth);
        return refuse(problem, "use depth = 1, or backend = \"io_uring\"");
    }
    if (io.direct || block_device) && !io.block_size.0.is_multiple_of(512) {
        let problem =
            format!("direct I/O needs whole sectors, and {} is not a multiple of 512", io.block_size);
        return refuse(problem, "use a block_size that is a multiple of 512");
    }
    if io.access != Access::Append {
        return Ok(());
    }
    if block_device {
        return refuse("a bare device cannot be appended to", "use access = \"sequential\" on it");
    }
    if io.sharing == Sharing::Shared {
        return refuse(
            "threads cannot append to files they share",
            "use sharing = \"per-thread\" with append",
        );
    }
    if io.reads.0 > 0.0 {
        return refuse("append only writes, but reads are wanted", "use reads = \"0%\" with append");
    }
    Ok(())
}

fn shares(io: &Io, threads: u16) -> Result<(), EngineError> {
    let geometry = Geometry::on_files(io, threads, 0);
    if geometry.blocks_per_file > 0 {
        return Ok(());
    }
    let files = match io.sharing {
        Sharing::Shared => u64::from(io.files),
        Sharing::PerThread => u64::from(io.files) * u64::from(threads),
    };
    let problem =
        format!("{} over {files} files leaves no block of {} for each", io.total_size, io.block_size);
    refuse(problem, "use a larger file_size, fewer files or threads, or a smaller block_size")
}

/// Plays one turn with the number of files only: a turn that keeps or grows the set can be repeated without end.
fn file_set(set: &FileSet) -> Result<(), EngineError> {
    if set.steps.is_empty() || set.steps.len() > STEPS_MAX {
        return refuse(
            "a turn over a file set has 1 to 64 steps",
            "write steps = [\"create\", \"write\", \"delete\"]",
        );
    }
    if set.files > FILES_MAX {
        return refuse(
            format!("cannot use {} files", set.files),
            "use at most 10000000 files for each thread",
        );
    }
    let count = |step| set.steps.iter().filter(|s| **s == step).count();
    if count(Step::Delete) > count(Step::Create) {
        let problem = "each turn deletes more files than it creates: the set would run empty";
        return refuse(problem, "add \"create\" to the steps, or leave out \"delete\"");
    }
    let mut files = u64::from(set.files);
    for step in &set.steps {
        match step {
            Step::Create => files += 1,
            _ if files == 0 => {
                let problem = format!("the set has no file when `{}` comes", name(*step));
                return refuse(problem, "use more files, or let \"create\" come first");
            }
            Step::Delete => files -= 1,
            Step::Write | Step::Fsync | Step::Read | Step::Stat => {}
        }
    }
    Ok(())
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Create => "create",
        Step::Write => "write",
        Step::Fsync => "fsync",
        Step::Read => "read",
        Step::Stat => "stat",
        Step::Delete => "delete",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{file_set_of, io, load_of};
    use fstrial_model::units::{Bytes, Percent};

    fn problem(io: Io, device: bool) -> String {
        let error = validate(&load_of(io, 2), device).unwrap_err();
        assert!(error.is_refusal() && error.hint().is_some());
        error.to_string()
    }

    #[test]
    fn good_loads_pass() {
        validate(&load_of(io(), 1), false).unwrap();
        validate(&load_of(io(), 1024), true).unwrap();
        validate(&load_of(Io { backend: Backend::IoUring, depth: 32, direct: true, ..io() }, 1), true)
            .unwrap();
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        validate(&load_of(append, 4), false).unwrap();
    }

    #[test]
    fn impossible_combinations_are_named() {
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        for (io, device, words) in [
            (Io { depth: 2, ..io() }, false, "one request in flight"),
            (Io { depth: 0, ..io() }, false, "0 requests in flight"),
            (Io { direct: true, block_size: Bytes(1000), ..io() }, false, "multiple of 512"),
            (Io { block_size: Bytes(1000), ..io() }, true, "multiple of 512"),
            (Io { block_size: Bytes(0), ..io() }, false, "cannot have 0B"),
            (Io { files: 0, ..io() }, false, "0 files"),
            (Io { total_size: Bytes(4095), ..io() }, false, "no block of 4KiB"),
            (Io { total_size: Bytes(8191), sharing: Sharing::PerThread, ..io() }, false, "over 2 files"),
            (Io { reads: Percent(f64::NAN), ..io() }, false, "cannot read"),
            (
                Io { backend: Backend::IoUring, depth: 4096, block_size: Bytes::mib(1), ..io() },
                false,
                "memory",
            ),
            (Io { sharing: Sharing::Shared, ..append.clone() }, false, "share"),
            (Io { reads: Percent(1.0), ..append.clone() }, false, "only writes"),
            (append, true, "appended"),
        ] {
            let got = problem(io, device);
            assert!(got.contains(words), "{got} / {words}");
        }
    }

    #[test]
    fn threads_and_times_have_limits() {
        assert!(validate(&load_of(io(), 0), false).is_err());
        assert!(validate(&load_of(io(), 1025), false).is_err());
        for (warmup, duration) in [(0, 0), (0, 999_999), (u64::MAX, 1 << 30), (0, u64::MAX)] {
            let mut load = load_of(io(), 1);
            (load.warmup, load.duration) = (Nanos(warmup), Nanos(duration));
            assert!(validate(&load, false).is_err());
        }
    }

    #[test]
    fn turns_that_run_empty_are_refused() {
        use Step::{Create, Delete, Fsync, Read, Stat, Write};
        for (files, steps, ok) in [
            (10, vec![Read], true),
            (10, vec![Stat], true),
            (10, vec![Write, Fsync], true),
            (10, vec![Create, Write, Fsync, Delete], true),
            (0, vec![Create, Delete], true),
            (0, vec![Create], true),
            (1, vec![Delete, Create], true),
            (0, vec![Delete, Create], false),
            (1, vec![Delete, Read, Create], false),
            (10, vec![Delete], false),
            (10, vec![Create, Delete, Delete], false),
            (0, vec![Read], false),
            (10, vec![], false),
        ] {
            let load = file_set_of(files, 100, &steps, 1);
            assert_eq!(validate(&load, false).is_ok(), ok, "{files} {steps:?}");
            assert!(validate(&load, true).is_err());
        }
    }
}
