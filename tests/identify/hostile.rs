//! Damaged files, and files that mean harm.

use std::fs;
use std::process::Command;

use laya::convert::{Layout, Outtype};
use laya::gguf::{File, TensorType, Value, Writer};
use laya::json;
use laya::layout::identify;

use crate::mutation::mutate;
use crate::random::SplitMix64 as Random;
use crate::{bytes, converted, gguf_spec, text};

#[test]
fn damaged_files_are_told_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut n_told, mut n_refused) = (0, 0);
    let samples =
        [("tiny-mmbert", Layout::Laya), ("tiny-mmbert", Layout::ModernBert), ("tiny-modernbert", Layout::Laya)];
    let samples = samples.map(|(family, layout)| converted(family, Outtype::Q8_0, layout).map().bytes().to_vec());
    let damaged = |i: u64| {
        let mut random = Random(500 + i);
        let mut bytes = samples[(i % 3) as usize].clone();
        let head = if random.below(4) == 0 { bytes.len() } else { 2400 };
        match random.below(4) {
            0 => bytes.truncate(random.below(head)),
            1 => {
                let at = random.below(head);
                bytes[at] ^= 1 << random.below(8);
            }
            // The numbers of tensors and keys, and the version before them.
            2 => {
                let at = 4 + random.below(20);
                let n = [0, 1, 1 << 20, u64::from(u32::MAX), 1 << 61, u64::MAX][random.below(6)] >> random.below(8);
                bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
            }
            _ => mutate(&mut bytes, &mut random, head),
        }
        bytes
    };
    for i in 0..6000 {
        if let Ok(file) = File::from_bytes(damaged(i)) {
            let identity = identify(&file);
            assert!(identity.findings.iter().all(|finding| !finding.to_string().contains('\n')));
            n_told += 1;
        } else {
            n_refused += 1;
        }
    }
    println!("{n_told} identified, {n_refused} refused");
    assert!(n_told > 1000 && n_refused > 1000, "{n_told} {n_refused}");

    let path = dir.path().join("damaged.gguf");
    let [mut n_done, mut n_failed] = [0, 0];
    for i in 0..240 {
        fs::write(&path, damaged(i)).unwrap();
        for arguments in [&["identify"][..], &["identify", "--json"], &["dump"], &["dump", "--json", "--full"]] {
            let output = gguf_spec(arguments, &[&path]);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            let acts = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!out.contains(acts) && !err.contains(acts), "{arguments:?} {i}");
            match output.status.code() {
                Some(0) => {
                    assert!(err.is_empty() && !out.is_empty(), "{arguments:?} {i}: {err}");
                    n_done += 1;
                }
                Some(1) => {
                    assert!(err.starts_with("gguf-spec: error: ") && err.lines().count() == 1, "{err}");
                    n_failed += 1;
                }
                code => panic!("{arguments:?} {i}: {code:?} {err}"),
            }
            if arguments.contains(&"--json") && (arguments[0] == "identify" || output.status.success()) {
                json::parse(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?} {i}: {error}"));
            }
        }
    }
    println!("240 damaged files on the command line: {n_done} runs told, {n_failed} refused");
    assert!(n_done > 100 && n_failed > 100, "{n_done} {n_failed}");
}

