//! What a cache lists, and what pruning removes of it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use laya::convert::Outtype;
use laya::convert::cache::{Cache, Cached, Policy, State};

use crate::{Place, place, set_age, tree};

/// A cache with three entries of one checkpoint, last used 3, 2 and 1 days ago: f32, f16, q8_0-mixed.
fn three() -> (Place, [Cached; 3]) {
    let place = place();
    let day = Duration::from_secs(86_400);
    let made = [(Outtype::F32, 3), (Outtype::F16, 2), (Outtype::Q8_0Mixed, 1)].map(|(outtype, n_days)| {
        let cached = place.cache.open(&place.checkpoint, outtype, &mut |_| ()).unwrap();
        set_age(&cached.path.with_file_name("record.json"), n_days * day);
        cached
    });
    (place, made)
}

fn outtypes(cache: &Cache) -> Vec<&'static str> {
    cache.list().unwrap().iter().map(|entry| entry.outtype.unwrap().as_str()).collect()
}

#[test]
fn a_list_has_every_entry_and_nothing_else() {
    assert!(Cache::at("no/such/cache").list().unwrap().is_empty());
    let (place, made) = three();
    let cache = place.cache.dir();
    // None of these is an entry.
    fs::write(cache.join("notes.txt"), "").unwrap();
    fs::create_dir(cache.join("models")).unwrap();
    fs::write(cache.join("models/a.gguf"), "").unwrap();
    // A file where the folder of a key should be, which is refused when that key is opened, and a folder of a key with
    // what the cache does not make. Both are listed, so that they are found, and stay.
    fs::write(cache.join("0".repeat(32)), "").unwrap();
    fs::create_dir(cache.join("1".repeat(32))).unwrap();
    fs::write(cache.join("1".repeat(32)).join("a.gguf"), "").unwrap();
    fs::write(cache.join("1".repeat(32)).join("a.txt"), "mine").unwrap();
    let strange = tree(cache);
    // What processes that were killed leave, and what file browsers do, is an entry all the same.
    fs::create_dir(cache.join("e".repeat(32))).unwrap();
    fs::create_dir(cache.join("f".repeat(32))).unwrap();
    fs::write(cache.join("f".repeat(32)).join("a.gguf.0.tmp"), "123").unwrap();
    fs::write(made[0].path.with_file_name(".DS_Store"), "").unwrap();

    let (entries, others): (Vec<_>, Vec<_>) =
        place.cache.list().unwrap().into_iter().partition(|entry| entry.state == State::Whole);
    let state =
        |digit: &str| others.iter().find(|entry| entry.key.starts_with(&digit.repeat(9))).unwrap().state.clone();
    assert!(matches!(state("0"), State::Refused(_)));
    assert_eq!(state("1"), State::Foreign("a.txt".into()));
    assert_eq!((state("e"), state("f")), (State::Unfinished, State::Unfinished));
    assert_eq!((entries.len(), others.len()), (3, 4));
    for (entry, cached) in entries.iter().zip(&made) {
        assert_eq!(entry.key, cached.key, "least recently used first");
        assert_eq!(entry.model.as_ref(), Some(&cached.path));
        assert_eq!(entry.name().as_deref(), Some("model"));
        assert_eq!(entry.checkpoint.as_ref(), Some(&place.checkpoint));
        assert_eq!(entry.state, State::Whole);
        assert!(entry.n_bytes > cached.n_bytes && entry.n_bytes < cached.n_bytes + 2_000);
        assert!(entry.created.unwrap() > entry.last_used.unwrap() && !entry.is_held && entry.n_stale == 0);
    }

    let pruned = place.cache.prune(&Policy { damaged: true, ..Policy::default() }).unwrap();
    let keys: Vec<_> = pruned.removed.iter().map(|removed| (&removed.entry.key[..1], removed.n_bytes)).collect();
    assert!(keys.len() == 2 && keys.contains(&("e", 0)) && keys.contains(&("f", 3)), "{keys:?}");
    let pruned = place.cache.prune(&Policy { all: true, ..Policy::default() }).unwrap();
    assert_eq!((pruned.removed.len(), pruned.kept.len(), pruned.n_left), (3, 2, 2));
    assert!(pruned.kept.iter().all(|kept| !kept.is_failure));
    let left = tree(cache);
    assert!(left.len() == strange.len() - 12, "{left:?}");
    assert!(left.iter().all(|path| strange.contains(path)));
}

