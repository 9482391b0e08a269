//! `parity-gate layers`: what it writes, and rows that try nothing.

use crate::dump::{Tensors, golden, write};
use crate::fixture::{model, parsed, root, run};
use laya::gguf::{Change, Edit, File, Value, write_atomic};
use std::path::Path;
use std::process::{Command, Stdio};

/// `parity-gate layers CORPUS -m MODEL ARGUMENTS` in `folder`.
fn layers(folder: &Path, model: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    layers_of(folder, &root().join("tests/cli/input/layers-corpus.jsonl"), model, arguments)
}

/// [`layers`] of another corpus.
fn layers_of(folder: &Path, corpus: &Path, model: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parity-gate"));
    command.current_dir(folder).env("LAYA_ISA", "").arg("layers").arg("-m").arg(model);
    command.arg(corpus).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run(command, b"")
}

#[test]
fn mistakes_that_rows_are_too_short_for_are_no_pass() {
    let folder = tempfile::tempdir().unwrap();
    let wide = folder.path().join("wide.gguf");
    let key = "laya.attention.sliding_window".to_owned();
    let edit = Edit::new(&File::open(model()).unwrap(), &[Change::Set(key, Value::U32(512))]).unwrap();
    write_atomic(&wide, |out| edit.write(out, &mut |_, _| ())).unwrap();
    let names = "window-1,window+1,attend-padding";
    let (code, stdout, stderr) = layers(folder.path(), &wide, &["--absolute-until", "1", "--mutate", names]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("fail: 1 of 3 mistakes are past tolerance; the smallest is attend-padding"), "{stdout}");
    assert_eq!(stdout.matches("NOT EXERCISED").count(), 2, "{stdout}");
    let advice = "is not exercised: the longest row has 96 tokens and a local layer of this model sees 256 to each side: \
                  give rows of at least";
    for (name, needed) in [("window-1", 257), ("window+1", 258)] {
        assert!(stderr.contains(&format!("parity-gate: error: {name} {advice} {needed} tokens")), "{stderr}");
    }
}

#[test]
fn a_mistake_within_the_bars_fails_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let loose = ["--absolute", "10", "--relative", "10", "--logit", "10", "--mutate", "tanh-gelu"];
    let (code, stdout, stderr) = layers(folder.path(), model(), &loose);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("PASSES") && stdout.contains("fail: 0 of 1 mistakes"), "{stdout}");
    assert!(stderr.contains("tanh-gelu passes: the gate would not notice this mistake"), "{stderr}");
}

#[test]
fn mistakes_of_a_candidate_that_is_past_tolerance_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    // Another rotary base: attention is another one from layer 0 on.
    let other = folder.path().join("other.gguf");
    let key = "laya.rope.freq_base".to_owned();
    let edit = Edit::new(&File::open(model()).unwrap(), &[Change::Set(key, Value::F32(150_000.0))]).unwrap();
    write_atomic(&other, |out| edit.write(out, &mut |_, _| ())).unwrap();
    let given = ["--absolute-until", "1", "--candidate-model", "other.gguf", "--mutate", "all", "--json", "o.json"];
    let (code, stdout, stderr) = layers(folder.path(), model(), &given);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("fail: the first node past tolerance is "), "{stdout}");
    assert_eq!(stdout.matches("not judged").count(), 10, "{stdout}");
    assert!(stdout.contains("fail: no mistake is judged") && !stdout.contains("as it must"), "{stdout}");
    assert!(stderr.contains("the candidate is past tolerance without a mistake, so none is judged"), "{stderr}");
    let report = parsed(&std::fs::read_to_string(folder.path().join("o.json")).unwrap());
    let controls = report.get("controls").unwrap().as_array().unwrap();
    assert!(controls.iter().all(|one| one.get("outcome").unwrap().as_str() == Some("not judged")));
}

#[test]
fn outputs_are_no_inputs() {
    let folder = tempfile::tempdir().unwrap();
    for (name, from) in
        [("corpus.jsonl", root().join("tests/cli/input/layers-corpus.jsonl")), ("m.gguf", model().into())]
    {
        std::fs::copy(from, folder.path().join(name)).unwrap();
    }
    let (corpus, file) = (folder.path().join("corpus.jsonl"), folder.path().join("m.gguf"));
    let before = [&corpus, &file].map(|path| std::fs::read(path).unwrap());
    for outputs in [["--json", "corpus.jsonl"], ["--svg", "corpus.jsonl"], ["--json", "m.gguf"], ["--svg", "./m.gguf"]]
    {
        let (code, stdout, stderr) =
            layers_of(folder.path(), &corpus, &file, &[&["--mutate", "all"], &outputs[..]].concat());
        assert_eq!(code, Some(64), "{stdout}{stderr}");
        assert!(stderr.contains("is to be read and written; name another output"), "{stderr}");
    }
    assert_eq!(before, [&corpus, &file].map(|path| std::fs::read(path).unwrap()));
}

