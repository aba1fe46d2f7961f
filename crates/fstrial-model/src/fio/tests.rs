//! Whole job files: what is said about them, what fio is given, and what is refused.

use super::{value::tests::host, *};
use crate::{
    units::{Bytes, Nanos, Percent},
    workload::{
        self, Access, Advice, Backend, DataKind, Distribution, Entry, Layout, OpenSync, Pattern, Sharing,
        SyncCall, Until, program::Values,
    },
};
use proptest::prelude::*;
use std::path::PathBuf;

fn fixtures() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fio");
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "fio"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn shown(error: &TrialError) -> String {
    let mut out = String::new();
    let theme = miette::GraphicalTheme {
        characters: miette::ThemeCharacters::ascii(),
        styles: miette::ThemeStyles::none(),
    };
    miette::GraphicalReportHandler::new_themed(theme).with_width(110).render_report(&mut out, error).unwrap();
    out
}

fn understood(text: &str) -> Understanding {
    understand("job.fio", text, &host()).unwrap_or_else(|error| panic!("{}", shown(&error)))
}

fn native(text: &str) -> Entry {
    match understood(text).how {
        How::Native(mut phases) => phases.remove(0).remove(0),
        How::Foreign { reasons, .. } => panic!("{text}: {reasons:?}"),
    }
}

fn reasons(text: &str) -> Vec<&'static str> {
    match understood(text).how {
        How::Native(_) => Vec::new(),
        How::Foreign { reasons, .. } => reasons.iter().map(|reason| reason.key).collect(),
    }
}

#[test]
fn every_job_file_is_explained() {
    let files = fixtures();
    assert!(files.len() > 20, "{} fixtures", files.len());
    for (name, text) in files {
        let understood = understand(&format!("{name}.fio"), &text, &host());
        assert_eq!(understood.is_err(), name.starts_with("hostile"), "{name}");
        let text = match understood {
            Ok(understanding) => {
                let mut text = understanding.explain();
                if let How::Foreign { jobs, .. } = &understanding.how {
                    text.push_str("\nwhat fio is given:\n");
                    text.push_str(&jobs.render("/mnt/arm", 7).unwrap());
                }
                text
            }
            Err(error) => shown(&error),
        };
        insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(name, text) });
    }
}

#[test]
fn the_smallest_job_is_fios_defaults() {
    let job = native("[a]\nsize=1m\ndirect=1\n");
    let expected = Entry {
        name: Some("a".into()),
        workers: Some(1),
        until: Some(Until::Done),
        duration: Some(Nanos::secs(86_400)),
        requests: Some(256),
        access: Some(Access::Sequential),
        reads: Some(Percent(100.0)),
        block_size: Some(Bytes::kib(4)),
        file_size: Some(Bytes::mib(1)),
        sharing: Some(Sharing::PerThread),
        files: Some(1),
        direct: Some(true),
        backend: Some(Backend::Sync),
        depth: Some(1),
        layout: Some(Layout::Written),
        data: Some(DataKind::Random),
        ..Entry::default()
    };
    assert_eq!(job, expected);
}

/// A job of random writes with these lines.
fn writes_with(lines: &str) -> Entry {
    native(&format!("[a]\nsize=1m\ndirect=1\nrw=randwrite\n{lines}"))
}

#[test]
fn places_reach_the_native_job() {
    let with = writes_with;
    let zones = |list: &str| {
        let job = with(&format!("rw=randrw\nrandom_distribution={list}\n"));
        let text = |law: Option<Distribution>| law.map_or_else(String::new, |law| law.to_string());
        [text(job.distribution), text(job.write_distribution)]
    };
    assert_eq!(zones("zoned:60/10:40/90"), ["zones:10%:60,90%:40", ""]);
    assert_eq!(zones("zoned:60/10:30/20:8/30:2/40"), ["zones:10%:60,20%:30,30%:8,40%:2", ""]);
    assert_eq!(zones("zoned:60/10:0/20:40"), ["zones:10%:60,20%:0,70%:40", ""]);
    assert_eq!(zones("zoned:50/5:30/15:20/"), ["zones:5%:50,15%:30,80%:20", ""]);
    assert_eq!(zones("zoned:60/10:40/20"), ["zones:10%:60,20%:40", ""]);
    assert_eq!(zones("zoned:60/10:40/90,100/50"), ["zones:10%:60,90%:40", "zones:50%:100"]);
    assert_eq!(zones("zoned:100/50,100/50,100/7"), ["zones:50%:100", ""]);
    assert_eq!(zones("zoned_abs:60/64k:40/960k"), ["zones:64KiB:60,960KiB:40", ""]);
    assert_eq!(zones("zoned_abs:60/64k:40/1ki\nkb_base=1000\nsize=1024ki"), ["zones:64000B:60,1KiB:40", ""]);
    let writes = with("random_distribution=zoned:60/10:40/90,100/50\n");
    assert_eq!(
        (writes.distribution.unwrap().to_string(), writes.write_distribution),
        ("zones:50%:100".into(), None)
    );
    let rows = with("rw=randread:8\nnorandommap\n");
    assert_eq!((rows.in_a_row, rows.in_place, rows.each_block_once), (Some(8), None, None));
    let rows = with("rw=randrw:8\nrw_sequencer=identical\n");
    assert_eq!(
        (rows.in_a_row, rows.in_place, rows.each_block_once, rows.apart),
        (Some(8), Some(true), Some(true), Some(true))
    );
    assert_eq!(with("rw=rw\n").apart, Some(true));
    assert_eq!(with("rw=rw\nrwmixread=100\n").apart, None);
    let share = |share: f64| Some(Percent(share));
    let jumps = |lines: &str| {
        let job = with(lines);
        (job.jumps, job.write_jumps, job.apart)
    };
    assert_eq!(jumps("percentage_random=30\n"), (share(30.0), None, None));
    assert_eq!(jumps("percentage_random=100,30\n"), (share(30.0), None, None));
    assert_eq!(jumps("percentage_random=100,30\nrw=randread\n"), (None, None, None));
    assert_eq!(jumps("percentage_random=100,0\nrw=randrw\n"), (share(100.0), share(0.0), Some(true)));
    assert_eq!(jumps("percentage_random=30\nrw=randrw\n"), (share(30.0), None, Some(true)));
    assert_eq!(jumps("percentage_random=30\nrw=write\n"), (None, None, None));
    // Seen with fio 3.33: 0 4 8 … 60 0 4 … of 64 blocks, and 0 3 6 … 63, where it ends.
    let strided = with("rw=read:12k\nsize=256k\n");
    assert_eq!(
        (strided.access, strided.stride, strided.one_lane, strided.requests),
        (Some(Access::Strided), Some(Bytes::kib(16)), Some(true), Some(64))
    );
    assert_eq!(with("rw=read:8k\nsize=256k\n").requests, Some(22));
    assert_eq!(with("rw=read:8k\nsize=256k\nnumber_ios=5\nnumjobs=2\n").requests, Some(10));
    assert_eq!((with("rw=write:0\n").stride, with("rw=write:0\n").access), (None, Some(Access::Sequential)));
}

