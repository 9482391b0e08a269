//! Damaged files: an error, or a file like any other; and damage that is seen when a written file is read back.

use crate::model;
use crate::mutation::mutate;
use crate::random::SplitMix64 as Random;
use crate::{names, stamp};
use laya::gguf::{Change, Edit, File, Value};
use laya::spec::{KEY, unstamp};
use std::fs;

/// Damaged files in memory, and of those as files.
const ROUNDS: usize = 20_000;
const FILE_ROUNDS: usize = 400;

fn changes() -> [Change; 3] {
    [
        Change::Set(KEY.into(), Value::from("{}")),
        Change::Set("decision.layout".into(), Value::from("laya")),
        Change::Remove("decision.model_id".into()),
    ]
}

fn written(edit: &Edit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.write(&mut bytes, &mut |_, _| {}).unwrap();
    bytes
}

#[test]
fn damaged_files_are_errors_or_edited_like_any_other() {
    let mut random = Random(77);
    let (mut edited, mut refused) = (0, 0);
    let mut sample = Vec::new();
    for i in 0..ROUNDS {
        if i % 20 == 0 {
            sample = model::model(&mut random, "laya");
        }
        let mut bytes = sample.clone();
        let head = bytes.len();
        mutate(&mut bytes, &mut random, head);
        let Ok(file) = File::from_bytes(bytes) else {
            refused += 1;
            continue;
        };
        let edit = match Edit::new(&file, &changes()) {
            Ok(edit) => edit,
            Err(error) => panic!("{error}"),
        };
        let bytes = written(&edit);
        assert_eq!(bytes.len() as u64, edit.n_bytes());
        let new = File::from_bytes(bytes).unwrap();
        edit.check(&new).unwrap();
        assert_eq!(new.tensors(), file.tensors());
        for (a, b) in file.tensors().iter().zip(new.tensors()) {
            assert!(file.tensor_data(a) == new.tensor_data(b));
        }
        edited += 1;
    }
    println!("{ROUNDS} damaged files: {refused} refused, {edited} edited");
    assert!(refused > ROUNDS / 20 && edited > ROUNDS / 20, "the damage is too weak or too strong: {refused} {edited}");
}

#[test]
fn stamping_a_damaged_file_is_an_error_or_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut random = Random(78);
    let (mut done, mut refused) = (0, 0);
    for _ in 0..FILE_ROUNDS {
        let mut bytes = model::model(&mut random, "laya");
        let head = bytes.len();
        mutate(&mut bytes, &mut random, head);
        fs::write(&path, &bytes).unwrap();
        let text = model::spec(&mut random, "laya");
        match stamp(&path, None, &text, random.below(2) == 0) {
            Ok(_) => {
                assert!(File::open(&path).unwrap().string(KEY).unwrap().unwrap() == text);
                assert!(unstamp(&path, None, false, &mut |_, _| {}).unwrap().is_some());
                done += 1;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(!message.contains('\n') && message.contains("model.gguf"), "{message}");
                assert!(fs::read(&path).unwrap() == bytes, "{message}");
                refused += 1;
            }
        }
    }
    println!("{FILE_ROUNDS} damaged files: {refused} refused, {done} stamped");
    assert!(done > 20 && refused > 20, "{done} {refused}");
    assert_eq!(names(folder.path()), ["model.gguf"]);
}

#[test]
fn a_byte_that_is_not_what_was_written_is_seen() {
    let mut random = Random(79);
    let (mut n_unread, mut n_seen) = (0, 0);
    for _ in 0..20 {
        let file = File::from_bytes(model::model(&mut random, "laya")).unwrap();
        let edit = Edit::new(&file, &changes()).unwrap();
        let bytes = written(&edit);
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            let Ok(damaged) = File::from_bytes(damaged) else {
                n_unread += 1;
                continue;
            };
            assert!(edit.check(&damaged).is_err(), "byte {at} of {} may be anything", bytes.len());
            n_seen += 1;
        }
        assert!(edit.check(&file).is_err(), "the original is not what was written");
    }
    println!("{n_seen} changed bytes seen, {n_unread} made no file at all");
    assert!(n_seen > 1_000);
}

#[test]
fn changes_that_make_no_file_are_refused() {
    let file = File::from_bytes(model::model(&mut Random(80), "laya")).unwrap();
    let set = |key: &str| Change::Set(key.into(), Value::U32(8));
    for (changes, says) in [
        (vec![set("general.alignment")], "key general.alignment: says where the tensors lie"),
        (vec![Change::Remove("general.alignment".into())], "key general.alignment: says where the tensors lie"),
        (vec![set("")], "the name has 0 bytes"),
        (vec![set(&"k".repeat(65_536))], "the name has 65536 bytes"),
        (vec![set("a"), Change::Remove("a".into())], "key a: is changed twice"),
    ] {
        let error = Edit::new(&file, &changes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // No change, no difference.
    let edit = Edit::new(&file, &[Change::Remove("absent".into())]).unwrap();
    assert!(written(&edit) == file.map().bytes());
}
