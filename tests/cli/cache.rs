//! A checkpoint directory as the model: what is said about it, that its answers are those of the file, many processes at
//! once, and processes that are killed.

use crate::fixture::{parsed, root, run};
use crate::{checkpoint, large};
use laya::convert::Options;
use laya::json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const REQUEST: &str =
    r#"{"state": "Charged twice.", "questions": {"paid": {"type": "noul", "instructions": "Paid?"}}}"#;

fn tiny() -> PathBuf {
    root().join("golden/tiny-mmbert/checkpoint")
}

/// `TOOL ARGUMENTS`, every stream piped, and nothing of the environment of whoever runs the tests.
fn tool(path: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["LAYA_MODEL", "LAYA_CACHE", "LAYA_ISA"] {
        command.env_remove(variable);
    }
    command
}

/// `laya-cli -m MODEL --convert-cache CACHE ARGUMENTS`.
fn laya_cli(model: &Path, cache: &Path, arguments: &[&str]) -> Command {
    let mut command = tool(env!("CARGO_BIN_EXE_laya-cli"), &["-m"]);
    command.arg(model).arg("--convert-cache").arg(cache).args(arguments);
    command
}

/// The one model file in the cache.
fn cached(cache: &Path) -> PathBuf {
    let models = files(cache, ".gguf");
    assert_eq!(models.len(), 1, "{models:?}");
    models[0].clone()
}

/// The files in the folders of `cache` whose names end with `suffix`.
fn files(cache: &Path, suffix: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(cache).into_iter().flatten().map(|folder| folder.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    files.map(|file| file.unwrap().path()).filter(|path| path.to_str().unwrap().ends_with(suffix)).collect()
}

#[test]
fn a_directory_answers_as_the_file_it_converts_to() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    for (convert_type, requests) in
        [("f16", "examples/support-ticket.json"), ("q8_0-mixed", "examples/chat-turns.json")]
    {
        let request = root().join(requests);
        let arguments = ["-f", request.to_str().unwrap(), "--convert-type", convert_type];
        let file = folder.path().join("model.gguf");
        let options = Options { outtype: convert_type.parse().unwrap(), ..Options::default() };
        laya::convert::convert(&tiny(), &file, &options).unwrap();
        let mut command = tool(env!("CARGO_BIN_EXE_laya-cli"), &["-f", request.to_str().unwrap(), "-m"]);
        command.arg(&file);
        let (code, of_file, notes) = run(command, b"");
        assert_eq!(code, Some(0), "{notes}");
        assert!(!notes.contains("laya: "), "nothing is said about a file: {notes}");
        let (code, same, said) = run(laya_cli(&file, &cache, &arguments), b"");
        assert_eq!((code, &same), (Some(0), &of_file), "{said}");
        for option in ["--convert-cache", "--convert-type"] {
            let start = format!("laya-cli: note: {option} is not used: {} is a model file", file.display());
            assert!(said.lines().any(|line| line.starts_with(&start)), "{said}");
        }

        let (code, first, said) = run(laya_cli(&tiny(), &cache, &arguments), b"");
        assert_eq!(code, Some(0), "{said}");
        let model = cached(&cache);
        let start = format!("laya: converted: {} in ", model.display());
        assert!(said.starts_with(&start), "{said:?} does not start with {start:?}");
        assert!(said.contains(&format!(" s ({convert_type}, ")) && said.ends_with(&notes), "{said}");
        assert!(fs::read(&model).unwrap() == fs::read(&file).unwrap());

        let (code, second, said) = run(laya_cli(&tiny(), &cache, &arguments), b"");
        assert_eq!(code, Some(0), "{said}");
        let start = format!("laya: cache hit: {} ({convert_type}, ", model.display());
        assert!(said.starts_with(&start) && said.ends_with(&notes), "{said:?} does not start with {start:?}");
        assert_eq!(first, second);
        let line = |path: &Path| format!("  \"model\": {},\n", Value::from(path.to_str().unwrap()).dumps());
        assert!(first.contains(&line(&tiny())), "the model is named as it was given: {first}");
        // The default spec calls the model as it was named, so its hash is another.
        let rest = |output: &str| -> Vec<String> {
            output.lines().filter(|line| !line.contains("\"spec_sha256\": ")).map(str::to_owned).collect()
        };
        assert_eq!(rest(&of_file).len() + 1, of_file.lines().count());
        assert_eq!(rest(&first.replace(&line(&tiny()), &line(&file))), rest(&of_file), "every other byte is the same");
        fs::remove_dir_all(&cache).unwrap();
    }
}

