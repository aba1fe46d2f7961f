//! Page-aligned memory, and the bytes that are written from it.
//!
//! No unsafe code: a vector with room to spare holds an aligned stretch, and a vector never moves its heap memory
//! unless it grows, which these never do.

use crate::generator::Generator;
use fstrial_model::workload::Data;
use std::ops::Range;

/// Alignment of every buffer, and the distance of two stamps. Direct I/O asks for at most this.
pub(crate) const PAGE: usize = 4096;
/// Random bytes kept for each thread; writes take turns through them.
const POOL: usize = 1 << 20;
/// Random bytes of each slot beyond one request, so that its turns have room.
const SLACK: usize = 64 << 10;
/// What [`Data::RepeatedWord`] repeats.
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

/// Fills `bytes` with what the files hold.
pub(crate) fn fill(data: Data, bytes: &mut [u8], generator: &mut Generator) {
    match data {
        Data::Random => generator.fill(bytes),
        Data::Zero => bytes.fill(0),
        Data::RepeatedWord => {
            bytes.chunks_mut(WORD.len()).for_each(|part| part.copy_from_slice(&WORD[..part.len()]))
        }
    }
}

/// The bytes that one thread writes.
///
/// Making random bytes for every write would measure the generator. So each slot (a request in flight) has a stretch
/// of random bytes, each write takes another page-aligned part of it, and the first 8 bytes of each 4 KiB are made new.
/// No two pages written are the same, and a slot's bytes are never touched while the kernel owns them: a filesystem
/// that computes checksums may not see them change in flight.
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
}

impl Payload {
    /// For writes of `len` bytes from `slots` slots.
    pub(crate) fn new(data: Data, slots: usize, len: usize, mut generator: Generator) -> Self {
        let whole = len.next_multiple_of(PAGE);
        if data != Data::Random {
            let mut pages = Pages::new(whole);
            fill(data, pages.as_mut_slice(), &mut generator);
            return Self { pages, len, stride: 0, turn: 0, turns: 1, stamps: None };
        }
        let slack = SLACK.max((POOL / slots).saturating_sub(whole)).next_multiple_of(PAGE);
        let stride = whole + slack;
        let mut pages = Pages::new(stride * slots);
        generator.fill(pages.as_mut_slice());
        Self { pages, len, stride, turn: 0, turns: slack / PAGE + 1, stamps: Some(generator) }
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
            for page in self.pages.as_mut_slice()[range.clone()].chunks_mut(PAGE) {
                let stamp = stamps.next().to_ne_bytes();
                match page.first_chunk_mut() {
                    Some(head) => *head = stamp,
                    None => page.copy_from_slice(&stamp[..page.len()]),
                }
            }
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
}
