//! The other tokenizer: the `tokenizers` library of Hugging Face, on the checkpoint's own `tokenizer.json`.
//!
//! It is given the part of the vocabulary that the probes can reach: a merge joins neighbours inside one word, so a token
//! that is no stretch of any word of the probes can play no part in splitting them. That makes no difference to the ids
//! and takes a hundredth of the memory and the time of the whole.

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tokenizers::tokenizer::{OffsetReferential, OffsetType, PreTokenizer as _};

use super::config::Config;
use super::vocabulary::Respelled;
use super::{added, probe};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use crate::tokenizer::Tokenizer;

/// Tokens of the vocabulary whose texts are probes, about.
const N_SAMPLED: usize = 2_000;
/// Added tokens whose texts are probes, at most.
const N_ADDED: usize = 500;
/// Longest token that is a probe, in bytes: all stretches of a word are looked at, and a word may be one token.
const LONGEST: usize = 128;

/// What the other tokenizer makes of the probes.
pub(super) struct Witness {
    /// The `tokenizer.json` that was asked about.
    path: PathBuf,
    /// Text and ids.
    probes: Vec<(String, Vec<u32>)>,
}

impl Witness {
    /// Asks the other tokenizer about the probes.
    ///
    /// # Errors
    /// The library refuses the file: Python would too.
    pub(super) fn new(tokenizer: &Config) -> Result<Self> {
        // The file was read and checked before, so this is not expected to fail; but it is the code of others.
        let asked = catch_unwind(AssertUnwindSafe(|| ask(tokenizer)));
        let probes = asked.unwrap_or_else(|_| Err("it failed".into())).map_err(|message| {
            let message = format!(
                "the tokenizers library, which the published package reads this file with, refuses it: {message}; repair \
                 the file"
            );
            Error::new(ErrorKind::Checkpoint, message).in_file(tokenizer.path())
        })?;
        Ok(Self { path: tokenizer.path().to_owned(), probes })
    }

    /// The `tokenizer.json` that was asked about.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares `ours` with what the other said; returns the number of probes. Those with a token that is `respelled` do
    /// not count: the file is known to be wrong about them, and the conversion says so.
    ///
    /// # Errors
    /// The first text with other ids.
    pub(super) fn check(&self, ours: &Tokenizer, respelled: &[Respelled]) -> Result<usize> {
        let respellings = Respellings::of(respelled);
        let mut n_probes = 0;
        for (text, theirs) in self.probes.iter().filter(|(text, _)| !respellings.are_in(text)) {
            n_probes += 1;
            let found = ours.encode(text);
            if found != *theirs {
                let at = found.iter().zip(theirs).take_while(|(a, b)| a == b).count();
                let id = |ids: &[u32]| ids.get(at).map_or("none".into(), u32::to_string);
                let message = format!(
                    "the file's tokenizer and the tokenizers library split {text:?} differently: token {at} is {} and {}; \
                     please report this tokenizer.json",
                    id(&found),
                    id(theirs)
                );
                return Err(Error::new(ErrorKind::Tokenizer, message).in_file(&self.path));
            }
        }
        Ok(n_probes)
    }
}

type Outcome<T> = std::result::Result<T, String>;

fn ask(tokenizer: &Config) -> Outcome<Vec<(String, Vec<u32>)>> {
    let all = Entries::of(tokenizer)?;
    let texts = probes(&all);
    let bare = all.load(&HashSet::new())?;
    let mut words = HashSet::new();
    for text in &texts {
        let mut split = bare.get_added_vocabulary().extract_and_normalize(bare.get_normalizer(), text);
        if let Some(pre_tokenizer) = bare.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut split).map_err(|e| e.to_string())?;
        }
        let splits = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
        words.extend(splits.into_iter().map(|(word, ..)| word.to_owned()));
    }
    let reached = stretches(&words);
    let theirs = all.load(&reached)?;
    let ids = |text: &String| theirs.encode_fast(text.as_str(), false).map(|encoding| encoding.get_ids().to_vec());
    texts.iter().map(|text| Ok((text.clone(), ids(text).map_err(|e| e.to_string())?))).collect()
}

/// Every stretch of characters of every word.
fn stretches(words: &HashSet<String>) -> HashSet<&str> {
    let mut found = HashSet::new();
    for word in words {
        let ends = word.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
        for (i, (start, _)) in word.char_indices().enumerate() {
            found.extend(ends.iter().skip(i).filter_map(|&end| word.get(start..end)));
        }
    }
    found
}

/// The parts of a `tokenizer.json`.
struct Entries<'a> {
    file: &'a Value,
    vocab: &'a Object,
    merges: &'a [Value],
    /// Text and id of the added tokens.
    added: Vec<(&'a str, &'a Value)>,
}

impl<'a> Entries<'a> {
    fn of(tokenizer: &'a Config) -> Outcome<Self> {
        let file = tokenizer.value();
        let model = file.get("model").ok_or("there is no model")?;
        let vocab = model.get("vocab").and_then(Value::as_object).ok_or("the model has no vocab")?;
        let merges = model.get("merges").and_then(Value::as_array).ok_or("the model has no merges")?;
        let added = file.get("added_tokens").and_then(Value::as_array).unwrap_or_default();
        let added = added.iter().filter_map(|token| Some((token.get("content")?.as_str()?, token.get("id")?)));
        Ok(Self { file, vocab, merges, added: added.collect() })
    }

