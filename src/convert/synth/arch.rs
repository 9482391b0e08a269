//! The shapes that can be made.

use crate::convert::hyper::Hyper;
use crate::convert::vocabulary::budget;
use crate::error::{Error, ErrorKind, Result};
use crate::tokenizer::Family;

/// A model shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// mmBERT-base: 22 layers of 768, 256,000 tokens (about 322 million parameters).
    MmbertBase,
    /// mmBERT-small: 22 layers of 384, 256,000 tokens.
    MmbertSmall,
    /// ModernBERT-large: 28 layers of 1,024, 50,368 tokens (about 421 million parameters).
    ModernbertLarge,
    /// ModernBERT-base: 22 layers of 768, 50,368 tokens.
    ModernbertBase,
    /// Four layers of 64 in the mmBERT family.
    TinyMmbert,
    /// Four layers of 128 in the ModernBERT family.
    TinyModernbert,
}

/// `[layers, d, heads, f, vocabulary, window]`
type Shape = [u32; 6];

impl Arch {
    /// All shapes, in the order they are listed to people.
    pub const ALL: [Self; 6] = [
        Self::MmbertBase,
        Self::MmbertSmall,
        Self::ModernbertLarge,
        Self::ModernbertBase,
        Self::TinyMmbert,
        Self::TinyModernbert,
    ];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MmbertBase => "mmbert-base",
            Self::MmbertSmall => "mmbert-small",
            Self::ModernbertLarge => "modernbert-large",
            Self::ModernbertBase => "modernbert-base",
            Self::TinyMmbert => "tiny-mmbert",
            Self::TinyModernbert => "tiny-modernbert",
        }
    }

    /// The tokenizer family.
    pub fn family(self) -> Family {
        match self {
            Self::MmbertBase | Self::MmbertSmall | Self::TinyMmbert => Family::MetaspaceBpe,
            Self::ModernbertLarge | Self::ModernbertBase | Self::TinyModernbert => Family::ByteLevelBpe,
        }
    }

    /// What `rl_agent_config.json` names as the encoder.
    pub(super) fn encoder(self) -> &'static str {
        match self {
            Self::MmbertBase | Self::TinyMmbert => "jhu-clsp/mmBERT-base",
            Self::MmbertSmall => "jhu-clsp/mmBERT-small",
            Self::ModernbertLarge | Self::TinyModernbert => "answerdotai/ModernBERT-large",
            Self::ModernbertBase => "answerdotai/ModernBERT-base",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::MmbertBase => [22, 768, 12, 1152, 256_000, 128],
            Self::MmbertSmall => [22, 384, 6, 1152, 256_000, 128],
            Self::ModernbertLarge => [28, 1024, 16, 2624, 50_368, 128],
            Self::ModernbertBase => [22, 768, 12, 1152, 50_368, 128],
            Self::TinyMmbert => [4, 64, 4, 96, 1024, 16],
            Self::TinyModernbert => [4, 128, 4, 80, 1024, 16],
        }
    }

    /// Size of a generated vocabulary.
    pub(super) fn n_vocab(self) -> u32 {
        self.shape()[4]
    }

    /// The hyperparameters with a vocabulary of `n_vocab` ids.
    pub(super) fn hyper(self, n_vocab: u32) -> Hyper {
        let [n_layer, n_embd, n_head, n_ff, _, window] = self.shape();
        let (max_len, head_max_len) = budget(self.family());
        let mmbert = self.family() == Family::MetaspaceBpe;
        let buckets: &[(&str, f32)] = if mmbert { &[] } else { &[("choice:3-5", 1.75), ("choice:11+", 0.100_585_94)] };
        Hyper {
            n_vocab,
            n_embd,
            n_layer,
            n_head,
            n_head_kv: None,
            head_dim: None,
            n_ff,
            context_length: Some(8192),
            norm_eps: Some(1e-5),
            layer_norm_eps: Some(1e-5),
            window,
            pattern: 3,
            rope_global: 160_000.0,
            rope_local: if mmbert { 160_000.0 } else { 10_000.0 },
            says_not_causal: false,
            says_gelu: true,
            head_layers: 2,
            max_len,
            head_max_len,
            temperature: if mmbert { vec![1.0; 3] } else { vec![1.625, 1.25, 2.0] },
            buckets: buckets.iter().map(|&(bucket, degree)| (bucket.to_owned(), degree)).collect(),
            act_classes: 2,
        }
    }
}

impl std::str::FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|arch| arch.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown architecture {text:?}; one of {all}"))
        })
    }
}
