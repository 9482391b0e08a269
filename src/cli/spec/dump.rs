//! `gguf-spec dump`: the keys and tensors of a file.

use super::value::{self, Extent};
use crate::cli::escape;
use crate::cli::exit::{EXIT_HELP, Exit, Stop};
use crate::cli::stdout::Stdout;
use crate::cli::stored::size;
use crate::cli::table::table;
use crate::error::Result;
use crate::gguf::{File, TensorInfo, Value};
use crate::json::{self, Object};
use std::path::PathBuf;

const LONG_ABOUT: &str = "\
Prints the keys and tensors of a GGUF file, of whatever model it is.

Only the header is read. Long strings and arrays show their start and how long they are. Control
characters, characters that turn the direction of text, and bytes that are not UTF-8 are escaped, so
that nothing in a file reaches the terminal as it is.

With --json: one object whose lists \"keys\" and \"tensors\" have one line for each. Strings are whole;
\"left_out\" counts the elements of an array that are not shown. What is not UTF-8 is {\"hex\": ...}.";

const EXAMPLES: &str = "\
Examples:
  gguf-spec dump model.gguf                        everything, short enough to read
  gguf-spec dump model.gguf --keys-only --full     every token of the vocabulary
  gguf-spec dump model.gguf --tensors-only --json  names, types, shapes and offsets for machines
";

/// Rows of a table that is shown without --full: more than any model has.
const SHOWN_ROWS: usize = 10_000;
/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Arguments of `gguf-spec dump`.
#[derive(Debug, clap::Args)]
#[command(about = "Prints the keys and tensors of a GGUF file", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
pub(super) struct DumpArguments {
    /// GGUF file
    #[arg(value_name = "MODEL.gguf")]
    model: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print no tensors
    #[arg(long, conflicts_with = "tensors_only")]
    keys_only: bool,
    /// Print no keys
    #[arg(long)]
    tensors_only: bool,
    /// Leave nothing out, however long
    #[arg(long)]
    full: bool,
}

