//! The small fast generator behind offsets, choices and data: xoshiro256++ (Blackman and Vigna, 2019), seeded by
//! ChaCha8. Not for secrets.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Purpose of a stream of random numbers. Streams of one seed are independent of each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Contents of the files laid out.
    Layout,
    /// Offsets and choices of thread n.
    Requests(usize),
    /// Bytes that thread n writes.
    Payload(usize),
    /// Hot blocks, the same for all threads.
    Places,
    /// When the requests of thread n are due.
    Arrivals(usize),
    /// Shape, sizes and order of a set of files, by a number made from its name.
    Tree(u32),
}

impl Stream {
    fn number(self) -> u64 {
        match self {
            Self::Layout => 0,
            Self::Requests(thread) => (1 << 32) + thread as u64,
            Self::Payload(thread) => (2 << 32) + thread as u64,
            Self::Places => 3 << 32,
            Self::Arrivals(thread) => (4 << 32) + thread as u64,
            Self::Tree(name) => (5 << 32) + u64::from(name),
        }
    }
}

/// The 64-bit draw below which something happens that has this share; 2^64 is always.
pub(crate) fn draw_below(share: f64) -> u128 {
    let share = share.clamp(0.0, 1.0);
    if share >= 1.0 { 1 << 64 } else { (share * 2_f64.powi(64)) as u128 }
}

/// Makes the same sequence for the same seed and stream.
#[derive(Debug, Clone)]
pub(crate) struct Generator {
    state: [u64; 4],
}

impl Generator {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut source = ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(stream.number());
        // All zero is the one state xoshiro cannot leave; 2^-256, but the bit costs nothing.
        Self { state: [source.next_u64() | 1, source.next_u64(), source.next_u64(), source.next_u64()] }
    }

    /// 64 uniformly random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// Uniform in `0..n`. The bias of one multiplication is n / 2^64: nothing for any number of blocks there is.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Fills `bytes` with random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_matches_reference_sequence() {
        // The state 1, 2, 3, 4; first outputs of the authors' C code.
        let mut generator = Generator { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..4).map(|_| generator.next()).collect();
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream| Generator::new(seed, stream).next();
        assert_eq!(first(7, Stream::Requests(3)), first(7, Stream::Requests(3)));
        let mut all = vec![first(7, Stream::Layout), first(8, Stream::Layout)];
        all.extend((0..100).flat_map(|t| [first(7, Stream::Requests(t)), first(7, Stream::Payload(t))]));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn below_stays_below_and_fill_fills() {
        let mut generator = Generator::new(1, Stream::Layout);
        assert!((0..10_000).all(|_| generator.below(7) < 7));
        assert_eq!(generator.below(1), 0);
        let mut bytes = [0_u8; 4099];
        generator.fill(&mut bytes);
        let zeros = bytes.iter().filter(|b| **b == 0).count();
        assert!(zeros < 60, "{zeros} zero bytes of 4099");
    }
}
