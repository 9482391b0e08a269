//! One row.

use super::{Budget, Encode, QuestionTokens, StateTokens};
use crate::request::{Question, QuestionType, Reason, RequestError};
use std::collections::HashSet;

/// When fewer than these are left for the instructions, every option is capped to make room for them.
const WANTED_HEAD_TOKENS: usize = 16;
/// Instructions keep at least these tokens, whatever the budget.
const LEAST_HEAD_TOKENS: usize = 8;
/// Capped options keep at least these tokens, marker included.
const LEAST_CAP: usize = 4;

/// A row for one question about one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Token ids. `[n_tokens]`
    pub ids: Vec<u32>,
    /// Position of each option's marker in `ids`, ascending. `[n_options]`
    pub markers: Vec<u32>,
    /// The type of the question, which selects the type embedding.
    pub kind: QuestionType,
    /// What fitted and what did not.
    pub facts: Facts,
}

/// What a row kept of the question and the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Options of the question.
    pub options: usize,
    /// How many of them still differ as tokens.
    pub options_distinct: usize,
    /// The cap every option was cut to, marker included; `None` when the options fitted without one.
    pub tokens_per_option: Option<usize>,
    /// Whether some options read the same to the model: `options_distinct < options`.
    pub collapsed: bool,
    /// Whether an option lost tokens.
    pub options_cut: bool,
    /// Whether the instructions lost tokens.
    pub head_cut: bool,
    /// Tokens of the whole state.
    pub state_tokens: usize,
    /// Tokens of the state in the row.
    pub state_tokens_used: usize,
    /// Whether the state lost tokens: `state_tokens_used < state_tokens`.
    pub state_cut: bool,
}

impl Facts {
    /// Tokens of the state that are not in the row.
    pub fn state_tokens_dropped(&self) -> usize {
        self.state_tokens.saturating_sub(self.state_tokens_used)
    }
}

/// Builds the row of `question` about `state`.
///
/// # Errors
/// [`Reason::OptionsTruncated`] when a marker does not fit into `budget.max_len`. Everything else is cut silently and
/// reported in [`Facts`]; [`Sequence::require_whole`] makes such cuts errors.
pub fn build(
    tokenizer: &(impl Encode + ?Sized),
    question: &Question,
    state: &StateTokens,
    budget: Budget,
) -> Result<Sequence, RequestError> {
    assemble(tokenizer, question, &QuestionTokens::new(tokenizer, question), state, budget)
}

/// As [`build`], with the tokens of `question` computed before.
///
/// # Errors
/// As [`build`].
pub fn assemble(
    tokenizer: &(impl Encode + ?Sized),
    question: &Question,
    tokens: &QuestionTokens,
    state: &StateTokens,
    budget: Budget,
) -> Result<Sequence, RequestError> {
    let QuestionTokens { head, options, options_cut } = tokens;
    let mut options_cut = *options_cut;
    let mut options: Vec<&[u32]> = options.iter().map(Vec::as_slice).collect();
    let total = |options: &[&[u32]]| options.iter().map(|option| option.len()).sum::<usize>();
    let mut tokens_per_option = None;
    if budget.head_max_len.saturating_sub(total(&options)) < WANTED_HEAD_TOKENS {
        let share = budget.head_max_len.saturating_sub(WANTED_HEAD_TOKENS) / options.len().max(1);
        let cap = share.max(LEAST_CAP);
        options_cut |= options.iter().any(|option| option.len() > cap);
        options.iter_mut().for_each(|option| *option = option.get(..cap).unwrap_or(option));
        tokens_per_option = Some(cap);
    }
    let head_room = budget.head_max_len.saturating_sub(total(&options)).max(LEAST_HEAD_TOKENS);

    let mut ids = Vec::with_capacity(budget.max_len.min(3 + head.len() + total(&options) + state.ids.len()));
    ids.push(tokenizer.cls());
    ids.extend(head.iter().take(head_room));
    ids.push(tokenizer.sep());
    let mut marker_positions = Vec::with_capacity(options.len());
    for option in &options {
        marker_positions.push(ids.len());
        ids.extend(*option);
    }
    // A row can also lose the end of its last option to `max_len` below.
    options_cut |= ids.len() > budget.max_len;
    ids.push(tokenizer.sep());
    let room = budget.max_len.saturating_sub(ids.len()).saturating_sub(1);
    let state_part = state.cut_to(room);
    ids.extend(state_part);
    ids.push(tokenizer.sep());
    ids.truncate(budget.max_len);

    let fitting = marker_positions.iter().filter(|position| **position < budget.max_len);
    let markers: Vec<u32> = fitting.filter_map(|position| u32::try_from(*position).ok()).collect();
    if markers.len() < options.len() {
        return Err(lost_markers(question, markers.len(), budget));
    }
    let options_distinct = options.iter().collect::<HashSet<_>>().len();
    let facts = Facts {
        options: options.len(),
        options_distinct,
        tokens_per_option,
        collapsed: options_distinct < options.len(),
        options_cut,
        head_cut: head.len() > head_room,
        state_tokens: state.ids.len(),
        state_tokens_used: state_part.len(),
        state_cut: state_part.len() < state.ids.len(),
    };
    Ok(Sequence { ids, markers, kind: question.kind, facts })
}

