//! What is written is read, and nothing else changes.

use crate::model;
use crate::random::SplitMix64 as Random;
use crate::{names, stamp};
use laya::gguf::{File, TensorType, Value, Writer};
use laya::kernels::NUMERIC_CONTRACT;
use laya::spec::{self, KEY, MIRROR_KEYS, Spec};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of random specs.
const N_SPECS: usize = 1_000;

/// Every key that stamping leaves alone, its value down to the bits.
fn others(file: &File) -> Vec<(String, String)> {
    let keys = file.keys().filter(|(key, _)| *key != KEY && !MIRROR_KEYS.contains(key));
    // Debug text shows NaNs as one; their bits are compared apart.
    keys.map(|(key, value)| (key.to_owned(), format!("{value:?} {:?}", bits(value)))).collect()
}

fn bits(value: &Value) -> Vec<u64> {
    use laya::gguf::Array;
    match value {
        Value::F32(x) => vec![u64::from(x.to_bits())],
        Value::F64(x) => vec![x.to_bits()],
        Value::Array(Array::F32(x)) => x.iter().map(|x| u64::from(x.to_bits())).collect(),
        _ => Vec::new(),
    }
}

/// From where the data section starts to the end of the file.
fn data(file: &File) -> &[u8] {
    file.map().bytes().get(file.data_start() as usize..).unwrap_or_default()
}

/// Asserts that `new` is `old` but for the spec.
fn assert_same_model(old: &File, new: &File) {
    assert_eq!(others(old), others(new));
    assert_eq!(old.tensors(), new.tensors());
    assert_eq!(old.alignment(), new.alignment());
    assert!(data(old) == data(new), "the data section changed");
    for (a, b) in old.tensors().iter().zip(new.tensors()) {
        let start = new.tensor_start(b).unwrap() as u64;
        assert!(start.is_multiple_of(new.alignment()), "{} at {start}", b.name);
        assert!(old.tensor_data(a) == new.tensor_data(b), "{}", a.name);
    }
}

/// Asserts that keys `new` shares with `old` come in the old order, and those it has alone after them.
fn assert_places(old: &File, new: &File) {
    let kept: Vec<_> = old.keys().map(|(key, _)| key).filter(|key| new.get(key).is_some()).collect();
    let places: Vec<_> = new.keys().map(|(key, _)| key).take(kept.len()).collect();
    assert_eq!(kept, places);
}

fn run(arguments: &[&str], path: &Path) -> (Option<i32>, Vec<u8>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gguf-spec"));
    let output = command.args(arguments).arg(path).output().unwrap();
    (output.status.code(), output.stdout)
}

#[test]
fn random_specs_are_read_as_they_were_written_and_models_stay_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("model.gguf"), folder.path().join("copy.gguf"));
    let mut random = Random(5);
    let (mut shortest, mut longest) = (usize::MAX, 0);
    for i in 0..N_SPECS {
        let (layout, architecture) = [("laya", "laya"), ("semif-letters", "qwen3")][random.below(2)];
        let bytes = model::model(&mut random, architecture);
        let old = File::from_bytes(bytes.clone()).unwrap();
        let text = model::spec(&mut random, layout);
        (shortest, longest) = (shortest.min(text.len()), longest.max(text.len()));
        fs::write(&path, &bytes).unwrap();
        let in_place = random.below(2) == 0;
        let out = (!in_place).then_some(copy.as_path());
        let written = out.unwrap_or(&path);
        let stamped = stamp(&path, out, &text, false).unwrap();
        let new = File::open(written).unwrap();
        assert!(new.string(KEY).unwrap().unwrap() == text, "spec {i}");
        let spec = Spec::embedded(&new).unwrap().unwrap();
        assert_eq!((spec.sha256(), spec.mirrors().len()), (stamped.sha256, n_mirrors(&new)));
        assert_same_model(&old, &new);
        assert_places(&old, &new);
        assert!(spec::verify(&new, Some(&text), NUMERIC_CONTRACT).unwrap().problems.is_empty());
        if i % 50 == 0 {
            assert_eq!(run(&["get", "--bare"], written), (Some(0), text.clone()));
            assert_eq!(run(&["get"], written), (Some(0), [&text[..], b"\n"].concat()));
        }
        if !in_place {
            assert!(fs::read(&path).unwrap() == bytes, "the original changed");
        }
        // And out again: never stamped, as far as anybody can tell.
        assert!(spec::unstamp(written, None, false, &mut |_, _| {}).unwrap().is_some());
        let bare = File::open(written).unwrap();
        assert_eq!((bare.get(KEY), n_mirrors(&bare)), (None, 0));
        assert_same_model(&old, &bare);
        assert_places(&old, &bare);
        if old.get(KEY).is_none() {
            assert!(bare.map().bytes() == bytes, "not the file it was");
        }
        let _ = fs::remove_file(&copy);
    }
    println!("{N_SPECS} specs of {shortest} to {longest} bytes");
    assert!(shortest < 60 && longest > 3_500, "the specs are all alike: {shortest} to {longest} bytes");
    assert_eq!(names(folder.path()), ["model.gguf"]);
}

