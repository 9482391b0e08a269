//! Others at work on the same files: what they did is not undone, what they may not read they cannot, and what is theirs
//! stays theirs.

use crate::{names, stamp};
use laya::gguf::{File, TensorType, Writer};
use laya::spec::{self, KEY};
use std::fs;
use std::path::{Path, PathBuf};

const SPEC: &[u8] = br#"{"spec_version": 1, "layout": "laya"}"#;

/// A model file with some data in a folder of its own.
fn model() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut writer = Writer::new();
    writer.set("general.architecture", "laya");
    writer.add_tensor("t", &[1_000], TensorType::F32).unwrap();
    let bytes = writer.to_bytes(|tensor, out| {
        out.write_all(&vec![7; tensor.n_bytes as usize]).unwrap();
        Ok(())
    });
    fs::write(&path, bytes.unwrap()).unwrap();
    (folder, path)
}

/// Stamps while `others` do something, once; what is said about it.
fn stamp_while(path: &Path, out: Option<&Path>, force: bool, mut others: impl FnMut()) -> Result<(), String> {
    let mut n_calls = 0;
    let stamped = spec::stamp(path, out, SPEC, laya::kernels::NUMERIC_CONTRACT, force, &mut |_, _| {
        if n_calls == 0 {
            others();
        }
        n_calls += 1;
    });
    assert!(n_calls > 0, "nothing was written");
    stamped.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let (folder, path) = model();
    let before = fs::read(&path).unwrap();
    let out = folder.path().join("out.gguf");
    let said = stamp_while(&path, Some(&out), false, || fs::write(&out, b"somebody else's").unwrap());
    assert_eq!(said.unwrap_err(), format!("{}: appeared meanwhile; nothing was replaced", out.display()));
    assert_eq!(fs::read(&out).unwrap(), b"somebody else's");
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(names(folder.path()), ["model.gguf", "out.gguf"]);
    // By force it is.
    stamp_while(&path, Some(&out), true, || fs::write(&out, b"once more").unwrap()).unwrap();
    assert_eq!(File::open(&out).unwrap().string(KEY).unwrap(), Some(SPEC));

    fs::remove_file(&out).unwrap();
    stamp_while(&path, Some(&out), false, || {}).unwrap();
    assert_eq!(File::open(&out).unwrap().string(KEY).unwrap(), Some(SPEC));
    assert_eq!(names(folder.path()), ["model.gguf", "out.gguf"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_appears_meanwhile_is_not_followed() {
    let (folder, path) = model();
    let (out, other) = (folder.path().join("out.gguf"), folder.path().join("other"));
    for exists in [false, true] {
        if exists {
            fs::write(&other, b"somebody else's").unwrap();
        }
        let said = stamp_while(&path, Some(&out), false, || std::os::unix::fs::symlink("other", &out).unwrap());
        assert!(said.unwrap_err().contains("out.gguf: appeared meanwhile"));
        assert_eq!(fs::read(&other).ok(), exists.then(|| b"somebody else's".to_vec()));
        assert!(fs::symlink_metadata(&out).unwrap().is_symlink());
        fs::remove_file(&out).unwrap();
    }
}

/// What others may do to a file.
type Deed = fn(&Path);

#[test]
fn a_model_that_is_changed_meanwhile_stays_what_others_made_of_it() {
    let deeds: [(&str, Deed); 4] = [
        ("replaced by one that is as long and as old", |path| {
            let other = path.with_extension("other");
            fs::copy(path, &other).unwrap();
            let time = fs::metadata(path).unwrap().modified().unwrap();
            fs::File::options().append(true).open(&other).unwrap().set_modified(time).unwrap();
            fs::rename(&other, path).unwrap();
        }),
        ("longer", |path| {
            use std::io::Write as _;
            fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
        }),
        ("written to", |path| {
            use std::io::{Seek as _, Write as _};
            let mut file = fs::File::options().write(true).open(path).unwrap();
            file.seek(std::io::SeekFrom::End(-100)).unwrap();
            file.write_all(b"other data").unwrap();
            // As it would be later; the clock of the file may not have ticked since it was made.
            let time = file.metadata().unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
            file.set_modified(time).unwrap();
        }),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    // Which file it is, only Unix says.
    for (what, deed) in deeds.into_iter().skip(usize::from(!cfg!(unix))) {
        let (folder, path) = model();
        let mut others = None;
        let said = stamp_while(&path, None, false, || {
            deed(&path);
            others = fs::read(&path).ok();
        });
        let says = format!("{}: was changed meanwhile; nothing was written", path.display());
        assert_eq!(said, Err(says), "{what}");
        assert!(fs::read(&path).ok() == others, "{what}");
        let left = names(folder.path());
        assert!(left.iter().all(|name| name == "model.gguf"), "{what}: {left:?}");
    }
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn who_may_not_read_the_model_may_read_no_copy_of_it_at_any_time() {
        for (old, source, expected) in
            [(None, 0o600, 0o600), (None, 0o400, 0o400), (None, 0o644, 0o644), (Some(0o640), 0o600, 0o640)]
        {
            for in_place in [true, false] {
                let (folder, path) = model();
                set_mode(&path, source);
                let out = folder.path().join("out.gguf");
                if let Some(mode) = old {
                    fs::write(&out, b"old").unwrap();
                    set_mode(&out, mode);
                }
                let (out, expected) = if in_place { (None, source) } else { (Some(out.as_path()), expected) };
                let mut while_written = 0;
                stamp_while(&path, out, true, || {
                    let is_temporary = |name: &String| name.ends_with(".tmp");
                    let temporary = names(folder.path()).into_iter().find(is_temporary).unwrap();
                    while_written = mode(&folder.path().join(temporary));
                })
                .unwrap();
                let case = format!("{source:o}, {old:?} there, in place: {in_place}; meanwhile {while_written:o}");
                assert_eq!(mode(out.unwrap_or(&path)), expected, "{case}");
                assert_eq!(while_written & !expected & 0o077, 0, "{case}");
                assert_eq!(mode(&path), source, "{case}");
            }
        }
    }

    #[test]
    fn a_mode_that_is_narrowed_meanwhile_is_not_widened_again() {
        let (_folder, path) = model();
        let said = stamp_while(&path, None, false, || set_mode(&path, 0o600));
        assert!(said.is_err_and(|said| said.contains("was changed meanwhile")));
        assert_eq!(mode(&path), 0o600);
    }

    fn owner(path: &Path) -> (u32, u32) {
        let facts = fs::metadata(path).unwrap();
        (facts.uid(), facts.gid())
    }

    #[test]
    fn the_owner_is_kept_by_who_may_give_files_away() {
        let (_folder, path) = model();
        if let Err(error) = chown(&path, Some(1234), Some(2345)) {
            println!("skipped: this process may not give files away ({error})");
            return;
        }
        set_mode(&path, 0o640);
        stamp(&path, None, SPEC, false).unwrap();
        assert_eq!((owner(&path), mode(&path)), ((1234, 2345), 0o640));
        spec::unstamp(&path, None, false, &mut |_, _| {}).unwrap();
        assert_eq!((owner(&path), mode(&path)), ((1234, 2345), 0o640));
    }

    #[test]
    fn an_owner_that_cannot_be_kept_is_named() {
        use std::os::unix::process::CommandExt as _;
        const NOBODY: u32 = 65_534;
        let (folder, path) = model();
        fs::write(folder.path().join("spec.json"), SPEC).unwrap();
        set_mode(folder.path(), 0o777);
        // The rights of a group that is not kept are not for another one.
        set_mode(&path, 0o664);
        let (user, group) = owner(&path);
        let set = |arguments: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gguf-spec"));
            command.args(["set", "model.gguf"]).args(arguments).current_dir(folder.path());
            command.uid(NOBODY).gid(NOBODY).output()
        };
        let output = match set(&["spec.json"]) {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: no other user to be here ({error})");
                return;
            }
        };
        let lost = format!(
            "gguf-spec: note: model.gguf: owner and group could not be kept: they were {user}:{group} and are \
             {NOBODY}:{NOBODY}\n"
        );
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), lost.clone()));
        assert_eq!((owner(&path), mode(&path)), ((NOBODY, NOBODY), 0o644));
        assert_eq!(File::open(&path).unwrap().string(KEY).unwrap(), Some(SPEC));
        // Now it is theirs, and stays so.
        let again = set(&["spec.json"]).unwrap();
        assert_eq!((again.status.code(), again.stderr.as_slice()), (Some(0), &b""[..]));
        chown(&path, Some(user), Some(group)).unwrap();
        let removed = set(&["--remove"]).unwrap();
        assert_eq!((removed.status.code(), String::from_utf8(removed.stderr).unwrap()), (Some(0), lost));
    }
}
