//! The conversion cache: what is found again, what is made again, what is refused, and what pruning leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../checkpoint/mod.rs"]
mod checkpoint;
#[path = "../large/mod.rs"]
mod large;
mod prune;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use laya::ErrorKind;
use laya::convert::cache::{Cache, Cached, Event, VERSION};
use laya::convert::{Options, Outtype, convert_to};
use laya::json::{self, Value};
use tempfile::TempDir;

/// A checkpoint directory `model` and a cache beside it, which is not there yet.
struct Place {
    root: TempDir,
    checkpoint: PathBuf,
    cache: Cache,
}

fn place() -> Place {
    let root = tempfile::tempdir().unwrap();
    let checkpoint = root.path().join("model");
    checkpoint::checkpoint(&checkpoint);
    let cache = Cache::at(root.path().join("cache"));
    Place { root, checkpoint, cache }
}

impl Place {
    fn open(&self) -> laya::Result<Cached> {
        self.cache.open(&self.checkpoint, Outtype::F16, &mut |_| ())
    }

    /// The message of the error that opening it must give.
    #[track_caller]
    fn refused(&self) -> String {
        self.open().unwrap_err().to_string()
    }

    /// The bytes a conversion without the cache gives.
    fn converted(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        convert_to(&self.checkpoint, &mut bytes, &Options::default(), &mut |_, _| ()).unwrap();
        bytes
    }
}

/// Every file and folder below `dir`, sorted.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            folders.extend(path.is_dir().then(|| path.clone()));
            found.push(path.strip_prefix(dir).unwrap().to_owned());
        }
    }
    found.sort();
    found
}

fn set_age(path: &Path, age: Duration) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn a_checkpoint_is_converted_once() {
    let place = place();
    let before = tree(&place.checkpoint);
    let (mut done_last, mut total_last) = (0, 0);
    let first = place.cache.open(&place.checkpoint, Outtype::F16, &mut |event| match event {
        Event::Converting { done, total } => (done_last, total_last) = (done, total),
        Event::Started => assert_eq!((done_last, total_last), (0, 0), "said first"),
        Event::Waiting => panic!("nobody to wait for"),
    });
    let first = first.unwrap();
    assert!(!first.is_hit() && first.convert_time.is_some());
    assert!(done_last == total_last && total_last > 0, "{done_last} of {total_last}");
    assert_eq!(first.path, place.cache.dir().join(&first.key).join("model.gguf"));
    assert!(first.key.len() == 32 && first.key.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(fs::read(&first.path).unwrap(), place.converted());
    assert_eq!(first.n_bytes, fs::metadata(&first.path).unwrap().len());

    let second = place.cache.open(&place.checkpoint, Outtype::F16, &mut |event| panic!("{event:?}")).unwrap();
    assert!(second.is_hit());
    assert_eq!((second.path, second.key, second.n_bytes), (first.path.clone(), first.key.clone(), first.n_bytes));

    // Another type is another entry, and so is another state of the checkpoint; the entries there stay.
    let other = place.cache.open(&place.checkpoint, Outtype::Q8_0Mixed, &mut |_| ()).unwrap();
    assert!(!other.is_hit() && other.key != first.key);
    checkpoint::write(&place.checkpoint, "README.md", b"---\ntags: [new]\n---\n");
    let changed = place.open().unwrap();
    assert!(!changed.is_hit() && changed.key != first.key);
    assert_eq!(fs::read(changed.path).unwrap(), place.converted());
    checkpoint::write(&place.checkpoint, "README.md", &checkpoint_file("README.md"));
    assert!(place.open().is_ok_and(|cached| cached.is_hit() && cached.key == first.key));

    assert_eq!(tree(&place.checkpoint), before, "the checkpoint is only read");
    let folder = place.cache.dir().join(&first.key);
    assert_eq!(tree(&folder), ["lock", "model.gguf", "record.json"].map(PathBuf::from));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o700);
    }
}

/// What the smallest checkpoint has in `file`.
fn checkpoint_file(file: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    checkpoint::checkpoint(dir.path()).into_iter().find(|(name, _)| *name == file).unwrap().1
}

#[cfg(unix)]
#[test]
fn a_directory_of_links_is_a_checkpoint_too() {
    use std::os::unix::fs::symlink;
    let place = place();
    // As a hub's cache has them: names lead to files that are called by their content.
    let snapshot = place.root.path().join("snapshots/1a2b3c");
    for folder in ["encoder", "tokenizer"] {
        fs::create_dir_all(snapshot.join(folder)).unwrap();
    }
    for file in tree(&place.checkpoint).iter().filter(|file| place.checkpoint.join(file).is_file()) {
        symlink(place.checkpoint.join(file), snapshot.join(file)).unwrap();
    }
    let open = |dir: &Path| place.cache.open(dir, Outtype::F16, &mut |_| ()).unwrap();
    let first = open(&snapshot);
    assert!(!first.is_hit() && first.path.ends_with("1a2b3c.gguf"));
    assert!(open(&snapshot).is_hit());
    let link = place.root.path().join("latest");
    symlink(&snapshot, &link).unwrap();
    let by_link = open(&link);
    assert!(!by_link.is_hit() && by_link.path.ends_with("latest.gguf"), "the name goes into the model");
    checkpoint::write(&place.checkpoint, "README.md", b"---\ntags: [new]\n---\n");
    assert!(!open(&snapshot).is_hit(), "what a link leads to has changed");
}