#[test]
fn the_report_and_the_picture_say_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let outputs =
        ["--absolute-until", "1", "--mutate", "window+1,no-type-embedding", "--json", "o.json", "--svg", "o.svg"];
    let (code, stdout, stderr) = layers(folder.path(), model(), &outputs);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let report = parsed(&std::fs::read_to_string(folder.path().join("o.json")).unwrap());
    let controls = report.get("controls").unwrap().as_array().unwrap();
    let text = |value: &laya::json::Value, key: &str| value.get(key).unwrap().as_str().unwrap().to_owned();
    let said: Vec<_> =
        controls.iter().map(|one| [text(one, "name"), text(one, "outcome"), text(one, "first")]).collect();
    assert_eq!(said, [["window+1", "fail", "layer_01"], ["no-type-embedding", "fail", "type_emb"]]);
    assert_eq!(report.get("rows").unwrap().as_array().unwrap().len(), 4);
    // Both sides are the model file, of which the identity says what it is.
    let identity = report.get("candidate").unwrap();
    assert_eq!(report.get("baseline"), Some(identity));
    let of = |part: &str, key: &str| identity.get(part).unwrap().get(key).unwrap().as_str().unwrap().to_owned();
    assert_eq!([of("model", "weights"), of("runtime", "plan")], ["f32", "packed"]);
    assert_eq!(of("model", "sha256").len() + of("build", "sha256").len() + of("corpus", "sha256").len(), 3 * 64);
    let nodes = controls[1].get("nodes").unwrap().as_array().unwrap();
    assert_eq!(nodes.len(), 12);
    // What comes before the type embedding cannot know of it.
    for node in nodes {
        let (name, n_differ) = (text(node, "node"), node.get("n_differ").unwrap().as_u64().unwrap());
        let before = name.starts_with("layer") || ["embeddings", "final_norm"].contains(&name.as_str());
        assert_eq!(n_differ == 0, before, "{name}");
    }
    let svg = std::fs::read_to_string(folder.path().join("o.svg")).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(svg.contains("tiny.gguf against itself; 4 rows, 304 tokens") && svg.contains(">window+1</text>"));
}

#[test]
fn the_published_packages_dump_is_the_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let (tensors, items) = golden("tiny-mmbert");
    let (corpus, dump) = (folder.path().join("corpus.jsonl"), folder.path().join("dump.safetensors"));
    let lines = items.iter().map(|item| {
        let mut line = item.body.as_object().unwrap().clone();
        line.insert("id", item.id.as_str());
        laya::json::Value::Object(line).dumps() + "\n"
    });
    std::fs::write(&corpus, lines.collect::<String>()).unwrap();
    let kept = |n: usize| -> Tensors {
        let kept: Vec<_> = items.iter().take(n).map(|item| format!("{}/{}/", item.id, item.question)).collect();
        tensors.clone().into_iter().filter(|(name, _)| kept.iter().any(|kept| name.starts_with(kept))).collect()
    };
    let run = |arguments: &[&str]| {
        let given = ["--absolute-until", "1", "--reference", "dump.safetensors"];
        layers_of(folder.path(), &corpus, model(), &[&given, arguments].concat())
    };
    write(&kept(3), &dump);
    let (code, stdout, stderr) = run(&["--mutate", "window-1"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("pass: nearest to its bar is ") && stdout.contains("12 nodes, 3 rows"), "{stdout}");
    assert!(stdout.contains("pass: 1 of 1 mistakes are past tolerance"), "{stdout}");
    // Layer 2 holds numbers for which the absolute bar is less than float32 can tell.
    let (code, stdout, stderr) = layers_of(folder.path(), &corpus, model(), &["--reference", "dump.safetensors"]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("fail: the first node past tolerance is layer_02: absolute error "), "{stdout}");
    assert!(stderr.contains("numbers of this model are so large from layer 2 on"), "{stderr}");
    assert!(stderr.trim_end().ends_with("--absolute-until 1"), "{stderr}");

    // Refused: rows that nobody left out and that are not compared, and an item that is not there.
    let short = folder.path().join("short.jsonl");
    std::fs::write(&short, std::fs::read_to_string(&corpus).unwrap().lines().next().unwrap()).unwrap();
    let of_short = |arguments: &[&str]| {
        let given = ["--absolute-until", "1", "--reference", "dump.safetensors"];
        layers_of(folder.path(), &short, model(), &[&given, arguments].concat())
    };
    let (code, stdout, stderr) = of_short(&[]);
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    assert!(
        stdout.is_empty() && stderr.contains("2 of the dump's 3 rows would not be compared, the first of"),
        "{stderr}"
    );
    for narrowed in [["--rows", "all"], ["--item", &items[0].id]] {
        let (code, stdout, stderr) = of_short(&narrowed);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    }
    let (code, stdout, stderr) = run(&["--item", &items[0].id, "--item", &items[3].id]);
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    assert!(stderr.contains(&format!("the dump has no row of the item {:?}", items[3].id)), "{stderr}");

    // Refused: a tensor is missing, and rows of another corpus.
    let mut broken = kept(3);
    let name = format!("{}/{}/layer_03", items[1].id, items[1].question);
    broken.remove(&name).unwrap();
    write(&broken, &dump);
    let (code, stdout, stderr) = run(&[]);
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    assert!(stdout.is_empty() && stderr.contains(&format!("dump.safetensors: tensor {name}: is missing")), "{stderr}");
    write(&kept(3), &dump);
    let (code, _, stderr) = layers(folder.path(), model(), &["--reference", "dump.safetensors"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("none of the dump's 3 rows is of this corpus"), "{stderr}");
    // A dump that is not there leaves the outputs alone.
    let (code, _, stderr) =
        layers(folder.path(), model(), &["--reference", "none.safetensors", "--json", "out.json", "--svg", "out.svg"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(!folder.path().join("out.json").exists() && !folder.path().join("out.svg").exists());
}
