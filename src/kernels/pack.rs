//! Weights, laid out once at load so that a product reads them in order.

use half::f16;

use super::arch::{memory, square};
use super::lane::{Isa, LANES, Operation};
use super::thread::Threads;
use crate::error::{Error, ErrorKind, Result};

/// Outputs of a panel: one vector of sixteen lanes.
pub const PANEL: usize = LANES;

/// Inputs that share one scale in Q8_0.
pub const Q8_0_BLOCK: usize = 32;

/// Panels laid out by a task: enough that their pages are provided together.
const PANELS_PER_TASK: usize = 8;

/// Bytes of a Q8_0 block in the file: a binary16 scale and a signed byte an input.
const Q8_0_BYTES: usize = 2 + Q8_0_BLOCK;

/// A weight matrix `[n, k]` (`n` outputs, `k` inputs) in panels of [`PANEL`] outputs.
///
/// The outputs fall into equal parts (the queries, keys and values of a joint projection, say) and every part starts a
/// panel of its own. A panel holds, for each `k` in order, the weights of its sixteen outputs; outputs a part does not
/// have are zero. Values stay in the type they are stored in.
#[derive(Debug)]
pub struct PackedMatrix {
    n: usize,
    k: usize,
    n_parts: usize,
    values: Values,
}

/// The values of a packed matrix, panels one after the other.
#[derive(Debug)]
enum Values {
    /// IEEE binary32.
    F32(Vec<f32>),
    /// IEEE binary16 bits.
    F16(Vec<u16>),
    /// Signed bytes, and for every panel and block of 32 inputs the binary16 bits of sixteen scales.
    Q8_0 { quants: Vec<i8>, scales: Vec<u16> },
}

/// A row-major `[n, k]` source of weights, little-endian bytes as in the file.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// IEEE binary32.
    F32(&'a [u8]),
    /// IEEE binary16.
    F16(&'a [u8]),
    /// Blocks of 32 inputs: a binary16 scale and 32 signed bytes.
    Q8_0(&'a [u8]),
}

impl Source<'_> {
    fn n_bytes(self) -> usize {
        match self {
            Self::F32(bytes) | Self::F16(bytes) | Self::Q8_0(bytes) => bytes.len(),
        }
    }

    /// Bytes of a row of `k` values.
    fn row_bytes(self, k: usize) -> Option<usize> {
        match self {
            Self::F32(_) => k.checked_mul(4),
            Self::F16(_) => k.checked_mul(2),
            Self::Q8_0(_) if k.is_multiple_of(Q8_0_BLOCK) => (k / Q8_0_BLOCK).checked_mul(Q8_0_BYTES),
            Self::Q8_0(_) => None,
        }
    }
}

impl PackedMatrix {
    /// Packs the row-major matrix `source` of shape `[n, k]`, whose outputs are `n_parts` equal parts.
    ///
    /// # Errors
    /// The source does not hold `n * k` values, a dimension is zero, or the parts do not divide the outputs.
    pub fn pack(source: Source<'_>, n: usize, k: usize, n_parts: usize, threads: &Threads) -> Result<Self> {
        let bytes = source.row_bytes(k).and_then(|row| row.checked_mul(n));
        if n == 0 || k == 0 || n_parts == 0 || !n.is_multiple_of(n_parts) || bytes != Some(source.n_bytes()) {
            let message =
                format!("holds {} bytes, which is not a matrix of {n} x {k} in {n_parts} parts", source.n_bytes());
            return Err(Error::new(ErrorKind::Model, message));
        }
        let outputs = Outputs { n, n_parts };
        let values = match source {
            Source::F32(bytes) => {
                let (rows, _) = bytes.as_chunks::<4>();
                Values::F32(outputs.panels(rows, k, threads, |bytes| f32::from_le_bytes(*bytes)))
            }
            Source::F16(bytes) => {
                let (rows, _) = bytes.as_chunks::<2>();
                Values::F16(outputs.halves(rows, k, threads))
            }
            Source::Q8_0(bytes) => {
                let (blocks, _) = bytes.as_chunks::<Q8_0_BYTES>();
                let scales =
                    outputs.panels(blocks, k / Q8_0_BLOCK, threads, |block| u16::from_le_bytes([block[0], block[1]]));
                Values::Q8_0 { quants: outputs.quants(blocks, k, threads), scales }
            }
        };
        Ok(Self { n, k, n_parts, values })
    }

    /// Outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Parts the outputs fall into.
    pub fn n_parts(&self) -> usize {
        self.n_parts
    }

    /// Panels of one part.
    pub fn panels_per_part(&self) -> usize {
        (self.n / self.n_parts).div_ceil(PANEL)
    }

    /// The last panel.
    pub fn last_panel(&self) -> usize {
        self.n_parts * self.panels_per_part() - 1
    }

    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        match &self.values {
            Values::F32(values) => size_of_val(values.as_slice()),
            Values::F16(values) => size_of_val(values.as_slice()),
            Values::Q8_0 { quants, scales } => size_of_val(quants.as_slice()) + size_of_val(scales.as_slice()),
        }
    }

    /// Panel `p` of the matrix as stored.
    pub fn panel(&self, p: usize) -> Panel<'_> {
        let of = |k: usize| p * k * PANEL..(p + 1) * k * PANEL;
        match &self.values {
            Values::F32(values) => Panel::F32(&values[of(self.k)]),
            Values::F16(values) => Panel::F16(&values[of(self.k)]),
            Values::Q8_0 { quants, scales } => {
                Panel::Q8_0 { quants: &quants[of(self.k)], scales: &scales[of(self.k / Q8_0_BLOCK)] }
            }
        }
    }

    /// Weight `[output][input]`, widened exactly.
    pub fn get(&self, output: usize, input: usize) -> Option<f32> {
        if output >= self.n || input >= self.k {
            return None;
        }
        let per_part = self.n / self.n_parts;
        let (part, within) = (output / per_part, output % per_part);
        let (panel, lane) = (part * self.panels_per_part() + within / PANEL, within % PANEL);
        let at = |input: usize| input * PANEL + lane;
        Some(match self.panel(panel) {
            Panel::F32(values) => values[at(input)],
            Panel::F16(values) => f16::from_bits(values[at(input)]).to_f32(),
            Panel::Q8_0 { quants, scales } => {
                f16::from_bits(scales[at(input / Q8_0_BLOCK)]).to_f32() * f32::from(quants[at(input)])
            }
        })
    }
}

