use super::*;
use crate::parity::identity::tests::example;
use crate::parity::record::Refusal;

fn run(items: Vec<ItemRecord>) -> Run {
    Run { identity: example(), items }
}

fn answered(id: &str, questions: Vec<QuestionRecord>) -> ItemRecord {
    ItemRecord { id: id.into(), outcome: Outcome::Answered(questions) }
}

fn question(id: &str, kind: QuestionType, logits: Option<&[f32]>, answer: Option<&str>) -> QuestionRecord {
    QuestionRecord {
        id: id.into(),
        kind,
        ids: None,
        markers: None,
        logits: logits.map(<[f32]>::to_vec),
        act_logits: None,
        answer: answer.map(|text| crate::json::parse(text.as_bytes()).unwrap().as_object().unwrap().clone()),
    }
}

/// What two runs of one choice question, `q` of item `i`, give.
fn of_one(ours: QuestionRecord, theirs: QuestionRecord, corpus: Option<&Corpus>) -> Flips {
    Flips::find(&run(vec![answered("i", vec![ours])]), &run(vec![answered("i", vec![theirs])]), corpus)
}

fn choice(logits: Option<&[f32]>, answer: Option<&str>) -> QuestionRecord {
    question("q", QuestionType::Choice, logits, answer)
}

const FIRST: &str = r#"{"choice": "a", "probabilities": {"a": 0.75, "b": 0.25}}"#;
/// Says the same as [`FIRST`] in another order.
const TURNED: &str = r#"{"choice": "a", "probabilities": {"b": 0.25, "a": 0.75}}"#;
const SECOND: &str = r#"{"choice": "b", "probabilities": {"a": 0.25, "b": 0.75}}"#;

#[test]
fn the_surest_change_comes_first() {
    let logits = |values: [[f32; 2]; 4]| {
        let questions = values.iter().zip(["small", "large", "same", "equal"]);
        let questions = questions.map(|(logits, id)| question(id, QuestionType::Noul, Some(logits), None));
        run(vec![answered("i", questions.collect())])
    };
    let baseline = logits([[0.0, 0.125], [3.0, 0.0], [1.0, 0.0], [1.0, 1.0]]);
    let candidate = logits([[0.125, 0.0], [0.0, 3.0], [0.5, 0.0], [0.0, 1.0]]);
    let flips = Flips::find(&baseline, &candidate, None);
    let ids: Vec<_> = flips.changed.iter().map(|flip| flip.question.as_str()).collect();
    assert_eq!(ids, ["large", "small", "equal"]);
    let gaps: Vec<_> = flips.changed.iter().map(|flip| flip.gap).collect();
    // tanh(1.5) and tanh(1/16); none between equal logits, of which the first is the answer.
    assert!((gaps[0] - 0.905_148_253_644_866_4).abs() < 1e-15, "{gaps:?}");
    assert!((gaps[1] - 0.062_418_746_747_512_5).abs() < 1e-15, "{gaps:?}");
    assert_eq!(gaps[2], 0.0);
    assert_eq!(
        gaps[..2],
        [[3.0, 0.0], [0.0, 0.125]].map(|logits| crate::parity::gate::top_2_gap(&logits)),
        "as the gate has it"
    );
    assert_eq!(flips.agreement, [Agreement::default(), Agreement::default(), Agreement { n: 4, n_same: 1 }]);
    assert_eq!(flips.left_out, LeftOut::default());
    let flip = &flips.changed[0];
    assert_eq!((flip.baseline.first, flip.candidate.first, flip.baseline.source), (0, 1, Source::Logits));
    assert_eq!(
        (flip.options.as_slice(), flip.same_input, &flip.asked),
        (&["false".into(), "true".into()][..], None, &None)
    );
}

