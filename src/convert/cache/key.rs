//! The name of an entry: a hash of everything the bytes of its model depend on.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

use super::super::Outtype;
use super::super::metadata::directory_name;
use crate::error::{Error, ErrorKind, Result};

/// Version of the converter, part of every key. It goes up with every change of the bytes that any checkpoint converts
/// to, and with every input that is refused from then on: so nothing an older converter made is taken for the work of
/// this one.
pub const VERSION: u32 = 1;

/// Version of the key itself and of what lies around the model.
const FORMAT: &str = "laya conversion cache 1";

/// Hexadecimal digits of a key.
pub(super) const N_DIGITS: usize = 32;

/// The folders of a checkpoint, besides its root, that a conversion reads files of.
pub(super) const READ_FOLDERS: [&str; 2] = ["encoder", "tokenizer"];

/// More entries than this are no checkpoint.
const MAX_ENTRIES: usize = 20_000;

/// Larger files are known by size, time and link instead of content: reading them at every start would take longer than
/// converting them once.
const MAX_CONTENT_BYTES: u64 = 8 << 20;

/// The key of `checkpoint` converted to `outtype`.
pub(super) fn of(checkpoint: &Path, outtype: Outtype) -> Result<String> {
    let mut found = Found::default();
    found.list(checkpoint, "")?;
    for folder in READ_FOLDERS {
        if checkpoint.join(folder).is_dir() {
            found.list(&checkpoint.join(folder), &format!("{folder}/"))?;
        }
    }
    found.0.sort();
    let mut key = Fields(Sha256::new());
    key.add(FORMAT.as_bytes());
    key.add(&VERSION.to_le_bytes());
    key.add(outtype.as_str().as_bytes());
    key.add(directory_name(checkpoint)?.as_bytes());
    for (name, path) in found.0 {
        key.add(&name);
        key.add_file(&path)?;
    }
    let mut text = String::with_capacity(2 * N_DIGITS);
    for byte in key.0.finalize() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(N_DIGITS);
    Ok(text)
}

/// Whether `name` has the form of a key.
pub(super) fn is_key(name: &str) -> bool {
    name.len() == N_DIGITS && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Entries: name from the root, as bytes with `/`, and path.
#[derive(Default)]
struct Found(Vec<(Vec<u8>, PathBuf)>);

impl Found {
    fn list(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let failed = |e: std::io::Error| Error::io("cannot list", folder, &e);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // Such as .git and .cache: what other programs keep there, and change, is not part of the checkpoint.
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if self.0.len() == MAX_ENTRIES {
                let message = format!("has more than {MAX_ENTRIES} entries; this is no checkpoint directory");
                return Err(Error::new(ErrorKind::Checkpoint, message).in_file(folder));
            }
            self.0.push(([prefix.as_bytes(), name.as_encoded_bytes()].concat(), folder.join(&name)));
        }
        Ok(())
    }
}

/// Fields that cannot run into each other: each is hashed with its length.
struct Fields(Sha256);

impl Fields {
    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let facts = match fs::metadata(path) {
            Ok(facts) => facts,
            // A link to nothing. Where it leads to is all there is to know; the conversion says what is wrong with it.
            Err(_) if path.is_symlink() => {
                self.add(b"dangling");
                self.add_target(path);
                return Ok(());
            }
            Err(_) => {
                self.add(b"unreadable");
                return Ok(());
            }
        };
        if !facts.is_file() {
            // The conversion reads nothing below another directory, and opens no pipe.
            self.add(if facts.is_dir() { b"directory" } else { b"special" });
        } else if facts.len() <= MAX_CONTENT_BYTES {
            let mut content = Vec::with_capacity(usize::try_from(facts.len()).unwrap_or(0));
            let read = File::open(path).and_then(|file| file.take(MAX_CONTENT_BYTES + 1).read_to_end(&mut content));
            match read {
                Ok(_) => {
                    self.add(b"content");
                    self.add(&content);
                }
                // The conversion says so if it needs the file.
                Err(_) => self.add_facts(b"unreadable", path, &facts)?,
            }
        } else {
            self.add_facts(b"large", path, &facts)?;
        }
        Ok(())
    }

    /// What is known of a file without its content.
    fn add_facts(&mut self, what: &[u8], path: &Path, facts: &fs::Metadata) -> Result<()> {
        let time = facts.modified().map_err(|e| Error::io("cannot read the time of", path, &e))?;
        self.add(what);
        self.add(&facts.len().to_le_bytes());
        self.add(&nanoseconds(time).to_le_bytes());
        self.add_target(path);
        Ok(())
    }

    /// In a hub's cache the files are links, and the name of the file behind one is the hash of its content.
    fn add_target(&mut self, path: &Path) {
        let target = fs::read_link(path).unwrap_or_default();
        self.add(target.as_os_str().as_encoded_bytes());
    }
}

