//! Rows of tokens in, logits out.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::config::Config;
use super::control::Control;
use super::decision::decide;
use super::encoder::{Compute, Pass, Rotary, encode};
use super::scratch::{Pool, Scratch};
use super::trace::Trace;
use super::weight::Weights;
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;
use crate::kernels::{InstructionSet, Threads};

/// Tokens that share the matrix products of a pass at most; bounds the memory, moves no bit.
pub const BATCH_TOKENS: usize = 2048;

/// One row of tokens to score.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Token ids, `[n]`.
    pub ids: &'a [u32],
    /// Position of every option's marker, `[n_options]`.
    pub markers: &'a [u32],
    /// Row of the type embedding: 0 choice, 1 score, 2 noul.
    pub kind: usize,
}

/// What the model says of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// Raw logit of every option, `[n_options]`.
    pub options: Vec<f32>,
    /// Raw logits of the act head, `[n_act]`: none for a model without one.
    pub act: Vec<f32>,
}

/// A loaded model.
#[derive(Debug)]
pub struct Model {
    config: Config,
    weights: Weights,
    isa: InstructionSet,
    threads: Threads,
    rotary: Mutex<Arc<Rotary>>,
    scratch: Pool,
}

impl Model {
    /// Loads the weights of `file`.
    ///
    /// # Errors
    /// A key or tensor is missing or wrong; the error names it.
    pub fn load(file: &File, isa: InstructionSet, threads: Threads) -> Result<Self> {
        let config = Config::from_gguf(file)?;
        let weights = Weights::from_gguf(file, &config, &threads)?;
        let rotary = Mutex::new(Arc::new(Rotary::new(&config, 0)));
        let scratch = Pool::new(threads.count());
        Ok(Self { config, weights, isa, threads, rotary, scratch })
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The instruction set it computes with.
    pub fn instruction_set(&self) -> InstructionSet {
        self.isa
    }

    /// The threads it computes with.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Width between the two layers of the act head; 0 for a model without one.
    pub fn act_width(&self) -> usize {
        self.weights.act.as_ref().map_or(0, |act| act.hidden.bias.len())
    }

    /// How many threads it computes with.
    pub fn n_threads(&self) -> usize {
        self.threads.count()
    }

    /// The logits of every row. A row's bits do not depend on the rows beside it.
    ///
    /// # Errors
    /// A row is empty or names a token, marker or type the model does not have. Whether the logits are finite is for the
    /// reader to check: [`crate::readout::Answer::new`] does, and knows the question.
    pub fn forward(&self, rows: &[Row<'_>]) -> Result<Vec<Logits>> {
        self.forward_traced(rows, Control::default(), &mut ())
    }

    /// As [`Model::forward`], with a deliberate mistake and a watcher. The watcher sees batches in order, each of whole
    /// rows.
    ///
    /// # Errors
    /// As [`Model::forward`].
    pub fn forward_traced(&self, rows: &[Row<'_>], control: Control, trace: &mut dyn Trace) -> Result<Vec<Logits>> {
        rows.iter().try_for_each(|row| self.check(row))?;
        let mut logits = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let mut n_tokens = first.ids.len();
            let more = rest[1..].iter().take_while(|row| {
                n_tokens += row.ids.len();
                n_tokens <= BATCH_TOKENS
            });
            let (batch, after) = rest.split_at(1 + more.count());
            rest = after;
            logits.extend(
                self.scratch.with(|scratch| self.threads.install(|| self.batch(batch, control, trace, scratch)))?,
            );
        }
        Ok(logits)
    }

    fn check(&self, row: &Row<'_>) -> Result<()> {
        let n_rows = self.weights.token_embd.n_rows();
        let problem = if row.ids.is_empty() {
            "a row has no tokens".to_owned()
        } else if let Some(id) = row.ids.iter().find(|id| **id as usize >= n_rows) {
            format!("token {id} is not one of the model's {n_rows}")
        } else if let Some(marker) = row.markers.iter().find(|marker| **marker as usize >= row.ids.len()) {
            format!("marker position {marker} is outside a row of {} tokens", row.ids.len())
        } else if row.kind >= self.config.n_question_type {
            format!("question type {} is not one of the model's {}", row.kind, self.config.n_question_type)
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Model, problem))
    }

    fn batch(
        &self,
        rows: &[Row<'_>],
        control: Control,
        trace: &mut dyn Trace,
        scratch: &mut Scratch,
    ) -> Result<Vec<Logits>> {
        let d = self.config.n_embd;
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(rows.len());
        for row in rows {
            let start = spans.last().map_or(0, |span| span.end);
            spans.push(start..start + row.ids.len());
        }
        let n = spans.last().map_or(0, |span| span.end);
        scratch.hidden.resize(n * d, 0.0);
        let tokens = rows.iter().flat_map(|row| row.ids);
        for (id, out) in tokens.zip(scratch.hidden.chunks_exact_mut(d)) {
            if !self.weights.token_embd.read(*id, out) {
                return Err(Error::new(ErrorKind::Model, format!("token {id} is outside the mapped embedding")));
            }
        }
        let compute = Compute { isa: self.isa, threads: &self.threads };
        let longest = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let rotary = self.rotary(longest);
        let pass = Pass { compute, config: &self.config, weights: &self.weights, control, spans: &spans };
        encode(pass, &rotary, scratch, trace);
        Ok(decide(pass, rows, scratch, trace))
    }

    /// Rotary tables of at least `n_positions` positions, kept for the next pass.
    fn rotary(&self, n_positions: usize) -> Arc<Rotary> {
        let mut kept = self.rotary.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.global.n_positions() < n_positions {
            *kept = Arc::new(Rotary::new(&self.config, n_positions.next_power_of_two()));
        }
        Arc::clone(&kept)
    }
}