#[test]
fn values_reach_the_native_job() {
    let with = writes_with;
    assert_eq!((with("").each_block_once, with("norandommap\n").each_block_once), (Some(true), None));
    assert_eq!(with("random_distribution=zipf\n").distribution, Some(Distribution::Zipf { theta: 1.1 }));
    assert_eq!(with("random_distribution=zipf:1.3\n").distribution, Some(Distribution::Zipf { theta: 1.3 }));
    let sized = with("bssplit=4k/60:64k/40,8k/100\nrw=randrw\nnorandommap\ntime_based\nruntime=1\n");
    let sizes = |text: &str| Some(text.parse::<workload::Sizes>().unwrap());
    assert_eq!((sized.read_size, sized.write_size), (sizes("4KiB:60,64KiB:40"), sizes("8KiB")));
    assert_eq!(sized.block_size, Some(Bytes::kib(4)));
    let lap = with("rw=write\nbsrange=2k-16k\n");
    assert_eq!(
        (lap.write_size, lap.block_size, lap.requests),
        (sizes("2KiB-16KiB"), Some(Bytes::kib(2)), None)
    );
    assert_eq!(with("bsrange=4k-4k\n").write_size, None);
    assert_eq!(
        with("rw=write\nbssplit=1k/50:3k/50\nkb_base=1000\nsize=600000\ndirect=0\n").block_size,
        Some(Bytes(1000))
    );
    assert_eq!(with("rw=randrw\nrwmixwrite=30\n").reads, Some(Percent(70.0)));
    assert_eq!(with("rw=randrw\nrwmixwrite=30\nrwmixread=60\n").reads, Some(Percent(60.0)));
    assert_eq!(with("bs=8k,16k\n").block_size, Some(Bytes::kib(16)));
    assert_eq!(with("bs=8k,\n").block_size, Some(Bytes::kib(4)));
    assert_eq!(with("numjobs=4\n").file_size, Some(Bytes::mib(4)));
    let shared = with("numjobs=4\nfilename=f\n");
    assert_eq!((shared.sharing, shared.file_size), (Some(Sharing::Shared), Some(Bytes::mib(1))));
    let region = with("numjobs=4\nfilename=f\noffset_increment=1m\n");
    assert_eq!((region.sharing, region.file_size), (Some(Sharing::Region), Some(Bytes::mib(4))));
    assert_eq!(with("io_size=4m\n").requests, Some(1024));
    assert_eq!(with("number_ios=3\n").requests, Some(3));
    let drawn = with("nrfiles=4\nfile_service_type=random\n");
    assert_eq!((drawn.files, drawn.round_robin), (Some(4), None));
    let turns = with("filename=a:b\n");
    assert_eq!((turns.files, turns.round_robin, turns.file_size), (Some(2), Some(true), Some(Bytes::mib(1))));
    let shared = with("filename_format=$jobname.$filenum\nnumjobs=4\n");
    assert_eq!((shared.sharing, shared.file_size), (Some(Sharing::Shared), Some(Bytes::mib(1))));
    assert_eq!(
        with("filesize=2m\nsize=4m\nnrfiles=2\nfile_service_type=random\n").file_size,
        Some(Bytes::mib(4))
    );
    assert_eq!(with("fallocate=truncate\n").layout, Some(Layout::Sparse));
    assert_eq!(with("overwrite=1\n").layout, Some(Layout::Written));
    assert_eq!(with("").layout, Some(Layout::Fallocated));
    assert_eq!(with("sync=1\n").open_sync, Some(OpenSync::Sync));
    assert_eq!(with("fsync=8\n").fsync_every, Some(8));
    assert_eq!(with("fdatasync=32\n").fsync, Some(SyncCall::Fdatasync));
    assert_eq!(with("end_fsync=1\n").fsync_at_end, Some(true));
    assert_eq!(with("fallocate=none\n").layout, Some(Layout::Empty));
    assert_eq!(with("rw=write\nfallocate=none\n").access, Some(Access::Extend));
    assert_eq!(with("rate=4m\n").rate.unwrap().to_string(), "1024/s");
    assert_eq!(with("ioengine=io_uring\nsqthread_poll=1\n").backend, Some(Backend::IoUring));
    assert_eq!(with("ioengine=io_uring\nsqthread_poll=1\n").sqpoll, Some(true));
    assert_eq!(with("ioengine=pvsync\niodepth=8\n").depth, Some(1));
    assert_eq!(with("zero_buffers\n").data, Some(DataKind::Zero));
    let mixed = with("dedupe_percentage=30\n");
    assert_eq!((mixed.data, mixed.duplicates), (Some(DataKind::Mixed), Some(Percent(30.0))));
    let timed = with("runtime=2\ntime_based\nramp_time=500ms\n");
    assert_eq!(
        (timed.duration, timed.warmup, timed.requests),
        (Some(Nanos::secs(2)), Some(Nanos::millis(500)), None)
    );
    assert!(!with("buffered=1\nbuffered=0\n").reads.eq(&Some(Percent(100.0))));
    assert_eq!(native("[a]\nsize=1m\nrw=write\ndirect=1\nbuffered=1\n").direct, Some(false));
    assert_eq!(native("[a]\nsize=1m\nrw=write\nbuffered=1\ndirect=1\n").direct, Some(true));
}

