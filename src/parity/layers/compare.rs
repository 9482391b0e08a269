//! Two sides over the same rows.

use super::distance::Distance;
use super::dump::Dump;
use super::mutation::Mutation;
use super::node::Node;
use super::row::TracedRow;
use super::rule::{Measure, Rule};
use super::trace::{States, trace};
use crate::engine::{Engine, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{BATCH_TOKENS, Stage};

/// An engine as one side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// Which rows share a pass.
    pub plan: Plan,
}

/// What the candidate is compared with.
#[derive(Debug, Clone, Copy)]
pub enum Baseline<'a> {
    /// An engine.
    Engine(Side<'a>),
    /// Another program's states.
    Dump(&'a Dump),
}

/// What a mistaken run, or a faithful one, came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// Every node is within tolerance.
    Passes,
    /// Some node is not.
    Fails,
    /// A mistake that changes not one bit of these rows: nothing was tried.
    NotExercised,
    /// A mistake made in a candidate that is past tolerance without it: that it is past tolerance says nothing.
    NotJudged,
}

/// One candidate, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The mistake of the candidate; none for a faithful one.
    pub mutation: Option<Mutation>,
    /// Every node, in order of depth.
    pub nodes: Vec<Distance>,
    /// Whether some bit differs from the same engine without the mistake; true for a faithful candidate.
    pub acts: bool,
    /// Whether the candidate is within tolerance without the mistake; true for a faithful one.
    pub is_judged: bool,
}

impl Comparison {
    fn new(mutation: Option<Mutation>, nodes: &[Node], rule: &Rule) -> Self {
        let nodes = nodes.iter().map(|node| Distance::new(*node, rule.bar(*node))).collect();
        Self { mutation, nodes, acts: mutation.is_none(), is_judged: true }
    }

    /// The first node past tolerance.
    pub fn first(&self) -> Option<&Distance> {
        self.nodes.iter().find(|distance| !distance.passes())
    }

    /// The node whose error is the most bars; the first of equals.
    pub fn most(&self) -> Option<&Distance> {
        self.nodes.iter().reduce(|most, distance| if distance.factor > most.factor { distance } else { most })
    }

    /// The largest error of `node` in bars.
    pub fn factor(&self, node: Node) -> Option<f64> {
        self.nodes.iter().find(|distance| distance.node == node).map(|distance| distance.factor)
    }

    /// What it came to.
    pub fn outcome(&self) -> Outcome {
        match self.first() {
            _ if !self.is_judged => Outcome::NotJudged,
            _ if !self.acts => Outcome::NotExercised,
            Some(_) => Outcome::Fails,
            None => Outcome::Passes,
        }
    }

    /// The last encoder layer an absolute bar makes sense for, where the first layer past tolerance is only past it because
    /// its numbers are so large that float32 cannot be closer: an error of a few steps, within the relative bar.
    pub fn early_until(&self, rule: &Rule) -> Option<usize> {
        let first = self.first().filter(|first| first.bar.measure == Measure::Absolute)?;
        let Node::State(Stage::EncoderLayer(i)) = first.node else { return None };
        let step = first.max_base * f64::from(f32::EPSILON);
        (first.max_rel <= rule.relative && 4.0 * step > first.bar.tolerance).then(|| i.checked_sub(1)).flatten()
    }

    fn add(&mut self, row: usize, width: usize, base: &States, candidate: &States) {
        for ((distance, base), candidate) in self.nodes.iter_mut().zip(base).zip(candidate) {
            let width = if matches!(distance.node, Node::State(_)) { width } else { 1 };
            distance.add(row, width, base, candidate);
        }
    }
}

