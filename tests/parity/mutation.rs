//! Runs that were changed: in their bytes, which the seal shows; and in what they say, sealed again, which the gate must
//! find. Neither may ever pass, or end the program.

use crate::gate::{self, OTHER, RunText, at, engine, object_at, on_device, reference};
use crate::random::SplitMix64;
use laya::json::{Number, Value};
use laya::parity::Run;
use laya::parity::gate::{Options, Verdict, judge};
use laya::parity::tier::{Tier, Tiers};

const N_MUTATIONS: usize = 1000;
const N_ITEMS: usize = 4;

fn pair(tier: Tier) -> [RunText; 2] {
    match tier {
        Tier::StrictF32 => [reference(N_ITEMS), engine(N_ITEMS)],
        Tier::F16Class => on_device(N_ITEMS),
        Tier::BitExact => [engine(N_ITEMS), engine(N_ITEMS)],
    }
}

/// The verdict on two texts; `None` when one is no run.
fn verdict(runs: [&[u8]; 2], tier: Tier, tiers: &Tiers) -> Option<Verdict> {
    let [Ok(baseline), Ok(candidate)] = runs.map(Run::parse) else { return None };
    let options = Options { tiers, tier, weights: None, allow_identity_mismatch: false };
    Some(judge(&baseline, &candidate, options).unwrap().verdict)
}

/// Changes bytes, each time to others than they were.
fn change_bytes(bytes: &mut Vec<u8>, random: &mut SplitMix64) -> &'static str {
    let position = random.below(bytes.len());
    match random.below(6) {
        0 => {
            bytes[position] ^= 1 << random.below(8);
            "a bit flipped"
        }
        1 => {
            bytes.remove(position);
            "a byte removed"
        }
        2 => {
            bytes.insert(position, random.next() as u8);
            "a byte inserted"
        }
        3 => {
            bytes.truncate(position);
            "cut off"
        }
        4 => {
            let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            let (i, j) = (random.below(lines.len()), random.below(lines.len() - 1));
            let mut swapped = lines.clone();
            swapped.swap(i, if j >= i { j + 1 } else { j });
            *bytes = swapped.concat();
            "two lines swapped"
        }
        _ => {
            let digits: Vec<_> = (0..bytes.len()).filter(|i| bytes[*i].is_ascii_digit()).collect();
            let digit = &mut bytes[digits[random.below(digits.len())]];
            *digit = b'0' + (*digit - b'0' + 1 + random.below(9) as u8) % 10;
            "a digit changed"
        }
    }
}

#[test]
fn a_run_whose_bytes_were_changed_is_never_judged() {
    let tiers = Tiers::registered().unwrap();
    let mut random = SplitMix64(6);
    let texts = Tier::ALL.map(|tier| pair(tier).map(|run| run.sealed()));
    for (tier, [a, b]) in Tier::ALL.into_iter().zip(&texts) {
        assert_eq!(verdict([a, b], tier, &tiers), Some(Verdict::Pass));
    }
    for i in 0..N_MUTATIONS {
        let tier = Tier::ALL[i % 3];
        let mut runs = texts[i % 3].clone();
        let side = random.below(2);
        let before = runs[side].clone();
        let how = change_bytes(&mut runs[side], &mut random);
        assert_ne!(runs[side], before, "mutation {i}: {how}");
        let verdict = verdict([&runs[0], &runs[1]], tier, &tiers);
        assert_eq!(verdict, None, "mutation {i} of {tier:?}, side {side}: {how}");
    }
}

/// A change that must matter, whatever the tier.
type Mutation = (&'static str, fn(&mut RunText, &mut SplitMix64));

fn item(random: &mut SplitMix64) -> usize {
    random.below(N_ITEMS)
}

fn question(random: &mut SplitMix64) -> &'static str {
    ["c", "s", "n"][random.below(3)]
}

/// A key every question has, and a value of another type.
fn wrong_type(random: &mut SplitMix64) -> (&'static str, Value) {
    let keys = ["type", "ids", "logits", "act_logits", "answer"];
    let values = ["null", "true", "-1", "1e308", "\"x\"", "[]", "[null]", "[{}]", "{}", "[1e39]", "[\"1\"]", "[[1]]"];
    (keys[random.below(keys.len())], gate::parsed(values[random.below(values.len())]))
}

