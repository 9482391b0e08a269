//! Runs labelled records through the engine.

use sha2::{Digest as _, Sha256};

use super::record::class;
use super::{Labelled, Measured, Record};
use crate::engine::{Answered, Engine, PASS_TOKENS, Plan, Prepared, Response};
use crate::error::Error;
use crate::spec::hex;

/// What is kept of a record while its request is answered.
struct Rest {
    line: u64,
    measured: Measured,
    /// The position of the true option of each question asked, and what it is called. `[n_questions]`
    truths: Vec<(usize, String)>,
}

/// Gives `take` the raw logits of the labelled questions of each record, in order, or what is wrong with that record.
/// Records share passes under [`Plan::Packed`]; a question without a label is not run, which changes no other.
///
/// # Errors
/// The first `take` returns; the rest is not run.
pub fn measure<E>(
    engine: &Engine,
    records: impl IntoIterator<Item = Record>,
    mut take: impl FnMut(u64, Result<Measured, Error>) -> Result<(), E>,
) -> Result<(), E> {
    let most = if engine.plan() == Plan::Packed { PASS_TOKENS } else { 0 };
    let mut pass = Pass::default();
    for record in records {
        let (line, outcome) = prepare(engine, record);
        if let Ok((prepared, _)) = &outcome
            && pass.n_tokens + prepared.n_tokens() > most
        {
            pass.run(engine, &mut take)?;
        }
        pass.n_tokens += outcome.as_ref().map_or(0, |(prepared, _)| prepared.n_tokens());
        match outcome {
            Ok((prepared, rest)) => {
                pass.prepared.push(prepared);
                pass.outcomes.push((line, Ok(rest)));
            }
            Err(error) => pass.outcomes.push((line, Err(error))),
        }
    }
    pass.run(engine, &mut take)
}

/// `record` without logits: each is 0.
pub fn unmeasured(record: &Record) -> Measured {
    let questions = record.request.questions.iter().zip(&record.truths).filter_map(|(question, truth)| {
        let (logits, truth) = (vec![0.0; question.options.len()], (*truth)?);
        let class = class(question, truth);
        Some(Labelled { id: question.id.clone(), kind: question.kind, logits, truth, class })
    });
    Measured {
        line: record.line,
        id: record.id.clone(),
        given_split: record.split,
        state_sha256: state_sha256(record),
        questions: questions.collect(),
    }
}

/// Whether `engine` can run `record`, which takes a small part of the time that running it does.
///
/// # Errors
/// What [`measure`] would say is wrong with the record.
pub fn check(engine: &Engine, record: Record) -> Result<(), Error> {
    prepare(engine, record).1.map(|_| ())
}

fn state_sha256(record: &Record) -> String {
    hex(&Sha256::digest(record.request.state_text().as_bytes()))
}

fn prepare(engine: &Engine, record: Record) -> (u64, Result<(Prepared, Rest), Error>) {
    let state_sha256 = state_sha256(&record);
    let Record { line, id, split, mut request, truths } = record;
    let labelled = request.questions.iter().zip(&truths).filter_map(|(question, truth)| Some((question, (*truth)?)));
    let named = labelled.map(|(question, truth)| (truth, class(question, truth))).collect();
    let mut is_labelled = truths.iter().map(Option::is_some);
    request.questions.retain(|_| is_labelled.next().unwrap_or(false));
    let measured = Measured { line, id, given_split: split, state_sha256, questions: Vec::new() };
    let rest = Rest { line, measured, truths: named };
    (line, engine.prepare(request).map(|prepared| (prepared, rest)).map_err(|error| error.in_line(line)))
}

/// Records whose questions share a pass.
#[derive(Default)]
struct Pass {
    n_tokens: usize,
    prepared: Vec<Prepared>,
    /// In order; there is a request of `prepared` for each that is no error.
    outcomes: Vec<(u64, Result<Rest, Error>)>,
}

