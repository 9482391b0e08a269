//! Questions that two runs answer differently.

use super::corpus::Corpus;
use super::identity::Identity;
use super::record::{ItemRecord, Outcome, QuestionRecord};
use super::run_file::Run;
use crate::json::{Object, Value};
use crate::readout::{first_largest, softmax};
use crate::request::{Limits, QuestionType, Request};
use std::collections::HashMap;

/// Why two runs are not compared at all; `None` when they are of the same requests.
pub fn refusal(baseline: &Identity, candidate: &Identity) -> Option<String> {
    let (a, b) = (&baseline.corpus, &candidate.corpus);
    if a.sha256 != b.sha256 {
        return Some(format!("the runs are of different corpora: {} and {}", a.sha256, b.sha256));
    }
    if a.subset != b.subset {
        return Some(format!("the runs are of different subsets: {} and {}", a.subset, b.subset));
    }
    None
}

/// What two runs of the same requests answer differently.
#[derive(Debug, Clone, PartialEq)]
pub struct Flips {
    /// The questions whose answer changes, the one the baseline is surest of first.
    pub changed: Vec<Flip>,
    /// How many answers agree, in the order of [`QuestionType::ALL`].
    pub agreement: [Agreement; 3],
    /// What could not be compared.
    pub left_out: LeftOut,
}

/// How many answers of one type agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreement {
    /// Compared questions.
    pub n: usize,
    /// Those with the same answer in both runs.
    pub n_same: usize,
}

/// What could not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Items that one or both runs have no answers to: refused, or failed.
    pub n_unanswered_items: usize,
    /// Items of only one run.
    pub n_single_items: usize,
    /// Questions of only one run.
    pub n_single_questions: usize,
    /// Questions whose two answers are of another kind: another type, other options, or no readable answer.
    pub n_unlike: usize,
}

/// A question whose answer changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Flip {
    /// The item.
    pub item: String,
    /// The question of it.
    pub question: String,
    /// Its type.
    pub kind: QuestionType,
    /// How far the baseline's first option is ahead of its second, in probability.
    pub gap: f64,
    /// What the options are called. `[n_options]`
    pub options: Vec<String>,
    /// What the baseline answers.
    pub baseline: Side,
    /// What the candidate answers.
    pub candidate: Side,
    /// Whether both read the same tokens; `None` when a run does not tell.
    pub same_input: Option<bool>,
    /// What was asked, when the corpus is at hand.
    pub asked: Option<Asked>,
}

/// The answer of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Probabilities of the options: softmax of the raw logits at temperature 1, or those of the public answer. `[n_options]`
    pub probabilities: Vec<f64>,
    /// The option that is the answer.
    pub first: usize,
    /// What they are read off.
    pub source: Source,
}

/// What a probability is read off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The raw logits, uncalibrated.
    Logits,
    /// The public answer, calibrated.
    Answer,
}

impl Source {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Logits => "logits",
            Self::Answer => "answer",
        }
    }
}

/// A question as it stands in the corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// What its item is there for.
    pub category: String,
    /// The text of the state, as a model reads it before it is cut.
    pub state: String,
    /// What was asked.
    pub instructions: String,
}

impl Flips {
    /// Compares two runs that no [`refusal`] speaks against. With the `corpus` they are of, options have their texts.
    pub fn find(baseline: &Run, candidate: &Run, corpus: Option<&Corpus>) -> Self {
        let mut flips = Self { changed: Vec::new(), agreement: Default::default(), left_out: LeftOut::default() };
        let others: HashMap<&str, &ItemRecord> = candidate.items.iter().map(|item| (item.id.as_str(), item)).collect();
        let bodies: HashMap<&str, (&str, &Value)> = corpus
            .into_iter()
            .flat_map(|corpus| &corpus.items)
            .map(|item| (item.id.as_str(), (item.category.as_str(), &item.body)))
            .collect();
        let mut n_shared = 0;
        for item in &baseline.items {
            let Some(other) = others.get(item.id.as_str()) else {
                flips.left_out.n_single_items += 1;
                continue;
            };
            n_shared += 1;
            let (Outcome::Answered(ours), Outcome::Answered(theirs)) = (&item.outcome, &other.outcome) else {
                flips.left_out.n_unanswered_items += 1;
                continue;
            };
            flips.compare(&item.id, ours, theirs, bodies.get(item.id.as_str()).copied());
        }
        flips.left_out.n_single_items += candidate.items.len().saturating_sub(n_shared);
        // Equal gaps stay in the order of the corpus.
        flips.changed.sort_by(|a, b| b.gap.total_cmp(&a.gap));
        flips
    }

