//! The two-tier rule: absolute before the massive activation, relative to each state's own magnitude after it.

use super::node::Node;
use crate::model::Stage;

/// How an error is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// `|a - b|`, the largest of a state.
    Absolute,
    /// `max |a - b| / max |reference|` over one position of a state.
    Relative,
    /// `|a - b| / max(|a|, |b|, 1)`, the largest of a row's logits: the measure of the act head in the backend tiers.
    Logit,
}

impl Measure {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Relative => "relative",
            Self::Logit => "logit",
        }
    }
}

/// The largest error that passes, and how it is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// How the error is measured.
    pub measure: Measure,
    /// An error of this size still passes.
    pub tolerance: f64,
}

/// The tolerances of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Largest absolute error of the embeddings and the early encoder layers.
    pub absolute: f64,
    /// The last encoder layer that is held to it.
    pub absolute_until: usize,
    /// Largest relative error of every state after it.
    pub relative: f64,
    /// Largest error of marker and act logits, see [`Measure::Logit`].
    pub logit: f64,
}

impl Rule {
    /// The rule that ships.
    pub const DEFAULT: Self = Self { absolute: 1e-4, absolute_until: 9, relative: 2e-4, logit: 2e-4 };

    /// Where its numbers come from.
    pub const SOURCE: &'static str = "the gate a port of mmBERT-base shipped with, at 256 and 512 tokens: absolute 1e-4 \
        for the embeddings and layers 0 to 9, where it measured at most 5.0e-5; from layer 10 through the head 2e-4 \
        relative to each state's magnitude, about twice the 1.2e-4 by which the published package's two attention paths \
        differ from each other: from layer 11 on |h| is up to 1.4e4, where one step of a float32 is 1e-3. Logits: the act \
        tolerance of the strict-f32 tier";

    /// The bar of `node`.
    pub fn bar(&self, node: Node) -> Bar {
        let (measure, tolerance) = match node {
            Node::State(Stage::Embedding) => (Measure::Absolute, self.absolute),
            Node::State(Stage::EncoderLayer(i)) if i <= self.absolute_until => (Measure::Absolute, self.absolute),
            Node::State(_) => (Measure::Relative, self.relative),
            Node::Logits | Node::ActLogits => (Measure::Logit, self.logit),
        };
        Bar { measure, tolerance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_layers_are_absolute_and_the_others_relative() {
        let rule = Rule::DEFAULT;
        let of = |node| rule.bar(node).measure;
        assert_eq!(of(Node::State(Stage::Embedding)), Measure::Absolute);
        assert_eq!(of(Node::State(Stage::EncoderLayer(9))), Measure::Absolute);
        assert_eq!(of(Node::State(Stage::EncoderLayer(10))), Measure::Relative);
        assert_eq!(of(Node::State(Stage::FinalNorm)), Measure::Relative);
        assert_eq!(of(Node::State(Stage::HeadLayer(0))), Measure::Relative);
        assert_eq!(of(Node::ActLogits), Measure::Logit);
    }
}