/// Seen with strace: fadvise(RANDOM) or (SEQUENTIAL) when a file is opened, madvise for mappings, and fadvise(DONTNEED) at
/// every pass over `size`.
#[test]
fn the_page_cache_is_told_what_fio_tells_it() {
    let cache = |lines: &str| {
        let job = native(&format!("[a]\nsize=1m\n{lines}"));
        (job.advice, job.cold_laps)
    };
    assert_eq!(cache("rw=randread\n"), (Some(Advice::Random), None));
    assert_eq!(cache("rw=read\n"), (Some(Advice::Sequential), None));
    assert_eq!(cache("rw=read\nfadvise_hint=random\n"), (Some(Advice::Random), None));
    assert_eq!(cache("rw=read\nfadvise_hint=0\nloops=2\n"), (None, Some(true)));
    assert_eq!(cache("rw=randwrite\nioengine=mmap\n"), (Some(Advice::Random), None));
    assert_eq!(cache("rw=write\ntime_based\nruntime=1\n"), (None, Some(true)));
    assert_eq!(cache("rw=write\ntime_based\nruntime=1\ninvalidate=0\n"), (None, None));
    assert_eq!(cache("rw=randread\ndirect=1\nloops=2\n"), (None, None));
    // Without a map nothing ends before the time: 16855 reads of 64 blocks, and no fadvise between them.
    let drawn = "rw=randread\ntime_based\nruntime=1\n";
    assert_eq!(cache(&format!("{drawn}norandommap\n")), (Some(Advice::Random), None));
    assert_eq!(cache(&format!("{drawn}random_distribution=zipf\n")), (Some(Advice::Random), None));
    assert_eq!(cache("rw=randread\nnorandommap\nloops=2\n"), (Some(Advice::Random), Some(true)));
    assert_eq!(cache("rw=read:12k\ntime_based\nruntime=1\n"), (Some(Advice::Sequential), None));
    let looped = native("[a]\nsize=1m\nrw=randread\nbs=64k\nloops=3\nnumjobs=2\n");
    assert_eq!((looped.requests, looped.cold_laps), (Some(96), Some(true)));
}

/// Jobs of random writes that run through fio because of a key.
fn assert_foreign(jobs: &[(&str, &str)]) {
    for (lines, key) in jobs {
        assert!(reasons(&format!("[a]\nsize=1m\nrw=randwrite\n{lines}")).contains(key), "{lines:?}");
    }
}

