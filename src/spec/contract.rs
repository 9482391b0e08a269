//! What a spec says about the model: layout, contracts, limits, plan.

use super::problem::{Problems, join, must, shown};
use crate::json::{Object, Value};

/// The input and output rules a spec is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Option markers in one row a question: the models this build runs.
    Laya,
    /// One letter an option, read off a language model. Not run by this build.
    SemifLetters,
}

impl Layout {
    const NAMES: [(&str, Self); 2] = [("laya", Self::Laya), ("semif-letters", Self::SemifLetters)];

    /// The name in a spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Laya => "laya",
            Self::SemifLetters => "semif-letters",
        }
    }

    /// Options a question may have.
    pub fn max_options(self) -> u32 {
        match self {
            Self::Laya => 20,
            Self::SemifLetters => 16,
        }
    }

    /// The clamp of a calibration that states none.
    pub(super) fn clamp(self) -> (f64, f64) {
        match self {
            Self::Laya => super::calibration::LAYA_CLAMP,
            Self::SemifLetters => (0.05, 20.0),
        }
    }

    fn input_contracts(self) -> &'static [(&'static str, InputContract)] {
        match self {
            Self::Laya => &[("laya-v1", InputContract::LayaV1), ("laya-router-v1", InputContract::LayaRouterV1)],
            Self::SemifLetters => &[("semif-v1", InputContract::SemifV1)],
        }
    }

    fn special_tokens(self) -> &'static [(&'static str, SpecialTokens)] {
        match self {
            Self::Laya => {
                &[("mask-to-space", SpecialTokens::MaskToSpace), ("escape-control", SpecialTokens::EscapeControl)]
            }
            Self::SemifLetters => &[("escape", SpecialTokens::Escape)],
        }
    }
}

/// How the text a model reads is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputContract {
    /// The published package's rows.
    LayaV1,
    /// The same, and states of executor card, criterion and task.
    LayaRouterV1,
    /// The letter readout's.
    SemifV1,
}

impl InputContract {
    /// The name in a spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LayaV1 => "laya-v1",
            Self::LayaRouterV1 => "laya-router-v1",
            Self::SemifV1 => "semif-v1",
        }
    }
}

/// What becomes of special-token text in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// The text of the mask token becomes a space.
    MaskToSpace,
    /// The same; and in router states every control token's text too.
    EscapeControl,
    /// The letter readout's rule.
    Escape,
}

/// The number an answer calls its `confidence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confidence {
    /// The published package's: `max(p, 1 - p)` for noul, `1 - H(p) / ln K` for choice and score.
    #[default]
    Laya,
    /// `1 - H(p) / ln K` for all types.
    Typesafe,
    /// The largest probability.
    MaxP,
}

impl Confidence {
    const NAMES: [(&str, Self); 3] = [("laya", Self::Laya), ("typesafe", Self::Typesafe), ("max_p", Self::MaxP)];

    /// The name in a spec.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// Matrix kernels a calibration was fitted with, by the names engines of this family share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernels {
    /// The engine's own choice.
    #[default]
    Auto,
    /// The engine's plain kernels. Those of this build follow the numeric contract; there are no others in it.
    Default,
    /// Weights repacked for kernels that quantize activations.
    Repack,
    /// A BLAS library.
    Blas,
    /// Both.
    RepackBlas,
}

impl Kernels {
    /// Those of this build.
    pub const HERE: [Self; 2] = [Self::Auto, Self::Default];

    const NAMES: [(&str, Self); 5] = [
        ("auto", Self::Auto),
        ("default", Self::Default),
        ("repack", Self::Repack),
        ("blas", Self::Blas),
        ("repack+blas", Self::RepackBlas),
    ];

    /// The name in a spec.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The kernels of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, kernels)| kernels)
    }
}

/// Everything but calibration and router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// The input and output rules.
    pub layout: Layout,
    /// What answers call the model.
    pub model_id: Option<String>,
    /// Its version.
    pub model_version: Option<String>,
    /// How the text a model reads is made.
    pub input: InputContract,
    /// What becomes of special-token text.
    pub special_tokens: SpecialTokens,
    /// What answers call confidence.
    pub confidence: Confidence,
    /// Options a question may have, if the spec limits them.
    pub max_options: Option<u32>,
    /// Candidates a router request may have.
    pub max_candidates: Option<u32>,
    /// Tokens a row may have, if the spec limits them; 0 is no limit.
    pub max_prompt_tokens: Option<u32>,
    /// The compute plan.
    pub plan: Option<String>,
    /// The kernels the calibration was fitted with.
    pub kernels: Kernels,
}

