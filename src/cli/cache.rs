//! `laya-convert cache`: what checkpoint directories that were named as models left in the conversion cache.

use super::exit::{EXIT_HELP, Exit, Stop};
use super::stdout::Stdout;
use super::{stderr, stored, table};
use crate::convert::cache::{Cache, Entry, Policy, State};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Object, Value};
use comfy_table::CellAlignment;
use indicatif::HumanDuration;
use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TOOL: &str = "laya-convert";

/// As many digits of a key as tell entries apart for people.
const N_SHOWN_DIGITS: usize = 12;

const LONG_ABOUT: &str = "\
Lists and removes what the conversion cache holds.

A checkpoint directory that is named as a model (-m DIR) is converted once; the model file is kept
in the cache under a key made of everything it depends on. Nothing in the cache is ever out of
date, and nothing is removed but by this command.";

const EXAMPLES: &str = "\
Examples:
  laya-convert cache list                           what is there, least recently used first
  laya-convert cache prune --older-than 30d         what was not used for 30 days
  laya-convert cache prune --max-size 10G           the least recently used, down to 10 GiB
  laya-convert cache prune --damaged --dry-run      says what it would remove
";

/// Arguments of `laya-convert cache`.
#[derive(Debug, clap::Args)]
#[command(about = "Lists and removes what the conversion cache holds", long_about = LONG_ABOUT)]
#[command(after_help = format!("{EXAMPLES}\n{EXIT_HELP}"), arg_required_else_help = true)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(super) struct CacheArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Prints what is in the cache, least recently used first
    List(ListArguments),
    /// Removes entries from the cache, and says which
    Prune(PruneArguments),
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_HELP)]
struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Conversion cache. Without it: $LAYA_CACHE, then laya/gguf in the user's cache directory
    #[arg(long, value_name = "DIR")]
    convert_cache: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_HELP, arg_required_else_help = true)]
struct PruneArguments {
    #[command(flatten)]
    policy: PolicyArguments,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Conversion cache. Without it: $LAYA_CACHE, then laya/gguf in the user's cache directory
    #[arg(long, value_name = "DIR")]
    convert_cache: Option<PathBuf>,
}

/// What to remove: all that any of these names.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct PolicyArguments {
    /// Entries not used for so long, such as 90m, 12h, 30d or 4w
    #[arg(long, value_name = "AGE", value_parser = duration)]
    older_than: Option<Duration>,
    /// The least recently used entries, until the rest is at most so large, such as 500M or 10G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Entries that cannot be used, and the temporary files of conversions that were killed
    #[arg(long)]
    damaged: bool,
    /// Every entry
    #[arg(long)]
    all: bool,
}

/// The cache in `dir`, else the user's.
///
/// # Errors
/// None is named and the user has no cache directory.
pub(super) fn named(dir: Option<PathBuf>) -> Result<Cache> {
    let dir = dir.or_else(|| Cache::default_dir(|name| env::var_os(name)));
    dir.map(Cache::at).ok_or_else(|| {
        let message =
            "there is no place for the conversion cache: name one with --convert-cache DIR, or in $LAYA_CACHE";
        Error::new(ErrorKind::Usage, message)
    })
}

/// Does what the arguments ask for.
pub(super) fn cache(arguments: CacheArguments) -> Result<Exit, Stop> {
    match arguments.command {
        Command::List(ListArguments { json, convert_cache }) => list(&named(convert_cache)?, json),
        Command::Prune(PruneArguments { policy, dry_run, convert_cache }) => {
            let PolicyArguments { older_than, max_size, damaged, all } = policy;
            prune(&named(convert_cache)?, &Policy { all, damaged, older_than, max_bytes: max_size, dry_run })
        }
    }
}

fn list(cache: &Cache, json: bool) -> Result<Exit, Stop> {
    let entries = cache.list()?;
    let n_bytes = entries.iter().map(|entry| entry.n_bytes).sum();
    let mut stdout = Stdout::open();
    if json {
        let mut out = Object::new();
        out.insert("cache", cache.dir().to_string_lossy().into_owned());
        out.insert("n_bytes", n_bytes);
        out.insert("entries", entries.iter().map(entry_json).collect::<Vec<_>>());
        stdout.line(Value::Object(out).dumps_indent(2))?;
        return Ok(Exit::Done);
    }
    if !entries.is_empty() {
        stdout.line(rows(&entries, SystemTime::now()))?;
    }
    stdout.line(format!("{} in {}", count(entries.len(), n_bytes), shown(cache.dir())))?;
    Ok(Exit::Done)
}

fn prune(cache: &Cache, policy: &Policy) -> Result<Exit, Stop> {
    let pruned = cache.prune(policy)?;
    let mut stdout = Stdout::open();
    let verb = if policy.dry_run { "would remove" } else { "removed" };
    for removed in &pruned.removed {
        let what = if removed.only_stale { ", temporary files only" } else { "" };
        stdout.line(format!("{verb} {} ({}{what})", title(&removed.entry), stored::size(removed.n_bytes)))?;
    }
    for kept in &pruned.kept {
        let text = format!("kept {}: {}", title(&kept.entry), kept.why);
        if kept.is_failure { stderr::error(TOOL, &text) } else { stderr::note(TOOL, &text) }
    }
    let n_removed = pruned.removed.iter().filter(|removed| !removed.only_stale).count();
    let left = count(pruned.n_left, pruned.left_bytes);
    stdout.line(format!("{verb} {}; {left} left in {}", count(n_removed, pruned.n_bytes()), shown(cache.dir())))?;
    Ok(if pruned.kept.iter().any(|kept| kept.is_failure) { Exit::Failed } else { Exit::Done })
}

