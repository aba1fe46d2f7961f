//! Ageing: files are created, grow, are overwritten and deleted, until nothing is where it was first put.
//!
//! The steps follow from the seed and from the sizes alone, never from the filesystem's answers, so that every arm gets
//! the same calls and ends with the same files. After Smith and Seltzer (SIGMETRICS 1997), who replay years of a
//! server's creates and deletes, and Geriatrix (Kadekodi et al., ATC 2018), which draws sizes and ages from
//! distributions and continues until the files were turned over often enough:
//!
//! - sizes are lognormal;
//! - most deleted files are young ones ([`DELETED`] by age group), so that the old are between the holes;
//! - several files grow together, a piece of each in turn, and half of the time each piece is written out immediately:
//!   without that, delayed allocation would give every file its place in one go;
//! - of ten steps six create, two append, two overwrite; a step that needs room deletes first.

use super::{Tell, layout::Score, writer::Writer};
use crate::{
    EngineError,
    error::layout,
    generator::{Generator, Stream},
};
use fstrial_model::{
    state::{Aged, SIZE_SIGMA},
    units::Bytes,
};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use std::os::fd::AsFd;

/// Deletions out of ten of young, middle-aged and old files.
const DELETED: [u64; 3] = [6, 3, 1];
/// Maximum share of young files, and of young or middle-aged ones, in quarters.
const YOUNG: usize = 1;
const MIDDLE: usize = 2;
/// The largest file is this fraction of the target.
const MAX_PART: u64 = 128;
/// Limit of files, for any device: larger devices get larger files. Bounds memory at 16 bytes each.
const MAX_FILES: u64 = 1 << 20;
/// Files of a directory, about.
const PER_DIRECTORY: u64 = 64;
/// Size of a write, in blocks of [`BLOCK`]: 1 to this many.
const PIECE_BLOCKS: u64 = 8;
/// Unit of sizes.
const BLOCK: u64 = 4096;
/// Number of files sampled to check the layout score.
const SAMPLE: usize = 2048;

/// An existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    number: u32,
    blocks: u32,
}

/// Files by age, and operations on them.
#[derive(Debug)]
pub(super) struct Ageing<'a> {
    aged: Aged,
    writer: &'a mut Writer,
    generator: Generator,
    /// Young, middle-aged, old.
    groups: [Vec<Live>; 3],
    next: u32,
    directories: u64,
    /// Median and largest size, in blocks.
    median: f64,
    largest: u64,
    /// Blocks of all files; never more than `target`.
    live: u64,
    target: u64,
}

impl<'a> Ageing<'a> {
    /// Ages until about `target` bytes are in files.
    ///
    /// # Errors
    /// The directories cannot be made.
    pub(super) fn new(
        aged: Aged,
        target: Bytes,
        seed: u64,
        writer: &'a mut Writer,
    ) -> Result<Self, EngineError> {
        let target = target.0 / BLOCK;
        let mean_of_median = (SIZE_SIGMA * SIZE_SIGMA / 2.0).exp();
        let least_median = target as f64 / MAX_FILES as f64 / mean_of_median;
        let median = (aged.file_size.0 as f64 / BLOCK as f64).max(least_median);
        let files = (target as f64 / (median * mean_of_median)) as u64;
        let directories = (files / PER_DIRECTORY).clamp(1, 4096);
        for directory in 0..directories {
            let name = format!("{directory:04}");
            mkdirat(writer.folder(), &name, Mode::RWXU).map_err(|e| layout("make", writer.path(&name), e))?;
        }
        Ok(Self {
            aged,
            writer,
            generator: Generator::new(seed, Stream::Layout),
            groups: [const { Vec::new() }; 3],
            next: 0,
            directories,
            median,
            largest: (target / MAX_PART).max(1),
            live: 0,
            target,
        })
    }

