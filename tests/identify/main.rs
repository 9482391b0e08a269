//! What a file is said to be: every layout by hand, the tiny models in both layouts, the loader's own verdict beside the
//! inventory's, files that lie.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod hostile;
#[path = "../mutation/mod.rs"]
mod mutation;
#[path = "../random/mod.rs"]
mod random;
#[path = "../tiny/mod.rs"]
mod tiny;

use std::path::Path;
use std::process::{Command, Output};

use laya::convert::{Layout, Options, Outtype, convert_to};
use laya::engine::{self, Engine};
use laya::error::Place;
use laya::gguf::{File, Strings, TensorInfo, TensorType, Value, Writer};
use laya::layout::{Kind, Runner, VocabularyFamily, identify, is_laya};
use laya::spec;

const TEMPLATE: &str = "tokenizer.chat_template.systemone";

/// A file with these keys and one small tensor.
fn file(keys: &[(&str, Value)]) -> File {
    let mut writer = Writer::new();
    for (key, value) in keys {
        writer.set(*key, value.clone());
    }
    writer.add_tensor("token_embd.weight", &[4, 2], TensorType::F16).unwrap();
    File::from_bytes(bytes(&writer)).unwrap()
}

fn bytes(writer: &Writer) -> Vec<u8> {
    writer
        .to_bytes(|tensor, out| {
            out.write_all(&vec![0; tensor.n_bytes as usize]).unwrap();
            Ok(())
        })
        .unwrap()
}

/// The checkpoint of `family` as a file.
fn converted(family: &str, outtype: Outtype, layout: Layout) -> File {
    let checkpoint = tiny::root().join("golden").join(family).join("checkpoint");
    let mut bytes = Vec::new();
    let options = Options { outtype, layout, verify: false, ..Options::default() };
    convert_to(&checkpoint, &mut bytes, &options, &mut |_, _| {}).unwrap();
    File::from_bytes(bytes).unwrap()
}

/// A copy of `file` with other keys, and tensors that `change` may drop, or give another name, shape or type. Their data
/// is zeros.
fn edited(
    file: &File,
    keys: impl FnOnce(&mut Writer),
    mut change: impl FnMut(&TensorInfo) -> Option<(String, Vec<u64>, TensorType)>,
) -> File {
    let mut writer = Writer::new();
    for (key, value) in file.keys() {
        writer.set(key, value.clone());
    }
    keys(&mut writer);
    for tensor in file.tensors() {
        if let Some((name, shape, ty)) = change(tensor) {
            writer.add_tensor(name, &shape, ty).unwrap();
        }
    }
    File::from_bytes(bytes(&writer)).unwrap()
}

fn same(tensor: &TensorInfo) -> Option<(String, Vec<u64>, TensorType)> {
    Some((tensor.name.clone(), tensor.shape.clone(), tensor.ty))
}

fn gguf_spec(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gguf-spec")).args(arguments).args(files).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// An architecture and further keys; the layout they make, what runs it, and a part of what it is said to be.
type Case<'a> = (&'a str, &'a [(&'a str, Value)], Kind, &'a [&'a str], &'a str);