#[test]
fn pruning_by_age_and_by_size_takes_the_least_recently_used() {
    let (place, _made) = three();
    let day = Duration::from_secs(86_400);
    let sizes: Vec<u64> = place.cache.list().unwrap().iter().map(|entry| entry.n_bytes).collect();
    let prune = |policy: &Policy| place.cache.prune(policy).unwrap();
    let removed = |policy: &Policy| {
        let pruned = prune(policy);
        assert_eq!(pruned.n_bytes() + pruned.left_bytes, sizes.iter().sum::<u64>());
        assert_eq!(pruned.removed.len() + pruned.n_left, 3);
        pruned.removed.iter().map(|removed| removed.entry.outtype.unwrap().as_str()).collect::<Vec<_>>()
    };
    let dry = Policy { dry_run: true, ..Policy::default() };
    assert_eq!(removed(&dry), [""; 0]);
    assert_eq!(removed(&Policy { older_than: Some(4 * day), ..dry.clone() }), [""; 0]);
    assert_eq!(removed(&Policy { older_than: Some(2 * day), ..dry.clone() }), ["f32", "f16"]);
    assert_eq!(removed(&Policy { max_bytes: Some(u64::MAX), ..dry.clone() }), [""; 0]);
    assert_eq!(removed(&Policy { max_bytes: Some(sizes[1] + sizes[2]), ..dry.clone() }), ["f32"]);
    assert_eq!(removed(&Policy { max_bytes: Some(sizes[1] + sizes[2] - 1), ..dry.clone() }), ["f32", "f16"]);
    assert_eq!(removed(&Policy { max_bytes: Some(0), ..dry.clone() }), ["f32", "f16", "q8_0-mixed"]);
    let both = Policy { older_than: Some(2 * day + day / 2), max_bytes: Some(sizes[2]), ..dry.clone() };
    assert_eq!(removed(&both), ["f32", "f16"]);
    assert_eq!(removed(&Policy { damaged: true, ..dry.clone() }), [""; 0]);
    assert_eq!(outtypes(&place.cache), ["f32", "f16", "q8_0-mixed"], "a dry run removes nothing");

    assert_eq!(prune(&Policy { older_than: Some(2 * day + day / 2), ..Policy::default() }).removed.len(), 1);
    assert_eq!(outtypes(&place.cache), ["f16", "q8_0-mixed"]);
    let pruned = prune(&Policy { max_bytes: Some(sizes[2]), ..Policy::default() });
    assert_eq!((pruned.removed.len(), pruned.n_left, pruned.left_bytes), (1, 1, sizes[2]));
    assert_eq!(outtypes(&place.cache), ["q8_0-mixed"]);
    prune(&Policy { all: true, ..Policy::default() });
    assert_eq!(tree(place.cache.dir()), Vec::<PathBuf>::new());
}

#[test]
fn pruning_what_is_damaged_takes_what_cannot_be_used_and_what_was_left_behind() {
    let (place, [f32, f16, mixed]) = three();
    fs::write(&f32.path, "GGUF").unwrap();
    fs::remove_file(&f16.path).unwrap();
    let temporary = mixed.path.with_extension("gguf.0123456789abcdef.tmp");
    fs::write(&temporary, "123").unwrap();
    set_age(&temporary, Duration::from_secs(3_600));
    let entries = place.cache.list().unwrap();
    assert!(matches!(&entries[0].state, State::Damaged(why) if why.contains("truncated")), "{:?}", entries[0].state);
    assert_eq!((&entries[1].state, &entries[2].state), (&State::Unfinished, &State::Whole));
    assert_eq!((entries[2].n_stale, entries[2].stale_bytes), (1, 3));

    let pruned = place.cache.prune(&Policy { damaged: true, ..Policy::default() }).unwrap();
    let removed: Vec<_> = pruned.removed.iter().map(|removed| (&removed.entry.key, removed.only_stale)).collect();
    assert_eq!(removed, [(&f32.key, false), (&f16.key, false), (&mixed.key, true)]);
    assert_eq!(pruned.n_bytes(), entries[0].n_bytes + entries[1].n_bytes + 3);
    assert!(mixed.path.exists() && !temporary.exists());
    assert_eq!(place.cache.list().unwrap().len(), 1);
}

#[test]
fn an_entry_in_use_is_not_pruned() {
    let (place, made) = three();
    let folder = made[0].path.parent().unwrap();
    let before = tree(folder);
    let held = fs::File::options().write(true).open(folder.join("lock")).unwrap();
    held.lock().unwrap();
    for dry_run in [true, false] {
        let pruned =
            place.cache.prune(&Policy { max_bytes: Some(0), all: true, dry_run, ..Policy::default() }).unwrap();
        assert_eq!((pruned.removed.len(), pruned.n_left), (2, 1));
        assert_eq!(pruned.kept[0].why, "a process is using it");
        assert_eq!(pruned.kept[0].entry.key, made[0].key);
    }
    assert!(place.cache.list().unwrap()[0].is_held);
    assert_eq!(tree(folder), before);
    drop(held);
    assert!(!place.cache.list().unwrap()[0].is_held);
    assert_eq!(place.cache.prune(&Policy { all: true, ..Policy::default() }).unwrap().removed.len(), 1);
}
