//! Random numbers from a seed that a failing test prints.

use orrery_types::{Clock, SystemClock};

/// The `SplitMix64` generator: small, seeded, good enough to choose test cases.
pub(crate) struct Random(u64);

impl Random {
    /// Takes the seed from the variable `ORRERY_SEED`, or a fresh one, and says which.
    pub(crate) fn from_environment(test: &str) -> Self {
        let given = std::env::var("ORRERY_SEED").ok();
        let seed = match given {
            Some(text) => text.parse().expect("ORRERY_SEED is a number"),
            None => SystemClock.now_us(),
        };
        eprintln!("{test}: ORRERY_SEED={seed}");
        Self(seed)
    }

    /// Numbers from a seed that the test has drawn itself.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// True once in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
