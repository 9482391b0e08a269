//! The `post_processor` of a `tokenizer.json`: checked, and read for the order of three keys.
//!
//! Rows are built without it. But the field's converter looks at it, so it decides in which order the keys that say what
//! is added to a text are written, and a template of another shape means that the tokenizer is of another kind.

use super::config::Config;
use crate::error::Result;
use crate::json::Value;

/// The keys `add_<kind>_token`, in their usual order.
const KINDS: [&str; 3] = ["bos", "eos", "sep"];
const KEY: &str = "post_processor";

/// The kinds in the order in which they are written. `eos` is the text of the token that ends a row.
pub(super) fn order(tokenizer: &Config, config: &Config, eos: &str) -> Result<[&'static str; 3]> {
    let mut seen = Vec::new();
    for template in templates(tokenizer)? {
        check(tokenizer, template)?;
        template_kinds(tokenizer, template, eos, &mut seen)?;
    }
    let said = KINDS.into_iter().filter(|kind| {
        let value = config.get(&format!("add_{kind}_token"));
        value.is_some_and(|value| value.as_bool().is_some())
    });
    seen.extend(said);
    seen.extend(KINDS);
    let place = |kind: &str| seen.iter().position(|seen| *seen == kind);
    let mut order = KINDS;
    order.sort_by_key(|kind| place(kind));
    Ok(order)
}

/// The templates among the processors; other kinds are refused.
fn templates(tokenizer: &Config) -> Result<Vec<&Value>> {
    let Some(processor) = tokenizer.get(KEY) else { return Ok(Vec::new()) };
    let ty = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    let whole = std::slice::from_ref(processor);
    let processors = match ty(processor).as_deref() {
        Some("Sequence") => processor.get("processors").and_then(Value::as_array),
        _ => Some(whole),
    };
    let processors = processors.ok_or_else(|| tokenizer.error("post_processor.processors", "must be a list"))?;
    let mut templates = Vec::new();
    for processor in processors {
        match ty(processor).as_deref() {
            Some("ByteLevel") => check_byte_level(tokenizer, KEY, processor)?,
            Some("TemplateProcessing") => templates.push(processor),
            other => {
                let message = format!("unsupported post-processor {}", other.unwrap_or("without a type"));
                return Err(tokenizer.error(KEY, message));
            }
        }
    }
    Ok(templates)
}

/// The flags of a ByteLevel part must be there, as the tokenizers library needs them.
pub(super) fn check_byte_level(tokenizer: &Config, key: &str, part: &Value) -> Result<()> {
    let bad = ["add_prefix_space", "trim_offsets", "use_regex"].into_iter().find(|&flag| match part.get(flag) {
        None => flag != "use_regex",
        Some(value) => value.as_bool().is_none(),
    });
    match bad {
        None => Ok(()),
        Some(flag) => Err(tokenizer.error(&format!("{key}.{flag}"), "of ByteLevel must be true or false")),
    }
}

fn pieces<'a>(template: &'a Value, key: &str) -> &'a [Value] {
    template.get(key).and_then(Value::as_array).unwrap_or_default()
}

/// A template must have the shape that the tokenizers library reads; it refuses anything else.
fn check(tokenizer: &Config, template: &Value) -> Result<()> {
    let u32_value = |value: &Value| value.as_u64().is_some_and(|n| u32::try_from(n).is_ok());
    let text = |value: Option<&Value>| value.is_some_and(|value| value.as_str().is_some());
    for key in ["single", "pair"] {
        let place = format!("{KEY}.{key}");
        let list = template.get(key).and_then(Value::as_array);
        let list = list.ok_or_else(|| tokenizer.error(&place, "must be a list, which the tokenizers library needs"))?;
        for piece in list {
            let object = piece.as_object().filter(|object| object.len() == 1);
            let good = object.and_then(|object| object.iter().next()).is_some_and(|(kind, piece)| {
                let id = piece.get("id").and_then(Value::as_str);
                let id = match kind {
                    "SpecialToken" => id.is_some(),
                    "Sequence" => matches!(id, Some("A" | "B")),
                    _ => false,
                };
                id && piece.get("type_id").is_some_and(u32_value)
            });
            if !good {
                let message = format!("{} is no piece that the tokenizers library reads", piece.dumps());
                return Err(tokenizer.error(&place, message));
            }
        }
    }
    let place = format!("{KEY}.special_tokens");
    let table = template.get("special_tokens").and_then(Value::as_object);
    let table =
        table.ok_or_else(|| tokenizer.error(&place, "must be an object, which the tokenizers library needs"))?;
    for (name, entry) in table.iter() {
        let all = |key: &str, good: &dyn Fn(&Value) -> bool| {
            entry.get(key).and_then(Value::as_array).is_some_and(|list| list.iter().all(good))
        };
        if !(text(entry.get("id")) && all("ids", &u32_value) && all("tokens", &|value| text(Some(value)))) {
            let message = format!("{name:?} must have an id, ids and tokens, which the tokenizers library needs");
            return Err(tokenizer.error(&place, message));
        }
    }
    Ok(())
}

/// Which kinds the template of one text and the template of two speak of.
fn template_kinds(tokenizer: &Config, template: &Value, eos: &str, seen: &mut Vec<&'static str>) -> Result<()> {
    let special = |piece: &Value| piece.get("SpecialToken")?.get("id")?.as_str().map(str::to_owned);
    let sequence = |piece: &Value| piece.get("Sequence")?.get("id")?.as_str().map(str::to_owned);
    let (mut first, mut last) = (None, None);
    if let [start, .., end] = pieces(template, "single") {
        (first, last) = (special(start), special(end));
        if first.is_some() {
            seen.push("bos");
        }
        if let Some(last) = last.as_deref() {
            if last != eos {
                let message = format!("the template ends with {last:?}, the eos token is {eos:?}");
                return Err(tokenizer.error("post_processor.single", message));
            }
            seen.push("eos");
        }
    }
    let mut inner = pieces(template, "pair");
    if let [start, rest @ ..] = inner
        && first.is_some()
        && special(start) == first
    {
        inner = rest;
    }
    if let [rest @ .., end] = inner
        && last.is_some()
        && special(end) == last
    {
        inner = rest;
    }
    if let [a, _, .., b] = inner
        && sequence(a).as_deref() == Some("A")
        && sequence(b).as_deref() == Some("B")
    {
        seen.push("sep");
    }
    Ok(())
}