/// A panel as it is stored: `[k, 16]`.
#[derive(Debug, Clone, Copy)]
pub enum Panel<'a> {
    /// IEEE binary32.
    F32(&'a [f32]),
    /// IEEE binary16 bits.
    F16(&'a [u16]),
    /// Signed bytes `[k, 16]` and the binary16 bits of the scales, `[k / 32, 16]`.
    Q8_0 {
        /// `[k, 16]`.
        quants: &'a [i8],
        /// `[k / 32, 16]`.
        scales: &'a [u16],
    },
}

impl<'a> Panel<'a> {
    /// The panel as `f32`, `[k, 16]`: itself, or widened exactly into `scratch`.
    #[inline(always)]
    pub fn widened<'s, I: Isa>(self, isa: I, scratch: &'s mut Vec<f32>) -> &'s [f32]
    where
        'a: 's,
    {
        match self {
            Panel::F32(values) => return values,
            Panel::F16(values) => {
                scratch.resize(values.len(), 0.0);
                let (from, _) = values.as_chunks::<LANES>();
                for (from, to) in from.iter().zip(scratch.as_chunks_mut::<LANES>().0) {
                    isa.store(isa.load_f16(from), to);
                }
            }
            Panel::Q8_0 { quants, scales } => {
                scratch.resize(quants.len(), 0.0);
                let blocks = quants.as_chunks::<LANES>().0.chunks_exact(Q8_0_BLOCK);
                let widened = scratch.as_chunks_mut::<LANES>().0.chunks_exact_mut(Q8_0_BLOCK);
                for ((block, scale), to) in blocks.zip(scales.as_chunks::<LANES>().0).zip(widened) {
                    let scale = isa.load_f16(scale);
                    for (quants, to) in block.iter().zip(to) {
                        // Eleven bits times eight: exact unless it overflows or is subnormal, rounded once in any case.
                        isa.store(isa.mul(scale, isa.load_i8(quants)), to);
                    }
                }
            }
        }
        scratch
    }

    /// Asks for the part `piece` of `n_pieces` of the stored panel ahead of its use.
    #[inline(always)]
    pub fn prefetch<I: Isa>(self, isa: I, piece: usize, n_pieces: usize) {
        #[inline(always)]
        fn lines<I: Isa, T>(isa: I, values: &[T], piece: usize, n_pieces: usize) {
            let per_line = 64 / size_of::<T>();
            let n_lines = values.len().div_ceil(per_line);
            for line in piece * n_lines / n_pieces..(piece + 1) * n_lines / n_pieces {
                if let Some(at) = values.get(line * per_line) {
                    isa.prefetch(at);
                }
            }
        }
        match self {
            Panel::F32(values) => lines(isa, values, piece, n_pieces),
            Panel::F16(values) => lines(isa, values, piece, n_pieces),
            Panel::Q8_0 { quants, scales } => {
                lines(isa, quants, piece, n_pieces);
                lines(isa, scales, piece, n_pieces);
            }
        }
    }
}

