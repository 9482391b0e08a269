//! Tokenizers that cannot be converted: one change, one reason, named with file and key.

#![allow(clippy::unwrap_used)]

mod checkpoint;

use checkpoint::{Case, TOKENIZER, tokenizer, tokenizer_config};
use laya::convert::{Options, convert};

const MAP: &str = "tokenizer/special_tokens_map.json";
const CONFIG: &str = "tokenizer/tokenizer_config.json";
const TOKENIZER_FILE: &str = "tokenizer/tokenizer.json";

/// An added token of the smallest checkpoint with one flag set.
fn with_flag(content: &str, flag: &str) -> (String, String) {
    let at = TOKENIZER.find(&format!("\"content\": {content:?}")).unwrap();
    let line = TOKENIZER[at..].lines().next().unwrap();
    let (from, to) = if flag == "special" { ("true", "false") } else { ("false", "true") };
    let changed = line.replace(&format!("{flag:?}: {from}"), &format!("{flag:?}: {to}"));
    assert_ne!(line, changed);
    (line.to_owned(), changed)
}

#[test]
fn the_model_must_be_byte_pairs_of_the_family() {
    tokenizer("\"BPE\"", "\"Unigram\"", &["model.type", "unsupported tokenizer model Unigram"]);
    tokenizer("\"byte_fallback\": true", "\"byte_fallback\": false", &["model.byte_fallback"]);
    tokenizer("\"fuse_unk\": true", "\"fuse_unk\": 1", &["model.fuse_unk"]);
    tokenizer("\"ignore_merges\": false", "\"ignore_merges\": true", &["model.ignore_merges"]);
    for key in ["dropout", "continuing_subword_prefix", "end_of_word_suffix"] {
        let value = if key == "dropout" { "0.1" } else { "\"x\"" };
        tokenizer("\"dropout\": null", &format!("{key:?}: {value}"), &[&format!("model.{key}"), "not supported"]);
    }
}

#[test]
fn the_pre_tokenizer_must_be_of_a_family() {
    tokenizer("\"always\"", "\"first\"", &["pre_tokenizer"]);
    tokenizer("\"split\": true", "\"split\": false", &["pre_tokenizer"]);
    tokenizer("\"Metaspace\"", "\"BertPreTokenizer\"", &["pre_tokenizer", "BertPreTokenizer"]);
    let level = "\"ByteLevel\", \"add_prefix_space\": true";
    tokenizer("\"Metaspace\"", level, &["pre_tokenizer", "ByteLevel"]);
    let level = "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false";
    tokenizer("\"Metaspace\"", level, &["pre_tokenizer", "ByteLevel"]);
}

#[test]
fn the_normalizer_must_be_the_familys() {
    tokenizer("\"normalizer\": {\"type\": \"Replace\"", "\"normalizer\": {\"type\": \"NFKC\"", &["normalizer", "NFKC"]);
    tokenizer("\"normalizer\": {", "\"normalizer\": null, \"x\": {", &["normalizer", "none"]);
}

#[test]
fn the_decoder_must_be_known() {
    tokenizer("\"ByteFallback\"", "\"Strip\"", &["decoder"]);
    tokenizer(
        "\"decoder\": {\"type\": \"Sequence\"",
        "\"decoder\": {\"type\": \"WordPiece\"",
        &["decoder", "WordPiece"],
    );
}

#[test]
fn merges_must_be_tokens_in_one_form() {
    tokenizer("[\"a\", \"b\"]", "[\"a\", \"z\"]", &["model.merges[1]", "\"z\""]);
    tokenizer("[\"a\", \"b\"]", "[\"b\", \"a\"]", &["model.merges[1]", "\"ba\""]);
    tokenizer("[\"▁a\", \"b\"]", "\"▁a b\"", &["model.merges[2]", "another form"]);
    tokenizer("[\"▁a\", \"b\"]", "[\"▁a\"]", &["model.merges[2]", "pair"]);
    let merges = "[[\"▁\", \"a\"], [\"a\", \"b\"], [\"▁a\", \"b\"]]";
    tokenizer(merges, "[\"▁ a\", \"ab\"]", &["model.merges[1]", "two tokens"]);
    tokenizer(merges, "{}", &["model.merges", "not an array"]);
    let case = Case::new();
    case.with(TOKENIZER_FILE, merges, "[]").file();
    case.write("tokenizer/merges.txt", "a b\n").refused(&["tokenizer.json", "model.merges", "merges.txt"]);
}

