//! What of a cache is not believed: what belongs to another key, is no file, or could have been put there by others.

use std::fs;
#[cfg(unix)]
use std::path::Path;

#[cfg(unix)]
use laya::ErrorKind;
#[cfg(unix)]
use laya::convert::cache::Policy;
use laya::convert::cache::{State, VERSION};

use crate::{checkpoint, checkpoint_file, place};

#[test]
fn a_model_that_belongs_to_another_key_is_not_served() {
    let place = place();
    let cached = place.open().unwrap();
    let good = fs::read(&cached.path).unwrap();
    let folder = cached.path.parent().unwrap();
    // Another checkpoint of the same name, whose entry comes to lie under the key of this one.
    checkpoint::write(&place.checkpoint, "README.md", b"---\ntags: [new]\n---\n");
    let other = place.open().unwrap();
    assert!(fs::read(&other.path).unwrap() != good);
    checkpoint::write(&place.checkpoint, "README.md", &checkpoint_file("README.md"));
    for file in ["model.gguf", "record.json"] {
        fs::copy(other.path.with_file_name(file), folder.join(file)).unwrap();
    }
    let said = format!("its record is that of the key {:?}", other.key);
    let state = |key: &str| place.cache.list().unwrap().into_iter().find(|entry| entry.key == key).unwrap().state;
    assert_eq!((state(&cached.key), state(&other.key)), (State::Damaged(said.clone()), State::Whole));
    let again = place.open().unwrap();
    assert!(!again.is_hit() && again.notes.iter().any(|note| note.contains(&said)), "{:?}", again.notes);
    assert!(fs::read(&cached.path).unwrap() == good);
    assert!(place.open().unwrap().is_hit() && state(&cached.key) == State::Whole);

    // The record of another type, and of another converter.
    let path = folder.join("record.json");
    let record = fs::read_to_string(&path).unwrap();
    let version = format!("\"converter\": {VERSION}");
    for (changed, why) in [
        (record.replace("\"f16\"", "\"f32\""), "not f32, as its record says"),
        (record.replace(&version, "\"converter\": 999"), "version 999 of the converter"),
    ] {
        assert_ne!(changed, record);
        fs::write(&path, changed).unwrap();
        let again = place.open().unwrap();
        assert!(!again.is_hit() && again.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", again.notes);
        assert!(place.open().unwrap().is_hit());
    }
}

#[cfg(unix)]
#[test]
fn nothing_waits_for_a_pipe_in_the_place_of_a_file() {
    let place = place();
    let model = place.open().unwrap().path;
    let pipe = |name: &str| {
        let path = model.with_file_name(name);
        fs::rename(&path, place.root.path().join("aside")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    for name in ["lock", "record.json", "model.gguf"] {
        let path = pipe(name);
        let message = place.refused();
        assert!(message.starts_with(&format!("{}: is something else", path.display())), "{message}");
        let state = &place.cache.list().unwrap()[0].state;
        assert!(matches!(state, State::Refused(why) if why.starts_with("is something else")), "{name}: {state:?}");
        let pruned = place.cache.prune(&Policy { all: true, ..Policy::default() }).unwrap();
        assert_eq!((pruned.removed.len(), pruned.kept.len()), (0, 1), "{name}");
        fs::remove_file(&path).unwrap();
        fs::rename(place.root.path().join("aside"), &path).unwrap();
        assert!(place.open().unwrap().is_hit(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_cache_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let dir = place.cache.dir();
    let mode = || fs::metadata(dir).unwrap().permissions().mode() & 0o7777;
    place.open().unwrap();
    assert_eq!(mode(), 0o700, "made for this user alone");
    let set_mode = |mode| fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    let start = format!("{}: can be written by other users (mode 0777)", dir.display());
    set_mode(0o777);
    let policy = Policy { all: true, ..Policy::default() };
    for error in [place.open().unwrap_err(), place.cache.list().unwrap_err(), place.cache.prune(&policy).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().starts_with(&start) && error.message().contains("chmod go-w it"), "{error}");
    }
    // Where nobody can rename or remove what is another's, each entry is looked at.
    set_mode(0o1777);
    assert!(place.open().unwrap().is_hit());
    assert_eq!(place.cache.list().unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn what_others_could_have_put_there_is_refused() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    let place = place();
    let model = place.open().unwrap().path;
    let folder = model.parent().unwrap().to_owned();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let can_write = "can be written by other users (mode 0";
    for (path, mode, good) in
        [(&folder, 0o777, 0o700), (&folder, 0o770, 0o755), (&model, 0o666, 0o600), (&model, 0o664, 0o644)]
    {
        set_mode(path, mode);
        let message = place.refused();
        assert!(message.starts_with(&format!("{}: {can_write}{mode:o})", path.display())), "{message}");
        assert!(message.contains("chmod go-w"), "{message}");
        let state = &place.cache.list().unwrap()[0].state;
        assert!(matches!(state, State::Refused(why) if why.starts_with(can_write)), "{state:?}");
        let pruned = place.cache.prune(&Policy { all: true, ..Policy::default() }).unwrap();
        assert!(pruned.removed.is_empty() && pruned.kept[0].why.starts_with(can_write), "{pruned:?}");
        set_mode(path, good);
        assert!(place.open().unwrap().is_hit());
    }

    let other = place.root.path().join("other");
    for path in [&model, &folder] {
        fs::rename(path, &other).unwrap();
        symlink(&other, path).unwrap();
        let message = place.refused();
        assert!(message.starts_with(&format!("{}: is a symbolic link", path.display())), "{message}");
        let pruned = place.cache.prune(&Policy { all: true, ..Policy::default() }).unwrap();
        assert!(pruned.removed.is_empty() && pruned.kept[0].why.starts_with("is a symbolic link"), "{pruned:?}");
        fs::remove_file(path).unwrap();
        fs::rename(&other, path).unwrap();
        assert!(place.open().unwrap().is_hit());
    }

    if fs::metadata(&folder).unwrap().uid() != 0 {
        println!("skipped: only root can give files to another user");
        return;
    }
    for path in [&model, &folder] {
        chown(path, Some(12_345), None).unwrap();
        let message = place.refused();
        assert!(message.starts_with(&format!("{}: belongs to user 12345, not to 0", path.display())), "{message}");
        chown(path, Some(0), None).unwrap();
    }
    assert!(place.open().unwrap().is_hit());
}
