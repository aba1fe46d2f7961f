//! What is known of blocks that say what they are: which write of each is to be found, and its header.
//!
//! The header tells the run, the file, the place, which write of the block it is, and a checksum of all of it. So a read
//! finds bytes that changed or were torn, a block of another place, one of an earlier write and one of an earlier run.

use crate::EngineError;
use fstrial_model::{units::Bytes, workload::Io};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire},
    time::{SystemTime, UNIX_EPOCH},
};

/// Bytes of a header: the checksum of the rest of the block, file, run, offset, number of the write, [`MARK`].
const HEADER: usize = 32;
/// What a device writes whole: each tells the number of the write.
const SECTOR: usize = 512;
const MARK: u32 = u32::from_le_bytes(*b"fstv");
/// Blocks of a set at most: 8 bytes are kept for each.
const MAX_BLOCKS: u64 = 1 << 27;
/// What is kept of a block: the number of its last write, the writes in flight (in units of `FLYING`), and whether these
/// left nobody knows what. Writes of a block that overlap may each leave a part.
const FLYING: u64 = 1 << 32;
const MIXED: u64 = 1 << 63;

/// What is known of the blocks of a set of files: which write of each is to be found.
pub(crate) struct Ledger {
    /// A number that no run before had.
    run: u64,
    /// What all loads on the files draw their requests from: so what reads back goes the way of what wrote, and finds
    /// blocks where that put them.
    pub(crate) seed: u64,
    pub(crate) block_size: u64,
    blocks_per_file: u64,
    blocks: Box<[AtomicU64]>,
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    file: u32,
    run: u64,
    offset: u64,
    /// Which write of the block it is, from 1.
    write: u32,
}

/// A block that did not hold what was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) wanted: Header,
    pub(crate) found: FoundBlock,
}

/// What was there instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundBlock {
    /// No header of this run; the first bytes.
    Foreign([u8; 8]),
    /// A header of this run, and a checksum that is not that of the bytes.
    Damaged { header: Header, stored: u32, actual: u32 },
    /// Another block, or another write of this one.
    Other(Header),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { write, offset, .. } = self.wanted;
        write!(f, "at {offset}: expected {}, found ", self.wanted)?;
        match &self.found {
            FoundBlock::Foreign(bytes) => write!(f, "no block of this run, but {bytes:02x?}"),
            FoundBlock::Damaged { header, stored, actual } => {
                write!(f, "{header} with bytes of the checksum {actual:08x} instead of {stored:08x}")
            }
            FoundBlock::Other(other) if other.offset == offset && other.file == self.wanted.file => {
                let age = if other.write < write { "earlier" } else { "later" };
                write!(f, "its {age} write {}", other.write)
            }
            FoundBlock::Other(other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {} of the block at {} of file {}", self.write, self.offset, self.file)
    }
}

impl Header {
    /// Of the `write`-th write of a block.
    pub(crate) fn new(file: u32, run: u64, offset: u64, write: u32) -> Self {
        Self { file, run, offset, write }
    }

