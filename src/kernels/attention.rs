//! Attention of one head over one sequence.

use super::arch::tile::Tile;
use super::elementary::exp;
use super::lane::{Isa, LANES, Operation, largest, store_part, sum};
use super::pack::PANEL;
use super::product::{MAX_TILE_ROWS, accumulate, split};
use super::rotary::{RotaryTable, Rotate};

/// Queries that share one range of keys. Fixed, and counted from the start of the sequence, so that the keys a query
/// sees the products of do not depend on the tile of an instruction set.
const QUERY_BLOCK: usize = 16;

/// Scratch of one thread, grown to the longest sequence seen.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rotated queries, `[n, head]`.
    queries: Vec<f32>,
    /// Rotated keys in panels of 32 keys, each `[head, 32]`.
    keys: Vec<f32>,
    /// Values in panels of 32 columns of the head, each `[n padded, 32]`.
    values: Vec<f32>,
    /// Scores, then probabilities, of a block of queries, `[16, n padded]`.
    scores: Vec<f32>,
    /// Interleaved rows for the inner product.
    rows: Vec<f32>,
    /// One rotated row.
    row: Vec<f32>,
}

/// `softmax(q k^T / sqrt(head)) v` for the queries, keys and values of one head.
pub struct Head<'a, 'b> {
    /// Rows `[q | k | v]` of the sequence, `[n, 3 d]`.
    pub qkv: &'a [f32],
    /// Width of the model, `d`.
    pub width: usize,
    /// First column of the head inside `q`.
    pub column: usize,
    /// Width of the head.
    pub head: usize,
    /// Rotary table covering `n` positions; none in the decision head.
    pub rotary: Option<&'a RotaryTable>,
    /// Keys further than this from the query have weight zero; none on global layers.
    pub radius: Option<usize>,
    /// Where the head's columns of the result go, `[n, head]`.
    pub out: &'a mut Tile<'b>,
    /// Scratch of the thread.
    pub scratch: &'a mut Scratch,
}

impl Operation for Head<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(mut self, isa: I) {
        let n = self.out.rows().len();
        self.gather(isa, n);
        for from in (0..n).step_by(QUERY_BLOCK) {
            self.block(isa, n, from, (from + QUERY_BLOCK).min(n));
        }
    }
}

impl Head<'_, '_> {
    /// Rotates queries and keys and lays keys and values out in panels.
    #[inline(always)]
    fn gather<I: Isa>(&mut self, isa: I, n: usize) {
        let head = self.head;
        let padded = n.next_multiple_of(PANEL);
        let scratch = &mut *self.scratch;
        resize(&mut scratch.queries, n * head);
        resize(&mut scratch.keys, padded * head);
        resize(&mut scratch.values, head.next_multiple_of(PANEL) * padded);
        resize(&mut scratch.scores, QUERY_BLOCK * padded);
        resize(&mut scratch.rows, MAX_TILE_ROWS * padded.max(head));
        resize(&mut scratch.row, head);
        for (t, row) in self.qkv.chunks_exact(3 * self.width).enumerate() {
            let part = |i: usize| &row[i * self.width + self.column..][..head];
            let query = &mut scratch.queries[t * head..][..head];
            match self.rotary {
                Some(table) => {
                    let (cos, sin) = table.at(t);
                    Rotate { x: part(0), cos, sin, out: query }.run(isa);
                    Rotate { x: part(1), cos, sin, out: &mut scratch.row }.run(isa);
                }
                None => {
                    query.copy_from_slice(part(0));
                    scratch.row.copy_from_slice(part(1));
                }
            }
            let panel = &mut scratch.keys[t / PANEL * PANEL * head + t % PANEL..];
            panel.iter_mut().step_by(PANEL).zip(&scratch.row).for_each(|(to, from)| *to = *from);
            for (p, piece) in part(2).chunks(PANEL).enumerate() {
                scratch.values[(p * padded + t) * PANEL..][..piece.len()].copy_from_slice(piece);
            }
        }
    }

