//! Disjoint views of a matrix, row-major or interleaved in tiles, so that threads can write one matrix together.

use std::marker::PhantomData;
use std::ops::Range;

/// A rectangle of a row-major matrix, borrowed mutably and disjoint from every other rectangle cut with it.
pub struct Tile<'a> {
    first: *mut f32,
    stride: usize,
    n_rows: usize,
    n_columns: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: a tile is an exclusive borrow of its elements, which are plain floats.
unsafe impl Send for Tile<'_> {}

impl<'a> Tile<'a> {
    /// Cuts `matrix` of `n_columns` columns at every pair of a row range and a column range, rows outermost.
    ///
    /// # Panics
    /// A range does not lie inside the matrix, or the ranges are not ascending and disjoint: a mistake of the caller.
    pub fn cut(
        matrix: &'a mut [f32],
        n_columns: usize,
        row_ranges: &[Range<usize>],
        column_ranges: &[Range<usize>],
    ) -> Vec<Tile<'a>> {
        let n_rows = matrix.len().checked_div(n_columns).unwrap_or(0);
        assert!(
            ascending(row_ranges, n_rows) && ascending(column_ranges, n_columns),
            "tiles overlap or leave the matrix"
        );
        let first = matrix.as_mut_ptr();
        let mut tiles = Vec::with_capacity(row_ranges.len() * column_ranges.len());
        for rows in row_ranges {
            for columns in column_ranges {
                tiles.push(Tile {
                    // SAFETY: both ranges lie inside the matrix, so the offset is at most its length.
                    first: unsafe {
                        first.add(rows.start * n_columns + if rows.is_empty() { 0 } else { columns.start })
                    },
                    stride: n_columns,
                    n_rows: rows.len(),
                    n_columns: columns.len(),
                    rows: rows.clone(),
                    columns: columns.clone(),
                    borrow: PhantomData,
                });
            }
        }
        tiles
    }

    /// Cuts the tile at ranges of its own rows.
    ///
    /// # Panics
    /// A range does not lie inside the tile, or the ranges are not ascending and disjoint: a mistake of the caller.
    pub fn split_rows(self, ranges: &[Range<usize>]) -> Vec<Tile<'a>> {
        assert!(ascending(ranges, self.n_rows), "tiles overlap or leave the tile");
        let part = |range: &Range<usize>| Tile {
            // SAFETY: the rows from `range.start` on lie inside this tile, whose rows lie inside the matrix; an empty range
            // may start after the last row and keeps the first.
            first: unsafe { self.first.add(if range.is_empty() { 0 } else { range.start * self.stride }) },
            stride: self.stride,
            n_rows: range.len(),
            n_columns: self.n_columns,
            rows: self.rows.start + range.start..self.rows.start + range.end,
            columns: self.columns.clone(),
            borrow: PhantomData,
        };
        ranges.iter().map(part).collect()
    }

    /// The rows of the matrix this tile covers.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the matrix this tile covers.
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Row `i` of the tile, counted from its own first row.
    ///
    /// # Panics
    /// `i` is not a row of the tile: a mistake of the caller.
    #[inline(always)]
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.n_rows, "row outside the tile");
        // SAFETY: `cut` checked that the rectangle lies inside the matrix and is disjoint from the other tiles, and the
        // matrix is borrowed exclusively for as long as the tile lives; `&mut self` allows one row at a time.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(i * self.stride), self.n_columns) }
    }
}

/// Some columns of a matrix whose rows are interleaved in tiles: `[columns, rows]` values of every tile, borrowed mutably
/// and disjoint from every other strip cut with it.
pub struct Strip<'a> {
    first: *mut f32,
    /// Columns of the matrix.
    n_columns: usize,
    tiles: &'a [Range<usize>],
    /// The tiles this strip covers.
    covered: Range<usize>,
    columns: Range<usize>,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: a strip is an exclusive borrow of its elements, which are plain floats.
unsafe impl Send for Strip<'_> {}

