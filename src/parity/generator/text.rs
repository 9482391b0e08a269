//! The texts the corpus is made of: files in sections, one text a line.

use super::random::Random;
use crate::json::{self, Object, Value};

const PROSE: &str = include_str!("../corpus/prose.txt");
const LEXICON: &str = include_str!("../corpus/lexicon.txt");
const PRESETS: &str = include_str!("../corpus/presets.json");

/// English, in which most items are.
pub(super) const ENGLISH: &str = "en";

/// The other languages: Latin, Cyrillic, Greek, Arabic, Hebrew, Devanagari, Thai and East Asian scripts, mixed so that any
/// few that follow each other differ.
pub(super) const LANGUAGES: [&str; 17] =
    ["de", "ar", "zh", "fr", "hi", "ja", "ru", "he", "es", "ko", "el", "th", "it", "vi", "tr", "pl", "pt"];

/// The texts, read once.
#[derive(Debug)]
pub(super) struct Texts {
    prose: Vec<(&'static str, Vec<&'static str>)>,
    lexicon: Vec<(&'static str, Vec<&'static str>)>,
    presets: Value,
}

impl Texts {
    pub(super) fn read() -> Self {
        Self {
            prose: sections(PROSE),
            lexicon: sections(LEXICON),
            presets: json::parse(PRESETS.as_bytes()).unwrap_or_default(),
        }
    }

    /// The passages of a language.
    pub(super) fn prose(&self, language: &str) -> &[&'static str] {
        section(&self.prose, language)
    }

    /// The short texts of `use_` in a language.
    pub(super) fn short(&self, use_: &str, language: &str) -> &[&'static str] {
        section(&self.lexicon, &format!("{use_} {language}"))
    }

    /// Labels with their descriptions.
    pub(super) fn labels(&self, language: &str) -> Vec<(&'static str, &'static str)> {
        self.short("labels", language).iter().filter_map(|line| line.split_once(" | ")).collect()
    }

    /// Scales, each from its lowest level to its highest.
    pub(super) fn scales(&self, language: &str) -> Vec<Vec<&'static str>> {
        self.short("levels", language).iter().map(|line| line.split(" | ").collect()).collect()
    }

    /// A fixed set of questions.
    pub(super) fn preset(&self, name: &str) -> Object {
        self.presets.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// A sentence or, in another language, a passage.
    pub(super) fn sentence(&self, random: &mut Random, language: &str) -> &'static str {
        let sentences = self.short("sentences", language);
        random.pick(if sentences.is_empty() { self.prose(language) } else { sentences })
    }

    /// `n` passages as paragraphs; a language that has too few is followed by one passage of each other language.
    pub(super) fn paragraphs(&self, random: &mut Random, language: &str, n: usize) -> String {
        let mut passages = random.draw(self.prose(language), n);
        if language != ENGLISH {
            for other in LANGUAGES.into_iter().filter(|other| *other != language) {
                if passages.len() < n {
                    passages.push(random.pick(self.prose(other)));
                }
            }
        }
        passages.join("\n\n")
    }
}

/// Reads `[name]` lines and what stands under them; blank lines and lines that start with `#` are left out.
fn sections(text: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            sections.push((name, Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}

fn section<'a>(sections: &'a [(&str, Vec<&'static str>)], name: &str) -> &'a [&'static str] {
    sections.iter().find(|(n, _)| *n == name).map_or(&[], |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_language_has_everything() {
        let texts = Texts::read();
        for language in LANGUAGES {
            assert_eq!(texts.prose(language).len(), 2, "{language}");
            assert_eq!(texts.short("ask", language).len(), 3, "{language}");
            assert_eq!(texts.labels(language).len(), 4, "{language}");
            assert_eq!(texts.scales(language)[0].len(), 5, "{language}");
        }
        assert!(texts.prose(ENGLISH).len() >= 16);
        for use_ in ["sentences", "tasks", "tools", "fields", "noul", "choice", "score", "steps"] {
            assert!(texts.short(use_, ENGLISH).len() >= 7, "{use_}");
        }
        assert!(texts.labels(ENGLISH).len() > 20);
        assert_eq!(texts.short("steps", ENGLISH).len(), 20);
        assert_eq!(texts.scales(ENGLISH).len(), 4);
        for preset in ["review", "handover", "audit", "inbox", "guard", "route", "thread"] {
            assert!(texts.preset(preset).len() >= 4, "{preset}");
        }
    }

    #[test]
    fn no_text_stands_twice_and_every_line_is_read() {
        for (text, n_notes) in [(PROSE, 1), (LEXICON, 2)] {
            let sections = sections(text);
            let n_lines: usize = sections.iter().map(|(_, lines)| lines.len() + 1).sum();
            assert_eq!(n_lines + n_notes, text.lines().filter(|line| !line.is_empty()).count());
            let names: HashSet<_> = sections.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), sections.len());
            for (name, lines) in &sections {
                assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len(), "{name}");
            }
        }
        let texts = Texts::read();
        for line in LEXICON.lines().filter(|line| line.contains('|')) {
            assert!(
                line.starts_with('#') || line.split(" | ").all(|part| !part.is_empty() && part.trim() == part),
                "{line}"
            );
        }
        // Labels are keys.
        let labels = texts.labels(ENGLISH);
        assert_eq!(labels.iter().map(|(label, _)| label).collect::<HashSet<_>>().len(), labels.len());
    }

    #[test]
    fn english_is_ascii() {
        let texts = Texts::read();
        assert!(texts.prose(ENGLISH).iter().all(|text| text.is_ascii()));
        assert!(
            texts.lexicon.iter().filter(|(name, _)| name.ends_with(" en")).all(|(_, lines)| lines.concat().is_ascii())
        );
        assert!(PRESETS.is_ascii());
    }
}