impl Pass {
    fn run<E>(
        &mut self,
        engine: &Engine,
        take: &mut impl FnMut(u64, Result<Measured, Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { prepared, outcomes, .. } = std::mem::take(self);
        let mut answered = engine.answer_prepared(prepared).into_iter();
        for (line, outcome) in outcomes {
            let measured = match outcome {
                Err(error) => Err(error),
                // There is one for each request.
                Ok(rest) => match answered.next() {
                    Some(Answered { response: Ok(response), .. }) => Ok(finish(rest, response)),
                    Some(Answered { response: Err(error), .. }) => Err(error.in_line(rest.line)),
                    None => continue,
                },
            };
            take(line, measured)?;
        }
        Ok(())
    }
}

fn finish(rest: Rest, response: Response) -> Measured {
    let Rest { mut measured, truths, .. } = rest;
    let questions = response.questions.into_iter().zip(truths);
    measured.questions = questions
        .map(|(result, (truth, class))| Labelled {
            id: result.id,
            kind: result.kind,
            logits: result.logits.options,
            truth,
            class,
        })
        .collect();
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::Split;
    use crate::convert;
    use crate::engine::Options;
    use crate::gguf::File;
    use std::path::Path;

    fn engine(plan: Plan) -> Engine {
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-mmbert/checkpoint");
        let mut bytes = Vec::new();
        convert::convert_to(&checkpoint, &mut bytes, &convert::Options::default(), &mut |_, _| {}).unwrap();
        let options = Options { n_threads: Some(1), plan: Some(plan), ..Options::default() };
        Engine::from_gguf(&File::from_bytes(bytes).unwrap(), &options).unwrap()
    }

    fn records() -> Vec<Record> {
        let question = |instructions: &str| format!(r#"{{"type": "noul", "instructions": "{instructions}"}}"#);
        let line = |number: u64, questions: &str, rest: &str| {
            let text = format!(r#"{{"state": "Billed twice", "questions": {{{questions}}}, {rest}}}"#);
            Record::parse(number, text.as_bytes()).unwrap()
        };
        let (a, b) = (question("Asks for money?"), question("Is it urgent?"));
        vec![
            line(1, &format!(r#""a": {a}, "b": {b}"#), r#""labels": {"b": true}, "id": 4, "split": "eval""#),
            line(2, &format!(r#""a": {a}"#), r#""labels": {"a": false}, "max_len": 4"#),
            line(3, "", r#""labels": {}"#),
            line(4, &format!(r#""b": {b}, "a": {a}"#), r#""labels": {"a": true, "b": false}"#),
        ]
    }

    #[test]
    fn records_come_out_in_order_with_their_labelled_questions_alone() {
        let mut by_plan = Vec::new();
        for plan in Plan::ALL {
            let mut outcomes = Vec::new();
            measure(&engine(plan), records(), |line, outcome| {
                outcomes.push((line, outcome));
                Ok::<_, Error>(())
            })
            .unwrap();
            assert_eq!(outcomes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 3, 4]);
            let error = outcomes.remove(1).1.unwrap_err().to_string();
            assert!(error.starts_with("line 2: questions.a"), "{error}");
            by_plan.push(outcomes.into_iter().map(|(_, outcome)| outcome.unwrap()).collect::<Vec<_>>());
        }
        let measured = by_plan.pop().unwrap();
        assert_eq!(by_plan.pop().unwrap(), measured, "the plan changes no bit");
        assert_eq!(measured[0].id.as_deref(), Some("4"));
        assert_eq!(measured[0].given_split, Some(Split::Eval));
        let truths = |i: usize| -> Vec<_> { measured[i].questions.iter().map(|q| (q.id.as_str(), q.truth)).collect() };
        assert_eq!((truths(0), truths(1), truths(2)), (vec![("b", 1)], vec![], vec![("b", 0), ("a", 1)]));
        assert_eq!(measured[0].questions[0].logits, measured[2].questions[0].logits);
        assert_eq!(measured[0].state_sha256, STATE_SHA256);
        assert_eq!(measured[2].questions.iter().map(|q| q.class.as_str()).collect::<Vec<_>>(), ["false", "true"]);
    }

    /// Of `Billed twice`, by sha256sum.
    const STATE_SHA256: &str = "42aeb8513e71ef4b3c2dc8cb1b34cc4163e596c57cb4c6bc757226b64026219d";

    #[test]
    fn the_taker_may_end_it() {
        let mut n = 0;
        let outcome = measure(&engine(Plan::Sequential), records(), |_, _| {
            n += 1;
            Err("enough")
        });
        assert_eq!((outcome, n), (Err("enough"), 1));
    }

    #[test]
    fn a_record_before_it_is_run_has_its_options_and_truths() {
        let record = unmeasured(&records()[3]);
        assert_eq!((record.line, record.questions.len()), (4, 2));
        assert_eq!(record.state_sha256, STATE_SHA256);
        assert_eq!((record.questions[1].logits.as_slice(), record.questions[1].truth), ([0.0; 2].as_slice(), 1));
    }
}