#[test]
fn an_entry_says_what_it_was_made_of_and_when_it_was_used() {
    let place = place();
    let cached = place.open().unwrap();
    let path = cached.path.with_file_name("record.json");
    let record = json::parse(&fs::read(&path).unwrap()).unwrap();
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap().to_owned();
    assert_eq!(text("key"), cached.key);
    assert_eq!(text("checkpoint"), place.checkpoint.to_str().unwrap());
    assert_eq!(text("outtype"), "f16");
    let number = |key: &str| record.get(key).and_then(Value::as_u64).unwrap();
    assert_eq!((number("n_bytes"), number("converter")), (cached.n_bytes, u64::from(VERSION)));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert!(number("created") <= now && number("created") + 3_600 > now);

    let day = Duration::from_secs(86_400);
    set_age(&path, 3 * day);
    let last_used = || place.cache.list().unwrap()[0].last_used.unwrap();
    assert!(last_used() < SystemTime::now() - 2 * day);
    let model_time = fs::metadata(&cached.path).unwrap().modified().unwrap();
    place.open().unwrap();
    assert!(last_used() > SystemTime::now() - day, "a hit is a use");
    assert_eq!(fs::metadata(&cached.path).unwrap().modified().unwrap(), model_time, "the model is left alone");
    assert_eq!(json::parse(&fs::read(&path).unwrap()).unwrap(), record);

    // A model whose record was lost, as by a process that was killed between the two, is as good and gets one again.
    fs::remove_file(&path).unwrap();
    assert!(place.open().unwrap().is_hit());
    assert_eq!(json::parse(&fs::read(&path).unwrap()).unwrap().get("key"), record.get("key"));
}

#[test]
fn a_damaged_model_is_made_again() {
    let place = place();
    let path = place.open().unwrap().path;
    let good = fs::read(&path).unwrap();
    for damaged in [&good[..good.len() - 1], &good[..100], b""] {
        fs::write(&path, damaged).unwrap();
        let again = place.open().unwrap();
        assert!(!again.is_hit());
        assert!(
            again.notes.iter().any(|note| note.starts_with("the file in the cache was damaged (")),
            "{:?}",
            again.notes
        );
        assert!(fs::read(&path).unwrap() == good);
        assert!(place.open().unwrap().is_hit());
    }
}

#[test]
fn what_is_no_checkpoint_is_refused_with_what_to_do() {
    let place = place();
    let dir = tempfile::tempdir().unwrap();
    let other = |path: &Path| place.cache.open(path, Outtype::F16, &mut |_| ()).unwrap_err();
    let error = other(dir.path());
    assert_eq!(error.kind(), ErrorKind::Checkpoint);
    assert!(error.message().starts_with("is a directory but not a laya checkpoint: it has no rl_agent_config.json;"));
    assert_eq!(error.file(), Some(dir.path()));
    assert!(other(&place.checkpoint.join("README.md")).message().starts_with("is not a directory"));
    assert_eq!(other(&dir.path().join("nothing")).kind(), ErrorKind::Io);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../blobs/0", dir.path().join("rl_agent_config.json")).unwrap();
        assert!(other(dir.path()).message().contains("is a link to nothing; download it again"));
    }
    assert!(!place.cache.dir().exists(), "nothing is made for any of them");

    // What the converter refuses leaves nothing either, and the message names the directory and the file.
    checkpoint::write(&place.checkpoint, "encoder/config.json", b"{}");
    let error = place.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checkpoint);
    assert_eq!(error.file(), Some(place.checkpoint.join("encoder/config.json").as_path()), "{error}");
    assert_eq!(tree(place.cache.dir()), Vec::<PathBuf>::new());
}