#[test]
fn every_layout_is_told() {
    let laya_row = "<bos>level yes, the statement holds no, the statement does not hold";
    let bare_row = "<bos>{{ type }} question: {{ instructions }}{{ o.description or o.key }}";
    let decision = "modern-bert.decision.type";
    let cases: &[Case<'_>] = &[
        ("laya", &[], Kind::Laya, &[], "own layout"),
        (
            "modern-bert",
            &[(decision, "laya".into()), (TEMPLATE, laya_row.into())],
            Kind::ModernBert,
            &["llama-server of current llama.cpp"],
            "llama.cpp's layout",
        ),
        // Whatever else is wrong with it.
        (
            "modern-bert",
            &[(decision, "laya".into())],
            Kind::ModernBert,
            &["llama-server of current llama.cpp"],
            "llama.cpp's layout",
        ),
        (
            "modern-bert",
            &[(decision, "laya".into()), (TEMPLATE, bare_row.into())],
            Kind::ModernBertBare,
            &["llama-server of current llama.cpp"],
            "Julia-1",
        ),
        (
            "modern-bert",
            &[(decision, "openjev".into())],
            Kind::OtherDecision,
            &["llama-server of current llama.cpp"],
            "another kind",
        ),
        (
            "qwen35",
            &[("qwen35.decision.type", "kev".into())],
            Kind::OtherDecision,
            &["llama-server of current llama.cpp"],
            "another kind",
        ),
        // What no llama.cpp runs.
        ("laya2", &[("laya2.decision.type", "laya".into())], Kind::Unknown, &[], "no layout"),
        ("modern-bert", &[(decision, "lev2".into())], Kind::Unknown, &[], "no layout"),
        ("clef", &[], Kind::Clef, &["llama-server of current llama.cpp"], "Clef"),
        ("clef", &[("clef.decision.type", "clef".into())], Kind::Clef, &["llama-server of current llama.cpp"], "Clef"),
        ("modern-bert", &[], Kind::Encoder, &[], "encoder without a decision head"),
        ("laya-head", &[], Kind::Head, &[], "half of a model"),
        ("ggmlc", &[], Kind::Ggmlc, &["the ggmlc runtime"], "compiled graph"),
        ("julia1", &[], Kind::Julia, &["julia1-cli"], "Julia-1"),
        ("llama", &[], Kind::Unknown, &[], "no layout"),
        ("", &[], Kind::Unknown, &[], "no layout"),
    ];
    for (architecture, keys, kind, runners, what) in cases {
        let mut all = vec![("general.architecture", Value::from(*architecture))];
        all.extend(keys.iter().cloned());
        let file = file(&all);
        let identity = identify(&file);
        assert_eq!(identity.kind, *kind, "{architecture}");
        assert_eq!(identity.architecture.as_deref(), Some(*architecture));
        assert_eq!(identity.runners().map(Runner::as_str).collect::<Vec<_>>(), *runners, "{architecture}");
        assert!(kind.description().contains(what), "{architecture}: {}", kind.description());
        // What is read as a Laya model lacks nearly everything here, and only of those it is said.
        let examined = matches!(kind, Kind::Laya | Kind::ModernBert | Kind::ModernBertBare);
        assert_eq!(identity.findings.is_empty(), !examined, "{architecture}: {:?}", identity.findings);
        assert_ne!(identity.complete, Some(true), "{architecture}");
        // The loader says the same of it.
        let error = laya::layout::read(&file);
        if !examined {
            let message = error.unwrap_err().to_string();
            assert!(*kind == Kind::Unknown || message.contains(kind.description()), "{message}");
        }
        // A spec fits exactly the models this toolbox answers with.
        let reads = matches!(kind, Kind::Laya | Kind::ModernBert);
        assert_eq!(is_laya(&file), reads, "{architecture} {kind:?}");
        all.push((spec::KEY, r#"{"spec_version": 1, "layout": "laya"}"#.into()));
        let problems = spec::verify(&crate::file(&all), None, laya::kernels::NUMERIC_CONTRACT).unwrap().problems;
        assert_eq!(problems.is_empty(), reads, "{architecture} {kind:?}: {problems:?}");
        // Nothing runs what has no tensors.
        let mut writer = Writer::new();
        all.iter().for_each(|(key, value)| writer.set(*key, value.clone()));
        let empty = identify(&File::from_bytes(bytes(&writer)).unwrap());
        assert_eq!((empty.kind, empty.runners().count()), (*kind, 0), "{architecture}");
    }
    let kinds: std::collections::HashSet<_> = cases.iter().map(|case| case.2).collect();
    assert_eq!(kinds.len(), Kind::ALL.len(), "a layout has no case");

    let none = identify(&file(&[]));
    assert_eq!((none.kind, none.architecture), (Kind::Unknown, None));
    for key in ["general.architecture", "bert.decision.type"] {
        let wrong = identify(&file(&[("general.architecture", "bert".into()), (key, Value::U32(7))]));
        assert_eq!(wrong.kind, Kind::Unknown);
        let finding = wrong.findings[0].to_string();
        assert_eq!(finding, format!("key {key}: must be string, not u32"));
    }
}

#[test]
fn published_shapes_are_complete_in_both_layouts() {
    for (family, vocabulary) in
        [("tiny-mmbert", VocabularyFamily::MetaspaceBpe), ("tiny-modernbert", VocabularyFamily::ByteLevelBpe)]
    {
        for (layout, kind) in [(Layout::Laya, Kind::Laya), (Layout::ModernBert, Kind::ModernBert)] {
            for outtype in Outtype::ALL {
                let file = converted(family, outtype, layout);
                let identity = identify(&file);
                let engine = Engine::from_gguf(&file, &engine::Options::default()).unwrap();
                let config = engine.config();
                assert_eq!((identity.kind, identity.complete), (kind, Some(true)), "{family}");
                assert!(identity.findings.is_empty(), "{:?}", identity.findings);
                assert_eq!(identity.runners().collect::<Vec<_>>(), kind.runners());
                assert_eq!(identity.vocabulary.family, vocabulary);
                assert_eq!(identity.vocabulary.n_tokens, Some(engine.tokenizer().n_tokens() as usize));
                let sizes = identity.sizes;
                assert_eq!(sizes.n_bytes, file.map().bytes().len() as u64);
                let stated = [sizes.n_layer, sizes.n_embd, sizes.n_head_layer, sizes.max_len, sizes.head_max_len];
                let loaded = [config.n_layer, config.n_embd, config.n_head_layer, config.max_len, config.head_max_len];
                assert_eq!(stated, loaded.map(|n| Some(n as u64)), "{family}");
                assert_eq!(sizes.n_parameters, file.tensors().iter().map(TensorInfo::n_elements).sum::<u64>());
                let used = |count: fn(&laya::layout::TypeUse) -> u64| identity.types.iter().map(count).sum::<u64>();
                assert_eq!(used(|ty| ty.n_tensors as u64), file.tensors().len() as u64);
                assert_eq!(used(|ty| ty.n_bytes), file.tensors().iter().map(|tensor| tensor.n_bytes).sum::<u64>());
                let recipe = (outtype == Outtype::Q8_0Mixed).then_some("q8_0-mixed");
                assert_eq!(identity.recipe.as_deref(), recipe);
                let by_type: Vec<f32> = identity.calibration.by_type.iter().map(|(_, degree)| *degree).collect();
                let mut by_options = identity.calibration.by_options.clone();
                let mut loaded = config.temperature_by_options.clone();
                [&mut by_options, &mut loaded].into_iter().for_each(|buckets| buckets.sort_by(|a, b| a.0.cmp(&b.0)));
                assert_eq!((by_type, by_options.clone()), (config.temperature.to_vec(), loaded), "{family}");
                let state = if by_options.is_empty() { "per type" } else { "per type and number of options" };
                assert_eq!(identity.calibration.state(), state);
            }
        }
    }
}

#[test]
fn temperatures_are_told_as_they_are() {
    let laya = |keys: &[(&str, Value)]| {
        let mut all = vec![("general.architecture", Value::from("laya"))];
        all.extend(keys.iter().cloned());
        identify(&file(&all)).calibration
    };
    let named = |name: &str, degree: f32| (name.to_owned(), degree);
    let none = laya(&[]);
    assert_eq!((none.state(), none.by_type.len()), ("none", 0));
    assert_eq!(laya(&[("laya.temperature", vec![1f32, 1.0, 1.0].into())]).state(), "none");
    let short = laya(&[("laya.temperature", vec![1f32, 1.5].into())]);
    assert_eq!(short.state(), "per type");
    assert_eq!(short.by_type, [named("choice", 1.0), named("score", 1.5), named("noul", 1.5)]);
    let buckets = laya(&[
        ("laya.temperature_by_options.buckets", Strings::from(vec![b"choice:2".to_vec()]).into()),
        ("laya.temperature_by_options.values", vec![1f32].into()),
    ]);
    assert_eq!((buckets.state(), buckets.by_options), ("per type and number of options", vec![named("choice:2", 1.0)]));
    let other = identify(&file(&[
        ("general.architecture", "qwen35".into()),
        ("qwen35.decision.type", "kev".into()),
        ("qwen35.decision.temperature.noul", 1.25f32.into()),
        ("qwen35.decision.temperature.choice.3_5", 2f32.into()),
        ("modern-bert.decision.temperature.score", 3f32.into()),
    ]));
    assert_eq!(other.calibration.by_type, [named("noul", 1.25)]);
    assert_eq!(other.calibration.by_options, [named("choice:3-5", 2.0)]);
}

/// The loader loads a file exactly when nothing is found in it, and what it names first is among the findings.
#[track_caller]
fn loader_agrees(file: &File, what: &str) {
    let identity = identify(file);
    let loaded = Engine::from_gguf(file, &engine::Options { n_threads: Some(1), ..engine::Options::default() });
    match loaded {
        Ok(_) => assert!(identity.findings.is_empty(), "{what}: {:?}", identity.findings),
        Err(error) => {
            assert!(!identity.runners().any(|runner| runner == Runner::ThisToolbox), "{what}: {error}");
            let place = error.place();
            let found = identity.findings.iter().any(|finding| finding.place() == place);
            assert!(found, "{what}: {error}, but found {:?}", identity.findings);
        }
    }
}

#[test]
fn the_inventory_is_the_loaders() {
    for (family, layout) in [("tiny-mmbert", Layout::Laya), ("tiny-modernbert", Layout::ModernBert)] {
        let file = converted(family, Outtype::F16, layout);
        loader_agrees(&edited(&file, |_| {}, same), family);
        for tensor in file.tensors() {
            let name = &tensor.name;
            let this = |change: &dyn Fn() -> Option<(String, Vec<u64>, TensorType)>| {
                edited(&file, |_| {}, |tensor| if tensor.name == *name { change() } else { same(tensor) })
            };
            let missing = this(&|| None);
            loader_agrees(&missing, &format!("without {name}"));
            let identity = identify(&missing);
            assert_eq!(identity.complete, Some(false), "{name}");
            assert_eq!(identity.runners().count(), 0, "{name}");
            assert!(
                identity.findings.iter().any(|f| f.place() == Some(&Place::Tensor(name.clone()))),
                "{name}: {:?}",
                identity.findings
            );

            // Twice the rows: in another form than any hyperparameter asks for.
            let mut shape = tensor.shape.clone();
            *shape.last_mut().unwrap() *= 2;
            // The width of the act head is its bias's to say, and then its other tensors disagree.
            let reshaped = this(&|| Some((name.clone(), shape.clone(), tensor.ty)));
            let identity = identify(&reshaped);
            assert!(!identity.findings.is_empty(), "{name}");
            assert_eq!(identity.complete, Some(true), "{name}");
            loader_agrees(&reshaped, &format!("{name} as {shape:?}"));

            let untyped = this(&|| Some((name.clone(), tensor.shape.clone(), TensorType::BF16)));
            loader_agrees(&untyped, &format!("{name} as BF16"));
            assert!(identify(&untyped).findings[0].to_string().contains("is stored as BF16"), "{name}");
        }
        let mut extra = Writer::new();
        file.keys().for_each(|(key, value)| extra.set(key, value.clone()));
        file.tensors().iter().for_each(|tensor| extra.add_tensor(&*tensor.name, &tensor.shape, tensor.ty).unwrap());
        extra.add_tensor("blk.0.attn_norm.weight", &[64], TensorType::F32).unwrap();
        extra.add_tensor("rope_freqs.weight", &[64], TensorType::F32).unwrap();
        let extra = File::from_bytes(bytes(&extra)).unwrap();
        assert!(identify(&extra).findings.iter().any(|f| f.to_string().contains("nothing would read it")));
        loader_agrees(&extra, "with tensors of no use");
    }
    // Half of a model: the first few tensors are named, the others counted.
    let file = converted("tiny-mmbert", Outtype::F16, Layout::Laya);
    let encoder = edited(&file, |_| {}, |tensor| same(tensor).filter(|_| !tensor.name.starts_with("head.")));
    let findings = identify(&encoder).findings;
    assert_eq!(findings.len(), 6, "{findings:?}");
    assert_eq!(findings[5].to_string(), "19 more tensors are missing");
    // A count that no file could hold is not counted through.
    let many = edited(&file, |keys| keys.set("laya.block_count", u32::MAX), same);
    assert_eq!(identify(&many).complete, None);
    assert!(identify(&many).findings[0].to_string().contains("no model has that many layers"));
}