#[test]
fn streams_tokens_and_measurements_take_a_directory_too() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let (code, stdout, stderr) = run(laya_cli(&tiny(), &cache, &["--jsonl", "-"]), REQUEST.as_bytes());
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(parsed(&stdout).get("model").and_then(Value::as_str), tiny().to_str());
    let (code, stdout, stderr) = run(laya_cli(&tiny(), &cache, &["--tokenize", "-"]), b"text");
    assert!(code == Some(0) && stdout.starts_with('['), "{stdout}{stderr}");
    assert_eq!(stderr.lines().count(), 1);
    let arguments = ["roofline", "-t", "1", "--tokens", "4", "--repeats", "1", "--json", "--convert-cache"];
    let mut command = tool(env!("CARGO_BIN_EXE_decision-bench"), &arguments);
    command.arg(&cache).arg("-m").arg(tiny());
    let (code, stdout, stderr) = run(command, b"");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.starts_with("laya: cache hit: "), "{stderr}");
    assert_eq!(parsed(&stdout).get("passes").and_then(Value::as_array).map(<[Value]>::len), Some(1));
}

#[test]
fn the_environment_names_model_and_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (named, user) = (folder.path().join("named"), folder.path().join("user"));
    let asked = |variables: &[(&str, &Path)]| {
        let mut command = tool(env!("CARGO_BIN_EXE_laya-cli"), &["--tokenize", "-"]);
        command.env("LAYA_MODEL", tiny()).envs(variables.iter().copied());
        let (code, stdout, stderr) = run(command, b"text");
        assert!(code == Some(0) && stdout.starts_with('['), "{stderr}");
        stderr
    };
    let places = [("XDG_CACHE_HOME", user.as_path()), ("HOME", &user), ("LOCALAPPDATA", &user)];
    let said = asked(&[&places[..], &[("LAYA_CACHE", &named)]].concat());
    assert!(said.starts_with(&format!("laya: converted: {}", cached(&named).display())), "{said}");
    assert!(!user.exists());
    let said = asked(&places);
    let dir = if cfg!(target_os = "macos") { user.join("Library/Caches") } else { user };
    assert!(said.starts_with(&format!("laya: converted: {}", cached(&dir.join("laya/gguf")).display())), "{said}");

    let mut command = tool(env!("CARGO_BIN_EXE_laya-cli"), &["--tokenize", "-", "-m"]);
    command.arg(tiny());
    for variable in ["XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"] {
        command.env_remove(variable);
    }
    let (code, _, stderr) = run(command, b"text");
    assert_eq!(code, Some(64));
    assert!(stderr.contains("name one with --convert-cache DIR, or in $LAYA_CACHE"), "{stderr}");
}

#[test]
fn what_cannot_be_converted_is_an_error_that_names_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, cache) = (folder.path().join("model"), folder.path().join("cache"));
    fs::create_dir(&dir).unwrap();
    let asked = |cache: &Path| run(laya_cli(&dir, cache, &["--tokenize", "-"]), b"text");
    let (code, stdout, stderr) = asked(&cache);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    let start = format!("laya-cli: error: {}: is a directory but not a laya checkpoint: ", dir.display());
    assert!(stderr.starts_with(&start), "{stderr}");
    checkpoint::checkpoint(&dir);
    fs::remove_file(dir.join("model.safetensors")).unwrap();
    let (code, _, stderr) = asked(&cache);
    assert_eq!(code, Some(1));
    let start = format!("laya-cli: error: {}: has ", dir.display());
    assert!(stderr.starts_with(&start), "{stderr}");
    checkpoint::checkpoint(&dir);
    checkpoint::write(&dir, "encoder/config.json", b"{}");
    let (code, _, stderr) = asked(&cache);
    assert_eq!(code, Some(1));
    let of_config = dir.join("encoder/config.json").display().to_string();
    let start = format!("laya-cli: error: cannot convert the checkpoint directory {}: {of_config}: ", dir.display());
    assert!(stderr.starts_with(&start), "{stderr}");
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    let (code, _, stderr) = asked(&dir.join("cache"));
    assert_eq!(code, Some(64));
    assert!(stderr.contains("cannot be inside the checkpoint directory") && !dir.join("cache").exists(), "{stderr}");
}