    /// The first fill, then turnovers. Returns the number of complete rewrites, and whether the requested layout score
    /// was reached.
    ///
    /// # Errors
    /// A call fails.
    pub(super) fn run(&mut self, tell: &mut Tell<'_>) -> Result<(f64, Option<bool>), EngineError> {
        let size = (self.target * BLOCK).max(1);
        let total = size * (1 + u64::from(self.aged.turnovers));
        while self.create(false)? {
            tell(Bytes(self.writer.written), Bytes(total));
        }
        let filled = self.writer.written;
        let mut reached = self.aged.layout_score.map(|_| false);
        // The score is looked at four times in a turnover.
        let mut next_look = filled;
        while self.writer.written < total && reached != Some(true) {
            self.step()?;
            tell(Bytes(self.writer.written), Bytes(total));
            if let Some(wanted) = self.aged.layout_score
                && self.writer.written >= next_look
            {
                next_look += size / 4;
                reached = Some(self.is_reached(wanted)?);
            }
        }
        Ok(((self.writer.written - filled) as f64 / size as f64, reached))
    }

    fn step(&mut self) -> Result<(), EngineError> {
        match self.generator.below(10) {
            0..6 => self.create(true).map(drop),
            6..8 => self.append(),
            _ => self.overwrite(),
        }
    }

    /// Creates some files; false if that would be too many and nothing may be deleted for them.
    fn create(&mut self, may_delete: bool) -> Result<bool, EngineError> {
        let sizes: Vec<u64> = (0..self.aged.together).map(|_| self.size()).collect();
        let needed: u64 = sizes.iter().sum();
        if may_delete {
            self.make_room(needed)?;
        }
        if self.live + needed > self.target {
            return Ok(false);
        }
        let new: Vec<(Live, u64)> = sizes
            .iter()
            .map(|blocks| {
                self.next += 1;
                (Live { number: self.next, blocks: *blocks as u32 }, 0)
            })
            .collect();
        self.grow(&new, true)?;
        for (file, _) in new {
            self.live += u64::from(file.blocks);
            self.groups[0].push(file);
            self.grow_older();
        }
        Ok(true)
    }

    /// Appends to some files.
    fn append(&mut self) -> Result<(), EngineError> {
        let mut growing = Vec::new();
        for _ in 0..self.aged.together {
            let Some((group, place)) = self.any() else { break };
            let more = self.size().div_ceil(4);
            let file = self.groups[group].swap_remove(place);
            self.live -= u64::from(file.blocks);
            growing.push((group, file, more));
        }
        // Their own blocks are kept: room is made among the others, and an append that does not fit is dropped.
        let own: u64 = growing.iter().map(|(_, file, _)| u64::from(file.blocks)).sum();
        let more: u64 = growing.iter().map(|(_, _, more)| more).sum();
        self.make_room(own + more)?;
        let fits = self.live + own + more <= self.target;
        let grown: Vec<(usize, Live, u64)> = growing
            .into_iter()
            .map(|(group, file, more)| {
                let blocks = file.blocks + if fits { more as u32 } else { 0 };
                (group, Live { blocks, ..file }, u64::from(file.blocks))
            })
            .collect();
        let pieces: Vec<(Live, u64)> = grown.iter().map(|(_, file, from)| (*file, *from)).collect();
        self.grow(&pieces, false)?;
        for (group, file, _) in grown {
            self.live += u64::from(file.blocks);
            self.groups[group].push(file);
        }
        Ok(())
    }

    /// Extends files from the given block to their size, a piece of each in turn.
    fn grow(&mut self, files: &[(Live, u64)], are_new: bool) -> Result<(), EngineError> {
        let names: Vec<String> = files.iter().map(|(file, _)| self.name(file.number)).collect();
        let mut open = Vec::with_capacity(files.len());
        for (name, (file, from)) in names.iter().zip(files) {
            let opened = if are_new { self.writer.create(name)? } else { self.writer.open(name)? };
            open.push((opened, *from, u64::from(file.blocks)));
        }
        let at_once = self.generator.below(2) == 0;
        while !open.is_empty() {
            let turn = self.generator.below(open.len() as u64) as usize;
            let (file, from, to) = &mut open[turn];
            let piece = (1 + self.generator.below(PIECE_BLOCKS)).min(*to - *from);
            self.writer.write(file, *from * BLOCK, piece * BLOCK)?;
            *from += piece;
            let is_whole = from == to;
            if at_once {
                self.writer.push_out(file)?;
            }
            if is_whole {
                open.swap_remove(turn);
            }
        }
        Ok(())
    }

