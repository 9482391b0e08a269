//! llama.cpp's layout of Laya models: written as its own converter writes it, read with the same answers to the last bit,
//! and every other layout refused by name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checkpoint;
mod mutation;
mod random;
mod tiny;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use laya::convert::{Layout, Options, Outtype, convert_to};
use laya::engine::{self, Engine};
use laya::gguf::{Array, File, Strings, TensorType, Value, Writer};
use laya::json;
use laya::request::Request;
use laya::{Error, ErrorKind, layout};
use sha2::{Digest as _, Sha256};

const TEMPLATE: &str = "tokenizer.chat_template.systemone";

/// The checkpoint of `family` as a file.
fn converted(family: &str, outtype: Outtype, layout: Layout) -> File {
    let (bytes, _) = convert(&tiny::root().join("golden").join(family).join("checkpoint"), outtype, layout).unwrap();
    File::from_bytes(bytes).unwrap()
}

fn convert(dir: &Path, outtype: Outtype, layout: Layout) -> Result<(Vec<u8>, Vec<String>), Error> {
    let mut bytes = Vec::new();
    let options = Options { outtype, layout, ..Options::default() };
    let report = convert_to(dir, &mut bytes, &options, &mut |_, _| {})?;
    Ok((bytes, report.notes))
}

/// A copy of `file` with other keys and tensors: `keys` changes the list, `tensor` names each tensor or drops it.
fn edited(file: &File, keys: impl FnOnce(&mut Vec<(String, Value)>), tensor: impl Fn(&str) -> Option<String>) -> File {
    let mut list: Vec<_> = file.keys().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    keys(&mut list);
    let mut writer = Writer::new();
    for (key, value) in list {
        writer.set(key, value);
    }
    let mut kept = Vec::new();
    for info in file.tensors() {
        if let Some(name) = tensor(&info.name) {
            writer.add_tensor(name, &info.shape, info.ty).unwrap();
            kept.push(file.tensor_data(info));
        }
    }
    let mut kept = kept.into_iter();
    let bytes = writer.to_bytes(|_, out| {
        out.write_all(kept.next().unwrap()).unwrap();
        Ok(())
    });
    File::from_bytes(bytes.unwrap()).unwrap()
}

fn same_name(name: &str) -> Option<String> {
    Some(name.to_owned())
}

/// A copy with `key` set, or taken away.
fn with(file: &File, key: &str, value: Option<Value>) -> File {
    edited(
        file,
        |keys| {
            keys.retain(|(known, _)| known != key || value.is_some());
            match (keys.iter_mut().find(|(known, _)| known == key), value) {
                (Some((_, old)), Some(value)) => *old = value,
                (None, Some(value)) => keys.push((key.to_owned(), value)),
                _ => {}
            }
        },
        same_name,
    )
}

fn load(file: &File) -> laya::Result<Engine> {
    Engine::from_gguf(file, &engine::Options { n_threads: Some(1), ..engine::Options::default() })
}