#[test]
fn ids_must_be_ids_and_each_of_one_token() {
    tokenizer("\"id\": 4,", "\"id\": 14,", &["added_tokens", "\"<mask>\"", "14"]);
    tokenizer("\"id\": 4,", "\"id\": 2097152,", &["added_tokens[4].id"]);
    tokenizer("\"c\": 11", "\"c\": 14", &["14", "vocab_size"]);
    tokenizer("\"c\": 11", "\"c\": 9", &["two tokens have the id 9"]);
    tokenizer("\"c\": 11", "\"c\": -1", &["model.vocab", "\"c\" is -1"]);
    tokenizer("\"id\": 4,", "\"id\": 3,", &["added_tokens[4]", "taken"]);
    tokenizer("\"content\": \"<mask>\"", "\"content\": \"<unk>\"", &["added_tokens[4]", "taken"]);
}

/// The tokenizers library numbers added tokens itself.
#[test]
fn added_tokens_outside_the_vocabulary_follow_it() {
    let add = |id: u32| {
        let token = format!(
            "{{\"id\": {id}, \"content\": \"<new>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \
             \"normalized\": false, \"special\": false}}, {{\"id\": 0,"
        );
        let case = Case::new();
        case.with(TOKENIZER_FILE, "{\"id\": 0,", &token);
        case
    };
    let tokens = add(12).file();
    let tokens = tokens.require_strings("tokenizer.ggml.tokens").unwrap();
    assert_eq!(tokens.iter().skip(11).collect::<Vec<_>>(), [b"c".as_slice(), b"<new>", b"[PAD13]"]);
    add(13).refused(&["tokenizer.json", "added_tokens", "\"<new>\" has the id 13", "would give it 12"]);
    add(9).refused(&["tokenizer.json", "added_tokens", "which another token has in model.vocab"]);
}

#[test]
fn every_flag_of_an_added_token_is_true_or_false() {
    for flag in ["single_word", "lstrip", "rstrip", "normalized"] {
        tokenizer(&format!("{flag:?}: false"), &format!("{flag:?}: 0"), &["added_tokens[0]", flag, "true or false"]);
        tokenizer(&format!("{flag:?}: false"), "\"x\": false", &["added_tokens[0]", flag, "true or false"]);
    }
    tokenizer("\"special\": true", "\"special\": 1", &["special", "true or false"]);
    tokenizer("\"content\": \"<mask>\"", "\"content\": \"\"", &["added_tokens[4].content"]);
    tokenizer("\"added_tokens\": [", "\"added_tokens\": 1, \"x\": [", &["added_tokens", "not an array"]);
}

#[test]
fn flags_that_no_token_of_the_family_has() {
    for flag in ["single_word", "rstrip", "normalized", "lstrip"] {
        let (from, to) = with_flag("<pad>", flag);
        tokenizer(&from, &to, &["added_tokens", flag]);
    }
}

/// `<0x41>` decodes to the letter A, and a byte that is no text to nothing the file can hold.
#[test]
fn added_tokens_must_decode_to_known_text() {
    tokenizer("<pad>", "<0x41>", &["added_tokens", "byte token"]);
    let case = Case::new();
    let text = TOKENIZER
        .replace("\"Metaspace\"", "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true")
        .replace("\"byte_fallback\": true", "\"byte_fallback\": false")
        .replace("\"normalizer\": {", "\"normalizer\": null, \"x\": {")
        .replace(
            "\"decoder\": {",
            "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}, \"y\": {",
        );
    case.write(TOKENIZER_FILE, &text).file();
    for (part, key) in [("false, \"trim_offsets\"", "pre_tokenizer"), ("true, \"trim_offsets\"", "decoder")] {
        case.write(TOKENIZER_FILE, &text.replace(part, &part.replace("trim", "t")));
        case.refused(&["tokenizer.json", &format!("{key}.trim_offsets"), "true or false"]);
    }
    case.write(TOKENIZER_FILE, &text.replace("<pad>", "\u{c3}"));
    case.with(CONFIG, "<pad>", "\u{c3}").refused(&["tokenizer.json", "added_tokens", "not text", "normalized"]);
}

