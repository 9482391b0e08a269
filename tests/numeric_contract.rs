//! The numeric contract: every instruction set, any number of threads and any company give the bits of a plain loop.
//!
//! `cargo test --test numeric_contract -- --ignored` also walks all 2^32 floats through `exp` and `gelu`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod random;

use std::hint::black_box;

use laya::kernels::arch::tile::Tile;
use laya::kernels::attention::{Head, Scratch};
use laya::kernels::elementary::{Activate, Activation, AddInPlace, Gate, ReluInPlace, Widen, exp};
use laya::kernels::lane::{Isa, LANES, Operation};
use laya::kernels::norm::LayerNorm;
use laya::kernels::pack::Source;
use laya::kernels::product::product;
use laya::kernels::rotary::{RotaryTable, Rotate};
use laya::kernels::scalar::fused_multiply_add;
use laya::kernels::{InstructionSet, PackedMatrix, Threads};
use random::SplitMix64 as Random;

impl Random {
    /// In [-1, 1).
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn values(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.unit() * scale).collect()
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn sets() -> Vec<InstructionSet> {
    let sets = InstructionSet::available();
    let names: Vec<_> = sets.iter().map(|set| set.name()).collect();
    let missing: Vec<_> = InstructionSet::NAMES.iter().filter(|name| !names.contains(name)).collect();
    println!("instruction sets that run here: {names:?}; not on this processor: {missing:?}");
    sets
}

struct Exp<'a>(&'a mut [f32]);
impl Operation for Exp<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for chunk in self.0.as_chunks_mut::<LANES>().0 {
            isa.store(exp(isa, isa.load(chunk)), chunk);
        }
    }
}

