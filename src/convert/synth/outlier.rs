//! The massive activation of trained mmBERT models on the `[CLS]` row.
//!
//! From about the middle layer on, five dimensions of that row reach about 1.4e4 while everything else stays near 1. The
//! synthetic one is made the same way: one feed-forward unit of a middle layer that only the `[CLS]` row excites, because
//! its embedding alone is large in one dimension (the *flag*), writes large values into the residual stream.

use super::weight::{Change, Patch, Recipe};
use crate::convert::hyper::Hyper;

/// The dimensions of a 768-wide model.
const DIMENSIONS: [(u64, f32); 5] = [(468, 1.0), (488, -0.62), (530, 0.81), (580, -0.93), (614, 0.55)];
/// The flag dimension of a 768-wide model and the unit that looks for it.
const FLAG: u64 = 137;
const UNIT: u64 = 3;
/// The size of the largest activation.
const TARGET: f64 = 1.4e4;
/// The flag of the `[CLS]` embedding; the other elements have a deviation of 0.5.
const CLS_FLAG: f32 = 16.0;
/// What is left of everything that would write into the flag dimension.
const QUIET: f32 = 0.02;

/// Changes the recipes of a checkpoint so that the `[CLS]` row carries massive activations.
pub(super) fn plant(recipes: &mut [Recipe], hyper: &Hyper, cls: u32) {
    let place = |dimension: u64| dimension * u64::from(hyper.n_embd) / 768;
    let (flag, layer) = (place(FLAG), hyper.n_layer / 2);
    let mut patch = |name: &str, row: Option<u64>, column: Option<u64>, change: Change| {
        if let Some(recipe) = recipes.iter_mut().find(|recipe| recipe.name == name) {
            recipe.patches.push(Patch { row, column, change });
        }
    };
    let embedding = "encoder.embeddings.tok_embeddings.weight";
    patch(embedding, None, Some(flag), Change::Scale(QUIET));
    patch(embedding, Some(u64::from(cls)), Some(flag), Change::Set(CLS_FLAG));
    patch("encoder.embeddings.norm.weight", Some(flag), None, Change::Set(1.25));
    for i in 0..=layer {
        patch(&format!("encoder.layers.{i}.attn.Wo.weight"), Some(flag), None, Change::Scale(QUIET));
        if i < layer {
            patch(&format!("encoder.layers.{i}.mlp.Wo.weight"), Some(flag), None, Change::Scale(QUIET));
        }
    }
    let base = format!("encoder.layers.{layer}");
    patch(&format!("{base}.mlp_norm.weight"), Some(flag), None, Change::Set(1.5));
    for row in [UNIT, u64::from(hyper.n_ff) + UNIT] {
        patch(&format!("{base}.mlp.Wi.weight"), Some(row), None, Change::Set(0.0));
        patch(&format!("{base}.mlp.Wi.weight"), Some(row), Some(flag), Change::Set(8.0));
    }
    let unit = excitation(hyper, layer);
    for (dimension, share) in DIMENSIONS {
        let value = (TARGET / unit) as f32 * share;
        patch(&format!("{base}.mlp.Wo.weight"), Some(place(dimension)), Some(UNIT), Change::Set(value));
    }
}

/// About what the unit gives on the `[CLS]` row: the square of its input, because gelu(x) is x there.
///
/// The embedding's norm makes the flag `CLS_FLAG * 1.25` over the deviation of its row. It stands against a residual stream
/// whose variance grows by about 3 a layer on that row (measured; by 2 in the first few, where the flag itself is most of
/// the row); the norm weight is 1.5 and the unit's weight 8.
fn excitation(hyper: &Hyper, layer: u32) -> f64 {
    let d = f64::from(hyper.n_embd);
    let own = f64::from(CLS_FLAG);
    let flag = own / (0.25 + own * own / d).sqrt() * 1.25;
    let growth = if layer < 4 { 2.0 } else { 3.0 };
    let variance = 1.24 * 0.25 / (0.25 + own * own / d) + flag * flag / d + growth * (f64::from(layer) + 0.5);
    let input = flag / variance.sqrt() * 1.5 * 8.0;
    input * input
}