#[test]
fn nothing_in_a_file_drives_the_terminal() {
    const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\u{2066}\r\n\u{2028}\u{0}";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile.gguf");
    let mut writer = Writer::new();
    writer.set("general.architecture", HOSTILE);
    writer.set(format!("{HOSTILE}.decision.type"), HOSTILE);
    writer.set(format!("{HOSTILE}.decision.temperature.{HOSTILE}"), 2f32);
    writer.set("general.name", HOSTILE.repeat(1000));
    writer.set("decision.laya.recipe", Value::String([HOSTILE.as_bytes(), b"\xff\x9b"].concat()));
    writer.set("tokenizer.ggml.model", HOSTILE);
    writer.set("decision.spec", HOSTILE);
    writer.set(HOSTILE, [HOSTILE.to_owned()].as_slice());
    writer.add_tensor(HOSTILE, &[4], TensorType::F32).unwrap();
    fs::write(&path, bytes(&writer)).unwrap();
    for arguments in [
        &["identify"][..],
        &["identify", "--json"],
        &["dump"],
        &["dump", "--full"],
        &["dump", "--json"],
        &["dump", "--json", "--full"],
    ] {
        let output = gguf_spec(arguments, &[&path]);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let out = text(&output.stdout);
        let acts = |c: char| {
            c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}')
        };
        assert!(!out.contains(acts), "{arguments:?}: {out:?}");
        assert!(out.contains("u{1b}") || out.contains("u001b"), "{arguments:?}: {out:?}");
        if arguments.contains(&"--json") {
            let value = json::parse(&output.stdout).unwrap();
            // The very text of the file, for whoever asks for it.
            let name = match value.get("keys") {
                None => value.get("architecture").unwrap().clone(),
                Some(keys) => keys.as_array().unwrap()[0].get("value").unwrap().clone(),
            };
            assert_eq!(name.as_str(), Some(HOSTILE));
        }
    }
    // Problems quote the spec, and answers name its version and the model.
    let spec = format!(
        r#"{{"spec_version": 1, "layout": "laya", "model_id": {0}, "calibration": {{"version": {0}}}}}"#,
        json::Value::from(HOSTILE).dumps()
    );
    let version = "fit\u{9b}31m\u{202e}\u{7f}";
    let sound = format!(
        r#"{{"spec_version": 1, "layout": "laya", "calibration": {{"method": "none", "version": "{version}"}}}}"#
    );
    let acts = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    let wrong = spec.replace("laya", "\u{9b}\u{202e}");
    writer.set("decision.spec", wrong.as_str());
    writer.set("decision.model_id", HOSTILE);
    fs::write(&path, bytes(&writer)).unwrap();
    let output = gguf_spec(&["verify", "--json"], &[&path]);
    let out = text(&output.stdout);
    assert!(output.status.code() == Some(1) && !out.contains(acts) && out.contains("u009b"), "{out:?}");
    let message = json::parse(&output.stdout).unwrap().get("problems").unwrap().dumps();
    assert!(message.contains("\u{9b}\u{202e}"), "{message:?}");

    let path = dir.path().join("m\u{9b}\u{202e}.gguf");
    fs::write(&path, converted("tiny-mmbert", Outtype::F16, Layout::Laya).map().bytes()).unwrap();
    laya::spec::stamp(&path, None, sound.as_bytes(), laya::kernels::NUMERIC_CONTRACT, false, &mut |_, _| {}).unwrap();
    let examples = crate::tiny::root().join("examples");
    for (argument, file) in [("-f", "support-ticket.json"), ("--jsonl", "requests.jsonl")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laya-cli"));
        let output = command.arg("-m").arg(&path).arg(argument).arg(examples.join(file)).output().unwrap();
        let out = text(&output.stdout);
        assert!(output.status.success() && !out.contains(acts), "{argument}: {out:?} {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains(acts), "{argument}");
        let first = if argument == "-f" { out } else { out.lines().next().unwrap() };
        let value = json::parse(first.as_bytes()).unwrap();
        assert_eq!(value.get("model").unwrap().as_str(), path.to_str());
        assert_eq!(value.get("runtime").unwrap().get("calibration").unwrap().as_str(), Some(version));
    }
}

#[test]
fn a_million_keys_are_no_flood() {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(0u64.to_le_bytes());
    const N: u64 = 1_000_000;
    bytes.extend(N.to_le_bytes());
    for i in 0..N {
        let name = format!("{i}\u{1b}");
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.bytes());
        bytes.extend([0, 0, 0, 0, 7]);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.gguf");
    fs::write(&path, bytes).unwrap();
    let output = gguf_spec(&["dump"], &[&path]);
    let out = text(&output.stdout);
    assert!(output.status.success() && !out.contains('\u{1b}'));
    assert!(out.lines().count() < 10_100 && out.len() < 1 << 20, "{} bytes", out.len());
    assert!(out.ends_with("... 990000 more keys, which --full prints\n"), "{}", &out[out.len() - 100..]);
    let output = gguf_spec(&["identify"], &[&path]);
    assert!(output.status.success() && output.stdout.len() < 2000, "{}", output.stdout.len());
    let output = gguf_spec(&["dump", "--json"], &[&path]);
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), N as usize + 5);
    assert!(!output.stdout.contains(&0x1b));
}
