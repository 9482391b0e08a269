//! Conversions against the bytes that gguf-py writes: `golden/convert/cases.jsonl` (see `scripts/gen_convert_golden.py`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use laya::convert::{Options, convert, convert_to};
use laya::json::{self, Value};
use sha2::{Digest as _, Sha256};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/convert")
}

/// Files of a checkpoint, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn files_of(folder: &Path) -> Files {
    fn collect(root: &Path, folder: &Path, files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(root, &path, files);
                continue;
            }
            let name: Vec<_> = path.strip_prefix(root).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
            files.insert(name.join("/"), fs::read(&path).unwrap());
        }
    }
    let mut files = Files::new();
    collect(folder, folder, &mut files);
    assert!(!files.is_empty(), "{} has no files", folder.display());
    files
}

struct Case(Value);

impl Case {
    fn all() -> Vec<Self> {
        let text = fs::read_to_string(golden().join("cases.jsonl")).unwrap();
        text.split('\n')
            .filter(|line| !line.is_empty())
            .map(|line| Self(json::parse(line.as_bytes()).unwrap()))
            .collect()
    }

    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{key} of {}", self.0.dumps()))
    }

    fn options(&self) -> Options {
        let mut options = Options { outtype: self.text("outtype").parse().unwrap(), ..Options::default() };
        options.model_name = self.0.get("model_name").and_then(Value::as_str).map(str::to_owned);
        options
    }

    /// Writes the checkpoint of this case below `folder` and returns its directory.
    fn write(&self, bases: &BTreeMap<String, Files>, folder: &Path) -> PathBuf {
        let mut files = bases[self.text("base")].clone();
        for name in self.0.get("remove").and_then(Value::as_array).unwrap() {
            files.remove(name.as_str().unwrap()).unwrap();
        }
        for (name, edits) in self.0.get("edit").and_then(Value::as_object).unwrap().iter() {
            let text = String::from_utf8(files[name].clone()).unwrap();
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            // From the end, so that line numbers stay those of the base.
            for edit in edits.as_array().unwrap().iter().rev() {
                let [at, n, text] = edit.as_array().unwrap() else { panic!("an edit of another shape") };
                let at = at.as_u64().unwrap() as usize;
                lines.splice(at..at + n.as_u64().unwrap() as usize, text.as_str().unwrap().split_inclusive('\n'));
            }
            let text = lines.concat();
            files.insert(name.to_owned(), text.into_bytes());
        }
        for (name, text) in self.0.get("write").and_then(Value::as_object).unwrap().iter() {
            files.insert(name.to_owned(), text.as_str().unwrap().into());
        }
        let dir = folder.join(self.text("dir"));
        for (name, bytes) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        dir
    }

    /// What is wrong with `bytes`, if anything.
    fn differs(&self, bytes: &[u8]) -> Option<String> {
        let want = self.0.get("bytes").and_then(Value::as_u64).unwrap();
        let sha256 = Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        (bytes.len() as u64 != want || sha256 != self.text("sha256"))
            .then(|| format!("{} bytes instead of {want}, or other ones", bytes.len()))
    }
}

/// Cases whose file nothing can load, and what the proof says of it: a token of U+2581 that is made special is stored with
/// spaces, and the merge that makes it has no result any more.
const UNUSABLE: [(&str, &str); 1] =
    [("extra special tokens as an object", "no tokenizer can be built from what the format makes of this vocabulary")];

fn in_memory(dir: &Path, options: &Options) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    convert_to(dir, &mut bytes, options, &mut |_, _| {}).map_err(|e| e.to_string())?;
    Ok(bytes)
}

#[test]
fn every_case_gives_the_bytes_of_gguf_py() {
    let bases: BTreeMap<String, Files> = fs::read_dir(golden().join("bases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), files_of(&path)))
        .collect();
    // The same file whatever the number of threads.
    let pools = [1, 8].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let cases = Case::all();
    let mut wrong = Vec::new();
    for case in &cases {
        let folder = tempfile::tempdir().unwrap();
        let dir = case.write(&bases, folder.path());
        let options = case.options();
        let mut check = |how: &str, bytes: Result<Vec<u8>, String>| {
            let message = match bytes {
                Ok(bytes) => case.differs(&bytes),
                Err(message) => Some(message),
            };
            wrong.extend(message.map(|message| format!("{}, {how}: {message}", case.text("name"))));
        };
        for pool in &pools {
            let how = format!("in memory, {} threads", pool.current_num_threads());
            check(&how, pool.install(|| in_memory(&dir, &options)));
        }
        let out = folder.path().join("out.gguf");
        let mut again = convert(&dir, &out, &options).map_err(|e| e.to_string());
        if let Some((_, why)) = UNUSABLE.iter().find(|(name, _)| *name == case.text("name")) {
            let message = again.unwrap_err();
            assert!(message.contains(why) && !out.exists(), "{message}");
            again = convert(&dir, &out, &Options { verify: false, ..options }).map_err(|e| e.to_string());
        }
        check("to a file", again.map(|_| fs::read(&out).unwrap()));
    }
    let look = "scripts/gen_convert_golden.py --files DIR writes the files these must be; laya-convert --compare shows the difference";
    assert!(wrong.is_empty(), "{}\n{} of {} cases; {look}", wrong.join("\n"), wrong.len() / 3, cases.len());
    assert!(cases.len() >= 120, "{} cases", cases.len());
    println!("{} cases identical, in memory with 1 and 8 threads and as a file", cases.len());
}
