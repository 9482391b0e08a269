//! Model cards, sampling settings and names that cannot be converted, and where to look.

#![allow(clippy::unwrap_used)]

mod checkpoint;

use std::fs;

use checkpoint::{Case, write};

const CARD: &str = "README.md";
const GENERATION: &str = "generation_config.json";

/// A front matter with a line for each key that is read, of a kind that is not.
#[test]
fn values_beyond_the_subset() {
    let case = Case::new();
    let texts = [
        "name",
        "author",
        "version",
        "organization",
        "description",
        "finetune",
        "basename",
        "size_label",
        "url",
        "doi",
        "uuid",
        "repo_url",
        "model_name",
        "model_author",
        "model_version",
        "model_organization",
        "model_description",
        "model_finetune",
        "model_basename",
        "model_size_label",
        "model_url",
        "model_doi",
        "model_uuid",
        "model_repo_url",
        "model_creator",
        "model_type",
        "license_name",
        "license_link",
    ];
    let lists = [
        "license",
        "base_model",
        "base_models",
        "base_model_sources",
        "datasets",
        "dataset",
        "dataset_sources",
        "tags",
        "pipeline_tag",
        "languages",
        "language",
    ];
    for key in texts.into_iter().chain(lists) {
        for value in [
            "1.0",
            "no",
            "2024-01-02",
            "{a: b}",
            "|\n  text",
            "plain\n  goes on",
            "\"a\n  b\"",
            "*a",
            "[a, [b]]",
            "- a",
        ] {
            case.write(CARD, &format!("---\nx: y\n{key}: {value}\n---\n"));
            case.refused(&[CARD, "line 3", key, "quotes"]);
        }
        case.write(CARD, &format!("---\n{key}: \"1.0\"\n---\n")).file();
    }
    for key in texts {
        case.write(CARD, &format!("---\n{key}: [a]\n---\n")).refused(&[CARD, "line 2", key]);
    }
    for key in lists {
        for value in ["[1]", "[no]", "\n- a: b\n", "\n  -a", "\n- - a", "[a,\n\n  b]", "\n- a\n  b"] {
            case.write(CARD, &format!("---\n{key}: {value}\n---\n")).refused(&[CARD, "line 2", key]);
        }
    }
}

#[test]
fn front_matter_that_is_no_mapping_of_one_line_each() {
    let case = Case::new();
    for (card, parts) in [
        ("---\nnot yaml\n---", ["line 2", "key: value"]),
        ("---\n  license: mit\n---", ["line 2", "margin"]),
        ("---\n- a\n---", ["line 2", "margin"]),
        ("---\n...\n---", ["line 2", "key: value"]),
        ("---\n? a\n---", ["line 2", "key: value"]),
        ("---\n<<: {license: mit}\n---", ["line 2", "<<"]),
        ("---\nx: \"a\nlicense: mit\n\"\n---", ["line 3", "indent it"]),
        ("---\nx: {a: b,\nlicense: mit}\n---", ["line 3", "indent it"]),
        ("---\nx: \u{1b}\n---", ["line 2", "U+001B"]),
        ("---\nx: \u{7f}\n---", ["line 2", "U+007F"]),
    ] {
        case.write(CARD, card).refused(&[CARD, parts[0], parts[1]]);
    }
    write(&case.dir, CARD, b"---\nname: \xff\n---\n");
    case.refused(&[CARD, "UTF-8"]);
    fs::remove_file(case.dir.join(CARD)).unwrap();
    assert_eq!(case.file().str("general.name").unwrap(), Some("A Checkpoint 1K"));
}

#[test]
fn names_that_are_read_in_another_way() {
    let case = Case::new();
    case.write(CARD, "---\nbase_model: org/\u{df}eta\n---\n").refused(&[CARD, "line 2", "'\u{df}'"]);
    case.write(CARD, "---\ndatasets: [a, org/x-\u{664}B]\n---\n").refused(&[CARD, "line 2", "'\u{664}'"]);
    case.write(CARD, "");
    let named = case.folder().join("laya-\u{664}B");
    fs::rename(&case.dir, &named).unwrap();
    let message = checkpoint::run(&named).unwrap_err();
    assert!(message.contains("'\u{664}'") && message.contains("rename"), "{message}");
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let odd = case.folder().join(std::ffi::OsStr::from_bytes(b"laya-\xff"));
        fs::rename(&named, &odd).unwrap();
        let message = checkpoint::run(&odd).unwrap_err();
        assert!(message.contains("not UTF-8") && message.contains("rename"), "{message}");
    }
}

#[test]
fn sampling_settings_of_another_type() {
    let case = Case::new();
    for (key, value) in [
        ("top_k", "1.5"),
        ("top_k", "true"),
        ("top_k", "2147483648"),
        ("penalty_last_n", "\"1\""),
        ("mirostat", "[1]"),
        ("top_p", "\"0.9\""),
        ("temperature", "false"),
        ("min_p", "1e39"),
        ("xtc_probability", "{}"),
        ("xtc_threshold", "\"\""),
        ("penalty_repeat", "[]"),
        ("mirostat_tau", "true"),
        ("mirostat_eta", "\"a\""),
        ("sequence", "1"),
    ] {
        case.write(GENERATION, &format!("{{{key:?}: {value}}}")).refused(&[
            GENERATION,
            &format!("key {key}"),
            "must be",
        ]);
    }
    case.write(GENERATION, "[1]").refused(&[GENERATION, "object"]);
}

/// Python reads all of these, and another reader of JSON must not ignore them as it ignores what is no JSON.
#[test]
fn sampling_settings_that_only_python_reads() {
    let case = Case::new();
    let deep = format!("{{\"top_k\": 1, \"x\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let texts = [
        "{\"top_p\": NaN}",
        "{\"top_p\": Infinity}",
        "{\"x\": -Infinity, \"top_k\": 1}",
        "{\"x\": \"\\ud800\", \"top_k\": 1}",
        "{\"x\": \"\\uDfff\", \"top_k\": 1}",
        "{\"x\": 100000000000000000000, \"top_k\": 1}",
        "{\"x\": 1e999, \"top_k\": 1}",
        &deep,
    ];
    for text in texts {
        case.write(GENERATION, text).refused(&[GENERATION]);
    }
    write(&case.dir, GENERATION, b"{\"top_k\": 1, \"x\": \"\xff\"}");
    case.refused(&[GENERATION, "UTF-8"]);
    for ignored in ["{\"top_k\": 1,}", "", "top_k: 1", "\u{feff}{\"top_k\": 1}", "{\"top_k\": 01}"] {
        case.write(GENERATION, ignored);
        assert!(case.file().get("general.sampling.top_k").is_none(), "{ignored}");
    }
}
