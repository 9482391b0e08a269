//! Weights, laid out once at load so that a product reads them in order.

use half::f16;

use super::thread::Threads;
use crate::error::{Error, ErrorKind, Result};

/// Outputs of a panel: two vectors of sixteen lanes.
pub const PANEL: usize = 32;

/// A weight matrix `[n, k]` (`n` outputs, `k` inputs) in panels of [`PANEL`] outputs.
///
/// Panel `p` holds, for each `k` in order, the weights of outputs `32 p .. 32 p + 32`; outputs beyond `n` are zero.
/// Values stay in the type they are stored in.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    n: usize,
    k: usize,
    values: Values,
}

/// The values of a packed matrix, panels one after the other.
#[derive(Debug, Clone)]
pub enum Values {
    /// IEEE binary32.
    F32(Vec<f32>),
    /// IEEE binary16 bits.
    F16(Vec<u16>),
}

/// A row-major `[n, k]` source of weights, little-endian bytes as in the file.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// IEEE binary32.
    F32(&'a [u8]),
    /// IEEE binary16.
    F16(&'a [u8]),
}

impl Source<'_> {
    fn n_bytes(self) -> usize {
        match self {
            Self::F32(bytes) | Self::F16(bytes) => bytes.len(),
        }
    }

    fn element_bytes(self) -> usize {
        match self {
            Self::F32(_) => 4,
            Self::F16(_) => 2,
        }
    }
}

impl PackedMatrix {
    /// Packs the row-major matrix `source` of shape `[n, k]`.
    ///
    /// # Errors
    /// The source does not hold `n * k` values, or a dimension is zero.
    pub fn pack(source: Source<'_>, n: usize, k: usize, threads: &Threads) -> Result<Self> {
        let bytes = n.checked_mul(k).and_then(|count| count.checked_mul(source.element_bytes()));
        if n == 0 || k == 0 || bytes != Some(source.n_bytes()) {
            let message = format!("holds {} bytes, which is not a matrix of {n} x {k}", source.n_bytes());
            return Err(Error::new(ErrorKind::Model, message));
        }
        let values = match source {
            Source::F32(bytes) => {
                let (rows, _) = bytes.as_chunks::<4>();
                Values::F32(panels(rows, n, k, threads, |bytes| f32::from_le_bytes(*bytes)))
            }
            Source::F16(bytes) => {
                let (rows, _) = bytes.as_chunks::<2>();
                Values::F16(panels(rows, n, k, threads, |bytes| u16::from_le_bytes(*bytes)))
            }
        };
        Ok(Self { n, k, values })
    }

    /// Outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Panels.
    pub fn n_panels(&self) -> usize {
        self.n.div_ceil(PANEL)
    }

    /// The stored values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Bytes held.
    pub fn n_bytes(&self) -> usize {
        match &self.values {
            Values::F32(values) => size_of_val(values.as_slice()),
            Values::F16(values) => size_of_val(values.as_slice()),
        }
    }

    /// Weight `[output][input]`, widened exactly.
    pub fn get(&self, output: usize, input: usize) -> Option<f32> {
        let inside = output < self.n && input < self.k;
        let at = (output / PANEL * self.k + input) * PANEL + output % PANEL;
        inside.then(|| match &self.values {
            Values::F32(values) => values[at],
            Values::F16(values) => f16::from_bits(values[at]).to_f32(),
        })
    }
}

/// Transposes row-major `[n, k]` into panels.
fn panels<S: Sync, T: Copy + Default + Send>(
    rows: &[S],
    n: usize,
    k: usize,
    threads: &Threads,
    read: impl Fn(&S) -> T + Sync + Send,
) -> Vec<T> {
    // Inputs of a block: the 32 rows are read along a cache line each while the block of the panel is in cache.
    const BLOCK: usize = 64;
    let mut packed = vec![T::default(); n.div_ceil(PANEL) * PANEL * k];
    let tasks: Vec<_> = packed.chunks_mut(PANEL * k).enumerate().collect();
    threads.for_each(
        tasks,
        || (),
        |(), (p, panel)| {
            let n_outputs = PANEL.min(n - p * PANEL);
            for from in (0..k).step_by(BLOCK) {
                let to = (from + BLOCK).min(k);
                for j in 0..n_outputs {
                    let row = &rows[(p * PANEL + j) * k..][from..to];
                    let column = panel[from * PANEL + j..].iter_mut().step_by(PANEL);
                    row.iter().zip(column).for_each(|(source, value)| *value = read(source));
                }
            }
        },
    );
    packed
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
        let packed = PackedMatrix::pack(Source::F32(&bytes), n, k, &threads).unwrap();
        let packed16 = PackedMatrix::pack(Source::F16(&halves), n, k, &threads).unwrap();
        assert_eq!((packed.n_panels(), packed.n_bytes()), (3, 96 * 130 * 4));
        for i in 0..n {
            for j in 0..k {
                let weight = weights[i * k + j];
                assert_eq!(packed.get(i, j), Some(weight));
                assert_eq!(packed16.get(i, j), Some(f16::from_f32(weight / 16384.0).to_f32()));
            }
        }
        assert_eq!(packed.get(n, 0), None);
    }

    #[test]
    fn a_wrong_size_is_an_error() {
        let threads = Threads::new(1).unwrap();
        assert!(PackedMatrix::pack(Source::F32(&[0; 12]), 2, 2, &threads).is_err());
        assert!(PackedMatrix::pack(Source::F16(&[]), 0, 4, &threads).is_err());
        assert!(PackedMatrix::pack(Source::F16(&[]), usize::MAX, usize::MAX, &threads).is_err());
    }
}