impl<'a> Strip<'a> {
    /// Cuts `matrix`, whose rows are interleaved in `tiles`, at every range of columns.
    ///
    /// # Panics
    /// The tiles are not all rows of the matrix one after the other, or the ranges are not ascending and disjoint
    /// columns of it: a mistake of the caller.
    pub fn cut(matrix: &'a mut [f32], tiles: &'a [Range<usize>], columns: &[Range<usize>]) -> Vec<Strip<'a>> {
        let n_rows = tiles.last().map_or(0, |rows| rows.end);
        let n_columns = matrix.len().checked_div(n_rows).unwrap_or(0);
        let mut end = 0;
        let adjacent =
            tiles.iter().all(|rows| rows.start == std::mem::replace(&mut end, rows.end) && rows.start <= rows.end);
        assert!(
            adjacent && matrix.len() == n_rows * n_columns && ascending(columns, n_columns),
            "strips overlap or leave the matrix"
        );
        let first = matrix.as_mut_ptr();
        let strip = |columns: &Range<usize>| Strip {
            first,
            n_columns,
            tiles,
            covered: 0..tiles.len(),
            columns: columns.clone(),
            borrow: PhantomData,
        };
        columns.iter().map(strip).collect()
    }

    /// Cuts the strip at ranges of tiles.
    ///
    /// # Panics
    /// The strip does not cover all tiles, or the ranges are not ascending and disjoint: a mistake of the caller.
    pub fn split_tiles(self, ranges: &[Range<usize>]) -> Vec<Strip<'a>> {
        assert!(self.covered == (0..self.tiles.len()) && ascending(ranges, self.tiles.len()), "strips overlap");
        ranges.iter().map(|range| Strip { covered: range.clone(), columns: self.columns.clone(), ..self }).collect()
    }

    /// The strip's part of tile `t`, `[columns, rows]`.
    ///
    /// # Panics
    /// The strip does not cover tile `t`: a mistake of the caller.
    #[inline(always)]
    pub fn tile_mut(&mut self, t: usize) -> &mut [f32] {
        assert!(self.covered.contains(&t), "tile outside the strip");
        let rows = &self.tiles[t];
        // SAFETY: `cut` checked that the tiles lie one after the other inside the matrix, each `[n_columns, rows]`, and
        // that the columns lie inside it; these columns of a covered tile belong to no other strip. The matrix is borrowed
        // exclusively for as long as the strip lives, and `&mut self` allows one part at a time.
        unsafe {
            let first = self.first.add(rows.start * self.n_columns + self.columns.start * rows.len());
            std::slice::from_raw_parts_mut(first, self.columns.len() * rows.len())
        }
    }
}

