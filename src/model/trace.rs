//! The hidden state between the steps of a pass, for comparisons layer by layer, and where its time goes.

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

/// A piece of the work of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Reading token embeddings, and their norm.
    Embedding,
    /// Attention norm and the joint projection to queries, keys and values of an encoder layer.
    Qkv,
    /// Attention of a local encoder layer.
    LocalAttention,
    /// Attention of a global encoder layer.
    GlobalAttention,
    /// The projection after the attention of an encoder layer.
    AttentionOutput,
    /// Norm, gated feed-forward of an encoder layer.
    FeedForward,
    /// The final norm of the encoder, and the type embedding.
    FinalNorm,
    /// A layer of the decision head but for its attention.
    Head,
    /// Attention of a layer of the decision head.
    HeadAttention,
    /// Option scorer and act head.
    Readout,
}

impl Phase {
    /// Every phase, in the order of a pass.
    pub const ALL: [Self; 10] = [
        Self::Embedding,
        Self::Qkv,
        Self::LocalAttention,
        Self::GlobalAttention,
        Self::AttentionOutput,
        Self::FeedForward,
        Self::FinalNorm,
        Self::Head,
        Self::HeadAttention,
        Self::Readout,
    ];
}

/// Watches a pass, from one of its threads.
pub trait Trace: Send {
    /// `hidden` is the state of all rows at `stage`, `[n_tokens, n_embd]`, rows one after the other.
    fn stage(&mut self, _stage: Stage, _hidden: &[f32]) {}

    /// `phase` of the current layer is over.
    fn phase(&mut self, _phase: Phase) {}

    /// Whether every row of the last head layer is wanted, and not only the rows that are read. The logits are the same.
    fn wants_every_row(&self) -> bool {
        false
    }
}

/// Watches nothing.
impl Trace for () {}

/// Keeps everything.
impl Trace for Vec<(Stage, Vec<f32>)> {
    fn stage(&mut self, stage: Stage, hidden: &[f32]) {
        self.push((stage, hidden.to_vec()));
    }

    fn wants_every_row(&self) -> bool {
        true
    }
}