/// Distance in units in the last place of the correctly rounded value.
fn ulp(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got == nearest || (got.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    let next = f32::from_bits(nearest.abs().to_bits() + 1);
    (f64::from(got) - exact).abs() / f64::from(next - nearest.abs())
}

fn exact_gelu(x: f32) -> f64 {
    let x = f64::from(x);
    0.5 * x * libm_erfc(-x / std::f64::consts::SQRT_2)
}

fn libm_erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// Worst error of `exp` and `gelu` over the floats whose bits are `from`, `from + step`, ...
fn worst(isa: InstructionSet, from: u32, to: u64, step: usize) -> (f64, f64) {
    let (mut worst_exp, mut worst_gelu) = (0.0_f64, 0.0_f64);
    let mut buffer = vec![0.0_f32; 4096];
    let mut at = u64::from(from);
    while at < to {
        let inputs: Vec<f32> =
            (0..buffer.len()).map(|i| f32::from_bits((at + (i * step) as u64).min(to - 1) as u32)).collect();
        at += (buffer.len() * step) as u64;
        buffer.copy_from_slice(&inputs);
        isa.run(Exp(&mut buffer));
        for (x, y) in inputs.iter().zip(&buffer) {
            let exact = libm::exp(f64::from(*x));
            if x.is_nan() {
                assert!(y.is_nan(), "exp of NaN");
            } else if exact > f64::from(f32::MAX) {
                assert!(*y == f32::INFINITY || ulp(*y, exact) <= 1.0, "exp({x}) = {y}");
            } else {
                worst_exp = worst_exp.max(ulp(*y, exact));
            }
        }
        buffer.copy_from_slice(&inputs);
        isa.run(Activate(&mut buffer, Activation::Gelu));
        for (x, y) in inputs.iter().zip(&buffer) {
            if x.is_nan() {
                assert!(y.is_nan(), "gelu of NaN");
            } else if x.is_infinite() {
                assert!(*y == x.max(-0.0), "gelu({x}) = {y}");
            } else {
                assert!(
                    *x == 0.0 || *y == 0.0 || x.is_sign_negative() == y.is_sign_negative(),
                    "gelu keeps the sign: {x}"
                );
                let exact = exact_gelu(*x);
                // Below the normal range the result has no full precision to give: at most two smallest steps.
                if exact.abs() < f64::from(f32::MIN_POSITIVE) {
                    assert!((f64::from(*y) - exact).abs() <= 3e-44, "gelu({x}) = {y}, exactly {exact}");
                } else {
                    worst_gelu = worst_gelu.max(ulp(*y, exact));
                }
            }
        }
    }
    (worst_exp, worst_gelu)
}

#[test]
fn exp_and_gelu_are_within_their_bounds_on_a_sample_of_all_floats() {
    let (worst_exp, worst_gelu) = worst(InstructionSet::widest(), 0, 1 << 32, 1021);
    println!("worst error: exp {worst_exp:.3} ULP, gelu {worst_gelu:.3} ULP");
    assert!(worst_exp <= 1.0, "exp: {worst_exp} ULP");
    assert!(worst_gelu <= 7.0, "gelu: {worst_gelu} ULP");
}

#[test]
#[ignore = "walks all 2^32 floats: minutes"]
fn exp_and_gelu_are_within_their_bounds_on_all_floats() {
    let parts: Vec<_> = std::thread::scope(|scope| {
        (0..4_u64)
            .map(|i| scope.spawn(move || worst(InstructionSet::widest(), (i << 30) as u32, (i + 1) << 30, 1)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|part| part.join().unwrap())
            .collect()
    });
    let worst_exp = parts.iter().fold(0.0_f64, |a, p| a.max(p.0));
    let worst_gelu = parts.iter().fold(0.0_f64, |a, p| a.max(p.1));
    println!("worst error over all floats: exp {worst_exp:.4} ULP, gelu {worst_gelu:.4} ULP");
    assert!(worst_exp <= 1.0 && worst_gelu <= 7.0);
}

#[test]
fn a_multiply_add_is_rounded_once() {
    // Sums whose `f64` value lies exactly between two floats: the exact sum is just beside it, so that rounding to `f64`
    // first goes to the wrong neighbour.
    let half_step = 2_f32.powi(-12);
    for (a, b, c, exact) in [
        (1.0 + half_step, half_step, 1.0, 1.0 + 2.0_f32.powi(-12)),
        (half_step, half_step, 1.0_f32, 1.0),
        (1.0 + f32::EPSILON, 1.0 + f32::EPSILON, 0.0, 1.0 + 2.0 * f32::EPSILON),
        (f32::from_bits(0x3f80_0001), f32::from_bits(0x3f00_0000), -0.5, f32::EPSILON / 2.0),
        (1.0, 2_f32.powi(-24), f32::from_bits(0x3f80_0001), f32::from_bits(0x3f80_0002)),
        (1.0 - f32::EPSILON, 2_f32.powi(-24), f32::from_bits(0x3f80_0001), f32::from_bits(0x3f80_0001)),
        (1.0 - 2_f32.powi(-24), 2_f32.powi(-24), f32::from_bits(0x3f80_0001), f32::from_bits(0x3f80_0001)),
    ] {
        assert_eq!(fused_multiply_add(a, b, c).to_bits(), exact.to_bits(), "{a} * {b} + {c}");
    }
    let mut random = Random(9);
    for _ in 0..200_000 {
        let [a, b, c] = std::array::from_fn(|_| f32::from_bits(random.next() as u32));
        let (ours, theirs) = (fused_multiply_add(a, b, c), a.mul_add(b, c));
        assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()), "{a} * {b} + {c}");
    }
}

