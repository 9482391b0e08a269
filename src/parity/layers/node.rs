//! The points of a pass that are compared, in order of depth.

use crate::model::{Config, Stage};

/// A point of a pass whose values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// A hidden state of every token, `[n_tokens, n_embd]`.
    State(Stage),
    /// The raw logit of every option, `[n_options]`.
    Logits,
    /// The raw logits of the act head, `[n_act]`.
    ActLogits,
}

impl Node {
    /// Every node of a model, in order of depth.
    pub fn all(config: &Config) -> Vec<Self> {
        let mut nodes = vec![Self::State(Stage::Embedding)];
        nodes.extend((0..config.n_layer).map(|i| Self::State(Stage::EncoderLayer(i))));
        nodes.extend([Self::State(Stage::FinalNorm), Self::State(Stage::TypeEmbedding)]);
        nodes.extend((0..config.n_head_layer).map(|i| Self::State(Stage::HeadLayer(i))));
        nodes.push(Self::Logits);
        if config.n_act > 0 {
            nodes.push(Self::ActLogits);
        }
        nodes
    }

    /// Its name, which is that of its tensor in a reference dump.
    pub fn name(self) -> String {
        match self {
            Self::State(Stage::Embedding) => "embeddings".into(),
            Self::State(Stage::EncoderLayer(i)) => format!("layer_{i:02}"),
            Self::State(Stage::FinalNorm) => "final_norm".into(),
            Self::State(Stage::TypeEmbedding) => "type_emb".into(),
            Self::State(Stage::HeadLayer(i)) => format!("head_{i:02}"),
            Self::Logits => "logits".into(),
            Self::ActLogits => "act_logits".into(),
        }
    }
}