#[track_caller]
fn refusal(file: &File) -> Error {
    let error = load(file).expect_err("the file must be refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[track_caller]
fn refused(file: &File, parts: &[&str]) {
    let message = refusal(file).to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn files_are_those_of_llama_cpps_converter() {
    let golden = fs::read_to_string(tiny::root().join("golden/upstream/files.jsonl")).unwrap();
    let mut n_files = 0;
    for line in golden.lines() {
        let golden = json::parse(line.as_bytes()).unwrap();
        let text = |key: &str| golden.get(key).unwrap().as_str().unwrap();
        let outtype: Outtype = text("outtype").parse().unwrap();
        let ours = converted(text("family"), outtype, Layout::ModernBert);
        // The template is ours. What only this project reads comes last and is passed over by llama.cpp.
        let plain = edited(
            &ours,
            |keys| {
                keys.retain(|(key, _)| !key.starts_with("decision.laya."));
                keys.iter_mut().find(|(key, _)| key == TEMPLATE).unwrap().1 = "ROW".into();
            },
            same_name,
        );
        let texts = |key: &str| golden.get(key).unwrap().as_array().unwrap().iter().map(json::Value::dumps);
        let keys: Vec<_> = plain.keys().map(|(key, _)| json::Value::from(key).dumps()).collect();
        assert_eq!(keys, texts("keys").collect::<Vec<_>>());
        let tensors = plain.tensors().iter().map(|t| format!("[\"{}\", {:?}, \"{}\"]", t.name, t.shape, t.ty.name()));
        assert_eq!(tensors.collect::<Vec<_>>(), texts("tensors").collect::<Vec<_>>());
        let bytes = plain.map().bytes();
        assert_eq!(Some(bytes.len() as u64), golden.get("n_bytes").unwrap().as_u64());
        let sha256 = Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        assert_eq!(sha256, text("sha256"), "{} {}", text("family"), outtype.as_str());
        n_files += 1;
    }
    assert_eq!(n_files, 2 * Outtype::PLAIN.len());
}

/// What a question's answer is made of: its id, its row, the bits of its logits, the answer without the action.
type Answered = (String, Vec<u32>, Vec<u32>, String);

/// The answers to every golden item of `family`, and how many of them have an action.
fn answers(engine: &Engine, family: &str) -> (Vec<Answered>, usize) {
    let (mut all, mut n_actions) = (Vec::new(), 0);
    for item in tiny::items(family) {
        let Ok(request) = Request::parse(item.get("body").unwrap()) else { continue };
        let Ok(response) = engine.answer(&request) else { continue };
        for question in response.questions {
            let json::Value::Object(answer) = question.answer.to_json() else { panic!("no object") };
            n_actions += usize::from(answer.get("action").is_some());
            let rest: json::Object =
                answer.iter().filter(|(key, _)| *key != "action").map(|(k, v)| (k, v.clone())).collect();
            let bits = question.logits.options.iter().map(|x| x.to_bits()).collect();
            all.push((question.id, question.sequence.ids, bits, json::Value::from(rest).dumps()));
        }
    }
    assert!(all.len() > 60, "only {} answers", all.len());
    (all, n_actions)
}

#[test]
fn answers_are_those_of_the_laya_layout_without_the_action() {
    for family in tiny::FAMILIES {
        let exact = converted(family, Outtype::F32, Layout::Laya);
        for outtype in Outtype::ALL {
            let laya = converted(family, outtype, Layout::Laya);
            // llama.cpp keeps the type embedding in F32.
            let kept = exact.tensor_data(exact.tensor("type_emb.weight").unwrap());
            let laya = tiny::copy(&laya, |tensor| match tensor.name.as_str() {
                "type_emb.weight" => Some((TensorType::F32, kept.to_vec())),
                _ => Some((tensor.ty, laya.tensor_data(tensor).to_vec())),
            });
            let (theirs, n_actions) = answers(&load(&laya).unwrap(), family);
            let (ours, no_actions) = answers(&load(&converted(family, outtype, Layout::ModernBert)).unwrap(), family);
            assert_eq!(ours, theirs, "{family} {}", outtype.as_str());
            assert_eq!((n_actions, no_actions), (theirs.len(), 0));
        }
    }
    // A checkpoint in half precision, as the published ones are, has the same type embedding in both.
    let family = "tiny-modernbert";
    let [laya, ours] = [Layout::Laya, Layout::ModernBert].map(|layout| converted(family, Outtype::F16, layout));
    assert_eq!(answers(&load(&ours).unwrap(), family).0, answers(&load(&laya).unwrap(), family).0);
}

#[test]
fn a_file_of_llama_cpps_own_is_read_as_the_published_models_are() {
    for (family, max_len) in [("tiny-mmbert", 1024), ("tiny-modernbert", 512)] {
        let laya = load(&converted(family, Outtype::F16, Layout::Laya)).unwrap();
        let ours = converted(family, Outtype::F16, Layout::ModernBert);
        let own = edited(&ours, |keys| keys.retain(|(key, _)| !key.starts_with("decision.laya.")), same_name);
        assert_eq!(
            own.keys().len() + 1,
            ours.keys().len(),
            "{family} differs from the published ones in its longest row"
        );
        let own = load(&own).unwrap();
        assert_eq!(own.budget().max_len, max_len);
        assert_eq!(own.budget().head_max_len, laya.budget().head_max_len);
        assert_eq!(own.calibration(), laya.calibration());
        assert_eq!((own.config().n_act, laya.config().n_act > 0), (0, true));
        let (ours, theirs) = (own.tokenizer(), laya.tokenizer());
        assert_eq!(ours.special(), theirs.special());
        for text in [
            "",
            " ",
            "  two   runs    of spaces     ",
            "\u{2581}\u{2581}\u{2581} \u{2581}a\u{2581}\u{2581}",
            "\t\t\n\n\n<td> <b>x</b>[toxicity=0]",
            "e\u{301}\u{f1} \u{212b} \u{1f642}  [MASK]  <mask>",
            "|||IP_ADDRESS||| <|padding|>  [unused0]  <unused4>",
        ] {
            assert_eq!(ours.encode(text), theirs.encode(text), "{family} {text:?}");
        }
    }
}

#[test]
fn what_differs_from_the_published_models_is_stated() {
    // An added token that stays in the vocabulary as a normal one.
    const RUN: &str = "{\"id\": 19, \"content\": \"\u{2581}\u{2581}\u{2581}\", \"single_word\": false, \
                       \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": false}, ";
    let cases: [(&str, &str, &str, &str); 4] = [
        ("tiny-modernbert", r#""type": "NFC""#, r#""type": "NFC""#, ""),
        ("tiny-modernbert", r#""normalizer": {"#, r#""normalizer": null, "was": {"#, "decision.laya.normalizer"),
        ("tiny-modernbert", r#""normalized": true"#, r#""normalized": false"#, "decision.laya.added_tokens"),
        ("tiny-mmbert", RUN, "", "decision.laya.added_tokens"),
    ];
    for (family, from, to, key) in cases {
        let folder = tempfile::tempdir().unwrap();
        let from_dir = tiny::root().join("golden").join(family).join("checkpoint");
        copy_folder(&from_dir, folder.path());
        let path = folder.path().join("tokenizer/tokenizer.json");
        let text = fs::read_to_string(&path).unwrap();
        let compact = json::parse(text.as_bytes()).unwrap().dumps();
        assert!(compact.contains(from), "{family} has no {from}");
        fs::write(&path, compact.replace(from, to)).unwrap();
        let [laya, ours] = [Layout::Laya, Layout::ModernBert]
            .map(|layout| File::from_bytes(convert(folder.path(), Outtype::F16, layout).unwrap().0).unwrap());
        let stated: Vec<_> = ours.keys().map(|(key, _)| key).filter(|key| key.starts_with("decision.laya.")).collect();
        let expected: Vec<_> = ["decision.laya.max_len", key].into_iter().filter(|key| !key.is_empty()).collect();
        assert_eq!(stated, expected);
        let [laya, ours] = [laya, ours].map(|file| load(&file).unwrap());
        for text in ["e\u{301}  [MASK] |||IP_ADDRESS|||  x", "\u{2581}\u{2581}\u{2581}a"] {
            assert_eq!(ours.tokenizer().encode(text), laya.tokenizer().encode(text), "{family} {key} {text:?}");
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &place)
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[test]
fn every_other_layout_is_refused_by_name() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let named = |architecture: &str, decision: Option<&str>| {
        let file = with(&file, "general.architecture", Some(architecture.into()));
        match decision {
            Some(kind) => with(&file, &format!("{architecture}.decision.type"), Some(kind.into())),
            None => file,
        }
    };
    for (architecture, kind) in [
        ("qwen35", "openjev"),
        ("qwen35", "lev"),
        ("qwen35", "kev"),
        ("qwen35", "nimble"),
        ("clef", "clef"),
        ("modern-bert", "kev"),
    ] {
        let error = refusal(&named(architecture, Some(kind)));
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let message = error.to_string();
        for part in [&format!("key {architecture}.decision.type"), kind, "llama.cpp's layout", "llama-server"] {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
    }
    // What no llama.cpp answers with is not said to be.
    for (architecture, kind) in [("laya2", "laya"), ("modern-bert", "lev2"), ("clef", "clef2")] {
        let message = refusal(&named(architecture, Some(kind))).to_string();
        for part in [&format!("key {architecture}.decision.type"), kind, architecture, "not a laya GGUF"] {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
        assert!(!message.contains("llama"), "{message}");
    }
    for (architecture, parts) in [
        ("modern-bert", ["encoder without a decision head", "llama.cpp", "laya-convert"]),
        ("ggmlc", ["compiled graph", "ggmlc runtime", "laya-convert"]),
        ("julia1", ["Julia-1", "architecture julia1", "julia1-cli"]),
        ("laya-head", ["decision head without its encoder", "half of a model", "laya-convert"]),
        ("bert", ["not a laya GGUF", "architecture", "\"bert\""]),
    ] {
        refused(&named(architecture, None), &parts);
    }
    refused(&with(&file, "general.architecture", None), &["general.architecture is missing"]);
    refused(&with(&file, "general.architecture", Some(7u32.into())), &["key general.architecture", "must be string"]);
    let number = with(&named("qwen35", None), "qwen35.decision.type", Some(1u32.into()));
    refused(&number, &["key qwen35.decision.type", "must be string"]);
}

#[test]
fn a_row_that_is_not_layas_is_refused() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::ModernBert);
    let julia = "<bos>{{ type }} question: {{ instructions }}<eos>{% for o in options %}<mask> {{ o.description or o.key }}\
                 {% endfor %}<eos>{{ state }}<eos>";
    refused(
        &with(&file, TEMPLATE, Some(julia.into())),
        &["key tokenizer.chat_template.systemone", "Julia-1", "llama-server"],
    );
    refused(&with(&file, TEMPLATE, None), &["key tokenizer.chat_template.systemone", "is missing"]);
    let cls = with(&file, "tokenizer.ggml.bos_token_id", Some(3u32.into()));
    refused(&cls, &["key tokenizer.chat_template.systemone", "does not start with token 3", "bos_token_id"]);
}

#[test]
fn every_required_key_and_tensor_is_named_as_in_the_file() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::ModernBert);
    for key in [
        "modern-bert.block_count",
        "modern-bert.embedding_length",
        "modern-bert.feed_forward_length",
        "modern-bert.attention.head_count",
        "modern-bert.attention.layer_norm_epsilon",
        "modern-bert.attention.sliding_window",
        "modern-bert.rope.freq_base",
        "modern-bert.decision.block_count",
        "modern-bert.decision.max_head_tokens",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.mask_token_id",
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.token_type_count",
    ] {
        refused(&with(&file, key, None), &[&format!("key {key}:"), "is missing"]);
        refused(&with(&file, key, Some(Value::U64(7))), &[&format!("key {key}:"), "must be", "u64"]);
    }
    for tensor in file.tensors() {
        let without = edited(&file, |_| {}, |name| (name != tensor.name).then(|| name.to_owned()));
        // Of a pair that is loaded together either may be named first; it is this one as the other is there.
        refused(&without, &[&format!("tensor {}:", tensor.name), "is missing"]);
    }
    let u32s = |values: &[u32]| Some(Value::Array(Array::U32(values.to_vec())));
    let i32s = |values: &[i32]| Some(Value::Array(Array::I32(values.to_vec())));
    let widths = "modern-bert.feed_forward_length";
    for (key, value, says) in [
        ("modern-bert.attention.head_count", Some(7u32.into()), "7 heads do not divide 64"),
        ("modern-bert.attention.head_count_kv", Some(2u32.into()), "is 2, but there are 4 heads"),
        ("modern-bert.attention.causal", Some(true.into()), "is true"),
        ("modern-bert.attention.sliding_window", Some(0u32.into()), "without local layers"),
        ("modern-bert.attention.sliding_window_pattern", Some(0u32.into()), "is 0"),
        ("modern-bert.attention.layer_norm_epsilon", Some(f32::NAN.into()), "is NaN"),
        ("modern-bert.rope.freq_base", Some((-1f32).into()), "is -1"),
        ("modern-bert.rope.scaling.type", Some("yarn".into()), "is \"yarn\""),
        ("modern-bert.hidden_activation", Some("silu".into()), "is \"silu\""),
        ("modern-bert.vocab_size", Some(0u32.into()), "is 0"),
        ("modern-bert.block_count", Some(u32::MAX.into()), "no model has that many blocks"),
        ("modern-bert.decision.block_count", Some(0u32.into()), "is 0 of 7 blocks"),
        ("modern-bert.decision.block_count", Some(7u32.into()), "is 7 of 7 blocks"),
        ("modern-bert.decision.block_count", Some(u32::MAX.into()), "of 7 blocks"),
        ("modern-bert.decision.max_head_tokens", Some(0u32.into()), "is 0"),
        ("modern-bert.decision.temperature.choice", Some("hot".into()), "must be f32"),
        ("modern-bert.decision.temperature.choice.small", Some(1f32.into()), "does not know"),
        ("modern-bert.decision.temperature.", Some(1f32.into()), "does not know"),
        ("decision.laya.max_len", Some(0u32.into()), "is 0"),
        ("decision.laya.max_len", Some(1_000_000u32.into()), "are not supported"),
        ("tokenizer.ggml.model", Some("t5".into()), "is \"t5\""),
        ("tokenizer.ggml.pre", Some("gpt-2".into()), "is \"gpt-2\""),
        ("tokenizer.ggml.token_type_count", Some(2u32.into()), "is 2"),
        ("tokenizer.ggml.mask_token_id", Some(u32::MAX.into()), "4294967295"),
        (
            "tokenizer.ggml.tokens",
            Some(Strings::from(vec![b"<bos>".to_vec(); 9]).into()),
            "holds 573 types for 9 tokens",
        ),
        (widths, u32s(&[96, 96, 96, 96, 96, 256]), "6 widths for 7 blocks"),
        (widths, u32s(&[96, 96, 97, 96, 96, 256, 256]), "the widths 96 and 97"),
        (widths, i32s(&[96, 96, 96, 96, 96, 256, 96]), "must be four times 64"),
        (widths, i32s(&[-1, -1, -1, -1, -1, 256, 256]), "is 0"),
        (widths, Some(96u32.into()), "must be four times 64"),
    ] {
        let message = refusal(&with(&file, key, value)).to_string();
        // Types and tokens are told from each other; the message names one of the two.
        let named = if key == "tokenizer.ggml.tokens" { "tokenizer.ggml.token_type" } else { key };
        assert!(
            message.contains(&format!("key {named}:")) && message.contains(says),
            "{key}: {message:?} or not {says:?}"
        );
    }
}

#[test]
fn a_tensor_without_a_place_is_refused() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::ModernBert);
    for name in
        ["blk.7.attn_qkv.weight", "scorer.0.weight", "type_emb.weight", "head.0.attn_norm.bias", "rope_freqs.weight"]
    {
        let renamed = edited(&file, |_| {}, |own| Some(if own == "cls.norm.weight" { name } else { own }.to_owned()));
        refused(&renamed, &[&format!("tensor {name}:"), "is not part of llama.cpp's layout"]);
    }
    // Block 0 has no norm before its attention: the embedding is normalized already.
    let first =
        edited(&file, |_| {}, |own| Some(if own == "cls.norm.weight" { "blk.0.attn_norm.weight" } else { own }.into()));
    refused(&first, &["tensor cls.norm.weight:", "is missing"]);
    let shape = with(&file, "modern-bert.embedding_length", Some(32u32.into()));
    refused(&shape, &["key modern-bert.feed_forward_length:", "must be four times 32"]);
}

#[test]
fn damaged_files_are_errors_in_one_line_or_load() {
    let file = converted("tiny-mmbert", Outtype::Q8_0, Layout::ModernBert);
    let bytes = file.map().bytes();
    let [mut n_refused, mut n_loaded] = [0, 0];
    let mut random = random::SplitMix64(20);
    for _ in 0..3000 {
        let mut damaged = bytes.to_vec();
        // Mostly the keys before the vocabulary, then anywhere.
        let head = if random.below(4) == 0 { bytes.len() } else { 1800 };
        let at = random.below(head);
        match random.below(3) {
            0 => damaged[at] ^= 1 << random.below(8),
            1 => damaged[at..].iter_mut().zip((random.next() as u32).to_le_bytes()).for_each(|(to, from)| *to = from),
            _ => mutation::mutate(&mut damaged, &mut random, head),
        }
        match File::from_bytes(damaged).and_then(|file| load(&file)) {
            Ok(_) => n_loaded += 1,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                n_refused += 1;
            }
        }
    }
    println!("{n_refused} refused, {n_loaded} loaded");
    assert!(n_refused > 1000 && n_loaded > 100, "{n_refused} refused, {n_loaded} loaded");
}

#[test]
fn optional_keys_have_llama_cpps_defaults() {
    let family = "tiny-mmbert";
    let file = converted(family, Outtype::F32, Layout::ModernBert);
    let (expected, _) = answers(&load(&file).unwrap(), family);
    let bare = edited(
        &file,
        |keys| {
            let optional = [
                "modern-bert.attention.layer_norm_rms_epsilon",
                "modern-bert.attention.sliding_window_pattern",
                "modern-bert.attention.causal",
                "modern-bert.rope.freq_base_swa",
                "modern-bert.rope.scaling.type",
                "modern-bert.hidden_activation",
                "modern-bert.vocab_size",
                "modern-bert.context_length",
                "modern-bert.classifier.pooling_type",
                "tokenizer.ggml.model",
            ];
            keys.retain(|(key, _)| !optional.contains(&key.as_str()));
            // Keys of the other layout mean nothing in this one.
            keys.push(("laya.block_count".into(), Value::U64(3)));
            keys.push(("laya.temperature".into(), Value::Bool(true)));
        },
        same_name,
    );
    assert_eq!(answers(&load(&bare).unwrap(), family).0, expected);
    let cool = with(&file, "modern-bert.decision.temperature.choice", None);
    assert_eq!(load(&cool).unwrap().config().temperature, [1.0, 0.90625, 7.5]);
}

#[test]
fn a_laya_file_that_lacks_its_act_head_is_refused() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let act = |name: &str| name.starts_with("act_head.");
    let without = edited(&file, |_| {}, |name| (!act(name)).then(|| name.to_owned()));
    refused(&without, &["tensor act_head.0.bias:", "is missing"]);
    refused(&with(&file, "laya.act_classes", Some(0u32.into())), &["key laya.act_classes:", "needs an output"]);
    // A model without one says so, and then it has none.
    let says_so = |file: &File| with(file, "laya.act_head", Some(false.into()));
    refused(&says_so(&file), &["tensor act_head.", "is not part of the laya layout"]);
    assert_eq!(load(&says_so(&without)).unwrap().config().n_act, 0);
    refused(&with(&without, "laya.act_head", Some(true.into())), &["tensor act_head.0.bias:", "is missing"]);
}

