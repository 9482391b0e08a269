//! The hidden state between the steps of a pass, for comparisons layer by layer.

/// A point of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// After the embedding norm.
    Embedding,
    /// After encoder layer `i`.
    EncoderLayer(usize),
    /// After the final norm of the encoder.
    FinalNorm,
    /// After the type embedding is added.
    TypeEmbedding,
    /// After decision-head layer `i`.
    HeadLayer(usize),
}

/// Watches a pass.
pub trait Trace {
    /// `hidden` is the state of all rows at `stage`, `[n_tokens, n_embd]`, rows one after the other.
    fn stage(&mut self, stage: Stage, hidden: &[f32]);
}

/// Watches nothing.
impl Trace for () {
    fn stage(&mut self, _: Stage, _: &[f32]) {}
}

/// Keeps everything.
impl Trace for Vec<(Stage, Vec<f32>)> {
    fn stage(&mut self, stage: Stage, hidden: &[f32]) {
        self.push((stage, hidden.to_vec()));
    }
}
