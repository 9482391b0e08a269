//! Attention of one head over one sequence.

use std::ops::Range;

use super::arch::tile::Tile;
use super::interleave::{FillTile, interleave, split};
use super::lane::{Isa, LANES, Operation, load_part, store_part};
use super::pack::PANEL;
use super::product::{Accumulate, AccumulateSome, MAX_TILE_VECTORS};
use super::rotary::{RotaryTable, Rotate};
use super::softmax::{Softmax, Window};

/// Most queries that go together on any instruction set.
pub const MAX_GROUP: usize = MAX_TILE_VECTORS * LANES;

/// Keys whose values and weights stay near the processor while the queries of a group take them in.
const KEY_BLOCK: usize = 128;

/// Scratch of one thread, grown to the longest sequence seen.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rotated keys, the tiles `[head, keys of the tile]` one after the other.
    keys: Vec<f32>,
    /// Values in panels of 16 columns of the head, each `[n_keys, 16]`.
    values: Vec<f32>,
    /// Rotated rows, `[rows of a tile or panel, head]`.
    rows: Vec<f32>,
    /// Queries of a group in panels of 16, each `[head, 16]`.
    queries: Vec<f32>,
    /// Scores of a group and then its probabilities, `[keys, queries]`.
    scores: Vec<f32>,
    /// Weighted sums of values, `[queries, head padded]`.
    sums: Vec<f32>,
}

impl Scratch {
    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        let Self { keys, values, rows, queries, scores, sums } = self;
        [keys, values, rows, queries, scores, sums].iter().map(|v| v.capacity() * size_of::<f32>()).sum()
    }
}

/// The columns of one head in a matrix that is stored in panels of sixteen columns, each `[rows, 16]`.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// `[panels, rows, 16]`.
    pub panels: &'a [f32],
    /// Rows of a panel.
    pub rows: usize,
    /// The row of the sequence's first.
    pub first: usize,
    /// First column of the head.
    pub column: usize,
}

impl<'a> Columns<'a> {
    /// Panel `p` from the sequence's row `t` on.
    #[inline(always)]
    fn panel(&self, p: usize, t: usize) -> &'a [f32] {
        &self.panels[(p * self.rows + self.first + t) * PANEL..(p + 1) * self.rows * PANEL]
    }

    /// The head's part of row `t` to `out`.
    #[inline(always)]
    fn copy_row<I: Isa>(&self, isa: I, t: usize, out: &mut [f32]) {
        let (panel, within) = (self.column / PANEL, self.column % PANEL);
        if within == 0 {
            for (p, out) in out.chunks_mut(PANEL).enumerate() {
                store_part(isa, load_part(isa, self.panel(panel + p, t)), out);
            }
        } else {
            for (i, out) in out.iter_mut().enumerate() {
                *out = self.panel(panel + (within + i) / PANEL, t)[(within + i) % PANEL];
            }
        }
    }
}

/// `softmax(q k^T / sqrt(head)) v` for the queries, keys and values of one head.
pub struct Head<'a, 'b> {
    /// `[.., head]`: the queries from `first_query` on, as many as there are rows of the result. With a rotary table or a
    /// radius, query `i` is at position `i`.
    pub queries: Columns<'a>,
    /// The first query.
    pub first_query: usize,
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
        // A lane is a query, and a group of queries as wide as a tile.
        if I::TILE_VECTORS == 2 {
            self.groups::<I, 2, { 2 * LANES }>(isa);
        } else {
            self.groups::<I, 1, LANES>(isa);
        }
    }
}