    /// Puts it at the start of a block.
    pub(crate) fn seal(&self, block: &mut [u8]) {
        block[4..8].copy_from_slice(&self.file.to_le_bytes());
        block[8..16].copy_from_slice(&self.run.to_le_bytes());
        block[16..24].copy_from_slice(&self.offset.to_le_bytes());
        block[24..28].copy_from_slice(&self.write.to_le_bytes());
        block[28..HEADER].copy_from_slice(&MARK.to_le_bytes());
        // What is left of a write before is the same bytes now and then: then a block torn there would be whole.
        for sector in block.chunks_mut(SECTOR).skip(1) {
            let len = sector.len().min(4);
            sector[..len].copy_from_slice(&self.write.to_le_bytes()[..len]);
        }
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// What is wrong with a block that is to have it.
    pub(crate) fn problem(&self, block: &[u8]) -> Option<FoundBlock> {
        let short = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let header = Self { file: short(4), run: long(8), offset: long(16), write: short(24) };
        let (stored, actual) = (short(0), crc32c::crc32c(&block[4..]));
        if short(28) != MARK || header.run != self.run {
            Some(FoundBlock::Foreign(long(0).to_le_bytes()))
        } else if stored != actual {
            Some(FoundBlock::Damaged { header, stored, actual })
        } else {
            (header != *self).then_some(FoundBlock::Other(header))
        }
    }
}

impl Ledger {
    /// For `files` files of which nothing was written yet.
    pub(crate) fn new(
        seed: u64,
        files: u64,
        blocks_per_file: u64,
        block_size: u64,
    ) -> Result<Self, EngineError> {
        let blocks = files.saturating_mul(blocks_per_file);
        if blocks > MAX_BLOCKS {
            return Err(EngineError::Impossible {
                problem: format!("verify keeps 8 bytes for each block, and there are {blocks} of them"),
                hint: "raise block_size, or lower file_size",
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let blocks = (0..blocks).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { run: seed ^ now, seed, block_size, blocks_per_file, blocks })
    }

    /// Refuses to verify files that are laid out in another way than those it was made for.
    pub(crate) fn check(&self, files: u64, blocks_per_file: u64, io: &Io) -> Result<(), EngineError> {
        let same = self.block_size == io.block_size.0
            && self.blocks_per_file == blocks_per_file
            && self.blocks.len() as u64 == files * blocks_per_file;
        if same {
            return Ok(());
        }
        Err(EngineError::Impossible {
            problem: format!(
                "an earlier phase verifies these files in blocks of {}, {blocks_per_file} in each of other files",
                Bytes(self.block_size)
            ),
            hint: "give both phases the same block_size, file_size, files, sharing and number of threads",
        })
    }

    /// A block that begins at an offset in a file.
    fn block(&self, file: u32, offset: u64) -> &AtomicU64 {
        &self.blocks[(u64::from(file) * self.blocks_per_file + offset / self.block_size) as usize]
    }

    /// A write of a block begins: gives its number.
    pub(crate) fn begin(&self, file: u32, offset: u64) -> u32 {
        let next = |state: u64| {
            let write = (state as u32).wrapping_add(1).max(1);
            let flying = state & !MIXED & !u64::from(u32::MAX);
            let mixed = if flying > 0 { MIXED } else { 0 };
            (mixed | (flying + FLYING) | u64::from(write), write)
        };
        let before = self.block(file, offset).fetch_update(AcqRel, Acquire, |state| Some(next(state).0));
        next(before.unwrap_or_else(|state| state)).1
    }

    /// A write of a block came to its end.
    pub(crate) fn end(&self, file: u32, offset: u64, went_well: bool) {
        let mixed = if went_well { 0 } else { MIXED };
        let ended = |state| Some((state - FLYING) | mixed);
        let _always = self.block(file, offset).fetch_update(AcqRel, Acquire, ended);
    }

    /// The number of the write that a read now finds; 0 if that is not known.
    pub(crate) fn known(&self, file: u32, offset: u64) -> u32 {
        u32::try_from(self.block(file, offset).load(Acquire)).unwrap_or(0)
    }

    /// The header of a write of a block.
    pub(crate) fn header(&self, file: u32, offset: u64, write: u32) -> Header {
        Header::new(file, self.run, offset, write)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_a_write_overlaps_finds_whatever_it_finds() {
        let ledger = Ledger::new(1, 2, 4, 4096).unwrap();
        let known = || ledger.known(1, 8192);
        assert_eq!((ledger.begin(1, 8192), known()), (1, 0));
        ledger.end(1, 8192, true);
        assert_eq!((known(), ledger.known(0, 8192)), (1, 0));
        // Two at once may each leave a part; one after them leaves its own.
        assert_eq!((ledger.begin(1, 8192), ledger.begin(1, 8192)), (2, 3));
        ledger.end(1, 8192, true);
        ledger.end(1, 8192, true);
        assert_eq!(known(), 0);
        assert_eq!(ledger.begin(1, 8192), 4);
        ledger.end(1, 8192, true);
        assert_eq!(known(), 4);
        ledger.begin(1, 8192);
        ledger.end(1, 8192, false);
        assert_eq!(known(), 0, "one that failed leaves anything");
    }
}
