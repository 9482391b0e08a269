//! The states of a pass, by row.

use std::collections::HashMap;

use super::mutation::{Mutation, N_PADDING};
use super::node::Node;
use super::row::TracedRow;
use crate::engine::{Engine, Plan};
use crate::error::Result;
use crate::model::{Control, Row, Stage, Trace};

/// The values of every node of one row, in the order of [`Node::all`].
pub(super) type States = Vec<Vec<f32>>;

/// Keeps the states of all rows, one after the other.
#[derive(Default)]
struct Recorder(HashMap<Stage, Vec<f32>>);

impl Trace for Recorder {
    fn stage(&mut self, stage: Stage, hidden: &[f32]) {
        // A long pass comes in batches of whole rows, in order.
        self.0.entry(stage).or_default().extend_from_slice(hidden);
    }

    fn wants_every_row(&self) -> bool {
        true
    }
}

/// The states of `rows`, in their order: in one pass under [`Plan::Packed`], else each in its own.
pub(super) fn trace(
    engine: &Engine,
    plan: Plan,
    rows: &[TracedRow],
    mutation: Option<Mutation>,
    nodes: &[Node],
) -> Result<Vec<States>> {
    let size = if plan == Plan::Packed { rows.len().max(1) } else { 1 };
    let mut all = Vec::with_capacity(rows.len());
    for pass in rows.chunks(size) {
        all.extend(trace_pass(engine, pass, mutation, nodes)?);
    }
    Ok(all)
}

fn trace_pass(engine: &Engine, rows: &[TracedRow], mutation: Option<Mutation>, nodes: &[Node]) -> Result<Vec<States>> {
    let special = engine.tokenizer().special();
    let padding = special.pad.or(special.unk).unwrap_or(special.mask);
    let n_padding = if mutation.is_some_and(|mutation| mutation.attends_padding) { N_PADDING } else { 0 };
    let ids: Vec<Vec<u32>> = rows
        .iter()
        .map(|row| row.ids.iter().copied().chain(std::iter::repeat_n(padding, n_padding)).collect())
        .collect();
    let inputs: Vec<_> =
        rows.iter().zip(&ids).map(|(row, ids)| Row { ids, markers: &row.markers, kind: row.kind.index() }).collect();
    let mut recorder = Recorder::default();
    let control = mutation.map_or_else(Control::default, |mutation| mutation.control);
    let logits = engine.model().forward_traced(&inputs, control, &mut recorder)?;
    let width = engine.config().n_embd;
    let mut start = 0;
    let of_row = |((row, ids), logits): ((&TracedRow, &Vec<u32>), crate::model::Logits)| {
        let range = start * width..(start + row.ids.len()) * width;
        start += ids.len();
        let values = nodes.iter().map(|node| match node {
            // Every stage of the model was seen, whole.
            Node::State(stage) => {
                recorder.0.get(stage).and_then(|states| states.get(range.clone())).unwrap_or(&[]).to_vec()
            }
            Node::Logits => logits.options.clone(),
            Node::ActLogits => logits.act.clone(),
        });
        values.collect()
    };
    Ok(rows.iter().zip(&ids).zip(logits).map(of_row).collect())
}
