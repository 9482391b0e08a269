//! The corpus of this project, generated: the same bytes on every machine.
//!
//! ```text
//! ../corpus/{prose,lexicon}.txt, presets.json, edge --Random(seed, category, number)--> items
//! ```
//! Each item is drawn from its own stream of numbers. A category that is added or changed leaves the others as they are.

mod compat;
#[cfg(test)]
mod coverage;
mod edge;
mod question;
mod random;
mod state;
mod text;

use self::question::{Options, mixed, of, question, structured_criteria};
use self::random::Random;
use self::state::{Kind, form, object, workflow};
use self::text::{ENGLISH, LANGUAGES, Texts};
use crate::json::{self, Object, Value};
use crate::parity::{Description, Item};
use crate::request::QuestionType;

/// What the corpus is drawn with.
pub const SEED: u64 = 20_261_201;

/// Numbers of options that choice and score questions are asked with.
const OPTION_COUNTS: std::ops::RangeInclusive<usize> = 2..=20;

/// What the corpus must come out as: [`record`], written by `parity-gate corpus --describe --json`.
const RECORD: &str = include_str!("../corpus/record.json");

/// The items in their order; the body of each is its `state` and its `questions`.
pub fn items() -> Vec<Item> {
    let mut corpus = Generated { texts: Texts::read(), items: Vec::new() };
    corpus.workflows();
    corpus.presets();
    corpus.states();
    corpus.languages();
    corpus.option_counts();
    corpus.cuts();
    corpus.criteria();
    corpus.edges();
    corpus.names();
    corpus.compat();
    corpus.items
}

/// The corpus as its file: one item a line.
pub fn jsonl() -> String {
    items().iter().map(|item| item.to_line() + "\n").collect()
}

/// SHA-256 of the corpus as it is recorded.
pub fn sha256() -> Option<String> {
    json::parse(RECORD.as_bytes()).ok()?.get("sha256")?.as_str().map(str::to_owned)
}

/// The keys at which `description`, of a corpus as it is generated, is recorded as.
pub fn record(description: &Description) -> Object {
    let mut record = description.to_json();
    record.insert("seed", SEED);
    record
}

/// The keys at which `description`, of a corpus as it is generated, is not what is recorded of this corpus.
pub fn differences(description: &Description) -> Vec<String> {
    let recorded = json::parse(RECORD.as_bytes()).unwrap_or_default();
    let record = record(description);
    record.iter().filter(|(key, value)| recorded.get(key) != Some(*value)).map(|(key, _)| key.to_owned()).collect()
}

struct Generated {
    texts: Texts,
    items: Vec<Item>,
}

impl Generated {
    /// Adds `n` items of a category. `draw` gets its number in the category and gives state and questions.
    fn add(&mut self, category: &str, n: usize, draw: impl Fn(&Texts, &mut Random, usize) -> (Value, Object)) {
        for number in 0..n {
            let mut random = Random::of(SEED, category, number);
            let (state, questions) = draw(&self.texts, &mut random, number);
            self.items.push(Item {
                id: format!("{category}_{number:04}"),
                category: category.to_owned(),
                body: object([("state", state), ("questions", questions.into())]),
            });
        }
    }

    /// Records of work done in steps, as text, object and list, with five questions each; and with one.
    fn workflows(&mut self) {
        const SETS: [&str; 3] = ["review", "handover", "audit"];
        let set = |texts: &Texts, number: usize| texts.preset(SETS.get(number % 3).copied().unwrap_or_default());
        let language = |number| other_language(number, 6);
        self.add("workflow_text", 26, |texts, random, number| {
            let state = Value::from(workflow(texts, random, language(number)));
            (state.dumps().into(), set(texts, number))
        });
        self.add("workflow_object", 26, |texts, random, number| {
            (workflow(texts, random, language(number)).into(), set(texts, number))
        });
        self.add("workflow_list", 18, |texts, random, number| {
            let entries = workflow(texts, random, language(number)).into_iter();
            let state = entries.map(|(key, value)| object([("key", key.into()), ("value", value)])).collect();
            (state, set(texts, number))
        });
        self.add("workflow_one", 60, |texts, random, number| {
            let state = workflow(texts, random, language(number)).into();
            let questions = set(texts, number);
            let one = number / 3 % questions.len().max(1);
            (state, questions.into_iter().skip(one).take(1).collect())
        });
    }

