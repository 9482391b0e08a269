//! The numeric contract: every instruction set, any number of threads and any company give the bits of a plain loop.
//!
//! `cargo test --test numeric_contract -- --ignored` also walks all 2^32 floats through `exp` and `gelu`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod random;

use std::ops::Range;
use std::sync::Mutex;

use laya::kernels::arch::tile::Tile;
use laya::kernels::attention::{Columns, Head, Scratch};
use laya::kernels::elementary::{Activate, Activation, AddInPlace, exp};
use laya::kernels::lane::{Isa, LANES, Operation};
use laya::kernels::norm::{LayerNorm, Norm};
use laya::kernels::pack::{Panel, Source, Widen};
use laya::kernels::product::{self, Finish, Output};
use laya::kernels::rotary::{RotaryTable, Rotate};
use laya::kernels::scalar::fused_multiply_add;
use laya::kernels::{InstructionSet, Interleaved, PackedMatrix, Product, Threads};
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
    let mut x = [1.0, 2.0, 3.0, 4.0];
    InstructionSet::scalar().run(Rotate { x: &mut x, cos: &[0.0, 0.5], sin: &[1.0, 0.25] });
    assert_eq!(x, [-3.0, 0.0, 1.0, 2.5]);
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
    let quants: Vec<i8> = (0..halves.len() * 32).map(|i| (i * 7 + i / 256) as i8).collect();
    let of = |isa: InstructionSet| {
        let mut out = Vec::new();
        let mut x = inputs.clone();
        isa.run(Exp(&mut x));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(Activate(&mut x, Activation::Gelu));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(AddInPlace(&mut x, &inputs[1..]));
        out.push(x);
        let mut x = inputs.clone();
        isa.run(Activate(&mut x, Activation::GeluTanh));
        out.push(x);
        let mut x = Vec::new();
        isa.run(Widen(Panel::F16(&halves), &mut x));
        out.push(x);
        let mut x = Vec::new();
        isa.run(Widen(Panel::Q8_0 { quants: &quants, scales: &halves }, &mut x));
        out.push(x);
        let mut x = vec![0.0; 16 * 6];
        isa.run(Transpose(&inputs[..96], &mut x));
        out.push(x);
        // Payloads of NaN are not numbers: only that they are NaN is compared.
        out.concat().iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
    };
    let scalar = of(InstructionSet::scalar());
    for isa in sets() {
        assert_eq!(scalar, of(isa), "{}", isa.name());
    }
}

/// Sixteen lanes of six rows, transposed.
struct Transpose<'a>(&'a [f32], &'a mut [f32]);
impl Operation for Transpose<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (rows, _) = self.0.as_chunks::<LANES>();
        let rows: [I::V; 6] = std::array::from_fn(|i| isa.load(&rows[i]));
        isa.store_interleaved(&rows, self.1);
    }
}

fn le_bytes<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(bytes).collect()
}

/// Q8_0 blocks of random scales and bytes, and the values they stand for: `[n, k]`, and `k` is whole blocks.
fn quantized(random: &mut Random, n: usize, k: usize) -> (Vec<u8>, Vec<f32>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for _ in 0..n * k / 32 {
        let scale = half::f16::from_f32(random.unit() / 64.0);
        bytes.extend(scale.to_le_bytes());
        for _ in 0..32 {
            let quant = random.next() as i8;
            bytes.push(quant as u8);
            values.push(scale.to_f32() * f32::from(quant));
        }
    }
    (bytes, values)
}

fn run(isa: InstructionSet, threads: &Threads, x: &[f32], product: Product<'_>, y: Output<'_>) {
    let scratch: Vec<_> = (0..threads.count()).map(|_| Mutex::new(product::Scratch::default())).collect();
    let mut input = Interleaved::default();
    input.fill(isa, threads, x, product.weights.k(), None);
    product.run(isa, threads, &scratch, &input, y);
}