    /// The library's tokenizer with the tokens that are `wanted`, those for bytes and the added ones; if none is wanted,
    /// one that only finds the words of a text.
    fn load(&self, wanted: &HashSet<&str>) -> Outcome<tokenizers::Tokenizer> {
        let longest = wanted.iter().map(|token| token.len()).max().unwrap_or(0);
        let wanted = |token: &str| token.len() <= longest && wanted.contains(token);
        let mut vocab = Object::new();
        let vocabulary = self.vocab.iter().filter(|_| longest > 0);
        for (token, id) in vocabulary.filter(|(token, _)| added::is_byte(token) || wanted(token)) {
            vocab.insert(token, id.clone());
        }
        // Tokens that are added and in no vocabulary get the ids that follow it, whatever the file says; here the rest of
        // the vocabulary is missing.
        for (token, id) in &self.added {
            vocab.insert(*token, (*id).clone());
        }
        let mut joined = String::new();
        let merges = self.merges.iter().filter(|_| longest > 0).filter(|merge| {
            joined.clear();
            match merge {
                Value::String(text) => joined.extend(text.chars().filter(|&c| c != ' ')),
                Value::Array(pair) => joined.extend(pair.iter().filter_map(Value::as_str)),
                _ => {}
            }
            wanted(&joined)
        });
        let merges: Value = merges.cloned().collect();
        let mut model = Object::new();
        for (key, value) in self.file.get("model").and_then(Value::as_object).into_iter().flat_map(Object::iter) {
            match key {
                "vocab" => model.insert(key, Value::Object(std::mem::take(&mut vocab))),
                "merges" => model.insert(key, merges.clone()),
                _ => model.insert(key, value.clone()),
            };
        }
        let mut file = Object::new();
        for (key, value) in self.file.as_object().into_iter().flat_map(Object::iter) {
            match key {
                "model" => file.insert(key, Value::Object(std::mem::take(&mut model))),
                // The published package asks for neither.
                "truncation" | "padding" => file.insert(key, Value::Null),
                _ => file.insert(key, value.clone()),
            };
        }
        let text = Value::Object(file).dumps_compact();
        tokenizers::Tokenizer::from_bytes(text.as_bytes()).map_err(|e| e.to_string())
    }
}

/// The texts of added tokens that a file respells, both ways.
struct Respellings<'a> {
    texts: HashSet<&'a str>,
    /// Their lengths, in bytes.
    lens: BTreeSet<usize>,
}

impl<'a> Respellings<'a> {
    fn of(respelled: &'a [Respelled]) -> Self {
        let texts: HashSet<&str> = respelled.iter().flat_map(|token| [&*token.content, &*token.read]).collect();
        let lens = texts.iter().map(|text| text.len()).collect();
        Self { texts, lens }
    }

    /// Whether one of them is in `text`.
    fn are_in(&self, text: &str) -> bool {
        let starts = || (0..text.len()).filter(|&start| text.is_char_boundary(start));
        self.lens
            .iter()
            .any(|len| starts().any(|start| text.get(start..start + len).is_some_and(|part| self.texts.contains(part))))
    }
}

/// The built-in texts, tokens from all over the vocabulary, and the added tokens in and beside other text.
fn probes(all: &Entries<'_>) -> Vec<String> {
    let mut texts: Vec<String> = probe::TEXTS.iter().map(|text| (*text).to_owned()).collect();
    let short = |token: &&str| token.len() <= LONGEST;
    let step = (all.vocab.keys().filter(short).count() / N_SAMPLED).max(1);
    for token in all.vocab.keys().filter(short).step_by(step) {
        texts.push(token.replace('\u{2581}', " "));
        texts.extend(added::bytes(token).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    let added = || all.added.iter().map(|(token, _)| *token).filter(short);
    let step = (added().count() / N_ADDED).max(1);
    for token in added().step_by(step) {
        texts.extend([token.to_owned(), format!("x{token}y"), format!("a {token} b"), format!("{token}{token}")]);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn config(text: &str) -> Config {
        let object = json::parse(text.as_bytes()).unwrap().as_object().unwrap().clone();
        Config::new(Path::new("tokenizer.json"), object)
    }

    #[test]
    fn a_long_token_is_no_probe() {
        let long = "x".repeat(100_000);
        let text = format!(
            r#"{{"model": {{"vocab": {{"a": 0, "{long}": 1, "b": 2}}, "merges": []}},
            "added_tokens": [{{"id": 1, "content": "{long}"}}, {{"id": 3, "content": "<c>"}}]}}"#
        );
        let config = config(&text);
        let texts = probes(&Entries::of(&config).unwrap());
        assert!(texts.iter().all(|text| text.len() < 1_000));
        assert!(["a", "b", "<c>", "x<c>y", "a <c> b", "<c><c>"].iter().all(|text| texts.contains(&(*text).to_owned())));
    }

    #[test]
    fn respelled_tokens_are_found_in_texts() {
        let respelled = [Respelled { content: "<\u{2581}>".into(), read: "< >".into() }];
        let respellings = Respellings::of(&respelled);
        for (text, are_in) in [("", false), ("<>", false), ("a< >b", true), ("\u{2581}<\u{2581}>", true), ("< ", false)]
        {
            assert_eq!(respellings.are_in(text), are_in, "{text:?}");
        }
    }
}
