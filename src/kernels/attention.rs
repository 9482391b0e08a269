//! Attention of one head over one sequence.

use std::ops::Range;

use super::arch::tile::Tile;
use super::elementary::exp;
use super::interleave::{interleave, interleave_rows, split};
use super::lane::{Isa, LANES, Operation, largest, load_part, sum};
use super::pack::PANEL;
use super::product::Accumulate;
use super::rotary::{RotaryTable, Rotate};

/// Most queries that share one range of keys: whole tiles of the instruction sets that run here, and few enough that
/// their scores stay in the second-level cache.
const QUERY_BLOCK: usize = 24;

/// Keys whose values stay in the second-level cache while a block of queries takes them in.
const KEY_BLOCK: usize = 1024;

/// Scratch of one thread, grown to the longest sequence seen.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rotated keys in panels of 16 keys, each `[head, 16]`.
    keys: Vec<f32>,
    /// Values in panels of 16 columns of the head, each `[n_keys, 16]`.
    values: Vec<f32>,
    block: Block,
}

/// What a block of queries needs.
#[derive(Debug, Default)]
struct Block {
    /// Rotated rows, `[16, head]`.
    rows: Vec<f32>,
    /// Queries, the tiles `[head, rows]` one after the other.
    queries: Vec<f32>,
    /// Scores, `[24, keys]`.
    scores: Vec<f32>,
    /// Probabilities, the tiles `[keys, rows]` one after the other.
    weights: Vec<f32>,
    /// Weighted sums of values, `[24, head padded]`.
    sums: Vec<f32>,
}

impl Scratch {
    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        let Self { keys, values, block: Block { rows, queries, scores, weights, sums } } = self;
        [keys, values, rows, queries, scores, weights, sums].iter().map(|v| v.capacity() * size_of::<f32>()).sum()
    }
}

/// The columns of one head in a row-major matrix: row `t` is `values[t * stride + column..]`.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// All rows.
    pub values: &'a [f32],
    /// Values of a row of the matrix.
    pub stride: usize,
    /// First column of the head.
    pub column: usize,
}

impl<'a> Columns<'a> {
    #[inline(always)]
    fn row(&self, t: usize, head: usize) -> &'a [f32] {
        &self.values[t * self.stride + self.column..][..head]
    }
}

/// `softmax(q k^T / sqrt(head)) v` for the queries, keys and values of one head.
pub struct Head<'a, 'b> {
    /// `[n_queries, head]`. With a rotary table or a radius, query `i` is at position `i`.
    pub queries: Columns<'a>,
    /// `[n_keys, head]`.
    pub keys: Columns<'a>,
    /// `[n_keys, head]`.
    pub values: Columns<'a>,
    /// Keys.
    pub n_keys: usize,
    /// Width of the head.
    pub head: usize,
    /// Rotary table covering `n_keys` positions; none in the decision head.
    pub rotary: Option<&'a RotaryTable>,
    /// Keys further than this from the query have weight zero; none on global layers.
    pub radius: Option<usize>,
    /// Where the head's columns of the result go, `[n_queries, head]`.
    pub out: &'a mut Tile<'b>,
    /// Scratch of the thread.
    pub scratch: &'a mut Scratch,
}

impl Operation for Head<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        if I::TILE_VECTORS == 2 {
            self.vectors::<I, 2>(isa);
        } else {
            self.vectors::<I, 1>(isa);
        }
    }
}

