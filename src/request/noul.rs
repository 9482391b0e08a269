//! The two options of a noul question.

use super::question::{Fault, OptionSet};
use super::{Reason, body::text_of};
use crate::json::{Object, Value};

/// Reads the two options, always false then true, from `criteria` and `labels`.
pub(super) fn read(criteria: &Value, labels: Option<&Value>) -> Result<OptionSet, Fault> {
    let fault = |field, message| Err(Fault::new(Reason::InvalidNoulCriteria, field, message));
    if !(criteria.is_null() || criteria.as_object().is_some()) {
        let message = format!(
            "a noul question takes 'criteria' as a dict with optional 'true'/'false' descriptions, or omits it; got {}",
            criteria.python_type_name()
        );
        return fault(".criteria", message);
    }
    let criteria = criteria.as_object();
    if let Some(keys) = criteria.and_then(foreign_keys) {
        let keys: Value = keys.into_iter().collect();
        let message = format!(
            "a noul question takes 'criteria' keyed only 'true'/'false', got {}; either, both or \
             neither may be given, and 'labels' sets other words for them",
            keys.python_repr()
        );
        return fault(".criteria", message);
    }
    // The rule in the words users of the published package know.
    let rule = "noul labels must map exactly 'false' and 'true' to distinct non-empty strings";
    let Some(words) = words(labels) else { return fault(".labels", rule.to_owned()) };
    Ok(OptionSet {
        texts: options(criteria, &words),
        answer_keys: vec!["false".to_owned(), "true".to_owned()],
        labels: vec![Value::from(false), Value::from(true)],
    })
}

/// The lower-cased keys of `criteria` that are neither `true` nor `false`, or nothing when all are.
///
/// The published package reports every key then, so all of them are given back, sorted and without repeats.
fn foreign_keys(criteria: &Object) -> Option<Vec<String>> {
    let mut keys: Vec<String> = criteria.keys().map(str::to_lowercase).collect();
    if keys.iter().all(|key| key == "true" || key == "false") {
        return None;
    }
    keys.sort_unstable();
    keys.dedup();
    Some(keys)
}

/// The words for false and true: `labels` stripped of white space, or `false` and `true` when it is absent or `null`.
/// `None` when the labels break the rule.
fn words(labels: Option<&Value>) -> Option<[String; 2]> {
    let labels = match labels {
        None | Some(Value::Null) => return Some(["false".to_owned(), "true".to_owned()]),
        Some(labels) => labels.as_object().filter(|labels| labels.len() == 2)?,
    };
    let word = |key| Some(python_strip(labels.get(key)?.as_str()?).to_owned());
    let (no, yes) = (word("false")?, word("true")?);
    (!no.is_empty() && !yes.is_empty() && no != yes).then_some([no, yes])
}

/// The two option texts, always false then true. A description that is missing, `null` or `""` gets the default one;
/// of several spellings of a key (`TRUE`, `true`) the last wins.
fn options(criteria: Option<&Object>, words: &[String; 2]) -> Vec<String> {
    let description = |key: &str| {
        let entries = criteria.into_iter().flat_map(Object::iter);
        let given = entries.filter(|(k, _)| k.to_lowercase() == key).map(|(_, value)| value).last()?;
        if given.is_null() || given.as_str() == Some("") { None } else { Some(text_of(given).into_owned()) }
    };
    let [no, yes] = words;
    let no_text = description("false").unwrap_or_else(|| "no, the statement does not hold".to_owned());
    let yes_text = description("true").unwrap_or_else(|| "yes, the statement holds".to_owned());
    vec![format!("{no}: {no_text}"), format!("{yes}: {yes_text}")]
}

/// Whether nothing is left of `text` after Python's `str.strip()`.
pub fn is_blank(text: &str) -> bool {
    python_strip(text).is_empty()
}

/// Python's `str.strip()`: its white space has the four information separators that Rust's lacks.
fn python_strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_what_python_strips() {
        let blanks = "\t\n\u{b}\u{c}\r\u{1c}\u{1d}\u{1e}\u{1f} \u{85}\u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
        assert_eq!(python_strip(&format!("{blanks}a b{blanks}")), "a b");
        assert_eq!(python_strip("\u{200b}x\u{feff}"), "\u{200b}x\u{feff}");
        assert_eq!(python_strip(blanks), "");
    }

    #[test]
    fn the_last_spelling_of_a_key_wins() {
        let criteria: Object = [("TRUE", "first"), ("true", "second"), ("False", "")].into_iter().collect();
        let words = words(None).unwrap();
        assert_eq!(options(Some(&criteria), &words), ["false: no, the statement does not hold", "true: second"]);
        assert_eq!(foreign_keys(&criteria), None);
    }

    #[test]
    fn foreign_keys_are_all_named() {
        let criteria: Object = [("yes", ""), ("NO", ""), ("no", ""), ("true", "")].into_iter().collect();
        assert_eq!(foreign_keys(&criteria), Some(vec!["no".to_owned(), "true".to_owned(), "yes".to_owned()]));
    }
}
