//! Making the cache smaller.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind as IoKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::entry::{self, Entry, State};
use super::folder::{Folder, Swept};
use super::lock::{Attempt, Lock};
use super::owner;
use crate::error::{Error, Result};

/// What is to be removed: all that any of these names.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Every entry.
    pub all: bool,
    /// Entries that cannot be used, and what killed conversions left.
    pub damaged: bool,
    /// Entries not used for longer.
    pub older_than: Option<Duration>,
    /// The least recently used ones, until the rest has at most so many bytes.
    pub max_bytes: Option<u64>,
    /// Only find out what would be removed.
    pub dry_run: bool,
}

/// What pruning did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// What was removed, or would be.
    pub removed: Vec<Removed>,
    /// What should have been removed and was not.
    pub kept: Vec<Kept>,
    /// Entries that are left.
    pub n_left: usize,
    /// Their size.
    pub left_bytes: u64,
}

impl Pruned {
    /// Bytes that were removed, or would be.
    pub fn n_bytes(&self) -> u64 {
        self.removed.iter().map(|removed| removed.n_bytes).sum()
    }
}

/// What was removed of an entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Removed {
    /// The entry as it was.
    pub entry: Entry,
    /// Bytes removed.
    pub n_bytes: u64,
    /// Whether the entry itself is still there, without what killed conversions had left in it.
    pub only_stale: bool,
}

/// An entry that should have been removed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Kept {
    /// The entry.
    pub entry: Entry,
    /// Why it is still there.
    pub why: String,
    /// Whether removing it was tried and failed, rather than not allowed.
    pub is_failure: bool,
}

/// Why nothing was removed.
#[derive(Debug)]
enum Stay {
    /// It must not be.
    Rightly(String),
    /// That was tried and failed.
    Failed(Error),
    /// It need not be any more: this is what the entry has become.
    Changed(Box<Entry>),
    /// The entry is not there any more.
    Gone,
}

impl Stay {
    fn rightly(why: impl Into<String>) -> Self {
        Self::Rightly(why.into())
    }

    fn failed(path: &Path, error: &std::io::Error) -> Self {
        Error::io("cannot remove", path, error).into()
    }
}

impl From<Error> for Stay {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

const BUSY: &str = "a process is using it";

pub(super) fn prune(cache: &Path, policy: &Policy) -> Result<Pruned> {
    let mut work = Work { cache, dry_run: policy.dry_run, pruned: Pruned::default() };
    let mut left = VecDeque::new();
    for entry in entry::list(cache)? {
        if policy.names(&entry) {
            left.extend(work.remove(entry, |entry| policy.names(entry)).into_entry());
        } else if policy.damaged && entry.n_stale > 0 {
            left.extend(work.sweep(entry));
        } else {
            left.push_back(entry);
        }
    }
    let mut left_bytes: u64 = left.iter().map(|entry| entry.n_bytes).sum();
    let mut kept = Vec::new();
    // The list is in the order of use.
    while let Some(entry) = left.pop_front() {
        let tried = work.pruned.kept.iter().any(|kept| kept.entry.key == entry.key);
        if policy.max_bytes.is_none_or(|max| left_bytes <= max) || tried {
            kept.push(entry);
            continue;
        }
        left_bytes = left_bytes.saturating_sub(entry.n_bytes);
        let last_used = entry.last_used;
        match work.remove(entry, |entry| entry.last_used == last_used) {
            Outcome::Gone => {}
            Outcome::Stays(entry) => {
                left_bytes += entry.n_bytes;
                kept.push(entry);
            }
            // Used meanwhile, it is not the least recently used one any more.
            Outcome::Changed(entry) => {
                left_bytes += entry.n_bytes;
                let at = left.partition_point(|other| other.last_used <= entry.last_used);
                left.insert(at, entry);
            }
        }
    }
    work.pruned.n_left = kept.len();
    work.pruned.left_bytes = left_bytes;
    Ok(work.pruned)
}

impl Policy {
    /// Whether `entry` goes whatever its size is.
    fn names(&self, entry: &Entry) -> bool {
        let is_unusable = matches!(entry.state, State::Damaged(_) | State::Unfinished);
        let unused = entry.last_used.and_then(|time| SystemTime::now().duration_since(time).ok());
        self.all
            || (self.damaged && is_unusable)
            || self.older_than.is_some_and(|longest| unused.is_some_and(|unused| unused > longest))
    }
}

/// What became of an entry that was to be removed.
#[derive(Debug)]
enum Outcome {
    /// It is not there any more.
    Gone,
    /// It is, and that is said.
    Stays(Entry),
    /// It is, as it is not what was to be removed any more.
    Changed(Entry),
}

impl Outcome {
    fn into_entry(self) -> Option<Entry> {
        match self {
            Self::Gone => None,
            Self::Stays(entry) | Self::Changed(entry) => Some(entry),
        }
    }
}

/// Pruning under way.
struct Work<'a> {
    cache: &'a Path,
    dry_run: bool,
    pruned: Pruned,
}

