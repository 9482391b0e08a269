//! Requests that share passes are answered as each would be alone: to the bit, and whatever happens to the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod tiny;

use laya::convert::Outtype;
use laya::engine::{Engine, Options, PASS_TOKENS, Plan, Prepared, Response};
use laya::gguf::File;
use laya::request::{Request, Truncation};
use laya::sequence::{StateTokens, build};
use std::collections::HashSet;
use std::path::Path;

fn engine(path: &Path, n_threads: usize, plan: Plan) -> Engine {
    Engine::open(path, &Options { n_threads: Some(n_threads), plan: Some(plan), ..Options::default() }).unwrap()
}

/// The golden requests of `family` that can be asked, and some that ask the questions of several of them at once.
fn requests(engine: &Engine, family: &str) -> Vec<Request> {
    let items = tiny::items(family);
    let requests = items.iter().filter_map(|item| Request::parse(item.get("body").unwrap()).ok());
    let mut requests: Vec<_> = requests.filter(|request| engine.rows(request).is_ok()).collect();
    for at in (0..requests.len()).step_by(5).rev() {
        let questions = requests[at..].iter().take(5).flat_map(|request| request.questions.clone()).collect();
        let several = Request { questions, truncation: Truncation::Allow, ..requests[at].clone() };
        if engine.rows(&several).is_ok() {
            requests.insert(at, several);
        }
    }
    requests
}

fn prepared(engine: &Engine, requests: &[Request]) -> Vec<Prepared> {
    requests.iter().map(|request| engine.prepare(request.clone()).unwrap()).collect()
}

/// All of a response, every number as its bits.
fn bits(response: &Response) -> String {
    let questions = response.questions.iter().map(|question| {
        let logits = question.logits.options.iter().chain(&question.logits.act);
        let logits: Vec<_> = logits.map(|x| x.to_bits()).collect();
        let probabilities: Vec<_> = question.answer.probabilities.iter().map(|p| p.to_bits()).collect();
        format!("{} {:?} {logits:?} {probabilities:?} {:?}", question.id, question.sequence, question.answer)
    });
    format!("{:?} {:?}", questions.collect::<Vec<_>>(), response.usage)
}

#[test]
fn plans_and_company_move_no_bit() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let path = tiny::gguf(family, Outtype::F16, dir.path());
        let sequential = engine(&path, 1, Plan::Sequential);
        let requests = requests(&sequential, family);
        let alone: Vec<_> = requests.iter().map(|request| bits(&sequential.answer(request).unwrap())).collect();
        let several = requests.iter().filter(|request| request.questions.len() > 1).count();
        let n_tokens: usize = prepared(&sequential, &requests).iter().map(Prepared::n_tokens).sum();
        println!("{family}: {} requests, {several} with several questions, {n_tokens} tokens", requests.len());
        assert!(requests.len() > 100 && several > 10 && n_tokens > 2 * PASS_TOKENS);

        for (n_threads, plan) in [(1, Plan::Packed), (3, Plan::Packed), (2, Plan::Sequential)] {
            let engine = engine(&path, n_threads, plan);
            assert_eq!(engine.plan(), plan);
            let what = format!("{family}, {n_threads} threads, {}", plan.as_str());
            let answers = requests.iter().map(|request| bits(&engine.answer(request).unwrap()));
            assert!(answers.eq(alone.iter().cloned()), "{what}: one by one");
            for (n_together, backwards) in [(2, false), (7, true), (requests.len(), false)] {
                let mut together = prepared(&engine, &requests);
                if backwards {
                    together.reverse();
                }
                let mut answers = Vec::new();
                while !together.is_empty() {
                    let rest = together.split_off(n_together.min(together.len()));
                    answers.extend(engine.answer_prepared(together));
                    together = rest;
                }
                if backwards {
                    answers.reverse();
                }
                assert!(answers.iter().map(|answered| &answered.request).eq(&requests), "{what}: given back");
                let answers = answers.into_iter().map(|answered| bits(&answered.response.unwrap()));
                assert!(answers.eq(alone.iter().cloned()), "{what}: {n_together} together");
            }
        }
    }
}