#[test]
fn rotary_angles_are_torchs() {
    // Cosine and sine of torch 2.15 in float32 for the frequency pairs 0, 1, 5 and the last of a head.
    type Expected = [(f32, f32); 4];
    let cases: [(f32, usize, usize, Expected); 6] = [
        (
            160_000.0,
            64,
            1,
            [(0.540_302_3, 0.841_471), (0.772_735_9, 0.634_727_66), (0.988_201_5, 0.153_159_35), (1.0, 0.000_009_09)],
        ),
        (
            160_000.0,
            64,
            511,
            [
                (-0.471_678_88, 0.881_770_4),
                (0.893_312_16, -0.449_436_78),
                (-0.999_426_25, -0.033_869_5),
                (0.999_989_2, 0.004_644_38),
            ],
        ),
        (
            160_000.0,
            64,
            8191,
            [
                (-0.646_390_5, -0.763_006_8),
                (-0.959_715_7, 0.280_972_78),
                (-0.957_329_6, 0.288_998_43),
                (0.997_230_1, 0.074_378),
            ],
        ),
        (
            10_000.0,
            64,
            1023,
            [
                (0.400_068_2, -0.916_485_4),
                (0.829_168_8, 0.558_998_3),
                (-0.771_953_4, -0.635_679_1),
                (0.990_709_3, 0.135_996_52),
            ],
        ),
        (
            10_000.0,
            64,
            8191,
            [
                (-0.646_390_5, -0.763_006_8),
                (-0.842_082_8, -0.539_348_3),
                (0.631_096_84, 0.775_704),
                (0.460_456_07, 0.887_682_5),
            ],
        ),
        (
            10_000.0,
            16,
            511,
            [
                (-0.471_678_88, 0.881_770_4),
                (-0.198_306_4, -0.980_140_1),
                (-0.045_112_36, 0.998_981_9),
                (0.986_972_33, 0.160_890_06),
            ],
        ),
    ];
    for (base, head, position, expected) in cases {
        let table = RotaryTable::new(position + 1, head, base);
        let (cos, sin) = table.at(position);
        for (t, (c, s)) in [0, 1, 5, head / 2 - 1].into_iter().zip(expected) {
            // One step of a frequency is 6e-8 of the angle, and an angle may be 8191.
            assert!((cos[t] - c).abs() < 2e-6 && (sin[t] - s).abs() < 2e-6, "base {base} position {position} pair {t}");
        }
    }
    // Halves, not neighbours, are rotated together; the first by -sin.
    let mut out = [0.0; 4];
    InstructionSet::scalar().run(Rotate {
        x: &[1.0, 2.0, 3.0, 4.0],
        cos: &[0.0, 0.5],
        sin: &[1.0, 0.25],
        out: &mut out,
    });
    assert_eq!(out, [-3.0, 0.0, 1.0, 2.5]);
}

#[test]
fn elementary_operations_have_the_scalar_bits() {
    let mut random = Random(1);
    let mut inputs: Vec<f32> = (0..60_000).map(|_| f32::from_bits(random.next() as u32)).collect();
    inputs.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        -1e-45,
        88.7,
        -103.9,
        -104.1,
    ]);
    inputs.extend((0..30_000).map(|_| random.unit() * 20.0));
    inputs.truncate(inputs.len() / LANES * LANES);
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let of = |isa: InstructionSet| {
        let mut out = Vec::new();
        let mut x = inputs.clone();
        isa.run(Exp(&mut x));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(Activate(&mut x, Activation::Gelu));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(ReluInPlace(&mut x));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(AddInPlace(&mut x, &inputs[1..]));
        out.push(x);
        for activation in [Activation::Gelu, Activation::GeluTanh] {
            let mut x = vec![0.0; inputs.len() / 2];
            isa.run(Gate { row: &inputs[..inputs.len() / 2 * 2], out: &mut x, activation });
            out.push(x);
        }
        let mut x = vec![0.0; halves.len()];
        isa.run(Widen(&halves, &mut x));
        out.push(x);
        // Payloads of NaN are not numbers: only that they are NaN is compared.
        out.concat().iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
    };
    let scalar = of(InstructionSet::scalar());
    for isa in sets() {
        assert_eq!(scalar, of(isa), "{}", isa.name());
    }
}

