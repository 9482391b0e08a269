//! The encoder: ModernBERT layers over rows packed one after the other.

use std::ops::Range;

use super::config::Config;
use super::control::Control;
use super::trace::{Stage, Trace};
use super::weight::{Linear, Norm, Weights};
use crate::kernels::arch::tile::Tile;
use crate::kernels::attention::{Head, Scratch};
use crate::kernels::elementary::{AddInPlace, Gate};
use crate::kernels::norm::LayerNorm;
use crate::kernels::product::product;
use crate::kernels::rotary::RotaryTable;
use crate::kernels::{InstructionSet, PackedMatrix, Threads};

/// How a pass computes.
#[derive(Debug, Clone, Copy)]
pub struct Compute<'a> {
    /// The instruction set.
    pub isa: InstructionSet,
    /// The threads.
    pub threads: &'a Threads,
}

impl Compute<'_> {
    /// `weights x`, `[m, n]` for `x` of `[m, k]`.
    pub fn product(&self, x: &[f32], weights: &PackedMatrix, y: &mut [f32]) {
        product(self.isa, self.threads, x, weights, None, y);
    }

    /// `weights x + bias`.
    pub fn linear(&self, x: &[f32], linear: &Linear, y: &mut [f32]) {
        product(self.isa, self.threads, x, &linear.weight, Some(&linear.bias), y);
    }

    /// Layer norm of every row of `x`.
    pub fn norm(&self, x: &[f32], weight: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
        let width = weight.len();
        self.threads.for_each_row(out, width, |i, out| {
            let x = &x[i * width..][..width];
            self.isa.run(LayerNorm { x, weight, bias, epsilon, out });
        });
    }

    /// Layer norm with bias.
    pub fn norm_with_bias(&self, x: &[f32], norm: &Norm, epsilon: f32, out: &mut [f32]) {
        self.norm(x, &norm.weight, Some(&norm.bias), epsilon, out);
    }

    /// `x += y`.
    pub fn add(&self, x: &mut [f32], y: &[f32], width: usize) {
        self.threads.for_each_row(x, width, |i, x| self.isa.run(AddInPlace(x, &y[i * width..][..width])));
    }

    /// Attention of every head over every row of tokens: `qkv` is `[n_tokens, 3 width]`, `out` is `[n_tokens, width]`,
    /// and `spans` are the rows' tokens.
    pub fn attention(&self, attention: &Attention<'_>, qkv: &[f32], spans: &[Range<usize>], out: &mut [f32]) {
        let &Attention { width, n_head, rotary, radius } = attention;
        let head = width / n_head;
        let columns: Vec<_> = (0..n_head).map(|h| h * head..(h + 1) * head).collect();
        self.threads.for_each(Tile::cut(out, width, spans, &columns), Scratch::default, |scratch, mut tile| {
            let (tokens, column) = (tile.rows(), tile.columns().start);
            let qkv = &qkv[tokens.start * 3 * width..tokens.end * 3 * width];
            self.isa.run(Head { qkv, width, column, head, rotary, radius, out: &mut tile, scratch });
        });
    }
}

/// The attention of a layer.
#[derive(Debug)]
pub struct Attention<'a> {
    /// Width of the model.
    pub width: usize,
    /// Heads; they divide the width.
    pub n_head: usize,
    /// Rotary table; none in the decision head.
    pub rotary: Option<&'a RotaryTable>,
    /// How far a key may be; none on global layers.
    pub radius: Option<usize>,
}

/// What every step of one pass needs.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    /// How to compute.
    pub compute: Compute<'a>,
    /// The hyperparameters.
    pub config: &'a Config,
    /// The weights.
    pub weights: &'a Weights,
    /// What to do wrong on purpose.
    pub control: Control,
    /// Where each row's tokens lie among all tokens, one after the other.
    pub spans: &'a [Range<usize>],
}

/// Rotary tables of the two kinds of layer, covering the longest row.
#[derive(Debug)]
pub struct Rotary {
    /// For global layers.
    pub global: RotaryTable,
    /// For local layers, when their base is another.
    local: Option<RotaryTable>,
}

impl Rotary {
    /// Tables of `n_positions` positions.
    pub fn new(config: &Config, n_positions: usize) -> Self {
        let head = config.n_embd / config.n_head;
        let differs = config.rope_base_local != config.rope_base_global;
        Self {
            global: RotaryTable::new(n_positions, head, config.rope_base_global),
            local: differs.then(|| RotaryTable::new(n_positions, head, config.rope_base_local)),
        }
    }

    /// The table of local layers.
    pub fn local(&self) -> &RotaryTable {
        self.local.as_ref().unwrap_or(&self.global)
    }
}

/// Runs the encoder over `hidden`, `[n_tokens, n_embd]`: token embeddings on the way in, final norm applied on the way out.
pub fn encode(pass: Pass<'_>, rotary: &Rotary, hidden: &mut Vec<f32>, trace: &mut dyn Trace) {
    let Pass { compute, config, weights, control, spans } = pass;
    let (d, f) = (config.n_embd, config.n_ff);
    let n = hidden.len() / d;
    let mut normed = vec![0.0; n * d];
    compute.norm(hidden, &weights.token_embd_norm, None, config.norm_epsilon, &mut normed);
    std::mem::swap(hidden, &mut normed);
    trace.stage(Stage::Embedding, hidden);

    let mut wide = vec![0.0; n * (3 * d).max(2 * f)];
    let mut mixed = vec![0.0; n * d.max(f)];
    let unit = vec![1.0; d];
    for (i, layer) in weights.layers.iter().enumerate() {
        let global = control.is_global(config.is_global(i));
        let table = if global { &rotary.global } else { rotary.local() };
        let radius = (!global).then(|| control.radius(config.window));

        // Layer 0 has no attention norm: the embedding norm was just applied.
        let norm = match &layer.attn_norm {
            None if control.first_attention_norm => Some(&unit),
            norm => norm.as_ref(),
        };
        let input = match norm {
            Some(norm) => {
                compute.norm(hidden, norm, None, config.norm_epsilon, &mut normed);
                &normed
            }
            None => &*hidden,
        };
        let qkv = &mut wide[..n * 3 * d];
        compute.product(input, &layer.attn_qkv, qkv);
        let attended = &mut mixed[..n * d];
        let attention = Attention { width: d, n_head: config.n_head, rotary: Some(table), radius };
        compute.attention(&attention, qkv, spans, attended);
        if control.attention_output {
            compute.product(attended, &layer.attn_output, &mut normed);
            compute.add(hidden, &normed, d);
        } else {
            compute.add(hidden, attended, d);
        }

        compute.norm(hidden, &layer.ffn_norm, None, config.norm_epsilon, &mut normed);
        let up = &mut wide[..n * 2 * f];
        compute.product(&normed, &layer.ffn_up, up);
        let gated = &mut mixed[..n * f];
        compute.threads.for_each_row(gated, f, |t, out| {
            compute.isa.run(Gate { row: &up[t * 2 * f..][..2 * f], out, activation: control.activation });
        });
        compute.product(gated, &layer.ffn_down, &mut normed);
        compute.add(hidden, &normed, d);
        trace.stage(Stage::EncoderLayer(i), hidden);
    }
    compute.norm(hidden, &weights.output_norm, None, config.norm_epsilon, &mut normed);
    std::mem::swap(hidden, &mut normed);
    trace.stage(Stage::FinalNorm, hidden);
}
