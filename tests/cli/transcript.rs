//! Command transcripts: `tests/cli/*.trycmd` and the command blocks of README.md, with what they print.
//!
//! Each runs in a folder of its own that holds `golden/` checkpoints, `examples/`, `input/`, `runs/` for the parity gate and a
//! converted `tiny.gguf`, so a transcript reads like a session in the repository and writes nothing into it. `TRYCMD=overwrite`
//! writes what was printed into the transcripts; look at the difference before committing it.

use crate::fixture::{model, root};
use std::fs;
use std::path::Path;

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The transcripts in the repository.
fn sources() -> Vec<std::path::PathBuf> {
    let mut sources: Vec<_> =
        fs::read_dir(root().join("tests/cli")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "trycmd"));
    sources.push(root().join("README.md"));
    sources
}

#[test]
fn transcripts_print_what_they_say() {
    let stage = tempfile::tempdir().unwrap();
    let cases = trycmd::TestCases::new();
    for source in sources() {
        let staged = stage.path().join(source.file_name().unwrap());
        fs::copy(&source, &staged).unwrap();
        // A transcript runs in the folder of its name with `.in`.
        let folder = staged.with_extension("in");
        for part in ["golden/tiny-mmbert/checkpoint", "golden/tiny-modernbert/checkpoint", "examples"] {
            copy_folder(&root().join(part), &folder.join(part));
        }
        copy_folder(&root().join("tests/cli/input"), &folder.join("input"));
        fs::copy(model(), folder.join("tiny.gguf")).unwrap();
        crate::parity_gate::stage(&folder.join("runs"));
        cases.case(&staged);
    }
    cases
        .register_bin("laya-cli", Path::new(env!("CARGO_BIN_EXE_laya-cli")))
        .register_bin("laya-convert", Path::new(env!("CARGO_BIN_EXE_laya-convert")))
        .register_bin("gguf-spec", Path::new(env!("CARGO_BIN_EXE_gguf-spec")))
        .register_bin("fit-router-calibration", Path::new(env!("CARGO_BIN_EXE_fit-router-calibration")))
        .register_bin("parity-gate", Path::new(env!("CARGO_BIN_EXE_parity-gate")))
        .register_bin("cargo-laya", Path::new(env!("CARGO_BIN_EXE_cargo-laya")))
        // No model, no instruction set and no cache but those a transcript names.
        .env("LAYA_MODEL", "")
        .env("LAYA_ISA", "")
        .env("LAYA_CACHE", "cache")
        .env("XDG_CONFIG_HOME", "no-config")
        .env("APPDATA", "no-config");
    cases.run();
    if std::env::var("TRYCMD").is_ok_and(|mode| mode == "overwrite") {
        for source in sources() {
            fs::copy(stage.path().join(source.file_name().unwrap()), &source).unwrap();
        }
    }
}
