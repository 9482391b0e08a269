//! Questions that come again, as they do in a stream, are tokenized once.

use super::{Encode, QuestionTokens};
use crate::request::Question;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What an entry takes beside its texts and tokens, about.
const ENTRY_BYTES: usize = 128;

/// An entry takes at most this share of the cache, so that one long question does not displace every other.
const LARGEST_SHARE: usize = 16;

/// The tokens of the questions one tokenizer saw last, in bounded memory.
///
/// An entry is found by the whole question as a model reads it (type, instructions and options), never by a hash alone.
/// Budgets are not part of that: they cut the tokens later, for each row.
pub struct QuestionCache {
    generations: Mutex<Generations>,
    max_bytes: usize,
}

/// Two generations: what is used moves to the young one, and when that has half of the memory, the old one is dropped
/// and the young one becomes the old. So what was not used for a while goes, without a list in order of use.
#[derive(Default)]
struct Generations {
    young: HashMap<Box<[u8]>, Arc<QuestionTokens>>,
    young_bytes: usize,
    old: HashMap<Box<[u8]>, Arc<QuestionTokens>>,
}

impl QuestionCache {
    /// A cache that takes about `max_bytes` of memory at most.
    pub fn new(max_bytes: usize) -> Self {
        Self { generations: Mutex::default(), max_bytes }
    }

    /// The tokens of `question`. Every call on one cache is to give the same tokenizer.
    pub fn tokens(&self, tokenizer: &(impl Encode + ?Sized), question: &Question) -> Arc<QuestionTokens> {
        let text_bytes = question.instructions.len() + question.options.iter().map(String::len).sum::<usize>();
        let largest = self.max_bytes / LARGEST_SHARE;
        if text_bytes > largest {
            return Arc::new(QuestionTokens::new(tokenizer, question));
        }
        let key = key(question);
        if let Some(tokens) = self.find(&key) {
            return tokens;
        }
        // Without the lock: others need not wait for this question.
        let tokens = Arc::new(QuestionTokens::new(tokenizer, question));
        if entry_bytes(&key, &tokens) <= largest {
            self.keep(key, Arc::clone(&tokens));
        }
        tokens
    }

    fn find(&self, key: &[u8]) -> Option<Arc<QuestionTokens>> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tokens) = generations.young.get(key) {
            return Some(Arc::clone(tokens));
        }
        let (key, tokens) = generations.old.remove_entry(key)?;
        generations.keep(key, Arc::clone(&tokens), self.max_bytes / 2);
        Some(tokens)
    }

    fn keep(&self, key: Box<[u8]>, tokens: Arc<QuestionTokens>) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.keep(key, tokens, self.max_bytes / 2);
    }
}

impl Generations {
    fn keep(&mut self, key: Box<[u8]>, tokens: Arc<QuestionTokens>, max_young_bytes: usize) {
        let n_bytes = entry_bytes(&key, &tokens);
        if self.young_bytes + n_bytes > max_young_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        // Another thread may have kept the same question meanwhile.
        if self.young.insert(key, tokens).is_none() {
            self.young_bytes += n_bytes;
        }
    }
}

fn entry_bytes(key: &[u8], tokens: &QuestionTokens) -> usize {
    key.len() + tokens.n_bytes() + ENTRY_BYTES
}