/// Whether the ranges ascend, are disjoint and end at `end` at the latest.
fn ascending(ranges: &[Range<usize>], end: usize) -> bool {
    let mut from = 0;
    ranges.iter().all(|range| {
        let fits = from <= range.start && range.start <= range.end && range.end <= end;
        from = range.end;
        fits
    })
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one tile is a list of one range")]
mod tests {
    use super::*;

    #[test]
    fn every_element_belongs_to_exactly_one_tile() {
        let mut matrix = vec![0.0; 7 * 10];
        let mut tiles = Tile::cut(&mut matrix, 10, &[0..3, 3..7], &[0..4, 4..10]);
        assert_eq!(tiles.len(), 4);
        for (t, tile) in tiles.iter_mut().enumerate() {
            for i in 0..tile.rows().len() {
                for x in tile.row_mut(i) {
                    *x += (t + 1) as f32;
                }
            }
        }
        for (i, x) in matrix.iter().enumerate() {
            let expected = 1 + usize::from(i % 10 >= 4) + 2 * usize::from(i / 10 >= 3);
            assert_eq!(*x, expected as f32, "element {i}");
        }
    }

    #[test]
    fn every_element_belongs_to_exactly_one_strip() {
        let tiles = [0..3, 3..5, 5..8];
        let mut matrix = vec![0.0; 8 * 7];
        for (s, strip) in Strip::cut(&mut matrix, &tiles, &[0..4, 4..7]).iter_mut().enumerate() {
            for t in 0..tiles.len() {
                strip.tile_mut(t).iter_mut().for_each(|x| *x += (10 * t + s + 1) as f32);
            }
        }
        for (t, rows) in tiles.iter().enumerate() {
            for (j, column) in matrix[rows.start * 7..rows.end * 7].chunks(rows.len()).enumerate() {
                let expected = 10 * t + 1 + usize::from(j >= 4);
                assert!(column.iter().all(|x| *x == expected as f32), "tile {t} column {j}: {column:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_tile_and_of_a_strip_are_disjoint() {
        let mut matrix = vec![0.0; 7 * 10];
        let tile = Tile::cut(&mut matrix, 10, &[2..7], &[4..10]).remove(0);
        for (t, part) in tile.split_rows(&[0..2, 2..2, 2..5]).iter_mut().enumerate() {
            assert_eq!(part.rows(), [2..4, 4..4, 4..7][t]);
            for i in 0..part.rows().len() {
                part.row_mut(i).fill((t + 1) as f32);
            }
        }
        for (i, x) in matrix.iter().enumerate() {
            let inside = i % 10 >= 4 && i / 10 >= 2;
            assert_eq!(*x, if inside { if i / 10 < 4 { 1.0 } else { 3.0 } } else { 0.0 }, "element {i}");
        }

        let tiles = [0..3, 3..5, 5..8];
        let mut matrix = vec![0.0; 8 * 7];
        let strip = Strip::cut(&mut matrix, &tiles, &[2..5]).remove(0);
        for (s, part) in strip.split_tiles(&[0..1, 1..3]).iter_mut().enumerate() {
            for t in [0..1, 1..3][s].clone() {
                part.tile_mut(t).fill((s + 1) as f32);
            }
        }
        for (t, rows) in tiles.iter().enumerate() {
            for (j, column) in matrix[rows.start * 7..rows.end * 7].chunks(rows.len()).enumerate() {
                let expected = if !(2..5).contains(&j) {
                    0.0
                } else if t == 0 {
                    1.0
                } else {
                    2.0
                };
                assert!(column.iter().all(|x| *x == expected), "tile {t} column {j}: {column:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "tile outside the strip")]
    fn a_strip_gives_no_tile_it_does_not_cover() {
        let mut matrix = vec![0.0; 20];
        let strip = Strip::cut(&mut matrix, &[0..1, 1..2], &[0..10]).remove(0);
        strip.split_tiles(&[0..1, 1..2]).remove(0).tile_mut(1);
    }

    #[test]
    #[should_panic(expected = "leave the tile")]
    fn parts_outside_a_tile_are_refused() {
        let mut matrix = vec![0.0; 20];
        drop(Tile::cut(&mut matrix, 10, &[0..2], &[0..6]).remove(0).split_rows(&[0..1, 1..3]));
    }

    #[test]
    #[should_panic(expected = "strips overlap")]
    fn overlapping_strips_are_refused() {
        let mut matrix = vec![0.0; 20];
        drop(Strip::cut(&mut matrix, std::slice::from_ref(&(0..2)), &[0..6, 5..10]));
    }

    #[test]
    #[should_panic(expected = "leave the matrix")]
    fn strips_of_missing_rows_are_refused() {
        let mut matrix = vec![0.0; 20];
        drop(Strip::cut(&mut matrix, &[0..1, 2..3], std::slice::from_ref(&(0..6))));
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn overlapping_tiles_are_refused() {
        let mut matrix = vec![0.0; 20];
        drop(Tile::cut(&mut matrix, 10, &[0..2], &[0..6, 5..10]));
    }

    #[test]
    #[should_panic(expected = "leave the matrix")]
    fn tiles_outside_are_refused() {
        let mut matrix = vec![0.0; 20];
        drop(Tile::cut(&mut matrix, 10, &[0..3], &[0..10]));
    }
}