#[test]
fn eight_cold_starts_convert_once_and_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, cache) = (folder.path().join("large"), folder.path().join("cache"));
    large::write(&dir);
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let start = || run(laya_cli(&dir, &cache, &["-f", "-", "-t", "1"]), REQUEST.as_bytes());
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let model = cached(&cache);
    for (code, stdout, stderr) in &outputs {
        assert_eq!(*code, Some(0), "{stderr}");
        assert_eq!(*stdout, outputs[0].1);
        assert!(stderr.contains(&model.display().to_string()), "{stderr}");
    }
    let n_said = |text: &str| outputs.iter().filter(|(_, _, stderr)| stderr.contains(text)).count();
    assert_eq!((n_said("laya: converted: "), n_said("laya: cache hit: ")), (1, 7));
    println!("{} of 8 waited", n_said("laya: waiting for another process"));
    assert_eq!(files(&cache, "").len(), 3, "model, record and lock");
}

/// A number that is another one each time.
fn random() -> f64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

/// Starts `command` 20 times and kills it at random moments of the time it takes, or after `begun` says that it writes.
/// `check` looks at what is there after each. Returns how many were killed while they wrote.
fn kill(command: impl Fn() -> Command, time: Duration, begun: impl Fn() -> bool, mut check: impl FnMut()) -> usize {
    let mut n_writing = 0;
    for i in 0..20 {
        let mut child = command().spawn().unwrap();
        drop(child.stdin.take());
        let mut rest = time;
        if i % 2 == 1 {
            while !begun() && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            rest = time / 4;
        }
        std::thread::sleep(rest.mul_f64(random()));
        // One that is done already is as good.
        let _ = child.kill();
        let was_killed = !child.wait().unwrap().success();
        n_writing += usize::from(was_killed && begun());
        check();
    }
    n_writing
}

#[test]
fn killed_while_the_cache_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, cache) = (folder.path().join("large"), folder.path().join("cache"));
    large::write(&dir);
    let command = || laya_cli(&dir, &cache, &["--tokenize", "-"]);
    let converts = || {
        let (code, stdout, stderr) = run(command(), b"text");
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.starts_with('['));
        stderr
    };
    let start = Instant::now();
    assert!(converts().contains("laya: converted: "));
    let time = start.elapsed();
    let model = cached(&cache);
    let whole = fs::read(&model).unwrap();
    fs::remove_file(&model).unwrap();
    let temporaries = || files(&cache, ".tmp");

    let mut n = 0;
    let begun = || !temporaries().is_empty();
    let n_writing = kill(command, time, begun, || {
        n += 1;
        if model.exists() {
            assert!(fs::read(&model).unwrap() == whole, "a partial model under its name");
        }
        if n % 5 == 0 {
            let said = converts();
            assert!(said.contains("laya: converted: ") || said.contains("laya: cache hit: "), "{said}");
            assert!(fs::read(&model).unwrap() == whole);
        }
        let _ = fs::remove_file(&model);
        // So that the next one is seen to write.
        temporaries().iter().for_each(|path| fs::remove_file(path).unwrap());
    });
    assert!(n_writing > 0, "no process was killed while it wrote");
    println!("{n_writing} of 20 were killed while they wrote");

    fs::write(model.with_extension("gguf.0123456789abcdef.tmp"), "half").unwrap();
    // Where there are no locks, only old ones are known to be dead.
    for path in temporaries() {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(601)).unwrap();
    }
    let _ = fs::remove_file(&model);
    assert!(converts().contains("laya: converted: "));
    assert_eq!(files(&cache, "").len(), 3, "the model, its record and the lock");
    assert!(fs::read(&model).unwrap() == whole);
}

