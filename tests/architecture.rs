//! The module map holds: every path from one module to another is an arrow of [`ARROWS`], `unsafe` stays in its two
//! places, printing and exiting are the command line's, files stay short.
//!
//! The source is read as text: comments, literals and `#[cfg(test)]` modules are blanked first, because prose may name
//! anything and tests may use more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Module -> the modules it may use. `error` is open to all; a module missing here fails the test.
const ARROWS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("json", &[]),
    ("gguf", &[]),
    ("safetensors", &["gguf", "json"]),
    ("kernels", &[]),
    ("layout", &["gguf"]),
    ("tokenizer", &["gguf"]),
    ("request", &["json"]),
    ("schema", &[]),
    ("spec", &["json", "gguf", "layout", "request"]),
    ("sequence", &["request", "tokenizer"]),
    ("model", &["gguf", "kernels", "sequence"]),
    ("readout", &["model", "request", "json", "sequence", "spec"]),
    ("engine", &["gguf", "json", "kernels", "layout", "tokenizer", "request", "sequence", "model", "readout", "spec"]),
    ("convert", &["json", "gguf", "layout", "safetensors", "tokenizer"]),
    ("bench", &["kernels", "model"]),
    ("calibrate", &["engine", "readout", "request", "spec", "json"]),
    (
        "parity",
        &[
            "engine",
            "gguf",
            "json",
            "kernels",
            "layout",
            "model",
            "readout",
            "request",
            "safetensors",
            "sequence",
            "spec",
            "tokenizer",
        ],
    ),
    (
        "cli",
        &[
            "bench",
            "json",
            "gguf",
            "kernels",
            "layout",
            "tokenizer",
            "request",
            "sequence",
            "model",
            "readout",
            "engine",
            "schema",
            "spec",
            "convert",
            "calibrate",
            "parity",
        ],
    ),
    // A binary parses nothing and computes nothing itself.
    ("bin", &["cli"]),
    // lib.rs declares modules and names nothing but the error type.
    ("lib", &[]),
];

/// Longest file, in lines.
const MAX_LINES: usize = 600;

/// The only files that may hold `unsafe`.
const UNSAFE: &[&str] = &["src/kernels/arch/", "src/gguf/map.rs"];

/// What only the command line may do.
const CLI_ONLY: &[&str] = &["println!", "print!", "eprintln!", "eprint!", "process::exit", "ExitCode"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file under `folder`, as (path from the root with `/`, text), sorted.
fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((relative(&path), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Rust file under {folder}");
    found
}

fn relative(path: &Path) -> String {
    let parts: Vec<_> = path.strip_prefix(root()).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
    parts.join("/")
}

/// The text with comments, strings and character literals turned to spaces; line breaks stay.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = literal_end(&chars, i);
        if end > i {
            out.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            i = end;
        } else {
            out.push(chars[i]);
            i += 1;
        }
    }
    out
}

/// The end of the comment or literal that starts at `i`, or `i` when none does.
fn literal_end(chars: &[char], i: usize) -> usize {
    let at = |j: usize| chars.get(j).copied().unwrap_or('\0');
    let within_word = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
    match (at(i), at(i + 1)) {
        ('/', '/') => (i..chars.len()).find(|j| at(*j) == '\n').unwrap_or(chars.len()),
        ('/', '*') => {
            let (mut depth, mut j) = (1, i + 2);
            while j < chars.len() && depth > 0 {
                match (at(j), at(j + 1)) {
                    ('/', '*') => (depth, j) = (depth + 1, j + 2),
                    ('*', '/') => (depth, j) = (depth - 1, j + 2),
                    _ => j += 1,
                }
            }
            j.min(chars.len())
        }
        ('"', _) => quoted_end(chars, i + 1, '"'),
        ('r', '"' | '#') if !within_word || at(i.wrapping_sub(1)) == 'b' => {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            if at(i + 1 + hashes) != '"' {
                return i;
            }
            let mut close = vec!['"'];
            close.resize(1 + hashes, '#');
            let body = i + 2 + hashes;
            (body..chars.len()).find(|j| chars[*j..].starts_with(&close)).map_or(chars.len(), |j| j + close.len())
        }
        // A lifetime has no closing quote two characters on.
        ('\'', '\\') => quoted_end(chars, i + 1, '\''),
        ('\'', _) if at(i + 2) == '\'' => i + 3,
        _ => i,
    }
}

fn quoted_end(chars: &[char], mut j: usize, close: char) -> usize {
    while j < chars.len() {
        match chars[j] {
            '\\' => j += 2,
            c if c == close => return j + 1,
            _ => j += 1,
        }
    }
    chars.len()
}

/// Blanks inline `#[cfg(test)] mod` blocks of code-only text and names the modules that are test files.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut code = code.to_owned();
    let mut test_files = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let start = from + found;
        from = start + 1;
        let rest = &code[start + "#[cfg(test)]".len()..];
        let Some(declaration) = rest.trim_start().strip_prefix("mod ") else { continue };
        let name: String = declaration.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if declaration[name.len()..].trim_start().starts_with(';') {
            test_files.push(name);
            continue;
        }
        let (mut depth, mut end) = (0, code.len());
        for (offset, c) in code[start..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    end = start + offset + 1;
                    break;
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        let blank: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    (code, test_files)
}

