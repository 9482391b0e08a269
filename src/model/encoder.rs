//! The encoder: ModernBERT layers over rows packed one after the other.

use std::ops::Range;
use std::sync::Mutex;

use super::config::Config;
use super::control::Control;
use super::scratch::Scratch;
use super::trace::{Phase, Stage, Trace};
use super::weight::{Linear, Weights};
use crate::kernels::arch::tile::Tile;
use crate::kernels::attention::{self, Columns, Head, MAX_GROUP};
use crate::kernels::elementary::AddInPlace;
use crate::kernels::interleave::{Interleaved, split};
use crate::kernels::norm::{LayerNorm, Norm};
use crate::kernels::product::{self, Finish, Output};
use crate::kernels::rotary::RotaryTable;
use crate::kernels::thread::ROWS_PER_TASK;
use crate::kernels::{InstructionSet, PackedMatrix, Product, Threads};

/// Rows that go through the products together, so that they stay near the processor while every panel of weights is
/// widened once for all of them.
const BLOCK_ROWS: usize = 512;

/// How a pass computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compute<'a> {
    /// The instruction set.
    pub(super) isa: InstructionSet,
    /// The threads.
    pub(super) threads: &'a Threads,
}

impl Compute<'_> {
    /// Computes `product` of `input`.
    pub(super) fn product(
        &self,
        product: Product<'_>,
        scratch: &[Mutex<product::Scratch>],
        input: &Interleaved,
        out: Output<'_>,
    ) {
        product.run(self.isa, self.threads, scratch, input, out);
    }

    /// `product` of the rows of `x` through `norm` (when there is one), block by block of rows; `out` has a row for each.
    pub(super) fn project(
        &self,
        product: Product<'_>,
        x: &[f32],
        norm: Option<Norm<'_>>,
        mut out: Output<'_>,
        input: &mut Interleaved,
        scratch: &[Mutex<product::Scratch>],
    ) {
        let k = product.weights.k();
        for block in blocks(x.len() / k) {
            input.fill(self.isa, self.threads, &x[block.start * k..block.end * k], k, norm);
            self.product(product, scratch, input, out.rows(&block, product.n_outputs()));
        }
    }

    /// Layer norm of every row of `x`, in place.
    pub(super) fn norm(&self, x: &mut [f32], norm: Norm<'_>, rows: &[Mutex<Vec<f32>>]) {
        let width = norm.weight.len();
        self.threads.for_each_with(rows, x.chunks_mut(ROWS_PER_TASK * width).collect(), |copy, task| {
            for row in task.chunks_exact_mut(width) {
                copy.clear();
                copy.extend_from_slice(row);
                self.isa.run(LayerNorm { x: copy, norm, out: row });
            }
        });
    }

    /// `x += y`.
    pub(super) fn add(&self, x: &mut [f32], y: &[f32], width: usize) {
        let rows = ROWS_PER_TASK * width;
        let tasks: Vec<_> = x.chunks_mut(rows).zip(y.chunks(rows)).collect();
        self.threads.for_each(tasks, |(x, y)| self.isa.run(AddInPlace(x, y)));
    }

    /// Attention of every head over every sequence. `out` is `[n_queries, width]`.
    pub(super) fn attention(&self, attention: &Attention<'_>, scratch: &[Mutex<attention::Scratch>], out: &mut [f32]) {
        let &Attention { width, n_head, rotary, radius, queries, keys, values, .. } = attention;
        let head = width / n_head;
        let columns: Vec<_> = (0..n_head).map(|h| h * head..(h + 1) * head).collect();
        let tiles = Tile::cut(out, width, attention.query_spans, &columns);
        let spans = attention.key_spans.iter().flat_map(|span| std::iter::repeat_n(span, n_head));
        let n_tiles = tiles.len();
        let mut tasks = Vec::with_capacity(n_tiles);
        for (i, (tile, span)) in tiles.into_iter().zip(spans).enumerate() {
            let (first, n) = (tile.rows().start, tile.rows().len());
            let mut pieces = self.threads.pieces(i, n_tiles, n.div_ceil(MAX_GROUP), 2);
            for piece in &mut pieces {
                *piece = piece.start * MAX_GROUP..n.min(piece.end * MAX_GROUP);
            }
            tasks.extend(tile.split_rows(&pieces).into_iter().map(|piece| (piece, first, span)));
        }
        self.threads.for_each_with(scratch, tasks, |scratch, (mut tile, first, span)| {
            let column = tile.columns().start;
            let first_query = tile.rows().start - first;
            let queries = queries.of(first, column);
            let (keys, values) = (keys.of(span.start, column), values.of(span.start, column));
            let n_keys = span.len();
            let out = &mut tile;
            self.isa.run(Head { queries, first_query, keys, values, n_keys, head, rotary, radius, out, scratch });
        });
    }
}

