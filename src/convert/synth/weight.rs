//! What the weights of a synthetic checkpoint are.
//!
//! They are random but not small: attention is far from uniform, logits spread over several units, every norm weight and
//! bias differs from its neutral value, so that leaving out or bending any part of the forward pass shows. Scales follow
//! the fan-in, so activations stay healthy at any width and depth.

use super::random::{Draw, Stream};
use crate::convert::hyper::Hyper;

/// A change to some elements after they were drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Patch {
    /// One row, or all.
    pub(super) row: Option<u64>,
    /// One column, or all.
    pub(super) column: Option<u64>,
    pub(super) change: Change,
}

/// What happens to an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    Set(f32),
    Scale(f32),
}

impl Change {
    fn apply(self, value: &mut f32) {
        match self {
            Self::Set(new) => *value = new,
            Self::Scale(factor) => *value *= factor,
        }
    }
}

/// One tensor: how it is drawn and what is changed afterwards.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) name: String,
    /// PyTorch's order.
    pub(super) shape: Vec<u64>,
    pub(super) draw: Draw,
    pub(super) patches: Vec<Patch>,
}

impl Recipe {
    pub(super) fn new(name: &str, shape: Vec<u64>, hyper: &Hyper) -> Self {
        let d = u64::from(hyper.n_embd);
        let draw = draw(name, &shape, d);
        let mut patches = Vec::new();
        if name == "act_head.0.weight" {
            // The four features lie in [0, 1]; larger columns let each of them move the act logits.
            let scale = Change::Scale((1.5 / 0.8 * (d as f64).sqrt()) as f32);
            patches.extend((d..d + 4).map(|column| Patch { row: None, column: Some(column), change: scale }));
        }
        Self { name: name.to_owned(), shape, draw, patches }
    }

    pub(super) fn n_elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The elements `first..first + out.len()` under `seed`.
    pub(super) fn fill(&self, seed: u64, first: u64, out: &mut [f32]) {
        self.draw.fill(Stream::new(seed, &self.name), first, out);
        let columns = if self.shape.len() > 1 { self.shape.last().copied().unwrap_or(1) } else { 1 };
        for patch in &self.patches {
            patch.apply(columns.max(1), first, out);
        }
    }
}

impl Patch {
    /// Applies the patch to the part `first..first + out.len()` of a tensor with `columns` columns.
    fn apply(self, columns: u64, first: u64, out: &mut [f32]) {
        let end = first + out.len() as u64;
        let rows = match self.row {
            Some(row) => row..row + 1,
            None => first / columns..end.div_ceil(columns),
        };
        for row in rows {
            let span = match self.column {
                Some(column) => row * columns + column..row * columns + column + 1,
                None => row * columns..(row + 1) * columns,
            };
            for at in span.start.max(first)..span.end.min(end) {
                if let Some(value) = out.get_mut((at - first) as usize) {
                    self.change.apply(value);
                }
            }
        }
    }
}

/// How the tensor `name` is drawn.
fn draw(name: &str, shape: &[u64], d: u64) -> Draw {
    let fan_in = shape.last().copied().unwrap_or(d).max(1) as f64;
    let normal = |gain: f64| Draw::Normal(gain / fan_in.sqrt());
    let end = name.rsplit_once("layers.").map_or(name, |(_, end)| end.split_once('.').map_or(end, |(_, end)| end));
    match end {
        "temperature" => Draw::Constant(1.0),
        "encoder.embeddings.tok_embeddings.weight" => Draw::Normal(0.5),
        "type_emb.weight" => Draw::Normal(0.8),
        _ if shape.len() == 1 && (end.contains("norm") || end == "scorer.0.weight") && end.ends_with("weight") => {
            Draw::Uniform(0.4, 1.7)
        }
        "scorer.3.bias" => Draw::Normal(0.5),
        "act_head.2.bias" => Draw::Normal(0.3),
        _ if shape.len() == 1 => Draw::Normal(0.2),
        "attn.Wqkv.weight" | "self_attn.in_proj_weight" => normal(1.25),
        "mlp.Wi.weight" => normal(1.7),
        "mlp.Wo.weight" => normal(0.7),
        "linear1.weight" | "linear2.weight" => normal(1.2),
        "scorer.1.weight" => normal(1.5),
        "scorer.3.weight" => normal(5.0),
        "act_head.0.weight" => normal(0.8),
        _ => normal(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_reach_exactly_their_elements() {
        for first in 0..12u64 {
            for (row, column) in [(None, Some(1)), (Some(2), None), (Some(1), Some(3)), (None, None)] {
                let mut whole = vec![0.0; 20];
                let patch = Patch { row, column, change: Change::Set(1.0) };
                patch.apply(4, 0, &mut whole);
                let mut part = vec![0.0; 7];
                patch.apply(4, first, &mut part);
                assert_eq!(part, whole[first as usize..first as usize + 7], "{first} {row:?} {column:?}");
            }
        }
        let mut values = vec![1.0; 8];
        Patch { row: None, column: Some(3), change: Change::Scale(0.5) }.apply(4, 0, &mut values);
        assert_eq!(values, [1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5]);
    }

    #[test]
    fn names_find_their_distribution() {
        assert_eq!(draw("encoder.layers.3.attn_norm.weight", &[8], 8), Draw::Uniform(0.4, 1.7));
        assert_eq!(draw("encoder.final_norm.weight", &[8], 8), Draw::Uniform(0.4, 1.7));
        assert_eq!(draw("scorer.0.weight", &[8], 8), Draw::Uniform(0.4, 1.7));
        assert_eq!(draw("head.layers.1.norm1.bias", &[8], 8), Draw::Normal(0.2));
        assert_eq!(draw("head.layers.1.norm1.weight", &[8], 8), Draw::Uniform(0.4, 1.7));
        assert_eq!(draw("encoder.layers.3.mlp.Wi.weight", &[8, 16], 16), Draw::Normal(1.7 / 4.0));
        assert_eq!(draw("encoder.layers.3.attn.Wo.weight", &[16, 16], 16), Draw::Normal(0.25));
    }
}
