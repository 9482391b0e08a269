//! Checkpoints that cannot be converted: one change, one reason, named with file and key. Settings, weights and files;
//! `convert_refusal_tokenizer.rs` and `convert_refusal_card.rs` have the rest.

#![allow(clippy::unwrap_used)]

mod checkpoint;

use std::fs;
use std::path::Path;

use checkpoint::{Case, ENCODER, agent, encoder, index, run, safetensors, tensors, write};
use laya::convert::{Options, Outtype, convert, plan};
use laya::engine::{self, Engine};
use laya::gguf::{Array, Value};

#[test]
fn the_smallest_checkpoint_converts() {
    let case = Case::new();
    let file = case.file();
    assert_eq!(file.tensors().len(), tensors().len() - 1);
    assert_eq!(file.str("general.architecture").unwrap(), Some("laya"));
    assert_eq!(file.require_u32("laya.marker_token_id").unwrap(), 4);
    assert_eq!(file.require_f32s("laya.temperature").unwrap(), [1.0, 1.5, 2.0]);
    // A text is read as Python's float() reads it.
    assert_eq!(file.require_f32s("laya.temperature_by_options.values").unwrap(), [1.25, 0.5]);
    let tokens = file.require_strings("tokenizer.ggml.tokens").unwrap();
    assert_eq!(tokens.iter().skip(10).collect::<Vec<_>>(), ["▁ab".as_bytes(), b"c", b"[PAD12]", b"[PAD13]"]);
    assert_eq!(file.get("tokenizer.ggml.add_sep_token"), Some(&Value::Bool(true)));
    assert!(matches!(file.get("general.tags"), Some(Value::Array(Array::String(tags))) if tags.len() == 2));
    // Writing it to a file gives the same bytes and leaves nothing else.
    let out = case.dir.join("out.gguf");
    let n_files = fs::read_dir(&case.dir).unwrap().count();
    convert(&case.dir, &out, &Options::default()).unwrap();
    assert_eq!(fs::read(&out).unwrap(), run(&case.dir).unwrap());
    assert_eq!(fs::read_dir(&case.dir).unwrap().count(), n_files + 1);
}