    /// Fixed sets of questions about messages, texts, requests and conversations.
    fn presets(&mut self) {
        let kinds = [Kind::Passage, Kind::Flat, Kind::Turns, Kind::Texts, Kind::Sentence, Kind::Records, Kind::Edge];
        for preset in ["inbox", "guard", "route", "thread"] {
            self.add(&format!("preset_{preset}"), 7, |texts, random, number| {
                let kind = kinds.get(number).copied().unwrap_or(Kind::Passage);
                (kind.draw(texts, random, other_language(number, 4), number), texts.preset(preset))
            });
        }
    }

    /// Mixed questions about states of every kind.
    fn states(&mut self) {
        for (category, kind) in Kind::ALL {
            let n = if kind.is_long() { 7 } else { 9 };
            self.add(category, n, |texts, random, number| {
                let language = other_language(number, 3);
                let state = kind.draw(texts, random, language, number);
                let n_questions = if kind.is_long() { 2 } else { random.within(1, 4) };
                (state, mixed(texts, random, language, n_questions))
            });
        }
    }

    /// A state of one language that is not English, with questions in the same.
    fn languages(&mut self) {
        for language in LANGUAGES {
            self.add(&format!("language_{language}"), 3, |texts, random, number| {
                let kind = [Kind::Passage, Kind::Texts, Kind::Flat].get(number).copied().unwrap_or(Kind::Passage);
                (kind.draw(texts, random, language, number), mixed(texts, random, language, 3))
            });
        }
    }

    /// A choice and a score with each number of options.
    fn option_counts(&mut self) {
        for n_options in OPTION_COUNTS {
            self.add(&format!("options_{n_options:02}"), 3, |texts, random, number| {
                let (kind, language, options) = match number {
                    0 => (Kind::Passage, ENGLISH, Options::Plain),
                    1 => (Kind::Turns, ENGLISH, Options::Bare),
                    _ => (Kind::Flat, other_language(n_options, 1), Options::Plain),
                };
                let state = kind.draw(texts, random, language, number);
                let questions = [QuestionType::Choice, QuestionType::Score].map(|kind| {
                    (kind.as_str(), Value::from(question(texts, random, language, kind, n_options, options)))
                });
                (state, questions.into_iter().collect())
            });
        }
    }

    /// Options over their 48 tokens, options over the budget they share, instructions over theirs; some with a state that
    /// is cut as well.
    fn cuts(&mut self) {
        let state = |texts: &Texts, random: &mut Random, language: &str, number: usize| {
            let kinds =
                [Kind::Sentence, Kind::Flat, Kind::Turns, Kind::Sentence, Kind::LongText, Kind::Texts, Kind::LongTurns];
            let kind = kinds.get(number % kinds.len()).copied().unwrap_or(Kind::Sentence);
            kind.draw(texts, random, language, number)
        };
        self.add("options_long", 14, |texts, random, number| {
            let language = other_language(number, 3);
            let state = state(texts, random, language, number);
            let kinds = if number % 2 == 0 {
                [QuestionType::Choice, QuestionType::Noul]
            } else {
                [QuestionType::Score, QuestionType::Noul]
            };
            let questions = kinds.map(|kind| {
                let n = random.within(2, 3);
                (kind.as_str(), Value::from(question(texts, random, language, kind, n, Options::Long)))
            });
            (state, questions.into_iter().collect())
        });
        self.add("options_crowded", 14, |texts, random, number| {
            let language = other_language(number, 3);
            let state = state(texts, random, language, number);
            let questions = [QuestionType::Choice, QuestionType::Score].map(|kind| {
                let n = random.within(6, 20);
                (kind.as_str(), Value::from(question(texts, random, language, kind, n, Options::Long)))
            });
            (state, questions.into_iter().collect())
        });
        self.add("instructions_long", 15, |texts, random, number| {
            let language = other_language(number, 3);
            let state = state(texts, random, language, number);
            let kind = QuestionType::ALL.get(number % 3).copied().unwrap_or(QuestionType::Noul);
            let mut question = question(texts, random, language, kind, 4, Options::Plain);
            let asked = question::instructions(texts, random, language, kind);
            question.insert("instructions", format!("{asked} {}", texts.paragraphs(random, language, 4)));
            (state, Object::from_iter([("q", question)]))
        });
    }