#[test]
fn answers_count_where_a_run_has_no_logits() {
    let flips = of_one(choice(Some(&[2.0, 0.0]), Some(FIRST)), choice(None, Some(SECOND)), None);
    let flip = &flips.changed[0];
    assert_eq!((flip.baseline.source, flip.candidate.source), (Source::Logits, Source::Answer));
    assert_eq!(
        (flip.options.as_slice(), flip.candidate.probabilities.as_slice()),
        (&["a".into(), "b".into()][..], &[0.25, 0.75][..])
    );
    // An answer names its options, so that their order does not matter.
    for (ours, theirs) in [(FIRST, TURNED), (TURNED, FIRST)] {
        assert!(of_one(choice(None, Some(ours)), choice(None, Some(theirs)), None).changed.is_empty());
        let flips = of_one(choice(None, Some(theirs)), choice(Some(&[2.0, 0.0]), Some(FIRST)), None);
        assert!(flips.changed.is_empty() && flips.agreement[0].n_same == 1);
    }
    let score = |answer| question("q", QuestionType::Score, None, Some(answer));
    let flips = of_one(
        score(r#"{"score": 0.4, "probabilities": {"0": 0.6, "1": 0.4}}"#),
        score(r#"{"score": 0.6, "probabilities": {"0": 0.4, "1": 0.6}}"#),
        None,
    );
    assert!((flips.changed[0].gap - 0.2).abs() < 1e-12);
    let noul = |p: f64| question("q", QuestionType::Noul, None, Some(&format!("{{\"noul\": {p}}}")));
    assert_eq!(of_one(noul(0.875), noul(0.25), None).changed[0].gap, 0.75);
    assert!(of_one(noul(0.5), noul(0.25), None).changed.is_empty());
}

#[test]
fn what_cannot_be_compared_is_counted() {
    let unlike = |ours, theirs| of_one(ours, theirs, None).left_out.n_unlike;
    assert_eq!(unlike(choice(Some(&[0.0, 1.0]), None), choice(Some(&[0.0, 1.0, 2.0]), None)), 1);
    assert_eq!(unlike(choice(None, None), choice(Some(&[0.0, 1.0]), None)), 1);
    assert_eq!(unlike(choice(None, None), choice(None, None)), 1);
    assert_eq!(unlike(choice(None, Some(FIRST)), question("q", QuestionType::Score, Some(&[0.0, 1.0]), None)), 1);
    assert_eq!(
        unlike(choice(None, Some(FIRST)), choice(None, Some(r#"{"choice": "a", "probabilities": {"a": 1}}"#))),
        1
    );
    assert_eq!(
        unlike(choice(None, Some(r#"{"choice": "x", "probabilities": {"a": 1}}"#)), choice(Some(&[1.0]), None)),
        1
    );
    assert_eq!(unlike(choice(None, Some(r#"{"choice": "a", "probabilities": 3}"#)), choice(None, Some(FIRST))), 1);

    let refusal = Refusal { message: "no".into(), null_state: true, n_questions: None };
    let refused = ItemRecord { id: "refused".into(), outcome: Outcome::Refused(refusal) };
    let failed = ItemRecord { id: "failed".into(), outcome: Outcome::Failed("no".into()) };
    let one = |id: &str, question_id: &str| {
        answered(id, vec![question(question_id, QuestionType::Noul, Some(&[0.0, 1.0]), None)])
    };
    let baseline = run(vec![one("both", "q"), refused, one("failed", "q"), one("ours", "q")]);
    let candidate = run(vec![one("both", "other"), one("refused", "q"), failed, one("x", "q"), one("y", "q")]);
    let flips = Flips::find(&baseline, &candidate, None);
    let expected = LeftOut { n_unanswered_items: 2, n_single_items: 3, n_single_questions: 2, n_unlike: 0 };
    assert_eq!(flips.left_out, expected);
}

#[test]
fn a_corpus_says_what_was_asked() {
    let line = r#"{"id": "i", "cat": "c", "state": {"a": 1.0}, "questions": {"q": {"type": "choice", "instructions": "Which?", "criteria": {"b": "two", "a": null}}}}"#;
    let corpus = Corpus::parse(line.as_bytes()).unwrap();
    // The order of the options is that of the question, whatever an answer's is.
    let flips = of_one(choice(Some(&[2.0, 0.0]), None), choice(None, Some(FIRST)), Some(&corpus));
    let flip = &flips.changed[0];
    assert_eq!(flip.options, ["b: two", "a"]);
    assert_eq!((flip.baseline.first, flip.candidate.first), (0, 1));
    assert_eq!(flip.candidate.probabilities, [0.25, 0.75]);
    let asked = flip.asked.as_ref().unwrap();
    assert_eq!(
        (asked.category.as_str(), asked.state.as_str(), asked.instructions.as_str()),
        ("c", "{\"a\": 1.0}", "Which?")
    );
    let three = choice(Some(&[2.0, 0.0, 1.0]), None);
    assert_eq!(of_one(three.clone(), three, Some(&corpus)).left_out.n_unlike, 1);
}

#[test]
fn other_input_is_seen() {
    let with_ids =
        |ids: &[u32], logits: [f32; 2]| QuestionRecord { ids: Some(ids.to_vec()), ..choice(Some(&logits), None) };
    for (ids, same) in [([1, 2], true), ([1, 3], false)] {
        let flips = of_one(with_ids(&[1, 2], [1.0, 0.0]), with_ids(&ids, [0.0, 1.0]), None);
        assert_eq!(flips.changed[0].same_input, Some(same));
        assert_eq!(flips.changed[0].options, ["option 0", "option 1"]);
    }
}

#[test]
fn runs_of_other_requests_are_refused() {
    let baseline = run(Vec::new()).identity;
    assert_eq!(refusal(&baseline, &baseline), None);
    let mut other = baseline.clone();
    other.corpus.subset = "english".into();
    assert!(refusal(&baseline, &other).unwrap().contains("all and english"));
    other.corpus.sha256 = "1".repeat(64);
    assert!(refusal(&baseline, &other).unwrap().contains("different corpora"));
}