/// Widens a panel, for measuring and testing.
pub struct Widen<'a>(pub Panel<'a>, pub &'a mut Vec<f32>);

impl Operation for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self(panel, out) = self;
        if let Panel::F32(values) = panel {
            out.clear();
            out.extend_from_slice(values);
        } else {
            panel.widened(isa, out);
        }
    }
}

/// Outputs that are `n_parts` equal parts.
#[derive(Clone, Copy)]
struct Outputs {
    n: usize,
    n_parts: usize,
}

impl Outputs {
    /// First output and number of outputs of every panel.
    fn of_panels(self) -> Vec<(usize, usize)> {
        let per_part = self.n / self.n_parts;
        (0..self.n_parts)
            .flat_map(|part| {
                let starts = (0..per_part).step_by(PANEL);
                starts.map(move |from| (part * per_part + from, PANEL.min(per_part - from)))
            })
            .collect()
    }

    /// Transposes row-major `[n, k]` into panels; `read` takes sixteen inputs of a row.
    fn panels<S: Sync, T: Copy + Default + Send>(
        self,
        rows: &[S],
        k: usize,
        threads: &Threads,
        read: impl Fn(&S) -> T + Sync + Send,
    ) -> Vec<T> {
        self.fill(k, threads, |panel, first, count| {
            // Sixteen inputs of sixteen outputs at a time: a square the compiler keeps in registers and first-level cache.
            let (squares, rest) = panel.as_chunks_mut::<{ LANES * PANEL }>();
            for (c, square) in squares.iter_mut().enumerate() {
                let (to, _) = square.as_chunks_mut::<PANEL>();
                for j in 0..count {
                    if let Some(row) = rows[(first + j) * k + c * LANES..].first_chunk::<LANES>() {
                        for (to, from) in to.iter_mut().zip(row) {
                            to[j] = read(from);
                        }
                    }
                }
            }
            let done = squares.len() * LANES;
            for (t, to) in rest.chunks_exact_mut(PANEL).enumerate() {
                for (j, to) in to.iter_mut().enumerate().take(count) {
                    *to = read(&rows[(first + j) * k + done + t]);
                }
            }
        })
    }

    /// Transposes row-major `[n, k]` halves into panels.
    fn halves(self, rows: &[[u8; 2]], k: usize, threads: &Threads) -> Vec<u16> {
        const NONE: [[u8; 2]; LANES] = [[0; 2]; LANES];
        self.fill(k, threads, |panel: &mut [u16], first, count| {
            let (squares, rest) = panel.as_chunks_mut::<{ LANES * PANEL }>();
            for (c, square) in squares.iter_mut().enumerate() {
                let mut square_rows = [&NONE; PANEL];
                for (j, row) in square_rows.iter_mut().enumerate().take(count) {
                    *row = rows[(first + j) * k + c * LANES..].first_chunk().unwrap_or(&NONE);
                }
                if let Some(square) = square.as_chunks_mut().0.first_chunk_mut() {
                    square::transpose(square_rows, square);
                }
            }
            let done = squares.len() * LANES;
            for (t, to) in rest.chunks_exact_mut(PANEL).enumerate() {
                for (j, to) in to.iter_mut().enumerate().take(count) {
                    *to = u16::from_le_bytes(rows[(first + j) * k + done + t]);
                }
            }
        })
    }