#[test]
fn missing_settings_are_all_named_at_once() {
    let text = ENCODER.replace("\"local_attention\": 8,", "").replace("\"global_attn_every_n_layers\": 3,", "");
    let case = Case::new();
    write(&case.dir, "encoder/config.json", text.as_bytes());
    case.refused(&["encoder/config.json", "missing keys: local_attention, global_attn_every_n_layers"]);
    agent("\"head_layers\": 1,", "", &["missing key: head_layers"]);
    let flat = r#""unused": {"#;
    encoder(r#""rope_parameters": {"#, flat, &["missing keys: global_rope_theta, local_rope_theta"]);
}

#[test]
fn the_older_spelling_of_the_rotary_bases_is_read() {
    let text =
        ENCODER.replace("\"rope_parameters\": {", "\"global_rope_theta\": 1000, \"local_rope_theta\": 500.5, \"x\": {");
    let case = Case::new();
    write(&case.dir, "encoder/config.json", text.as_bytes());
    assert_eq!(case.file().require_f32("laya.rope.freq_base").unwrap(), 1000.0);
    assert_eq!(case.file().require_f32("laya.rope.freq_base_swa").unwrap(), 500.5);
}

#[test]
fn settings_nothing_computes_are_refused() {
    encoder("\"attention_bias\": false", "\"attention_bias\": true", &["attention_bias"]);
    encoder("\"model_type\": \"modernbert\"", "\"model_type\": \"bert\"", &["model_type", "bert"]);
    encoder("\"gelu\"", "\"relu\"", &["hidden_activation", "relu"]);
    encoder("\"gelu\"", "\"gelu\", \"mlp_bias\": true", &["mlp_bias"]);
    encoder("\"gelu\"", "\"gelu\", \"norm_bias\": true", &["norm_bias"]);
    encoder("[\"full_attention\"]", "[\"sliding_attention\"]", &["layer_types"]);
    encoder("\"num_attention_heads\": 2", "\"num_attention_heads\": 3", &["num_attention_heads", "divide"]);
    encoder("\"vocab_size\": 14", "\"vocab_size\": \"14\"", &["vocab_size", "integer"]);
    encoder("\"vocab_size\": 14", "\"vocab_size\": 0", &["vocab_size"]);
    encoder("\"vocab_size\": 14", "\"vocab_size\": 99999999999", &["vocab_size"]);
    encoder("{\"model_type\"", "[{\"model_type\"", &["line 6"]);
    agent("\"temperature\": [1.0, 1.5, 2]", "\"temperature\": [1.0, 1.5]", &["key temperature:", "three"]);
    agent("\"temperature\": [1.0, 1.5, 2]", "\"temperature\": null", &["key temperature:", "three"]);
    agent("{\"choice:2\": 1.25, \"noul:2\": \"0.5\"}", "null", &["temperature_by_options"]);
    agent("\"max_len\": 64", "\"max_len\": -1", &["max_len"]);
    agent("\"encoder\": \"x\",", "\"encoder\": \"x\", \"option_layout\": \"parallel\",", &["option_layout"]);
}

#[test]
fn activations_but_gelu_and_causal_encoders() {
    encoder("\"gelu\"", "false", &["hidden_activation", "gelu"]);
    encoder("\"gelu\"", "\"gelu\", \"is_causal\": true", &["is_causal", "false"]);
    let case = Case::new();
    let file = case.with("encoder/config.json", "\"hidden_activation\": \"gelu\"", "\"is_causal\": false").file();
    assert!(file.get("laya.hidden_activation").is_none());
}

#[test]
fn rotary_positions_that_are_scaled() {
    encoder("\"gelu\"", "\"gelu\", \"rope_scaling\": {\"factor\": 2}", &["rope_scaling"]);
    encoder("\"default\"}}}", "\"yarn\"}}}", &["rope_parameters.sliding_attention.rope_type", "default"]);
    encoder("\"full_attention\": {", "\"rope_theta\": 1, \"full_attention\": {", &["rope_parameters", "nothing else"]);
    encoder("\"full_attention\": {", "\"full_attentions\": {", &["rope_parameters", "one entry"]);
    encoder("\"full_attention\": {", "\"full_attention\": null, \"x\": {", &["rope_parameters", "one entry"]);
    for key in ["factor", "partial_rotary_factor", "mrope_section"] {
        let to = format!("\"full_attention\": {{{key:?}: 2, ");
        encoder("\"full_attention\": {", &to, &[&format!("rope_parameters.full_attention.{key}"), "not supported"]);
    }
    encoder(
        "\"rope_theta\": 10000",
        "\"rope_theta\": \"1\"",
        &["rope_parameters.sliding_attention.rope_theta", "number"],
    );
    encoder(
        "\"rope_theta\": 10000",
        "\"rope_theta\": 0",
        &["rope_parameters.sliding_attention.rope_theta", "positive"],
    );
    encoder("\"rope_theta\": 10000", "\"theta\": 1", &["rope_parameters.sliding_attention.theta"]);
}

#[test]
fn experts() {
    for key in [
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "num_experts_per_tok",
        "num_experts_per_token",
        "top_k_experts",
        "n_group",
        "topk_group",
        "score_function",
        "scoring_func",
        "score_func",
        "moe_router_activation",
        "moe_router_activation_func",
        "expert_selection_fn",
    ] {
        encoder("\"gelu\"", &format!("\"gelu\", {key:?}: 1"), &[key, "experts"]);
    }
}

#[test]
fn quantized_labelled_and_nested_encoders() {
    encoder("\"gelu\"", "\"gelu\", \"quantization_config\": {\"bits\": 4}", &["quantization_config", "unquantized"]);
    encoder("\"gelu\"", "\"gelu\", \"id2label\": {\"0\": \"a\"}", &["id2label", "remove the key"]);
    for key in ["text_config", "llm_config", "lm_config", "thinker_config", "language_config", "lfm"] {
        encoder("\"gelu\"", &format!("\"gelu\", {key:?}: {{}}"), &[key, "at the top"]);
    }
}

#[test]
fn numbers_that_no_configuration_holds() {
    for number in ["NaN", "-Infinity", "1e999", &"9".repeat(309)] {
        encoder("\"gelu\"", &format!("\"gelu\",\n\"x\": {number}"), &["line 4, column 6", "not a number"]);
    }
    let many = "100000000000000000000,".repeat(17);
    encoder("\"gelu\"", &format!("\"gelu\", \"x\": [{many}1]"), &["more than 16 integers"]);
    encoder("\"vocab_size\": 14", "\"vocab_size\": 100000000000000000000", &["key vocab_size", "integer"]);
    let case = Case::new();
    let long = format!("\"gelu\", \"x\": [1{}, -9223372036854775809]", "0".repeat(30));
    case.with("encoder/config.json", "\"gelu\"", &long).file();
}

/// The field's converter reads these too; with two spellings in a file it is not said which counts.
#[test]
fn other_spellings_of_settings() {
    for (other, key) in [
        ("n_layers", "num_hidden_layers"),
        ("prefix_dense_intermediate_size", "intermediate_size"),
        ("dense_intermediate_size", "intermediate_size"),
        ("rms_norm_eps", "norm_eps"),
        ("n_kv_heads", "num_key_value_heads"),
    ] {
        encoder("\"gelu\"", &format!("\"gelu\", {other:?}: 1"), &[other, key, "keep only"]);
    }
    for (key, others) in [
        (
            "max_position_embeddings",
            &["n_ctx", "n_positions", "max_length", "max_sequence_length", "model_max_length"][..],
        ),
        ("layer_norm_eps", &["layer_norm_epsilon", "norm_epsilon"]),
    ] {
        for other in others {
            encoder(&format!("{key:?}"), &format!("{other:?}"), &[other, key, "keep only"]);
        }
    }
    let case = Case::new();
    case.with("encoder/config.json", "\"gelu\"", "\"gelu\", \"max_length\": 20, \"n_head\": 7").file();
}

#[test]
fn settings_that_may_be_left_out_but_not_be_null() {
    agent("\"max_len\": 64", "\"max_len\": null", &["max_len", "leave the key out"]);
    agent("\"head_max_len\": 32", "\"head_max_len\": null", &["head_max_len", "leave the key out"]);
    agent("{\"escalate\": 0.5}", "null", &["act_costs", "leave the key out"]);
    agent("{\"escalate\": 0.5}", "[0.5]", &["act_costs", "object"]);
}

#[test]
fn directories_of_other_kinds_of_model() {
    let case = Case::new();
    let plain = case.bytes();
    // Beside the encoder's own it says nothing.
    case.write("config.json", "{\"model_type\": \"bert\", \"_name_or_path\": \"a/b-7B\"");
    assert!(case.bytes() == plain);
    fs::remove_file(case.dir.join("encoder/config.json")).unwrap();
    case.refused(&["config.json", "another kind of model", "encoder/config.json"]);
    for (file, why) in [("hf_quant_config.json", "unquantized"), ("modules.json", "sentence-transformers")] {
        let case = Case::new();
        case.write(file, "[]").refused(&[file, why]);
    }
}

#[test]
fn weight_files() {
    let case = Case::new();
    fs::remove_file(case.dir.join("model.safetensors.index.json")).unwrap();
    case.file();
    fs::remove_file(case.dir.join("model.safetensors")).unwrap();
    case.refused(&["no model.safetensors"]);
    write(&case.dir, "model.safetensors.index.json", index().as_bytes());
    case.refused(&["none of the files it names"]);
    write(&case.dir, "pytorch_model.bin", b"PK\x03\x04");
    case.refused(&["pytorch_model.bin", "safetensors weights are required", "never loaded"]);

    let case = Case::new();
    for bad in
        ["../model.safetensors", "/etc/model.safetensors", "a/model.safetensors", "..\\\\model.safetensors", "x.bin"]
    {
        let text = index().replacen("\"model.safetensors\"", &format!("\"{bad}\""), 1);
        write(&case.dir, "model.safetensors.index.json", text.as_bytes());
        case.refused(&["model.safetensors.index.json", "weight_map", "not the name"]);
    }
    let text = index().replace("\"scorer.0.bias\"", "\"scorer.9.bias\"");
    write(&case.dir, "model.safetensors.index.json", text.as_bytes());
    case.refused(&["tensor scorer.0.bias"]);
    let text = index().replacen("\"weight_map\": {", "\"weight_map\": {\"more\": \"model-2.safetensors\", ", 1);
    write(&case.dir, "model.safetensors.index.json", text.as_bytes());
    case.refused(&["tensor more", "model-2.safetensors"]);
}

#[test]
fn every_tensor_is_needed_and_no_other_is_taken() {
    let case = Case::new();
    fs::remove_file(case.dir.join("model.safetensors.index.json")).unwrap();
    for i in 0..tensors().len() {
        let mut some = tensors();
        let (name, _) = some.remove(i);
        write(&case.dir, "model.safetensors", &safetensors(&some));
        if name == "temperature" {
            case.file();
        } else {
            case.refused(&[&format!("tensor {name}: is missing")]);
        }
        let mut bent = tensors();
        bent[i].1.push(1);
        write(&case.dir, "model.safetensors", &safetensors(&bent));
        if name != "temperature" {
            case.refused(&[&format!("tensor {name}: has the shape")]);
        }
    }
    for extra in ["encoder.layers.0.attn_norm.weight", "encoder.layers.0.attn.Wo.bias", "classifier.weight"] {
        let mut more = tensors();
        more.push((extra.to_owned(), vec![4]));
        write(&case.dir, "model.safetensors", &safetensors(&more));
        case.refused(&[extra, "no place"]);
    }
    let mut two = safetensors(&tensors());
    write(&case.dir, "model-2.safetensors", &two);
    write(&case.dir, "model.safetensors", &two);
    case.refused(&["is in two files"]);
    fs::remove_file(case.dir.join("model-2.safetensors")).unwrap();
    let at = two.windows(5).position(|w| w == b"\"F16\"").unwrap();
    two[at..at + 5].copy_from_slice(b"\"I16\"");
    write(&case.dir, "model.safetensors", &two);
    case.refused(&["I16", "F16, BF16, F32 and F64"]);
}

#[test]
fn not_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    let missing = convert(&folder.path().join("no"), &out, &Options::default()).unwrap_err();
    assert!(missing.to_string().contains("not a directory"), "{missing}");
    let empty = convert(folder.path(), &out, &Options::default()).unwrap_err();
    assert!(empty.to_string().contains("rl_agent_config.json"), "{empty}");
    for file in ["encoder/config.json", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"] {
        let case = Case::new();
        fs::remove_file(case.dir.join(file)).unwrap();
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        case.refused(&[name]);
    }
    assert!(!out.exists());
}