#[test]
fn post_processors_of_another_kind() {
    tokenizer("\"TemplateProcessing\"", "\"BertProcessing\"", &["post_processor", "BertProcessing"]);
    let sequence = "\"post_processor\": {\"type\": \"Sequence\", \"processors\": ";
    let template = "\"post_processor\": {";
    tokenizer(template, &format!("{sequence}1}}, \"x\": {{"), &["post_processor.processors", "list"]);
    tokenizer(template, &format!("{sequence}[{{}}]}}, \"x\": {{"), &["post_processor", "without a type"]);
    let level = "[{\"type\": \"ByteLevel\", \"trim_offsets\": true}]";
    tokenizer(template, &format!("{sequence}{level}}}, \"x\": {{"), &["post_processor", "add_prefix_space"]);
}

#[test]
fn templates_must_have_the_shape_the_library_reads() {
    let single = "\"single\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}";
    for piece in [
        "{\"SpecialToken\": {\"id\": \"<bos>\"}}",
        "{\"SpecialToken\": {\"id\": 1, \"type_id\": 0}}",
        "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": -1}}",
        "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 4294967296}}",
        "{\"Sequence\": {\"id\": \"C\", \"type_id\": 0}}",
        "{\"Other\": {\"id\": \"A\", \"type_id\": 0}}",
        "{}",
        "\"$A\"",
    ] {
        tokenizer(single, &format!("\"single\": [{piece}"), &["post_processor.single", "no piece"]);
    }
    tokenizer("\"pair\": [", "\"x\": [", &["post_processor.pair", "must be a list"]);
    tokenizer("\"single\": [", "\"single\": null, \"x\": [", &["post_processor.single", "must be a list"]);
    tokenizer("\"special_tokens\": {", "\"x\": {", &["post_processor.special_tokens", "must be an object"]);
    for (from, to) in [
        ("\"ids\": [2]", "\"ids\": [\"2\"]"),
        ("\"tokens\": [\"<bos>\"]", "\"tokens\": [2]"),
        ("\"ids\": [2]", "\"x\": 2"),
    ] {
        tokenizer(from, to, &["post_processor.special_tokens", "\"<bos>\" must have"]);
    }
}

#[test]
fn templates_must_end_with_eos() {
    let end = "{\"SpecialToken\": {\"id\": \"<eos>\", \"type_id\": 0}}]";
    tokenizer(end, &end.replace("<eos>", "<pad>"), &["post_processor.single", "ends with \"<pad>\""]);
}

#[test]
fn null_decoder_and_null_template_convert() {
    let case = Case::new();
    case.with(TOKENIZER_FILE, "\"post_processor\": {", "\"post_processor\": null, \"x\": {");
    case.with(TOKENIZER_FILE, "\"decoder\": {\"type\"", "\"decoder\": null, \"y\": {\"type\"").file();
}

#[test]
fn unknown_text_must_mean_one_token_in_both_files() {
    tokenizer("\"fuse_unk\": true", "\"fuse_unk\": false", &["model.fuse_unk", "true"]);
    tokenizer("\"fuse_unk\": true", "\"x\": true", &["model.fuse_unk"]);
    tokenizer("\"unk_token\": \"<unk>\"", "\"unk_token\": \"<pad>\"", &["model.unk_token", "\"<pad>\""]);
    tokenizer("\"unk_token\": \"<unk>\"", "\"unk_token\": null", &["model.unk_token", "null"]);
    tokenizer_config("\"unk_token\": \"<unk>\", ", "", &["unk_token", "missing"]);
    let case = Case::new();
    case.with(CONFIG, "\"unk_token\": \"<unk>\"", "\"unk_token\": \"<eos>\"");
    case.refused(&["tokenizer.json", "model.unk_token", "\"<unk>\"", "\"<eos>\""]);
}

#[test]
fn slots_must_name_added_tokens() {
    tokenizer_config("\"mask_token\"", "\"maskt\"", &["mask_token", "missing"]);
    tokenizer_config("\"cls_token\": \"<bos>\"", "\"cls_token\": \"<s>\"", &["cls_token", "\"<s>\""]);
    tokenizer_config("\"cls_token\": \"<bos>\"", "\"cls_token\": 2", &["cls_token", "must name a token"]);
    tokenizer_config("\"pad_token\": \"<pad>\"", "\"pad_token\": null", &["pad_token", "must not be null"]);
    tokenizer_config("\"__type\": \"AddedToken\"", "\"__type\": \"Token\"", &["mask_token", "must name a token"]);
    tokenizer_config("\"lstrip\": true", "\"lstrip\": 1", &["mask_token", "content and flags"]);
    // transformers writes the type; a file without it says the same.
    let case = Case::new();
    case.with(CONFIG, "\"__type\": \"AddedToken\", ", "");
    assert_eq!(case.file().require_u32("tokenizer.ggml.mask_token_id").unwrap(), 4);
    // A word of the vocabulary would become a special token.
    tokenizer_config("\"pad_token\": \"<pad>\"", "\"pad_token\": \"ab\"", &["pad_token", "\"ab\"", "would add"]);
}

