//! Activations, laid out so that a product reads them in order.

use std::ops::Range;

use super::isa::InstructionSet;
use super::lane::{Isa, LANES, MAX_TILE_ROWS, Operation, load_part, with_rows};
use super::norm::{Norm, Statistics};
use super::thread::Threads;

/// Rows of activations, `[m, k]`, in tiles of as many rows as the inner loop of the product holds in registers. A tile
/// is stored `[k, rows]`: the values of one input side by side.
#[derive(Debug, Default)]
pub struct Interleaved {
    values: Vec<f32>,
    k: usize,
    tiles: Vec<Range<usize>>,
}

impl Interleaved {
    /// Makes room for `m` rows of `k` values, which are unspecified until they are written.
    pub fn reserve(&mut self, isa: InstructionSet, m: usize, k: usize) {
        self.k = k;
        self.tiles = split(m, isa.run(TileRows));
        self.values.resize(m * k, 0.0);
    }

    /// Takes the rows of `x`, `[m, k]`, through a layer norm when there is one.
    pub fn fill(&mut self, isa: InstructionSet, threads: &Threads, x: &[f32], k: usize, norm: Option<Norm<'_>>) {
        self.reserve(isa, x.len() / k, k);
        let mut rest = self.values.as_mut_slice();
        let mut tasks = Vec::with_capacity(self.tiles.len());
        for rows in &self.tiles {
            let (tile, after) = rest.split_at_mut(rows.len() * k);
            rest = after;
            tasks.push(FillTile { x: &x[rows.start * k..rows.end * k], rows: rows.len(), norm, to: tile });
        }
        threads.for_each(tasks, |task| isa.run(task));
    }

    /// Rows.
    pub fn n_rows(&self) -> usize {
        self.tiles.last().map_or(0, |rows| rows.end)
    }

    /// Values of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The rows of every tile.
    pub fn tiles(&self) -> &[Range<usize>] {
        &self.tiles
    }

    /// The values of the tile of `rows`, `[k, rows]`.
    #[inline(always)]
    pub fn tile(&self, rows: &Range<usize>) -> &[f32] {
        &self.values[rows.start * self.k..rows.end * self.k]
    }

    /// The tiles, and all values for writing.
    pub(super) fn parts_mut(&mut self) -> (&[Range<usize>], &mut [f32]) {
        (&self.tiles, &mut self.values)
    }

    /// Value `[row][input]`.
    pub fn get(&self, row: usize, input: usize) -> Option<f32> {
        let rows = self.tiles.iter().find(|rows| rows.contains(&row))?;
        self.tile(rows).get(input * rows.len() + row - rows.start).copied()
    }

    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        self.values.capacity() * size_of::<f32>()
    }
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
pub fn split(total: usize, largest: usize) -> Vec<Range<usize>> {
    let pieces = total.div_ceil(largest);
    (0..pieces).map(|i| i * total / pieces..(i + 1) * total / pieces).collect()
}

/// Interleaves the rows of one tile.
pub(super) struct FillTile<'a> {
    /// `[rows, k]`.
    pub(super) x: &'a [f32],
    pub(super) rows: usize,
    pub(super) norm: Option<Norm<'a>>,
    /// `[k, rows]`.
    pub(super) to: &'a mut [f32],
}

impl Operation for FillTile<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        with_rows!(I, self.rows, ROWS => interleave::<I, ROWS>(isa, self.x, self.norm, self.to));
    }
}

/// `[ROWS, k]` to `[k, ROWS]`, through a norm when there is one.
#[inline(always)]
pub(super) fn interleave<I: Isa, const ROWS: usize>(isa: I, x: &[f32], norm: Option<Norm<'_>>, to: &mut [f32]) {
    let k = x.len() / ROWS;
    let mut statistics = [Statistics::default(); ROWS];
    if let Some(norm) = &norm {
        for (x, statistics) in x.chunks_exact(k).zip(&mut statistics) {
            *statistics = norm.statistics(isa, x);
        }
    }
    for (c, to) in to.chunks_mut(LANES * ROWS).enumerate() {
        let at = c * LANES;
        if norm.is_none() && to.len() == LANES * ROWS {
            let mut rows = [&[0.0; LANES]; ROWS];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = x[i * k + at..].first_chunk().unwrap_or(row);
            }
            isa.interleave(&rows, to);
            continue;
        }
        let mut columns = [isa.splat(0.0); ROWS];
        for i in 0..ROWS {
            let x = load_part(isa, &x[i * k + at..(i + 1) * k]);
            columns[i] = match &norm {
                Some(norm) => norm.apply(isa, statistics[i], x, at),
                None => x,
            };
        }
        if to.len() == LANES * ROWS {
            isa.store_interleaved(&columns, to);
        } else {
            let mut whole = [[0.0; LANES]; MAX_TILE_ROWS.next_multiple_of(LANES)];
            let whole = whole.as_flattened_mut();
            isa.store_interleaved(&columns, whole);
            to.copy_from_slice(&whole[..to.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::norm::LayerNorm;

    #[test]
    fn pieces_are_even() {
        assert_eq!(split(15, 14), [0..7, 7..15]);
        assert_eq!(split(0, 14), Vec::<Range<usize>>::new());
    }

    #[test]
    fn every_value_is_where_it_belongs() {
        let threads = Threads::new(2).unwrap();
        let mut interleaved = Interleaved::default();
        for isa in InstructionSet::available() {
            for (m, k) in [(40, 50), (1, 1), (13, 16), (14, 33), (15, 15), (6, 64), (3, 100)] {
                let x: Vec<f32> = (0..m * k).map(|i| (i * i % 1009) as f32).collect();
                let weight: Vec<f32> = (0..k).map(|i| 1.0 + i as f32).collect();
                for norm in [None, Some(Norm { weight: &weight, bias: Some(&weight), epsilon: 1e-5 })] {
                    interleaved.fill(isa, &threads, &x, k, norm);
                    assert_eq!((interleaved.n_rows(), interleaved.k()), (m, k));
                    for i in 0..m {
                        let mut row = x[i * k..][..k].to_vec();
                        if let Some(norm) = norm {
                            isa.run(LayerNorm { x: &x[i * k..][..k], norm, out: &mut row });
                        }
                        for (j, expected) in row.iter().enumerate() {
                            let got = interleaved.get(i, j).unwrap();
                            assert_eq!(got.to_bits(), expected.to_bits(), "{} {m}x{k} at {i} {j}", isa.name());
                        }
                    }
                    assert_eq!(interleaved.get(m, 0), None);
                }
            }
        }
    }
}
