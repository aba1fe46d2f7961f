//! Page-aligned memory, and the bytes that are written from it.
//!
//! No unsafe code: a vector with room to spare holds an aligned stretch, and a vector never moves its heap memory
//! unless it grows, which these never do.

use crate::generator::{Generator, draw_below};
use fstrial_model::{units::Percent, workload::Data};
use std::ops::Range;

/// Alignment of every buffer, and the distance of two stamps. Direct I/O asks for at most this.
pub(crate) const PAGE: usize = 4096;
/// Random bytes kept for each thread; writes take turns through them.
const POOL: usize = 1 << 20;
/// Random bytes of each slot beyond one request, so that its turns have room.
const SLACK: usize = 64 << 10;
/// Blocks that duplicates repeat, and the memory they take at most (beyond the first).
const DUPLICATES: usize = 16;
const MAX_DUPLICATES: usize = 4 << 20;
/// Bytes at the start of each page that are made new for each write.
const STAMP: usize = 8;
/// The word repeated by [`Data::RepeatedWord`].
const WORD: [u8; 8] = *b"fstrial\n";

/// Zeroed, page-aligned memory of fixed length.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl Pages {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0_u8; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Self { memory, range: start..start + len }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}

/// Makes the content of files before the clock starts.
#[derive(Debug)]
pub(crate) struct Filler {
    data: Data,
    generator: Generator,
    /// Size of a block; one that is a duplicate is so as a whole.
    block: usize,
    /// A draw below this is a duplicate of one of these blocks.
    duplicate_below: u128,
    duplicates: Vec<u8>,
}

impl Filler {
    /// For requests of `block` bytes.
    pub(crate) fn new(data: Data, block: usize, mut generator: Generator) -> Self {
        let (mut duplicate_below, mut duplicates) = (0, Vec::new());
        if let Data::Mixed { compressible, duplicate } = data {
            duplicate_below = draw_below(duplicate.fraction());
            duplicates.resize(block * duplicate_blocks(duplicate, block), 0);
            for each in duplicates.chunks_mut(block) {
                mix(each, block.min(PAGE), random_head(compressible, block), &mut generator);
            }
        }
        Self { data, generator, block, duplicate_below, duplicates }
    }

    /// True if two stretches differ, so that each must be filled.
    pub(crate) fn varies(&self) -> bool {
        match self.data {
            Data::Random | Data::Mixed { .. } => true,
            Data::Zero | Data::RepeatedWord => false,
        }
    }

    /// Fills `bytes`, which begin with a block.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let Data::Mixed { compressible, .. } = self.data else {
            return fill(self.data, bytes, &mut self.generator);
        };
        let head = random_head(compressible, self.block);
        for part in bytes.chunks_mut(self.block) {
            if self.duplicate_below > 0 && u128::from(self.generator.next()) < self.duplicate_below {
                let blocks = self.duplicates.len() / self.block;
                let start = self.generator.below(blocks as u64) as usize * self.block;
                part.copy_from_slice(&self.duplicates[start..start + part.len()]);
            } else {
                mix(part, self.block.min(PAGE), head, &mut self.generator);
            }
        }
    }
}

/// Fills `bytes` with data that is the same everywhere, or random everywhere.
pub(crate) fn fill(data: Data, bytes: &mut [u8], generator: &mut Generator) {
    match data {
        Data::Random | Data::Mixed { .. } => generator.fill(bytes),
        Data::Zero => bytes.fill(0),
        Data::RepeatedWord => {
            bytes.chunks_mut(WORD.len()).for_each(|part| part.copy_from_slice(&WORD[..part.len()]))
        }
    }
}

/// Random bytes at the start of each page of a block, the rest of which compresses away.
///
/// The share is kept in every page: at any compression unit of a filesystem or device (4 KiB to 1 MiB are in use), it
/// is the same. At least the stamp stays, or all pages would be duplicates.
fn random_head(compressible: Percent, block: usize) -> usize {
    let page = block.min(PAGE);
    let random = ((1.0 - compressible.fraction()) * page as f64).round() as usize;
    random.clamp(STAMP.min(page), page)
}

