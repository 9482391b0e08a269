//! Intervals by resampling whole records.

use rayon::prelude::*;

/// A 95 % percentile interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// 2.5 % of the resamples are below.
    pub low: f64,
    /// 2.5 % of the resamples are above.
    pub high: f64,
}

/// The questions of one record: their number, and the sums of `N` quantities over them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cluster<const N: usize> {
    pub(super) n: usize,
    pub(super) sums: [f64; N],
}

/// Intervals of the means over questions of each of the `N` quantities.
///
/// Records are drawn with replacement (questions of one record share its state and are not independent), and all
/// quantities of one draw belong together, so that the interval of a difference is a paired one. Draw `i` depends on
/// `seed`, `stream` and `i` alone: any number of threads gives the same bits.
pub(super) fn intervals<const N: usize>(
    clusters: &[Cluster<N>],
    n_resamples: usize,
    seed: u64,
    stream: u64,
    threads: Option<&rayon::ThreadPool>,
) -> [Interval; N] {
    let draw = |i: usize| {
        let mut random = Random::new([seed, stream, i as u64]);
        let (mut n, mut sums) = (0, [0.0; N]);
        for _ in 0..clusters.len() {
            if let Some(cluster) = clusters.get(random.below(clusters.len())) {
                n += cluster.n;
                sums.iter_mut().zip(cluster.sums).for_each(|(sum, more)| *sum += more);
            }
        }
        sums.map(|sum| sum / n as f64)
    };
    let means: Vec<[f64; N]> = match threads {
        Some(pool) => pool.install(|| (0..n_resamples).into_par_iter().map(draw).collect()),
        None => (0..n_resamples).map(draw).collect(),
    };
    std::array::from_fn(|quantity| {
        let mut values: Vec<f64> = means.iter().filter_map(|means| means.get(quantity).copied()).collect();
        values.sort_unstable_by(f64::total_cmp);
        Interval { low: quantile(&values, 0.025), high: quantile(&values, 0.975) }
    })
}

/// The quantile `q` of sorted `values`, between two of them in proportion (type 7 of Hyndman and Fan, NumPy's default).
fn quantile(values: &[f64], q: f64) -> f64 {
    let at = q * values.len().saturating_sub(1) as f64;
    let below = at.floor();
    let value = |i: usize| values.get(i).or(values.last()).copied().unwrap_or(f64::NAN);
    let (a, b) = (value(below as usize), value(below as usize + 1));
    a + (b - a) * (at - below)
}

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
struct Random(u64);

impl Random {
    /// A generator for `words`; others give another one.
    fn new(words: [u64; 3]) -> Self {
        let mut random = Self(0);
        for word in words {
            random.0 = random.next() ^ word;
        }
        // Words that differ in few bits must not start sequences that overlap.
        random.0 = random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, each as likely as the others up to one in 2^64 / `n`.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters() -> Vec<Cluster<2>> {
        let mut random = Random::new([1, 2, 3]);
        (0..400)
            .map(|_| {
                let n = 1 + random.below(3);
                let unit = |random: &mut Random| random.next() as f64 / u64::MAX as f64 - 0.5;
                let a: f64 = (0..n).map(|_| unit(&mut random)).sum();
                Cluster { n, sums: [a, 2.0 * a] }
            })
            .collect()
    }

    #[test]
    fn an_interval_is_that_of_the_mean() {
        let clusters = clusters();
        let n: usize = clusters.iter().map(|cluster| cluster.n).sum();
        let mean = clusters.iter().map(|cluster| cluster.sums[0]).sum::<f64>() / n as f64;
        let [a, b] = intervals(&clusters, 2000, 0, 0, None);
        // Uniform on a unit: the standard error of the mean of n is sqrt(1 / 12 n), and the interval 1.96 of it each way.
        let half = 1.96 * (1.0 / 12.0 / n as f64).sqrt();
        for (found, expected) in [(a.low, mean - half), (a.high, mean + half)] {
            assert!((found - expected).abs() < 0.15 * half, "{found} {expected}");
        }
        // Twice the quantity, of the very same draws.
        assert_eq!(b, Interval { low: 2.0 * a.low, high: 2.0 * a.high });
    }

    #[test]
    fn threads_change_no_bit_and_a_seed_does() {
        let clusters = clusters();
        let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        let alone = intervals(&clusters, 500, 7, 1, None);
        for n in [1, 3, 8] {
            assert_eq!(intervals(&clusters, 500, 7, 1, Some(&pool(n))), alone);
        }
        assert_ne!(intervals(&clusters, 500, 8, 1, None), alone);
        assert_ne!(intervals(&clusters, 500, 7, 2, None), alone);
    }

    #[test]
    fn numbers_below() {
        let mut random = Random::new([0, 0, 0]);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[random.below(7)] += 1;
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
        assert_eq!(random.below(1), 0);
        // The published first outputs of SplitMix64 for seed 1234567.
        let mut random = Random(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.5), 3.0);
        assert_eq!(quantile(&[0.0, 10.0], 0.025), 0.25);
        assert_eq!(quantile(&[4.0], 0.975), 4.0);
    }
}