    /// Criteria that are numbers, truths, lists and objects.
    fn criteria(&mut self) {
        self.add("criteria_values", 18, |texts, random, number| {
            let kind = [Kind::Passage, Kind::Flat, Kind::Mixed].get(number % 3).copied().unwrap_or(Kind::Passage);
            (kind.draw(texts, random, ENGLISH, number), structured_criteria(texts, random, number))
        });
    }

    /// Each text of [`edge::TEXTS`] as a state, in a state, in an option that its start is the label of, and in
    /// instructions; scalar states.
    fn edges(&mut self) {
        self.add("edge_text", edge::TEXTS.len(), |_, _, number| {
            let text = edge::TEXTS.get(number).copied().unwrap_or_default();
            let start: String = text.chars().take(20).collect();
            let state =
                if number % 2 == 0 { Value::from(text) } else { object([("text", text.into()), ("n", number.into())]) };
            let noul = of(QuestionType::Noul, format!("Is this in the text: {text}").into(), None);
            let criteria = object([(&start, text.into()), ("something else", format!("not {start}").into())]);
            let choice = of(QuestionType::Choice, "Which one is it?".into(), Some(criteria));
            (state, Object::from_iter([("same", noul), ("which", choice)]))
        });
        let scalars = |number| match number {
            0 => Value::Null,
            1 => true.into(),
            2 => false.into(),
            3 => Value::from(0_i64),
            4 => Value::from(i64::MIN),
            5 => Value::from(u64::MAX),
            6 => Value::from(-0.0),
            7 => Value::from(1e-7),
            8 => Value::from(1e16),
            9 => Value::from(19.75),
            10 => "7".into(),
            _ => "null".into(),
        };
        self.add("scalar_state", 12, |texts, random, number| {
            let question = question(texts, random, ENGLISH, QuestionType::Noul, 2, Options::Plain);
            (scalars(number), Object::from_iter([("q", question)]))
        });
    }

    /// Ids of questions that need escapes, and requests of many questions.
    fn names(&mut self) {
        self.add("question_ids", 6, |texts, random, number| {
            let state = Kind::Sentence.draw(texts, random, ENGLISH, number);
            const IDS: [[&str; 3]; 6] = [
                ["a b", "a.b[0]", "a/b"],
                ["quote\"d", "back\\slash", "it's"],
                ["tab\t", "line\n", "0"],
                ["\u{e9}", "e\u{301}", "\u{1f600}"],
                ["\u{8d28}\u{95ee}", "\u{633}\u{624}\u{627}\u{644}", "q"],
                ["type", "state", "true"],
            ];
            let ids = IDS.get(number).copied().unwrap_or_default();
            let questions = mixed(texts, random, ENGLISH, 3).into_iter().map(|(_, question)| question);
            (state, ids.into_iter().zip(questions).collect())
        });
        self.add("many_questions", 4, |texts, random, number| {
            let language = other_language(number, 4);
            (form(texts, random, language), mixed(texts, random, language, 12))
        });
    }

    /// Requests in shapes that are allowed beside the usual ones, each about a text and about an object.
    fn compat(&mut self) {
        let n = compat::QUESTIONS.len();
        self.add("compat", 2 * n, |texts, random, number| {
            let state = if number < n { Kind::Sentence } else { Kind::Flat };
            (state.draw(texts, random, ENGLISH, number), compat::questions(number % n))
        });
    }
}

/// English, but for every `step`th number one of the other languages in turn.
fn other_language(number: usize, step: usize) -> &'static str {
    if number % step == step - 1 {
        LANGUAGES.get(number / step % LANGUAGES.len()).copied().unwrap_or(ENGLISH)
    } else {
        ENGLISH
    }
}
