//! The matrix product: one fused multiply-add per input, in ascending order, into one accumulator.

use std::ops::Range;
use std::sync::Mutex;

use super::arch::tile::{Strip, Tile};
use super::elementary::{Activation, activate};
use super::interleave::Interleaved;
use super::isa::InstructionSet;
use super::lane::{Isa, LANES, MAX_TILE_ROWS, Operation, load_part, store_part, with_rows};
use super::pack::{PANEL, PackedMatrix, Panel};
use super::thread::Threads;

/// Most vectors of outputs any instruction set has in a tile.
pub(super) const MAX_TILE_VECTORS: usize = 2;

/// What becomes of `v = sum over k of x[m][k] * w[n][k]`, plus `bias[n]` when there is one (added last, rounded once more).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// `y = v`.
    Store,
    /// `y = y + v`.
    Add,
    /// `y = max(0, v)`; `-0` and NaN stay what they are.
    Relu,
    /// `y = activation(v)`.
    Activate(Activation),
    /// `y = activation(v of the first part) * (v of the second part)`; the weights have these two parts.
    Gate(Activation),
}

/// A product with a weight matrix.
#[derive(Debug, Clone, Copy)]
pub struct Product<'a> {
    /// `[n, k]`.
    pub weights: &'a PackedMatrix,
    /// `[n]`.
    pub bias: Option<&'a [f32]>,
    /// What is written.
    pub finish: Finish,
    /// The parts of the outputs to compute.
    pub parts: (usize, usize),
}

/// Where the result of a product goes: `[m, outputs]`.
pub enum Output<'a> {
    /// Row after row.
    Rows(&'a mut [f32]),
    /// In the order of another product's input, which was made room for.
    Interleaved(&'a mut Interleaved),
    /// Panel after panel of sixteen outputs, each `[rows, 16]`; every part starts a panel, and what a part does not have of
    /// its last panel is zero. The rows of the result are those from `first` on.
    Panels {
        /// `[panels, rows, 16]`.
        values: &'a mut [f32],
        /// Rows of a panel.
        rows: usize,
        /// The row of the first row of the result.
        first: usize,
    },
}

impl Output<'_> {
    /// Panels of `rows` rows.
    pub fn panels(values: &mut [f32], rows: usize) -> Output<'_> {
        Output::Panels { values, rows, first: 0 }
    }

    /// The part for the rows `block` of a result that has `n_outputs` values a row.
    ///
    /// # Panics
    /// The output is interleaved, which is as a whole: a mistake of the caller.
    pub fn rows(&mut self, block: &Range<usize>, n_outputs: usize) -> Output<'_> {
        match self {
            Output::Rows(values) => Output::Rows(&mut values[block.start * n_outputs..block.end * n_outputs]),
            Output::Panels { values, rows, first } => {
                Output::Panels { values, rows: *rows, first: *first + block.start }
            }
            Output::Interleaved(_) => unreachable!("an interleaved output has no part of its own"),
        }
    }
}

/// Scratch of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A widened panel for every vector of a tile.
    panels: [Vec<f32>; MAX_TILE_VECTORS],
    /// The first part of a gate, `[m, vectors, 16]`.
    gates: Vec<[f32; LANES]>,
}

impl<'a> Product<'a> {
    /// All outputs of `weights`.
    pub fn new(weights: &'a PackedMatrix, bias: Option<&'a [f32]>, finish: Finish) -> Self {
        Self { weights, bias, finish, parts: (0, weights.n_parts()) }
    }

    /// The outputs of the parts `from..to` alone.
    pub fn of_parts(self, from: usize, to: usize) -> Self {
        Self { parts: (from, to), ..self }
    }

    /// Outputs of a part.
    fn part_width(&self) -> usize {
        self.weights.n() / self.weights.n_parts()
    }

    /// Values of a row of the result.
    pub fn n_outputs(&self) -> usize {
        match self.finish {
            Finish::Gate(_) => self.part_width(),
            _ => self.part_width() * (self.parts.1 - self.parts.0),
        }
    }

    /// Panels of the result.
    fn n_panels(&self) -> usize {
        (self.parts.1 - self.parts.0) * self.weights.panels_per_part()
    }

    /// Values of a result of `rows` rows in panels.
    pub fn n_panel_values(&self, rows: usize) -> usize {
        self.n_panels() * rows * PANEL
    }

