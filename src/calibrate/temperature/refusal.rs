//! Why nothing is fitted.

use std::fmt;

use super::{Bucket, Clamp, Edge};
use crate::calibrate::Split;
use crate::request::QuestionType;

/// A reason not to fit: what it is about, what was found, what to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// No labelled question has two options or more.
    NoLabels,
    /// Too few questions to fit on.
    TooFewToFit {
        /// The type.
        kind: QuestionType,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Too few questions to judge the fit.
    TooFewToJudge {
        /// The type.
        kind: QuestionType,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Too few states to judge the fit: questions of one state are not independent.
    TooFewStates {
        /// The type.
        kind: QuestionType,
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// All truths to fit on, or all those held out, are the same.
    SingleClass {
        /// The type.
        kind: QuestionType,
        /// The bucket, or the type as a whole.
        bucket: Option<Bucket>,
        /// Which questions.
        split: Split,
        /// How many there are.
        found: usize,
        /// The truth: a choice's label, a score's index, a noul's `true` or `false`.
        class: String,
    },
    /// The optimum is not inside the clamp.
    AtClamp {
        /// The type.
        kind: QuestionType,
        /// The bucket, or the type as a whole.
        bucket: Option<Bucket>,
        /// Questions to fit on.
        found: usize,
        /// Where it is.
        edge: Edge,
        /// The clamp.
        clamp: Clamp,
        /// Share of the questions to fit on whose most likely option is the true one.
        accuracy: f64,
    },
}

/// What a type or bucket is called in messages: `choice`, `choice 3-5`.
pub(super) fn name(kind: QuestionType, bucket: Option<Bucket>) -> String {
    match bucket {
        None => kind.as_str().to_owned(),
        Some(bucket) => format!("{} {}", kind.as_str(), bucket.as_str()),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLabels => f.write_str(
                "no labelled question with two options or more: there is nothing to fit; add the true answers as labels",
            ),
            Self::TooFewToFit { kind, found, needed } => write!(
                f,
                "{0}: {found} labelled questions to fit on, {needed} are needed; label more, lower --min-examples, or \
                 leave {0} out of --types",
                kind.as_str()
            ),
            Self::TooFewToJudge { kind, found, needed } => write!(
                f,
                "{0}: {found} labelled questions held out, {needed} are needed; label more, hold out more with \
                 --heldout-frac or \"split\": \"eval\", lower --min-eval, or leave {0} out of --types",
                kind.as_str()
            ),
            Self::TooFewStates { kind, found, needed } => write!(
                f,
                "{0}: the labelled questions held out are of {found} states, {needed} are needed: questions of one state are \
                 not independent; label more records, or leave {0} out of --types",
                kind.as_str()
            ),
            Self::SingleClass { kind, bucket, split, found, class } => write!(
                f,
                "{}: the truth of all {found} questions {} is {class:?}; data with one answer says nothing about the others: \
                 label some of them, or take these labels out",
                name(*kind, *bucket),
                if *split == Split::Fit { "to fit on" } else { "held out" }
            ),
            Self::AtClamp { kind, bucket, found, edge, clamp, accuracy } => {
                let name = name(*kind, *bucket);
                let right = format!("{:.1} % of the {found} answers to fit on are right", accuracy * 100.0);
                match edge {
                    Edge::Low => write!(
                        f,
                        "{name}: the optimum is at the clamp: the likelihood still rises at the lower end, {}; {right}, and \
                         certainty has no price in this data: add questions the model gets wrong, take these labels out, or \
                         widen --clamp",
                        clamp.low()
                    ),
                    Edge::High => write!(
                        f,
                        "{name}: the optimum is at the clamp: the likelihood still rises at the upper end, {}; {right}: \
                         check that labels and questions belong together, take these labels out, or widen --clamp",
                        clamp.high()
                    ),
                    Edge::Flat => write!(
                        f,
                        "{name}: no temperature changes the likelihood of the {found} answers to fit on: the logits of each \
                         question are equal or too far apart to matter; check the model file and the data"
                    ),
                }
            }
        }
    }
}

/// Everything that stands in the way of a fit. There is at least one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The reasons, in the order of the types and buckets.
    pub refusals: Vec<Refusal>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.refusals.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

impl std::error::Error for Refused {}
