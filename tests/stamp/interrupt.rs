//! Processes that are killed and disks that are full: the file is what it was, or what it was to be.

use crate::names;
use laya::gguf::{File, TensorType, Writer};
use laya::spec::KEY;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TOOL: &str = env!("CARGO_BIN_EXE_gguf-spec");

/// Writes a model file with `n_bytes` of tensor data.
fn model(path: &Path, n_bytes: u64) {
    let mut writer = Writer::new();
    writer.set("general.architecture", "laya");
    writer.set("tokens", (0..20_000).map(|i| format!("token {i}")).collect::<laya::gguf::Strings>());
    writer.add_tensor("t", &[n_bytes / 4], TensorType::F32).unwrap();
    let mut out = std::io::BufWriter::new(fs::File::create(path).unwrap());
    let filled = writer.write(&mut out, |tensor, out| {
        for i in 0..tensor.n_bytes / 4 {
            out.write_all(&(i as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()).unwrap();
        }
        Ok(())
    });
    filled.unwrap();
    out.into_inner().unwrap();
}

/// Writes a spec; `n` tells one from another.
fn spec(path: &Path, n: usize) {
    fs::write(path, format!(r#"{{"spec_version": 1, "layout": "laya", "x": "{}"}}"#, "é".repeat(n))).unwrap();
}

/// A number from 0 to 1 that is another one each time.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[test]
fn killed_while_it_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let path = dir.join("model.gguf");
    model(&path, 56 << 20);
    assert!(fs::metadata(&path).unwrap().len() > 50_000_000);
    let specs = [dir.join("a.json"), dir.join("b.json")];
    spec(&specs[0], 10);
    spec(&specs[1], 500);
    let set = |n: usize| {
        let mut command = Command::new(TOOL);
        command.arg("set").arg(&path).arg(&specs[n]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    // What the file is with each.
    let start = Instant::now();
    let mut whole = Vec::new();
    for n in [0, 1] {
        assert!(set(n).status().unwrap().success());
        whole.push(fs::read(&path).unwrap());
    }
    let time = start.elapsed() / 2;
    let temporaries = || -> Vec<String> { names(dir).into_iter().filter(|name| name.ends_with(".tmp")).collect() };
    let (mut has, mut n_writing, mut n_done) = (1, 0, 0);
    for i in 0..20 {
        let mut child = set(1 - has).spawn().unwrap();
        // Every other one once it is seen to write, so that some are killed half-way on any machine.
        let mut rest = time;
        if i % 2 == 1 {
            while temporaries().is_empty() && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            rest = time / 2;
        }
        std::thread::sleep(rest.mul_f64(random()));
        // One that is done already is as good.
        let _ = child.kill();
        let was_killed = !child.wait().unwrap().success();
        n_writing += usize::from(was_killed && !temporaries().is_empty());
        let found = fs::read(&path).unwrap();
        let is = whole.iter().position(|whole| *whole == found);
        let is = is.unwrap_or_else(|| panic!("neither the old file nor the new one, {} bytes", found.len()));
        assert!(was_killed || is == 1 - has, "done, but still the old file");
        n_done += usize::from(is != has);
        has = is;
        // So that the next one is seen to write.
        temporaries().iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
    }
    println!("{n_writing} of 20 were killed while they wrote, {n_done} were done");
    assert!(n_writing > 0, "no process was killed while it wrote");
    assert!(set(0).status().unwrap().success() && fs::read(&path).unwrap() == whole[0]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file may not become as large as the model, which ends a write as a full disk does.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_written_whole_is_gone_and_the_old_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (path, spec_path, out) = (dir.join("model.gguf"), dir.join("spec.json"), dir.join("out.gguf"));
    model(&path, 8 << 20);
    spec(&spec_path, 3);
    let before = fs::read(&path).unwrap();
    for arguments in [vec![], vec!["-o".as_ref(), out.as_os_str()]] {
        // The signal about it is ignored, as the system's message is what is looked for; 4 MiB at most, in blocks of 512
        // or 1024 bytes.
        let limited = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, TOOL, "set"]).arg(&path).arg(&spec_path).args(arguments);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = text(&stderr);
        assert_eq!((status.code(), text(&stdout).as_str()), (Some(1), ""), "{said}");
        assert!(said.starts_with("gguf-spec: error: ") && said.contains("cannot write: "), "{said}");
        assert!(fs::read(&path).unwrap() == before);
        assert_eq!(names(dir), ["model.gguf", "spec.json"]);
    }
}

/// A disk that is full, where this process may have a small one of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::create_dir(dir.join("disk")).unwrap();
    model(&dir.join("model.gguf"), 4 << 20);
    spec(&dir.join("spec.json"), 3);
    // In a mount namespace, so that it is gone with the shell.
    let script = "mount -t tmpfs -o size=6m tmpfs disk || exit 99
        cp model.gguf disk/ || exit 98
        \"$0\" set disk/model.gguf spec.json; echo code $?
        cmp model.gguf disk/model.gguf && echo same
        ls disk
        truncate -s 1000 model.gguf
        rm disk/model.gguf && cp small.gguf disk/model.gguf || exit 97
        \"$0\" set disk/model.gguf spec.json; echo code $?
        ls disk";
    model(&dir.join("small.gguf"), 1 << 20);
    let ran = Command::new("unshare").args(["-r", "-m", "sh", "-c", script, TOOL]).current_dir(dir).output();
    let Output { status, stdout, stderr } = match ran {
        Ok(output) if !matches!(output.status.code(), Some(99)) && !text(&output.stderr).contains("unshare") => output,
        other => {
            println!("skipped: no disk of one's own here ({other:?}); the limit on file sizes stands in for it");
            return;
        }
    };
    let (said, stderr) = (text(&stdout), text(&stderr));
    assert_eq!(status.code(), Some(0), "{said}{stderr}");
    assert!(stderr.contains("disk/model.gguf: cannot write: No space left on device"), "{stderr}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..3], ["code 1", "same", "model.gguf"], "{said}{stderr}");
    // With room for both it is done.
    assert!(lines[3].starts_with("disk/model.gguf: decision.spec sha256 "), "{said}");
    assert_eq!(lines[4..], ["code 0", "model.gguf"], "{said}");
    assert!(File::open(&dir.join("small.gguf")).unwrap().get(KEY).is_none());
}
