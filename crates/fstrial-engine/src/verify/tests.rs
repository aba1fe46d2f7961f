//! What was changed behind the engine's back is found, and nothing else.

use crate::{
    EngineError, Site, Target,
    ledger::Header,
    testing::{io, load_of},
    tests::{directory, engines},
};
use fstrial_model::{
    job::Load,
    measurement::LoadResult,
    units::{Bytes, Nanos, Percent},
    workload::{Access, Data, Io, Sharing, Until},
};
use std::path::Path;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

fn verified(io: Io) -> Io {
    Io { verify: true, total_size: Bytes((BLOCK * BLOCKS) as u64), ..io }
}

/// A phase over all blocks of the files.
fn phase(io: &Io, reads: f64) -> Load {
    let io = Io { access: Access::Sequential, reads: Percent(reads), ..io.clone() };
    let end = Load { until: Until::Done, warmup: Nanos(0), duration: Nanos::secs(60), ..load_of(io, 1) };
    Load { set: "data".parse().unwrap(), ..end }
}

fn done(site: &mut Site<'_>, load: &Load) -> LoadResult {
    let prepared = site.prepare(std::slice::from_ref(load)).unwrap();
    prepared.run(&mut |_| {}).unwrap()
}

/// Writes everything twice, lets `damage` have the bytes after each pass, and reads them back.
fn read_back(io: &Io, directory: &Path, damage: impl Fn(&[u8], &mut [u8])) -> LoadResult {
    let mut site = Site::new(Target::Directory(directory));
    assert_eq!(done(&mut site, &phase(io, 0.0)).errors, 0);
    let file = directory.join("data-0000-0000.dat");
    let first = std::fs::read(&file).unwrap();
    assert_eq!(done(&mut site, &phase(io, 0.0)).errors, 0);
    let mut bytes = std::fs::read(&file).unwrap();
    damage(&first, &mut bytes);
    let handle = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&handle, &bytes, 0).unwrap();
    handle.sync_all().unwrap();
    done(&mut site, &phase(io, 100.0))
}

fn block(number: usize) -> std::ops::Range<usize> {
    number * BLOCK..(number + 1) * BLOCK
}

type Damage = fn(&[u8], &mut [u8]);

/// Ways to spoil a file, the blocks that they spoil, and what is said about the first of them.
fn damages() -> [(Damage, u64, &'static str); 7] {
    [
        (|_, _| {}, 0, ""),
        (
            |_, now| now[5 * BLOCK + 3000] ^= 1,
            1,
            "at 20480: expected write 2 of the block at 20480 of file 0, found write 2 of the block at 20480 of file 0 \
             with bytes of the checksum",
        ),
        (
            |_, now| now[block(7)].fill(0),
            1,
            "at 28672: expected write 2 of the block at 28672 of file 0, found no block of this run, but [00, 00, 00",
        ),
        (|_, now| now.copy_within(block(3), 9 * BLOCK), 1, "found write 2 of the block at 12288 of file 0"),
        (|first, now| now[block(63)].copy_from_slice(&first[block(63)]), 1, "found its earlier write 1"),
        (
            |first, now| now[block(2)][BLOCK / 2..].copy_from_slice(&first[block(2)][BLOCK / 2..]),
            1,
            "with bytes of the checksum",
        ),
        (|first, now| now[..2 * BLOCK].copy_from_slice(&first[..2 * BLOCK]), 2, "found its earlier write 1"),
    ]
}

#[test]
fn what_was_spoilt_is_found_and_nothing_else() {
    for io in engines(&verified(io())) {
        for (damage, spoilt, said) in damages() {
            let directory = directory();
            let result = read_back(&io, directory.path(), damage);
            assert_eq!(result.errors, spoilt, "{io:?} {said}: {:?}", result.first_error);
            assert_eq!(result.operations, BLOCKS as u64 - spoilt);
            let error = result.first_error.unwrap_or_default();
            assert!(error.contains(said) && (spoilt == 0 || error.starts_with("verify ")), "{error}");
        }
    }
}

#[test]
fn what_was_spoilt_is_found_past_the_page_cache_too() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for (number, io) in engines(&verified(Io { direct: true, ..io() })).into_iter().enumerate() {
        let place = directory.path().join(number.to_string());
        std::fs::create_dir(&place).unwrap();
        let mut site = Site::new(Target::Directory(&place));
        if let Err(EngineError::DirectUnsupported { .. }) = site.prepare(&[phase(&io, 0.0)]) {
            return crate::tests::skipped("direct I/O");
        }
        for (n, (damage, spoilt, said)) in damages().into_iter().enumerate() {
            let place = place.join(n.to_string());
            std::fs::create_dir(&place).unwrap();
            let result = read_back(&io, &place, damage);
            assert_eq!(result.errors, spoilt, "{io:?} {said}: {:?}", result.first_error);
        }
    }
}

