//! The layouts decision models circulate in: how a file of each is told, what it is, what runs it.
//!
//! This is the one place that knows them. What [`super::read`] says of a file it does not read and what
//! [`super::identify()`] says of any file both come from [`Kind::facts`].

use super::{LAYA, MODERN_BERT, upstream};
use crate::error::{Error, ErrorKind, Result};
use crate::gguf::File;

/// The key that names the architecture.
pub(super) const ARCHITECTURE: &str = "general.architecture";
/// The architecture of llama.cpp's Clef models, and their kind of decision model.
const CLEF: &str = "clef";
/// The architectures for which llama.cpp (build b11434) has decision models,
const DECIDING: [&str; 3] = [MODERN_BERT, CLEF, "qwen35"];
/// and the kinds of them it answers with. It refuses a file that names another.
const FAMILIES: [&str; 6] = [upstream::LAYA_TYPE, CLEF, "openjev", "lev", "kev", "nimble"];

/// A layout of GGUF files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// This toolbox's own.
    Laya,
    /// llama.cpp's, of a Laya model.
    ModernBert,
    /// llama.cpp's, of an encoder as Laya has it, with rows that are not Laya's.
    ModernBertBare,
    /// llama.cpp's, of a Clef model.
    Clef,
    /// llama.cpp's, of yet another kind of decision model.
    OtherDecision,
    /// The encoder of a model, without the head.
    Encoder,
    /// The head of a model, without the encoder.
    Head,
    /// A graph compiled for another runtime.
    Ggmlc,
    /// Julia-1 as its own port has it.
    Julia,
    /// None of these.
    Unknown,
}

/// Something that runs files of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runner {
    /// The tools of this crate.
    ThisToolbox,
    /// The server of current llama.cpp.
    LlamaServer,
    /// The runtime of compiled graphs.
    GgmlcRuntime,
    /// The port of Julia-1.
    Julia1Cli,
}

impl Runner {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ThisToolbox => "this toolbox",
            Self::LlamaServer => "llama-server of current llama.cpp",
            Self::GgmlcRuntime => "the ggmlc runtime",
            Self::Julia1Cli => "julia1-cli",
        }
    }

    /// That it does, as a sentence about a model.
    fn sentence(self) -> &'static str {
        match self {
            Self::ThisToolbox => "this toolbox answers with it",
            Self::LlamaServer => "llama.cpp's llama-server answers it at POST /v1/systemone",
            Self::GgmlcRuntime => "only the ggmlc runtime runs it",
            Self::Julia1Cli => "julia1-cli runs it",
        }
    }
}

/// What is known of a layout.
struct Facts {
    /// Its name, one word.
    name: &'static str,
    /// What a file of it is, as half a sentence.
    what: &'static str,
    /// What gives answers with it.
    runners: &'static [Runner],
    /// What to do for answers with this toolbox.
    advice: Option<&'static str>,
}

impl Kind {
    /// All layouts.
    pub const ALL: [Self; 10] = [
        Self::Laya,
        Self::ModernBert,
        Self::ModernBertBare,
        Self::Clef,
        Self::OtherDecision,
        Self::Encoder,
        Self::Head,
        Self::Ggmlc,
        Self::Julia,
        Self::Unknown,
    ];

    fn facts(self) -> Facts {
        const CONVERT: Option<&str> = Some("for answers convert the official checkpoint with laya-convert");
        let facts = |name, what, runners, advice| Facts { name, what, runners, advice };
        match self {
            Self::Laya => facts("laya", "a Laya model in this toolbox's own layout", &[Runner::ThisToolbox], None),
            Self::ModernBert => facts(
                "modern-bert",
                "a Laya model in llama.cpp's layout, which has no act head",
                &[Runner::ThisToolbox, Runner::LlamaServer],
                None,
            ),
            Self::ModernBertBare => facts(
                "modern-bert-bare",
                "a model in llama.cpp's layout that does not write options as Laya reads them: a Julia-1 model, or one \
                 of another kind",
                &[Runner::LlamaServer],
                None,
            ),
            Self::Clef => facts(
                "clef",
                "a Clef model in llama.cpp's layout, a decision head on a language model",
                &[Runner::LlamaServer],
                None,
            ),
            Self::OtherDecision => facts(
                "other-decision",
                "a decision model in llama.cpp's layout of another kind than Laya",
                &[Runner::LlamaServer],
                None,
            ),
            Self::Encoder => facts(
                "encoder",
                "an encoder without a decision head (architecture modern-bert without modern-bert.decision.type), with \
                 which llama.cpp computes embeddings",
                &[],
                CONVERT,
            ),
            Self::Head => facts(
                "head",
                "a decision head without its encoder (architecture laya-head), half of a model",
                &[],
                CONVERT,
            ),
            Self::Ggmlc => facts("ggmlc", "a compiled graph (architecture ggmlc)", &[Runner::GgmlcRuntime], CONVERT),
            Self::Julia => facts(
                "julia",
                "a Julia-1 model (architecture julia1), whose rows differ from Laya's",
                &[Runner::Julia1Cli],
                None,
            ),
            Self::Unknown => facts("unknown", "no layout of a decision model that this build knows", &[], None),
        }
    }