impl Work<'_> {
    /// Removes `listed`, if it still is to be removed by the time nobody else can do anything to it.
    fn remove(&mut self, listed: Entry, still: impl FnOnce(&Entry) -> bool) -> Outcome {
        let removed = if self.dry_run {
            may_be_removed(&listed).map(|()| listed.clone())
        } else {
            self.with_lock(&listed, |folder, lock, entry| {
                if !still(&entry) {
                    return Err(Stay::Changed(Box::new(entry)));
                }
                remove_folder(folder, lock).map(|()| entry)
            })
        };
        match removed {
            Ok(entry) => {
                self.pruned.removed.push(Removed { n_bytes: entry.n_bytes, only_stale: false, entry });
                Outcome::Gone
            }
            Err(stay) => self.keep(listed, stay),
        }
    }

    /// Removes what killed conversions left in `listed`, and gives the entry back.
    fn sweep(&mut self, listed: Entry) -> Option<Entry> {
        let swept = if self.dry_run {
            let (n, n_bytes) = (listed.n_stale, listed.stale_bytes);
            may_be_removed(&listed).map(|()| (Swept { n, n_bytes, failure: None }, listed.clone()))
        } else {
            self.with_lock(&listed, |folder, lock, entry| Ok((folder.sweep(lock.is_exclusive)?, entry)))
        };
        let (Swept { n, n_bytes, failure }, mut entry) = match swept {
            Ok(swept) => swept,
            Err(stay) => return self.keep(listed, stay).into_entry(),
        };
        if n > 0 {
            self.pruned.removed.push(Removed { entry: entry.clone(), n_bytes, only_stale: true });
        }
        if let Some(error) = failure {
            return self.keep(listed, error.into()).into_entry();
        }
        entry.n_bytes = entry.n_bytes.saturating_sub(n_bytes);
        (entry.n_stale, entry.stale_bytes) = (0, 0);
        Some(entry)
    }

    /// Says that `listed` was not removed, and gives back what it is by now.
    fn keep(&mut self, listed: Entry, stay: Stay) -> Outcome {
        let (why, is_failure) = match stay {
            Stay::Gone => return Outcome::Gone,
            Stay::Changed(entry) => return Outcome::Changed(*entry),
            Stay::Rightly(why) => (why, false),
            Stay::Failed(error) => (error.to_string(), true),
        };
        // A part of it may be gone.
        let entry = Entry::read(self.cache, &listed.key).unwrap_or(listed);
        self.pruned.kept.push(Kept { entry: entry.clone(), why, is_failure });
        Outcome::Stays(entry)
    }

    /// Does `work` on the folder of `listed`, and what the entry is by now, while no other process does anything there;
    /// or says why not.
    fn with_lock<T>(
        &self,
        listed: &Entry,
        work: impl FnOnce(&Folder, Lock, Entry) -> Result<T, Stay>,
    ) -> Result<T, Stay> {
        may_be_removed(listed)?;
        let folder = Folder::of(self.cache, &listed.key);
        owner::directory(folder.path())?;
        let had_lock = folder.lock().exists();
        let lock = match Lock::attempt(&folder.lock())? {
            Attempt::Taken(lock) => lock,
            Attempt::Busy => return Err(Stay::rightly(BUSY)),
            Attempt::Gone if folder.path().exists() => return Err(Stay::rightly(BUSY)),
            Attempt::Gone => return Err(Stay::Gone),
        };
        // Since it was listed a conversion may have ended, or a process may have used it.
        let Some(mut entry) = Entry::read(self.cache, &listed.key) else { return Err(Stay::Gone) };
        // By this process.
        entry.is_held = false;
        if !had_lock && entry.created.is_none() {
            // All that is known is when something was last made in the folder, which now is the lock.
            entry.last_used = listed.last_used;
        }
        may_be_removed(&entry)?;
        work(&folder, lock, entry)
    }
}