/// An entry in a few words.
fn title(entry: &Entry) -> String {
    let key = entry.key.get(..N_SHOWN_DIGITS).unwrap_or(&entry.key);
    let name = entry.name().map_or_else(|| "without a model".into(), |name| stderr::printable(&name));
    let outtype = entry.outtype.map_or(String::new(), |outtype| format!(" {}", outtype.as_str()));
    format!("{key} {name}{outtype}")
}

fn count(n: usize, n_bytes: u64) -> String {
    let noun = if n == 1 { "entry" } else { "entries" };
    format!("{n} {noun}, {}", stored::size(n_bytes))
}

/// One row an entry.
fn rows(entries: &[Entry], now: SystemTime) -> String {
    let header = ["key", "name", "type", "size", "age", "last used", "checkpoint", "state"];
    let mut table = table::table(&header, 3);
    for column in table.column_iter_mut().skip(6) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let nothing = || "-".to_owned();
    let ago = |time: Option<SystemTime>| {
        let age = time.and_then(|time| now.duration_since(time).ok());
        age.map_or_else(nothing, |age| HumanDuration(age).to_string())
    };
    for entry in entries {
        table.add_row([
            entry.key.get(..N_SHOWN_DIGITS).unwrap_or(&entry.key).to_owned(),
            entry.name().map_or_else(nothing, |name| stderr::printable(&name)),
            entry.outtype.map_or_else(nothing, |outtype| outtype.as_str().to_owned()),
            stored::size(entry.n_bytes),
            ago(entry.created),
            ago(entry.last_used),
            entry.checkpoint.as_deref().map_or_else(nothing, shown),
            state(entry),
        ]);
    }
    table.trim_fmt()
}

/// The state of an entry for people.
fn state(entry: &Entry) -> String {
    let mut text = match &entry.state {
        State::Whole => "ok".to_owned(),
        State::Damaged(why) => format!("damaged: {}", stderr::printable(why)),
        State::Unfinished => "unfinished".to_owned(),
        State::Foreign(name) => format!("holds other files: {}", stderr::printable(name)),
        State::Refused(why) => format!("refused: {}", stderr::printable(why)),
    };
    if entry.n_stale > 0 {
        text += &format!(", {} stale tmp ({})", entry.n_stale, stored::size(entry.stale_bytes));
    }
    if entry.is_held {
        text += ", in use";
    }
    text
}

fn entry_json(entry: &Entry) -> Value {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    let (state, why) = match &entry.state {
        State::Whole => ("ok", None),
        State::Damaged(why) => ("damaged", Some(why.as_str())),
        State::Unfinished => ("unfinished", None),
        State::Foreign(name) => ("holds other files", Some(name.as_str())),
        State::Refused(why) => ("refused", Some(why.as_str())),
    };
    let mut out = Object::new();
    out.insert("key", entry.key.as_str());
    out.insert("path", path(&entry.path));
    out.insert("model", entry.model.as_deref().map(path));
    out.insert("name", entry.name());
    out.insert("outtype", entry.outtype.map(|outtype| outtype.as_str()));
    out.insert("checkpoint", entry.checkpoint.as_deref().map(path));
    out.insert("converter", entry.converter);
    out.insert("n_bytes", entry.n_bytes);
    out.insert("created", entry.created.and_then(seconds));
    out.insert("last_used", entry.last_used.and_then(seconds));
    out.insert("state", state);
    out.insert("why", why);
    out.insert("n_stale", entry.n_stale);
    out.insert("stale_bytes", entry.stale_bytes);
    out.insert("in_use", entry.is_held);
    Value::Object(out)
}

/// A path on a terminal.
fn shown(path: &Path) -> String {
    stderr::printable(&path.to_string_lossy())
}

/// Splits `30d` into its number and its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit))
}

/// Reads an age such as `30d`.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds = number_and_unit(text).and_then(|(n, unit)| {
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        n.checked_mul(seconds)
    });
    seconds.map(Duration::from_secs).ok_or_else(|| "it is a number with s, m, h, d or w, such as 30d".into())
}

/// Reads a size such as `10G`, in steps of 1,024.
fn size(text: &str) -> Result<u64, String> {
    let bytes = number_and_unit(text).and_then(|(n, unit)| {
        let step = match unit.strip_suffix("iB").unwrap_or(unit) {
            "" if unit.is_empty() => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return None,
        };
        n.checked_mul(1 << step)
    });
    bytes.ok_or_else(|| "it is a number of bytes, or with K, M, G or T, such as 10G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_numbers_with_units() {
        for (text, seconds) in [("0s", 0), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "30", "d", "-1d", "1.5d", "1 d", "1y", "99999999999999999999d", "18446744073709551615w", "1д"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        for (text, bytes) in [("0", 0), ("12345", 12_345), ("1K", 1_024), ("500M", 500 << 20), ("10GiB", 10 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1G", "1.5G", "1 G", "1GB", "1iB", "1P", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