fn n_mirrors(file: &File) -> usize {
    MIRROR_KEYS.into_iter().filter(|key| file.get(key).is_some()).count()
}

#[test]
fn a_spec_goes_from_file_to_file_through_a_pipe() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.gguf"), folder.path().join("b.gguf"));
    let mut random = Random(6);
    for path in [&a, &b] {
        fs::write(path, model::model(&mut random, "laya")).unwrap();
    }
    let text = "{\"spec_version\": 1,\r\n \"layout\": \"laya\", \"é\": \"\\u0000\u{2028}\"}\n";
    stamp(&a, None, text.as_bytes(), false).unwrap();
    let (_, bare) = run(&["get", "--bare"], &a);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gguf-spec"));
    command.arg("set").arg(&b).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bare).unwrap();
    let output = child.wait_with_output().unwrap();
    let sha256 = Spec::parse(text.as_bytes()).unwrap().sha256();
    let said = format!("{}: decision.spec sha256 {sha256}\n", b.display());
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap()), (Some(0), said));
    assert_eq!(run(&["get", "--bare"], &b), (Some(0), text.as_bytes().to_vec()));
}

#[test]
fn a_spec_that_grows_and_shrinks_moves_no_byte_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for alignment in [None, Some(8u32), Some(64), Some(4096)] {
        let mut writer = Writer::new();
        writer.set("general.architecture", "laya");
        if let Some(alignment) = alignment {
            writer.set("general.alignment", alignment);
        }
        for (name, shape, ty) in [("a", &[7, 3][..], TensorType::F32), ("b", &[32, 5], TensorType::Q8_0)] {
            writer.add_tensor(name, shape, ty).unwrap();
        }
        let bytes = writer.to_bytes(|tensor, out| {
            out.write_all(&(0..tensor.n_bytes).map(|i| i as u8 ^ 0x5a).collect::<Vec<_>>()).unwrap();
            Ok(())
        });
        let bytes = bytes.unwrap();
        let old = File::from_bytes(bytes.clone()).unwrap();
        fs::write(&path, &bytes).unwrap();
        let text = |n: usize| format!(r#"{{"spec_version": 1, "layout": "laya", "x": "{}"}}"#, "y".repeat(n));
        let mut starts = std::collections::BTreeSet::new();
        // From 64 up by each of 1 to 64 bytes and down again, so that every size follows another one.
        for n in (1..=64).flat_map(|n| [64, 64 + n, 64, 64 - n]) {
            stamp(&path, None, text(n).as_bytes(), false).unwrap();
            let new = File::open(&path).unwrap();
            assert_eq!(new.string(KEY).unwrap(), Some(text(n).as_bytes()));
            assert_same_model(&old, &new);
            starts.insert(new.data_start());
        }
        println!("alignment {alignment:?}: the data started at {} places", starts.len());
        assert!(alignment == Some(4096) || starts.len() > 1);
    }
}

#[test]
fn stale_mirrors_go_and_others_take_their_new_value_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut writer = Writer::new();
    writer.set("decision.model_version", "1.0");
    writer.set("general.architecture", "laya");
    // Of another type than it should be.
    writer.set("decision.spec_version", 1u64);
    writer.set("a", 1u8);
    fs::write(&path, writer.to_bytes(|_, _| Ok(())).unwrap()).unwrap();
    let keys = |file: &File| file.keys().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();

    stamp(&path, None, br#"{"spec_version": 1, "layout": "laya", "model_id": "m"}"#, false).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(
        keys(&file),
        ["general.architecture", "decision.spec_version", "a", "decision.spec", "decision.layout", "decision.model_id"]
    );
    assert_eq!(file.get("decision.spec_version"), Some(&Value::U32(1)));
    assert_eq!(file.get("decision.model_id"), Some(&Value::from("m")));

    stamp(&path, None, br#"{"spec_version": 1, "layout": "laya", "model_version": "2"}"#, false).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(
        keys(&file),
        [
            "general.architecture",
            "decision.spec_version",
            "a",
            "decision.spec",
            "decision.layout",
            "decision.model_version"
        ]
    );
    assert!(spec::unstamp(&path, None, false, &mut |_, _| {}).unwrap().is_some());
    assert_eq!(keys(&File::open(&path).unwrap()), ["general.architecture", "a"]);
    assert!(spec::unstamp(&path, None, false, &mut |_, _| {}).unwrap().is_none(), "there was nothing left");
}

#[cfg(unix)]
#[test]
fn the_mode_is_kept_and_a_link_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("model.gguf"), folder.path().join("link.gguf"));
    fs::write(&path, model::model(&mut Random(1), "laya")).unwrap();
    symlink("model.gguf", &link).unwrap();
    for mode in [0o640, 0o600, 0o755, 0o444] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let text = format!(r#"{{"spec_version": 1, "layout": "laya", "x": {mode}}}"#);
        stamp(&link, None, text.as_bytes(), false).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(File::open(&path).unwrap().string(KEY).unwrap(), Some(text.as_bytes()));
    }
    assert_eq!(names(folder.path()), ["link.gguf", "model.gguf"]);
}