    /// Computes the product of `x`, `[m, k]`. The order of the sums is the numeric contract's, so the result does not
    /// depend on the instruction set, the threads or the other rows.
    ///
    /// # Panics
    /// The sizes do not agree: a mistake of the caller, who validated the shapes when the model was loaded.
    pub fn run(
        self,
        isa: InstructionSet,
        threads: &Threads,
        scratch: &[Mutex<Scratch>],
        x: &Interleaved,
        out: Output<'_>,
    ) {
        let (m, n_parts) = (x.n_rows(), self.weights.n_parts());
        let gated = matches!(self.finish, Finish::Gate(_));
        assert!(
            x.k() == self.weights.k()
                && self.parts.0 < self.parts.1
                && self.parts.1 <= n_parts
                && (!gated || self.parts == (0, 2))
                && self.bias.is_none_or(|bias| bias.len() == self.weights.n()),
            "sizes do not agree"
        );
        if m == 0 {
            return;
        }
        // Each task takes the outputs of one tile's width, in every row.
        let vectors = isa.run(TileVectors);
        let width = self.part_width();
        let parts = if gated { 0..1 } else { self.parts.0..self.parts.1 };
        let groups: Vec<_> = parts
            .flat_map(|part| {
                let first = part * self.weights.panels_per_part();
                let starts = (0..width).step_by(vectors * PANEL);
                starts.map(move |from| Group {
                    panel: first + from / PANEL,
                    output: part * width + from,
                    width: (vectors * PANEL).min(width - from),
                })
            })
            .collect();
        let from = groups.first().map_or(0, |group| group.output);
        let columns: Vec<_> =
            groups.iter().map(|group| group.output - from..group.output - from + group.width).collect();
        let n_outputs = self.n_outputs();
        let targets: Vec<Target<'_>> = match out {
            Output::Rows(y) => {
                assert!(y.len() == m * n_outputs, "sizes do not agree");
                Tile::cut(y, n_outputs, std::slice::from_ref(&(0..m)), &columns).into_iter().map(Target::Rows).collect()
            }
            Output::Interleaved(y) => {
                assert!(self.finish != Finish::Add, "nothing to add to");
                assert!(y.n_rows() == m && y.k() == n_outputs && y.tiles() == x.tiles(), "sizes do not agree");
                let (tiles, values) = y.parts_mut();
                Strip::cut(values, tiles, &columns).into_iter().map(Target::Strip).collect()
            }
            Output::Panels { values, rows, first } => {
                assert!(!matches!(self.finish, Finish::Add | Finish::Gate(_)), "no sums and gates in panels");
                assert!(values.len() == self.n_panel_values(rows) && first + m <= rows, "sizes do not agree");
                let spans: Vec<_> = (0..self.n_panels()).map(|p| p * rows + first..p * rows + first + m).collect();
                let mut panels = Tile::cut(values, PANEL, &spans, std::slice::from_ref(&(0..PANEL))).into_iter();
                let of = |group: &Group| Target::Panels(panels.by_ref().take(group.width.div_ceil(PANEL)).collect());
                groups.iter().map(of).collect()
            }
        };
        let mut tasks = Vec::with_capacity(groups.len());
        for (i, (group, target)) in groups.iter().zip(targets).enumerate() {
            // The task after next is likely the next of this thread.
            let next = groups.get(i + threads.count()).unwrap_or(group).panel;
            let pieces = threads.pieces(i, groups.len(), x.tiles().len(), 1);
            for (tiles, target) in pieces.iter().zip(target.split(x.tiles(), &pieces)) {
                tasks.push((*group, next, tiles.clone(), target));
            }
        }
        threads.for_each_with(scratch, tasks, |scratch, (group, next, tiles, target)| {
            isa.run(Task { product: self, x, tiles, group, next, target, scratch });
        });
    }
}

/// Vectors of a tile on an instruction set.
struct TileVectors;

impl Operation for TileVectors {
    type Output = usize;
    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> usize {
        I::TILE_VECTORS
    }
}

/// Outputs computed together.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The first panel.
    panel: usize,
    /// The first output.
    output: usize,
    /// Outputs.
    width: usize,
}

