//! What a processor can do at most: the limits a measured speed is compared with.

use std::hint::black_box;
use std::time::Instant;

use super::arch::int8;
use super::isa::InstructionSet;
use super::lane::{Isa, LANES, Operation, sum};
use super::thread::Threads;

/// Fused multiply-adds a second and thread times two, with every operand in a register, summed over `threads`.
pub fn fma_flops(isa: InstructionSet, threads: &Threads) -> f64 {
    let n = if isa.is_emulated() { 10_000 } else { 1_000_000 };
    let flops = isa.run(Fma(1)) * n as f64;
    rate(threads, flops, || {
        black_box(isa.run(Fma(n)));
    })
}

/// Eight-bit multiply-adds a second times two, with the widest instructions the processor has for them; none where there
/// are none.
pub fn int8_ops(threads: &Threads) -> Option<f64> {
    let unit = int8::Unit::detect()?;
    let n = 1_000_000;
    let ops = unit.run(1).1 * n as f64;
    Some(rate(threads, ops, || {
        black_box(unit.run(n));
    }))
}

/// Bytes a second read from buffers of `n_bytes`, one a thread.
pub fn read_bytes(isa: InstructionSet, threads: &Threads, n_bytes: usize) -> f64 {
    // Enough passes over a small buffer that starting them does not matter.
    let passes = ((32 << 20) / n_bytes).max(1);
    let buffers: Vec<Vec<f32>> = (0..threads.count()).map(|_| vec![1.0; n_bytes / size_of::<f32>()]).collect();
    let start = || {
        threads.for_each(buffers.iter().collect(), |buffer: &Vec<f32>| {
            for _ in 0..passes {
                black_box(isa.run(Read(black_box(buffer))));
            }
        });
    };
    start();
    best(|| {
        let clock = Instant::now();
        start();
        (n_bytes * passes * threads.count()) as f64 / clock.elapsed().as_secs_f64()
    })
}

/// Work a second when every thread does `work`, which is `amount`, at the same time.
fn rate(threads: &Threads, amount: f64, work: impl Fn() + Sync + Send) -> f64 {
    best(|| {
        let clock = Instant::now();
        threads.for_each(vec![(); threads.count()], |()| work());
        amount * threads.count() as f64 / clock.elapsed().as_secs_f64()
    })
}

/// The best of a few measurements: a limit is what nothing disturbed.
fn best(measure: impl Fn() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(0.0, f64::max)
}

/// Chains of multiply-adds as long as asked, side by side; gives the floating-point operations of one step.
struct Fma(usize);

impl Operation for Fma {
    type Output = f64;
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f64 {
        // As many chains as the accumulators of a tile: more than enough to hide the latency of one.
        if I::TILE_VECTORS == 2 { chains::<I, 24>(isa, self.0) } else { chains::<I, 6>(isa, self.0) }
    }
}

#[inline(always)]
fn chains<I: Isa, const N: usize>(isa: I, n: usize) -> f64 {
    let (x, y) = (isa.splat(black_box(1.000_000_1)), isa.splat(black_box(1e-9)));
    let mut sums = [isa.splat(1.0); N];
    for _ in 0..n {
        for sum in &mut sums {
            *sum = isa.fma(x, y, *sum);
        }
    }
    for one in sums {
        black_box(sum(isa, one));
    }
    (2 * LANES * N) as f64
}

/// Sum of a buffer.
struct Read<'a>(&'a [f32]);

impl Operation for Read<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> f32 {
        let mut sums = [isa.splat(0.0); 4];
        for chunk in self.0.as_chunks::<LANES>().0.as_chunks::<4>().0 {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum = isa.add(*sum, isa.load(x));
            }
        }
        sums.iter().map(|one| sum(isa, *one)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_grow_with_the_width() {
        let threads = Threads::new(1).unwrap();
        let rates: Vec<_> = InstructionSet::available().iter().map(|isa| fma_flops(*isa, &threads)).collect();
        assert!(rates.iter().all(|rate| *rate > 1e6), "{rates:?}");
        assert!(read_bytes(InstructionSet::widest(), &threads, 1 << 16) > 1e6);
        if let Some(ops) = int8_ops(&threads) {
            assert!(ops > 1e6);
        }
    }
}