#[test]
fn a_sound_filesystem_passes_whatever_the_load_does() {
    let base = verified(io());
    let mut all = engines(&base);
    let sizes = Some("4KiB:1,16KiB:1".parse().unwrap());
    all.extend([
        Io { update: Percent(50.0), ..base.clone() },
        Io { files: 3, round_robin: true, ..base.clone() },
        Io { write_size: sizes.clone(), ..base.clone() },
        Io { read_size: sizes, access: Access::Sequential, ..base.clone() },
        Io { sharing: Sharing::PerThread, files: 2, ..base.clone() },
        Io { sharing: Sharing::Region, each_block_once: true, ..base.clone() },
        Io { sharing: Sharing::Cursor, access: Access::Sequential, ..base.clone() },
        Io { access: Access::Append, sharing: Sharing::PerThread, reads: Percent(0.0), ..base.clone() },
        Io { block_size: Bytes(64), ..base.clone() },
        Io { block_size: Bytes(6144), ..base },
    ]);
    for io in all {
        for data in [Data::Random, Data::Zero, Data::RepeatedWord] {
            let directory = directory();
            let load = Load { data, ..load_of(io.clone(), 3) };
            let mut site = Site::new(Target::Directory(directory.path()));
            let result = done(&mut site, &load);
            assert_eq!(result.errors, 0, "{io:?} {data:?}: {:?}", result.first_error);
            assert!(result.operations > 0);
        }
    }
}

#[test]
fn every_block_written_has_its_own_header() {
    for data in [Data::Random, Data::Zero, Data::RepeatedWord] {
        let directory = directory();
        let io = verified(Io { write_size: Some("16KiB".parse().unwrap()), ..io() });
        let load = Load { data, ..phase(&io, 0.0) };
        let mut site = Site::new(Target::Directory(directory.path()));
        assert_eq!(done(&mut site, &load).operations, BLOCKS as u64 / 4);
        let bytes = std::fs::read(directory.path().join("data-0000-0000.dat")).unwrap();
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let run = u64::from_le_bytes(block[8..16].try_into().unwrap());
            assert_eq!(
                Header::new(0, run, (number * BLOCK) as u64, 1).problem(block),
                None,
                "{data:?} {number}"
            );
        }
    }
}

#[test]
fn who_verifies_a_set_does_so_from_the_first_load_on() {
    let plain = Io { verify: false, ..verified(io()) };
    let verified = verified(io());
    for (first, second, refused) in [
        (phase(&verified, 0.0), phase(&plain, 0.0), true),
        (phase(&plain, 0.0), phase(&verified, 100.0), true),
        (phase(&verified, 0.0), phase(&plain, 100.0), false),
        (phase(&verified, 0.0), phase(&Io { block_size: Bytes::kib(8), ..verified.clone() }, 100.0), true),
        (phase(&plain, 0.0), phase(&plain, 0.0), false),
    ] {
        let directory = directory();
        let mut site = Site::new(Target::Directory(directory.path()));
        site.prepare(&[first]).unwrap();
        let error = site.prepare(&[second]).err();
        assert_eq!(error.is_some(), refused, "{error:?}");
        assert!(error.is_none_or(|error| error.is_refusal() && error.hint().is_some()));
    }
    let duplicates = Data::Mixed { compressible: Percent(0.0), duplicate: Percent(10.0) };
    let directory = directory();
    let load = Load { data: duplicates, ..phase(&verified, 0.0) };
    assert!(Site::new(Target::Directory(directory.path())).prepare(&[load]).unwrap_err().is_refusal());
}
