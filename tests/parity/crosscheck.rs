//! Generative backends compared, with a toy language model behind a server of the tests.

use std::time::Duration;

use crate::mock::{Answer, Asked, Server};
use laya::json::{self, Object, Value};
use laya::parity::Endpoint;
use laya::parity::crosscheck::{Backend, Mode, Recording, agreements, prefixes, rate, read_prompts};
use laya::{Error, ErrorKind};

/// Size of the toy's vocabulary. Token 0 ends a text, token 1 begins one.
const N_VOCAB: u32 = 97;
/// The gap of a near tie, and of every other position, in nats.
const TIE: f64 = 0.01;
const SURE: f64 = 2.0;

/// A language model: what follows a context depends on its last tokens and its length alone.
#[derive(Debug, Clone, Copy, Default)]
struct Toy {
    /// Whether near ties break the other way.
    drifts: bool,
    /// A length of context at which the second token is chosen although the first is much more probable.
    broken_at: Option<usize>,
    /// Added to every token of a text.
    shift: u32,
}

fn hash(context: &[u32]) -> u64 {
    context.iter().rev().take(3).fold(context.len() as u64, |hash, token| {
        (hash ^ u64::from(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn is_tie(context: &[u32]) -> bool {
    hash(context).is_multiple_of(6)
}

impl Toy {
    fn tokenize(self, text: &str) -> Vec<u32> {
        std::iter::once(1).chain(text.bytes().map(|byte| (u32::from(byte) + self.shift) % N_VOCAB)).collect()
    }

    /// The two most probable tokens after `context`.
    fn top(self, context: &[u32]) -> [(u32, f64); 2] {
        let first = (hash(context) >> 20) as u32 % N_VOCAB;
        let second = (first + 1) % N_VOCAB;
        let gap = if is_tie(context) { TIE } else { SURE };
        let swapped = (is_tie(context) && self.drifts) || self.broken_at == Some(context.len());
        let (first, second) = if swapped { (second, first) } else { (first, second) };
        [(first, -0.25), (second, -0.25 - gap)]
    }

    fn answer(self, asked: &Asked) -> Answer {
        let body = asked.json();
        let mut reply = Object::new();
        match asked.path.as_str() {
            "/tokenize" => {
                assert_eq!(body.get("add_special").unwrap().as_bool(), Some(true));
                let text = body.get("content").unwrap().as_str().unwrap();
                reply.insert("tokens", self.tokenize(text).into_iter().collect::<Value>());
            }
            "/completion" => {
                for (key, value) in [("temperature", 0), ("n_probs", 10), ("repeat_penalty", 1)] {
                    assert_eq!(body.get(key).unwrap().as_u64(), Some(value), "{key}");
                }
                assert_eq!(body.get("return_tokens").unwrap().as_bool(), Some(true));
                // Ids, never text.
                let ids = body.get("prompt").unwrap().as_array().unwrap();
                let mut context: Vec<u32> = ids.iter().map(|id| id.as_u64().unwrap() as u32).collect();
                let (mut tokens, mut probabilities) = (Vec::new(), Vec::new());
                for _ in 0..body.get("n_predict").unwrap().as_u64().unwrap() {
                    let top = self.top(&context);
                    let pair = |(id, logprob): (u32, f64)| {
                        let mut entry = Object::new();
                        entry.insert("id", id);
                        entry.insert("logprob", logprob);
                        entry
                    };
                    let mut entry = pair(top[0]);
                    entry
                        .insert("top_logprobs", top.map(|one| Value::Object(pair(one))).into_iter().collect::<Value>());
                    tokens.push(top[0].0);
                    probabilities.push(Value::Object(entry));
                    context.push(top[0].0);
                    if top[0].0 == 0 {
                        break;
                    }
                }
                reply.insert("tokens", tokens.into_iter().collect::<Value>());
                reply.insert("completion_probabilities", Value::Array(probabilities));
                reply.insert("model", "toy");
            }
            path => panic!("asked for {path}"),
        }
        Answer::json(reply)
    }

    fn start(self) -> (Server, Backend) {
        let server = Server::start(move |asked| self.answer(asked));
        let backend = backend(&server.url());
        (server, backend)
    }
}

fn backend(url: &str) -> Backend {
    Backend::new(Endpoint::with_timeout(url, Duration::from_secs(20)).unwrap())
}

fn prompts() -> Vec<String> {
    ["The first", "One, two,", "x = 1\ny ="].map(str::to_owned).to_vec()
}

fn record(backend: &Backend) -> Recording {
    backend.generate(&prompts(), 24, &mut || ()).unwrap()
}

/// Where the ties of a run are, by prompt.
fn ties(run: &Recording) -> Vec<Vec<usize>> {
    let of = |passage: &laya::parity::crosscheck::Passage| {
        let all = [passage.prompt_ids.clone(), passage.ids()].concat();
        let n = passage.prompt_ids.len();
        (0..passage.steps.len()).filter(|i| is_tie(&all[..n + i])).collect()
    };
    run.passages.iter().map(of).collect()
}

#[test]
fn a_backend_agrees_with_itself_live_and_recorded() {
    let (server, one) = Toy::default().start();
    let (_other, two) = Toy::default().start();
    let base = record(&one);
    assert_eq!(base.model.as_deref(), Some("toy"));
    assert_eq!(base.server, server.url());
    assert!(base.passages.iter().all(|passage| passage.steps.iter().all(|step| step.top.len() == 2)));
    assert_eq!(server.asked().len(), 2 * prompts().len());

    let mut n_done = 0;
    let replayed = two.replay(&base, &mut || n_done += 1).unwrap();
    assert_eq!(n_done, prompts().len());
    let found = agreements(&base, &replayed).unwrap();
    assert_eq!(rate(&found), Some(1.0));
    assert_eq!(found[0].n_total, base.passages[0].steps.len());
    let followed = two.follow(&base, &mut || ()).unwrap();
    assert!(prefixes(&base, &followed).unwrap().iter().all(|one| one.divergence.is_none() && !one.fails(0.0)));

    // On disk they are the same runs, and say the same.
    let reread = |run: &Recording| Recording::parse(run.to_text().as_bytes()).unwrap();
    assert_eq!((reread(&base), reread(&replayed), reread(&followed)), (base.clone(), replayed, followed));
}

#[test]
fn drift_costs_near_ties_and_nothing_else() {
    let (_one, one) = Toy::default().start();
    let (_two, two) = Toy { drifts: true, ..Toy::default() }.start();
    let base = record(&one);
    let ties = ties(&base);
    let n_ties: usize = ties.iter().map(Vec::len).sum();
    assert!(ties.iter().all(|ties| !ties.is_empty()), "{ties:?}: choose other prompts");

    let found = agreements(&base, &two.replay(&base, &mut || ()).unwrap()).unwrap();
    for (one, ties) in found.iter().zip(&ties) {
        let positions: Vec<_> = one.disagreements.iter().map(|one| one.position).collect();
        assert_eq!(&positions, ties, "one position each, and agreement after it");
        assert!(one.disagreements.iter().all(|one| (one.gap.unwrap() - TIE).abs() < 1e-9));
    }
    let n_total: usize = found.iter().map(|one| one.n_total).sum();
    assert_eq!(rate(&found), Some((n_total - n_ties) as f64 / n_total as f64));

    let found = prefixes(&base, &two.follow(&base, &mut || ()).unwrap()).unwrap();
    for (one, ties) in found.iter().zip(&ties) {
        let divergence = one.divergence.unwrap();
        assert_eq!((one.n_common, divergence.position), (ties[0], ties[0]));
        assert!(!one.fails(0.5) && one.fails(TIE / 2.0));
    }
}

#[test]
fn a_confident_divergence_fails() {
    let (_one, one) = Toy::default().start();
    let base = record(&one);
    // At the first position of the first prompt that is no tie.
    let ties = &ties(&base)[0];
    let position = (0..24).find(|i| !ties.contains(i)).unwrap();
    let n_context = base.passages[0].prompt_ids.len() + position;
    let (_two, two) = Toy { broken_at: Some(n_context), ..Toy::default() }.start();
    let found = prefixes(&base, &two.follow(&base, &mut || ()).unwrap()).unwrap();
    assert_eq!(found[0].divergence.unwrap().position, position);
    assert!((found[0].divergence.unwrap().gap.unwrap() - SURE).abs() < 1e-9);
    assert!(found[0].fails(0.5) && found[0].fails(SURE - 1e-9) && !found[0].fails(SURE + 1e-9));
    let found = agreements(&base, &two.replay(&base, &mut || ()).unwrap()).unwrap();
    assert_eq!(found[0].disagreements.len(), 1);
    assert_eq!(found[0].disagreements[0].position, position);
}

#[test]
fn a_divergence_of_unknown_gap_is_not_excused() {
    let (_one, one) = Toy::default().start();
    let mut base = record(&one);
    let mut other = base.clone();
    for step in &mut base.passages[0].steps {
        step.top.clear();
    }
    other.passages[0].steps[3].id += 1;
    other.passages[1].steps.truncate(5);
    let found = prefixes(&base, &other).unwrap();
    let divergence = found[0].divergence.unwrap();
    assert_eq!((divergence.position, divergence.gap), (3, None));
    assert!(found[0].fails(100.0));
    // One side stopped without a token that says so.
    assert_eq!((found[1].n_common, found[1].divergence.unwrap().candidate), (5, None));
    assert!(found[1].fails(100.0) && !found[2].fails(0.0));
}

#[test]
fn a_near_tie_does_not_excuse_a_third_token() {
    let (_one, one) = Toy::default().start();
    let mut base = record(&one);
    let tie = ties(&base)[0][0];
    let mut other = base.clone();
    let (first, second) = (base.passages[0].steps[tie].id, base.passages[0].steps[tie].top[1].0);
    let third = (second + 1) % N_VOCAB;
    // Not among the most probable tokens: it is not known how much less probable it is.
    other.passages[0].steps[tie].id = third;
    let gap = |base: &Recording, other: &Recording| prefixes(base, other).unwrap()[0].divergence.unwrap().gap;
    assert_eq!(gap(&base, &other), None);
    assert!(prefixes(&base, &other).unwrap()[0].fails(100.0));
    // Among them: by its own probability, whatever that of the second is.
    base.passages[0].steps[tie].top.push((third, -5.25));
    assert!((gap(&base, &other).unwrap() - 5.0).abs() < 1e-9);
    assert!(prefixes(&base, &other).unwrap()[0].fails(0.5));
    other.passages[0].steps[tie].id = second;
    assert!((gap(&base, &other).unwrap() - TIE).abs() < 1e-9);
    assert!(!prefixes(&base, &other).unwrap()[0].fails(0.5));
    assert_ne!(first, second);
}

#[track_caller]
fn refused(result: Result<impl Sized, Error>, part: &str) {
    let Err(error) = result else { panic!("not refused: {part}") };
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains(part), "{error} does not say {part:?}");
}

#[test]
fn runs_that_do_not_belong_together_are_refused() {
    let (_one, one) = Toy::default().start();
    let base = record(&one);
    let replayed = one.replay(&base, &mut || ()).unwrap();
    assert_eq!(replayed.mode, Mode::Argmax);
    refused(agreements(&base, &base), "record it with --mode argmax");
    refused(agreements(&replayed, &replayed), "the baseline is a replay");
    refused(prefixes(&base, &replayed), "the candidate is a replay");
    // A replay is no baseline, which is said before a server is asked.
    let (server, asked) = Toy::default().start();
    refused(asked.replay(&replayed, &mut || ()), "the baseline is a replay");
    refused(asked.follow(&replayed, &mut || ()), "the baseline is a replay");
    assert!(server.asked().is_empty());
    let change = |run: &Recording, change: &dyn Fn(&mut Recording)| {
        let mut run = run.clone();
        change(&mut run);
        run
    };
    let other = change(&replayed, &|run| run.passages[1].forced.as_mut().unwrap()[2] += 1);
    refused(agreements(&base, &other), "replayed other tokens than this baseline's");
    let other = change(&base, &|run| run.passages[1].prompt.push('!'));
    refused(prefixes(&base, &other), "does not have the prompt \"One, two,\"");
    let other = change(&base, &|run| run.passages.truncate(1));
    refused(prefixes(&base, &other), "has 3 prompts and the candidate 1");
    let other = change(&base, &|run| run.passages[0].prompt_ids[0] += 1);
    refused(prefixes(&base, &other), "has other tokens in the candidate");
    let other = change(&base, &|run| run.n_tokens += 1);
    refused(prefixes(&base, &other), "asked for 24 tokens a prompt and the candidate for 25");
    // A server with another vocabulary, before it is asked for a token.
    let (server, two) = Toy { shift: 1, ..Toy::default() }.start();
    refused(
        two.replay(&base, &mut || ()),
        "makes other tokens of the prompt \"The first\" than the baseline, from token 1",
    );
    refused(two.follow(&base, &mut || ()), "different vocabularies");
    assert!(server.asked().iter().all(|asked| asked.path == "/tokenize"));
}

#[test]
fn every_wrong_answer_is_one_line_that_says_what_to_do() {
    let cases: [(&str, Answer, &str); 14] = [
        (
            "/tokenize",
            Answer::status(500, value(r#"{"error":{"message":"out of\nmemory"}}"#)),
            "(status 500: out of\\nmemory)",
        ),
        ("/tokenize", Answer::status(503, value(r#"{"error":{"message":"Loading model"}}"#)), "is not ready yet"),
        ("/tokenize", Answer::status(404, value(r#"{"error":"File Not Found"}"#)), "is it a llama-server?"),
        ("/tokenize", Answer::Body(200, b"<html>".to_vec()), "is not JSON"),
        ("/tokenize", Answer::json(value("{}")), "answers without tokens"),
        ("/tokenize", Answer::json(value(r#"{"tokens":["a"]}"#)), "answers without tokens"),
        ("/tokenize", Answer::json(value(r#"{"tokens":[]}"#)), "has no tokens for the prompt"),
        ("/completion", Answer::json(value(r#"{"content":"x"}"#)), "it must know return_tokens"),
        ("/completion", Answer::json(value(r#"{"tokens":[]}"#)), "it must know return_tokens"),
        ("/completion", Answer::json(value(r#"{"tokens":[-1]}"#)), "it must know return_tokens"),
        (
            "/completion",
            Answer::json(value(r#"{"tokens":[1],"completion_probabilities":1}"#)),
            "without id and top_logprobs",
        ),
        (
            "/completion",
            Answer::json(value(r#"{"tokens":[1],"completion_probabilities":[{"id":1,"top_probs":[]}]}"#)),
            "without id and top_logprobs",
        ),
        (
            "/completion",
            Answer::json(value(
                r#"{"tokens":[1],"completion_probabilities":[{"id":1,"top_logprobs":[{"id":2,"logprob":-0.1},{"id":1,"logprob":-3}]}]}"#,
            )),
            "chose token 1 at position 0 though 2 is more probable",
        ),
        ("/completion", Answer::Hang, "no answer within 0.5 s"),
    ];
    for (route, wrong, part) in cases {
        let server =
            Server::start(move |asked| if asked.path == route { wrong.clone() } else { Toy::default().answer(asked) });
        let endpoint = Endpoint::with_timeout(&server.url(), Duration::from_millis(500)).unwrap();
        let error = Backend::new(endpoint).generate(&prompts(), 4, &mut || ()).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Endpoint, "{text}");
        assert!(text.starts_with(&format!("{}{route}: ", server.url())) && text.contains(part), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let text = backend(&Server::nobody()).generate(&prompts(), 4, &mut || ()).unwrap_err().to_string();
    assert!(text.contains("connection refused"), "{text}");
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

#[test]
fn files_of_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts.txt");
    std::fs::write(&path, "One\r\n\n  two \nthree").unwrap();
    assert_eq!(read_prompts(&path).unwrap(), ["One", "  two ", "three"]);
    for (bytes, part) in [(&b" \n\n"[..], "has no prompt"), (b"a\nb\xff\n", "line 2: is not UTF-8")] {
        std::fs::write(&path, bytes).unwrap();
        let text = read_prompts(&path).unwrap_err().to_string();
        assert!(text.contains("prompts.txt") && text.contains(part), "{text}");
    }
    assert!(read_prompts(&folder.path().join("none")).unwrap_err().to_string().contains("cannot read"));
}