    /// Its name, one word.
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// What a file of it is, as half a sentence.
    pub fn description(self) -> &'static str {
        self.facts().what
    }

    /// What gives answers with a sound file of it.
    pub fn runners(self) -> &'static [Runner] {
        self.facts().runners
    }

    /// What to do for answers with this toolbox, where it does not read such a file and there is something to do.
    pub fn advice(self) -> Option<&'static str> {
        self.facts().advice
    }

    /// The layout of `file`.
    ///
    /// # Errors
    /// The keys that tell are of another type.
    pub(super) fn of(file: &File) -> Result<Self> {
        let Some(architecture) = file.str(ARCHITECTURE)? else { return Ok(Self::Unknown) };
        if architecture == LAYA {
            return Ok(Self::Laya);
        }
        let decision = file.str(&decision_key(architecture))?;
        Ok(match (architecture, decision) {
            (MODERN_BERT, Some(upstream::LAYA_TYPE)) => {
                // A row that is missing or no text is a defect, not another layout.
                let bare = matches!(file.str(upstream::TEMPLATE), Ok(Some(row)) if !upstream::is_row_of_laya(row));
                if bare { Self::ModernBertBare } else { Self::ModernBert }
            }
            (CLEF, None | Some(CLEF)) => Self::Clef,
            (_, Some(family)) if DECIDING.contains(&architecture) && FAMILIES.contains(&family) => Self::OtherDecision,
            (MODERN_BERT, None) => Self::Encoder,
            ("ggmlc", None) => Self::Ggmlc,
            ("julia1", None) => Self::Julia,
            ("laya-head", None) => Self::Head,
            _ => Self::Unknown,
        })
    }

    /// Why a file of this layout, which is not read, is refused.
    pub(super) fn refusal(self, file: &File) -> Error {
        let Facts { what, runners, advice, .. } = self.facts();
        let sentences = runners.iter().map(|runner| runner.sentence()).chain(advice);
        let message = sentences.fold(what.to_owned(), |message, sentence| message + "; " + sentence);
        let unsupported = |message: String| file.locate(Error::new(ErrorKind::Unsupported, message));
        let architecture = match file.str(ARCHITECTURE) {
            Ok(Some(architecture)) => architecture,
            Ok(None) => return file.error("not a laya GGUF: general.architecture is missing"),
            Err(error) => return error,
        };
        let key = decision_key(architecture);
        if self == Self::Unknown {
            return match file.str(&key) {
                Ok(Some(family)) => {
                    let message = format!(
                        "not a laya GGUF: is {family:?}, and this build knows no such kind of decision model of the \
                         architecture {architecture:?}"
                    );
                    file.error(message).at_key(key)
                }
                _ => file.error(format!("not a laya GGUF: the architecture is {architecture:?}")),
            };
        }
        match file.str(&key) {
            Ok(Some(upstream::LAYA_TYPE)) if self == Self::ModernBertBare => {
                unsupported(message).at_key(upstream::TEMPLATE)
            }
            Ok(Some(family)) => {
                let reads = upstream::LAYA_TYPE;
                let message =
                    format!("{message}, this build reads the kind {reads:?} of the architecture {MODERN_BERT}");
                unsupported(format!("is {family:?}: {message}")).at_key(key)
            }
            _ => unsupported(message),
        }
    }
}

/// The key with which llama.cpp's decision models say so, under the name of their own architecture.
pub(super) fn decision_key(architecture: &str) -> String {
    format!("{architecture}.decision.type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_a_name_of_its_own_and_is_told_in_one_line() {
        let names: std::collections::HashSet<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            let what = kind.description();
            assert!(!what.contains('\n') && !what.contains("  ") && !what.ends_with('.'), "{what:?}");
        }
    }
}
