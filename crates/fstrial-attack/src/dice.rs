//! Random numbers from a seed (SplitMix64): reproducible draws.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The stream of a seed that belongs to something with a name and a number.
    pub(crate) fn new(seed: u64, name: &str, number: u64) -> Self {
        let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        let named = name.as_bytes().iter().fold(0xCBF2_9CE4_8422_2325, fold);
        let mut dice = Self(named ^ seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
        dice.0 = dice.next().wrapping_add(number);
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `limit`, without it.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).expect("usize is at most 64 bits");
        usize::try_from(self.next() % limit).expect("it is below a usize")
    }

    /// One of several.
    pub(crate) fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
