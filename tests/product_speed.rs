//! How fast the matrix products run, against the limit of the machine measured beside them. Prints; asserts nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod random;

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use laya::kernels::pack::Source;
use laya::kernels::peak::fma_flops;
use laya::kernels::product::{self, Finish, Output};
use laya::kernels::{InstructionSet, Interleaved, PackedMatrix, Product, Threads};
use random::SplitMix64;

#[test]
#[ignore = "a measurement: cargo test --release --test product_speed -- --ignored --nocapture"]
fn product_speed() {
    let isa = InstructionSet::widest();
    for count in [1, 2] {
        let threads = Threads::new(count).unwrap();
        for (m, n, k) in [(64, 2304, 768), (220, 2304, 768), (220, 768, 1152), (330, 2304, 768), (220, 1024, 2624)] {
            let mut random = SplitMix64(5);
            let mut values = |n: usize| -> Vec<f32> {
                (0..n).map(|_| (random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
            };
            let (x, w) = (values(m * k), values(n * k));
            let whole: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
            let half: Vec<u8> = w.iter().flat_map(|w| half::f16::from_f32(*w).to_le_bytes()).collect();
            for (name, source) in [("F32", Source::F32(&whole)), ("F16", Source::F16(&half))] {
                let weights = PackedMatrix::pack(source, n, k, 1, &threads).unwrap();
                let mut y = vec![0.0; m * n];
                let scratch: Vec<_> = (0..count).map(|_| Mutex::new(product::Scratch::default())).collect();
                let mut input = Interleaved::default();
                let product = Product::new(&weights, None, Finish::Store);
                let (mut seconds, mut peak) = (Vec::new(), 0.0_f64);
                for _ in 0..40 {
                    peak = peak.max(fma_flops(isa, &threads));
                    let start = Instant::now();
                    input.fill(isa, &threads, &x, k, None);
                    product.run(isa, &threads, &scratch, &input, Output::Rows(black_box(&mut y)));
                    seconds.push(start.elapsed().as_secs_f64());
                }
                seconds.sort_by(f64::total_cmp);
                let share = |seconds: f64| 2.0 * (m * n * k) as f64 / seconds / peak * 100.0;
                println!(
                    "{} {count} threads {m}x{n}x{k} {name}: median {:.1} %, best {:.1} % of {:.0} GFLOP/s",
                    isa.name(),
                    share(seconds[seconds.len() / 2]),
                    share(seconds[0]),
                    peak / 1e9
                );
            }
        }
    }
}