/// `v = sum over k of x[m][k] * w[n][k] + bias[n]`, in the loop of the contract.
fn plain_product(x: &[f32], w: &[f32], k: usize, bias: Option<&[f32]>) -> Vec<f32> {
    let n = w.len() / k;
    let sum = |x: &[f32], w: &[f32]| x.iter().zip(w).fold(0.0_f32, |sum, (x, w)| x.mul_add(*w, sum));
    x.chunks(k).flat_map(|x| (0..n).map(move |j| sum(x, &w[j * k..][..k]) + bias.map_or(0.0, |bias| bias[j]))).collect()
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
        let (bytes, bytes16) = (le_bytes(&w, |w| w.to_le_bytes()), le_bytes(&w16, |w| w.to_le_bytes()));
        let widened: Vec<f32> = w16.iter().map(|w| w.to_f32()).collect();
        let mut cases = vec![
            (Source::F32(&bytes), plain_product(&x, &w, k, None), None),
            (Source::F32(&bytes), plain_product(&x, &w, k, Some(&bias)), Some(bias.as_slice())),
            (Source::F16(&bytes16), plain_product(&x, &widened, k, None), None),
        ];
        let (bytes8, values8) = quantized(&mut random, n, k.next_multiple_of(32));
        if k.is_multiple_of(32) {
            cases.push((Source::Q8_0(&bytes8), plain_product(&x, &values8, k, Some(&bias)), Some(&bias)));
        }
        for isa in sets() {
            for count in [1, 2, 3] {
                let threads = Threads::new(count).unwrap();
                for (source, expected, bias) in &cases {
                    let weights = PackedMatrix::pack(*source, n, k, 1, &threads).unwrap();
                    let mut y = vec![f32::NAN; m * n];
                    run(isa, &threads, &x, Product::new(&weights, *bias, Finish::Store), Output::Rows(&mut y));
                    assert_eq!(bits(&y), bits(expected), "{} {count} threads {m}x{n}x{k}", isa.name());
                }
            }
        }
    }
}