/// Does what the arguments ask for.
pub(super) fn run(arguments: DumpArguments) -> Result<Exit, Stop> {
    let DumpArguments { model, json, keys_only, tensors_only, full } = arguments;
    let file = File::open(&model)?;
    let extent = if full { Extent::Full } else { Extent::Start };
    let parts = Parts { keys: !tensors_only, tensors: !keys_only };
    let mut out = Chunks { stdout: Stdout::open(), waiting: String::new() };
    if json {
        print_json(&mut out, &file, parts, extent)?
    } else {
        print_text(&mut out, &file, parts, extent)?
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Which parts of a file are printed.
#[derive(Debug, Clone, Copy)]
struct Parts {
    keys: bool,
    tensors: bool,
}

/// Standard output in pieces: a file may have a million keys, and whoever reads them need not wait for the last.
struct Chunks {
    stdout: Stdout,
    waiting: String,
}

impl Chunks {
    /// `text` must be safe to show already.
    fn line(&mut self, text: &str) -> Result<(), Stop> {
        self.waiting.push_str(text);
        self.waiting.push('\n');
        if self.waiting.len() < CHUNK_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        match self.waiting.pop() {
            // The line break that a line gets when it is written.
            Some(_) => self.stdout.line(std::mem::take(&mut self.waiting)),
            None => Ok(()),
        }
    }
}

fn print_text(out: &mut Chunks, file: &File, parts: Parts, extent: Extent) -> Result<(), Stop> {
    let n_bytes = file.map().bytes().len() as u64;
    out.line(&format!(
        "{}, {} keys, {} tensors, data from byte {} in steps of {}",
        size(n_bytes),
        file.keys().len(),
        file.tensors().len(),
        file.data_start(),
        file.alignment()
    ))?;
    if parts.keys {
        rows(out, &["key", "type", "value"], 3, file.keys(), "keys", extent, |(key, value)| {
            vec![value::name(key, extent), type_name(value), value::text(value, extent)]
        })?;
    }
    if parts.tensors {
        let header = ["tensor", "type", "shape", "offset", "bytes"];
        rows(out, &header, 2, file.tensors().iter(), "tensors", extent, |tensor| {
            let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            vec![
                value::name(&tensor.name, extent),
                tensor.ty.name().to_owned(),
                shape.join(" x "),
                tensor.offset.to_string(),
                tensor.n_bytes.to_string(),
            ]
        })?;
    }
    Ok(())
}

/// Prints a table of `items`, which are `what`. Above some number they are left out, or come in tables of that many, each
/// with columns of its own width.
fn rows<T>(
    out: &mut Chunks,
    header: &[&str],
    n_left: usize,
    items: impl ExactSizeIterator<Item = T>,
    what: &str,
    extent: Extent,
    cells: impl Fn(T) -> Vec<String>,
) -> Result<(), Stop> {
    let n = items.len();
    let n_shown = if extent == Extent::Full { n } else { n.min(SHOWN_ROWS) };
    let mut items = items.take(n_shown);
    let mut n_printed = 0;
    while n_printed < n_shown {
        let mut table = table(header, n_left);
        for item in items.by_ref().take(SHOWN_ROWS) {
            table.add_row(cells(item));
            n_printed += 1;
        }
        out.line("")?;
        for line in table.lines() {
            out.line(line.trim_end())?;
        }
    }
    if n > n_shown {
        out.line(&format!("... {} more {what}, which --full prints", n - n_shown))?;
    }
    Ok(())
}

/// The type of a value, with the number of elements of an array.
fn type_name(value: &Value) -> String {
    match value {
        Value::Array(array) => format!("{} x {}", array.element_name(), array.len()),
        scalar => scalar.type_name(),
    }
}

fn print_json(out: &mut Chunks, file: &File, parts: Parts, extent: Extent) -> Result<(), Stop> {
    let mut facts = Object::new();
    facts.insert("file", file.path().map(|path| path.to_string_lossy().into_owned()));
    facts.insert("n_bytes", file.map().bytes().len());
    facts.insert("n_keys", file.keys().len());
    facts.insert("n_tensors", file.tensors().len());
    facts.insert("data_start", file.data_start());
    facts.insert("alignment", file.alignment());
    let facts = escape::json(json::Value::Object(facts).dumps());
    // The object is left open for its lists.
    out.line(&format!("{},", facts.strip_suffix('}').unwrap_or(&facts)))?;
    let mut lists: Vec<(&str, Box<dyn Iterator<Item = Object> + '_>)> = Vec::new();
    if parts.keys {
        lists.push(("keys", Box::new(file.keys().map(move |(key, value)| key_json(key, value, extent)))));
    }
    if parts.tensors {
        lists.push(("tensors", Box::new(file.tensors().iter().map(tensor_json))));
    }
    let n = lists.len();
    for (i, (name, items)) in lists.into_iter().enumerate() {
        out.line(&format!("\"{name}\": ["))?;
        let mut items = items.peekable();
        while let Some(item) = items.next() {
            let comma = if items.peek().is_some() { "," } else { "" };
            out.line(&(escape::json(json::Value::Object(item).dumps()) + comma))?;
        }
        out.line(if i + 1 < n { "]," } else { "]}" })?;
    }
    Ok(())
}

fn key_json(key: &str, value: &Value, extent: Extent) -> Object {
    let (shown, n_more) = value::json(value, extent);
    let mut object = Object::new();
    object.insert("name", key);
    object.insert("type", value.type_name());
    if let Value::Array(array) = value {
        object.insert("n", array.len());
        if n_more > 0 {
            object.insert("left_out", n_more);
        }
    }
    object.insert("value", shown);
    object
}

fn tensor_json(tensor: &TensorInfo) -> Object {
    let mut object = Object::new();
    object.insert("name", tensor.name.as_str());
    object.insert("type", tensor.ty.name());
    object.insert("shape", tensor.shape.iter().copied().collect::<json::Value>());
    object.insert("offset", tensor.offset);
    object.insert("n_bytes", tensor.n_bytes);
    object
}