#[test]
fn a_product_has_the_bits_of_the_plain_loop() {
    let mut random = Random(2);
    for (m, n, k) in
        [(1, 1, 1), (1, 32, 64), (3, 33, 7), (6, 64, 100), (7, 31, 65), (15, 100, 32), (37, 96, 129), (340, 40, 17)]
    {
        let x = random.values(m * k, 3.0);
        let w = random.values(n * k, 1.0);
        let bias = random.values(n, 1.0);
        let w16: Vec<half::f16> = w.iter().map(|w| half::f16::from_f32(*w)).collect();
        let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
        let bytes16: Vec<u8> = w16.iter().flat_map(|w| w.to_bits().to_le_bytes()).collect();
        let plain = |w: &dyn Fn(usize) -> f32, bias: Option<&[f32]>| -> Vec<f32> {
            let mut y = Vec::new();
            for i in 0..m {
                for j in 0..n {
                    let mut sum = 0.0_f32;
                    for t in 0..k {
                        sum = x[i * k + t].mul_add(w(j * k + t), sum);
                    }
                    y.push(bias.map_or(sum, |bias| sum + bias[j]));
                }
            }
            y
        };
        let expected = [plain(&|i| w[i], None), plain(&|i| w[i], Some(&bias)), plain(&|i| w16[i].to_f32(), None)];
        for isa in sets() {
            for count in [1, 2, 3] {
                let threads = Threads::new(count).unwrap();
                let packed = PackedMatrix::pack(Source::F32(&bytes), n, k, &threads).unwrap();
                let packed16 = PackedMatrix::pack(Source::F16(&bytes16), n, k, &threads).unwrap();
                let cases = [(&packed, None), (&packed, Some(bias.as_slice())), (&packed16, None)];
                for ((weights, bias), expected) in cases.into_iter().zip(&expected) {
                    let mut y = vec![f32::NAN; m * n];
                    product(isa, &threads, &x, weights, bias, &mut y);
                    assert_eq!(bits(&y), bits(expected), "{} {count} threads {m}x{n}x{k}", isa.name());
                }
            }
        }
    }
}

/// The plain reading of the contract's rules for attention, in scalar loops.
fn plain_attention(
    qkv: &[f32],
    width: usize,
    head: usize,
    table: Option<&RotaryTable>,
    radius: Option<usize>,
) -> Vec<f32> {
    let n = qkv.len() / (3 * width);
    let rotate = |t: usize, x: &[f32]| -> Vec<f32> {
        let Some(table) = table else { return x.to_vec() };
        let mut out = vec![0.0; head];
        let (cos, sin) = table.at(t);
        InstructionSet::scalar().run(Rotate { x, cos, sin, out: &mut out });
        out
    };
    let mut result = vec![0.0; n * width];
    for column in (0..width).step_by(head) {
        let part = |t: usize, i: usize| &qkv[t * 3 * width + i * width + column..][..head];
        let keys: Vec<Vec<f32>> = (0..n).map(|t| rotate(t, part(t, 1))).collect();
        for i in 0..n {
            let query = rotate(i, part(i, 0));
            let sees = |j: usize| radius.is_none_or(|radius| i.abs_diff(j) <= radius);
            let scale = 1.0 / (head as f32).sqrt();
            let scores: Vec<f32> = (0..n)
                .map(|j| keys[j].iter().zip(&query).fold(0.0_f32, |sum, (k, q)| q.mul_add(*k, sum)) * scale)
                .collect();
            let top = (0..n).filter(|j| sees(*j)).map(|j| scores[j]).fold(f32::NEG_INFINITY, f32::max);
            let mut weights: Vec<f32> =
                (0..n).map(|j| if sees(j) { scores[j] - top } else { f32::NEG_INFINITY }).collect();
            weights.resize(n.next_multiple_of(LANES), f32::NEG_INFINITY);
            InstructionSet::scalar().run(Exp(&mut weights));
            let mut lanes = [0.0_f32; LANES];
            weights.iter().enumerate().for_each(|(j, w)| lanes[j % LANES] += w);
            let mut half = LANES / 2;
            while half > 0 {
                (0..half).for_each(|l| lanes[l] += lanes[l + half]);
                half /= 2;
            }
            for c in 0..head {
                let sum = (0..n).fold(0.0_f32, |sum, j| (weights[j] / lanes[0]).mul_add(part(j, 2)[c], sum));
                result[i * width + column + c] = sum;
            }
        }
    }
    result
}