const MUTATIONS: &[Mutation] = &[
    ("a question dropped", |run, random| {
        let (i, q) = (item(random), question(random));
        object_at(&mut run.items[i], &["questions"]).remove(q);
    }),
    ("a question renamed", |run, random| {
        let (i, q) = (item(random), question(random));
        let questions = object_at(&mut run.items[i], &["questions"]);
        let record = questions.remove(q).unwrap();
        questions.insert("other", record);
    }),
    ("an item dropped", |run, random| drop(run.items.remove(item(random)))),
    ("an item dropped and not counted", |run, random| {
        run.items.remove(item(random));
        run.set("corpus", "n_items", N_ITEMS - 1);
    }),
    ("an item twice", |run, random| run.items.push(run.items[item(random)].clone())),
    ("an item renamed", |run, random| *at(&mut run.items[item(random)], &["id"]) = Value::from("other")),
    ("the ids of two items swapped", |run, random| {
        let i = random.below(N_ITEMS - 1);
        let (a, b) = (format!("i{i}"), format!("i{}", i + 1));
        *at(&mut run.items[i], &["id"]) = Value::from(b);
        *at(&mut run.items[i + 1], &["id"]) = Value::from(a);
    }),
    ("two questions swapped", |run, random| {
        let i = item(random);
        let [a, b] = ["c", "n"].map(|q| Value::Object(run.fields(i, q).clone()));
        let questions = object_at(&mut run.items[i], &["questions"]);
        questions.insert("c", b);
        questions.insert("n", a);
    }),
    ("an item refused", |run, random| run.refuse(item(random), "too long")),
    ("an item failed", |run, random| run.fail(item(random))),
    ("an item without an outcome", |run, random| {
        object_at(&mut run.items[item(random)], &[]).remove("questions");
    }),
    ("another type of question", |run, random| {
        let (i, (q, other)) = (item(random), [("c", "noul"), ("s", "choice"), ("n", "score")][random.below(3)]);
        *run.question(i, q, &["type"]) = Value::from(other);
    }),
    ("another token", |run, random| {
        let (i, q) = (item(random), question(random));
        let n = run.question(i, q, &["ids"]).as_array().unwrap().len();
        let place = random.below(n).to_string();
        *run.question(i, q, &["ids", &place]) = Value::from(7777_i64);
    }),
    ("a token more", |run, random| {
        let (i, q) = (item(random), question(random));
        let Value::Array(ids) = run.question(i, q, &["ids"]) else { panic!() };
        ids.insert(ids.len() - 1, Value::from(2_i64));
    }),
    ("a marker moved", |run, random| {
        let (i, q) = (item(random), question(random));
        let marker = run.question(i, q, &["markers", "0"]);
        *marker = Value::from(marker.as_u64().unwrap() - 1);
    }),
    ("a key removed", |run, random| {
        let (i, q) = (item(random), question(random));
        let keys = ["type", "ids", "logits", "act_logits", "answer"];
        run.fields(i, q).remove(keys[random.below(keys.len())]);
    }),
    ("a key too much", |run, random| {
        let (i, q) = (item(random), question(random));
        run.fields(i, q).insert("note", "x");
    }),
    ("a key of an answer removed", |run, random| {
        let (i, q) = (item(random), question(random));
        let answer = object_at(&mut run.items[i], &["questions", q, "answer"]);
        let keys: Vec<_> = answer.keys().map(str::to_owned).collect();
        answer.remove(&keys[random.below(keys.len())]);
    }),
    ("a key of an answer too much", |run, random| {
        let (i, q) = (item(random), question(random));
        object_at(&mut run.items[i], &["questions", q, "answer"]).insert("note", 1_i64);
    }),
    ("another choice", |run, random| {
        *run.question(item(random), "c", &["answer", "choice"]) = Value::from(["a", "c", "other"][random.below(3)]);
    }),
    ("another level", |run, random| {
        let level = ["0", "1", "2", "3"][random.below(4)];
        *run.question(item(random), "s", &["answer", "legend", level]) = Value::from("other");
    }),
    ("an option of an answer renamed", |run, random| {
        let i = item(random);
        let probabilities = object_at(&mut run.items[i], &["questions", "c", "answer", "probabilities"]);
        let p = probabilities.remove("b").unwrap();
        probabilities.insert("B", p);
    }),
    ("another probability", |run, random| {
        let i = item(random);
        let number = match random.below(3) {
            0 => run.question(i, "c", &["answer", "probabilities", ["a", "b", "c"][random.below(3)]]),
            1 => run.question(i, "s", &["answer", "probabilities", ["0", "1", "2", "3"][random.below(4)]]),
            _ => run.question(i, "n", &["answer", "noul"]),
        };
        let wrong = [1e308, -1e308, -0.7, 1.8, f64::NAN, f64::INFINITY];
        *number = Value::Number(Number::Double(wrong[random.below(wrong.len())]));
    }),
    ("a number of an answer of another type", |run, random| {
        let (i, q) = (item(random), question(random));
        let key = match (random.below(3), q) {
            (0, "c" | "s") => "probabilities",
            (0, _) => "noul",
            (1, _) => "confidence",
            _ => "answer_confidence",
        };
        let wrong = ["null", "true", "\"0.5\"", "[]", "{}", "[0.5]"];
        *run.question(i, q, &["answer", key]) = gate::parsed(wrong[random.below(wrong.len())]);
    }),
    ("another logit first", |run, random| {
        let (i, q) = (item(random), question(random));
        // The first option is never ahead.
        *run.question(i, q, &["logits", "0"]) = Value::from([5.0, 1e30, f64::from(f32::MAX)][random.below(3)]);
    }),
    ("a logit that is none", |run, random| {
        let (i, q) = (item(random), question(random));
        let wrong = [f64::NAN, f64::INFINITY, 1e39, -1e300, 0.1];
        *run.question(i, q, &["logits", "0"]) = Value::from(wrong[random.below(wrong.len())]);
    }),
    ("a logit less", |run, random| {
        let (i, q) = (item(random), question(random));
        let Value::Array(logits) = run.question(i, q, &["logits"]) else { panic!() };
        logits.pop();
    }),
    ("another act logit", |run, random| {
        let (i, q) = (item(random), question(random));
        let wrong = [-1000.0, 0.0, 1e30, 500.0, 2000.0, f64::NAN];
        *run.question(i, q, &["act_logits", "0"]) = Value::from(wrong[random.below(wrong.len())]);
    }),
    ("no act logits", |run, random| {
        let (i, q) = (item(random), question(random));
        *run.question(i, q, &["act_logits"]) = gate::parsed("[]");
    }),
    ("a value of the wrong type", |run, random| {
        let (i, q) = (item(random), question(random));
        let (key, value) = wrong_type(random);
        run.fields(i, q).insert(key, value);
    }),
    ("an item of the wrong type", |run, random| {
        let wrong = ["null", "[]", "{}", "1", "\"i0\"", "{\"id\": \"i0\"}", "{\"id\": 0, \"questions\": {}}"];
        let i = item(random);
        run.items[i] = gate::parsed(wrong[random.below(wrong.len())]);
    }),
    ("another corpus", |run, random| match random.below(4) {
        0 => run.set("corpus", "sha256", OTHER),
        1 => run.set("corpus", "subset", "english"),
        2 => run.set("corpus", "n_items", N_ITEMS + 1),
        _ => run.set("corpus", "n_questions", 3 * N_ITEMS + 1),
    }),
    ("another backend", |run, random| {
        // Nothing a candidate or a baseline of any tier may be.
        run.set("", "kind", ["reference", "engine", "other"][random.below(3)]);
        run.set("runtime", "backend", "npu");
        run.set("runtime", "activations", "q4_0");
        run.set("runtime", "numeric_contract", 99_i64);
    }),
    ("other weights", |run, random| {
        run.set("model", "sha256", OTHER);
        run.set("model", "values_sha256", OTHER);
        run.set("model", "weights", ["f32", "q2_k", "f16"][random.below(3)]);
    }),
    ("an identity of the wrong type", |run, random| {
        let objects = ["host", "build", "model", "corpus", "runtime"];
        let wrong = ["null", "[]", "{}", "1", "\"x\""];
        let key = objects[random.below(objects.len())];
        run.set("", key, gate::parsed(wrong[random.below(wrong.len())]));
    }),
    ("a key of the identity too much", |run, random| {
        let objects = ["", "host", "build", "model", "corpus", "runtime"];
        run.set(objects[random.below(objects.len())], "note", 1_i64);
    }),
];

