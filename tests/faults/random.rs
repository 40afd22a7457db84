//! Random numbers that are the same for the same seed.

use std::hash::{BuildHasher as _, Hasher as _};

/// A generator (xorshift64*), which is no source of secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Begins with a seed.
    pub(crate) fn new(seed: u64) -> Self {
        // Zero has no successor. Seeds that differ little must not begin alike.
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// A seed that differs for each run.
    pub(crate) fn seed() -> u64 {
        std::hash::RandomState::new().build_hasher().finish()
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("few")]
    }

    /// A generator for a part of the run.
    pub(crate) fn child(&mut self) -> Self {
        Self::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 20].map(|()| random.below(1_000_000))
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(numbers(0), numbers(1));
    }
}