    fn compare(
        &mut self,
        item: &str,
        ours: &[QuestionRecord],
        theirs: &[QuestionRecord],
        body: Option<(&str, &Value)>,
    ) {
        let of_theirs: HashMap<&str, &QuestionRecord> =
            theirs.iter().map(|question| (question.id.as_str(), question)).collect();
        // Of every item, also one without a change: answers are put in order by the keys that it has.
        let request = body.and_then(|(_, body)| Request::parse_within(body, &Limits::default()).ok());
        let mut n_shared = 0;
        for question in ours {
            let Some(other) = of_theirs.get(question.id.as_str()) else {
                self.left_out.n_single_questions += 1;
                continue;
            };
            n_shared += 1;
            let asked = request.as_ref().and_then(|request| request.questions.iter().find(|q| q.id == question.id));
            let keys = asked.map(|asked| asked.answer_keys.clone());
            let Some((keys, baseline, candidate)) = sides(question, other, keys) else {
                self.left_out.n_unlike += 1;
                continue;
            };
            let is_same = baseline.first == candidate.first;
            if let Some(agreement) = self.agreement.get_mut(question.kind.index()) {
                agreement.n += 1;
                agreement.n_same += usize::from(is_same);
            }
            if is_same {
                continue;
            }
            let texts = asked.map(|asked| asked.options.clone()).filter(|texts| texts.len() == keys.len());
            self.changed.push(Flip {
                item: item.to_owned(),
                question: question.id.clone(),
                kind: question.kind,
                gap: gap(&baseline.probabilities),
                options: texts.unwrap_or(keys),
                same_input: question.ids.as_ref().zip(other.ids.as_ref()).map(|(ours, theirs)| ours == theirs),
                asked: asked.zip(request.as_ref()).zip(body).map(|((asked, request), (category, _))| Asked {
                    category: category.to_owned(),
                    state: request.state_text().into_owned(),
                    instructions: asked.instructions.clone(),
                }),
                baseline,
                candidate,
            });
        }
        self.left_out.n_single_questions += theirs.len().saturating_sub(n_shared);
    }
}

/// How far the largest of `probabilities` is ahead of the second; 1 for a single one. `[n]`
fn gap(probabilities: &[f64]) -> f64 {
    let mut sorted = probabilities.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.first().copied().unwrap_or_default() - sorted.get(1).copied().unwrap_or_default()
}

/// Both answers over the same options in the same order, and what these are called. `keys` are the answer keys of the
/// question, when it is known.
fn sides(
    ours: &QuestionRecord,
    theirs: &QuestionRecord,
    keys: Option<Vec<String>>,
) -> Option<(Vec<String>, Side, Side)> {
    if ours.kind != theirs.kind {
        return None;
    }
    // Beside logits, whose order is that of the options, an answer may not be in any other; so a run that has both goes first.
    let mut records = [ours, theirs];
    records.sort_by_key(|record| record.logits.is_none());
    let n_logits = records.iter().find_map(|record| record.logits.as_ref().map(Vec::len));
    let keys = keys
        .or_else(|| records.iter().find_map(|record| answer_keys(record)))
        .or_else(|| n_logits.map(|n| (0..n).map(|i| format!("option {i}")).collect()))?;
    let (ours, theirs) = (side(ours, &keys)?, side(theirs, &keys)?);
    Some((keys, ours, theirs))
}

/// The options as an answer calls them.
fn answer_keys(record: &QuestionRecord) -> Option<Vec<String>> {
    match record.kind {
        QuestionType::Noul => Some(vec!["false".to_owned(), "true".to_owned()]),
        QuestionType::Choice | QuestionType::Score => {
            let keys = record.answer.as_ref()?.get("probabilities")?.as_object()?.keys();
            Some(keys.map(str::to_owned).collect())
        }
    }
}

/// The answer of a run: what its logits say, or else what it answered in public.
fn side(record: &QuestionRecord, keys: &[String]) -> Option<Side> {
    let (probabilities, first, source) = match (&record.logits, &record.answer) {
        (Some(logits), _) => {
            let first = first_largest(&logits.iter().copied().map(f64::from).collect::<Vec<_>>()).0;
            (softmax(logits, 1.0), first, Source::Logits)
        }
        (None, Some(answer)) => {
            let (probabilities, first) = public(record.kind, answer, keys)?;
            (probabilities, first, Source::Answer)
        }
        (None, None) => return None,
    };
    let is_sound = probabilities.len() == keys.len() && probabilities.iter().all(|p| p.is_finite());
    (is_sound && first < keys.len()).then_some(Side { probabilities, first, source })
}

/// The probabilities of a public answer in the order of `keys`, and the option it names.
fn public(kind: QuestionType, answer: &Object, keys: &[String]) -> Option<(Vec<f64>, usize)> {
    if kind == QuestionType::Noul {
        let p = answer.get("noul")?.as_f64()?;
        let probabilities = vec![1.0 - p, p];
        let first = first_largest(&probabilities).0;
        return Some((probabilities, first));
    }
    let given = answer.get("probabilities")?.as_object().filter(|given| given.len() == keys.len())?;
    let probabilities: Option<Vec<f64>> = keys.iter().map(|key| given.get(key)?.as_f64()).collect();
    let probabilities = probabilities?;
    let first = match answer.get("choice") {
        Some(choice) if kind == QuestionType::Choice => {
            let key = choice.as_str().map_or_else(|| choice.dumps(), str::to_owned);
            keys.iter().position(|known| *known == key)?
        }
        _ => first_largest(&probabilities).0,
    };
    Some((probabilities, first))
}

#[cfg(test)]
mod tests;