#[test]
fn what_follows_a_product_has_the_bits_of_separate_steps() {
    let mut random = Random(7);
    for (m, n, k) in [(1, 2, 3), (5, 48, 16), (13, 70, 20), (29, 66, 33), (100, 32, 8)] {
        let x = random.values(m * k, 2.0);
        let (w, bias, before) = (random.values(n * k, 1.0), random.values(n, 1.0), random.values(m * n, 3.0));
        let bytes = le_bytes(&w, |w| w.to_le_bytes());
        let half = n / 2;
        for bias in [None, Some(bias.as_slice())] {
            let v = plain_product(&x, &w, k, bias);
            let activated = |activation| {
                let mut v = v.clone();
                v.resize(v.len().next_multiple_of(LANES), 0.0);
                InstructionSet::scalar().run(Activate(&mut v, activation));
                v.truncate(m * n);
                v
            };
            let relu = v.iter().map(|v| if 0.0 > *v { 0.0 } else { *v }).collect();
            let gate = |activation| {
                let gates = activated(activation);
                (0..m * half).map(|i| gates[i / half * n + i % half] * v[i / half * n + half + i % half]).collect()
            };
            let cases: [(Finish, Vec<f32>); 6] = [
                (Finish::Add, before.iter().zip(&v).map(|(before, v)| before + v).collect()),
                (Finish::Relu, relu),
                (Finish::Activate(Activation::Gelu), activated(Activation::Gelu)),
                (Finish::Activate(Activation::GeluTanh), activated(Activation::GeluTanh)),
                (Finish::Gate(Activation::Gelu), gate(Activation::Gelu)),
                (Finish::Gate(Activation::GeluTanh), gate(Activation::GeluTanh)),
            ];
            for isa in sets() {
                let threads = Threads::new(2).unwrap();
                let weights = PackedMatrix::pack(Source::F32(&bytes), n, k, 2, &threads).unwrap();
                for (finish, expected) in &cases {
                    let product = Product::new(&weights, bias, *finish);
                    let what = format!("{} {finish:?} {m}x{n}x{k} bias {}", isa.name(), bias.is_some());
                    let mut y = before[..expected.len()].to_vec();
                    run(isa, &threads, &x, product, Output::Rows(&mut y));
                    assert_eq!(bits(&y), bits(expected), "{what}");
                    if *finish == Finish::Add {
                        continue;
                    }
                    let mut y = Interleaved::default();
                    y.reserve(isa, m, product.n_outputs());
                    run(isa, &threads, &x, product, Output::Interleaved(&mut y));
                    let width = product.n_outputs();
                    let rows: Vec<f32> = (0..m * width).map(|i| y.get(i / width, i % width).unwrap()).collect();
                    assert_eq!(bits(&rows), bits(expected), "{what}, interleaved");
                }
                // The second part alone.
                let mut y = vec![f32::NAN; m * half];
                run(
                    isa,
                    &threads,
                    &x,
                    Product::new(&weights, bias, Finish::Store).of_parts(1, 2),
                    Output::Rows(&mut y),
                );
                let expected: Vec<f32> = (0..m * half).map(|i| v[i / half * n + half + i % half]).collect();
                assert_eq!(bits(&y), bits(&expected), "{} second part", isa.name());
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
        let mut x = x.to_vec();
        let (cos, sin) = table.at(t);
        InstructionSet::scalar().run(Rotate { x: &mut x, cos, sin });
        x
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

/// The `columns` of a row-major matrix in panels of sixteen, `[panels, rows, 16]`, among rows of other sequences.
fn to_panels(matrix: &[f32], columns: Range<usize>, stride: usize) -> Vec<f32> {
    let n = matrix.len() / stride;
    let mut panels = vec![f32::NAN; columns.len().next_multiple_of(LANES) * (n + 2)];
    for t in 0..n {
        for (c, column) in columns.clone().enumerate() {
            panels[(c / LANES * (n + 2) + 1 + t) * LANES + c % LANES] = matrix[t * stride + column];
        }
    }
    panels
}

#[test]
fn attention_has_the_bits_of_the_plain_rules() {
    // The last number is the largest value: above about 6 some exponentials are subnormal or zero.
    check_attention(&[
        (70, 64, 64, None, 2.0),
        (1, 16, 8, None, 2.0),
        (5, 64, 16, Some(1), 2.0),
        (70, 64, 64, None, 9.0),
        (70, 96, 48, Some(8), 6.0),
        (131, 128, 64, Some(64), 2.0),
        (200, 64, 32, Some(16), 2.0),
        (33, 80, 40, Some(1000), 30.0),
    ]);
}

#[test]
fn attention_over_long_rows_has_the_bits_of_the_plain_rules() {
    check_attention(&[(1100, 64, 64, None, 2.0), (600, 64, 64, Some(64), 2.0), (300, 64, 64, Some(64), 12.0)]);
}

/// Queries and keys, width, head, radius and largest value.
type AttentionCase = (usize, usize, usize, Option<usize>, f32);

fn check_attention(cases: &[AttentionCase]) {
    let mut random = Random(3);
    // One scratch for all, longest first too: nothing of an earlier row may be left in the padding.
    let mut scratch = Scratch::default();
    for &(n, width, head, radius, largest) in cases {
        let qkv = random.values(n * 3 * width, largest);
        for table in [None, Some(RotaryTable::new(n, head, 10_000.0))] {
            let expected = plain_attention(&qkv, width, head, table.as_ref(), radius);
            let panels = [0, 1, 2].map(|part| to_panels(&qkv, part * width..(part + 1) * width, 3 * width));
            for isa in sets() {
                let mut out = vec![f32::NAN; n * width];
                let columns: Vec<_> = (0..width).step_by(head).map(|c| c..c + head).collect();
                // In two pieces, the first of which may be empty.
                for mut tile in Tile::cut(&mut out, width, &[0..n / 3, n / 3..n], &columns) {
                    let (column, first_query) = (tile.columns().start, tile.rows().start);
                    let (rotary, scratch) = (table.as_ref(), &mut scratch);
                    let [queries, keys, values] =
                        [0, 1, 2].map(|part| Columns { panels: &panels[part], rows: n + 2, first: 1, column });
                    let out = &mut tile;
                    isa.run(Head { queries, first_query, keys, values, n_keys: n, head, rotary, radius, out, scratch });
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
                let norm = Norm { weight: &weight, bias, epsilon: 1e-5 };
                isa.run(LayerNorm { x: &x, norm, out: &mut out });
                assert_eq!(bits(&out), bits(&expected), "{} d {d}", isa.name());
            }
        }
    }
}