#[test]
fn a_view_copies_no_tensor() {
    let file = converted("tiny-mmbert", Outtype::F16, Layout::ModernBert);
    let view = layout::read(&file).unwrap();
    assert_eq!(view.file().tensors().len(), file.tensors().len());
    for (theirs, own) in view.file().tensors().iter().zip(file.tensors()) {
        assert_eq!(view.file().tensor_data(theirs).as_ptr(), file.tensor_data(own).as_ptr());
    }
    let laya = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    assert!(std::ptr::eq(layout::read(&laya).unwrap().file(), &laya));
}

#[test]
fn the_command_line_answers_without_act_keys() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model.gguf");
    fs::write(&model, converted("tiny-mmbert", Outtype::F16, Layout::ModernBert).map().bytes()).unwrap();
    let request = dir.path().join("request.json");
    fs::write(&request, r#"{"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}}"#).unwrap();
    let run =
        Command::new(env!("CARGO_BIN_EXE_laya-cli")).arg("-m").arg(&model).arg("-f").arg(&request).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let output = json::parse(&run.stdout).unwrap();
    let keys = |path: &str| -> Vec<String> {
        let object = output.get(path).unwrap().get("q").unwrap().as_object().unwrap();
        object.keys().map(str::to_owned).collect()
    };
    assert_eq!(keys("per_question"), ["qtype", "options", "input_ids", "marker_pos", "raw_logits"]);
    assert_eq!(keys("answers"), ["type", "noul", "confidence", "answer_confidence"]);
    let text = dir.path().join("text");
    fs::write(&text, "charged twice\n").unwrap();
    let tokens = Command::new(env!("CARGO_BIN_EXE_laya-cli"))
        .arg("-m")
        .arg(&model)
        .arg("--tokenize")
        .arg(&text)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&tokens.stdout).trim(), "[389,488,337,333,294,500,334]");
}

