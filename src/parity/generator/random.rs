//! The numbers the corpus is drawn with: splitmix64, the same on every platform.

/// A stream of numbers that depends on nothing but its seed.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of item `number` of `category`. Every item has its own, so that a category that changes leaves the
    /// others as they are.
    pub(super) fn of(seed: u64, category: &str, number: usize) -> Self {
        // FNV-1a, and the finishing step of splitmix64 between the parts.
        let name = category
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut random = Self(seed ^ name);
        Self(random.next() ^ number as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for `n = 0`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        // The upper half of the product is below `n`.
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number from `first` to `last`, both included.
    pub(super) fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True `percent` times of a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`; the default of its type when there are none.
    pub(super) fn pick<T: Copy + Default>(&mut self, items: &[T]) -> T {
        items.get(self.below(items.len())).copied().unwrap_or_default()
    }

    /// `n` of `items` in random order, none twice; all of them when there are fewer.
    pub(super) fn draw<T: Copy>(&mut self, items: &[T], n: usize) -> Vec<T> {
        let mut items = items.to_vec();
        for i in 0..n.min(items.len()) {
            let other = i + self.below(items.len() - i);
            items.swap(i, other);
        }
        items.truncate(n);
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // The first numbers of the published reference implementation from seed 0.
        let mut random = Random(0);
        assert_eq!([random.next(), random.next()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut random = Random::of(1, "a", 0);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[random.within(2, 6)] = true;
            let mut drawn = random.draw(&[1, 2, 3, 4, 5], 3);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 3);
        }
        assert_eq!(seen, [false, false, true, true, true, true, true]);
        assert_eq!(random.draw(&[1, 2], 5).len(), 2);
        assert_eq!((random.below(0), random.pick::<&str>(&[])), (0, ""));
        assert_ne!(Random::of(1, "a", 0).next(), Random::of(1, "a", 1).next());
        assert_ne!(Random::of(1, "a", 0).next(), Random::of(1, "b", 0).next());
    }
}
