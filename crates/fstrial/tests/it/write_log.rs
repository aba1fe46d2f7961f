//! Replay of write logs, as xfstests' replay-log does it.

use std::{collections::HashSet, fs::File, os::unix::fs::FileExt, path::Path};

/// The entries of a log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Flushes, and writes that they cover.
    pub(crate) flushes: u64,
    pub(crate) covered: u64,
    /// Sectors that the cut may have lost.
    pub(crate) at_stake: usize,
    pub(crate) promises: u64,
}

/// Replays a log up to its cut; that is the image, except for sectors that the cut may have lost.
pub(crate) fn replayed_to_cut(log: &Path, image: &Path) -> Replayed {
    let (log, mut contents) =
        (File::open(log).unwrap(), vec![0; std::fs::metadata(image).unwrap().len() as usize]);
    let mut header = [0; 512];
    log.read_exact_at(&mut header, 0).unwrap();
    let word = |header: &[u8], at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    assert_eq!((word(&header, 0), word(&header, 8)), (0x006a_7366_7773_6872, 1));
    let (mut at, mut has_begun, mut is_after) = (512, false, false);
    let (mut replayed, mut at_stake) = (Replayed::default(), HashSet::new());
    for _ in 0..word(&header, 16) {
        log.read_exact_at(&mut header, at).unwrap();
        let [sector, sectors, flags, text] = [0, 8, 16, 24].map(|field| word(&header, field) as usize);
        at += 512;
        if flags == 8 {
            let mark = std::str::from_utf8(&header[32..32 + text]).unwrap();
            has_begun |= mark == "begin";
            is_after |= mark == "cut";
            replayed.promises += u64::from(mark.starts_with("sync ") || mark.starts_with("commit "));
            continue;
        }
        let mut data = vec![0; sectors * 512];
        if flags & 4 == 0 {
            log.read_exact_at(&mut data, at).unwrap();
            at += data.len() as u64;
        }
        match is_after {
            true => at_stake.extend(sector..sector + sectors),
            false => contents[sector * 512..][..data.len()].copy_from_slice(&data),
        }
        let is_of_load = has_begun && !is_after;
        replayed.flushes += u64::from(is_of_load && flags == 1);
        replayed.covered += u64::from(is_of_load && flags != 1);
    }
    assert!(is_after && at == log.metadata().unwrap().len());
    let image = File::open(image).unwrap();
    let mut expected = vec![0; 1 << 20];
    for (number, part) in contents.chunks(1 << 20).enumerate() {
        image.read_exact_at(&mut expected[..part.len()], (number as u64) << 20).unwrap();
        if part == &expected[..part.len()] {
            continue;
        }
        for (index, (ours, theirs)) in part.chunks(512).zip(expected.chunks(512)).enumerate() {
            let sector = (number << 11) + index;
            assert!(
                ours == theirs || at_stake.contains(&sector),
                "sector {sector} differs, and was not at stake"
            );
        }
    }
    replayed.at_stake = at_stake.len();
    replayed
}
