//! What is in a corpus.

use std::collections::HashMap;

use super::corpus::{Corpus, Item, Subset};
use crate::error::Result;
use crate::json::{Object, Value};
use crate::request::{Limits, QuestionType, Request};

/// What is in a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// SHA-256 of its bytes, in lower-case hex.
    pub sha256: String,
    /// Number of its bytes.
    pub n_bytes: usize,
    /// All of it.
    pub all: Count,
    /// Its [`Subset::English`].
    pub english: Count,
    /// Categories in the order in which they begin.
    pub categories: Vec<Category>,
    /// Ids of the items that are no request.
    pub refused: Vec<String>,
}

/// Numbers of items and questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Items.
    pub n_items: usize,
    /// Their questions, whatever type they name.
    pub n_questions: usize,
    /// Those of each type, in the order of [`QuestionType::ALL`].
    pub by_type: [usize; 3],
}

/// The items that are there for one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// All of them.
    pub all: Count,
    /// Those of [`Subset::English`].
    pub english: Count,
}

impl Count {
    fn add(&mut self, item: &Item) {
        self.n_items += 1;
        self.n_questions += item.n_questions();
        for question in item.body.get("questions").and_then(Value::as_object).into_iter().flat_map(Object::values) {
            let kind = question.get("type").and_then(Value::as_str).and_then(QuestionType::from_name);
            if let Some(n) = kind.and_then(|kind| self.by_type.get_mut(kind.index())) {
                *n += 1;
            }
        }
    }

    fn to_json(self) -> Object {
        let mut object = Object::new();
        object.insert("items", self.n_items);
        object.insert("questions", self.n_questions);
        for (kind, n) in QuestionType::ALL.into_iter().zip(self.by_type) {
            object.insert(kind.as_str(), n);
        }
        object
    }
}

impl Description {
    /// Describes the corpus with these bytes.
    ///
    /// # Errors
    /// As [`Corpus::parse`].
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let corpus = Corpus::parse(bytes)?;
        let mut description = Self {
            sha256: corpus.sha256.clone(),
            n_bytes: bytes.len(),
            all: Count::default(),
            english: Count::default(),
            categories: Vec::new(),
            refused: Vec::new(),
        };
        let mut places = HashMap::new();
        corpus.subset(Subset::All).for_each(|item| description.add(item, &mut places));
        Ok(description)
    }

    /// Counts `item`. `places` is where each category is in the list.
    fn add<'a>(&mut self, item: &'a Item, places: &mut HashMap<&'a str, usize>) {
        let at = *places.entry(&item.category).or_insert_with(|| {
            let name = item.category.clone();
            self.categories.push(Category { name, all: Count::default(), english: Count::default() });
            self.categories.len() - 1
        });
        let mut counts = vec![&mut self.all];
        let mut category = self.categories.get_mut(at);
        if item.is_english() {
            counts.push(&mut self.english);
            counts.extend(category.as_mut().map(|category| &mut category.english));
        }
        counts.into_iter().for_each(|count| count.add(item));
        if let Some(category) = category {
            category.all.add(item);
        }
        if Request::take(item.body.clone(), &Limits::default()).is_err() {
            self.refused.push(item.id.clone());
        }
    }

    /// As a JSON object.
    pub fn to_json(&self) -> Object {
        let mut object = Object::new();
        object.insert("sha256", self.sha256.as_str());
        object.insert("bytes", self.n_bytes);
        object.insert("all", self.all.to_json());
        object.insert("english", self.english.to_json());
        object.insert("refused", self.refused.iter().map(String::as_str).collect::<Value>());
        let categories = self.categories.iter().map(|Category { name, all, english }| {
            let mut object = Object::new();
            object.insert("category", name.as_str());
            object.insert("all", all.to_json());
            object.insert("english", english.to_json());
            Value::Object(object)
        });
        object.insert("categories", categories.collect::<Value>());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_once() {
        let text = concat!(
            r#"{"id": "1", "cat": "a", "state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}"#,
            "\n",
            r#"{"id": "2", "cat": "b", "state": "ü", "questions": {"q": {"type": "noul", "instructions": "?"}, "r": {"type": "score", "instructions": "?", "criteria": [1, 2]}}}"#,
            "\n",
            r#"{"id": "3", "cat": "a", "state": null, "questions": {"q": {"type": "bool", "instructions": "?"}}}"#,
            "\n"
        );
        let description = Description::of(text.as_bytes()).unwrap();
        let count = |n_items, n_questions, by_type| Count { n_items, n_questions, by_type };
        assert_eq!(description.n_bytes, text.len());
        assert_eq!(description.all, count(3, 4, [0, 1, 2]));
        assert_eq!(description.english, count(2, 2, [0, 0, 1]));
        assert_eq!(description.refused, ["3"]);
        let [a, b] = description.categories.as_slice() else { panic!("two categories") };
        assert_eq!((a.name.as_str(), a.all, a.english), ("a", count(2, 2, [0, 0, 1]), count(2, 2, [0, 0, 1])));
        assert_eq!((b.name.as_str(), b.all, b.english), ("b", count(1, 2, [0, 1, 1]), Count::default()));
        assert!(Description::of(b"{}").is_err());
    }
}
