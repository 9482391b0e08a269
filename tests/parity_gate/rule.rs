//! Every rule with a case that keeps it and one that breaks it.

use crate::gate::{N_QUESTIONS, RunText, at, object_at, parsed};
use crate::{Edit, N_ITEMS, flip, judged, pair};
use laya::json::Value;
use laya::parity::gate::{Judged, Rule, Verdict};
use laya::parity::tier::{Difference, Tier};

#[test]
fn every_tier_has_a_pair_that_passes() {
    for tier in Tier::ALL {
        let judged = judged(&pair(tier), tier);
        let found = judged.comparison.as_ref().unwrap();
        assert_eq!(judged.verdict, Verdict::Pass, "{tier:?}: {:?}", found.failures);
        let all = (N_ITEMS * N_QUESTIONS) as u64;
        assert_eq!([found.n_compared, found.n_public_checked, found.n_act_checked, found.n_argmax_agree], [all; 4]);
        assert_eq!((found.n_items, found.n_questions), (N_ITEMS as u64, all));
        assert!(!judged.is_diagnostic() && found.flips.is_empty());
    }
}

fn nothing(_: &mut RunText, _: &mut RunText) {}

/// Logits of a noul whose gap is a little below and above what `f16-class` excuses: tanh(d / 2).
const UNDECIDED: [f32; 2] = [0.0, 0.0178];
const DECIDED: [f32; 2] = [0.0, 0.0182];

fn next_up(run: &mut RunText, question: &str, key: &str) {
    let number = run.question(3, question, &[key, "1"]);
    *number = Value::from(f64::from((number.as_f64().unwrap() as f32).next_up()));
}