    /// Overwrites some pieces of a file where they are.
    fn overwrite(&mut self) -> Result<(), EngineError> {
        let Some((group, place)) = self.any() else { return Ok(()) };
        let file = self.groups[group][place];
        let name = self.name(file.number);
        let open = self.writer.open(&name)?;
        for _ in 0..1 + self.generator.below(4) {
            let from = self.generator.below(u64::from(file.blocks));
            let piece = (1 + self.generator.below(PIECE_BLOCKS)).min(u64::from(file.blocks) - from);
            self.writer.write(&open, from * BLOCK, piece * BLOCK)?;
            self.writer.push_out(&open)?;
        }
        Ok(())
    }

    /// Deletes until this many blocks fit.
    fn make_room(&mut self, blocks: u64) -> Result<(), EngineError> {
        while self.live + blocks > self.target {
            let Some(file) = self.take_dying() else { return Ok(()) };
            self.live -= u64::from(file.blocks);
            let name = self.name(file.number);
            unlinkat(self.writer.folder(), &name, AtFlags::empty())
                .map_err(|e| layout("delete", self.writer.path(&name), e))?;
        }
        Ok(())
    }

    /// Takes out the file to be deleted next.
    fn take_dying(&mut self) -> Option<Live> {
        let mut draw = self.generator.below(DELETED.iter().sum());
        let mut group = 0;
        while draw >= DELETED[group] {
            draw -= DELETED[group];
            group += 1;
        }
        // An empty group's deletions fall on the next one.
        let group = (0..3).map(|n| (group + n) % 3).find(|group| !self.groups[*group].is_empty())?;
        let place = self.generator.below(self.groups[group].len() as u64) as usize;
        Some(self.groups[group].swap_remove(place))
    }

    /// Moves a file to the next age if a group has more than its share.
    fn grow_older(&mut self) {
        let all: usize = self.groups.iter().map(Vec::len).sum();
        for (group, quarters) in [(0, YOUNG), (1, MIDDLE)] {
            if self.groups[group].len() > all * quarters / 4 {
                let place = self.generator.below(self.groups[group].len() as u64) as usize;
                let file = self.groups[group].swap_remove(place);
                self.groups[group + 1].push(file);
            }
        }
    }

    /// Any file, each as likely: its group and its place there.
    fn any(&mut self) -> Option<(usize, usize)> {
        let all: usize = self.groups.iter().map(Vec::len).sum();
        if all == 0 {
            return None;
        }
        let mut place = self.generator.below(all as u64) as usize;
        for (group, files) in self.groups.iter().enumerate() {
            if place < files.len() {
                return Some((group, place));
            }
            place -= files.len();
        }
        None
    }

    /// A size in blocks: lognormal, at least 1.
    fn size(&mut self) -> u64 {
        ((self.median * lognormal(&mut self.generator)) as u64).clamp(1, self.largest)
    }

    fn name(&self, number: u32) -> String {
        format!("{:04}/{number:08}", u64::from(number) % self.directories)
    }

    fn is_reached(&self, wanted: f64) -> Result<bool, EngineError> {
        self.writer.sync()?;
        let layout = self.score(SAMPLE)?.figures();
        Ok(layout.is_some_and(|layout| layout.score <= wanted))
    }

    /// The layout of at most this many files, evenly chosen. They must be synced.
    ///
    /// # Errors
    /// A file is gone.
    fn score(&self, most: usize) -> Result<Score, EngineError> {
        let mut score = Score::new(self.writer.space()?.block);
        let files: usize = self.files();
        let step = files.div_ceil(most).max(1);
        for file in self.groups.iter().flatten().step_by(step) {
            let name = self.name(file.number);
            let fd = openat(self.writer.folder(), &name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| layout("open", self.writer.path(&name), e))?;
            score.look_at(fd.as_fd()).map_err(|e| layout("map", self.writer.path(&name), e))?;
        }
        Ok(score)
    }

    /// Number of files.
    pub(super) fn files(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }
}

/// A lognormal number of median 1 (Box and Muller).
pub(super) fn lognormal(generator: &mut Generator) -> f64 {
    // In (0, 1]: the logarithm is finite.
    let mut uniform = || ((generator.next() >> 11) + 1) as f64 / 2_f64.powi(53);
    let radius = libm::sqrt(-2.0 * libm::log(uniform()));
    libm::exp(SIZE_SIGMA * radius * libm::cos(std::f64::consts::TAU * uniform()))
}