/// Where the outputs of a group go.
enum Target<'a> {
    Rows(Tile<'a>),
    Strip(Strip<'a>),
    /// A panel for every vector.
    Panels(Vec<Tile<'a>>),
}

impl Target<'_> {
    /// Cuts the target at the rows of `pieces`, each a range of `tiles`.
    fn split(self, tiles: &[Range<usize>], pieces: &[Range<usize>]) -> Vec<Self> {
        if pieces.len() == 1 {
            return vec![self];
        }
        let rows: Vec<_> = pieces.iter().map(|piece| tiles[piece.start].start..tiles[piece.end - 1].end).collect();
        match self {
            Self::Rows(tile) => tile.split_rows(&rows).into_iter().map(Self::Rows).collect(),
            Self::Strip(strip) => strip.split_tiles(pieces).into_iter().map(Self::Strip).collect(),
            Self::Panels(panels) => {
                let mut parts: Vec<_> = panels.into_iter().map(|panel| panel.split_rows(&rows).into_iter()).collect();
                rows.iter().map(|_| Self::Panels(parts.iter_mut().filter_map(Iterator::next).collect())).collect()
            }
        }
    }
}

/// Some rows of `x` times the weights of one group.
struct Task<'a, 'b> {
    product: Product<'a>,
    x: &'a Interleaved,
    /// The tiles of `x`.
    tiles: Range<usize>,
    group: Group,
    /// A panel that is needed soon.
    next: usize,
    target: Target<'b>,
    scratch: &'a mut Scratch,
}

impl Operation for Task<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        if I::TILE_VECTORS == 2 && self.group.width > PANEL {
            self.vectors::<I, 2>(isa);
        } else {
            self.vectors::<I, 1>(isa);
        }
    }
}

impl Task<'_, '_> {
    #[inline(always)]
    fn vectors<I: Isa, const VECTORS: usize>(mut self, isa: I) {
        let Product { weights, finish, bias, .. } = self.product;
        let mut sums = [[[0.0; LANES]; VECTORS]; MAX_TILE_ROWS];
        let stride = VECTORS * LANES;
        let second = weights.panels_per_part();
        // Pieces of the panels that are needed next, a piece for every tile.
        let (first_tile, n_tiles) = (self.tiles.start, self.tiles.len());
        let first_row = self.x.tiles()[first_tile].start;
        if let Finish::Gate(activation) = finish {
            let [a, b] = &mut self.scratch.panels;
            let panels = widened::<I, VECTORS>(isa, weights, self.group.panel, a, b);
            self.scratch.gates.resize(self.x.n_rows() * VECTORS, [0.0; LANES]);
            let linear = stored::<VECTORS>(weights, second + self.group.panel);
            for t in self.tiles.clone() {
                let rows = &self.x.tiles()[t];
                for linear in &linear {
                    linear.prefetch(isa, t - first_tile, n_tiles);
                }
                let x = self.x.tile(rows);
                let out = sums.as_flattened_mut().as_flattened_mut();
                isa.call(Accumulate { x, rows: rows.len(), panels, out, stride, resume: false });
                let sums = &mut sums[..rows.len()];
                if let Some(bias) = bias {
                    add_bias(isa, sums, &bias[self.group.output..self.group.output + self.group.width]);
                }
                let gates = &mut self.scratch.gates[rows.start * VECTORS..rows.end * VECTORS];
                gates.copy_from_slice(sums.as_flattened());
                activate_each(isa, gates, activation);
            }
        }
        let gated = matches!(finish, Finish::Gate(_));
        let first = if gated { second + self.group.panel } else { self.group.panel };
        let [a, b] = &mut self.scratch.panels;
        let panels = widened::<I, VECTORS>(isa, weights, first, a, b);
        let next = stored::<VECTORS>(weights, self.next);
        for t in self.tiles.clone() {
            let rows = &self.x.tiles()[t];
            for next in &next {
                next.prefetch(isa, t - first_tile, n_tiles);
            }
            if let (Target::Rows(tile), Finish::Add) = (&mut self.target, finish) {
                // Rows lie too far apart for the processor to see them coming.
                for i in rows.clone() {
                    if let Some(out) = tile.row_mut(i - first_row).first() {
                        isa.prefetch(out);
                    }
                }
            }
            let x = self.x.tile(rows);
            let out = sums.as_flattened_mut().as_flattened_mut();
            isa.call(Accumulate { x, rows: rows.len(), panels, out, stride, resume: false });
            let sums = &mut sums[..rows.len()];
            let width = self.group.width;
            if let Some(bias) = bias {
                let at = self.group.output + if gated { self.product.part_width() } else { 0 };
                add_bias(isa, sums, &bias[at..at + width]);
            }
            match finish {
                Finish::Store | Finish::Add => {}
                Finish::Relu => {
                    for v in sums.as_flattened_mut() {
                        isa.store(isa.max(isa.splat(0.0), isa.load(v)), v);
                    }
                }
                Finish::Activate(activation) => activate_each(isa, sums.as_flattened_mut(), activation),
                Finish::Gate(_) => {
                    let gates = &self.scratch.gates[rows.start * VECTORS..rows.end * VECTORS];
                    for (linear, gate) in sums.as_flattened_mut().iter_mut().zip(gates) {
                        isa.store(isa.mul(isa.load(gate), isa.load(linear)), linear);
                    }
                }
            }
            match &mut self.target {
                Target::Rows(tile) => {
                    for (i, sums) in sums.iter().enumerate() {
                        let out = tile.row_mut(rows.start - first_row + i);
                        for (sums, out) in sums.iter().zip(out.chunks_mut(LANES)) {
                            let v = isa.load(sums);
                            let v = if finish == Finish::Add { isa.add(load_part(isa, out), v) } else { v };
                            store_part(isa, v, out);
                        }
                    }
                }
                Target::Strip(strip) => interleave_sums(isa, sums, strip.tile_mut(t)),
                Target::Panels(panels) => {
                    for (v, panel) in panels.iter_mut().enumerate().take(VECTORS) {
                        for (i, sums) in sums.iter().enumerate() {
                            store_part(isa, isa.load(&sums[v]), panel.row_mut(rows.start - first_row + i));
                        }
                    }
                }
            }
        }
    }
}