/// A rule, the tier it is tried in, a change it is kept in and one it is broken by.
const CASES: &[(Rule, Tier, Edit, Edit)] = &[
    (
        Rule::ItemMissing,
        Tier::StrictF32,
        |_, b| b.items.reverse(),
        |_, b| at(&mut b.items[5], &["id"]).clone_from(&Value::from("i999")),
    ),
    (
        Rule::Refused,
        Tier::StrictF32,
        |a, b| [a, b].into_iter().for_each(|run| run.refuse(5, "too long")),
        |_, b| b.refuse(5, "too long"),
    ),
    (Rule::Refused, Tier::StrictF32, |_, b| b.refuse_null(5), |a, _| a.refuse(5, "state must not be None")),
    (
        Rule::Refused,
        Tier::F16Class,
        |a, b| [a, b].into_iter().for_each(|run| run.refuse_null(5)),
        |_, b| b.refuse_null(5),
    ),
    (Rule::Failed, Tier::StrictF32, nothing, |_, b| b.fail(5)),
    (Rule::Failed, Tier::StrictF32, nothing, |a, b| {
        a.refuse_null(5);
        b.fail(5);
    }),
    (Rule::Failed, Tier::BitExact, nothing, |a, b| [a, b].into_iter().for_each(|run| run.fail(5))),
    (
        Rule::QuestionMissing,
        Tier::StrictF32,
        |_, b| {
            let questions = object_at(&mut b.items[5], &["questions"]);
            let first = questions.remove("c").unwrap();
            questions.insert("c", first);
        },
        |_, b| drop(object_at(&mut b.items[5], &["questions"]).remove("c")),
    ),
    (Rule::QuestionMissing, Tier::F16Class, nothing, |a, _| {
        drop(object_at(&mut a.items[5], &["questions"]).remove("c"))
    }),
    (Rule::QuestionType, Tier::StrictF32, nothing, |_, b| *b.question(5, "c", &["type"]) = Value::from("score")),
    (
        Rule::InputUnknown,
        Tier::F16Class,
        |_, b| b.each(|question| drop(question.remove("markers"))),
        |_, b| drop(b.fields(5, "c").remove("ids")),
    ),
    (
        Rule::InputLength,
        Tier::F16Class,
        |a, b| {
            [a, b].into_iter().for_each(|run| *run.question(5, "n", &["ids"]) = parsed("[1, 2, 3, 4, 5, 6, 7, 8, 9]"))
        },
        |_, b| *b.question(5, "n", &["ids"]) = parsed("[1, 2, 3, 4, 5, 6, 7, 8, 9]"),
    ),
    (
        Rule::InputIds,
        Tier::F16Class,
        |a, b| [a, b].into_iter().for_each(|run| *run.question(5, "n", &["ids", "1"]) = Value::from(99_i64)),
        |_, b| *b.question(5, "n", &["ids", "1"]) = Value::from(99_i64),
    ),
    (
        Rule::InputState,
        Tier::F16Class,
        |a, b| [a, b].into_iter().for_each(|run| *run.question(5, "n", &["ids", "8"]) = Value::from(99_i64)),
        |_, b| *b.question(5, "n", &["ids", "8"]) = Value::from(99_i64),
    ),
    (
        Rule::InputMarkers,
        Tier::F16Class,
        |a, _| drop(a.fields(5, "n").remove("markers")),
        |_, b| *b.question(5, "n", &["markers", "1"]) = Value::from(6_i64),
    ),
    (
        Rule::Coverage,
        Tier::F16Class,
        |a, b| {
            for run in [a, b] {
                object_at(&mut run.items[5], &["questions"]).remove("c");
                run.set("corpus", "n_questions", N_ITEMS * N_QUESTIONS - 1);
            }
        },
        |a, b| {
            for run in [a, b] {
                object_at(&mut run.items[5], &["questions"]).remove("c");
            }
        },
    ),
    (Rule::Logits, Tier::F16Class, nothing, |_, b| drop(b.fields(5, "c").remove("logits"))),
    (Rule::Logits, Tier::BitExact, nothing, |_, b| {
        b.fields(5, "c").remove("markers");
        *b.question(5, "c", &["logits"]) = parsed("[0.25, 1.5]");
    }),
    (Rule::Argmax, Tier::F16Class, |a, b| flip(a, b, 5, UNDECIDED), |a, b| flip(a, b, 5, DECIDED)),
    (
        Rule::Argmax,
        Tier::StrictF32,
        |_, b| next_up(b, "n", "logits"),
        // The answer is what it was.
        |_, b| *b.question(5, "n", &["logits"]) = parsed("[3.0, 2.0]"),
    ),
    (Rule::Argmax, Tier::StrictF32, nothing, |_, b| *b.question(5, "c", &["answer", "choice"]) = Value::from("a")),
    (
        Rule::FlipFraction,
        Tier::F16Class,
        |a, b| flip(a, b, 5, UNDECIDED),
        |a, b| {
            flip(a, b, 5, UNDECIDED);
            flip(a, b, 6, UNDECIDED);
        },
    ),
    (Rule::PublicMissing, Tier::StrictF32, nothing, |_, b| drop(b.fields(5, "c").remove("answer"))),
    (Rule::PublicMissing, Tier::F16Class, nothing, |a, b| {
        for run in [a, b] {
            object_at(&mut run.items[5], &["questions", "n", "answer"]).remove("noul");
        }
    }),
    (
        Rule::AnswerKeys,
        Tier::StrictF32,
        |_, b| {
            b.set("", "kind", "server");
            b.each(|question| {
                let Some(Value::Object(answer)) = question.get_mut("answer") else { panic!() };
                answer.remove("answer_confidence");
                answer.remove("action");
            });
        },
        |_, b| drop(object_at(&mut b.items[5], &["questions", "c", "answer"]).remove("answer_confidence")),
    ),
    (Rule::AnswerKeys, Tier::StrictF32, nothing, |_, b| {
        b.set("", "kind", "server");
        object_at(&mut b.items[5], &["questions", "c", "answer"]).remove("confidence");
    }),
    (Rule::AnswerKeys, Tier::F16Class, nothing, |_, b| {
        object_at(&mut b.items[5], &["questions", "c", "answer", "probabilities"]).remove("a");
    }),
    (
        Rule::AnswerLabel,
        Tier::StrictF32,
        nothing,
        // A level is a label, not a number with an error.
        |_, b| *b.question(5, "s", &["answer", "legend", "3"]) = Value::from(4.000_01),
    ),
    (Rule::AnswerLabel, Tier::F16Class, nothing, |_, b| {
        *b.question(5, "n", &["answer", "type"]) = Value::from("score")
    }),
    (
        Rule::AnswerNumber,
        Tier::F16Class,
        |_, b| *b.question(5, "n", &["answer", "confidence"]) = Value::from(1_i64),
        |_, b| *b.question(5, "n", &["answer", "confidence"]) = Value::from("1"),
    ),
    (
        Rule::PublicError,
        Tier::StrictF32,
        // 0.8 and 0.8001 after rounding.
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.8);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.800_149);
        },
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.8);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.800_151);
        },
    ),
    (
        Rule::PublicError,
        Tier::StrictF32,
        // The range of four levels is three.
        |a, b| {
            *a.question(5, "s", &["answer", "score"]) = Value::from(1.5);
            *b.question(5, "s", &["answer", "score"]) = Value::from(1.500_3);
        },
        |a, b| {
            *a.question(5, "s", &["answer", "score"]) = Value::from(1.5);
            *b.question(5, "s", &["answer", "score"]) = Value::from(1.500_4);
        },
    ),
    (
        Rule::MaxAbsDp,
        Tier::F16Class,
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.9);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.4);
        },
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.9);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.399_999);
        },
    ),
    (Rule::MeanAbsDp, Tier::F16Class, |_, b| shift_probabilities(b, 0.002), |_, b| shift_probabilities(b, 0.002_001)),
    (
        Rule::ActMissing,
        Tier::F16Class,
        |_, b| {
            b.set("", "kind", "server");
            b.each(|question| drop(question.remove("act_logits")));
        },
        |_, b| {
            b.set("", "kind", "server");
            b.fields(5, "c").remove("act_logits");
        },
    ),
    (Rule::ActMissing, Tier::F16Class, nothing, |_, b| b.each(|question| drop(question.remove("act_logits")))),
    (Rule::ActMissing, Tier::StrictF32, nothing, |_, b| {
        b.set("", "kind", "server");
        b.each(|question| drop(question.remove("act_logits")));
    }),
    (Rule::ActMissing, Tier::BitExact, nothing, |a, b| {
        a.each(|question| drop(question.remove("act_logits")));
        b.each(|question| drop(question.remove("act_logits")));
    }),
    (Rule::ActMissing, Tier::F16Class, nothing, |_, b| *b.question(5, "c", &["act_logits"]) = parsed("[1000.0]")),
    (
        Rule::ActError,
        Tier::StrictF32,
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(1000.1875),
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(1000.25),
    ),
    (
        Rule::ActError,
        Tier::F16Class,
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(800.0),
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(799.0),
    ),
    (Rule::LogitBits, Tier::BitExact, |_, b| b.set("runtime", "isa", "scalar"), |_, b| next_up(b, "s", "logits")),
    (
        Rule::LogitBits,
        Tier::BitExact,
        |a, b| [a, b].into_iter().for_each(|run| *run.question(5, "n", &["logits", "0"]) = Value::from(0.0)),
        |a, b| {
            *a.question(5, "n", &["logits", "0"]) = Value::from(0.0);
            *b.question(5, "n", &["logits", "0"]) = Value::from(-0.0);
        },
    ),
    (Rule::ActBits, Tier::BitExact, nothing, |_, b| next_up(b, "s", "act_logits")),
    (
        Rule::AnswerDiffers,
        Tier::BitExact,
        |_, b| {
            let answer = object_at(&mut b.items[5], &["questions", "n", "answer"]);
            let first = answer.remove("noul").unwrap();
            answer.insert("noul", first);
        },
        |_, b| {
            let number = b.question(5, "n", &["answer", "noul"]);
            *number = Value::from(number.as_f64().unwrap().next_up());
        },
    ),
    (
        Rule::RefusalDiffers,
        Tier::BitExact,
        |a, b| [a, b].into_iter().for_each(|run| run.refuse(5, "too long")),
        |a, b| {
            a.refuse(5, "too long");
            b.refuse(5, "too short");
        },
    ),
    (
        Rule::NothingCompared,
        Tier::F16Class,
        |a, b| (1..N_ITEMS).for_each(|i| [&mut *a, &mut *b].into_iter().for_each(|run| run.refuse(i, "no"))),
        |a, b| (0..N_ITEMS).for_each(|i| [&mut *a, &mut *b].into_iter().for_each(|run| run.refuse(i, "no"))),
    ),
    (Rule::NothingChecked, Tier::F16Class, nothing, |a, b| {
        a.each(|question| drop(question.remove("answer")));
        b.each(|question| drop(question.remove("answer")));
    }),
];