    /// Scores, softmax and the weighted sum of values for the queries `from..to`.
    #[inline(always)]
    fn block<I: Isa>(&mut self, isa: I, n: usize, from: usize, to: usize) {
        let head = self.head;
        let padded = n.next_multiple_of(PANEL);
        let scale = 1.0 / (head as f32).sqrt();
        // The keys any query of a whole block sees: the same for every instruction set.
        let (low, high) = match self.radius {
            Some(radius) => {
                let first = from.saturating_sub(radius) / PANEL * PANEL;
                (first, (from + QUERY_BLOCK).saturating_add(radius).min(n))
            }
            None => (0, n),
        };
        let scratch = &mut *self.scratch;
        let mut sums = [[0.0; PANEL]; MAX_TILE_ROWS];
        for rows in split(to - from, I::TILE_ROWS) {
            let count = rows.len();
            let queries = &scratch.queries[(from + rows.start) * head..][..count * head];
            for (i, query) in queries.chunks_exact(head).enumerate() {
                scratch.rows[i..].iter_mut().step_by(count).zip(query).for_each(|(to, from)| *to = *from);
            }
            for first in (low..high).step_by(PANEL) {
                let keys = &scratch.keys[first * head..][..PANEL * head];
                accumulate(isa, &scratch.rows[..count * head], count, keys, &mut sums);
                for (i, sums) in sums[..count].iter().enumerate() {
                    scratch.scores[(rows.start + i) * padded + first..][..PANEL].copy_from_slice(sums);
                }
            }
        }
        for i in 0..to - from {
            let query = from + i;
            let seen = match self.radius {
                Some(radius) => query.saturating_sub(radius)..query.saturating_add(radius + 1).min(n),
                None => 0..n,
            };
            let scores = &mut scratch.scores[i * padded..][low..high.next_multiple_of(LANES).min(padded)];
            softmax(isa, scores, scale, seen.start - low..seen.end - low);
        }
        for rows in split(to - from, I::TILE_ROWS) {
            let count = rows.len();
            for i in 0..count {
                let weights = &scratch.scores[(rows.start + i) * padded..][low..high];
                scratch.rows[i..].iter_mut().step_by(count).zip(weights).for_each(|(to, from)| *to = *from);
            }
            for (p, column) in (0..head).step_by(PANEL).enumerate() {
                let values = &scratch.values[(p * padded + low) * PANEL..][..(high - low) * PANEL];
                accumulate(isa, &scratch.rows[..count * (high - low)], count, values, &mut sums);
                let width = PANEL.min(head - column);
                for (i, sums) in sums[..count].iter().enumerate() {
                    self.out.row_mut(from + rows.start + i)[column..column + width].copy_from_slice(&sums[..width]);
                }
            }
        }
    }
}

/// Softmax of `scale * scores` over `seen`; zero outside it. `scores` starts at a multiple of sixteen keys.
#[inline(always)]
fn softmax<I: Isa>(isa: I, scores: &mut [f32], scale: f32, seen: std::ops::Range<usize>) {
    scores[..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..].fill(f32::NEG_INFINITY);
    let (chunks, _) = scores.as_chunks_mut::<LANES>();
    let scale = isa.splat(scale);
    let mut top = isa.splat(f32::NEG_INFINITY);
    for chunk in chunks.iter_mut() {
        let x = isa.mul(isa.load(chunk), scale);
        top = isa.max(top, x);
        isa.store(x, chunk);
    }
    let top = isa.splat(largest(isa, top));
    let mut total = isa.splat(0.0);
    for chunk in chunks.iter_mut() {
        let e = exp(isa, isa.sub(isa.load(chunk), top));
        total = isa.add(total, e);
        isa.store(e, chunk);
    }
    let total = isa.splat(sum(isa, total));
    for chunk in chunks.iter_mut() {
        let p = isa.div(isa.load(chunk), total);
        store_part(isa, p, chunk);
    }
}

/// Makes `buffer` exactly `len` zeros, so that nothing of an earlier row is in the padding.
fn resize(buffer: &mut Vec<f32>, len: usize) {
    buffer.clear();
    buffer.resize(len, 0.0);
}
