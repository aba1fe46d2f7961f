//! The layout score of files: of the pairs of neighbouring blocks of a file, the share that are neighbours on the
//! device too (Smith and Seltzer, "File System Aging", SIGMETRICS 1997), over all files together.

use crate::fiemap::{Extent, for_each_extent};
use fstrial_model::state::Layout;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Counts over the files looked at.
#[derive(Debug)]
pub(super) struct Score {
    /// Bytes of a block.
    block: u64,
    pairs: u64,
    together: u64,
    extents: u64,
    files: u64,
    /// True if the filesystem reports all places.
    is_known: bool,
}

impl Score {
    pub(super) fn new(block: u64) -> Self {
        Self { block: block.max(1), pairs: 0, together: 0, extents: 0, files: 0, is_known: true }
    }

    /// Looks at one file, which is synced.
    ///
    /// # Errors
    /// Any error other than missing support of the filesystem.
    pub(super) fn look_at(&mut self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if !self.is_known {
            return Ok(());
        }
        let mut last: Option<Extent> = None;
        let reported = for_each_extent(file, &mut |extent| {
            self.add(last, extent);
            last = Some(extent);
        });
        match reported {
            Ok(is_plain) => self.is_known &= is_plain,
            Err(Errno::OPNOTSUPP | Errno::NOTTY) => self.is_known = false,
            Err(error) => return Err(error),
        }
        self.files += u64::from(last.is_some());
        Ok(())
    }

    /// Counts the pairs inside an extent, and the one between it and the extent before it in the file.
    fn add(&mut self, last: Option<Extent>, extent: Extent) {
        let inside = extent.length.div_ceil(self.block).saturating_sub(1);
        self.pairs += inside;
        self.together += inside;
        let neighbour = last.filter(|last| last.logical + last.length == extent.logical);
        let continues = neighbour.is_some_and(|last| last.physical + last.length == extent.physical);
        self.pairs += u64::from(neighbour.is_some());
        self.together += u64::from(continues);
        // Two records of one stretch (for example written and unwritten) are one extent on the device.
        self.extents += u64::from(!continues);
    }

    /// The figures; none if the filesystem does not report places, or there were none.
    #[expect(clippy::cast_precision_loss, reason = "counts of blocks are far below 2^53")]
    pub(super) fn figures(&self) -> Option<Layout> {
        (self.is_known && self.files > 0 && self.pairs > 0).then(|| Layout {
            score: self.together as f64 / self.pairs as f64,
            extents_per_file: self.extents as f64 / self.files as f64,
            files: self.files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Generator, Stream};

    /// The definition, word for word: a list of (block of the file, block of the device), pair by pair.
    fn slow(files: &[Vec<(u64, u64)>]) -> (f64, f64) {
        let (mut pairs, mut together, mut extents) = (0.0, 0.0, 0.0);
        for file in files {
            extents += 1.0;
            for two in file.windows(2) {
                let adjacent = two[1].1 == two[0].1 + 1;
                if two[1].0 == two[0].0 + 1 {
                    pairs += 1.0;
                    together += f64::from(u8::from(adjacent));
                    extents += f64::from(u8::from(!adjacent));
                } else {
                    extents += 1.0;
                }
            }
        }
        (together / pairs, extents / files.len() as f64)
    }

    /// The same file as extents, cut at random places that are not borders too.
    fn extents(file: &[(u64, u64)], generator: &mut Generator) -> Vec<Extent> {
        let mut result: Vec<Extent> = Vec::new();
        for (logical, physical) in file {
            let extent = Extent { logical: logical * 4096, physical: physical * 4096, length: 4096 };
            let continues = result.last().is_some_and(|last| {
                last.logical + last.length == extent.logical && last.physical + last.length == extent.physical
            });
            if continues && generator.below(5) > 0 {
                result.last_mut().unwrap().length += 4096;
            } else {
                result.push(extent);
            }
        }
        result
    }

    #[test]
    fn layout_score_matches_definition() {
        let mut generator = Generator::new(3, Stream::Layout);
        for _ in 0..200 {
            let files: Vec<Vec<(u64, u64)>> = (0..1 + generator.below(5))
                .map(|_| {
                    let (mut logical, mut physical) = (0, generator.below(1000));
                    (0..2 + generator.below(40))
                        .map(|_| {
                            logical += 1 + u64::from(generator.below(10) == 0);
                            physical =
                                if generator.below(3) == 0 { generator.below(100_000) } else { physical + 1 };
                            (logical, physical)
                        })
                        .collect()
                })
                .collect();
            let mut score = Score::new(4096);
            for file in &files {
                let mut last = None;
                for extent in extents(file, &mut generator) {
                    score.add(last, extent);
                    last = Some(extent);
                }
                score.files += 1;
            }
            let (wanted, per_file) = slow(&files);
            let Some(got) = score.figures() else {
                assert!(wanted.is_nan());
                continue;
            };
            // A hole ends an extent, unless the device happens to continue after it, which the definition cannot
            // distinguish.
            assert!((got.score - wanted).abs() < 1e-12, "{got:?} {wanted}");
            assert!((got.extents_per_file - per_file).abs() < 1e-12, "{got:?} {per_file}");
        }
    }

    #[test]
    fn one_piece_scores_one_and_alternating_blocks_score_zero() {
        let mut whole = Score::new(4096);
        whole.add(None, Extent { logical: 0, physical: 8192, length: 1 << 20 });
        whole.files = 1;
        assert_eq!(whole.figures().unwrap().score, 1.0);
        let mut apart = Score::new(4096);
        let mut last = None;
        for n in 0..10 {
            let extent = Extent { logical: n * 4096, physical: n * 8192, length: 4096 };
            apart.add(last, extent);
            last = Some(extent);
        }
        apart.files = 1;
        let figures = apart.figures().unwrap();
        assert_eq!((figures.score, figures.extents_per_file), (0.0, 10.0));
    }

    #[test]
    fn unknown_layout_has_no_score() {
        let score = Score { is_known: false, pairs: 3, files: 1, ..Score::new(4096) };
        assert_eq!(score.figures(), None);
        assert_eq!(Score::new(4096).figures(), None);
    }
}