/// Traces both sides over `rows` and measures every node by `rule`: the faithful candidate first, then one comparison a
/// mistake. The mistakes are judged only where the faithful candidate is within tolerance. `on_row` is called when a row
/// is done. The rows of an item stand together.
///
/// # Errors
/// The sides are not of one shape, or do not make the same rows; or, as [`Dump`] says, the dump is not of these rows.
pub fn compare(
    baseline: Baseline<'_>,
    candidate: Side<'_>,
    rows: &[TracedRow],
    rule: &Rule,
    mutations: &[Mutation],
    on_row: &mut dyn FnMut(),
) -> Result<Vec<Comparison>> {
    let config = candidate.engine.config();
    let nodes = Node::all(config);
    if let Baseline::Engine(base) = baseline {
        same_shape(base.engine, candidate.engine)?;
    }
    let mut all = vec![Comparison::new(None, &nodes, rule)];
    all.extend(mutations.iter().map(|mutation| Comparison::new(Some(*mutation), &nodes, rule)));
    let shares_passes =
        candidate.plan == Plan::Packed || matches!(baseline, Baseline::Engine(base) if base.plan == Plan::Packed);
    let mut first_row = 0;
    for item in rows.chunk_by(|a, b| a.item == b.item).flat_map(|item| passes(item, shares_passes)) {
        let base = match baseline {
            Baseline::Engine(side) => trace(side.engine, side.plan, item, None, &nodes)?,
            Baseline::Dump(dump) => {
                item.iter().map(|row| dump.states(row, &nodes, config.n_embd, config.n_act)).collect::<Result<_>>()?
            }
        };
        let faithful = trace(candidate.engine, candidate.plan, item, None, &nodes)?;
        for comparison in &mut all {
            let mistaken = match comparison.mutation {
                None => None,
                mutation => Some(trace(candidate.engine, candidate.plan, item, mutation, &nodes)?),
            };
            let found = mistaken.as_ref().unwrap_or(&faithful);
            // Every bit is looked at only until one differs.
            comparison.acts = comparison.acts || mistaken.as_ref().is_some_and(|mistaken| differs(mistaken, &faithful));
            for (i, (base, found)) in base.iter().zip(found).enumerate() {
                comparison.add(first_row + i, config.n_embd, base, found);
            }
        }
        first_row += item.len();
        item.iter().for_each(|_| on_row());
    }
    if all.first().is_some_and(|faithful| faithful.outcome() != Outcome::Passes) {
        all.iter_mut().filter(|comparison| comparison.mutation.is_some()).for_each(|one| one.is_judged = false);
    }
    Ok(all)
}

/// The rows of an item in the parts that are in memory at a time: single rows, or as many as the model takes in one pass
/// where one of the sides is to share passes.
fn passes(item: &[TracedRow], shares_passes: bool) -> Vec<&[TracedRow]> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some(first) = rest.first() {
        let mut n_tokens = first.ids.len();
        let more = rest[1..].iter().take_while(|row| {
            n_tokens += row.ids.len();
            shares_passes && n_tokens <= BATCH_TOKENS
        });
        let (part, after) = rest.split_at(1 + more.count());
        parts.push(part);
        rest = after;
    }
    parts
}

/// Whether any bit differs.
fn differs(a: &[States], b: &[States]) -> bool {
    let bits = |rows| <[States]>::iter(rows).flatten().flatten().map(|x: &f32| x.to_bits());
    !bits(a).eq(bits(b))
}

/// Refuses two models whose nodes are not the same.
fn same_shape(base: &Engine, candidate: &Engine) -> Result<()> {
    let (a, b) = (base.config(), candidate.config());
    for (what, a, b) in [
        ("states of width", a.n_embd, b.n_embd),
        ("encoder layers:", a.n_layer, b.n_layer),
        ("head layers:", a.n_head_layer, b.n_head_layer),
        ("act logits:", a.n_act, b.n_act),
    ] {
        if a != b {
            let message = format!("the two models have different {what} {a} and {b}; compare files of one model");
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::QuestionType;

    #[test]
    fn only_what_a_pass_needs_is_in_memory() {
        let row = |n: &usize| TracedRow {
            item: "i".into(),
            question: n.to_string(),
            kind: QuestionType::Noul,
            ids: vec![0; *n],
            markers: Vec::new(),
        };
        let rows: Vec<_> = [1500, 500, 48, 1, 3000, 2].iter().map(row).collect();
        let parts = |shares| -> Vec<_> { passes(&rows, shares).into_iter().map(<[_]>::len).collect() };
        assert_eq!(parts(false), [1; 6]);
        assert_eq!(parts(true), [3, 1, 1, 1], "{BATCH_TOKENS} tokens a pass");
        assert!(passes(&[], true).is_empty());
    }
}
