//! The matrix product: one fused multiply-add per input, in ascending order, into one accumulator.

use std::ops::Range;

use super::arch::tile::Tile;
use super::elementary::Widen;
use super::isa::InstructionSet;
use super::lane::{Isa, LANES, Operation};
use super::pack::{PANEL, PackedMatrix, Values};
use super::thread::Threads;

/// Rows of activations that share one widening of a weight panel, so that they stay in the second-level cache.
const BLOCK_ROWS: usize = 336;

/// `y[m][n] = sum over k of x[m][k] * w[n][k]`, plus `bias[n]` when there is one (added last, rounded once more).
///
/// `x` is `[m, k]`, `y` is `[m, n]`, both row-major. The order of the sum is the numeric contract's, so the result does
/// not depend on the instruction set, the threads or the other rows.
///
/// # Panics
/// The sizes do not agree: a mistake of the caller, who validated the shapes when the model was loaded.
pub fn product(
    isa: InstructionSet,
    threads: &Threads,
    x: &[f32],
    weights: &PackedMatrix,
    bias: Option<&[f32]>,
    y: &mut [f32],
) {
    let (n, k) = (weights.n(), weights.k());
    let m = x.len() / k;
    assert!(x.len() == m * k && y.len() == m * n && bias.is_none_or(|bias| bias.len() == n), "sizes do not agree");
    if m == 0 {
        return;
    }
    let tile_rows = isa.run(TileRows);
    let row_blocks = split(m, BLOCK_ROWS);
    let column_blocks: Vec<_> = (0..n).step_by(PANEL).map(|from| from..(from + PANEL).min(n)).collect();

    // Activations in the order the inner loop reads them: tile after tile, each with its rows interleaved.
    let mut packed = vec![0.0; m * k];
    let mut rest = packed.as_mut_slice();
    let mut pack_tasks = Vec::new();
    for block in &row_blocks {
        for rows in split(block.len(), tile_rows) {
            let (tile, after) = rest.split_at_mut(rows.len() * k);
            rest = after;
            pack_tasks.push((block.start + rows.start, rows.len(), tile));
        }
    }
    threads.for_each(pack_tasks, || (), |(), (from, rows, tile)| interleave(&x[from * k..], rows, k, tile));

    let tiles = Tile::cut(y, n, &row_blocks, &column_blocks);
    threads.for_each(tiles, Vec::<f32>::new, |scratch, mut tile| {
        let panel = tile.columns().start / PANEL * PANEL * k..(tile.columns().start / PANEL + 1) * PANEL * k;
        let weights = match weights.values() {
            Values::F32(values) => &values[panel],
            Values::F16(values) => {
                scratch.resize(PANEL * k, 0.0);
                isa.run(Widen(&values[panel], scratch));
                scratch.as_slice()
            }
        };
        let rows = tile.rows();
        let bias = bias.map(|bias| &bias[tile.columns()]);
        isa.run(Panel { x: &packed[rows.start * k..rows.end * k], k, weights, bias, out: &mut tile });
    });
}

/// Rows of a tile on an instruction set.
struct TileRows;

impl Operation for TileRows {
    type Output = usize;
    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> usize {
        I::TILE_ROWS
    }
}

/// `0..total` in the fewest pieces of at most `largest`, as even as possible so that no piece is nearly empty.
pub(super) fn split(total: usize, largest: usize) -> Vec<Range<usize>> {
    let pieces = total.div_ceil(largest);
    (0..pieces).map(|i| i * total / pieces..(i + 1) * total / pieces).collect()
}

/// `[rows, k]` to `[k, rows]`.
fn interleave(x: &[f32], rows: usize, k: usize, tile: &mut [f32]) {
    for (i, row) in x.chunks_exact(k).take(rows).enumerate() {
        tile[i..].iter_mut().step_by(rows).zip(row).for_each(|(to, from)| *to = *from);
    }
}

/// The rows of a block times one panel of weights.
struct Panel<'a, 'b> {
    /// Interleaved tiles, `[rows, k]` values in all.
    x: &'a [f32],
    k: usize,
    /// `[k, 32]`.
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
    out: &'a mut Tile<'b>,
}

impl Operation for Panel<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let mut sums = [[0.0; PANEL]; MAX_TILE_ROWS];
        let mut done = 0;
        for rows in split(self.out.rows().len(), I::TILE_ROWS) {
            let x = &self.x[rows.start * self.k..rows.end * self.k];
            accumulate(isa, x, rows.len(), self.weights, &mut sums);
            for sums in &sums[..rows.len()] {
                let out = self.out.row_mut(done);
                done += 1;
                match self.bias {
                    Some(bias) => out.iter_mut().zip(sums).zip(bias).for_each(|((out, sum), bias)| *out = sum + bias),
                    None => out.copy_from_slice(&sums[..out.len()]),
                }
            }
        }
    }
}

/// The most rows any instruction set has in a tile.
pub(super) const MAX_TILE_ROWS: usize = 14;

/// `sums[i][j] = sum over k of x[k][i] * weights[k][j]` for `rows` rows and the 32 outputs of a panel.
#[inline(always)]
pub(super) fn accumulate<I: Isa>(
    isa: I,
    x: &[f32],
    rows: usize,
    weights: &[f32],
    sums: &mut [[f32; PANEL]; MAX_TILE_ROWS],
) {
    if I::TILE_VECTORS == 2 {
        tile_of::<I, 2>(isa, x, rows, weights, 0, sums);
    } else {
        tile_of::<I, 1>(isa, x, rows, weights, 0, sums);
        tile_of::<I, 1>(isa, x, rows, weights, 1, sums);
    }
}

/// Picks the tile of exactly `rows` rows.
#[inline(always)]
fn tile_of<I: Isa, const VECTORS: usize>(
    isa: I,
    x: &[f32],
    rows: usize,
    weights: &[f32],
    first: usize,
    sums: &mut [[f32; PANEL]; MAX_TILE_ROWS],
) {
    macro_rules! pick {
        ($($rows:literal)*) => {
            match rows {
                $($rows if $rows <= I::TILE_ROWS => tile::<I, $rows, VECTORS>(isa, x, weights, first, sums),)*
                // `split` gives no other count, and a tile of the wrong size must not leave stale sums.
                rows => unreachable!("a tile of {rows} rows"),
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
}

/// `ROWS x (16 VECTORS)` accumulators in registers over the whole of `k`.
#[inline(always)]
fn tile<I: Isa, const ROWS: usize, const VECTORS: usize>(
    isa: I,
    x: &[f32],
    weights: &[f32],
    first: usize,
    sums: &mut [[f32; PANEL]; MAX_TILE_ROWS],
) {
    let mut sum = [[isa.splat(0.0); VECTORS]; ROWS];
    let (x, _) = x.as_chunks::<ROWS>();
    let (weights, _) = weights.as_chunks::<PANEL>();
    for (x, w) in x.iter().zip(weights) {
        let (w, _) = w.as_chunks::<LANES>();
        let w: [I::V; VECTORS] = std::array::from_fn(|v| isa.load(&w[first + v]));
        for i in 0..ROWS {
            let x = isa.splat(x[i]);
            for v in 0..VECTORS {
                sum[i][v] = isa.fma(x, w[v], sum[i][v]);
            }
        }
    }
    for i in 0..ROWS {
        let (to, _) = sums[i].as_chunks_mut::<LANES>();
        for v in 0..VECTORS {
            isa.store(sum[i][v], &mut to[first + v]);
        }
    }
}
