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

/// Changes both runs in the same way.
fn both(a: &mut RunText, b: &mut RunText, edit: impl Fn(&mut RunText)) {
    edit(a);
    edit(b);
}

const STRICT: &[Tier] = &[Tier::StrictF32];
const CLASS: &[Tier] = &[Tier::F16Class];
const EXACT: &[Tier] = &[Tier::BitExact];
/// Tiers with numbers.
const ROOMY: &[Tier] = &[Tier::StrictF32, Tier::F16Class];
const ALL: &[Tier] = &Tier::ALL;

/// The tiers a rule belongs to.
fn tiers_of(rule: Rule) -> &'static [Tier] {
    match rule {
        Rule::PublicError => STRICT,
        Rule::FlipFraction | Rule::MaxAbsDp | Rule::MeanAbsDp => CLASS,
        Rule::LogitBits | Rule::ActBits | Rule::AnswerDiffers | Rule::RefusalDiffers => EXACT,
        // Under bit-exact equal refusals are equal results, and answers with other keys differ.
        Rule::BothRefused | Rule::AnswerKeys | Rule::ActError => ROOMY,
        _ => ALL,
    }
}

/// Logits of a noul whose gap is a little below and above what `f16-class` excuses: tanh(d / 2).
const UNDECIDED: [f32; 2] = [0.0, 0.0178];
const DECIDED: [f32; 2] = [0.0, 0.0182];

fn next_up(run: &mut RunText, question: &str, key: &str) {
    let number = run.question(3, question, &[key, "1"]);
    *number = Value::from(f64::from((number.as_f64().unwrap() as f32).next_up()));
}

