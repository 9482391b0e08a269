//! JSON with a line for every entry of its last list.

use crate::cli::escape;
use crate::json::{Object, Value};

/// `facts` with `list` at its end under `key`: the facts in the first line, every entry in one of its own.
pub(super) fn listed(facts: Object, key: &str, list: impl IntoIterator<Item = Value>) -> String {
    let line = |value: Value| escape::json(value.dumps());
    let facts = line(Value::Object(facts));
    // The object is left open for its list.
    let facts = facts.strip_suffix('}').unwrap_or(&facts);
    let comma = if facts == "{" { "" } else { ",\n" };
    let entries: Vec<String> = list.into_iter().map(line).collect();
    format!("{facts}{comma}{}: [\n{}\n]}}", line(key.into()), entries.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_object_with_its_list() {
        let facts: Object = [("a", 1_i64), ("b", 2)].into_iter().collect();
        let entries = || ["x\u{1b}", "y"].map(Value::from);
        let text = listed(facts, "c", entries());
        assert_eq!(text, "{\"a\": 1, \"b\": 2,\n\"c\": [\n\"x\\u001b\",\n\"y\"\n]}");
        for text in [text, listed(Object::new(), "c", entries()), listed(Object::new(), "c", [])] {
            assert!(crate::json::parse(text.as_bytes()).unwrap().get("c").is_some(), "{text}");
        }
    }
}