/// The panels from `first` on as they are stored; the last one again where there are no more.
fn stored<const VECTORS: usize>(weights: &PackedMatrix, first: usize) -> [Panel<'_>; VECTORS] {
    std::array::from_fn(|v| weights.panel((first + v).min(weights.last_panel())))
}

/// The widened panels from `first` on.
#[inline(always)]
fn widened<'s, I: Isa, const VECTORS: usize>(
    isa: I,
    weights: &'s PackedMatrix,
    first: usize,
    a: &'s mut Vec<f32>,
    b: &'s mut Vec<f32>,
) -> [&'s [f32]; VECTORS] {
    let mut panels = [&[][..]; VECTORS];
    if let Some(panel) = panels.get_mut(0) {
        *panel = weights.panel(first).widened(isa, a);
    }
    if let Some(panel) = panels.get_mut(1) {
        *panel = weights.panel(first + 1).widened(isa, b);
    }
    panels
}

#[inline(always)]
fn activate_each<I: Isa>(isa: I, vectors: &mut [[f32; LANES]], activation: Activation) {
    for v in vectors {
        isa.store(activate(isa, isa.load(v), activation), v);
    }
}

#[inline(always)]
fn add_bias<I: Isa, const VECTORS: usize>(isa: I, sums: &mut [[[f32; LANES]; VECTORS]], bias: &[f32]) {
    for (v, bias) in bias.chunks(LANES).enumerate().take(VECTORS) {
        let bias = load_part(isa, bias);
        for sums in sums.iter_mut() {
            isa.store(isa.add(isa.load(&sums[v]), bias), &mut sums[v]);
        }
    }
}

/// Stores `[rows, outputs]` as `[outputs, rows]`; `to` holds as many outputs as there are.
#[inline(always)]
fn interleave_sums<I: Isa, const VECTORS: usize>(isa: I, sums: &[[[f32; LANES]; VECTORS]], to: &mut [f32]) {
    with_rows!(I, sums.len(), ROWS => {
        for (v, to) in to.chunks_mut(LANES * ROWS).enumerate() {
            let mut rows = [isa.splat(0.0); ROWS];
            for i in 0..ROWS {
                rows[i] = isa.load(&sums[i][v]);
            }
            if to.len() == LANES * ROWS {
                isa.store_interleaved(&rows, to);
            } else {
                let mut whole = [0.0; LANES * ROWS];
                isa.store_interleaved(&rows, &mut whole);
                to.copy_from_slice(&whole[..to.len()]);
            }
        }
    });
}

/// `out[i][16 v + j] = sum over k of x[k][i] * panels[v][k][j]` for the rows of one tile.
pub(super) struct Accumulate<'a, const VECTORS: usize> {
    /// `[k, rows]`.
    pub(super) x: &'a [f32],
    pub(super) rows: usize,
    /// `[k, 16]` each.
    pub(super) panels: [&'a [f32]; VECTORS],
    /// Row `i` is `out[i * stride..]`.
    pub(super) out: &'a mut [f32],
    pub(super) stride: usize,
    /// Whether `out` holds the sums over an earlier range of `k`.
    pub(super) resume: bool,
}

