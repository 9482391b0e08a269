//! From rows to answers, of one request or of several in one pass.

use super::{Engine, Plan};
use crate::error::Result;
use crate::model::{Logits, Row};
use crate::readout::{Answer, CollapsedOptions, Usage};
use crate::request::{QuestionType, Request};
use crate::sequence::Sequence;

/// A request whose rows are made: all that is left to do is to compute.
#[derive(Debug, Clone)]
pub struct Prepared {
    request: Request,
    /// One a question. `[n_questions]`
    rows: Vec<Sequence>,
}

impl Prepared {
    /// The request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Tokens of all its rows.
    pub fn n_tokens(&self) -> usize {
        self.rows.iter().map(|row| row.ids.len()).sum()
    }
}

/// A request and what came of it.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The request, given back.
    pub request: Request,
    /// Its answers. The error is one of this request; others that shared the pass are not touched by it.
    pub response: Result<Response>,
}

/// The answers to one request.
#[derive(Debug, Clone)]
pub struct Response {
    /// One entry a question, in the order of the request.
    pub questions: Vec<QuestionResult>,
    /// Token counts.
    pub usage: Usage,
}

/// Everything about one question's answer.
#[derive(Debug, Clone)]
pub struct QuestionResult {
    /// The question's id.
    pub id: String,
    /// Its type.
    pub kind: QuestionType,
    /// The option texts the model read, `[n_options]`.
    pub options: Vec<String>,
    /// The row of tokens.
    pub sequence: Sequence,
    /// The raw logits.
    pub logits: Logits,
    /// The answer.
    pub answer: Answer,
}

impl Engine {
    /// Makes the rows of a request, so that it can be answered in one pass with others. It computes nothing with the
    /// model and may run on one thread while another answers.
    ///
    /// # Errors
    /// As [`Engine::rows`].
    pub fn prepare(&self, request: Request) -> Result<Prepared> {
        let rows = self.rows(&request)?;
        Ok(Prepared { request, rows })
    }

    /// Answers every question of a request.
    ///
    /// # Errors
    /// As [`Engine::rows`], or the model gives a number that is not finite.
    pub fn answer(&self, request: &Request) -> Result<Response> {
        let rows = self.rows(request)?;
        let logits = self.logits(&rows)?;
        self.response(request, rows, logits)
    }

    /// Answers every question of every request, in order. Under [`Plan::Packed`] their rows share passes of the model,
    /// whose tokens the model limits, so any number of requests may be given; what a caller waits for is the last of
    /// them, see [`PASS_TOKENS`](super::PASS_TOKENS). A request is answered as it would be alone, to the last bit.
    pub fn answer_prepared(&self, prepared: Vec<Prepared>) -> Vec<Answered> {
        let rows: Vec<_> = prepared.iter().map(|prepared| prepared.rows.as_slice()).collect();
        let logits = self.logits_of_all(&rows);
        let answer = |(Prepared { request, rows }, logits): (_, Result<_>)| Answered {
            response: logits.and_then(|logits| self.response(&request, rows, logits)),
            request,
        };
        prepared.into_iter().zip(logits).map(answer).collect()
    }

    /// The logits of the rows of every request.
    fn logits_of_all(&self, requests: &[&[Sequence]]) -> Vec<Result<Vec<Logits>>> {
        if self.plan == Plan::Packed
            && let Ok(logits) = self.pass(requests.iter().copied().flatten())
        {
            let mut logits = logits.into_iter();
            return requests.iter().map(|rows| Ok(logits.by_ref().take(rows.len()).collect())).collect();
        }
        // One at a time: by plan, or because the pass failed, which is one request's fault and must not be another's.
        requests.iter().map(|rows| self.logits(rows)).collect()
    }

    /// The logits of the rows of one request.
    fn logits(&self, rows: &[Sequence]) -> Result<Vec<Logits>> {
        match self.plan {
            Plan::Packed => self.pass(rows),
            Plan::Sequential => {
                let mut logits = Vec::with_capacity(rows.len());
                for row in rows {
                    logits.extend(self.pass([row])?);
                }
                Ok(logits)
            }
        }
    }

    fn pass<'a>(&self, rows: impl IntoIterator<Item = &'a Sequence>) -> Result<Vec<Logits>> {
        let row = |row: &'a Sequence| Row { ids: &row.ids, markers: &row.markers, kind: row.kind.index() };
        self.model.forward(&rows.into_iter().map(row).collect::<Vec<_>>())
    }

    /// Reads the answers to `request` off the logits of its rows.
    fn response(&self, request: &Request, rows: Vec<Sequence>, logits: Vec<Logits>) -> Result<Response> {
        let mut usage = Usage { input_tokens: rows.iter().map(|row| row.ids.len()).sum(), collapsed: Vec::new() };
        let mut questions = Vec::with_capacity(rows.len());
        let spec = self.spec();
        let formula = spec.contract().confidence;
        for ((question, sequence), logits) in request.questions.iter().zip(rows).zip(logits) {
            let facts = &sequence.facts;
            if facts.collapsed {
                usage.collapsed.push(CollapsedOptions {
                    id: question.id.clone(),
                    total: facts.options,
                    distinct: facts.options_distinct,
                    tokens_per_option: facts.tokens_per_option,
                });
            }
            questions.push(QuestionResult {
                id: question.id.clone(),
                kind: question.kind,
                options: question.options.clone(),
                answer: Answer::new(question, &logits.options, &logits.act, spec.calibration(), formula)?,
                sequence,
                logits,
            });
        }
        Ok(Response { questions, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;
    use crate::engine::Options;
    use crate::gguf::File;
    use std::path::Path;

    fn engine(plan: Plan) -> Engine {
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-modernbert/checkpoint");
        let mut bytes = Vec::new();
        convert::convert_to(&checkpoint, &mut bytes, &convert::Options::default(), &mut |_, _| {}).unwrap();
        let options = Options { n_threads: Some(1), plan: Some(plan), ..Options::default() };
        Engine::from_gguf(&File::from_bytes(bytes).unwrap(), &options).unwrap()
    }

    #[test]
    fn a_row_the_model_refuses_is_the_fault_of_its_request() {
        let body = br#"{"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}}"#;
        let request = Request::from_bytes(body, &Default::default()).unwrap();
        for plan in Plan::ALL {
            let engine = engine(plan);
            let mut prepared = vec![engine.prepare(request.clone()).unwrap(); 3];
            // No request makes such a row: the vocabulary was checked against the embedding.
            prepared[1].rows[0].ids[1] = u32::MAX;
            let answered = engine.answer_prepared(prepared);
            let outcomes: Vec<_> = answered.iter().map(|answered| answered.response.is_ok()).collect();
            assert_eq!(outcomes, [true, false, true], "{}", plan.as_str());
            let error = answered[1].response.as_ref().unwrap_err();
            assert!(error.message().contains("token 4294967295"), "{error}");
        }
    }
}
