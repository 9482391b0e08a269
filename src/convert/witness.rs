//! The other tokenizer: the `tokenizers` library of Hugging Face, on the checkpoint's own `tokenizer.json`.
//!
//! It is given the part of the vocabulary that the probes can reach: a merge joins neighbours inside one word, so a token
//! that is no stretch of any word of the probes can play no part in splitting them. That makes no difference to the ids
//! and takes a hundredth of the memory and the time of the whole.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// What the other tokenizer makes of the probes.
pub(super) struct Witness {
    /// Text and ids.
    probes: Vec<(String, Vec<u32>)>,
}

impl Witness {
    /// Asks the other tokenizer about the probes, but those with a token that is `respelled`: the file is known to be
    /// wrong about them, and the conversion says so.
    ///
    /// # Errors
    /// The library refuses the file: Python would too.
    pub(super) fn new(tokenizer: &Config, respelled: &[Respelled]) -> Result<Self> {
        // The file was read and checked before, so this is not expected to fail; but it is the code of others.
        let asked = catch_unwind(AssertUnwindSafe(|| ask(tokenizer, respelled)));
        let probes = asked.unwrap_or_else(|_| Err("it failed".into())).map_err(|message| {
            let message = format!(
                "the tokenizers library, which the published package reads this file with, refuses it: {message}; repair \
                 the file, or convert it unproven with --no-verify"
            );
            Error::new(ErrorKind::Checkpoint, message).in_file(tokenizer.path())
        })?;
        Ok(Self { probes })
    }

    /// Compares `ours` with what the other said; returns the number of probes.
    ///
    /// # Errors
    /// The first text with other ids.
    pub(super) fn check(&self, ours: &Tokenizer) -> Result<usize> {
        for (text, theirs) in &self.probes {
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
                return Err(Error::new(ErrorKind::Tokenizer, message));
            }
        }
        Ok(self.probes.len())
    }
}

type Outcome<T> = std::result::Result<T, String>;

fn ask(tokenizer: &Config, respelled: &[Respelled]) -> Outcome<Vec<(String, Vec<u32>)>> {
    let all = Entries::of(tokenizer)?;
    let mut texts = probes(&all);
    texts.retain(|text| !respelled.iter().any(|token| text.contains(&token.content) || text.contains(&token.read)));
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

/// The built-in texts, tokens from all over the vocabulary, and the added tokens in and beside other text.
fn probes(all: &Entries<'_>) -> Vec<String> {
    let mut texts: Vec<String> = probe::TEXTS.iter().map(|text| (*text).to_owned()).collect();
    let step = (all.vocab.len() / N_SAMPLED).max(1);
    for token in all.vocab.keys().step_by(step) {
        texts.push(token.replace('\u{2581}', " "));
        texts.extend(added::bytes(token).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    }
    let step = (all.added.len() / N_ADDED).max(1);
    for (token, _) in all.added.iter().step_by(step) {
        texts.extend([(*token).to_owned(), format!("x{token}y"), format!("a {token} b"), format!("{token}{token}")]);
    }
    texts
}
