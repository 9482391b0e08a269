//! The rules by name: what a failure broke.

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What two runs must keep to be taken for each other.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            /// Every rule, inputs first.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name of the rule in results.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

rules! {
    /// Both runs have the item.
    ItemMissing = "item_missing",
    /// No backend failed at the item.
    Failed = "failed",
    /// Both runs refuse the item or none does.
    Refused = "refused",
    /// Only an item with a null state may be refused by both runs.
    BothRefused = "both_refused",
    /// Both runs have the question.
    QuestionMissing = "question_missing",
    /// The question has one type.
    QuestionType = "question_type",
    /// Both runs say what the model read.
    InputUnknown = "input_unknown",
    /// The inputs have one length.
    InputLength = "input_length",
    /// The inputs are the same before the state.
    InputIds = "input_ids",
    /// The inputs are the same in the state, which each run may have cut in its own way.
    InputState = "input_state",
    /// The options are at the same places.
    InputMarkers = "input_markers",
    /// The runs hold every question their identity counts.
    Coverage = "coverage",
    /// Both runs have a raw logit of every option.
    Logits = "logits",
    /// The same option comes first, or the gap of the baseline excuses that another does.
    Argmax = "argmax",
    /// Few enough questions have another answer.
    FlipFraction = "flip_fraction",
    /// Both runs have an answer.
    PublicMissing = "public_missing",
    /// The answers have the same keys.
    AnswerKeys = "answer_keys",
    /// What is no number in an answer is the same.
    AnswerLabel = "answer_label",
    /// A number of one answer is a finite number in the other.
    AnswerNumber = "answer_number",
    /// A public number is within the tolerance.
    PublicError = "public_error",
    /// The probabilities are within their bound.
    MaxAbsDp = "max_abs_dp",
    /// The mean error of the probabilities is within its bound.
    MeanAbsDp = "mean_abs_dp",
    /// Both runs have the act logits of the question.
    ActMissing = "act_missing",
    /// The act logits are within their bound.
    ActError = "act_error",
    /// The raw logits have the same bits.
    LogitBits = "logit_bits",
    /// The act logits have the same bits.
    ActBits = "act_bits",
    /// The answers are the same JSON.
    AnswerDiffers = "answer_differs",
    /// The refusals say the same.
    RefusalDiffers = "refusal_differs",
    /// There is a question to compare.
    NothingCompared = "nothing_compared",
    /// There is a public answer to check.
    NothingChecked = "nothing_checked",
}

impl Rule {
    /// Whether a failure is a question or an item that was not compared, counted among the input mismatches.
    pub fn is_of_inputs(self) -> bool {
        self < Self::Coverage
    }
}

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The rule.
    pub rule: Rule,
    /// The item; `None` for a rule about the whole run.
    pub item: Option<String>,
    /// The question; `None` for a rule about an item or the whole run.
    pub question: Option<String>,
    /// What was found.
    pub what: String,
}