/// A rule, the tiers it is tried in, a change it is kept in and one it is broken by.
const CASES: &[(Rule, &[Tier], Edit, Edit)] = &[
    (
        Rule::ItemMissing,
        ALL,
        |_, b| b.items.reverse(),
        |_, b| at(&mut b.items[5], &["id"]).clone_from(&Value::from("i999")),
    ),
    (Rule::Refused, ALL, |a, b| both(a, b, |run| run.refuse_null(5)), |_, b| b.refuse(5, "too long")),
    (Rule::Refused, ALL, nothing, |a, _| a.refuse(5, "too long")),
    (
        Rule::BothRefused,
        ROOMY,
        |a, b| both(a, b, |run| run.refuse_null(5)),
        |a, b| both(a, b, |run| run.refuse(5, "too long")),
    ),
    (Rule::BothRefused, ROOMY, nothing, |a, b| {
        a.refuse_null(5);
        b.refuse(5, "state must not be None");
    }),
    (Rule::Refused, STRICT, |_, b| b.refuse_null(5), |a, _| a.refuse(5, "state must not be None")),
    (Rule::Refused, CLASS, |a, b| both(a, b, |run| run.refuse_null(5)), |_, b| b.refuse_null(5)),
    (Rule::Failed, ALL, nothing, |_, b| b.fail(5)),
    (Rule::Failed, ALL, nothing, |a, b| {
        a.refuse_null(5);
        b.fail(5);
    }),
    (Rule::Failed, ALL, nothing, |a, b| both(a, b, |run| run.fail(5))),
    (
        Rule::QuestionMissing,
        ALL,
        |_, b| {
            let questions = object_at(&mut b.items[5], &["questions"]);
            let first = questions.remove("c").unwrap();
            questions.insert("c", first);
        },
        |_, b| drop(object_at(&mut b.items[5], &["questions"]).remove("c")),
    ),
    (Rule::QuestionMissing, ALL, nothing, |a, _| drop(object_at(&mut a.items[5], &["questions"]).remove("c"))),
    (Rule::QuestionType, ALL, nothing, |_, b| *b.question(5, "c", &["type"]) = Value::from("score")),
    (
        Rule::InputUnknown,
        ALL,
        |_, b| b.each(|question| drop(question.remove("markers"))),
        |_, b| drop(b.fields(5, "c").remove("ids")),
    ),
    (
        Rule::InputLength,
        ALL,
        |a, b| both(a, b, |run| *run.question(5, "n", &["ids"]) = parsed("[1, 2, 3, 4, 5, 6, 7, 8, 9]")),
        |_, b| *b.question(5, "n", &["ids"]) = parsed("[1, 2, 3, 4, 5, 6, 7, 8, 9]"),
    ),
    (
        Rule::InputIds,
        ALL,
        |a, b| both(a, b, |run| *run.question(5, "n", &["ids", "1"]) = Value::from(99_i64)),
        |_, b| *b.question(5, "n", &["ids", "1"]) = Value::from(99_i64),
    ),
    (
        Rule::InputState,
        ALL,
        |a, b| both(a, b, |run| *run.question(5, "n", &["ids", "8"]) = Value::from(99_i64)),
        |_, b| *b.question(5, "n", &["ids", "8"]) = Value::from(99_i64),
    ),
    (
        Rule::InputMarkers,
        ALL,
        |a, _| drop(a.fields(5, "n").remove("markers")),
        |_, b| *b.question(5, "n", &["markers", "1"]) = Value::from(6_i64),
    ),
    (
        Rule::Coverage,
        ALL,
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
    (
        // A refused item hides none of another.
        Rule::Coverage,
        ALL,
        |a, b| both(a, b, |run| run.refuse_null(4)),
        |a, b| {
            both(a, b, |run| {
                run.refuse_null(4);
                object_at(&mut run.items[5], &["questions"]).remove("c");
            })
        },
    ),
    (Rule::Coverage, ALL, nothing, |a, b| {
        both(a, b, |run| {
            run.refuse_null(4);
            object_at(&mut run.items[4], &["refused"]).remove("n_questions");
        })
    }),
    (
        Rule::Coverage,
        STRICT,
        |_, b| b.refuse_null(4),
        |_, b| {
            b.refuse_null(4);
            *at(&mut b.items[4], &["refused", "n_questions"]) = Value::from(2_i64);
        },
    ),
    (Rule::Coverage, ALL, nothing, |a, b| both(a, b, |run| *at(&mut run.items[5], &["questions"]) = parsed("{}"))),
    (Rule::Logits, ALL, nothing, |_, b| drop(b.fields(5, "c").remove("logits"))),
    (Rule::Logits, ALL, nothing, |_, b| {
        b.fields(5, "c").remove("markers");
        *b.question(5, "c", &["logits"]) = parsed("[0.25, 1.5]");
    }),
    (Rule::Argmax, CLASS, |a, b| flip(a, b, 5, UNDECIDED), |a, b| flip(a, b, 5, DECIDED)),
    (
        Rule::Argmax,
        STRICT,
        |_, b| next_up(b, "n", "logits"),
        // The answer is what it was.
        |_, b| *b.question(5, "n", &["logits"]) = parsed("[3.0, 2.0]"),
    ),
    (Rule::Argmax, STRICT, nothing, |_, b| *b.question(5, "c", &["answer", "choice"]) = Value::from("a")),
    (Rule::Argmax, EXACT, nothing, |a, b| flip(a, b, 5, UNDECIDED)),
    (
        Rule::FlipFraction,
        CLASS,
        |a, b| flip(a, b, 5, UNDECIDED),
        |a, b| {
            flip(a, b, 5, UNDECIDED);
            flip(a, b, 6, UNDECIDED);
        },
    ),
    (Rule::PublicMissing, ALL, nothing, |_, b| drop(b.fields(5, "c").remove("answer"))),
    (Rule::PublicMissing, ALL, nothing, |a, b| {
        both(a, b, |run| drop(object_at(&mut run.items[5], &["questions", "n", "answer"]).remove("noul")))
    }),
    (Rule::PublicMissing, ALL, nothing, |a, b| {
        both(a, b, |run| *run.question(5, "c", &["answer", "probabilities"]) = parsed("{}"))
    }),
    (Rule::PublicMissing, ALL, nothing, |a, b| both(a, b, |run| *run.question(5, "c", &["answer"]) = parsed("{}"))),
    (
        Rule::AnswerKeys,
        STRICT,
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
    (Rule::AnswerKeys, STRICT, nothing, |_, b| {
        b.set("", "kind", "server");
        object_at(&mut b.items[5], &["questions", "c", "answer"]).remove("confidence");
    }),
    (Rule::AnswerKeys, CLASS, nothing, |_, b| {
        let probabilities = object_at(&mut b.items[5], &["questions", "c", "answer", "probabilities"]);
        let p = probabilities.remove("a").unwrap();
        probabilities.insert("A", p);
    }),
    (
        Rule::AnswerLabel,
        ALL,
        nothing,
        // A level is a label, not a number with an error.
        |_, b| *b.question(5, "s", &["answer", "legend", "3"]) = Value::from(4.000_01),
    ),
    (Rule::AnswerLabel, ALL, nothing, |_, b| *b.question(5, "n", &["answer", "type"]) = Value::from("score")),
    (
        Rule::AnswerNumber,
        ALL,
        // An integer is a number.
        |a, b| both(a, b, |run| *run.question(5, "n", &["answer", "confidence"]) = Value::from(1_i64)),
        |_, b| *b.question(5, "n", &["answer", "confidence"]) = Value::from("1"),
    ),
    (Rule::AnswerLabel, ALL, nothing, |a, b| {
        both(a, b, |run| *run.question(5, "n", &["answer", "type"]) = Value::from("score"))
    }),
    (Rule::AnswerNumber, ALL, nothing, |a, b| {
        both(a, b, |run| *run.question(5, "n", &["answer", "noul"]) = Value::Null)
    }),
    (Rule::AnswerNumber, ALL, nothing, |a, b| {
        both(a, b, |run| *run.question(5, "s", &["answer", "score"]) = Value::from("1.5"))
    }),
    (Rule::AnswerNumber, ALL, nothing, |a, b| {
        both(a, b, |run| *run.question(5, "c", &["answer", "probabilities", "b"]) = Value::Null)
    }),
    (
        Rule::PublicError,
        STRICT,
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
        STRICT,
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
        CLASS,
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.9);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.4);
        },
        |a, b| {
            *a.question(5, "n", &["answer", "noul"]) = Value::from(0.9);
            *b.question(5, "n", &["answer", "noul"]) = Value::from(0.399_999);
        },
    ),
    (Rule::MeanAbsDp, CLASS, |_, b| shift_probabilities(b, 0.002), |_, b| shift_probabilities(b, 0.002_001)),
    (
        Rule::ActMissing,
        CLASS,
        |_, b| {
            b.set("", "kind", "server");
            b.each(|question| drop(question.remove("act_logits")));
        },
        |_, b| {
            b.set("", "kind", "server");
            b.fields(5, "c").remove("act_logits");
        },
    ),
    (Rule::ActMissing, CLASS, nothing, |_, b| b.each(|question| drop(question.remove("act_logits")))),
    (Rule::ActMissing, STRICT, nothing, |_, b| {
        b.set("", "kind", "server");
        b.each(|question| drop(question.remove("act_logits")));
    }),
    (Rule::ActMissing, EXACT, nothing, |a, b| {
        a.each(|question| drop(question.remove("act_logits")));
        b.each(|question| drop(question.remove("act_logits")));
    }),
    (Rule::ActMissing, CLASS, nothing, |_, b| *b.question(5, "c", &["act_logits"]) = parsed("[1000.0]")),
    (
        Rule::ActError,
        STRICT,
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(1000.1875),
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(1000.25),
    ),
    (
        Rule::ActError,
        CLASS,
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(800.0),
        |_, b| *b.question(5, "c", &["act_logits", "0"]) = Value::from(799.0),
    ),
    (Rule::LogitBits, EXACT, |_, b| b.set("runtime", "isa", "scalar"), |_, b| next_up(b, "s", "logits")),
    (
        Rule::LogitBits,
        EXACT,
        |a, b| both(a, b, |run| *run.question(5, "n", &["logits", "0"]) = Value::from(0.0)),
        |a, b| {
            *a.question(5, "n", &["logits", "0"]) = Value::from(0.0);
            *b.question(5, "n", &["logits", "0"]) = Value::from(-0.0);
        },
    ),
    (Rule::ActBits, EXACT, nothing, |_, b| next_up(b, "s", "act_logits")),
    (
        Rule::AnswerDiffers,
        EXACT,
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
        EXACT,
        |a, b| both(a, b, |run| run.refuse(5, "too long")),
        |a, b| {
            a.refuse(5, "too long");
            b.refuse(5, "too short");
        },
    ),
    (
        Rule::NothingCompared,
        ALL,
        |a, b| both(a, b, |run| (1..N_ITEMS).for_each(|i| run.refuse_null(i))),
        |a, b| both(a, b, |run| (0..N_ITEMS).for_each(|i| run.refuse_null(i))),
    ),
    (Rule::NothingChecked, ALL, nothing, |a, b| {
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
    let cases = CASES.iter().enumerate();
    for (i, rule, tier, keeps, breaks) in
        cases.flat_map(|(i, (rule, tiers, keeps, breaks))| tiers.iter().map(move |tier| (i, rule, tier, keeps, breaks)))
    {
        let edited = |edit: &Edit| {
            let mut runs = pair(*tier);
            let [a, b] = &mut runs;
            edit(a, b);
            judged(&runs, *tier)
        };
        let kept = edited(keeps);
        let failures = kept.comparison.as_ref().map(|found| &found.failures);
        assert_eq!(
            kept.verdict,
            Verdict::Pass,
            "case {i}, {rule:?} in {tier:?} kept: {failures:?} {:?}",
            kept.mismatches
        );
        let broken = edited(breaks);
        let found = broken.comparison.as_ref().unwrap_or_else(|| panic!("case {i}: {:?}", broken.mismatches));
        assert_eq!(broken.verdict, Verdict::Fail, "case {i}, {rule:?} in {tier:?} broken");
        assert!(
            found.failures.iter().any(|failure| failure.rule == *rule),
            "case {i}, {rule:?} in {tier:?}: {:?}",
            found.failures
        );
        let n_of_inputs: u64 = found.input_mismatches.values().sum();
        assert!(n_of_inputs <= found.n_failures);
        assert_eq!(rule.is_of_inputs(), found.input_mismatches.contains_key(rule), "case {i}, {rule:?} in {tier:?}");
    }
    for rule in Rule::ALL {
        for tier in Tier::ALL {
            let has_case = CASES.iter().any(|case| case.0 == *rule && case.1.contains(&tier));
            assert_eq!(has_case, tiers_of(*rule).contains(&tier), "{rule:?} in {tier:?}");
        }
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