/// The library code of every file under `src`: path -> code without comments, literals and tests.
fn library_code() -> BTreeMap<String, String> {
    let mut code = BTreeMap::new();
    let mut test_files = Vec::new();
    for (path, text) in rust_files("src") {
        let (file_code, tests) = without_tests(&code_only(&text));
        let folder = match path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs")) => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        test_files.extend(tests.iter().map(|name| format!("{folder}/{name}.rs")));
        code.insert(path, file_code);
    }
    for file in test_files {
        assert!(code.remove(&file).is_some(), "{file} is declared as a test module but is not there");
    }
    code
}

/// The top-level module a file of `src` belongs to.
fn module_of(path: &str) -> &str {
    let path = path.strip_prefix("src/").unwrap();
    path.split_once('/').map_or(path.trim_end_matches(".rs"), |(folder, _)| folder)
}

/// Names that follow `prefix` in `code`: `crate::a`, `crate::{a::x, b}`, with the line each is on.
fn names_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (start, _) in code.match_indices(prefix) {
        if code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        let rest = &code[start + prefix.len()..];
        match rest.strip_prefix('{') {
            None => names.push((line, first_word(rest))),
            Some(group) => {
                let (mut depth, mut item) = (1, String::new());
                for c in group.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 || (depth == 1 && c == ',') {
                        names.push((line, first_word(&item)));
                        item.clear();
                    } else {
                        item.push(c);
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    names.retain(|(_, name)| !name.is_empty());
    names
}

fn first_word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn every_arrow_is_in_the_table() {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut broken = Vec::new();
    let mut n_checked = 0;
    for (path, code) in library_code() {
        let module = module_of(&path);
        let Some(allowed) = arrows.get(module) else {
            broken.push(format!("{path}: module {module} is not in the table"));
            continue;
        };
        let prefixes: &[&str] = if module == "bin" { &["laya::", "crate::"] } else { &["crate::"] };
        for (line, name) in prefixes.iter().flat_map(|prefix| names_after(&code, prefix)) {
            n_checked += 1;
            let error_type = matches!(name.as_str(), "error" | "Error" | "ErrorKind" | "Result");
            // Macros exported at the crate root are not modules.
            if name != module && !error_type && !allowed.contains(&name.as_str()) && arrows.contains_key(name.as_str())
            {
                broken.push(format!("{path}:{line}: {module} -> {name}"));
            }
        }
        // `super::super::…` must not climb out of its module to the crate root.
        let depth = path.matches('/').count() - usize::from(path.ends_with("/mod.rs") || path == "src/lib.rs");
        for (line, _) in names_after(&code, &"super::".repeat(depth.max(1))) {
            if module != "lib" {
                broken.push(format!("{path}:{line}: climbs to the crate root with super; write crate::"));
            }
        }
    }
    assert!(n_checked > 30, "only {n_checked} paths seen: the reader of this test is broken");
    assert!(broken.is_empty(), "arrows the module map does not allow:\n{}", broken.join("\n"));
}

#[test]
fn the_reader_of_this_test_sees_what_it_must() {
    let source = r##"
use crate::json::{Value, parse};
use crate::{gguf::File, kernels};
// use crate::model;
fn f<'a>(x: &'a str) -> char { let s = "crate::engine"; let r = r#"crate::cli"#; '"' }
#[cfg(test)]
mod tests { use crate::convert; fn g() { if true {} } }
fn h() { crate::request::go(); }
"##;
    let (code, _) = without_tests(&code_only(source));
    let names: Vec<_> = names_after(&code, "crate::").into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["json", "gguf", "kernels", "request"]);
    assert_eq!(names_after(&code, "crate::")[0].0, 2);
}

#[test]
fn unsafe_stays_in_its_two_places() {
    let mut n_files = 0;
    for (path, code) in library_code() {
        let has = code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
        assert!(!has || UNSAFE.iter().any(|allowed| path.starts_with(allowed)), "{path} holds unsafe");
        n_files += usize::from(has);
    }
    println!("{n_files} files hold unsafe");
}

#[test]
fn only_the_command_line_prints_and_exits() {
    for (path, code) in library_code() {
        if !matches!(module_of(&path), "cli" | "bin") {
            for word in CLI_ONLY {
                assert!(!code.contains(word), "{path} uses {word}");
            }
        }
    }
}

#[test]
fn files_are_short_and_finished() {
    let unfinished = ["todo!", "unimplemented!", "FIXME"];
    for (path, text) in rust_files("src").into_iter().chain(rust_files("tests")) {
        let n_lines = text.lines().count();
        assert!(n_lines <= MAX_LINES, "{path} has {n_lines} lines, more than {MAX_LINES}");
        // This file names the words it looks for.
        if path != "tests/architecture.rs" {
            for word in unfinished {
                assert!(!text.contains(word), "{path} holds {word}");
            }
        }
    }
}

#[test]
fn binaries_are_glue() {
    for (path, text) in rust_files("src/bin") {
        assert!(text.lines().count() <= 12, "{path} does more than call the library");
    }
}