/// Number of distinct blocks among the duplicates.
fn duplicate_blocks(duplicate: Percent, block: usize) -> usize {
    if duplicate.is_zero() { 0 } else { (MAX_DUPLICATES / block.max(1)).clamp(1, DUPLICATES) }
}

/// Fills `bytes` with `head` random bytes at the start of each `page`, and one word over and over behind them.
fn mix(bytes: &mut [u8], page: usize, head: usize, generator: &mut Generator) {
    for page in bytes.chunks_mut(page) {
        let (random, word) = page.split_at_mut(head.min(page.len()));
        generator.fill(random);
        fill(Data::RepeatedWord, word, generator);
    }
}

/// Makes the first bytes of each page new.
#[inline]
pub(crate) fn stamp(bytes: &mut [u8], stamps: &mut Generator) {
    for page in bytes.chunks_mut(PAGE) {
        let stamp = stamps.next().to_ne_bytes();
        match page.first_chunk_mut() {
            Some(head) => *head = stamp,
            None => page.copy_from_slice(&stamp[..page.len()]),
        }
    }
}

/// The bytes that one thread writes.
///
/// Making random bytes for every write would measure the generator. So each slot (a request in flight) has a stretch
/// of random bytes, each write takes another page-aligned part of it, and the first 8 bytes of each 4 KiB are made new.
/// No two pages written are the same, and a slot's bytes are never touched while the kernel owns them: a filesystem
/// that computes checksums may not see them change in flight. Duplicates never change at all: one block of them can be
/// in flight from several slots.
#[derive(Debug)]
pub(crate) struct Payload {
    pages: Pages,
    len: usize,
    /// Distance of two slots; 0 where all slots write the same bytes.
    stride: usize,
    /// Turn of the next write, and the number of turns.
    turn: usize,
    turns: usize,
    stamps: Option<Generator>,
    duplicates: Duplicates,
}

/// The blocks behind the slots' own that duplicates repeat.
#[derive(Debug, Default)]
struct Duplicates {
    /// A draw below this writes one of them; 0 is never.
    below: u128,
    start: usize,
    blocks: u64,
    /// Distance of two.
    stride: usize,
}

impl Payload {
    /// For writes of `len` bytes from `slots` slots.
    pub(crate) fn new(data: Data, slots: usize, len: usize, mut generator: Generator) -> Self {
        let whole = len.next_multiple_of(PAGE);
        let (compressible, duplicate) = match data {
            Data::Random => (Percent(0.0), Percent(0.0)),
            Data::Mixed { compressible, duplicate } => (compressible, duplicate),
            Data::Zero | Data::RepeatedWord => {
                let mut pages = Pages::new(whole);
                fill(data, pages.as_mut_slice(), &mut generator);
                let duplicates = Duplicates::default();
                return Self { pages, len, stride: 0, turn: 0, turns: 1, stamps: None, duplicates };
            }
        };
        let slack = SLACK.max((POOL / slots).saturating_sub(whole)).next_multiple_of(PAGE);
        let stride = whole + slack;
        let blocks = duplicate_blocks(duplicate, whole);
        let mut pages = Pages::new(stride * slots + whole * blocks);
        match data {
            Data::Random => generator.fill(pages.as_mut_slice()),
            _ => mix(pages.as_mut_slice(), PAGE, random_head(compressible, len), &mut generator),
        }
        let duplicates = Duplicates {
            below: draw_below(duplicate.fraction()),
            start: stride * slots,
            blocks: blocks as u64,
            stride: whole,
        };
        Self { pages, len, stride, turn: 0, turns: slack / PAGE + 1, stamps: Some(generator), duplicates }
    }