#[test]
fn a_request_that_fails_loses_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::open(&tiny::gguf("tiny-mmbert", Outtype::F32, dir.path())).unwrap();
    let whole = Engine::from_gguf(&file, &Options { n_threads: Some(1), ..Options::default() }).unwrap();
    let requests: Vec<_> = requests(&whole, "tiny-mmbert").into_iter().step_by(4).collect();
    // A token that one request in the middle reads and no other.
    let ids: Vec<HashSet<u32>> = requests
        .iter()
        .map(|request| whole.rows(request).unwrap().into_iter().flat_map(|row| row.ids).collect())
        .collect();
    let (bad, token) = (1..requests.len() - 1)
        .find_map(|i| {
            let alone = |id: &&u32| ids.iter().enumerate().all(|(j, others)| j == i || !others.contains(*id));
            Some((i, *ids[i].iter().find(alone)?))
        })
        .expect("a token of one request");
    let damaged = tiny::rewritten(&file, |tensor, bytes| {
        if tensor.name == "token_embd.weight" {
            let width = whole.config().n_embd * 4;
            let nan = f32::NAN.to_le_bytes().repeat(whole.config().n_embd);
            bytes[token as usize * width..][..width].copy_from_slice(&nan);
        }
        true
    });
    for plan in Plan::ALL {
        let engine =
            Engine::from_gguf(&damaged, &Options { n_threads: Some(1), plan: Some(plan), ..Options::default() })
                .unwrap();
        let answers = engine.answer_prepared(prepared(&engine, &requests));
        assert_eq!(answers.len(), requests.len());
        for (i, (answered, request)) in answers.iter().zip(&requests).enumerate() {
            if i == bad {
                let error = answered.response.as_ref().unwrap_err();
                assert!(error.message().contains("a logit that is not finite"), "{error}");
            } else {
                let answer = answered.response.as_ref().unwrap();
                assert_eq!(bits(answer), bits(&whole.answer(request).unwrap()), "{}: request {i}", plan.as_str());
            }
        }
    }
}

#[test]
fn no_requests_and_no_questions_are_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(&tiny::gguf("tiny-modernbert", Outtype::F16, dir.path()), 1, Plan::Packed);
    assert!(engine.answer_prepared(Vec::new()).is_empty());
    let empty = Request::from_bytes(br#"{"state": 1, "questions": {}}"#, &Default::default()).unwrap();
    let prepared = engine.prepare(empty).unwrap();
    assert_eq!(prepared.n_tokens(), 0);
    let answers = engine.answer_prepared(vec![prepared.clone(), prepared]);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answered| answered.response.as_ref().unwrap().questions.is_empty()));
}

/// An engine remembers the tokens of questions. Its rows are those made from nothing, also when the questions come
/// again with other states and budgets.
#[test]
fn questions_seen_before_make_the_same_rows() {
    for family in tiny::FAMILIES {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(&tiny::gguf(family, Outtype::F16, dir.path()), 1, Plan::Packed);
        let mut requests = requests(&engine, family);
        let mut n_cut = 0;
        for round in 0..3 {
            for request in &requests {
                let state = StateTokens::new(engine.tokenizer(), request);
                let budget = engine.budget().overridden_by(request.budget);
                let fresh = request.questions.iter().map(|q| build(engine.tokenizer(), q, &state, budget));
                let fresh: Result<Vec<_>, laya::Error> = fresh.map(|row| row.map_err(Into::into)).collect();
                n_cut += fresh.iter().flatten().filter(|row| row.facts.head_cut || row.facts.options_cut).count();
                assert_eq!(engine.rows(request), fresh, "{family}, round {round}");
            }
            // The same questions about other states, then with another budget.
            for request in &mut requests {
                request.state = "a short state".into();
                request.truncation = Truncation::Allow;
                request.budget.head_max_len = (round == 1).then_some(24);
            }
        }
        println!("{family}: {n_cut} rows with cut questions");
        assert!(n_cut > 50);
    }
}
