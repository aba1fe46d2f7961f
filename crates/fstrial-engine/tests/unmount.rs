//! With every backend, the filesystem can be unmounted when a run is over. Alone in its process: load threads copy the
//! table of descriptors.

use fstrial_engine::{EngineError, Target, prepare};
use fstrial_model::{
    job::Load,
    units::{Bytes, Nanos, Percent},
    workload::{Backend, Data, FileSet, FileStep, Flush, Io, Log, Pattern, Postmark, SetName, Until},
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

fn load(pattern: Pattern) -> Load {
    // PostMark ends on its own; within the time there is not always an end of an operation.
    let until = if matches!(pattern, Pattern::Postmark(_)) { Until::Done } else { Until::Time };
    let duration = if until == Until::Done { Nanos::secs(60) } else { Nanos::millis(3) };
    Load {
        pattern,
        set: SetName::load(),
        threads: 2,
        warmup: Nanos(0),
        duration,
        until,
        seed: 1,
        data: Data::Random,
        rate: None,
        handicap: Percent(0.0),
    }
}

fn patterns() -> Vec<Pattern> {
    let io =
        Io { reads: Percent(50.0), block_size: Bytes::kib(4), total_size: Bytes::mib(1), ..Io::default() };
    let mut patterns: Vec<Pattern> = [
        (Backend::Sync, 1),
        (Backend::Vsync, 4),
        (Backend::Aio, 8),
        (Backend::IoUring, 8),
        (Backend::Mmap, 1),
    ]
    .into_iter()
    .map(|(backend, depth)| Pattern::Io(Io { backend, depth, ..io.clone() }))
    .collect();
    let steps = vec![FileStep::Create, FileStep::Write, FileStep::Delete];
    patterns.push(Pattern::Files(FileSet { files: 10, file_size: Bytes::kib(4), steps }));
    // One file after the other, and one of a set whose files are kept open. With free places: a file that the other
    // thread has open is not deleted, and then nothing has become free.
    let flow = r#"
        sets = [{ name = "f", files = 40, size = "4KiB", present = "50%" }, { name = "k", files = 3, size = "8KiB" }]
        steps = ["delete f", "create f", "write 1KiB", "fsync", "close", "read-at 2KiB in k"]
    "#;
    patterns.push(Pattern::Flow(toml::from_str(flow).unwrap()));
    patterns.push(Pattern::Postmark(Postmark { number: 50, transactions: 100, ..Postmark::default() }));
    // Growing: its threads open files for one another.
    let log = Log { file_size: Bytes::kib(64), growing: true, ..Log::default() };
    patterns.push(Pattern::Log(log));
    let flush = Flush { file_size: Bytes::mib(1), batch: 4, direct: false, ..Flush::default() };
    patterns.push(Pattern::Flush(flush));
    patterns
}

#[test]
fn a_filesystem_can_be_unmounted_right_after_a_run() {
    let folder = tempfile::tempdir().unwrap();
    for pattern in patterns() {
        for _ in 0..5 {
            if let Err(errno) = mount("none", folder.path(), "tmpfs", MountFlags::empty(), Some(c"size=8m")) {
                let name = "a_filesystem_can_be_unmounted_right_after_a_run";
                let words = format!("SKIPPED {name}: cannot mount tmpfs: {errno}\n");
                return std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).unwrap();
            }
            let ran = prepare(&load(pattern.clone()), Target::Directory(folder.path()))
                .and_then(|prepared| prepared.run(&mut |_| {}));
            let unmounted = unmount(folder.path(), UnmountFlags::empty());
            if unmounted.is_err() {
                unmount(folder.path(), UnmountFlags::DETACH).unwrap();
            }
            assert_eq!(unmounted, Ok(()), "{pattern:?}");
            match ran {
                Ok(result) => assert_eq!(result.first_error, None, "{pattern:?}"),
                Err(EngineError::UringUnavailable { .. }) => {}
                Err(error) => panic!("{pattern:?}: {error}"),
            }
        }
    }
}
