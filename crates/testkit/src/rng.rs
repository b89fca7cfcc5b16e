//! Pseudorandom number generator: SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable
//! pseudorandom number generators"; constants of its reference form). `muster-sim` has the same for
//! the simulations that users run; a change there must not change the seeds here.

/// A pseudorandom number generator with a 64-bit state.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Starts the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `sides`, which is not 0.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high - low + 1)
    }

    /// Returns a random item of a list, which is not empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}