#[test]
fn what_fio_does_otherwise_runs_through_fio() {
    assert_foreign(&[
        ("rw=read\nfadvise_hint=0\ninvalidate=0\n", "invalidate"),
        ("ioengine=mmap\nruntime=1\ntime_based\n", "invalidate"),
        ("ioengine=mmap\nnumjobs=2\n", "thread"),
        ("direct=1\nbs=8k,16k\nrw=randrw\n", "bs"),
        ("bs=100\n", "size"),
        ("bs=100\ndirect=1\n", "bs"),
        ("bs=65m\nsize=130m\n", "bs"),
        ("size=1001k\n", "size"),
        ("size=50%\n", "size"),
        ("nrfiles=4\nfile_service_type=roundrobin:2\n", "file_service_type"),
        ("nrfiles=4\nfile_service_type=sequential\n", "file_service_type"),
        ("nrfiles=4\nfilename_format=$jobname.$jobnum\n", "filename_format"),
        ("rw=write\nfilename_format=data.$filenum\nnumjobs=2\n", "filename"),
        ("rw=write\nfilename=f\nnumjobs=2\n", "filename"),
        ("filename=f\nnumjobs=2\noffset_increment=4k\n", "offset_increment"),
        ("offset=4k\n", "offset"),
        ("fallocate=none\nfilename=f\nnumjobs=2\n", "fallocate"),
        ("fallocate=keep\n", "fallocate"),
        ("direct=1\nioengine=libaio\niodepth=4\nfsync=1\n", "fsync"),
        ("fsync=1\nfdatasync=1\n", "fsync"),
        ("sync_file_range=wait_before,write:8\n", "sync_file_range"),
        ("sync_file_range=write:8\n", "sync_file_range"),
        // Seen with fio 3.33: 96 syncs in 54 writes and 46 reads with fsync=1.
        ("rw=randrw\ndirect=1\nfsync=1\n", "fsync"),
        ("end_fsync=1\ntime_based\nruntime=1\ndirect=1\n", "end_fsync"),
        ("end_fsync=1\nfdatasync=4\n", "end_fsync"),
        ("sync=1\nioengine=mmap\nfadvise_hint=0\n", "sync"),
        ("ioengine=io_uring\nhipri\n", "hipri"),
        ("runtime=2\n", "runtime"),
        ("rate=5000\n", "rate"),
        ("direct=1\nrw=randrw\nrate_iops=100\n", "rate_iops"),
        ("scramble_buffers=0\n", "scramble_buffers"),
        ("zero_buffers\nscramble_buffers=1\n", "zero_buffers"),
        ("runtime=1\nramp_time=1\n", "ramp_time"),
        ("runtime=10us\n", "runtime"),
        (
            "random_distribution=zoned:60/10:40/90\nnrfiles=2\nfile_service_type=random\n",
            "random_distribution",
        ),
        ("ioengine=vsync\niodepth=4\n", "ioengine"),
        ("ioengine=posixaio\n", "ioengine"),
        ("hipri\n", "hipri"),
        ("loops=2\nend_fsync=1\n", "loops"),
        ("loops=2\nio_size=4m\n", "loops"),
        ("loops=2\nnumber_ios=10\n", "loops"),
        ("io_submit_mode=offload\niodepth=4\nrate_iops=100\n", "io_submit_mode"),
        ("filesize=4k-64k\nnrfiles=2\n", "filesize"),
    ]);
}

#[test]
fn places_that_fio_goes_to_otherwise_run_through_fio() {
    assert_foreign(&[
        ("rw=rw\ndirect=1\nnrfiles=2\n", "rw"),
        ("rw=rw\ntime_based\nruntime=1\n", "invalidate"),
        ("rw=rw\ndirect=1\nloops=2\n", "rw"),
        ("rw=rw:8k\ndirect=1\n", "rw"),
        ("rw=randread:0\ndirect=1\n", "rw"),
        ("rw=randread:8\ntime_based\nruntime=1\n", "invalidate"),
        ("rw=randread:8\nio_size=2m\ndirect=1\n", "rw"),
        ("rw=randread:8\npercentage_random=50\ndirect=1\n", "percentage_random"),
        ("rw=randread:8\nfilename=f\nnumjobs=2\noffset_increment=1m\ndirect=1\n", "rw"),
        ("rw=randread:8\nnorandommap\nbsrange=4k-8k\ndirect=1\n", "rw"),
        ("rw=read:1k\ndirect=1\n", "rw"),
        ("rw=read:-8k\ndirect=1\n", "rw"),
        ("rw=read:8k\nbssplit=4k/50:8k/50\ndirect=1\n", "rw"),
        ("rw=read:8k\nloops=2\ndirect=1\n", "rw"),
        ("rw=read:8k\nnrfiles=2\ndirect=1\n", "rw"),
        ("rw=read:4m\ndirect=1\n", "rw"),
        // 256 blocks: the stride of 3 ends with the last one, and fio then drops the file.
        ("rw=read:8k\ntime_based\nruntime=1\n", "invalidate"),
        ("rw=write:8k\nfallocate=none\n", "fallocate"),
        ("rw=randread:8\nnorandommap\nnrfiles=2\n", "rw"),
        ("rw=randtrim\ndirect=1\n", "rw"),
        ("random_distribution=zipf:1.2:0.5\n", "random_distribution"),
        ("random_distribution=zipf:7\n", "random_distribution"),
        ("random_distribution=pareto:0.3\n", "random_distribution"),
        ("random_distribution=normal:10\n", "random_distribution"),
        ("random_distribution=zipf:1.2\nfilename=f\nnumjobs=2\n", "random_distribution"),
        ("random_distribution=zipf:1.2\nnrfiles=2\nfile_service_type=random\n", "random_distribution"),
        ("random_distribution=zoned:60/10:30/90\n", "random_distribution"),
        ("random_distribution=zoned:60/10:40/91\n", "random_distribution"),
        ("random_distribution=zoned:60/10:40/x\n", "random_distribution"),
        ("random_distribution=zoned:60/100:40\n", "random_distribution"),
        ("random_distribution=zoned\n", "random_distribution"),
        ("random_distribution=zoned:100/10,\nrw=randrw\n", "random_distribution"),
        ("random_distribution=zoned_abs:60/64k:40/961k\n", "random_distribution"),
        ("random_distribution=zoned_abs:60/64k:40\n", "random_distribution"),
        ("percentage_random=50\ntime_based\nruntime=1\n", "invalidate"),
        ("percentage_random=50\nbsrange=4k-8k\nnorandommap\n", "percentage_random"),
    ]);
}