#[test]
fn a_head_epsilon_the_published_package_would_ignore_is_refused() {
    encoder("\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 1e-12", &["key layer_norm_eps", "1e-5"]);
    encoder(
        "\"norm_eps\": 1e-05, \"layer_norm_eps\": 1e-05",
        "\"norm_eps\": 1e-06",
        &["key layer_norm_eps", "missing", "norm_eps"],
    );
    // The encoder's own epsilon is free, and both may be left to the default.
    for (norm, head) in [("\"norm_eps\": 1e-06,", "\"layer_norm_eps\": 1e-05,"), ("", ""), ("\"norm_eps\": 1e-05,", "")]
    {
        let case = Case::new();
        let from = "\"norm_eps\": 1e-05, \"layer_norm_eps\": 1e-05,";
        case.with("encoder/config.json", from, &format!("{norm} {head}")).file();
    }
}

#[test]
fn settings_the_loader_refuses_are_refused_here() {
    encoder("\"norm_eps\": 1e-05", "\"norm_eps\": 0", &["key norm_eps", "positive"]);
    encoder("\"norm_eps\": 1e-05", "\"norm_eps\": -1e-5", &["key norm_eps", "positive"]);
    encoder("\"norm_eps\": 1e-05", "\"norm_eps\": 1e-60", &["key norm_eps", "positive"]);
    encoder("\"norm_eps\": 1e-05", "\"norm_eps\": 1e39", &["key norm_eps", "32-bit float"]);
    encoder("\"hidden_size\": 4", "\"hidden_size\": 200", &["key hidden_size", "3 decision heads"]);
    encoder("\"vocab_size\": 14", "\"vocab_size\": 2097153", &["key vocab_size", "2097152"]);
    encoder("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 65537", &["key num_hidden_layers", "65536"]);
    agent("\"max_len\": 64", "\"max_len\": 65537", &["key max_len", "65536"]);
    agent("\"head_max_len\": 32", "\"head_max_len\": 65537", &["key head_max_len", "65536"]);
    let case = Case::new();
    // The limit itself is no more than the loader takes.
    let file = case.with("rl_agent_config.json", "\"max_len\": 64", "\"max_len\": 65536").file();
    let loaded = Engine::from_gguf(&file, &engine::Options { n_threads: Some(1), ..engine::Options::default() });
    assert_eq!(loaded.unwrap().config().max_len, 65_536);
}

