//! Values of the YAML subset that model cards use: one-line scalars and lists of them.

/// A value of the front matter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Yaml {
    Null,
    Text(String),
    /// A plain scalar that YAML reads as a boolean, a number or a date, as it is spelled.
    Plain(String),
    List(Vec<Yaml>),
    /// Something the subset does not cover.
    Beyond,
}

/// Cuts white space off. Only the space is white to YAML here: tabs are replaced before.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(' ')
}

/// Whether a plain text is `key: value`.
pub(super) fn is_mapping(text: &str) -> bool {
    text.contains(": ") || text.ends_with(':')
}

/// A scalar that is alone on its line.
pub(super) fn scalar(text: &str) -> Yaml {
    if text.starts_with(['"', '\'']) {
        return match quoted(text) {
            Some((text, rest)) if trim(rest).is_empty() => Yaml::Text(text),
            _ => Yaml::Beyond,
        };
    }
    let indicator = text.starts_with(['{', '[', ']', '}', ',', '#', '&', '*', '!', '|', '>', '%', '@', '`']);
    let structure = text.starts_with("? ") || text.starts_with("- ") || matches!(text, "?" | "-");
    if indicator || structure || is_mapping(text) {
        return Yaml::Beyond;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Yaml::Null,
        _ if is_not_text(text) => Yaml::Plain(text.to_owned()),
        _ => Yaml::Text(text.to_owned()),
    }
}

/// `[a, 'b', "c"]` without nesting.
pub(super) fn flow_list(text: &str) -> Option<Yaml> {
    let mut rest = trim(text.strip_prefix('[')?);
    let mut items = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return trim(after).is_empty().then_some(Yaml::List(items));
        }
        let item;
        if rest.starts_with(['"', '\'']) {
            let (text, after) = quoted(rest)?;
            item = Yaml::Text(text);
            rest = trim(after);
        } else {
            let end = rest.find([',', ']', '[', '{', '}'])?;
            let (text, after) = rest.split_at(end);
            let text = trim(text);
            // `:` and `?` are about pairs here.
            if after.starts_with(['[', '{', '}']) || text.is_empty() || text.starts_with(':') || text.contains('?') {
                return None;
            }
            item = scalar(text);
            rest = after;
        }
        items.push(item);
        match rest.strip_prefix(',') {
            Some(after) => rest = trim(after),
            None if rest.starts_with(']') => {}
            None => return None,
        }
    }
}

/// A quoted scalar at the start of `text`, and what follows it.
pub(super) fn quoted(text: &str) -> Option<(String, &str)> {
    let open = text.chars().next()?;
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if open == '\'' && chars.next_if(|(_, next)| *next == '\'').is_some() => out.push('\''),
            _ if c == open => return Some((out, text.get(at + 1..)?)),
            '\\' if open == '"' => {
                let (_, escape) = chars.next()?;
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                if digits == 0 {
                    out.push(escaped(escape)?);
                    continue;
                }
                let mut code = 0u32;
                for _ in 0..digits {
                    code = code.checked_mul(16)?.checked_add(chars.next()?.1.to_digit(16)?)?;
                }
                out.push(char::from_u32(code)?);
            }
            _ => out.push(c),
        }
    }
    None
}

fn escaped(c: char) -> Option<char> {
    Some(match c {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' | '"' | '/' | '\\' => c,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}

/// Whether YAML 1.1 reads a plain scalar as a boolean, a number or a date. In doubt it does.
fn is_not_text(text: &str) -> bool {
    let words = ["yes", "no", "true", "false", "on", "off"];
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        text == word || text == word.to_uppercase() || text.strip_prefix(&first.to_uppercase()) == Some(rest)
    };
    if words.iter().any(|word| capital(word)) || matches!(text, "=" | "<<") {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    // Numbers, sexagesimal numbers and dates start with a digit (or a point) and hold nothing else.
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit())
        || unsigned.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let based = |prefix: &str, digits: &str| {
        unsigned.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| digits.contains(c)))
    };
    let date = || {
        let digits: Vec<usize> = text.split(['T', 't', ' ']).next().unwrap_or("").split('-').map(str::len).collect();
        let shape = matches!(digits.as_slice(), [4, 1..=2, 1..=2]);
        shape && text.chars().all(|c| c.is_ascii_digit() || "-:.TtZ+ ".contains(c))
    };
    let decimal = || {
        let exponent = unsigned.split_once(['e', 'E']).map(|(mantissa, exponent)| {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or("");
            mantissa.contains('.') && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        });
        let mantissa = unsigned.split(['e', 'E']).next().unwrap_or("");
        let points = mantissa.matches('.').count();
        mantissa.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | ':'))
            && points <= 1
            && exponent != Some(false)
    };
    numeric && (based("0x", "0123456789abcdefABCDEF_") || based("0b", "01_") || date() || decimal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars() {
        for plain in ["no", "Yes", "OFF", "12", "-1.5", "1_000", "0x1F", "1.0e+5", "2024-01-02", "12:30", ".5", ".inf"]
        {
            assert_eq!(scalar(plain), Yaml::Plain(plain.into()));
        }
        for plain in
            ["nO", "v1.0", "1.2.3", "1e5", "a-b", "-x", "?x", "0xZ", "3B", "2024-x-02", "apache-2.0", "a\u{a0}"]
        {
            assert_eq!(scalar(plain), Yaml::Text(plain.into()));
        }
        for beyond in ["-", "?", "- a", "a: b", "a:", "*a", "&a b", "!t a", "|", ">-", "{a: b}", "\"a\" b", "'a"] {
            assert_eq!(scalar(beyond), Yaml::Beyond, "{beyond}");
        }
    }

    #[test]
    fn flow_lists() {
        let texts = |items: &[&str]| Some(Yaml::List(items.iter().map(|&item| Yaml::Text(item.into())).collect()));
        assert_eq!(flow_list("[a, 'b, c' ,\"d\",  e f ,]"), texts(&["a", "b, c", "d", "e f"]));
        assert_eq!(flow_list("[ ]"), texts(&[]));
        for beyond in ["[a, [b]]", "[a", "[a,,b]", "[:a]", "[?a]", "[a] b", "[{a: b}]", "[,]", "['a' b]"] {
            assert_eq!(flow_list(beyond), None, "{beyond}");
        }
    }
}