/// Nanoseconds since 1970, negative before.
fn nanoseconds(time: SystemTime) -> i128 {
    let n = |duration: std::time::Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => n(after),
        Err(before) => -n(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A directory with the files of a checkpoint; what is in them does not matter here.
    fn checkpoint() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("model");
        for folder in ["encoder", "tokenizer", "other"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        for file in ["rl_agent_config.json", "encoder/config.json", "tokenizer/tokenizer.json", "other/x", ".hidden"] {
            fs::write(dir.join(file), file).unwrap();
        }
        fs::write(dir.join("model.safetensors"), vec![7; MAX_CONTENT_BYTES as usize + 1]).unwrap();
        (root, dir)
    }

    fn f16(dir: &Path) -> String {
        of(dir, Outtype::F16).unwrap()
    }

    #[test]
    fn a_key_is_a_name_and_stays_what_it_is() {
        let (_root, dir) = checkpoint();
        let key = f16(&dir);
        assert!(is_key(&key), "{key}");
        assert_eq!(key, f16(&dir));
        assert_eq!(key, f16(&dir.join("encoder/..")), "the same directory, by another path");
        for name in ["", "0123", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert!(!is_key(name), "{name}");
        }
    }

    #[test]
    fn whatever_the_bytes_depend_on_is_another_key() {
        let (root, dir) = checkpoint();
        let mut seen = vec![f16(&dir)];
        for outtype in [Outtype::F32, Outtype::Q8_0, Outtype::Q8_0Mixed] {
            seen.push(of(&dir, outtype).unwrap());
        }
        let weights = dir.join("model.safetensors");
        let renamed = root.path().join("model-2");
        fs::rename(&dir, &renamed).unwrap();
        seen.push(f16(&renamed));
        fs::rename(&renamed, &dir).unwrap();
        let change = |file: &str, content: &str| {
            fs::write(dir.join(file), content).unwrap();
            f16(&dir)
        };
        // The same size: the content counts.
        seen.push(change("encoder/config.json", "encoder/config.jsoN"));
        seen.push(change("tokenizer/tokenizer.json", "other"));
        seen.push(change("README.md", ""));
        seen.push(change("encoder/new", ""));
        fs::create_dir(dir.join("new")).unwrap();
        seen.push(f16(&dir));
        // A large file: size and time count.
        let file = File::options().append(true).open(&weights).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.set_modified(time - Duration::from_nanos(1_000)).unwrap();
        seen.push(f16(&dir));
        std::io::Write::write_all(&mut &file, b"x").unwrap();
        file.set_modified(time).unwrap();
        seen.push(f16(&dir));
        let n = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), n, "two of them have one key");
    }

    #[test]
    fn what_a_conversion_does_not_read_does_not_count() {
        let (_root, dir) = checkpoint();
        let key = f16(&dir);
        fs::write(dir.join("other/x"), "changed").unwrap();
        fs::write(dir.join("other/y"), "new").unwrap();
        fs::write(dir.join(".hidden"), "changed").unwrap();
        fs::create_dir(dir.join(".git")).unwrap();
        // Of a small file the content counts, not when it was written.
        fs::write(dir.join("rl_agent_config.json"), "rl_agent_config.json").unwrap();
        File::options().append(true).open(dir.join("rl_agent_config.json")).unwrap().set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(f16(&dir), key);
    }

    #[cfg(unix)]
    #[test]
    fn links_count_by_where_they_lead_to() {
        use std::os::unix::fs::symlink;
        let (root, dir) = checkpoint();
        let weights = dir.join("model.safetensors");
        fs::rename(&weights, root.path().join("a")).unwrap();
        fs::hard_link(root.path().join("a"), root.path().join("b")).unwrap();
        let linked = |target: &str| {
            let _ = fs::remove_file(&weights);
            symlink(target, &weights).unwrap();
            f16(&dir)
        };
        let (a, b, nowhere, away) = (linked("../a"), linked("../b"), linked("../c"), linked("../d"));
        assert!(a != b && b != nowhere && nowhere != away && a != nowhere);
        assert_eq!(linked("../a"), a);
        // Nothing is opened that would wait for a writer.
        let pipe = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status();
        if pipe.is_ok_and(|status| status.success()) {
            assert_ne!(f16(&dir), a);
        } else {
            println!("skipped: no mkfifo");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_cannot_be_read_is_left_to_the_conversion() {
        let (_root, dir) = checkpoint();
        let key = f16(&dir);
        // A regular file that whoever may open it cannot read from its start.
        std::os::unix::fs::symlink("/proc/self/mem", dir.join("notes")).unwrap();
        assert!(fs::read(dir.join("notes")).is_err());
        assert_ne!(f16(&dir), key);
    }

    #[test]
    fn a_directory_of_very_many_files_is_no_checkpoint() {
        let (_root, dir) = checkpoint();
        for i in 0..MAX_ENTRIES - 6 {
            File::create(dir.join(format!("{i}"))).unwrap();
        }
        // Six in the root and one in each folder that is read.
        let error = of(&dir, Outtype::F16).unwrap_err();
        assert!(error.message().contains("more than 20000 entries"), "{error}");
        fs::remove_file(dir.join("0")).unwrap();
        fs::remove_file(dir.join("1")).unwrap();
        of(&dir, Outtype::F16).unwrap();
    }
}
