//! Which requests make sense: a pure check, before anything is touched.

use crate::{EngineError, error::refuse, requests::Geometry};
use fstrial_model::workload::{Access, Conflict, Io, Sharing};

/// Requests in flight for each thread at most.
const DEPTH_MAX: u16 = 4096;
/// Size of one request at most.
const BLOCK_MAX: u64 = 1 << 30;
/// Memory for the requests in flight of one thread at most (also the kernel's limit for one registered buffer).
const FLIGHT_MAX: u64 = 1 << 30;
/// Files of one thread at most.
const FILES_MAX: u32 = 10_000_000;

/// Refuses what cannot be done by so many threads, in a directory or on a bare block device.
pub(super) fn all(io: &Io, threads: u16, block_device: bool) -> Result<(), EngineError> {
    sizes(io)?;
    combination(io, block_device)?;
    shares(io, threads)?;
    order(io, threads)
}

fn sizes(io: &Io) -> Result<(), EngineError> {
    if !(0.0..=100.0).contains(&io.reads.0) {
        return refuse(format!("{}% of requests cannot read", io.reads.0), "use reads = \"0%\" to \"100%\"");
    }
    if !(0.0..=100.0).contains(&io.update.0) {
        return refuse(format!("{}% of reads cannot update", io.update.0), "use update = \"0%\" to \"100%\"");
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
    if let Some(Conflict { problem, hint, .. }) = io.conflict() {
        return refuse(problem, hint);
    }
    if (io.direct || block_device) && !io.block_size.0.is_multiple_of(512) {
        let problem =
            format!("direct I/O needs whole sectors, and {} is not a multiple of 512", io.block_size);
        return refuse(problem, "use a block_size that is a multiple of 512");
    }
    if io.update.0 > 0.0 && io.reads.0 == 0.0 {
        return refuse(
            "updates are a share of reads, and nothing is read",
            "raise reads, or leave update out",
        );
    }
    if !io.access.starts_empty() {
        return Ok(());
    }
    if block_device {
        return refuse(
            "a bare device cannot be appended to, nor extended",
            "use access = \"sequential\" on it",
        );
    }
    let in_turn = matches!(io.sharing, Sharing::Region | Sharing::Cursor);
    if io.sharing == Sharing::Shared || (in_turn && io.access == Access::Append) {
        return refuse(
            "threads cannot append to files they share, nor extend them each by itself",
            "use sharing = \"per-thread\", or with extend \"region\" or \"cursor\"",
        );
    }
    if io.reads.0 > 0.0 {
        return refuse("who appends or extends only writes, but reads are wanted", "use reads = \"0%\"");
    }
    Ok(())
}

/// Strides, distributions and orders, once it is known that each thread has a block.
fn order(io: &Io, threads: u16) -> Result<(), EngineError> {
    let blocks = Geometry::on_files(io, threads, 0).blocks;
    match (io.access, io.stride) {
        (Access::Strided, None) => return refuse("strided access has no stride", "write stride = \"1MiB\""),
        (Access::Strided, Some(stride)) => {
            let steps = stride.0 / io.block_size.0;
            if steps == 0 || !stride.0.is_multiple_of(io.block_size.0) {
                let problem = format!("a stride of {stride} is no multiple of {}", io.block_size);
                return refuse(problem, "use a multiple of block_size");
            }
            if steps >= blocks {
                let problem =
                    format!("one stride of {stride} leaves what each of {threads} threads works on");
                return refuse(problem, "use a smaller stride, a larger file_size or fewer threads");
            }
        }
        (_, None) => {}
        (_, Some(_)) => return refuse("a stride is for strided access", "use access = \"strided\""),
    }
    if let Some(problem) = io.distribution.problem() {
        return refuse(problem, "write a distribution such as \"zipf:0.99\"");
    }
    let uniform = io.distribution.is_uniform();
    if (!uniform || io.each_block_once) && io.access != Access::Random {
        return refuse(
            "a distribution, and each block once, are for random access",
            "use access = \"random\", or leave distribution and each_block_once out",
        );
    }
    if !uniform && io.each_block_once {
        return refuse(
            format!("each block once in a lap cannot be distributed as {}", io.distribution),
            "leave out each_block_once or distribution",
        );
    }
    if !uniform && blocks < 2 {
        return refuse(
            format!("each thread works on one block, and {} needs two", io.distribution),
            "use a larger file_size, a smaller block_size or fewer threads",
        );
    }
    Ok(())
}

fn shares(io: &Io, threads: u16) -> Result<(), EngineError> {
    let geometry = Geometry::on_files(io, threads, 0);
    if geometry.blocks_per_file > 0 && geometry.blocks > 0 {
        return Ok(());
    }
    if geometry.blocks_per_file > 0 {
        let problem =
            format!("{} leaves no block of {} for each of {threads} threads", io.total_size, io.block_size);
        return refuse(problem, "use a larger file_size, fewer threads, or a smaller block_size");
    }
    let files = match io.sharing {
        Sharing::Shared | Sharing::Region | Sharing::Cursor => u64::from(io.files),
        Sharing::PerThread => u64::from(io.files) * u64::from(threads),
    };
    let problem =
        format!("{} over {files} files leaves no block of {} for each", io.total_size, io.block_size);
    refuse(problem, "use a larger file_size, fewer files or threads, or a smaller block_size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{io, load_of},
        validate,
    };
    use fstrial_model::{
        units::{Bytes, Percent},
        workload::{Arrivals, Backend, Distribution, Layout, OpenSync, Rate},
    };

    fn problem(io: Io, device: bool) -> String {
        let error = validate(&load_of(io, 2), device).unwrap_err();
        assert!(error.is_refusal() && error.hint().is_some());
        error.to_string()
    }

    #[test]
    fn good_loads_pass() {
        validate(&load_of(io(), 1), false).unwrap();
        validate(&load_of(io(), 1024), true).unwrap();
        let fallocated = Io { layout: Layout::Fallocated, reads: Percent(0.0), ..io() };
        validate(&load_of(fallocated, 1), true).unwrap();
        validate(&load_of(Io { backend: Backend::IoUring, depth: 32, direct: true, ..io() }, 1), true)
            .unwrap();
        let append = Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        validate(&load_of(append.clone(), 4), false).unwrap();
        for io in [
            Io { access: Access::Extend, ..append.clone() },
            Io { access: Access::Extend, sharing: Sharing::Region, ..append },
            Io { access: Access::Strided, stride: Some(Bytes::mib(1)), ..io() },
            Io { distribution: Distribution::Zipf { theta: 0.99 }, sharing: Sharing::Region, ..io() },
            Io { each_block_once: true, update: Percent(50.0), ..io() },
        ] {
            let mut load = load_of(io, 4);
            load.rate = Some("100/s poisson".parse().unwrap());
            validate(&load, false).unwrap();
        }
    }

    #[test]
    fn orders_that_leave_nothing_to_choose_are_named() {
        let zipf = Io { distribution: Distribution::Zipf { theta: 0.99 }, ..io() };
        let strided = Io { access: Access::Strided, stride: Some(Bytes::mib(1)), ..io() };
        let extend = Io { access: Access::Extend, sharing: Sharing::PerThread, reads: Percent(0.0), ..io() };
        let region = Io { sharing: Sharing::Region, ..io() };
        for (io, device, words) in [
            // Two threads with a block each.
            (Io { total_size: Bytes(8192), sharing: Sharing::PerThread, ..zipf.clone() }, false, "needs two"),
            (Io { total_size: Bytes(8192), sharing: Sharing::Region, ..zipf.clone() }, false, "needs two"),
            (Io { distribution: Distribution::Pareto { h: 2.0 }, ..io() }, false, "between 0.001"),
            (Io { access: Access::Sequential, ..zipf.clone() }, false, "random access"),
            (Io { each_block_once: true, ..zipf }, false, "cannot be distributed"),
            (Io { each_block_once: true, ..extend.clone() }, false, "random access"),
            (Io { stride: None, ..strided.clone() }, false, "no stride"),
            (Io { stride: Some(Bytes(6144)), ..strided.clone() }, false, "multiple of 4KiB"),
            (Io { stride: Some(Bytes::mib(16)), ..strided.clone() }, false, "leaves what"),
            (Io { stride: Some(Bytes::mib(8)), sharing: Sharing::Region, ..strided }, false, "leaves what"),
            (Io { stride: Some(Bytes::mib(1)), ..io() }, false, "for strided"),
            (Io { sharing: Sharing::Shared, ..extend.clone() }, false, "share"),
            (Io { reads: Percent(1.0), ..extend.clone() }, false, "only write"),
            (extend.clone(), true, "nor extended"),
            (Io { access: Access::Append, sharing: Sharing::Region, ..extend.clone() }, false, "share"),
            (Io { update: Percent(1.0), ..extend }, false, "nothing is read"),
            (Io { update: Percent(f64::NAN), ..io() }, false, "cannot update"),
            (Io { total_size: Bytes(4096), ..region }, false, "each of 2 threads"),
        ] {
            let got = problem(io, device);
            assert!(got.contains(words), "{got} / {words}");
        }
        let mut load = load_of(io(), 1);
        load.rate = Some(Rate { per_second: f64::INFINITY, arrivals: Arrivals::Constant });
        assert!(validate(&load, false).unwrap_err().to_string().contains("offered rate"));
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
            (Io { reads: Percent(1.0), ..append.clone() }, false, "only write"),
            (append, true, "appended"),
            (Io { layout: Layout::Sparse, ..io() }, false, "holes"),
            (Io { backend: Backend::Mmap, depth: 2, ..io() }, false, "before the next"),
            (Io { backend: Backend::Mmap, open_sync: OpenSync::Sync, ..io() }, false, "O_SYNC"),
            (Io { backend: Backend::Aio, depth: 1025, ..io() }, false, "1024"),
            (Io { iopoll: true, direct: true, ..io() }, false, "polls"),
        ] {
            let got = problem(io, device);
            assert!(got.contains(words), "{got} / {words}");
        }
    }
}