#[test]
fn what_fio_verifies_otherwise_runs_through_fio() {
    const BASE: &str = "[a]\nsize=1m\nrw=randwrite\n";
    for (lines, key) in [
        // Seen with strace: buffered writes are read back from memory, as nothing syncs them.
        ("verify=md5\n", "verify"),
        ("verify=md5\nend_fsync=1\ninvalidate=0\n", "verify"),
        ("verify=md5\nend_fsync=1\nioengine=mmap\n", "verify"),
        ("verify=md5\ndirect=1\nnumjobs=2\n", "verify"),
        ("verify=md5\ndirect=1\nnorandommap\n", "verify"),
        ("verify=md5\ndirect=1\ntime_based\nruntime=1\n", "verify"),
        ("verify=md5\ndirect=1\nloops=2\n", "verify"),
        ("verify=md5\ndirect=1\nnumber_ios=8\n", "verify"),
        ("verify=md5\ndirect=1\nrate_iops=100\n", "verify"),
        ("verify=md5\ndirect=1\nrw=write\nbssplit=4k/50:8k/50\n", "verify"),
        ("verify=md5\ndirect=1\nverify_interval=512\n", "verify_interval"),
        ("verify=md5\ndirect=1\nzero_buffers\n", "zero_buffers"),
        ("verify=md5\ndirect=1\nverify_async=2\n", "verify_async"),
        ("verify=md5\ndirect=1\nverify_only\n", "verify_only"),
        ("verify=md5\ndirect=1\nexperimental_verify=1\n", "experimental_verify"),
        ("verify=md5\nrw=read\n", "verify"),
        ("verify=pattern\ndo_verify=0\n", "verify"),
        ("verify=md5\ndo_verify=0\nrw=randrw\n", "verify"),
        ("verify=md5\ndo_verify=0\nverify_backlog=8\n", "verify_backlog"),
        ("verify=md5\ndo_verify=0\nverify_offset=8\n", "verify_offset"),
        ("verify=md5\ndo_verify=0\nverify_pattern=7\n", "verify_pattern"),
    ] {
        assert!(reasons(&format!("{BASE}{lines}")).contains(&key), "{lines:?}");
    }
}

#[test]
fn what_the_load_engine_does_too_runs_natively() {
    const BASE: &str = "[a]\nsize=1m\nrw=randwrite\n";
    for native in [
        "runtime=1\ntime_based\ninvalidate=0\n",
        "runtime=1\ntime_based\n",
        "rw=randread\n",
        "ioengine=mmap\n",
        "loops=3\n",
        "verify=md5\ndo_verify=0\n",
        "verify=sha256\ndo_verify=0\nnorandommap\ntime_based\nruntime=1\nverify_interval=4k\n",
        "verify=crc32c\ndirect=1\nverify_fatal=1\ndo_verify=1\n",
        "verify_fatal=1\nverify_interval=512\n",
        "nrfiles=4\n",
        "filename=a:b\n",
        "filename=a:b\nrandom_distribution=zipf\n",
        "filename_format=data.$jobnum\nnumjobs=2\n",
        "rw=write\nfallocate=none\n",
        "rw=rw\n",
        "rw=rw\nbssplit=4k/50:8k/50\n",
        "rw=rw\ndirect=1\ntime_based\nruntime=1\n",
        "rw=randrw:8\nrandom_distribution=zoned:60/10:40/90,100/50\n",
        "rw=randrw\npercentage_random=100,0\n",
        "rw=read\nrw_sequencer=identical\npercentage_random=5\n",
        "rw=randread:8\nrw_sequencer=identical\ntime_based\nruntime=1\n",
        "rw=write:8k\nnumjobs=2\n",
        "filename=a:b\nrandom_distribution=zoned_abs:60/64k:40/128k\n",
    ] {
        assert_eq!(reasons(&format!("{BASE}{native}")), [""; 0], "{native:?}");
    }
    assert_eq!(reasons(&format!("{BASE}loops=1\nzonemode=none\nthinktime=0\nverify=0\n")), [""; 0]);
}

/// Seen with strace: all is written, the file is reopened and dropped from the page cache, then all is read in the order
/// in which it was written.
#[test]
fn what_a_job_reads_back_is_a_phase_after_its_writes() {
    let text = "[a]\nsize=1m\nrw=randwrite\nverify=md5\ndirect=1\nioengine=libaio\niodepth=8\n[b]\nstonewall\n\
                size=1m\nrw=write\nverify=crc32c\nend_fsync=1\n";
    let phases = understood(text).entry("job").phases.unwrap();
    let of = |phase: &Entry| {
        (phase.name.clone().unwrap(), phase.set.clone().unwrap(), phase.reads, phase.verify, phase.settle)
    };
    let expected = |name: &str, set: &str, reads, settle| {
        (name.to_owned(), set.to_owned(), Some(Percent(reads)), Some(true), settle)
    };
    assert_eq!(
        phases.iter().map(of).collect::<Vec<_>>(),
        [
            expected("a", "job-1", 0.0, None),
            expected("a-verify", "job-1", 100.0, Some(true)),
            expected("b", "job-2", 0.0, Some(true)),
            expected("b-verify", "job-2", 100.0, Some(true)),
        ]
    );
    let [_, a, write, read] = &phases[..] else { panic!() };
    assert_eq!((a.access, a.each_block_once, a.depth), (Some(Access::Random), Some(true), Some(8)));
    assert_eq!((write.fsync_at_end, write.advice), (Some(true), None));
    assert_eq!((read.fsync_at_end, read.advice), (None, Some(Advice::Sequential)));
    assert_eq!((a.requests, read.requests), (Some(256), Some(256)));
    // Two at once would each read back when it has written.
    let both = format!("{text}[c]\nsize=1m\nrw=write\ntime_based\nruntime=1\n");
    assert!(reasons(&both).contains(&"verify"));
}