    /// The bytes for the next write of a slot that is not in flight: where they are in [`Payload::pages`].
    #[inline]
    pub(crate) fn next(&mut self, slot: usize) -> Range<usize> {
        self.take(slot, self.len)
    }

    /// As [`Payload::next`], for a write of `len` bytes, which are at most those of a slot.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize, len: usize) -> Range<usize> {
        assert!(len <= self.len, "the slot has room");
        let start = slot * self.stride + self.turn * PAGE;
        self.turn += 1;
        if self.turn == self.turns {
            self.turn = 0;
        }
        let range = start..start + len;
        if let Some(stamps) = &mut self.stamps {
            let duplicates = &self.duplicates;
            if duplicates.below > 0 && u128::from(stamps.next()) < duplicates.below {
                let start = duplicates.start + stamps.below(duplicates.blocks) as usize * duplicates.stride;
                return start..start + len;
            }
            stamp(&mut self.pages.as_mut_slice()[range.clone()], stamps);
        }
        range
    }

    /// All of the memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.pages.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Stream;
    use std::collections::HashSet;

    fn payload(data: Data, slots: usize, len: usize) -> Payload {
        Payload::new(data, slots, len, Generator::new(1, Stream::Payload(0)))
    }

    #[test]
    fn pages_are_aligned_and_stay_so_when_moved() {
        for len in [1, 4095, 4096, 1 << 20] {
            let pages = Box::new(Pages::new(len));
            assert_eq!(pages.as_slice().as_ptr().align_offset(PAGE), 0);
            assert_eq!(pages.as_slice().len(), len);
        }
    }

    #[test]
    fn random_writes_are_aligned_and_never_the_same() {
        for (slots, len) in [(1, 4096), (1, 512), (32, 4096), (3, 8 << 10), (2, 1 << 20)] {
            let mut payload = payload(Data::Random, slots, len);
            assert!(payload.bytes().len() >= POOL, "{}", payload.bytes().len());
            let mut seen = HashSet::new();
            for n in 0..1000 {
                let range = payload.next(n % slots);
                assert_eq!(range.start % PAGE, 0);
                for page in payload.bytes()[range].chunks(PAGE) {
                    assert!(seen.insert(page[..8].to_vec()), "a page was written twice");
                }
            }
        }
    }

    #[test]
    fn slots_never_share_bytes() {
        let (slots, len) = (8, 4096);
        let mut payload = payload(Data::Random, slots, len);
        for n in 0..10_000 {
            let slot = n % slots;
            let range = payload.next(slot);
            assert!(range.start >= slot * payload.stride && range.end <= (slot + 1) * payload.stride);
        }
    }

    #[test]
    fn payload_take_returns_requested_length() {
        let half = Data::Mixed { compressible: Percent(0.0), duplicate: Percent(50.0) };
        for data in [Data::Random, Data::Zero, half] {
            let mut payload = payload(data, 2, 16 << 10);
            for n in 0..100 {
                let len = 4096 * (1 + n % 4);
                assert_eq!(payload.take(n % 2, len).len(), len);
            }
        }
    }

    #[test]
    fn constant_data_is_constant() {
        let mut zero = payload(Data::Zero, 4, 5000);
        let range = zero.next(3);
        assert!(zero.bytes()[range].iter().all(|b| *b == 0));
        let mut word = payload(Data::RepeatedWord, 4, 5000);
        let range = word.next(2);
        assert_eq!(range.len(), 5000);
        assert!(word.bytes()[range].chunks_exact(8).all(|w| w == WORD));
    }

    #[test]
    fn tiny_writes_have_their_length() {
        for len in [1, 7, 8, 9, 513] {
            let mut payload = payload(Data::Random, 2, len);
            assert_eq!(payload.next(1).len(), len);
        }
    }

    fn mixed(compressible: f64, duplicate: f64) -> Data {
        Data::Mixed { compressible: Percent(compressible), duplicate: Percent(duplicate) }
    }

    /// Share of `bytes` that a real compressor leaves.
    fn compressed(bytes: &[u8]) -> f64 {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap().len() as f64 / bytes.len() as f64
    }

    /// Writes, one after the other.
    fn written(data: Data, len: usize, count: usize) -> Vec<u8> {
        let mut payload = payload(data, 4, len);
        let mut all = Vec::with_capacity(len * count);
        for n in 0..count {
            let range = payload.next(n % 4);
            all.extend_from_slice(&payload.bytes()[range]);
        }
        all
    }

    fn filled(data: Data, block: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Filler::new(data, block, Generator::new(3, Stream::Layout)).fill(&mut bytes);
        bytes
    }

    #[test]
    fn mixed_data_has_requested_compressibility() {
        for share in [0.0, 30.0, 75.0, 100.0] {
            for (len, count) in [(512, 256), (4096, 64), (128 << 10, 2)] {
                for bytes in
                    [written(mixed(share, 0.0), len, count), filled(mixed(share, 0.0), len, len * count)]
                {
                    // A page as zram sees it, a cluster of f2fs, an extent of btrfs.
                    for unit in [4096, 16 << 10, 128 << 10] {
                        let left: f64 =
                            bytes.chunks(unit).map(|part| compressed(part) * part.len() as f64).sum();
                        let left = left / bytes.len() as f64;
                        // Deflate itself needs some bytes for each stretch; each 512-byte request keeps its stamp.
                        let expected = 1.0 - share / 100.0;
                        let slack = if len < 4096 { 0.06 } else { 0.03 };
                        assert!(
                            left > expected - 0.002 && left < expected + slack,
                            "{share} % of {len}-byte requests in units of {unit}: {left} is left"
                        );
                    }
                }
            }
        }
        assert!(compressed(&written(Data::Random, 4096, 500)) > 0.99);
        assert!(compressed(&written(Data::RepeatedWord, 4096, 500)) < 0.01);
    }

    /// Share of blocks that were there before.
    fn duplicated(bytes: &[u8], block: usize) -> f64 {
        let mut seen = HashSet::new();
        let again = bytes.chunks(block).filter(|part| !seen.insert(part.to_vec())).count();
        again as f64 / (bytes.len() / block) as f64
    }

    #[test]
    fn mixed_data_has_requested_duplicate_share() {
        for share in [0.0, 10.0, 50.0, 100.0] {
            for (len, count) in [(512, 4000), (4096, 2000), (16 << 10, 2000)] {
                for bytes in
                    [written(mixed(30.0, share), len, count), filled(mixed(30.0, share), len, len * count)]
                {
                    let again = duplicated(&bytes, len);
                    // The first of each of the blocks that are repeated is not there before.
                    let expected = share / 100.0;
                    assert!(
                        again < expected + 0.04 && again > expected - 0.06 && (share > 0.0 || again == 0.0),
                        "{share} % of {count} blocks of {len}: {again}"
                    );
                    // Duplicates are no more compressible than the rest.
                    if share == 100.0 && len >= 4096 {
                        let left = compressed(&bytes[..len]);
                        assert!((left - 0.7).abs() < 0.03, "{left}");
                    }
                }
            }
        }
    }

    #[test]
    fn mixed_payload_never_modifies_in_flight_slots() {
        let (slots, len) = (4, 4096);
        let mut payload = payload(mixed(50.0, 50.0), slots, len);
        let mut flying: Vec<Option<(Range<usize>, Vec<u8>)>> = vec![None; slots];
        for n in 0..2000 {
            let slot = n % slots;
            flying[slot] = None;
            let range = payload.next(slot);
            assert_eq!(range.start % PAGE, 0);
            flying[slot] = Some((range.clone(), payload.bytes()[range].to_vec()));
            for (range, bytes) in flying.iter().flatten() {
                assert_eq!(&payload.bytes()[range.clone()], &bytes[..]);
            }
        }
    }
}
