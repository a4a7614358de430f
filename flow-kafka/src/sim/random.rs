//! The one source of chance in a simulation: a seeded generator, the same on every machine and in every version.

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, good enough to pick schedules, and trivially reproducible.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator that this seed determines.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// A generator of its own for one purpose: drawing more from one stream must not shift another.
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut mix = Random::new(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Random::new(mix.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high word of the product: no division, and a bias that 64 bits make invisible.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `times` out of `of` times.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        // The published test vector of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[random.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