#[test]
fn killed_while_a_checkpoint_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("large");
    large::write(&dir);
    let out_folder = folder.path().join("out");
    fs::create_dir(&out_folder).unwrap();
    let out = out_folder.join("model.gguf");
    let command = || {
        let mut command = tool(env!("CARGO_BIN_EXE_laya-convert"), &[]);
        command.arg(&dir).arg("-o").arg(&out);
        command
    };
    let converts = || {
        let (code, _, stderr) = run(command(), b"");
        assert_eq!(code, Some(0), "{stderr}");
        fs::read(&out).unwrap()
    };
    let start = Instant::now();
    let whole = converts();
    let time = start.elapsed();
    fs::remove_file(&out).unwrap();
    let temporaries = || -> Vec<PathBuf> {
        let paths = fs::read_dir(&out_folder).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "tmp")).collect()
    };
    let mut n = 0;
    let n_writing = kill(
        command,
        time,
        || !temporaries().is_empty(),
        || {
            n += 1;
            if out.exists() {
                assert!(fs::read(&out).unwrap() == whole, "a partial model under its name");
            }
            if n % 5 == 0 {
                assert!(converts() == whole);
            }
            // From the second half on there is an old model, which must stay whole too.
            if n < 10 {
                let _ = fs::remove_file(&out);
            } else {
                assert!(out.exists());
            }
            temporaries().iter().for_each(|path| fs::remove_file(path).unwrap());
        },
    );
    assert!(n_writing > 0, "no process was killed while it wrote");
    println!("{n_writing} of 20 were killed while they wrote");
    assert!(converts() == whole);
}

#[test]
fn the_list_for_machines_has_what_the_table_has() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let (code, _, stderr) = run(laya_cli(&tiny(), &cache, &["--tokenize", "-"]), b"text");
    assert_eq!(code, Some(0), "{stderr}");
    let convert = |arguments: &[&str]| {
        let mut command = tool(env!("CARGO_BIN_EXE_laya-convert"), &["cache"]);
        command.args(arguments).env("LAYA_CACHE", &cache);
        let (code, stdout, stderr) = run(command, b"");
        assert_eq!(code, Some(0), "{stderr}");
        (stdout, stderr)
    };
    let list = parsed(&convert(&["list", "--json"]).0);
    assert_eq!(list.get("cache").and_then(Value::as_str), cache.to_str());
    let entries = list.get("entries").and_then(Value::as_array).unwrap();
    let [entry] = entries else { panic!("{} entries", entries.len()) };
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap();
    assert_eq!(text("model"), cached(&cache).to_str().unwrap());
    assert_eq!(text("key"), cached(&cache).parent().unwrap().file_name().unwrap());
    assert_eq!((text("name"), text("outtype"), text("state")), ("checkpoint", "f16", "ok"));
    assert_eq!(text("checkpoint"), tiny().to_str().unwrap());
    assert_eq!(entry.get("n_bytes"), list.get("n_bytes"));
    let (table, _) = convert(&["list"]);
    for cell in [&text("key")[..12], "checkpoint", "f16", "ok", tiny().to_str().unwrap()] {
        assert!(table.lines().nth(1).unwrap().split_whitespace().any(|word| word == cell), "{cell}: {table}");
    }

    // One that a process holds is noted and stays.
    let lock = fs::File::options().write(true).open(cached(&cache).with_file_name("lock")).unwrap();
    lock.lock().unwrap();
    let (stdout, stderr) = convert(&["prune", "--all"]);
    assert!(stdout.starts_with("removed 0 entries, 0 B; 1 entry, "), "{stdout}");
    assert!(stderr.starts_with("laya-convert: note: kept ") && stderr.contains("a process is using it"), "{stderr}");
    drop(lock);
    let (stdout, stderr) = convert(&["prune", "--all"]);
    assert!(stdout.contains(" checkpoint f16 (") && stdout.contains("; 0 entries, 0 B left in "), "{stdout}");
    assert_eq!(stderr, "");
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}