/// Moves every probability of a run by `by`.
fn shift_probabilities(run: &mut RunText, by: f64) {
    for item in 0..N_ITEMS {
        let paths = [("c", ["a", "b", "c"].as_slice()), ("s", &["0", "1", "2", "3"])];
        for (question, keys) in paths {
            for key in keys {
                run.add(item, question, &["answer", "probabilities", key], by);
            }
        }
        run.add(item, "n", &["answer", "noul"], by);
    }
}

#[test]
fn every_rule_has_a_case_that_keeps_it_and_one_that_breaks_it() {
    for (i, (rule, tier, keeps, breaks)) in CASES.iter().enumerate() {
        let edited = |edit: &Edit| {
            let mut runs = pair(*tier);
            let [a, b] = &mut runs;
            edit(a, b);
            judged(&runs, *tier)
        };
        let kept = edited(keeps);
        let failures = kept.comparison.as_ref().map(|found| &found.failures);
        assert_eq!(kept.verdict, Verdict::Pass, "case {i}, {rule:?} kept: {failures:?} {:?}", kept.mismatches);
        let broken = edited(breaks);
        let found = broken.comparison.as_ref().unwrap_or_else(|| panic!("case {i}: {:?}", broken.mismatches));
        assert_eq!(broken.verdict, Verdict::Fail, "case {i}, {rule:?} broken");
        assert!(found.failures.iter().any(|failure| failure.rule == *rule), "case {i}, {rule:?}: {:?}", found.failures);
        let n_of_inputs: u64 = found.input_mismatches.values().sum();
        assert!(n_of_inputs <= found.n_failures);
        assert_eq!(rule.is_of_inputs(), found.input_mismatches.contains_key(rule), "case {i}, {rule:?}");
    }
    for rule in Rule::ALL {
        assert!(CASES.iter().any(|case| case.0 == *rule), "{rule:?} has no case");
    }
}