/// The queries, keys or values of all heads, in panels of sixteen columns: `[panels, rows, 16]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) panels: &'a [f32],
    pub(super) rows: usize,
}

impl<'a> Part<'a> {
    /// The parts `panels` consists of, `rows` rows each.
    pub(super) fn split<const N: usize>(panels: &'a [f32], rows: usize) -> [Self; N] {
        let size = panels.len() / N;
        std::array::from_fn(|i| Self { panels: &panels[i * size..(i + 1) * size], rows })
    }

    /// The rows from `first` on, from `column` on.
    fn of(self, first: usize, column: usize) -> Columns<'a> {
        Columns { panels: self.panels, rows: self.rows, first, column }
    }
}

/// The attention of a layer.
#[derive(Debug)]
pub(super) struct Attention<'a> {
    /// Width of the model.
    pub(super) width: usize,
    /// Heads; they divide the width.
    pub(super) n_head: usize,
    /// Rotary table; none in the decision head.
    pub(super) rotary: Option<&'a RotaryTable>,
    /// How far a key may be; none on global layers.
    pub(super) radius: Option<usize>,
    pub(super) queries: Part<'a>,
    pub(super) keys: Part<'a>,
    pub(super) values: Part<'a>,
    /// The queries of every sequence.
    pub(super) query_spans: &'a [Range<usize>],
    /// The keys of every sequence.
    pub(super) key_spans: &'a [Range<usize>],
}

/// What every step of one pass needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'a> {
    /// How to compute.
    pub(super) compute: Compute<'a>,
    /// The hyperparameters.
    pub(super) config: &'a Config,
    /// The weights.
    pub(super) weights: &'a Weights,
    /// What to do wrong on purpose.
    pub(super) control: Control,
    /// Where each row's tokens lie among all tokens, one after the other.
    pub(super) spans: &'a [Range<usize>],
}

/// Rotary tables of the two kinds of layer, covering the longest row.
#[derive(Debug)]
pub(super) struct Rotary {
    /// For global layers.
    pub(super) global: RotaryTable,
    /// For local layers, when their base is another.
    local: Option<RotaryTable>,
}

impl Rotary {
    /// Tables of `n_positions` positions.
    pub(super) fn new(config: &Config, n_positions: usize) -> Self {
        let head = config.n_embd / config.n_head;
        let differs = config.rope_base_local != config.rope_base_global;
        Self {
            global: RotaryTable::new(n_positions, head, config.rope_base_global),
            local: differs.then(|| RotaryTable::new(n_positions, head, config.rope_base_local)),
        }
    }

    /// The table of local layers.
    pub(super) fn local(&self) -> &RotaryTable {
        self.local.as_ref().unwrap_or(&self.global)
    }
}

/// Blocks of rows that go through the products together.
pub(super) fn blocks(n_rows: usize) -> Vec<Range<usize>> {
    split(n_rows, BLOCK_ROWS)
}

/// `weights x`, nothing else.
fn plain(weights: &PackedMatrix, finish: Finish) -> Product<'_> {
    Product::new(weights, None, finish)
}

