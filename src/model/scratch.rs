//! What a pass computes in: buffers kept between passes.

use std::sync::{Mutex, PoisonError};

use crate::kernels::attention;
use crate::kernels::interleave::Interleaved;
use crate::kernels::product;

/// Buffers of one pass. Only their capacity outlives it.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The hidden state, `[n_tokens, n_embd]`.
    pub(super) hidden: Vec<f32>,
    /// Queries, keys and values, `[n_tokens, 3 n_embd]`.
    pub(super) qkv: Vec<f32>,
    /// What attention gives, `[n_tokens, n_embd]`.
    pub(super) attended: Vec<f32>,
    /// The hidden state of the rows that are read, `[n_read, n_embd]`.
    pub(super) read: Vec<f32>,
    /// Input of a product.
    pub(super) input: Interleaved,
    /// The inner activations of a feed-forward: output of one product, input of the next.
    pub(super) inner: Interleaved,
    /// For every thread.
    pub(super) threads: PerThread,
}

/// Scratch of every thread.
#[derive(Debug, Default)]
pub(super) struct PerThread {
    pub(super) products: Vec<Mutex<product::Scratch>>,
    pub(super) attention: Vec<Mutex<attention::Scratch>>,
    /// One row, `[n_embd]`.
    pub(super) rows: Vec<Mutex<Vec<f32>>>,
}

impl PerThread {
    fn new(n: usize) -> Self {
        fn each<T: Default>(n: usize) -> Vec<Mutex<T>> {
            (0..n).map(|_| Mutex::default()).collect()
        }
        Self { products: each(n), attention: each(n), rows: each(n) }
    }
}

impl Scratch {
    /// Bytes held.
    fn n_bytes(&self) -> usize {
        let Self { hidden, qkv, attended, read, input, inner, threads } = self;
        let vectors: usize = [hidden, qkv, attended, read].iter().map(|v| v.capacity() * size_of::<f32>()).sum();
        let attention = threads.attention.iter().map(|t| t.lock().unwrap_or_else(PoisonError::into_inner).n_bytes());
        vectors + input.n_bytes() + inner.n_bytes() + attention.sum::<usize>()
    }
}

/// Scratch that waits for the next pass: one for every pass that ran at the same time.
#[derive(Debug)]
pub(super) struct Pool {
    n_threads: usize,
    waiting: Mutex<Vec<Scratch>>,
}

/// Most bytes a waiting scratch may hold: enough for a batch of ordinary rows. What one very long row needed is freed
/// when its pass is over.
const MAX_KEPT_BYTES: usize = 96 << 20;

/// Most scratches that wait.
const MAX_KEPT: usize = 4;

impl Pool {
    /// For passes with `n_threads` threads.
    pub(super) fn new(n_threads: usize) -> Self {
        Self { n_threads, waiting: Mutex::default() }
    }

    /// Does `work` with a scratch, new or waiting.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let lock = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = lock().pop();
        let mut scratch =
            waiting.unwrap_or_else(|| Scratch { threads: PerThread::new(self.n_threads), ..Scratch::default() });
        let result = work(&mut scratch);
        let mut waiting = lock();
        if waiting.len() < MAX_KEPT && scratch.n_bytes() <= MAX_KEPT_BYTES {
            waiting.push(scratch);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_pass_grew_serves_the_next_unless_it_is_huge() {
        let pool = Pool::new(2);
        pool.with(|scratch| scratch.hidden.resize(1000, 1.0));
        pool.with(|scratch| {
            assert!(scratch.hidden.capacity() >= 1000 && scratch.threads.products.len() == 2);
            scratch.hidden.reserve(MAX_KEPT_BYTES);
        });
        pool.with(|scratch| assert_eq!(scratch.hidden.capacity(), 0));
    }
}