#[test]
fn jobs_that_native_groups_cannot_be_run_through_fio() {
    let two = |lines: &str| format!("[global]\nrw=randwrite\ndirect=1\nsize=1m\n[a]\n{lines}");
    assert_eq!(reasons(&two("[b]\n")), ["size"]);
    assert_eq!(reasons(&two("[b]\nstonewall\n")), [""; 0]);
    assert_eq!(reasons(&two("[a]\nstonewall\n")), ["name"]);
    assert_eq!(reasons(&two("filename=f\n[b]\nstonewall\nfilename=f\n")), ["filename"]);
    assert_eq!(reasons(&two("time_based\nruntime=1\n[b]\ntime_based\nruntime=2\n")), ["runtime"]);
    assert_eq!(
        reasons(&two("filename_format=x.$jobnum\n[b]\nstonewall\nfilename_format=x.$jobnum\n")),
        ["filename_format"]
    );
    assert_eq!(
        reasons(&two("time_based\nruntime=1\nnumjobs=1000\n[b]\ntime_based\nruntime=1\nnumjobs=100\n")),
        ["numjobs"]
    );
}

/// Every key of the table, alone in a job that is native otherwise, is seen: with a value that means something it is a
/// reason, a note, an error, or changes the native job.
#[test]
fn no_key_is_silently_ignored() {
    const BASE: &str = "[a]\nsize=1m\nrw=randwrite\ndirect=1\n";
    // What these say is what holds already, with this base.
    const SAME: [&str; 12] = [
        "ba",
        "buffered",
        "direct",
        "fadvise_hint",
        "fallocate",
        "filename",
        "invalidate",
        "kb_base",
        "rate_process",
        "refill_buffers",
        "rwmixread",
        "rwmixwrite",
    ];
    const ALREADY: [&str; 10] = [
        "random_distribution",
        "rw",
        "scramble_buffers",
        "size",
        "stonewall",
        "sync",
        "thread",
        "name",
        "bs",
        "ioengine",
    ];
    let before = native(BASE);
    let notes = understood(BASE).notes.len();
    for key in KEYS.iter().filter(|key| !SAME.contains(&key.name) && !ALREADY.contains(&key.name)) {
        let value = match key.name {
            "sync_file_range" => "write:3",
            "file_service_type" => "random\nnrfiles=2",
            "time_based" => "1\nruntime=1",
            "hipri" | "sqthread_poll" => "1\nioengine=io_uring",
            "rw_sequencer" => "identical",
            "zonemode" => "strided",
            "io_submit_mode" => "offload",
            "random_generator" => "lfsr",
            "unified_rw_reporting" => "mixed",
            "offset_increment" => "4k\nnumjobs=2",
            "io_size" => "512k",
            "filesize" => "512k",
            "invalidate" | "create_fsync" | "allow_file_create" | "stats" => "0",
            _ if key.kind == ValueKind::Bool || key.kind == ValueKind::Flag => "1",
            _ => "7",
        };
        let text = format!("{BASE}{}={value}\n", key.name);
        let seen = match understand("job.fio", &text, &host()) {
            Err(_) => true,
            Ok(Understanding { how: How::Foreign { reasons, .. }, notes, .. }) => {
                reasons.iter().chain(&notes).any(|remark| remark.is_written)
            }
            Ok(Understanding { how: How::Native(phases), notes: found, .. }) => {
                found.len() > notes || phases[0][0] != before
            }
        };
        assert!(seen, "{text}");
    }
}

#[test]
fn a_job_cannot_take_the_memory_or_the_processes_of_the_machine() {
    let refused =
        |lines: &str| understand("job.fio", &format!("[a]\nsize=1g\n{lines}"), &host()).unwrap_err().message;
    assert!(refused("bs=64m\niodepth=1024\nioengine=libaio\n").contains("half of this host's memory"));
    assert!(refused("bssplit=4k/50:1g/50\niodepth=2\n").contains("half of this host's memory"));
    assert!(refused("bsrange=4k-x\n").contains("not a number"));
    assert!(refused("[b]\nsize=1g\nbs=600m\n[c]\nsize=1g\nbs=600m\n").contains("half of this host's memory"));
    assert!(refused("numjobs=100000\n").contains("out of range"));
    assert!(refused("lockmem=1t\n").contains("is refused"));
}