/// The question as bytes: equal for two questions exactly when they have the same type, instructions and options.
fn key(question: &Question) -> Box<[u8]> {
    let mut key = vec![question.kind.index() as u8];
    for text in std::iter::once(&question.instructions).chain(&question.options) {
        // The length first: the end of one text cannot pass for the start of the next.
        key.extend_from_slice(&text.len().to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key.into_boxed_slice()
}

impl fmt::Debug for QuestionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuestionCache").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::sequence::encode::Letters;

    fn question(definition: &str) -> Question {
        Question::parse("q", &json::parse(definition.as_bytes()).unwrap()).unwrap()
    }

    fn numbered(n: usize) -> Question {
        question(&format!(r#"{{"type": "noul", "instructions": "number {n}"}}"#))
    }

    fn n_bytes(cache: &QuestionCache) -> usize {
        let generations = cache.generations.lock().unwrap();
        let of = |entries: &HashMap<Box<[u8]>, Arc<QuestionTokens>>| -> usize {
            entries.iter().map(|(key, tokens)| entry_bytes(key, tokens)).sum()
        };
        assert_eq!(of(&generations.young), generations.young_bytes);
        generations.young_bytes + of(&generations.old)
    }

    #[test]
    fn a_question_that_comes_again_is_not_tokenized() {
        let (cache, tokenizer) = (QuestionCache::new(1 << 20), Letters::default());
        let texts = r#"{"type": "choice", "instructions": "Which[M]?", "criteria": {"a": "x", "b": null}}"#;
        let first = cache.tokens(&tokenizer, &question(texts));
        assert_eq!(tokenizer.n_texts(), 3);
        // The id and what an answer shows of the labels are not in the row.
        let mut again = question(texts);
        again.id = "other".into();
        assert_eq!(cache.tokens(&tokenizer, &again), first);
        assert_eq!(tokenizer.n_texts(), 0);
        assert_eq!(*first, QuestionTokens::new(&tokenizer, &again));
    }

    #[test]
    fn questions_that_differ_anywhere_have_their_own_tokens() {
        let (cache, tokenizer) = (QuestionCache::new(1 << 20), Letters::default());
        let definitions = [
            r#"{"type": "choice", "instructions": "ab", "criteria": ["c", "d"]}"#,
            r#"{"type": "choice", "instructions": "a", "criteria": ["bc", "d"]}"#,
            r#"{"type": "choice", "instructions": "ab", "criteria": ["cd"]}"#,
            r#"{"type": "choice", "instructions": "ab", "criteria": ["d", "c"]}"#,
            r#"{"type": "choice", "instructions": "ab", "criteria": ["c", "d", ""]}"#,
            r#"{"type": "score", "instructions": "ab", "criteria": ["c", "d"]}"#,
            r#"{"type": "choice", "instructions": "ab", "criteria": ["level 0: c", "level 1: d"]}"#,
            r#"{"type": "noul", "instructions": "ab"}"#,
        ];
        for _ in 0..2 {
            for definition in definitions {
                let question = question(definition);
                let fresh = QuestionTokens::new(&tokenizer, &question);
                assert_eq!(*cache.tokens(&tokenizer, &question), fresh, "{definition}");
            }
        }
        let n_kept = cache.generations.lock().unwrap().young.len();
        assert_eq!(n_kept, definitions.len());
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let (cache, tokenizer) = (QuestionCache::new(64 << 10), Letters::default());
        let often = numbered(0);
        for n in 1..2000 {
            cache.tokens(&tokenizer, &numbered(n));
            assert_eq!(tokenizer.n_texts(), 3);
            cache.tokens(&tokenizer, &often);
            assert_eq!(tokenizer.n_texts(), if n == 1 { 3 } else { 0 }, "question {n}");
            assert!(n_bytes(&cache) <= 64 << 10);
        }
        assert!(n_bytes(&cache) > 30 << 10, "{} bytes are kept", n_bytes(&cache));
        // Long gone, and back.
        cache.tokens(&tokenizer, &numbered(1));
        assert_eq!(tokenizer.n_texts(), 3);
    }

    #[test]
    fn a_question_too_long_is_tokenized_every_time() {
        let (cache, tokenizer) = (QuestionCache::new(64 << 10), Letters::default());
        for n_letters in [1200, 5000] {
            // By its tokens or by its text: more than a sixteenth of the cache.
            let long = question(&format!(r#"{{"type": "noul", "instructions": "{}"}}"#, "x".repeat(n_letters)));
            for _ in 0..2 {
                let tokens = cache.tokens(&tokenizer, &long);
                assert_eq!(tokenizer.n_texts(), 3);
                assert_eq!(*tokens, QuestionTokens::new(&tokenizer, &long));
                assert_eq!(tokenizer.n_texts(), 3);
            }
        }
        assert_eq!(n_bytes(&cache), 0);
    }
}