impl Head<'_, '_> {
    #[inline(always)]
    fn vectors<I: Isa, const VECTORS: usize>(self, isa: I) {
        let Self { queries, keys, values, n_keys, head, rotary, radius, out, scratch } = self;
        let Scratch { keys: key_panels, values: value_panels, block: buffers } = scratch;
        // Whole groups of panels from any panel on.
        let padded = n_keys.next_multiple_of(PANEL) + (VECTORS - 1) * PANEL;
        key_panels.resize(padded * head, 0.0);
        buffers.rows.resize(PANEL * head, 0.0);
        for (p, panel) in key_panels.chunks_exact_mut(PANEL * head).enumerate() {
            for (i, row) in buffers.rows[..PANEL * head].chunks_exact_mut(head).enumerate() {
                let t = p * PANEL + i;
                // Keys past the end are zero: their scores are computed and never seen.
                if t < n_keys { rotated(isa, keys.row(t, head), rotary, t, row) } else { row.fill(0.0) }
            }
            interleave::<I, PANEL>(isa, &buffers.rows[..PANEL * head], None, panel);
        }
        let padded_head = head.next_multiple_of(VECTORS * PANEL);
        value_panels.resize(padded_head * n_keys, 0.0);
        for (p, panel) in value_panels.chunks_exact_mut(n_keys * PANEL).enumerate() {
            let from = (p * PANEL).min(head);
            let to = (from + PANEL).min(head);
            for (t, values_of) in panel.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                isa.store(load_part(isa, &values.row(t, head)[from..to]), values_of);
            }
        }

        let n = out.rows().len();
        // A window is short: one tile at a time computes the fewest keys that are not seen.
        let most = if radius.is_some() { I::TILE_ROWS.min(QUERY_BLOCK) } else { QUERY_BLOCK };
        for start in (0..n).step_by(most) {
            let count = most.min(n - start);
            // The keys any query of the block sees. Others have weight zero and are left out: no bit of a sum that starts
            // at +0 and takes in all keys that are seen depends on them.
            let (low, high) = match radius {
                Some(radius) => {
                    let low = start.saturating_sub(radius) / PANEL * PANEL;
                    (low, (start + count).saturating_add(radius).min(n_keys))
                }
                None => (0, n_keys),
            };
            let width = (high - low).next_multiple_of(VECTORS * PANEL);
            let tiles = split(count, I::TILE_ROWS);
            buffers.queries.resize(QUERY_BLOCK * head, 0.0);
            for tile in &tiles {
                let rows = &mut buffers.rows[..tile.len() * head];
                for (i, row) in rows.chunks_exact_mut(head).enumerate() {
                    let t = start + tile.start + i;
                    rotated(isa, queries.row(t, head), rotary, t, row);
                }
                let to = &mut buffers.queries[tile.start * head..tile.end * head];
                interleave_rows(isa, tile.len(), rows, None, to);
            }
            let key_panels = &key_panels[low * head..(low + width) * head];
            scores::<I, VECTORS>(isa, &tiles, key_panels, head, buffers);
            let scale = 1.0 / (head as f32).sqrt();
            let seen = |row: usize| {
                let query = start + row;
                match radius {
                    Some(radius) => {
                        query.saturating_sub(radius) - low..query.saturating_add(radius + 1).min(n_keys) - low
                    }
                    None => 0..n_keys,
                }
            };
            softmax(isa, &tiles, width, scale, seen, buffers);
            let shape = ValueShape { n_keys, low, high, width, padded_head };
            weighted_sums::<I, VECTORS>(isa, &tiles, value_panels, shape, buffers);
            for (i, sums) in buffers.sums.chunks_exact(padded_head).take(count).enumerate() {
                out.row_mut(start + i).copy_from_slice(&sums[..head]);
            }
        }
    }
}

/// The row `x` at position `t`, rotated when there is a table.
#[inline(always)]
fn rotated<I: Isa>(isa: I, x: &[f32], rotary: Option<&RotaryTable>, t: usize, out: &mut [f32]) {
    match rotary {
        Some(table) => {
            let (cos, sin) = table.at(t);
            Rotate { x, cos, sin, out }.run(isa);
        }
        None => out.copy_from_slice(x),
    }
}

/// The products of a block's queries with every key of `key_panels`.
#[inline(always)]
fn scores<I: Isa, const VECTORS: usize>(
    isa: I,
    tiles: &[Range<usize>],
    key_panels: &[f32],
    head: usize,
    buffers: &mut Block,
) {
    let width = key_panels.len() / head;
    buffers.scores.resize(QUERY_BLOCK * width, 0.0);
    // A group of key panels meets every tile while it is in the first-level cache.
    for (g, group) in key_panels.chunks_exact(VECTORS * PANEL * head).enumerate() {
        let panels: [&[f32]; VECTORS] = std::array::from_fn(|v| &group[v * PANEL * head..(v + 1) * PANEL * head]);
        for tile in tiles {
            let x = &buffers.queries[tile.start * head..tile.end * head];
            let out = &mut buffers.scores[tile.start * width + g * VECTORS * PANEL..];
            isa.call(Accumulate { x, rows: tile.len(), panels, out, stride: width, resume: false });
        }
    }
}