/// Names of files are put aside; what would open others is not.
#[test]
fn what_opens_other_files_stays_refused() {
    let job = "[a]\nfilename=/dev/sda\nsize=1m\nrw=write\n";
    assert!(understand("job.fio", job, &host()).is_ok());
    for line in [
        "opendir=/etc",
        "read_iolog=/etc/shadow",
        "write_iolog=x",
        "write_bw_log=/etc/cron.d/x",
        "write_lat_log=x",
        "write_iops_log=x",
        "write_hist_log=x",
        "merge_blktrace_file=x",
        "verify_dump=1",
        "verify_state_load=1",
        "exec_prerun=x",
        "exec_postrun=x",
        "include /etc/shadow",
        "ioengine=external:/tmp/evil.so",
        "filename_format=/dev/$jobname",
        "mem=mmaphuge:/dev/hugepages/x",
        "buffer_pattern='/etc/shadow'",
        "verify_pattern='/etc/shadow'",
        "allow_mounted_write=1",
        "profile=x",
        "ioscheduler=none",
        "filename=-",
        "filename=/etc/",
        "filename=a:",
        "filename=/dev/sda:..",
        "directory=/a:/b",
    ] {
        let found = inspect("job.fio", &format!("{job}{line}\n"), &host(), &mut |_| {
            unreachable!("not next to the job file")
        });
        assert!(found.outcome.is_err(), "{line}");
        let lines: Vec<usize> = found.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [5], "{line}");
    }
    // Without names of their own, clones are in one directory instead of several.
    let spread = understood("[a]\ndirectory=/a:/b\nsize=1m\nrw=write\ndirect=1\n");
    assert!(spread.notes.iter().any(|note| note.key == "directory"), "{spread:?}");
}

#[test]
fn clones_and_jobs_that_name_a_file_need_its_space_once() {
    let text = "[global]\nverify=md5\nrw=write\nfilename=/dev/sda\nnumjobs=16\nsize=1g\n[a]\n[b]\nsize=2g\n";
    let How::Foreign { jobs, .. } = understood(text).how else { panic!() };
    assert_eq!(jobs.space, Some(Bytes::gib(2)));
    let unnamed = text.replace("filename=/dev/sda\n", "");
    let How::Foreign { jobs, .. } = understood(&unnamed).how else { panic!() };
    assert_eq!(jobs.space, Some(Bytes::gib(48)));
}

#[test]
fn every_line_of_a_job_file_has_its_fate() {
    let text = "[global]\nbs=8k\n[a]\nsize=1m\nrw=write\nrw=randwrite\nverify=md5\ndescription=x\n[b]\nnosuch=1\nsize=1m\n\
                [global]\nbs=4k\n";
    let found = inspect("job.fio", text, &host(), &mut |_| unreachable!("nothing is included"));
    let fates = |section: &SectionFate| -> Vec<Fate> {
        section.keys.iter().filter(|key| key.line.is_some()).map(|key| key.fate).collect()
    };
    let all: Vec<Vec<Fate>> = found.sections.iter().map(fates).collect();
    use Fate::{Fio, Native, Refused, Unused};
    let a = vec![Fio, Unused, Native, Fio, Native];
    assert_eq!(all, [vec![Native], a, vec![Refused, Fio], vec![Unused]], "{found:?}");
    let jobs: Vec<Option<Fate>> = found.sections.iter().map(|section| section.fate).collect();
    assert_eq!(jobs, [None, Some(Fio), Some(Refused), None]);
}

#[test]
fn a_directory_cannot_break_out_of_its_line() {
    let understanding = understood("[a]\nsize=1m\nverify=md5\nrw=write\n");
    let How::Foreign { jobs, .. } = understanding.how else { panic!("{understanding:?}") };
    for directory in ["", "/a\nexec_prerun=x", "/a;b", "/a#b", "/$ncpus", "/a\\:b"] {
        assert!(jobs.render(directory, 1).is_err(), "{directory:?}");
    }
    assert!(jobs.render("/a:b", u64::MAX).unwrap().contains("directory=/a\\:b\n"));
    assert_eq!((jobs.space, jobs.time), (Some(Bytes::mib(1)), None));
}

/// The entry of a job file, as it comes back from a saved trial.
fn entry(text: &str) -> Entry {
    let entry = understood(text).entry("job");
    let saved = toml::to_string_pretty(&entry).unwrap();
    assert_eq!(toml::from_str::<Entry>(&saved).unwrap(), entry, "{saved}");
    entry
}

#[test]
fn what_is_of_each_clone_in_fio_is_of_all_threads_in_an_entry() {
    let text = "[a]\nrw=randwrite\ndirect=1\nbs=8k\nsize=1m\nnumjobs=4\nrate_iops=100\nfdatasync=2\n";
    let workload = entry(text).resolve(2).unwrap();
    let phase = &workload.phases[0];
    let Pattern::Io(io) = &phase.groups[0].pattern else { panic!("{phase:?}") };
    assert_eq!((workload.threads, phase.until), (vec![4], Until::Done));
    // 128 requests of each clone, over files of its own.
    assert_eq!((io.requests, io.total_size, io.each_block_once), (Some(512), Bytes::mib(4), true));
    assert_eq!((io.fsync_every, io.fsync), (2, SyncCall::Fdatasync));
    assert_eq!(phase.groups[0].rate.unwrap().to_string(), "400/s");
    assert_eq!(phase.groups[0].data, Some(workload::Data::Random));
}

