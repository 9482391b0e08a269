//! What is said about a file that was written, or would be: a table of its tensors, or JSON.

use super::exit::{Exit, Stop};
use super::stderr;
use super::stdout::Stdout;
use super::table::table;
use crate::convert::{Difference, Report, Stored};
use crate::json::{Object, Value};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a tool was asked to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detail {
    /// JSON on standard output instead of text for people.
    pub(super) json: bool,
    /// A line for every tensor.
    pub(super) tensors: bool,
}

/// What a file was compared with, and how that went.
#[derive(Debug)]
pub(super) struct Against {
    pub(super) reference: PathBuf,
    pub(super) difference: Option<Difference>,
}

impl Against {
    pub(super) fn exit(&self) -> Exit {
        if self.difference.is_some() { Exit::Differs } else { Exit::Done }
    }

    fn text(&self) -> String {
        let reference = self.reference.display();
        let text = match &self.difference {
            None => format!("IDENTICAL to {reference}"),
            Some(why) => format!("DIFFERENT from {reference}: {why} (A is the new file)"),
        };
        stderr::printable(&text)
    }

    fn to_json(&self) -> Value {
        let mut object = Object::new();
        object.insert("reference", &*self.reference.to_string_lossy());
        object.insert("identical", self.difference.is_none());
        object.insert("difference", self.difference.as_ref().map(ToString::to_string));
        Value::Object(object)
    }
}

/// Says what was written to `out`, by `tool`, since `start`, and how it compares.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn written(
    tool: &str,
    out: &Path,
    report: &Report,
    start: Instant,
    detail: Detail,
    against: Option<&Against>,
) -> Result<(), Stop> {
    let seconds = start.elapsed().as_secs_f64();
    for note in &report.notes {
        stderr::note(tool, note);
    }
    if detail.json {
        let mut object = Object::new();
        object.insert("out", &*out.to_string_lossy());
        object.insert("seconds", seconds);
        add(&mut object, report);
        if let Some(against) = against {
            object.insert("verified_against", against.to_json());
        }
        return Stdout::open().line(Value::Object(object).dumps_indent(2));
    }
    if detail.tensors {
        // Not one line: the table is made of names and numbers of the report, its own escapes included.
        stderr::lines(&tensors(&report.tensors));
    }
    let proven = match report.proof {
        None => String::new(),
        Some(proof) if proof.n_probes == 0 => format!(", {} tensors proven", proof.n_tensors),
        Some(proof) => format!(", {} tensors and {} texts proven", proof.n_tensors, proof.n_probes),
    };
    stderr::line(&format!("wrote {} in {seconds:.1} s ({}{proven})", out.display(), size(report.n_bytes)));
    against.map_or(Ok(()), |against| Stdout::open().line(against.text()))
}

/// Says what would be written.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn planned(tool: &str, report: &Report, json: bool) -> Result<(), Stop> {
    for note in &report.notes {
        stderr::note(tool, note);
    }
    let mut stdout = Stdout::open();
    if json {
        let mut object = Object::new();
        add(&mut object, report);
        return stdout.line(Value::Object(object).dumps_indent(2));
    }
    stdout.line(tensors(&report.tensors))?;
    let (n_tensors, n_params) = (report.n_tensors, report.n_params);
    stdout.line(format!("\n{n_tensors} tensors, {n_params} parameters, {} in all", size(report.n_bytes)))
}

fn add(object: &mut Object, report: &Report) {
    object.insert("bytes", report.n_bytes as i64);
    object.insert("parameters", report.n_params as i64);
    if let Some(proof) = report.proof {
        let mut proven = Object::new();
        proven.insert("tensors", proof.n_tensors as i64);
        proven.insert("texts", proof.n_probes as i64);
        object.insert("proven", Value::Object(proven));
    } else {
        object.insert("proven", Value::Null);
    }
    object.insert("notes", report.notes.iter().map(|note| Value::from(note.as_str())).collect::<Vec<_>>());
    object.insert("tensors", report.tensors.iter().map(tensor).collect::<Vec<_>>());
}

fn tensor(stored: &Stored) -> Value {
    let mut object = Object::new();
    object.insert("name", stored.name.as_str());
    object.insert("shape", stored.shape.iter().map(|&n| Value::from(n as i64)).collect::<Vec<_>>());
    object.insert("from", stored.from);
    object.insert("to", stored.to.name());
    object.insert("bytes", stored.n_bytes as i64);
    object.insert("max_abs_error", stored.error.map(|error| error.max_abs));
    object.insert("relative_error", stored.error.map(|error| error.relative));
    object.insert("lost", stored.error.map(|error| error.n_lost as i64));
    Value::Object(object)
}

fn tensors(stored: &[Stored]) -> String {
    let mut table = table(&["tensor", "type", "shape", "size", "max error", "relative error"], 2);
    for tensor in stored {
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        let to = tensor.to.name();
        let ty = if tensor.from == to { to.to_owned() } else { format!("{} -> {to}", tensor.from) };
        let error = |of: fn(crate::convert::Loss) -> f64| match tensor.error.map(of) {
            None => "-".into(),
            Some(_) if tensor.error.is_some_and(|loss| loss.n_lost > 0) => "infinite".into(),
            Some(0.0) => "0".into(),
            Some(error) => format!("{error:.1e}"),
        };
        table.add_row([
            // A name of a file may hold anything.
            tensor.name.escape_debug().to_string(),
            ty,
            shape.join(" x "),
            size(tensor.n_bytes),
            error(|loss| loss.max_abs),
            error(|loss| loss.relative),
        ]);
    }
    table.trim_fmt()
}

/// A number of bytes for people.
pub(super) fn size(n_bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    match n_bytes as f64 {
        n if n < KIB => format!("{n_bytes} B"),
        n if n < KIB * KIB => format!("{:.1} KiB", n / KIB),
        n if n < KIB * KIB * KIB => format!("{:.1} MiB", n / (KIB * KIB)),
        n => format!("{:.2} GiB", n / (KIB * KIB * KIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 1_322_900, 644_000_000, 20_000_000_000].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.3 MiB", "614.2 MiB", "18.63 GiB"]);
    }
}