/// Changes that both runs have alike: what neither says cannot have been compared.
const OF_BOTH: &[Mutation] = &[
    ("a question dropped", |run, random| {
        let (i, q) = (item(random), question(random));
        object_at(&mut run.items[i], &["questions"]).remove(q);
    }),
    ("a question dropped beside a refused item", |run, random| {
        let i = random.below(N_ITEMS - 1);
        object_at(&mut run.items[i], &["questions"]).remove(question(random));
        run.refuse_null(i + 1);
    }),
    ("an item without questions", |run, random| *at(&mut run.items[item(random)], &["questions"]) = gate::parsed("{}")),
    ("an item dropped", |run, random| {
        run.items.remove(item(random));
        run.set("corpus", "n_items", N_ITEMS - 1);
    }),
    ("an item refused with fewer questions", |run, random| {
        let i = item(random);
        run.refuse_null(i);
        *at(&mut run.items[i], &["refused", "n_questions"]) = Value::from(random.below(3));
    }),
    ("an item refused with as many questions as anybody likes", |run, random| {
        let i = item(random);
        run.refuse_null(i);
        object_at(&mut run.items[i], &["refused"]).remove("n_questions");
    }),
    ("an item failed", |run, random| run.fail(item(random))),
    ("an answer emptied", |run, random| {
        let (i, q) = (item(random), question(random));
        *run.question(i, q, &["answer"]) = gate::parsed("{}");
    }),
    ("an answer of another type", |run, random| {
        let (i, q) = (item(random), question(random));
        *run.question(i, q, &["answer", "type"]) = Value::from("other");
    }),
    ("a number that is none", |run, random| {
        let (q, key) = [("c", "probabilities"), ("s", "probabilities"), ("s", "score"), ("n", "noul")][random.below(4)];
        let wrong = ["null", "true", "\"0.5\"", "[]", "{}", "[0.5, 0.5, 0.5]"];
        *run.question(item(random), q, &["answer", key]) = gate::parsed(wrong[random.below(wrong.len())]);
    }),
    ("a probability that is none", |run, random| {
        let p = run.question(item(random), "c", &["answer", "probabilities", ["a", "b", "c"][random.below(3)]]);
        *p = gate::parsed(["null", "\"0.5\"", "[0.5]"][random.below(3)]);
    }),
    ("a probability removed", |run, random| {
        let i = item(random);
        object_at(&mut run.items[i], &["questions", "c", "answer", "probabilities"])
            .remove(["a", "b", "c"][random.below(3)]);
    }),
    ("act logits emptied", |run, random| {
        let (i, q) = (item(random), question(random));
        *run.question(i, q, &["act_logits"]) = gate::parsed("[]");
    }),
    ("every act logit gone", |run, _| {
        let empty = gate::parsed("[]");
        run.each(|question| drop(question.insert("act_logits", empty.clone())));
    }),
    ("a key removed", |run, random| {
        let (i, q) = (item(random), question(random));
        let keys = ["type", "ids", "logits", "act_logits", "answer"];
        run.fields(i, q).remove(keys[random.below(keys.len())]);
    }),
    ("another type of question", |run, random| {
        let (i, (q, other)) = (item(random), [("c", "noul"), ("s", "choice"), ("n", "score")][random.below(3)]);
        *run.question(i, q, &["type"]) = Value::from(other);
    }),
];

