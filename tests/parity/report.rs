//! The README's table of gates is the one of the results in the repository.

use std::path::{Path, PathBuf};

use laya::parity::Line;

/// The results of full-size runs, in the order of their names.
fn results() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

#[test]
fn the_readme_has_the_figures_of_the_results() {
    let lines: Vec<_> = results().iter().flat_map(|path| Line::read(&std::fs::read(path).unwrap()).unwrap()).collect();
    assert!(!lines.is_empty());
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let table = Line::markdown(&lines);
    assert!(readme.contains(&table), "README.md should have what parity-gate report --markdown prints:\n{table}");
}

#[test]
fn what_is_no_result_is_named() {
    let result = std::fs::read_to_string(&results()[0]).unwrap();
    for (from, to, says) in [
        ("laya-parity-gates/1", "laya-parity-gates/9", "schema: is laya-parity-gates/9; parity-gate compare"),
        ("\"candidates\"", "\"candidate\"", "candidates: must be a list"),
        ("\"gate\"", "\"gates\"", "candidates[0].gate: is missing"),
        ("\"verdict\"", "\"verdicts\"", "candidates[0].gate.verdict: must be there"),
        ("\"mean_abs_dp\"", "\"mean_dp\"", "candidates[0].gate.mean_abs_dp: must be there"),
        ("\"values_sha256\"", "\"values_sha\"", "candidates[0].identity.baseline: identity.model: has the unknown key"),
    ] {
        assert!(result.contains(from), "{from}");
        let error = Line::read(result.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
    assert!(Line::read(b"{").is_err());
}