#[test]
fn a_failure_names_its_place() {
    let mut runs = pair(Tier::StrictF32);
    *runs[1].question(7, "s", &["answer", "probabilities", "2"]) = Value::from(0.9);
    let judged = judged(&runs, Tier::StrictF32);
    let found = judged.comparison.unwrap();
    let failure = &found.failures[0];
    assert_eq!((failure.item.as_deref(), failure.question.as_deref()), (Some("i7"), Some("s")));
    assert!(
        failure.what.starts_with("probabilities.2 is 0.") && failure.what.ends_with(" is above 0.0001"),
        "{failure:?}"
    );
    assert_eq!(found.n_failures, 1);
}

#[test]
fn known_differences_are_counted_apart() {
    let counted = |judged: &Judged, difference: Difference| {
        let found = judged.comparison.as_ref().unwrap();
        found.known_differences[difference as usize]
    };
    let mut runs = pair(Tier::StrictF32);
    runs[1].refuse_null(5);
    runs[1].set("", "kind", "server");
    object_at(&mut runs[1].items[6], &["questions", "c", "answer"]).remove("action");
    let of = judged(&runs, Tier::StrictF32);
    assert_eq!(of.verdict, Verdict::Pass);
    assert_eq!(counted(&of, Difference::NullStateRefused), 1);
    assert_eq!(counted(&of, Difference::ServerAnswerShape), 1);
    assert_eq!(of.comparison.as_ref().unwrap().n_compared, (N_QUESTIONS * (N_ITEMS - 1)) as u64);

    let mut runs = pair(Tier::F16Class);
    runs[1].set("", "kind", "server");
    runs[1].each(|question| drop(question.remove("act_logits")));
    let of = judged(&runs, Tier::F16Class);
    assert_eq!(counted(&of, Difference::ServerNoActHead), (N_QUESTIONS * N_ITEMS) as u64);
    assert_eq!(of.comparison.unwrap().n_act_checked, 0);

    let mut runs = pair(Tier::StrictF32);
    for run in &mut runs {
        run.refuse_null(5);
    }
    let of = judged(&runs, Tier::StrictF32);
    assert_eq!(of.verdict, Verdict::Pass);
    assert_eq!((counted(&of, Difference::NullStateRefused), of.comparison.unwrap().n_both_refused), (0, 1));
}

#[test]
fn errors_are_measured_as_they_are_judged() {
    let mut runs = pair(Tier::StrictF32);
    *runs[0].question(5, "s", &["answer", "score"]) = Value::from(1.5);
    *runs[1].question(5, "s", &["answer", "score"]) = Value::from(1.5003);
    let found = judged(&runs, Tier::StrictF32).comparison.unwrap();
    assert!((found.max_abs_error.score_raw - 3e-4).abs() < 1e-12 && (found.max_abs_error.score - 1e-4).abs() < 1e-12);
    let mut runs = pair(Tier::F16Class);
    shift_probabilities(&mut runs[1], 0.001);
    let [a, b] = &mut runs;
    flip(a, b, 5, UNDECIDED);
    let found = judged(&runs, Tier::F16Class).comparison.unwrap();
    assert_eq!((found.flips.len(), found.n_allowed_flips()), (1, 1));
    assert!((found.flips[0].gap - (f64::from(UNDECIDED[1]) / 2.0).tanh()).abs() < 1e-9);
    assert!((found.mean_abs_dp() - 0.001).abs() < 1e-4 && (found.max_abs_error.prob - 0.0089).abs() < 1e-4);
    assert!(found.logits.max_abs_dlogit > 0.017 && found.logits.max_tvd > 0.004);
}
