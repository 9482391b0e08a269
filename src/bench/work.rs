//! The arithmetic a pass cannot do without.

use std::collections::BTreeMap;

use crate::model::{Config, Phase};

/// Floating-point operations (a multiply-add is two) of a pass, by phase: matrix products and attention, of the rows that
/// are read and the keys a query sees. Norms, activations and softmax are not counted: they are not work of the kind the
/// limit is measured with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work(BTreeMap<Phase, f64>);

impl Work {
    /// Work of one pass over `rows`, each its number of tokens and of options.
    pub fn of(config: &Config, act_width: usize, rows: &[(usize, usize)]) -> Self {
        let (d, f) = (config.n_embd as f64, config.n_ff as f64);
        let mut work = Self::default();
        for &(n_tokens, n_options) in rows {
            let (n, read) = (n_tokens as f64, 1.0 + n_options as f64);
            for layer in 0..config.n_layer {
                work.add(Phase::Qkv, 2.0 * n * 3.0 * d * d);
                if config.is_global(layer) {
                    work.add(Phase::GlobalAttention, 4.0 * d * n * n);
                } else {
                    work.add(Phase::LocalAttention, 4.0 * d * pairs(n_tokens, config.window / 2));
                }
                work.add(Phase::AttentionOutput, 2.0 * n * d * d);
                work.add(Phase::FeedForward, 2.0 * n * 3.0 * f * d);
            }
            for layer in 0..config.n_head_layer {
                // The last layer's keys and values come from every row, the rest of it from the rows that are read.
                let rows = if layer + 1 == config.n_head_layer { read } else { n };
                work.add(Phase::Head, 2.0 * d * d * (2.0 * n + rows * 10.0));
                work.add(Phase::HeadAttention, 4.0 * d * rows * n);
            }
            let act = (d + 4.0) * act_width as f64 + (act_width * config.n_act) as f64;
            work.add(Phase::Readout, 2.0 * (n_options as f64 * (d * d + d) + act));
        }
        work
    }

    fn add(&mut self, phase: Phase, flops: f64) {
        *self.0.entry(phase).or_default() += flops;
    }

    /// Operations of `phase`.
    pub fn phase(&self, phase: Phase) -> f64 {
        self.0.get(&phase).copied().unwrap_or(0.0)
    }

    /// Operations of the pass.
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }
}

/// Pairs of a query and a key at most `radius` apart, among `n` positions.
fn pairs(n: usize, radius: usize) -> f64 {
    (0..n).map(|i| (i + radius).min(n - 1) + 1 - i.saturating_sub(radius)).sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_at_the_edges_too() {
        let counted =
            |n: usize, radius: usize| (0..n * n).filter(|at| (at / n).abs_diff(at % n) <= radius).count() as f64;
        for (n, radius) in [(1, 0), (1, 64), (10, 3), (10, 9), (10, 20), (200, 64)] {
            assert_eq!(pairs(n, radius), counted(n, radius), "{n} {radius}");
        }
    }
}