#[test]
fn a_cache_inside_the_checkpoint_is_refused_before_anything_is_made() {
    let place = place();
    let before = tree(place.root.path());
    for inside in ["", "cache", "encoder/new/deep", "../model/cache", "new/../cache"] {
        let cache = Cache::at(place.checkpoint.join(inside));
        let error = cache.open(&place.checkpoint, Outtype::F16, &mut |_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{inside}");
        assert!(error.message().contains("cannot be inside the checkpoint directory"), "{error}");
        assert_eq!(tree(place.root.path()), before, "{inside}");
    }
    Cache::at(place.checkpoint.join("../cache")).open(&place.checkpoint, Outtype::F16, &mut |_| ()).unwrap();
}

#[test]
fn a_checkpoint_that_changes_while_it_is_converted_is_refused() {
    let place = place();
    let large = place.root.path().join("large");
    large::write(&large);
    let changes: [fn(&Path); 4] = [
        |dir| checkpoint::write(dir, "encoder/config.json", checkpoint::ENCODER.replace('8', "6").as_bytes()),
        |dir| checkpoint::write(dir, "added.json", b""),
        |dir| fs::remove_file(dir.join("generation_config.json")).unwrap(),
        // Larger files are known by size and time.
        |dir| set_age(&dir.join("model.safetensors"), Duration::from_secs(60)),
    ];
    for (i, change) in changes.iter().enumerate() {
        let checkpoint = if i == 3 { &large } else { &place.checkpoint };
        let mut changed = false;
        let result = place.cache.open(checkpoint, Outtype::F16, &mut |event| {
            if matches!(event, Event::Converting { .. }) && !changed {
                change(checkpoint);
                changed = true;
            }
        });
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
        assert!(error.message().starts_with("changed while it was converted"), "{i}: {error}");
        assert_eq!(error.file(), Some(checkpoint.as_path()), "{i}");
        assert_eq!(tree(place.cache.dir()), Vec::<PathBuf>::new(), "{i}");
        // What it changed to can be opened.
        assert!(!place.cache.open(checkpoint, Outtype::F16, &mut |_| ()).unwrap().is_hit());
        fs::remove_dir_all(place.cache.dir()).unwrap();
    }
}

#[test]
fn of_many_that_start_together_one_converts() {
    let place = place();
    let (n_converted, n_waited) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let start = std::sync::Barrier::new(8);
    let paths: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            let mut waits = false;
            let cached =
                place.cache.open(&place.checkpoint, Outtype::F16, &mut |event| waits |= event == Event::Waiting);
            let cached = cached.unwrap();
            n_converted.fetch_add(usize::from(!cached.is_hit()), Ordering::Relaxed);
            n_waited.fetch_add(usize::from(waits), Ordering::Relaxed);
            cached.path
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(n_converted.into_inner(), 1);
    println!("{} of 8 waited", n_waited.into_inner());
    assert!(paths.iter().all(|path| *path == paths[0]));
    assert_eq!(fs::read(&paths[0]).unwrap(), place.converted());
    assert_eq!(tree(paths[0].parent().unwrap()).len(), 3);
}

#[test]
fn an_entry_removed_while_it_is_waited_for_is_made_anew() {
    let place = place();
    let cached = place.open().unwrap();
    let folder = cached.path.parent().unwrap();
    fs::remove_file(&cached.path).unwrap();
    let held = fs::File::options().write(true).open(folder.join("lock")).unwrap();
    held.lock().unwrap();
    let mut held = Some(held);
    let again = place.cache.open(&place.checkpoint, Outtype::F16, &mut |event| {
        if event == Event::Waiting
            && let Some(held) = held.take()
        {
            // As pruning does it; the lock ends with the process, or here with the file.
            fs::remove_dir_all(folder).unwrap();
            drop(held);
        }
    });
    assert!(!again.unwrap().is_hit() && held.is_none());
    assert_eq!(tree(folder).len(), 3);
}

#[test]
fn what_killed_conversions_left_is_removed_before_a_conversion() {
    let place = place();
    let model = place.open().unwrap().path;
    let temporary = |hex: &str, age: u64| {
        let path = model.with_file_name(format!("model.gguf.{hex}.tmp"));
        fs::write(&path, "half a model").unwrap();
        set_age(&path, Duration::from_secs(age));
        path
    };
    let (old, young) = (temporary("0123456789abcdef", 601), temporary("fedcba9876543210", 0));
    assert!(place.open().unwrap().is_hit());
    assert!(old.exists() && young.exists(), "a hit removes nothing");
    fs::remove_file(&model).unwrap();
    assert!(!place.open().unwrap().is_hit());
    assert!(!old.exists(), "stale");
    // Whoever holds the lock knows that nobody writes it.
    let has_locks = fs::File::open(model.with_file_name("lock")).unwrap().try_lock().is_ok();
    assert!(!young.exists() || !has_locks);
}

#[test]
fn what_a_conversion_remarked_is_said_again() {
    let place = place();
    let agent = checkpoint::AGENT.replace("[1.0, ", "[7.5, ");
    checkpoint::write(&place.checkpoint, "rl_agent_config.json", agent.as_bytes());
    let first = place.open().unwrap();
    assert!(!first.is_hit() && !first.notes.is_empty());
    let second = place.open().unwrap();
    assert!(second.is_hit());
    assert_eq!(first.notes, second.notes);
}