/// Refuses an entry that is never removed, or not now.
fn may_be_removed(entry: &Entry) -> Result<(), Stay> {
    match &entry.state {
        State::Refused(why) => Err(Stay::rightly(why)),
        State::Foreign(name) => Err(Stay::rightly(format!("it holds files that are not the cache's, such as {name}"))),
        _ if entry.is_held => Err(Stay::rightly(BUSY)),
        _ => Ok(()),
    }
}

/// Removes the folder with all that is in it.
fn remove_folder(folder: &Folder, lock: Lock) -> Result<(), Stay> {
    let contents = folder.contents()?.unwrap_or_default();
    if !lock.is_exclusive && contents.temporaries.iter().any(|temporary| !temporary.is_stale()) {
        return Err(Stay::rightly("a conversion may be under way, and there are no locks here to tell"));
    }
    let temporaries = contents.temporaries.iter().map(|temporary| temporary.path.clone());
    // The model first: what is left of a removal that was interrupted is an entry without one.
    let record = contents.has_record.then(|| folder.record());
    for path in contents.model.into_iter().chain(temporaries).chain(record) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() == IoKind::NotFound => {}
            removed => removed.map_err(|e| Stay::failed(&path, &e))?,
        }
    }
    for path in contents.hidden {
        // One that stays is seen when the folder is removed.
        let _ = fs::remove_file(path);
    }
    lock.remove().map_err(|e| Stay::failed(&folder.lock(), &e))?;
    let removed = fs::remove_dir(folder.path());
    match removed {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == IoKind::NotFound => Ok(()),
        // A process that waited for the lock has begun anew.
        Err(_) if folder.contents()?.is_some_and(|contents| contents.has_lock) => Ok(()),
        Err(e) => Err(Stay::failed(folder.path(), &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Outtype;
    use crate::convert::cache::Cache;
    use std::path::PathBuf;

    const DAY: Duration = Duration::from_secs(86_400);

    fn set_age(path: &Path, age: Duration) {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    /// A cache with one entry, not used for three days, and its model.
    fn one() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-modernbert/checkpoint");
        let model = Cache::at(root.path()).open(&checkpoint, Outtype::F16, &mut |_| ()).unwrap().path;
        set_age(&model.with_file_name("record.json"), 3 * DAY);
        (root, model)
    }

    fn work(cache: &Path) -> Work<'_> {
        Work { cache, dry_run: false, pruned: Pruned::default() }
    }

    fn listed(cache: &Path) -> Entry {
        entry::list(cache).unwrap().remove(0)
    }

    #[test]
    fn what_became_whole_or_was_used_since_it_was_listed_stays() {
        let (root, model) = one();
        let aside = root.path().join("aside");
        let damaged = Policy { damaged: true, ..Policy::default() };
        let old = Policy { older_than: Some(DAY), ..Policy::default() };

        fs::rename(&model, &aside).unwrap();
        let unfinished = listed(root.path());
        fs::rename(&aside, &model).unwrap();
        let mut work = work(root.path());
        assert!(damaged.names(&unfinished) && old.names(&unfinished));
        let outcome = work.remove(unfinished, |entry| damaged.names(entry));
        assert!(matches!(&outcome, Outcome::Changed(entry) if entry.state == State::Whole), "{outcome:?}");

        let unused = listed(root.path());
        set_age(&model.with_file_name("record.json"), Duration::ZERO);
        let last_used = unused.last_used;
        assert!(matches!(work.remove(unused.clone(), |entry| old.names(entry)), Outcome::Changed(_)));
        assert!(matches!(work.remove(unused.clone(), |entry| entry.last_used == last_used), Outcome::Changed(_)));
        assert!(model.exists() && work.pruned.removed.is_empty() && work.pruned.kept.is_empty());

        // What was put there meanwhile is seen as well.
        let mine = model.with_file_name("notes.txt");
        fs::write(&mine, "").unwrap();
        assert!(matches!(work.remove(unused.clone(), |_| true), Outcome::Stays(_)));
        assert_eq!(work.pruned.kept[0].why, "it holds files that are not the cache's, such as notes.txt");
        assert!(!work.pruned.kept[0].is_failure);
        fs::remove_file(&mine).unwrap();

        assert!(matches!(work.remove(unused.clone(), |_| true), Outcome::Gone));
        assert_eq!(work.pruned.removed.len(), 1);
        assert!(matches!(work.remove(unused, |_| true), Outcome::Gone), "another process was faster");
        assert_eq!(work.pruned.removed.len(), 1, "its work is not ours");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_without_a_model_is_as_old_as_the_last_thing_made_in_it() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["0", "1"].map(|digit| root.path().join(digit.repeat(32)));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
        }
        fs::write(folders[1].join("m.gguf.0.tmp"), "123").unwrap();
        let age = |folder: &Path| {
            let dir = fs::File::open(folder).unwrap();
            dir.set_modified(SystemTime::now() - 3 * DAY).unwrap();
        };
        folders.iter().for_each(|folder| age(folder));
        let old = |n_days| Policy { older_than: Some(n_days * DAY), ..Policy::default() };
        let pruned = prune(root.path(), &old(4)).unwrap();
        assert_eq!((pruned.removed.len(), pruned.n_left, pruned.left_bytes), (0, 2, 3));
        // Looking at it once more under the lock, a file in the folder, does not make it younger.
        let pruned = prune(root.path(), &old(2)).unwrap();
        assert_eq!((pruned.removed.len(), pruned.n_bytes(), pruned.n_left), (2, 3, 0));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_was_swept_is_said_to_be_removed() {
        let (root, model) = one();
        let temporary = model.with_extension("gguf.0.tmp");
        fs::write(&temporary, "123").unwrap();
        let with_stale = listed(root.path());
        assert_eq!((with_stale.n_stale, with_stale.stale_bytes), (1, 3), "nobody holds the lock: it is a dead one's");
        fs::remove_file(&temporary).unwrap();
        let mut work = work(root.path());
        assert_eq!(work.sweep(with_stale.clone()).unwrap().n_stale, 0);
        assert!(work.pruned.removed.is_empty(), "another process was faster");

        fs::write(&temporary, "123").unwrap();
        assert_eq!(work.sweep(with_stale.clone()).unwrap().n_bytes, with_stale.n_bytes - 3);
        assert_eq!((work.pruned.removed.len(), work.pruned.n_bytes()), (1, 3));

        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let set_mode = |mode| {
                let folder = model.parent().unwrap();
                fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            };
            fs::write(&temporary, "123").unwrap();
            set_mode(0o500);
            if fs::write(model.with_file_name("other"), "").is_ok() {
                println!("skipped: this user may remove everything");
            } else {
                assert!(work.sweep(with_stale).is_some());
                let kept = &work.pruned.kept[0];
                assert!(kept.is_failure && kept.why.contains("cannot remove"), "{kept:?}");
                assert_eq!(work.pruned.removed.len(), 1);
            }
            set_mode(0o700);
        }
    }
}