impl Linear {
    /// `weights x + bias`.
    pub(super) fn product(&self, finish: Finish) -> Product<'_> {
        Product::new(&self.weight, Some(&self.bias), finish)
    }
}

/// The two products of a feed-forward.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedForward<'a> {
    pub(super) norm: Norm<'a>,
    pub(super) up: Product<'a>,
    pub(super) down: Product<'a>,
}

impl FeedForward<'_> {
    /// `x += down(up(norm(x)))` for the rows of one block.
    pub(super) fn run(
        &self,
        compute: Compute<'_>,
        x: &mut [f32],
        input: &mut Interleaved,
        inner: &mut Interleaved,
        scratch: &[Mutex<product::Scratch>],
    ) {
        let d = self.norm.weight.len();
        input.fill(compute.isa, compute.threads, x, d, Some(self.norm));
        inner.reserve(compute.isa, x.len() / d, self.up.n_outputs());
        compute.product(self.up, scratch, input, Output::Interleaved(inner));
        compute.product(self.down, scratch, inner, Output::Rows(x));
    }
}

/// Runs the encoder over `scratch.hidden`, `[n_tokens, n_embd]`: token embeddings on the way in, final norm applied on
/// the way out.
pub(super) fn encode(pass: Pass<'_>, rotary: &Rotary, scratch: &mut Scratch, trace: &mut dyn Trace) {
    let Pass { compute, config, weights, control, spans } = pass;
    let Scratch { hidden, qkv, attended, input, inner, threads, .. } = scratch;
    let d = config.n_embd;
    let n = hidden.len() / d;
    let of = |weight| Norm { weight, bias: None, epsilon: config.norm_epsilon };
    compute.norm(hidden, of(&weights.token_embd_norm), &threads.rows);
    trace.stage(Stage::Embedding, hidden);
    trace.phase(Phase::Embedding);

    attended.resize(n * d, 0.0);
    let unit = vec![1.0; d];
    let blocks = blocks(n);
    for (i, layer) in weights.layers.iter().enumerate() {
        let global = control.is_global(config.is_global(i));
        let table = if global { &rotary.global } else { rotary.local() };
        let radius = (!global).then(|| control.radius(config.window));

        // Layer 0 has no attention norm: the embedding norm was just applied.
        let norm = match &layer.attn_norm {
            None if control.first_attention_norm => Some(of(&unit)),
            norm => norm.as_deref().map(of),
        };
        let product = plain(&layer.attn_qkv, Finish::Store);
        qkv.resize(product.n_panel_values(n), 0.0);
        compute.project(product, hidden, norm, Output::panels(qkv, n), input, &threads.products);
        trace.phase(Phase::Qkv);
        let [queries, keys, values] = Part::split(qkv, n);
        let attention = Attention {
            width: d,
            n_head: config.n_head,
            rotary: Some(table),
            radius,
            queries,
            keys,
            values,
            query_spans: spans,
            key_spans: spans,
        };
        compute.attention(&attention, &threads.attention, attended);
        trace.phase(if global { Phase::GlobalAttention } else { Phase::LocalAttention });
        if control.attention_output {
            let product = plain(&layer.attn_output, Finish::Add);
            compute.project(product, attended, None, Output::Rows(hidden), input, &threads.products);
        } else {
            compute.add(hidden, attended, d);
        }
        trace.phase(Phase::AttentionOutput);

        let feed_forward = FeedForward {
            norm: of(&layer.ffn_norm),
            up: plain(&layer.ffn_up, Finish::Gate(control.activation)),
            down: plain(&layer.ffn_down, Finish::Add),
        };
        for block in &blocks {
            let x = &mut hidden[block.start * d..block.end * d];
            feed_forward.run(compute, x, input, inner, &threads.products);
        }
        trace.phase(Phase::FeedForward);
        trace.stage(Stage::EncoderLayer(i), hidden);
    }
    compute.norm(hidden, of(&weights.output_norm), &threads.rows);
    trace.stage(Stage::FinalNorm, hidden);
    trace.phase(Phase::FinalNorm);
}
