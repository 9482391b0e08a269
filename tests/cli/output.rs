//! The output object of `laya-cli`.

use crate::fixture::{NOTE, laya_cli, model, parsed, root, run};
use laya::engine::Plan;
use laya::json::{self, Value};
use laya::kernels::InstructionSet;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().collect()
}

#[test]
fn keys_come_in_their_documented_order() {
    let input =
        br#"{"questions": {"b": {"type": "choice", "instructions": "Topic?", "criteria": {"x": "y", "z": null}},
        "a": {"type": "score", "instructions": "How?", "criteria": ["low", "high"]}},
        "state": {"z": 1.0, "a": [true, null]}, "seed": 3, "id": "r-1"}"#;
    let (code, stdout, stderr) = run(laya_cli(&["-f", "-"]), input);
    assert_eq!((code, stderr.as_str()), (Some(0), NOTE));
    let output = parsed(&stdout);
    assert_eq!(keys(&output), ["id", "model", "state", "questions", "per_question", "answers", "usage", "runtime"]);
    assert_eq!(output.get("model").and_then(Value::as_str), model().to_str());
    assert_eq!(output.get("state").unwrap().dumps(), r#"{"z": 1.0, "a": [true, null]}"#);
    assert_eq!(keys(output.get("questions").unwrap()), ["b", "a"]);
    assert_eq!(keys(output.get("answers").unwrap()), ["b", "a"]);
    let per_question = output.get("per_question").unwrap();
    assert_eq!(keys(per_question), ["b", "a"]);
    let b = per_question.get("b").unwrap();
    assert_eq!(
        keys(b),
        [
            "qtype",
            "options",
            "input_ids",
            "marker_pos",
            "raw_logits",
            "act_logits",
            "act_raw_logits",
            "act_probability"
        ]
    );
    assert_eq!(b.get("options").unwrap().dumps(), r#"["x: y", "z"]"#);
    let act = b.get("act_logits").and_then(Value::as_array).unwrap();
    assert_eq!(act.first(), b.get("act_probability"));
    let sum: f64 = act.iter().filter_map(Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 1e-6, "act_logits are a softmax: {sum}");
    assert!(b.get("act_raw_logits").unwrap().as_array().unwrap().len() == act.len());
    let n_ids = |id| per_question.get(id).unwrap().get("input_ids").unwrap().as_array().unwrap().len();
    assert_eq!(keys(output.get("usage").unwrap()), ["input_tokens", "output_tokens"]);
    let n_tokens = output.get("usage").unwrap().get("input_tokens").unwrap().as_u64().unwrap();
    assert_eq!(n_tokens as usize, n_ids("a") + n_ids("b"));
    assert_eq!(
        keys(output.get("runtime").unwrap()),
        ["layout", "format", "plan", "kernels", "numeric_contract", "spec_sha256", "spec_source", "calibration"]
    );
    // Indented by two, and the same value as the one line of --jsonl.
    assert!(stdout.starts_with("{\n  \"id\": \"r-1\",\n"), "{stdout}");
    let (_, line, _) = run(
        laya_cli(&["--jsonl", "-"]),
        &input.iter().map(|b| if *b == b'\n' { b' ' } else { *b }).collect::<Vec<_>>(),
    );
    assert_eq!(parsed(&line), output);
}

#[test]
fn goldens_read_the_same_through_the_tool() {
    let items = std::fs::read_to_string(root().join("golden/tiny-mmbert/items.jsonl")).unwrap();
    let items: Vec<Value> = items.lines().map(parsed).collect();
    let bodies: Vec<String> = items.iter().map(|item| item.get("body").unwrap().dumps_compact()).collect();
    let (_, stdout, _) = run(laya_cli(&["--jsonl", "-"]), bodies.join("\n").as_bytes());
    let (mut n_answered, mut n_refused) = (0, 0);
    for (item, line) in items.iter().zip(stdout.lines()) {
        let (expected, output) = (item.get("expected").unwrap(), parsed(line));
        let repeats_an_answer_key = |answers: &Value| {
            let n_options = |id| expected.get("per_question")?.get(id)?.get("options")?.as_array().map(<[Value]>::len);
            answers.as_object().unwrap().iter().any(|(id, answer)| {
                answer.get("probabilities").is_some_and(|p| p.as_object().map(json::Object::len) != n_options(id))
            })
        };
        if expected.get("error").is_some() {
            assert!(output.get("error").is_some(), "{line}");
            n_refused += 1;
            continue;
        }
        if expected.get("answers").is_some_and(repeats_an_answer_key) {
            // Published with the same key twice in one object, which no reader of JSON keeps apart.
            assert!(line.contains("has the answer key"), "{line}");
            n_refused += 1;
            continue;
        }
        for (id, expected) in expected.get("per_question").unwrap().as_object().unwrap().iter() {
            let got = output.get("per_question").and_then(|all| all.get(id)).unwrap_or_else(|| panic!("{id}: {line}"));
            for key in ["options", "input_ids", "marker_pos"] {
                assert_eq!(got.get(key), expected.get(key), "{key} of {id}: {line}");
            }
        }
        assert_eq!(output.get("usage"), expected.get("usage"), "{line}");
        assert_eq!(keys(output.get("answers").unwrap()), keys(expected.get("answers").unwrap()));
        n_answered += 1;
    }
    assert_eq!(stdout.lines().count(), items.len());
    println!("{n_answered} items answered, {n_refused} refused");
    assert!(n_answered >= 60 && n_refused > 0);
}

#[test]
fn speed_arguments_change_no_bit() {
    let examples = root().join("examples/requests.jsonl");
    let answers = |arguments: &[&str]| {
        let (code, stdout, stderr) =
            run(laya_cli(&[&["--jsonl", examples.to_str().unwrap()], arguments].concat()), b"");
        assert_eq!(code, Some(0), "{stderr}");
        stdout
    };
    let expected = answers(&["-t", "1"]);
    assert!(expected.lines().count() > 1);
    for threads in ["2", "3"] {
        assert_eq!(answers(&["-t", threads]), expected, "{threads} threads");
    }
    for isa in InstructionSet::available() {
        println!("ran {}", isa.name());
        assert_eq!(answers(&["--isa", isa.name()]), expected, "{}", isa.name());
    }
    for plan in Plan::ALL {
        // The plan is named, and nothing else differs.
        let named = |plan: Plan| format!(r#""plan":"{}""#, plan.as_str());
        let expected = expected.replace(&named(Plan::default()), &named(plan));
        assert_eq!(answers(&["--plan", plan.as_str()]), expected, "{}", plan.as_str());
    }
}

#[test]
fn every_example_is_answered() {
    let mut n_examples = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let (code, stdout, stderr) = run(laya_cli(&["-f", path.to_str().unwrap()]), b"");
            assert_eq!(code, Some(0), "{}: {stderr}", path.display());
            let output = parsed(&stdout);
            assert_eq!(keys(output.get("answers").unwrap()), keys(output.get("questions").unwrap()));
            n_examples += 1;
        }
    }
    assert!(n_examples >= 10, "{n_examples} examples");
}