#[test]
fn attention_has_the_bits_of_the_plain_rules() {
    let mut random = Random(3);
    // One scratch for all, longest first too: nothing of an earlier row may be left in the padding.
    let mut scratch = Scratch::default();
    for (n, width, head, radius) in [
        (600, 64, 64, Some(64)),
        (1, 16, 8, None),
        (5, 64, 16, Some(1)),
        (70, 64, 64, None),
        (70, 96, 48, Some(8)),
        (131, 128, 64, Some(64)),
        (200, 64, 32, Some(16)),
        (33, 80, 40, Some(1000)),
    ] {
        let qkv = random.values(n * 3 * width, 2.0);
        for table in [None, Some(RotaryTable::new(n, head, 10_000.0))] {
            let expected = plain_attention(&qkv, width, head, table.as_ref(), radius);
            for isa in sets() {
                let mut out = vec![f32::NAN; n * width];
                let columns: Vec<_> = (0..width).step_by(head).map(|c| c..c + head).collect();
                for mut tile in Tile::cut(&mut out, width, std::slice::from_ref(&(0..n)), &columns) {
                    let column = tile.columns().start;
                    let rotary = table.as_ref();
                    let scratch = &mut scratch;
                    isa.run(Head { qkv: &qkv, width, column, head, rotary, radius, out: &mut tile, scratch });
                }
                assert_eq!(bits(&out), bits(&expected), "{} n {n} head {head} radius {radius:?}", isa.name());
            }
        }
    }
}

#[test]
fn layer_norm_has_the_bits_of_the_plain_rules() {
    let mut random = Random(4);
    for d in [1, 5, 16, 32, 40, 64, 100, 768] {
        let mut x = random.values(d, 5.0);
        x[0] = 1.4e4;
        let (weight, bias) = (random.values(d, 2.0), random.values(d, 2.0));
        for bias in [None, Some(bias.as_slice())] {
            let tree = |terms: &dyn Fn(usize, f32) -> f32| {
                let mut lanes = [0.0_f32; LANES];
                (0..d).for_each(|i| lanes[i % LANES] = terms(i, lanes[i % LANES]));
                let mut half = LANES / 2;
                while half > 0 {
                    (0..half).for_each(|l| lanes[l] += lanes[l + half]);
                    half /= 2;
                }
                lanes[0]
            };
            let mean = tree(&|i, sum| sum + x[i]) / d as f32;
            let variance = tree(&|i, sum| (x[i] - mean).mul_add(x[i] - mean, sum)) / d as f32;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            let expected: Vec<f32> = (0..d)
                .map(|i| {
                    let y = (x[i] - mean) * scale;
                    bias.map_or(y * weight[i], |bias| y.mul_add(weight[i], bias[i]))
                })
                .collect();
            for isa in sets() {
                let mut out = vec![f32::NAN; d];
                isa.run(LayerNorm { x: &x, weight: &weight, bias, epsilon: 1e-5, out: &mut out });
                assert_eq!(bits(&out), bits(&expected), "{} d {d}", isa.name());
            }
        }
    }
}

/// How fast the product runs; prints, asserts nothing.
#[test]
#[ignore = "a measurement: run with --release --nocapture"]
fn product_speed() {
    for isa in InstructionSet::available().into_iter().filter(|isa| isa.name() != "scalar") {
        for count in [1, 2] {
            let threads = Threads::new(count).unwrap();
            for (m, n, k) in [(64, 2304, 768), (220, 2304, 768), (480, 768, 1152), (1024, 2304, 768)] {
                let mut random = Random(5);
                let x = random.values(m * k, 1.0);
                let bytes: Vec<u8> =
                    (0..n * k).flat_map(|_| half::f16::from_f32(random.unit()).to_bits().to_le_bytes()).collect();
                let weights = PackedMatrix::pack(Source::F16(&bytes), n, k, &threads).unwrap();
                let mut y = vec![0.0; m * n];
                let mut best = f64::INFINITY;
                for _ in 0..10 {
                    let start = std::time::Instant::now();
                    product(isa, &threads, &x, &weights, None, black_box(&mut y));
                    best = best.min(start.elapsed().as_secs_f64());
                }
                let rate = 2.0 * (m * n * k) as f64 / best / 1e9;
                println!("{} {count} threads {m}x{n}x{k} F16: {rate:.0} GFLOP/s", isa.name());
            }
        }
    }
}
