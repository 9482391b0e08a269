//! Reading a model's name: the heuristics of the field's naming convention.
//!
//! `laya-tiny-instruct-v0.1-8M` is taken apart at its dashes into basename, fine-tune, version and size label. The rules
//! are those of gguf-py's model metadata, so that files carry the same `general.*` keys.

/// The parts of a model id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) full: Option<String>,
    pub(super) organization: Option<String>,
    pub(super) basename: Option<String>,
    pub(super) finetune: Option<String>,
    pub(super) version: Option<String>,
    pub(super) size_label: Option<String>,
}

/// What a part of a name is taken for.
#[derive(Default, Clone)]
struct Part {
    text: String,
    basename: bool,
    size: bool,
    finetune: bool,
    version: bool,
    /// An element type such as `F16`.
    ty: bool,
}

impl Part {
    fn n_kinds(&self) -> usize {
        [self.basename, self.size, self.finetune, self.version, self.ty].iter().filter(|&&kind| kind).count()
    }
}

/// Takes a model id apart; `n_params` tells sizes from context lengths.
///
/// # Errors
/// A digit of another script, which counts as a digit for the convention in some places and not in others.
pub(super) fn parse(id: &str, n_params: u64) -> Result<Name, char> {
    if id.contains(' ') {
        return Ok(Name { full: Some(id.to_owned()), ..Name::default() });
    }
    if let Some(digit) = id.chars().find(|c| c.is_numeric() && !c.is_ascii()) {
        return Err(digit);
    }
    let (organization, full) = match id.split_once('/') {
        Some((organization, full)) => (Some(organization), full),
        None => (None, id),
    };
    let organization = organization.filter(|name| !name.starts_with('.')).map(str::to_owned);
    let mut parts: Vec<Part> = full
        .split('-')
        .filter(|part| !part.is_empty())
        .enumerate()
        .map(|(i, part)| annotate(part, i > 0, n_params))
        .collect();

    // A size in words says nothing beside one in numbers.
    if parts.iter().any(|part| part.size && part.text.contains(|c: char| c.is_ascii_digit())) {
        for part in parts.iter_mut().filter(|part| part.text.chars().all(char::is_alphabetic)) {
            part.size = false;
        }
    }
    let mut at_start = true;
    for part in &mut parts {
        let none = part.n_kinds() == 0;
        if at_start && ((none && part.text.starts_with(char::is_alphabetic)) || part.version) {
            part.basename = true;
        } else {
            at_start = false;
            part.finetune |= none;
        }
    }
    // A version at the end of the basename is a version.
    for part in parts.iter_mut().rev() {
        if !(part.basename && part.n_kinds() > 1) {
            break;
        }
        part.basename = false;
    }
    let join = |select: fn(&Part) -> bool| {
        let texts: Vec<&str> = parts.iter().filter(|part| select(part)).map(|part| part.text.as_str()).collect();
        Some(texts.join("-")).filter(|text| !text.is_empty())
    };
    let mut sizes: Vec<&str> = Vec::new();
    for part in parts.iter().filter(|part| part.size) {
        if !sizes.contains(&part.text.as_str()) {
            sizes.push(&part.text);
        }
    }
    let size_label = Some(sizes.join("-")).filter(|text| !text.is_empty());
    let finetune = join(|part| part.finetune);
    let version = join(|part| part.version && !part.basename);
    let clear = size_label.is_some() || finetune.is_some() || version.is_some();
    let basename = join(|part| part.basename).filter(|_| clear);
    Ok(Name { full: Some(full.to_owned()), organization, basename, finetune, version, size_label })
}

fn annotate(text: &str, later: bool, n_params: u64) -> Part {
    let mut part = Part { text: text.to_owned(), ..Part::default() };
    let lower: String = text.chars().map(folded).collect();
    if is_version(&lower) {
        part.version = true;
    } else if is_type(&lower) {
        part.ty = true;
        part.text = text.to_uppercase();
    } else if later && is_size(&lower) {
        size(&mut part, n_params);
    } else if later && matches!(lower.as_str(), "chat" | "instruct" | "vision" | "lora") {
        part.finetune = true;
    }
    part
}

/// The letter that a pattern without regard to case takes a character for.
fn folded(c: char) -> char {
    match c {
        '\u{130}' | '\u{131}' => 'i',
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => c.to_ascii_lowercase(),
    }
}

