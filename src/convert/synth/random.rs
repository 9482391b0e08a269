//! Random numbers that are the same on every machine: integers and one rounded multiplication, no library of functions.

use rayon::prelude::*;

/// splitmix64 as a function of a counter, so any element can be drawn on its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Elements one task fills.
const CHUNK: usize = 1 << 14;

/// Standard deviation of the sum of four uniform 16-bit integers: `sqrt(4 (65536^2 - 1) / 12)`.
const SUM_DEVIATION: f64 = 37_837.226_5;

impl Stream {
    /// The stream of the tensor `name` under `seed` (FNV-1a of the name, mixed with the seed).
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(mix(seed.wrapping_mul(STEP) ^ mix(hash)))
    }

    /// Number `i` of the stream.
    pub(super) fn at(self, i: u64) -> u64 {
        mix(self.0.wrapping_add(i.wrapping_add(1).wrapping_mul(STEP)))
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How the elements of a tensor are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Draw {
    /// Near normal (a sum of four uniforms) with mean 0 and this standard deviation, at most 3.46 deviations away.
    Normal(f64),
    /// Uniform from the first to the second.
    Uniform(f64, f64),
    /// Always this.
    Constant(f32),
}

impl Draw {
    /// Fills `out` with the elements from number `first` of the tensor on.
    pub(super) fn fill(self, stream: Stream, first: u64, out: &mut [f32]) {
        out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let first = first + (chunk * CHUNK) as u64;
            match self {
                Self::Normal(deviation) => {
                    let unit = (deviation / SUM_DEVIATION) as f32;
                    for (i, out) in out.iter_mut().enumerate() {
                        let bits = stream.at(first + i as u64);
                        let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
                        *out = (sum as i32 - 131_070) as f32 * unit;
                    }
                }
                Self::Uniform(low, high) => {
                    let unit = ((high - low) / 65_536.0) as f32;
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = low as f32 + (stream.at(first + i as u64) >> 48) as f32 * unit;
                    }
                }
                Self::Constant(value) => out.fill(value),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: Draw, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        draw.fill(Stream::new(1, "t"), 0, &mut out);
        out
    }

    #[test]
    fn moments() {
        let n = 100_000;
        let values = drawn(Draw::Normal(2.0), n);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        let variance = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.03 && (variance - 4.0).abs() < 0.1, "{mean} {variance}");
        let values = drawn(Draw::Uniform(0.5, 1.5), n);
        assert!(values.iter().all(|v| (0.5..1.5).contains(v)));
    }

    #[test]
    fn a_part_is_the_part_of_the_whole() {
        let whole = drawn(Draw::Normal(1.0), 50_000);
        let mut part = vec![0.0; 20_000];
        Draw::Normal(1.0).fill(Stream::new(1, "t"), 17_001, &mut part);
        assert_eq!(part, whole[17_001..37_001]);
        assert_ne!(Stream::new(1, "t").at(0), Stream::new(2, "t").at(0));
        assert_ne!(Stream::new(1, "t").at(0), Stream::new(1, "u").at(0));
    }
}