impl<const VECTORS: usize> Operation for Accumulate<'_, VECTORS> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { x, rows, panels, out, stride, resume } = self;
        with_rows!(I, rows, ROWS => tile::<I, ROWS, VECTORS, ROWS>(isa, x, 0, panels, out, stride, resume));
    }
}

/// `out[i][16 v + j] = sum over k of x[k][first + i] * panels[v][k][j]` for some of `X` rows that are interleaved.
pub(super) struct AccumulateSome<'a, const VECTORS: usize, const X: usize> {
    /// `[k, X]`.
    pub(super) x: &'a [f32],
    pub(super) rows: Range<usize>,
    /// `[k, 16]` each.
    pub(super) panels: [&'a [f32]; VECTORS],
    /// Row `i` is `out[i * stride..]`.
    pub(super) out: &'a mut [f32],
    pub(super) stride: usize,
    /// Whether `out` holds the sums over an earlier range of `k`.
    pub(super) resume: bool,
}

impl<const VECTORS: usize, const X: usize> Operation for AccumulateSome<'_, VECTORS, X> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { x, rows, panels, out, stride, resume } = self;
        with_rows!(I, rows.len(), ROWS =>
            tile::<I, ROWS, VECTORS, X>(isa, x, rows.start, panels, out, stride, resume));
    }
}

/// Inputs an iteration of the inner loop takes: enough that its own instructions do not matter.
const UNROLL: usize = 4;

/// `ROWS x (16 VECTORS)` accumulators in registers over the whole range of `k`, for the rows from `first` on of the `X`
/// that `x` holds.
#[inline(always)]
fn tile<I: Isa, const ROWS: usize, const VECTORS: usize, const X: usize>(
    isa: I,
    x: &[f32],
    first: usize,
    panels: [&[f32]; VECTORS],
    out: &mut [f32],
    stride: usize,
    resume: bool,
) {
    assert!(first + ROWS <= X, "rows outside the tile");
    let mut sum = [[isa.splat(0.0); VECTORS]; ROWS];
    if resume {
        for i in 0..ROWS {
            let (from, _) = out[i * stride..].as_chunks::<LANES>();
            for v in 0..VECTORS {
                sum[i][v] = isa.load(&from[v]);
            }
        }
    }
    let (x, _) = x.as_chunks::<X>();
    let panels: [&[[f32; LANES]]; VECTORS] = panels.map(|panel| &panel.as_chunks::<LANES>().0[..x.len()]);
    let (blocks, rest) = x.as_chunks::<UNROLL>();
    let panel_blocks = panels.map(|panel| panel.as_chunks::<UNROLL>().0);
    for (b, x) in blocks.iter().enumerate() {
        let w: [&[[f32; LANES]; UNROLL]; VECTORS] = std::array::from_fn(|v| &panel_blocks[v][b]);
        for u in 0..UNROLL {
            step(isa, &mut sum, &x[u][first..first + ROWS], std::array::from_fn(|v| &w[v][u]));
        }
    }
    let done = x.len() - rest.len();
    for (t, x) in rest.iter().enumerate() {
        step(isa, &mut sum, &x[first..first + ROWS], std::array::from_fn(|v| &panels[v][done + t]));
    }
    for i in 0..ROWS {
        let (to, _) = out[i * stride..].as_chunks_mut::<LANES>();
        for v in 0..VECTORS {
            isa.store(sum[i][v], &mut to[v]);
        }
    }
}

/// One input of every row and output of a tile. A function and not a closure: a closure with two callers is not inlined,
/// and compiled on its own it lacks the instructions of the set.
#[inline(always)]
fn step<I: Isa, const ROWS: usize, const VECTORS: usize>(
    isa: I,
    sum: &mut [[I::V; VECTORS]; ROWS],
    x: &[f32],
    w: [&[f32; LANES]; VECTORS],
) {
    let mut weights = [isa.splat(0.0); VECTORS];
    for v in 0..VECTORS {
        weights[v] = isa.load(w[v]);
    }
    let x = &x[..ROWS];
    for i in 0..ROWS {
        let x = isa.splat(x[i]);
        for v in 0..VECTORS {
            sum[i][v] = isa.fma(x, weights[v], sum[i][v]);
        }
    }
}