    /// Transposes the bytes of row-major Q8_0 blocks into panels.
    fn quants(self, blocks: &[[u8; Q8_0_BYTES]], k: usize, threads: &Threads) -> Vec<i8> {
        let per_row = k / Q8_0_BLOCK;
        self.fill(k, threads, |panel, first, count| {
            for (b, to) in panel.as_chunks_mut::<{ Q8_0_BLOCK * PANEL }>().0.iter_mut().enumerate() {
                let (to, _) = to.as_chunks_mut::<PANEL>();
                for j in 0..count {
                    let [_, _, quants @ ..] = &blocks[(first + j) * per_row + b];
                    for (to, quant) in to.iter_mut().zip(quants) {
                        to[j] = quant.cast_signed();
                    }
                }
            }
        })
    }

    /// Panels of `k` inputs, written by `write` from the first output and the number of outputs of each.
    fn fill<T: Copy + Default + Send>(
        self,
        k: usize,
        threads: &Threads,
        write: impl Fn(&mut [T], usize, usize) + Sync + Send,
    ) -> Vec<T> {
        let outputs = self.of_panels();
        let mut packed = vec![T::default(); outputs.len() * PANEL * k];
        let tasks = packed.chunks_mut(PANELS_PER_TASK * PANEL * k).zip(outputs.chunks(PANELS_PER_TASK));
        threads.for_each(tasks.collect(), |(panels, outputs)| {
            memory::provide(panels);
            for (panel, (first, count)) in panels.chunks_mut(PANEL * k).zip(outputs) {
                write(panel, *first, *count);
            }
        });
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_where_it_belongs() {
        let (n, k) = (70, 130);
        let weights: Vec<f32> = (0..n * k).map(|i| i as f32).collect();
        let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        let halves: Vec<u8> =
            weights.iter().flat_map(|w| f16::from_f32(*w / 16384.0).to_bits().to_le_bytes()).collect();
        let threads = Threads::new(2).unwrap();
        for n_parts in [1, 2, 5] {
            let packed = PackedMatrix::pack(Source::F32(&bytes), n, k, n_parts, &threads).unwrap();
            let packed16 = PackedMatrix::pack(Source::F16(&halves), n, k, n_parts, &threads).unwrap();
            let n_panels = n_parts * (n / n_parts).div_ceil(16);
            assert_eq!((packed.panels_per_part() * n_parts, packed.n_bytes()), (n_panels, n_panels * 16 * k * 4));
            for i in 0..n {
                for j in 0..k {
                    let weight = weights[i * k + j];
                    assert_eq!(packed.get(i, j), Some(weight));
                    assert_eq!(packed16.get(i, j), Some(f16::from_f32(weight / 16384.0).to_f32()));
                }
            }
            assert_eq!(packed.get(n, 0), None);
        }
    }

    #[test]
    fn quantized_weights_are_scale_times_byte() {
        let (n, k) = (20, 96);
        let scale = |row: usize, block: usize| f16::from_f32(0.01 + (row * 3 + block) as f32 / 64.0);
        let quant = |row: usize, at: usize| (row * 7 + at * 5) as i8;
        let mut bytes = Vec::new();
        for row in 0..n {
            for block in 0..k / 32 {
                bytes.extend(scale(row, block).to_le_bytes());
                bytes.extend((0..32).map(|i| quant(row, block * 32 + i) as u8));
            }
        }
        let threads = Threads::new(2).unwrap();
        let packed = PackedMatrix::pack(Source::Q8_0(&bytes), n, k, 2, &threads).unwrap();
        assert_eq!(packed.n_bytes(), 32 * (k + k / 32 * 2));
        for i in 0..n {
            for j in 0..k {
                assert_eq!(packed.get(i, j), Some(scale(i, j / 32).to_f32() * f32::from(quant(i, j))), "{i} {j}");
            }
        }
    }

    #[test]
    fn a_wrong_size_is_an_error() {
        let threads = Threads::new(1).unwrap();
        assert!(PackedMatrix::pack(Source::F32(&[0; 12]), 2, 2, 1, &threads).is_err());
        assert!(PackedMatrix::pack(Source::F32(&[0; 16]), 2, 2, 3, &threads).is_err());
        assert!(PackedMatrix::pack(Source::F16(&[]), 0, 4, 1, &threads).is_err());
        assert!(PackedMatrix::pack(Source::F16(&[]), usize::MAX, usize::MAX, 1, &threads).is_err());
        assert!(PackedMatrix::pack(Source::Q8_0(&[0; 34]), 2, 16, 1, &threads).is_err());
    }
}
