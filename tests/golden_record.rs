//! Every golden is the file its script recorded: each folder of `golden/` has a `record.json` with the sha256 of every
//! file in it. The values themselves are checked against their oracle by `scripts/gen_* --check`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use laya::json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_under(&path)) } else { files.push(path) }
    }
    files
}

fn sha256(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[test]
fn every_golden_is_the_file_its_script_recorded() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let (mut n_files, mut wrong) = (0, Vec::new());
    for folder in fs::read_dir(&golden).unwrap().map(|entry| entry.unwrap().path()) {
        assert!(folder.is_dir(), "{} is in no recorded folder", folder.display());
        let record = folder.join("record.json");
        let record = json::parse(&fs::read(&record).unwrap_or_else(|e| panic!("{}: {e}", record.display()))).unwrap();
        let recorded = record.get("sha256").and_then(json::Value::as_object).expect("record.json has sha256");
        let mut unseen: BTreeSet<_> = recorded.keys().collect();
        for file in files_under(&folder) {
            let name: Vec<_> = file.strip_prefix(&folder).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
            let name = name.join("/");
            if name == "record.json" {
                continue;
            }
            n_files += 1;
            if recorded.get(&name).and_then(json::Value::as_str) != Some(sha256(&file).as_str()) {
                wrong.push(format!("{} is not what record.json says", file.display()));
            }
            unseen.remove(name.as_str());
        }
        wrong.extend(unseen.iter().map(|name| format!("{}/{name} is recorded and missing", folder.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_files > 0, "no golden found");
    println!("{n_files} golden files are what their scripts recorded");
}