#[test]
fn what_both_runs_lack_never_passes() {
    let tiers = Tiers::registered().unwrap();
    for (i, (how, mutate)) in OF_BOTH.iter().enumerate() {
        for (tier, draw) in Tier::ALL.into_iter().flat_map(|tier| (0..12_u64).map(move |draw| (tier, draw))) {
            let mut runs = pair(tier);
            let seed = 1000 * (i as u64) + draw;
            runs.iter_mut().for_each(|run| mutate(run, &mut SplitMix64(seed)));
            let texts = runs.map(|run| run.sealed());
            let verdict = verdict([&texts[0], &texts[1]], tier, &tiers);
            assert_ne!(verdict, Some(Verdict::Pass), "{how}, {tier:?}, draw {draw}");
        }
    }
}

#[test]
fn a_run_that_says_something_else_never_passes() {
    let tiers = Tiers::registered().unwrap();
    let mut random = SplitMix64(66);
    let mut n_judged = [0; 2];
    for i in 0..N_MUTATIONS {
        let tier = Tier::ALL[i % 3];
        // Every mutation in every tier, again and again with other draws.
        let (how, mutate) = MUTATIONS[(i / 3) % MUTATIONS.len()];
        let mut runs = pair(tier);
        let side = random.below(2);
        mutate(&mut runs[side], &mut random);
        let texts = runs.map(|run| run.sealed());
        let verdict = verdict([&texts[0], &texts[1]], tier, &tiers);
        assert_ne!(verdict, Some(Verdict::Pass), "mutation {i} of {tier:?}, side {side}: {how}");
        match verdict {
            Some(Verdict::Fail) => n_judged[0] += 1,
            Some(Verdict::Refused) => n_judged[1] += 1,
            _ => {}
        }
    }
    println!("{N_MUTATIONS} mutations: {} failed, {} refused, the others were no runs", n_judged[0], n_judged[1]);
    assert!(n_judged.iter().all(|n| *n > N_MUTATIONS / 30), "{n_judged:?}");
}
