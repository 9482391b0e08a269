//! The described corpus, read as a corpus: counts and subsets are those that its own record states.

use crate::vocabulary::shared;
use laya::json::{self, Value};
use laya::parity::{Corpus, Description, Subset};

#[test]
fn the_described_corpus_is_what_its_record_says() {
    let Some(folder) = shared("conformance/engine") else { return };
    let record = json::parse(&std::fs::read(folder.join("corpus.json")).unwrap()).unwrap();
    let number = |path: &[&str]| {
        let value = path.iter().try_fold(&record, |value, key| value.get(key)).and_then(Value::as_u64);
        usize::try_from(value.unwrap()).unwrap()
    };
    let path = folder.join("parity_corpus_items.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    let Description { sha256, n_bytes, all, english, refused, .. } = Description::of(&bytes).unwrap();
    assert_eq!(record.get("items_sha256").and_then(Value::as_str), Some(sha256.as_str()));
    assert_eq!(n_bytes, number(&["bytes"]));
    assert_eq!((all.n_items, all.n_questions), (number(&["items"]), number(&["questions"])));
    let types = ["choice", "score", "noul"].map(|kind| number(&["question_types", kind]));
    assert_eq!(all.by_type, types);
    assert_eq!(english.n_items, number(&["english_items"]));
    assert_eq!(english.n_questions, number(&["english_questions"]));
    // As the texts about it say, too.
    assert_eq!((english.n_items, english.n_questions), (635, 1816));
    assert_eq!(refused.len(), 1, "its item without a state");
    let corpus = Corpus::read(&path).unwrap();
    assert_eq!(corpus.sha256, sha256);
    assert_eq!(corpus.subset(Subset::English).count(), 635);
    assert_eq!(corpus.subset(Subset::All).count(), 915);
    // A part of a corpus is a corpus, and its own English part is all of it.
    let part: String = corpus.subset(Subset::English).map(|item| item.to_line() + "\n").collect();
    let part = Description::of(part.as_bytes()).unwrap();
    assert_eq!((part.all, part.english), (english, english));
}