fn lost_markers(question: &Question, n_fitting: usize, budget: Budget) -> RequestError {
    let Budget { max_len, head_max_len } = budget;
    let (id, n_options) = (question.shown_id(), question.options.len());
    // It starts as the published package says it, although the cause is `max_len`.
    let message = format!(
        "question {id} options exceed head_max_len={head_max_len}: only {n_fitting} of its {n_options} option markers \
         fit in max_len={max_len}; ask with fewer options or a larger max_len"
    );
    RequestError::new(Reason::OptionsTruncated, question.path(".criteria"), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use crate::sequence::encode::Letters;

    fn request(body: &str) -> Request {
        Request::from_bytes(body.as_bytes(), &Default::default()).unwrap()
    }

    fn row(body: &str, max_len: usize, head_max_len: usize) -> Result<Sequence, RequestError> {
        let request = request(body);
        let tokenizer = Letters::default();
        let state = StateTokens::new(&tokenizer, &request);
        build(&tokenizer, &request.questions[0], &state, Budget { max_len, head_max_len })
    }

    fn shown(sequence: &Sequence) -> String {
        let token = |id: &u32| match id {
            1 => '<',
            2 => '|',
            3 => '*',
            other => char::from_u32(*other).unwrap(),
        };
        sequence.ids.iter().map(token).collect()
    }

    #[test]
    fn an_option_that_loses_its_end_to_the_row_is_cut() {
        let body = r#"{"state": "hi", "questions": {"q": {"type": "choice", "instructions": "?", "criteria": ["abcdefgh", "ijklmnop"]}}}"#;
        let whole = row(body, 512, 192).unwrap();
        let end = whole.markers[1] as usize + 10;
        assert!(!row(body, end, 192).unwrap().facts.options_cut);
        for max_len in whole.markers[1] as usize + 1..end {
            let cut = row(body, max_len, 192).unwrap();
            assert!(cut.facts.options_cut, "max_len {max_len}");
            let refusal = cut.require_whole(&request(body).questions[0]).unwrap_err();
            assert_eq!(refusal.reason, Reason::OptionsTruncated);
        }
    }

    const TWO: &str = r#"{"state": "abcdef", "questions": {"q": {"type": "choice", "instructions": "I[M][M]?", "criteria": {"x": null, "[M]y": "z"}}}}"#;

    #[test]
    fn the_parts_are_where_they_belong() {
        let sequence = row(TWO, 512, 192).unwrap();
        assert_eq!(shown(&sequence), "<choice question: I  ?|* x*  y: z|abcdef|");
        assert_eq!(sequence.markers, [23, 26]);
        assert!(sequence.markers.iter().all(|at| sequence.ids[*at as usize] == 3));
        assert_eq!(sequence.kind, QuestionType::Choice);
        let facts = sequence.facts;
        assert_eq!((facts.options, facts.options_distinct, facts.tokens_per_option), (2, 2, None));
        assert!(!(facts.collapsed || facts.options_cut || facts.head_cut || facts.state_cut));
        assert!(sequence.require_whole(&request(TWO).questions[0]).is_ok());
    }

    #[test]
    fn a_text_loses_its_end_and_a_list_its_beginning() {
        let sequence = row(TWO, 38, 192).unwrap();
        assert_eq!(shown(&sequence), "<choice question: I  ?|* x*  y: z|abc|");
        assert_eq!((sequence.facts.state_tokens, sequence.facts.state_tokens_used), (6, 3));
        assert_eq!(sequence.facts.state_tokens_dropped(), 3);
        let error = sequence.require_whole(&request(TWO).questions[0]).unwrap_err();
        assert_eq!((error.reason, error.param.as_str()), (Reason::StateTruncated, "state"));
        let list = TWO.replace(r#""abcdef""#, r#"["abcdef"]"#);
        assert_eq!(shown(&row(&list, 38, 192).unwrap()), "<choice question: I  ?|* x*  y: z|f\"]|");
        // No room at all: nothing of the state, not all of it.
        for body in [TWO, &list] {
            assert_eq!(shown(&row(body, 35, 192).unwrap()), "<choice question: I  ?|* x*  y: z||");
            // The last separator goes first, then the options; the markers stay.
            assert_eq!(shown(&row(body, 27, 192).unwrap()), "<choice question: I  ?|* x*");
        }
    }

    #[test]
    fn a_lost_marker_is_an_error() {
        let error = row(TWO, 26, 192).unwrap_err();
        assert_eq!((error.reason, error.param.as_str()), (Reason::OptionsTruncated, "questions.q.criteria"));
        assert!(error.message.starts_with("question 'q' options exceed head_max_len=192"), "{}", error.message);
        assert!(error.message.contains("only 1 of its 2 option markers fit in max_len=26"), "{}", error.message);
        assert!(row(TWO, 0, 0).is_err());
    }

    #[test]
    fn long_options_keep_48_tokens_and_crowded_ones_a_share() {
        let long = "o".repeat(60);
        let body = |n: usize| {
            let labels: Vec<String> = (0..n).map(|i| format!("\"{long}{i}\"")).collect();
            format!(
                r#"{{"state": "s", "questions": {{"q": {{"type": "choice", "instructions": "i", "criteria": [{}]}}}}}}"#,
                labels.join(",")
            )
        };
        // One option of 1 + 48 tokens: 143 of 192 are left.
        let sequence = row(&body(1), 512, 192).unwrap();
        assert_eq!(shown(&sequence), format!("<choice question: i|* {}|s|", "o".repeat(47)));
        assert!(sequence.facts.options_cut && sequence.facts.tokens_per_option.is_none());
        // Four of them leave -4: each is capped to (192 - 16) / 4 tokens, marker included.
        let sequence = row(&body(4), 512, 192).unwrap();
        assert_eq!(sequence.facts.tokens_per_option, Some(44));
        assert_eq!(sequence.facts.options_distinct, 1);
        assert!(sequence.facts.collapsed);
        assert_eq!(sequence.markers, [18, 62, 106, 150]);
        let error = sequence.require_whole(&request(&body(4)).questions[0]).unwrap_err();
        assert_eq!(error.reason, Reason::OptionsTruncated);
        // At least 4 tokens an option and 8 of the instructions stay, whatever the budget.
        for head_max_len in [0, 15, 17] {
            let sequence = row(&body(3), 512, head_max_len).unwrap();
            assert_eq!(shown(&sequence), "<choice q|* oo* oo* oo|s|");
            assert!(sequence.facts.head_cut);
        }
    }

    #[test]
    fn an_empty_state_is_a_valid_row() {
        let body = r#"{"state": "", "questions": {"q": {"type": "noul", "instructions": ""}}}"#;
        let sequence = row(body, 512, 192).unwrap();
        assert!(shown(&sequence).starts_with("<noul question: |* false: no"));
        assert!(shown(&sequence).ends_with("holds||"));
        assert_eq!(sequence.facts.state_tokens, 0);
    }

    #[test]
    fn a_request_budget_replaces_the_models() {
        let budget = Budget { max_len: 512, head_max_len: 192 };
        let given = crate::request::BudgetOverride { max_len: Some(64), head_max_len: None };
        assert_eq!(budget.overridden_by(given), Budget { max_len: 64, head_max_len: 192 });
    }
}