impl Head<'_, '_> {
    /// Attention, `GROUP = 16 VECTORS` queries at a time.
    #[inline(always)]
    fn groups<I: Isa, const VECTORS: usize, const GROUP: usize>(self, isa: I) {
        let Self { queries: all_queries, keys: all_keys, values: all_values, .. } = self;
        let Self { first_query, n_keys, head, rotary, radius, out, scratch, .. } = self;
        let Scratch { keys, values, rows, queries, scores, sums } = scratch;
        let padded_head = head.next_multiple_of(VECTORS * PANEL);
        rows.resize(PANEL.max(I::TILE_ROWS) * head, 0.0);
        queries.resize(GROUP * head, 0.0);
        sums.resize(GROUP * padded_head, 0.0);
        let window = Window { radius, n_keys };
        let end_query = first_query + out.rows().len();
        // Whole tiles of keys, counted from the first of all.
        let tiles_of = |seen: &Range<usize>| {
            seen.start / I::TILE_ROWS * I::TILE_ROWS..seen.end.next_multiple_of(I::TILE_ROWS).min(n_keys)
        };
        let held = tiles_of(&window.of(first_query..end_query));
        keys.resize(held.len() * head, 0.0);
        for (tile, to) in keys.chunks_mut(I::TILE_ROWS * head).enumerate() {
            let n_rows = to.len() / head;
            let rows = &mut rows[..n_rows * head];
            rotated(isa, all_keys, rotary, held.start + tile * I::TILE_ROWS, head, rows);
            isa.call(FillTile { x: rows, rows: n_rows, norm: None, to });
        }
        // Values serve as they are where a head is whole groups of their panels.
        let mut value_panels = all_values;
        if !(head.is_multiple_of(VECTORS * PANEL) && all_values.column.is_multiple_of(PANEL)) {
            values.clear();
            values.resize(n_keys * padded_head, 0.0);
            pack_values(isa, all_values, n_keys, head, rows, values);
            value_panels = Columns { panels: values, rows: n_keys, first: 0, column: 0 };
        }

        for start in (first_query..end_query).step_by(GROUP) {
            let count = GROUP.min(end_query - start);
            for (v, panel) in queries.chunks_exact_mut(PANEL * head).enumerate() {
                let from = start + v * PANEL;
                let n_rows = PANEL.min(end_query.saturating_sub(from));
                rotated(isa, all_queries, rotary, from, head, &mut rows[..n_rows * head]);
                // Queries past the end are zero: their results are computed and never read.
                rows[n_rows * head..PANEL * head].fill(0.0);
                interleave::<I, PANEL>(isa, &rows[..PANEL * head], None, panel);
            }

            // The keys any query of the group sees. Others have weight zero and are left out: no bit of a sum that starts
            // at +0 and takes in all keys that are seen depends on them.
            let seen = window.of(start..start + count);
            let tiles = tiles_of(&seen);
            let base = tiles.start;
            scores.resize(tiles.len() * GROUP, 0.0);
            let tiles = keys[(base - held.start) * head..(tiles.end - held.start) * head].chunks(I::TILE_ROWS * head);
            for (keys, out) in tiles.zip(scores.chunks_mut(I::TILE_ROWS * GROUP)) {
                let mut panels = [&[][..]; VECTORS];
                for (panel, queries) in panels.iter_mut().zip(queries.chunks_exact(PANEL * head)) {
                    *panel = queries;
                }
                isa.call(Accumulate { x: keys, rows: keys.len() / head, panels, out, stride: GROUP, resume: false });
            }
            let weights = &mut scores[(seen.start - base) * GROUP..(seen.end - base) * GROUP];
            let scale = 1.0 / (head as f32).sqrt();
            let (vectors, _) = weights.as_chunks_mut::<LANES>();
            let (vectors, _) = vectors.as_chunks_mut::<VECTORS>();
            isa.call(Softmax { scores: vectors, low: seen.start, first: start, scale, window });

            let tiles = split(count, I::TILE_ROWS);
            for from in seen.clone().step_by(KEY_BLOCK) {
                for column in (0..padded_head).step_by(VECTORS * PANEL) {
                    for tile in &tiles {
                        let seen_by = window.of(start + tile.start..start + tile.end);
                        let block = seen_by.start.max(from)..seen_by.end.min(from + KEY_BLOCK);
                        if block.is_empty() {
                            continue;
                        }
                        let mut panels = [&[][..]; VECTORS];
                        for (v, panel) in panels.iter_mut().enumerate() {
                            let p = (value_panels.column + column) / PANEL + v;
                            *panel = &value_panels.panel(p, block.start)[..block.len() * PANEL];
                        }
                        isa.call(AccumulateSome::<VECTORS, GROUP> {
                            x: &weights[(block.start - seen.start) * GROUP..(block.end - seen.start) * GROUP],
                            rows: tile.clone(),
                            panels,
                            out: &mut sums[tile.start * padded_head + column..],
                            stride: padded_head,
                            resume: block.start > seen_by.start,
                        });
                    }
                }
            }
            for (i, sums) in sums.chunks_exact(padded_head).take(count).enumerate() {
                out.row_mut(start - first_query + i).copy_from_slice(&sums[..head]);
            }
        }
    }
}

/// The rows of `x` from `first` on to `out`, rotated to their positions when there is a table.
#[inline(always)]
fn rotated<I: Isa>(isa: I, x: Columns<'_>, rotary: Option<&RotaryTable>, first: usize, head: usize, out: &mut [f32]) {
    for (i, out) in out.chunks_exact_mut(head).enumerate() {
        x.copy_row(isa, first + i, out);
        if let Some(table) = rotary {
            let (cos, sin) = table.at(first + i);
            Rotate { x: out, cos, sin }.run(isa);
        }
    }
}

/// The values `[n_keys, head]` in panels of 16 columns, zero past the last.
#[inline(always)]
fn pack_values<I: Isa>(isa: I, x: Columns<'_>, n_keys: usize, head: usize, row: &mut [f32], to: &mut [f32]) {
    for t in 0..n_keys {
        x.copy_row(isa, t, &mut row[..head]);
        for (part, panel) in row[..head].chunks(PANEL).zip(to.chunks_exact_mut(n_keys * PANEL)) {
            store_part(isa, load_part(isa, part), &mut panel[t * PANEL..(t + 1) * PANEL]);
        }
    }
}