#[test]
fn what_the_layout_cannot_hold_is_refused_or_noted() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("checkpoint");
    checkpoint::checkpoint(&dir);
    let convert = |agent: &str| {
        checkpoint::write(&dir, "rl_agent_config.json", agent.as_bytes());
        convert(&dir, Outtype::F16, Layout::ModernBert).map(|(_, notes)| notes).map_err(|error| error.to_string())
    };
    let agent = |from: &str, to: &str| {
        assert!(checkpoint::AGENT.contains(from), "{from}");
        checkpoint::AGENT.replace(from, to)
    };
    let notes = convert(&agent(r#""choice:2": 1.25"#, r#""choice:2": 0.1, "choice:7": 2"#)).unwrap().join("\n");
    for note in [
        "everything but action",
        "gives the layers of the head 1 attention heads, llama.cpp the encoder's 2",
        "llama.cpp uses the temperature choice.2 0.1 as it is, the published package 0.5",
        "the temperature choice:7 is of no question and is left out",
    ] {
        assert!(notes.contains(note), "{notes:?} does not say {note:?}");
    }
    let error = convert(&agent("[1.0, 1.5, 2]", "[1.0, 0, 2]")).unwrap_err();
    assert!(error.contains("key temperature") && error.contains("of score is 0"), "{error}");
    let error = convert(&agent(r#""choice:2": 1.25"#, r#""choice:2": -1"#)).unwrap_err();
    assert!(error.contains("of choice.2 is -1"), "{error}");

    let without_head: Vec<_> =
        checkpoint::tensors().into_iter().filter(|(name, _)| !name.starts_with("head.")).collect();
    fs::remove_file(dir.join("model.safetensors.index.json")).unwrap();
    checkpoint::write(&dir, "model.safetensors", &checkpoint::safetensors(&without_head));
    let error = convert(&agent(r#""head_layers": 1"#, r#""head_layers": 0"#)).unwrap_err();
    assert!(error.contains("key head_layers") && error.contains("for an encoder"), "{error}");

    let narrow = checkpoint::tensors().into_iter().map(|(name, shape)| {
        let shape = if name.contains("linear") {
            shape.into_iter().map(|n| if n == 16 { 8 } else { n }).collect()
        } else {
            shape
        };
        (name, shape)
    });
    checkpoint::write(&dir, "model.safetensors", &checkpoint::safetensors(&narrow.collect::<Vec<_>>()));
    let error = convert(checkpoint::AGENT).unwrap_err();
    assert!(
        error.contains("tensor head.layers.0.linear1.weight") && error.contains("four times hidden_size"),
        "{error}"
    );

    let encoder =
        checkpoint::ENCODER.replace(r#""attention_bias""#, r#""classifier_pooling": "max", "attention_bias""#);
    checkpoint::write(&dir, "model.safetensors", &checkpoint::safetensors(&checkpoint::tensors()));
    checkpoint::write(&dir, "encoder/config.json", encoder.as_bytes());
    let error = convert(checkpoint::AGENT).unwrap_err();
    assert!(error.contains("key classifier_pooling") && error.contains("\"max\""), "{error}");

    assert_eq!("modern-bert".parse::<Layout>().unwrap(), Layout::ModernBert);
    let error = "gguf".parse::<Layout>().unwrap_err().to_string();
    assert!(error.contains("laya, modern-bert"), "{error}");
}