#[test]
fn more_special_tokens_must_be_there_already() {
    for key in ["extra_special_tokens", "additional_special_tokens"] {
        let from = "\"extra_special_tokens\": [\"<pad>\"]";
        tokenizer_config(from, &format!("{key:?}: [\"<none>\"]"), &[key, "\"<none>\"", "would add"]);
        tokenizer_config(from, &format!("{key:?}: \"<pad>\""), &[key, "must be a list"]);
        tokenizer_config(from, &format!("{key:?}: [1]"), &[key, "must name a token"]);
    }
    let from = "\"extra_special_tokens\"";
    tokenizer_config(from, "\"image_token\": \"<img>\", \"x\"", &["image_token", "\"<img>\"", "would add"]);
    tokenizer_config(from, "\"model_specific_special_tokens\": {\"a\": \"<pad>\"}, \"x\"", &["model_specific"]);
    let case = Case::new();
    let (line, changed) = with_flag("<pad>", "special");
    case.with(TOKENIZER_FILE, &line, &changed).with(CONFIG, "\"pad_token\"", "\"image_token\"");
    case.refused(&["tokenizer_config.json", "image_token", "\"<pad>\" a special token"]);
    case.with(TOKENIZER_FILE, &changed, &line).file();
}

#[test]
fn tokenizer_classes_of_a_models_own() {
    tokenizer_config("PreTrainedTokenizerFast", "BertTokenizerFast", &["tokenizer_class"]);
    tokenizer_config("\"tokenizer_class\"", "\"auto_map\": {\"AutoTokenizer\": [\"x\"]}, \"x\"", &["auto_map"]);
    for (key, value) in [("model_type", "\"modernbert\""), ("tokenizer_class", "\"BertTokenizer\"")] {
        let case = Case::new();
        case.write("tokenizer/config.json", &format!("{{{key:?}: {value}}}")).file();
        case.with(CONFIG, "\"tokenizer_class\"", "\"x\"");
        case.refused(&["tokenizer/config.json", key, "tokenizer_class", "remove the file"]);
    }
}

#[test]
fn a_configuration_beside_the_tokenizer_gives_no_ids() {
    let case = Case::new();
    case.with(CONFIG, "\"pad_token\"", "\"x\"").file();
    case.write("tokenizer/config.json", "{\"unk_token_id\": 3}").file();
    for text in ["{\"pad_token_id\": 0}", "{\"text_config\": {\"pad_token_id\": 0}}"] {
        case.write("tokenizer/config.json", text);
        case.refused(&["tokenizer/config.json", "pad_token_id", "names no pad_token"]);
    }
    case.write("tokenizer/config.json", "[]").refused(&["tokenizer/config.json", "object"]);
}

#[test]
fn settings_that_change_texts() {
    let from = "\"tokenizer_class\"";
    tokenizer_config(from, "\"split_special_tokens\": true, \"tokenizer_class\"", &["split_special_tokens"]);
    let key = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output";
    tokenizer_config(from, &format!("{key:?}: true, \"tokenizer_class\""), &[key]);
}

#[test]
fn the_decoder_table_must_agree() {
    let flags = |lstrip: bool, more: &str| {
        format!(
            "\"added_tokens_decoder\": {{\"4\": {{\"content\": \"<mask>\", \"lstrip\": {lstrip}, \"special\": true{more}}}}}, "
        )
    };
    let with = |table: &str| {
        let case = Case::new();
        case.with(CONFIG, "\"tokenizer_class\"", &format!("{table}\"tokenizer_class\""));
        case
    };
    with(&flags(true, "")).file();
    with(&flags(true, ", \"rstrip\": false, \"normalized\": false, \"single_word\": false")).file();
    for table in [
        flags(false, ""),
        flags(true, ", \"rstrip\": true"),
        flags(true, ", \"normalized\": 0"),
        flags(true, "").replace("\"4\"", "\"3\""),
        flags(true, "").replace("\"4\"", "\"99\""),
        flags(true, "").replace("\"4\"", "\"x\""),
        flags(true, "").replace("<mask>", "<MASK>"),
    ] {
        with(&table).refused(&["tokenizer_config.json", "added_tokens_decoder", "differs"]);
    }
    with("\"added_tokens_decoder\": [], ").refused(&["added_tokens_decoder", "must be an object"]);
}