#[test]
fn the_output_is_never_one_of_the_inputs() {
    let case = Case::new();
    write(&case.dir, "tokenizer/chat_template.jinja", b"{{ x }}");
    let inputs = [
        "model.safetensors",
        "model.safetensors.index.json",
        "rl_agent_config.json",
        "encoder/config.json",
        "encoder/../README.md",
        "tokenizer/tokenizer.json",
        "tokenizer/tokenizer_config.json",
        "tokenizer/chat_template.jinja",
        "generation_config.json",
    ];
    for input in inputs {
        let out = case.dir.join(input);
        let before = fs::read(&out).unwrap();
        let error = convert(&case.dir, &out, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("is a file the conversion reads"), "{error}");
        assert_eq!(fs::read(&out).unwrap(), before, "{input}");
    }
    // Nor what the next conversion would take for one; a model file may lie there.
    for name in ["model-2.safetensors", "tokenizer/merges.txt", "encoder/x"] {
        let out = case.dir.join(name);
        for error in [
            convert(&case.dir, &out, &Options::default()).unwrap_err(),
            plan(&case.dir, Some(&out), &Options::default()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("would be a file of the checkpoint"), "{error}");
        }
        assert!(!out.exists());
    }
    convert(&case.dir, &case.dir.join("model.gguf"), &Options::default()).unwrap();
    #[cfg(unix)]
    {
        let link = case.dir.join("out.gguf");
        std::os::unix::fs::symlink("model.safetensors", &link).unwrap();
        let error = convert(&case.dir, &link, &Options::default()).unwrap_err();
        assert!(error.to_string().contains("is a file the conversion reads"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn pipes_sockets_and_unreadable_files_are_errors_not_absent() {
    let optional =
        ["README.md", "generation_config.json", "model.safetensors.index.json", "tokenizer/chat_template.jinja"];
    for name in optional.into_iter().chain(["model.safetensors", "encoder/config.json", "tokenizer/tokenizer.json"]) {
        let case = Case::new();
        if name.contains("chat_template") {
            case.with("tokenizer/tokenizer_config.json", ", \"chat_template\": \"{{ x }}\"", "");
        }
        let path = case.dir.join(name);
        let _ = fs::remove_file(&path);
        // A pipe nobody writes to: opening it would wait for ever.
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("skipped: no mkfifo");
            return;
        }
        case.refused(&[name, "is not a regular file"]);
        fs::remove_file(&path).unwrap();
        // A link to itself can be found but not opened.
        std::os::unix::fs::symlink(path.file_name().unwrap(), &path).unwrap();
        case.refused(&[name, "cannot"]);
    }
}

#[test]
fn values_without_a_place_are_noted() {
    let case = Case::new();
    let n_notes = convert(&case.dir, &case.dir.join("a.gguf"), &Options::default()).unwrap().notes.len();
    let mut bytes = safetensors(&tensors());
    let header = String::from_utf8(bytes[8..8 + bytes[0] as usize + 256 * bytes[1] as usize].to_vec()).unwrap();
    let data = 8 + header.len();
    let start = |name: &str| {
        let entry = header.split_once(&format!("\"{name}\"")).unwrap().1;
        let offsets = entry.split_once("data_offsets\":[").unwrap().1;
        data + offsets.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    // A BF16 of 1e30, and an F16 infinity.
    let (big, infinite) = (start("type_emb.weight"), start("scorer.1.weight"));
    bytes[big..big + 2].copy_from_slice(&0x7149u16.to_le_bytes());
    bytes[infinite..infinite + 2].copy_from_slice(&0xfc00u16.to_le_bytes());
    write(&case.dir, "model.safetensors", &bytes);
    let notes = |outtype| {
        let options = Options { outtype, ..Options::default() };
        convert(&case.dir, &case.dir.join("a.gguf"), &options).unwrap().notes.split_off(n_notes)
    };
    let not_finite = "tensor scorer.1.weight: 1 of 16 values are infinite or not a number in the source";
    let overflow = "tensor type_emb.weight: 1 of 12 values are too large for F16 and become infinite; store it as f32";
    assert_eq!(notes(Outtype::F16), [not_finite, overflow]);
    assert_eq!(notes(Outtype::F32), [not_finite]);
}

#[test]
fn temperatures_beyond_32_bit_floats_keep_their_side() {
    let case = Case::new();
    let list = "\"temperature\": [1e39, -1e300, \"inf\"]";
    case.with("rl_agent_config.json", "\"temperature\": [1.0, 1.5, 2]", list);
    assert_eq!(case.file().require_f32s("laya.temperature").unwrap(), [f32::MAX, f32::MIN, 1.0]);
    let mut notes = convert(&case.dir, &case.dir.join("a.gguf"), &Options::default()).unwrap().notes;
    notes.retain(|note| note.contains("temperature"));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("1e+39 is beyond 32-bit floats") && notes[1].contains("is beyond"), "{notes:?}");
    assert!(notes[2].contains("\"inf\" is not a finite number; 1 is used"), "{notes:?}");
}

#[test]
fn long_lists_take_no_time_in_proportion_to_their_square() {
    let start = std::time::Instant::now();
    let case = Case::new();
    // 60,000 tensors in file and index, and one more in the index only.
    let mut many = tensors();
    many.extend((0..60_000).map(|i| (format!("x{i}"), vec![])));
    write(&case.dir, "model.safetensors", &safetensors(&many));
    let names: Vec<String> = many.iter().map(|(name, _)| format!("\"{name}\": \"model.safetensors\"")).collect();
    let missing: Vec<String> = (0..60_000).map(|i| format!("\"y{i}\": \"model.safetensors\"")).collect();
    let text = format!("{{\"weight_map\": {{{}, {}}}}}", names.join(", "), missing.join(", "));
    write(&case.dir, "model.safetensors.index.json", text.as_bytes());
    case.refused(&["tensor y0: is missing"]);

    // As many added tokens, all named by the configuration.
    let case = Case::new();
    let flags =
        "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true";
    let (mut added, mut extra, mut table) = (String::new(), String::new(), String::new());
    for i in 0..60_000 {
        let id = 12 + i;
        added += &format!("{{\"id\": {id}, \"content\": \"e{i}\", {flags}}},");
        extra += &format!("\"e{i}\",");
        table += &format!("\"{id}\": {{\"content\": \"e{i}\", \"special\": true}},");
    }
    let from = "\"added_tokens\": [";
    case.with("tokenizer/tokenizer.json", from, &format!("{from}{added}"));
    let from = "\"extra_special_tokens\": [\"<pad>\"]";
    let to = format!(
        "\"extra_special_tokens\": [{}], \"added_tokens_decoder\": {{{}}}",
        extra.trim_end_matches(','),
        table.trim_end_matches(',')
    );
    case.with("tokenizer/tokenizer_config.json", from, &to);
    case.refused(&["the token id 60011 is not below vocab_size 14"]);
    // 60,000 times 60,000 comparisons of texts take minutes: this test would be the slowest by far.
    println!("{:?}", start.elapsed());
}