#[test]
fn groups_and_phases_are_those_of_the_file() {
    let text = "[global]\ndirect=1\nsize=1m\ntime_based\nruntime=2\nramp_time=1\n[a/1]\nrw=randread\nnumjobs=3\n\
                [b]\nrw=randwrite\n[c]\nstonewall\nrw=write\nname=b\n";
    let text = text.replace("a/1", "a@1");
    let workload = entry(&text).resolve(1).unwrap();
    let names: Vec<String> = workload.results().map(|result| result.name).collect();
    assert_eq!(names, ["phase-1/a-1", "phase-1/b", "b 2"]);
    assert_eq!(workload.threads, [4]);
    let groups: Vec<_> = workload.phases.iter().flat_map(|phase| &phase.groups).collect();
    assert_eq!(groups.iter().map(|group| group.workers).collect::<Vec<_>>(), [Some(3), Some(1), Some(1)]);
    let sets: BTreeSet<_> = groups.iter().map(|group| &group.set).collect();
    assert_eq!(sets.len(), 3);
    assert!(
        workload
            .phases
            .iter()
            .all(|phase| phase.duration == Nanos::secs(2) && phase.warmup == Nanos::secs(1))
    );
    assert_eq!(workload.phases.iter().map(|phase| phase.settle).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn fios_numbers_are_found_by_the_place_of_a_job() {
    let text =
        "[a{b}]\nrw=randrw\nverify=md5\nsize=1m\nruntime=3\n[c]\nrw=read\nsize=2m\nruntime=4\nnumjobs=2\n";
    let entry = entry(text);
    let workload = entry.resolve(1).unwrap();
    let program = workload.program.as_ref().unwrap();
    let names: Vec<String> = workload.results().map(|result| result.name).collect();
    let expected = [
        "a{b} read iops",
        "a{b} read bytes",
        "a{b} read p99",
        "a{b} write iops",
        "a{b} write bytes",
        "a{b} write p99",
        "c read iops",
        "c read bytes",
        "c read p99",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&workload.threads[..], program.duration, entry.file_size),
        (&[3][..], Nanos::secs(7), Some(Bytes::mib(5)))
    );
    assert_eq!(program.program.deadline, Nanos::secs(14 + 600));
    // Braces are the job file's own, but for the seed's.
    let values =
        Values { dir: "/d".into(), threads: 3, duration: Nanos::secs(1), seed: 5, inputs: [].into() };
    let given = program.program.input(&program.program.inputs["job.fio"], &values).unwrap();
    assert!(
        given.contains("name=a{b}\n") && given.contains("randseed=5\n") && given.contains("directory=.\n")
    );
    assert_eq!(given.matches("group_reporting=1\n").count(), 2);
}

#[test]
fn jobs_that_mind_their_group_are_reported_together() {
    let text = "[a]\nrw=randread\nsize=1m\nexitall\n[b]\nrw=write\nsize=1m\n";
    let workload = entry(text).resolve(1).unwrap();
    let names: Vec<String> = workload.results().map(|result| result.name).collect();
    assert_eq!(names, ["read iops", "read bytes", "write iops", "write bytes"]);
    assert!(!workload.program.unwrap().program.inputs["job.fio"].contains("group"));
    // Nor if they are too many for a number each.
    let many: String = (0..30).map(|n| format!("[j{n}]\nrw=read\nsize=1m\nverify=md5\n")).collect();
    assert_eq!(entry(&many).metrics.unwrap().len(), 2);
}

proptest! {
    #[test]
    fn any_names_become_plain_ones(
        jobs in proptest::collection::vec(("[a-c/.:\\\\-]{1,6}", proptest::option::of("/?[a-c/.]{1,3}")), 1..6)
    ) {
        let section = |(name, folder): &(String, Option<String>)| {
            let folder = folder.as_ref().map_or_else(String::new, |folder| format!("directory={folder}\n"));
            format!("[j]\nfilename={name}\n{folder}size=1m\nverify=md5\n")
        };
        let text: String = jobs.iter().map(section).collect();
        if let Ok(Understanding { how: How::Foreign { jobs, .. }, .. }) = understand("any.fio", &text, &host()) {
            let given = jobs.render("/arm", 7).unwrap();
            let mut names = given.lines().filter_map(|line| line.strip_prefix("filename="));
            assert!(names.all(|names| !names.contains(['/', '\\'])), "{given}");
        }
    }

    #[test]
    fn any_text_is_understood_or_an_error_that_can_be_shown(
        text in "(\\[[a-z]{1,8}\\]?\n|rw=(read|write|rw|randread|randrw)(:[0-9k-]{1,4})?\n|random_distribution=zoned(_abs)?:[0-9/:,k]{1,20}\n|(bs|size|rw|direct|runtime|filename|directory|numjobs|ioengine|verify|percentage_random|include|nosuch)=?[0-9a-z$({/.,:\\\\-]{0,9}\n|.{0,9}\n){0,12}"
    ) {
        match understand("any.fio", &text, &host()) {
            Ok(understanding) => {
                understanding.explain();
                // What is made of it may still be refused, but not what is native.
                let settled = understanding.entry("any").resolve(1);
                assert!(settled.is_ok() || matches!(understanding.how, How::Foreign { .. }), "{settled:?}");
                if let How::Foreign { jobs, .. } = understanding.how {
                    // fio is given plain names only, and the same again is understood.
                    let given = jobs.render("/arm", 7).unwrap();
                    let mut names = given.lines().filter_map(|line| line.strip_prefix("filename="));
                    assert!(names.all(|names| !names.contains('/')), "{given}");
                    understood(&given.replace("verify_state_save=0\n", ""));
                }
            }
            Err(error) => { shown(&error); }
        }
    }
}