#[test]
fn added_tokens_in_a_file_of_their_own() {
    let case = Case::new();
    case.write("tokenizer/added_tokens.json", "{}").refused(&["added_tokens.json", "not supported", "tokenizer.json"]);
}

#[test]
fn a_map_of_special_tokens_may_only_repeat() {
    let case = Case::new();
    let plain = case.bytes();
    let object =
        |flags: &str| format!("{{\"mask_token\": {{\"content\": \"<mask>\", {flags}}}, \"pad_token\": \"<pad>\"}}");
    let same = "\"lstrip\": true, \"normalized\": false, \"rstrip\": false, \"single_word\": false";
    for text in ["{}", "{\"bos_token\": \"<bos>\", \"cls_token\": \"<bos>\"}", &object(same)] {
        assert!(case.write(MAP, text).bytes() == plain, "{text}");
    }
    let other = same.replace("\"lstrip\": true", "\"lstrip\": false");
    let fewer = same.replace(", \"single_word\": false", "");
    let unknown = same.replace("single_word", "double_word");
    let more = format!("{same}, \"special\": true");
    for flags in [&other, &fewer, &unknown, &more] {
        case.write(MAP, &object(flags)).refused(&[MAP, "key mask_token", "flags of tokenizer.json", "remove the file"]);
    }
    case.write(MAP, "{\"pad_token\": \"<unk>\"}").refused(&[MAP, "key pad_token", "\"<pad>\""]);
    case.write(MAP, "{\"pad_token\": 0}").refused(&[MAP, "key pad_token"]);
    case.write(MAP, "{\"additional_special_tokens\": []}").refused(&[
        MAP,
        "key additional_special_tokens",
        "not a token",
    ]);
    case.write(MAP, "{\"image_token\": \"<pad>\"}").refused(&[MAP, "key image_token", "not a token"]);
    case.write(MAP, "{").refused(&[MAP]);
    case.with(CONFIG, "\"pad_token\"", "\"x\"").write(MAP, "{\"pad_token\": \"<pad>\"}");
    case.refused(&[MAP, "key pad_token", "set it there"]);
}

#[test]
fn lists_of_chat_templates() {
    tokenizer_config("\"{{ x }}\"", "[1]", &["chat_template", "lists of templates"]);
    let case = Case::new();
    case.with(CONFIG, ", \"chat_template\": \"{{ x }}\"", "");
    case.write("tokenizer/chat_template.json", "{\"chat_template\": [{}]}");
    case.refused(&["chat_template.json", "chat_template", "lists of templates"]);
    case.write("tokenizer/chat_template.jinja", "{{ x }}").file();
    std::fs::create_dir(case.dir.join("tokenizer/additional_chat_templates")).unwrap();
    case.refused(&["additional_chat_templates", "only one is supported"]);
}

#[test]
fn texts_the_tokenizers_library_does_not_read() {
    let deep = format!("\"deep\": {}{}, \"version\"", "[".repeat(127), "]".repeat(127));
    tokenizer("\"version\"", &deep, &["nest"]);
    let case = Case::new();
    case.with(TOKENIZER_FILE, "\"version\"", &deep.replacen('[', "", 1).replacen(']', "", 1)).file();
    let text = format!("\u{feff}{TOKENIZER}");
    case.write(TOKENIZER_FILE, &text).refused(&["tokenizer.json", "byte order mark"]);
    case.write(TOKENIZER_FILE, TOKENIZER).with(CONFIG, "{{ x }}", "\\ud800");
    case.refused(&["tokenizer_config.json", "surrogate"]);
}

#[test]
fn a_refusal_leaves_no_file() {
    let case = Case::new();
    case.with(CONFIG, "\"mask_token\"", "\"x\"");
    let out = case.folder().join("out.gguf");
    convert(&case.dir, &out, &Options::default()).unwrap_err();
    assert_eq!(std::fs::read_dir(case.folder()).unwrap().count(), 1);
}