/// Softmax of `scale * scores` of every row over the keys `seen` of it, zero outside; the result interleaved.
#[inline(always)]
fn softmax<I: Isa>(
    isa: I,
    tiles: &[Range<usize>],
    width: usize,
    scale: f32,
    seen: impl Fn(usize) -> Range<usize>,
    buffers: &mut Block,
) {
    buffers.weights.resize(QUERY_BLOCK * width, 0.0);
    for tile in tiles {
        let scores = &mut buffers.scores[tile.start * width..tile.end * width];
        for (i, scores) in scores.chunks_exact_mut(width).enumerate() {
            probabilities(isa, scores, scale, seen(tile.start + i));
        }
        let to = &mut buffers.weights[tile.start * width..tile.end * width];
        interleave_rows(isa, tile.len(), scores, None, to);
    }
}

/// Softmax of `scale * scores` over the keys `seen`, zero for others, in place. `scores` starts at a multiple of sixteen
/// keys.
#[inline(always)]
fn probabilities<I: Isa>(isa: I, scores: &mut [f32], scale: f32, seen: Range<usize>) {
    scores[..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..].fill(f32::NEG_INFINITY);
    let (chunks, _) = scores.as_chunks_mut::<LANES>();
    let mut top = isa.splat(f32::NEG_INFINITY);
    for chunk in chunks.iter() {
        top = isa.max(top, isa.load(chunk));
    }
    // The scale is positive and rounding is monotonic: the largest scaled score is the scaled largest score.
    let top = isa.splat(largest(isa, top) * scale);
    let scale = isa.splat(scale);
    let mut total = isa.splat(0.0);
    for chunk in chunks.iter_mut() {
        let e = exp(isa, isa.sub(isa.mul(isa.load(chunk), scale), top));
        total = isa.add(total, e);
        isa.store(e, chunk);
    }
    let total = isa.splat(sum(isa, total));
    for chunk in chunks.iter_mut() {
        isa.store(isa.div(isa.load(chunk), total), chunk);
    }
}

/// Which values a block of queries takes in.
#[derive(Clone, Copy)]
struct ValueShape {
    n_keys: usize,
    /// The first key.
    low: usize,
    /// The key after the last.
    high: usize,
    /// Keys the weights are stored for.
    width: usize,
    /// Width of the head, in whole groups of panels.
    padded_head: usize,
}

/// The sums of the values by their weights, over the keys in ascending position.
#[inline(always)]
fn weighted_sums<I: Isa, const VECTORS: usize>(
    isa: I,
    tiles: &[Range<usize>],
    value_panels: &[f32],
    shape: ValueShape,
    buffers: &mut Block,
) {
    let ValueShape { n_keys, low, high, width, padded_head } = shape;
    buffers.sums.resize(QUERY_BLOCK * padded_head, 0.0);
    for from in (low..high).step_by(KEY_BLOCK) {
        let to = (from + KEY_BLOCK).min(high);
        for column in (0..padded_head).step_by(VECTORS * PANEL) {
            let panels: [&[f32]; VECTORS] = std::array::from_fn(|v| {
                let start = (column + v * PANEL) * n_keys;
                &value_panels[start + from * PANEL..start + to * PANEL]
            });
            for tile in tiles {
                let rows = tile.len();
                let weights = &buffers.weights[tile.start * width..tile.end * width];
                let weights = &weights[(from - low) * rows..(to - low) * rows];
                let out = &mut buffers.sums[tile.start * padded_head + column..];
                isa.call(Accumulate { x: weights, rows, panels, out, stride: padded_head, resume: from > low });
            }
        }
    }
}