impl Contract {
    /// The option counts a required calibration must cover: the limit of the spec within that of the layout.
    pub(super) fn covered_options(&self) -> u32 {
        self.max_options.unwrap_or(u32::MAX).min(self.layout.max_options())
    }

    /// Reads the fields of a spec. `None` when the layout is not known, on which the others depend.
    pub(super) fn read(problems: &mut Problems, fields: &Object) -> Option<Self> {
        match fields.get("spec_version") {
            None => problems.add("spec_version", format!("is missing; it must be {}", super::VERSION)),
            Some(version) if super::problem::integer(version) == Some(i64::from(super::VERSION)) => {}
            Some(other) => problems.add("spec_version", must(&format!("the integer {}", super::VERSION), other)),
        }
        let model_id = problems.text("model_id", fields.get("model_id")).map(str::to_owned);
        let model_version = problems.text("model_version", fields.get("model_version")).map(str::to_owned);
        let confidence =
            problems.word("confidence", fields.get("confidence"), Confidence::default(), &Confidence::NAMES);
        let Some(named) = fields.get("layout") else {
            problems.add("layout", "is missing; it is \"laya\" or \"semif-letters\"");
            return None;
        };
        let layout = problems.word("layout", Some(named), None, &Layout::NAMES.map(|(name, l)| (name, Some(l))))?;
        let (inputs, tokens) = (layout.input_contracts(), layout.special_tokens());
        let default = |words: &[_]| words.first().map(|(_, first)| *first);
        let input = problems.word("input_contract", fields.get("input_contract"), default(inputs)?, inputs);
        let first = tokens.first().map(|(_, first)| *first);
        let special_tokens = problems.word("special_tokens", fields.get("special_tokens"), first?, tokens);
        if input == InputContract::LayaRouterV1 && special_tokens != SpecialTokens::EscapeControl {
            problems.add("special_tokens", "must be \"escape-control\" with the input contract laya-router-v1");
        }
        let limits = problems.object("limits", fields.get("limits"));
        let mut limit = |key: &str| {
            let value = limits.and_then(|limits| limits.get(key));
            value.and_then(|value| problems.count(&join("limits", key), Some(value)))
        };
        let [max_options, max_candidates, max_prompt_tokens] =
            ["max_options", "max_candidates", "max_prompt_tokens"].map(&mut limit);
        let (plan, kernels) = read_plan(problems, layout, fields.get("plan"));
        Some(Self {
            layout,
            model_id,
            model_version,
            input,
            special_tokens,
            confidence,
            max_options,
            max_candidates,
            max_prompt_tokens,
            plan,
            kernels,
        })
    }
}

fn read_plan(problems: &mut Problems, layout: Layout, value: Option<&Value>) -> (Option<String>, Kernels) {
    let Some(plan) = problems.object("plan", value) else { return (None, Kernels::default()) };
    let name = plan.get("name").and_then(|name| {
        let known = name.as_str().filter(|name| layout != Layout::Laya || ["sequential", "packed"].contains(name));
        if known.is_none() {
            let message = match layout {
                Layout::Laya => format!("must be one of \"sequential\", \"packed\", not {}", shown(name)),
                Layout::SemifLetters => must("a text", name),
            };
            problems.add("plan.name", message);
        }
        known.map(str::to_owned)
    });
    (name, problems.word("plan.kernels", plan.get("kernels"), Kernels::default(), &Kernels::NAMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (name, kernels) in Kernels::NAMES {
            assert_eq!(kernels.as_str(), name);
        }
        for (name, confidence) in Confidence::NAMES {
            assert_eq!(confidence.as_str(), name);
        }
        for (name, layout) in Layout::NAMES {
            assert_eq!(layout.as_str(), name);
            assert!(layout.input_contracts().iter().all(|(name, input)| input.as_str() == *name));
        }
    }
}