/// Normalizes a size label; one far from the model's size is a context length and belongs to the fine-tune.
fn size(part: &mut Part, n_params: u64) {
    let mut text: Vec<char> = part.text.replace('_', ".").chars().collect();
    // bloom-7b1 is 7.1b.
    if let [.., unit, digit] = text.as_mut_slice()
        && digit.is_ascii_digit()
    {
        let (unit, digit) = (*unit, *digit);
        text.truncate(text.len() - 2);
        text.extend(['.', digit, unit]);
    }
    if let [.., before, unit] = text.as_mut_slice()
        && before.is_ascii_digit()
    {
        unit.make_ascii_uppercase();
    }
    let text: String = text.into_iter().collect();
    let (digits, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    // An unknown unit counts as a thousandth, as in the heuristic this follows.
    let scale = match unit {
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        "T" => 1e12,
        _ => 1e-3,
    };
    let far = digits.parse::<f64>().ok().filter(|_| n_params > 0).is_some_and(|n| {
        let bound = (7 * u128::from(n_params) / 8) as f64;
        (n * scale - n_params as f64).abs() > bound
    });
    part.finetune = far;
    part.size = !far;
    part.text = if far { digits.to_owned() + &unit.to_lowercase() } else { text };
}

/// `(v|iter)?\d+([.]\d+)*`
fn is_version(lower: &str) -> bool {
    let rest = lower.strip_prefix('v').or_else(|| lower.strip_prefix("iter")).unwrap_or(lower);
    rest.split('.').all(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// `i?q\d(_\w)*|b?fp?(16|32)`
fn is_type(lower: &str) -> bool {
    let quant = || {
        let rest = lower.strip_prefix('i').unwrap_or(lower).strip_prefix('q')?;
        let rest = rest.strip_prefix(|c: char| c.is_ascii_digit())?;
        let mut rest = rest.chars();
        loop {
            match (rest.next(), rest.next()) {
                (None, _) => return Some(()),
                (Some('_'), Some(c)) if c.is_alphanumeric() || c == '_' => {}
                _ => return None,
            }
        }
    };
    let float = || {
        let rest = lower.strip_prefix('b').unwrap_or(lower).strip_prefix('f')?;
        let rest = rest.strip_prefix('p').unwrap_or(rest);
        matches!(rest, "16" | "32").then_some(())
    };
    quant().or_else(float).is_some()
}

/// `(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)`
fn is_size(lower: &str) -> bool {
    if matches!(lower, "small" | "mini" | "medium" | "large" | "xl" | "xxl") {
        return true;
    }
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = |text: &str| -> Option<()> {
        let n = digits(text);
        let mut rest = text.get(n..).filter(|_| n > 0)?;
        if let Some(fraction) = rest.strip_prefix(['.', '_']) {
            let n = digits(fraction);
            rest = fraction.get(n..).filter(|_| n > 0)?;
        }
        let rest = rest.strip_prefix(['k', 'm', 'b', 't'])?;
        (rest.len() <= 1 && digits(rest) == rest.len()).then_some(())
    };
    let experts = || number(lower.get(digits(lower)..)?.strip_prefix('x').filter(|_| digits(lower) > 0)?);
    number(lower).or_else(|| number(lower.strip_prefix('a')?)).or_else(experts).is_some()
}

/// A name in words: dashes become spaces, words in lower case get a capital unless they are versions or start with a
/// digit.
///
/// # Errors
/// A letter whose capital is several letters or not its upper case.
pub(super) fn title(id: &str) -> Result<String, char> {
    let words = id.trim().replace('-', " ");
    let words = words.split_whitespace().map(|word| {
        let version = word.strip_prefix('v').is_some_and(is_version) || word.starts_with(|c: char| c.is_ascii_digit());
        if is_lower(word) && !version { capitals(word) } else { Ok(word.to_owned()) }
    });
    Ok(words.collect::<Result<Vec<_>, _>>()?.join(" "))
}

/// Python's `islower`: some letter has a case, and every one that has is lower.
fn is_lower(word: &str) -> bool {
    // The letters that are capitals of two.
    let title = |c| {
        matches!(c, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}' | '\u{1f88}'..='\u{1f8f}'
        | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}')
    };
    word.chars().any(char::is_lowercase) && !word.chars().any(|c| c.is_uppercase() || title(c))
}

/// Python's `title`: a capital at the start of every run of letters that have a case.
fn capitals(word: &str) -> Result<String, char> {
    let mut out = String::with_capacity(word.len());
    let mut inside = false;
    for c in word.chars() {
        let mut upper = c.to_uppercase();
        match (inside, c) {
            (true, _) => out.push(c),
            // Letters of two, and of a script that has capitals only in words of capitals.
            (false, '\u{1c4}'..='\u{1cc}' | '\u{1f1}'..='\u{1f3}' | '\u{10d0}'..='\u{10ff}') => return Err(c),
            (false, _) if upper.len() > 1 => return Err(c),
            (false, _) => out.extend(upper.next()),
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    Ok(out)
}

/// A parameter count as a size label: `322M`, `1.2B`, `30K`.
pub(super) fn rounded(n_params: u64) -> String {
    let n = n_params as f64;
    let (scaled, unit) = match n {
        _ if n > 1e12 => (n * 1e-12, "T"),
        _ if n > 1e9 => (n * 1e-9, "B"),
        _ if n > 1e6 => (n * 1e-6, "M"),
        _ => (n * 1e-3, "K"),
    };
    let whole = format!("{:.0}", scaled);
    let digits = 2usize.saturating_sub(whole.trim_start_matches('0').len());
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(id: &str, n_params: u64) -> [Option<String>; 4] {
        let name = parse(id, n_params).unwrap();
        [name.basename, name.finetune, name.version, name.size_label]
    }

    fn some(texts: [&str; 4]) -> [Option<String>; 4] {
        texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()))
    }

    /// As gguf-py takes them apart.
    #[test]
    fn names_come_apart() {
        assert_eq!(parts("Mistral-7B-Instruct-v0.2", 0), some(["Mistral", "Instruct", "v0.2", "7B"]));
        assert_eq!(parts("Mixtral-8x7B-v0.1", 0), some(["Mixtral", "", "v0.1", "8x7B"]));
        assert_eq!(parts("bloom-7b1-petals", 0), some(["bloom", "petals", "", "7.1B"]));
        assert_eq!(parts("Meta-Llama-3-8B", 0), some(["Meta-Llama-3", "", "", "8B"]));
        assert_eq!(parts("laya", 300_000_000), some(["", "", "", ""]));
        assert_eq!(parts("laya-small-300M", 300_000_000), some(["laya-small", "", "", "300M"]));
        assert_eq!(parts("laya-tiny-ms-v0.1-8M", 34_000), some(["laya-tiny-ms-v0.1", "8m", "", ""]));
        assert_eq!(parts("0123abc-x", 0), some(["", "0123abc-x", "", ""]));
        assert_eq!(parts("a name with spaces", 0), some(["", "", "", ""]));
        assert_eq!(parts("Phi-3-mini-4k-instruct", 3_800_000_000), some(["Phi-3", "4k-instruct", "", "mini"]));
        assert_eq!(parts("x-Q4_K_M-f16", 0), some(["", "", "", ""]));
        assert_eq!(parts("laya--large", 0), some(["laya", "", "", "large"]));
        assert_eq!(parts("v2-laya-1.5b-xl", 0), some(["v2-laya", "xl", "", "1.5B"]));
        assert_eq!(
            parts("laya-multilingual-2024.1-7_5B", 7_500_000_000),
            some(["laya-multilingual-2024.1", "", "", "7.5B"])
        );
        assert_eq!(parts("Qwen-A3B-30b", 0), some(["Qwen", "", "", "A3B-30B"]));
        assert_eq!(parts("laya-v2", 0), some(["laya", "", "v2", ""]));
        assert_eq!(parts("laya-base-iter3-v2.1", 0), some(["laya-base", "", "iter3-v2.1", ""]));
        assert_eq!(parse("org/name", 0).unwrap().organization.as_deref(), Some("org"));
        assert_eq!(parse("./name", 0).unwrap().organization, None);
        assert_eq!(parts("laya-m\u{131}ni-5\u{212a}", 5), some(["laya", "5k", "", "m\u{131}ni"]));
        assert_eq!(parse("laya-\u{661}B", 0), Err('\u{661}'));
    }

    #[test]
    fn titles() {
        for (id, want) in [
            ("laya-tiny-ms-v0.1-8M", "Laya Tiny Ms v0.1 8M"),
            ("jhu-clsp", "Jhu Clsp"),
            ("mmBERT-base", "mmBERT Base"),
            ("don't-stop 3rd", "Don'T Stop 3rd"),
            ("stra\u{df}e-\u{e9}t\u{e9}", "Stra\u{df}e \u{c9}t\u{e9}"),
            ("\u{1c5}x", "\u{1c5}x"),
        ] {
            assert_eq!(title(id).as_deref(), Ok(want));
        }
        for c in ['\u{df}', '\u{1c6}', '\u{10d0}', '\u{fb01}', '\u{1f80}'] {
            assert_eq!(title(&format!("a {c}b")), Err(c));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(rounded(321_908_998), "322M");
        assert_eq!(rounded(1_234_567_890), "1.2B");
        assert_eq!(rounded(30_000), "30K");
        assert_eq!(rounded(1_000_000), "1000K");
        assert_eq!(rounded(4), "0.00K");
        assert_eq!(rounded(950), "1.0K");
        assert_eq!(rounded(45), "0.04K");
        assert_eq!(rounded(99_950_000), "100M");
    }
}
