//! From a checkpoint directory to its entry: found, or made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::folder::{Folder, Health};
use super::lock::Lock;
use super::owner::{self, Found};
use super::record::{self, Record};
use super::{Cached, Event, key, place};
use crate::convert::metadata::directory_name;
use crate::convert::{Options, Outtype, convert_checked};
use crate::error::{Error, ErrorKind, Result};

/// The file that makes a directory a checkpoint.
const AGENT: &str = "rl_agent_config.json";

/// How often a folder may be removed under our hands before that is an error.
const MAX_TRIES: usize = 1_000;

pub(super) fn open(
    cache: &Path,
    checkpoint: &Path,
    outtype: Outtype,
    on_event: &mut dyn FnMut(Event),
) -> Result<Cached> {
    look_at(checkpoint)?;
    place::outside(cache, checkpoint)?;
    owner::root(cache)?;
    let key = key::of(checkpoint, outtype)?;
    let folder = Folder::of(cache, &key);
    let model = folder.model(&directory_name(checkpoint)?);
    let job = Job { checkpoint, outtype, key, folder, model };
    // Without the lock: a hit waits for nobody, and works where nothing can be written.
    if let Ok(hit) = job.hit()? {
        return Ok(hit);
    }
    for _ in 0..MAX_TRIES {
        job.folder.create()?;
        let Some(lock) = Lock::take(&job.folder.lock(), || on_event(Event::Waiting))? else { continue };
        let damage = match job.hit()? {
            Ok(hit) => return Ok(hit),
            Err(damage) => damage,
        };
        return match job.fill(lock.is_exclusive, on_event) {
            Ok(mut cached) => {
                let note = |why| format!("the file in the cache was damaged ({why}) and was made again");
                cached.notes.extend(damage.map(note));
                Ok(cached)
            }
            Err(error) => {
                job.leave(lock);
                Err(error)
            }
        };
    }
    Err(Error::new(ErrorKind::Io, "is removed by another process again and again").in_file(job.folder.path()))
}

/// Says of a directory that is no checkpoint what it lacks, before anything is made for it.
fn look_at(checkpoint: &Path) -> Result<()> {
    let refused = |message: &str| Err(Error::new(ErrorKind::Checkpoint, message).in_file(checkpoint));
    let facts = fs::metadata(checkpoint).map_err(|e| Error::io("cannot open", checkpoint, &e))?;
    if !facts.is_dir() {
        return refused("is not a directory; name the directory of a checkpoint");
    }
    let agent = checkpoint.join(AGENT);
    match fs::metadata(&agent) {
        Ok(_) => Ok(()),
        Err(_) if agent.is_symlink() => {
            refused("is not a complete checkpoint: rl_agent_config.json is a link to nothing; download it again")
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => refused(
            "is a directory but not a laya checkpoint: it has no rl_agent_config.json; name the directory of a checkpoint \
             as it is published, or a model file",
        ),
        Err(e) => Err(Error::io("cannot read", agent, &e)),
    }
}

/// What is to be found or made, and where.
struct Job<'a> {
    checkpoint: &'a Path,
    outtype: Outtype,
    key: String,
    folder: Folder,
    model: PathBuf,
}

impl Job<'_> {
    /// The entry, when it is there and whole; else what is damaged about it, if it is there.
    fn hit(&self) -> Result<Result<Cached, Option<String>>> {
        if owner::directory(self.folder.path())? == Found::Nothing {
            return Ok(Err(None));
        }
        self.folder.check()?;
        let record = Record::read(&self.folder.record());
        let n_bytes = match self.folder.health(&self.model, record.as_ref())? {
            Health::Nothing => return Ok(Err(None)),
            Health::Damaged(why) => return Ok(Err(Some(why))),
            Health::Whole(n_bytes) => n_bytes,
        };
        // Then it may be the model of any checkpoint.
        if let Some(why) = record.as_ref().and_then(|record| record.contradicts_all(&self.key, self.outtype)) {
            return Ok(Err(Some(why)));
        }
        // Only people and pruning ask when an entry was used: a cache that cannot be written to is as good.
        let _ = match &record {
            Some(_) => record::touch(&self.folder.record()).map_err(drop),
            None => self.new_record(n_bytes).write(&self.folder.record()).map_err(drop),
        };
        Ok(Ok(self.cached(n_bytes, record.map_or_else(Vec::new, |record| record.notes))))
    }

    fn new_record(&self, n_bytes: u64) -> Record {
        Record::new(&self.key, self.checkpoint, self.outtype, n_bytes)
    }

    fn cached(&self, n_bytes: u64, notes: Vec<String>) -> Cached {
        let (path, key) = (self.model.clone(), self.key.clone());
        Cached { path, key, n_bytes, convert_time: None, notes }
    }

    /// Refuses a checkpoint that has another key by now.
    fn unchanged(&self) -> Result<()> {
        if key::of(self.checkpoint, self.outtype)? == self.key {
            return Ok(());
        }
        let message = "changed while it was converted; wait until it is complete and try again";
        Err(Error::new(ErrorKind::Checkpoint, message).in_file(self.checkpoint))
    }

    /// Converts, and gives the result its name when nothing changed meanwhile.
    fn fill(&self, is_exclusive: bool, on_event: &mut dyn FnMut(Event)) -> Result<Cached> {
        // What cannot be removed costs space and does no other harm.
        let _ = self.folder.sweep(is_exclusive);
        on_event(Event::Started);
        let start = Instant::now();
        let options = Options { outtype: self.outtype, ..Options::default() };
        let mut progress = |done, total| on_event(Event::Converting { done, total });
        let mut check = |file: &Path| {
            owner::restrict(file)?;
            self.unchanged()
        };
        let converted = convert_checked(self.checkpoint, &self.model, &options, &mut progress, &mut check);
        let report = converted.map_err(|error| match self.unchanged() {
            // That may well be the reason of the conversion's own error.
            Err(changed) if changed.kind() == ErrorKind::Checkpoint => changed,
            _ => error,
        })?;
        let mut cached = self.cached(report.n_bytes, report.notes);
        cached.convert_time = Some(start.elapsed());
        let mut record = self.new_record(report.n_bytes);
        record.notes.clone_from(&cached.notes);
        // The model is whole without it.
        if let Err(error) = record.write(&self.folder.record()) {
            cached.notes.push(format!("the cache has no record of this model: {error}"));
        }
        Ok(cached)
    }

    /// Removes the folder after a failed conversion, unless there is something in it.
    fn leave(&self, lock: Lock) {
        // A damaged model stays what it was, and what others do there is theirs.
        let is_empty = self.folder.contents().is_ok_and(|contents| {
            contents
                .is_some_and(|c| c.model.is_none() && !c.has_record && c.temporaries.is_empty() && c.other.is_none())
        });
        if is_empty && lock.remove().is_ok() {
            // The error that is on its way says more than one about this would.
            let _ = fs::remove_dir(self.folder.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work of processes on a file system without locks: nothing keeps them apart.
    #[test]
    fn without_locks_all_convert_and_one_file_stays() {
        let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tiny-modernbert/checkpoint");
        let cache = tempfile::tempdir().unwrap();
        let key = key::of(&checkpoint, Outtype::F16).unwrap();
        let folder = Folder::of(cache.path(), &key);
        let model = folder.model("checkpoint");
        folder.create().unwrap();
        let job = Job { checkpoint: &checkpoint, outtype: Outtype::F16, key, folder, model };
        std::thread::scope(|scope| {
            let fills: Vec<_> = (0..4).map(|_| scope.spawn(|| job.fill(false, &mut |_| ()).unwrap())).collect();
            for fill in fills {
                assert!(!fill.join().unwrap().is_hit());
            }
        });
        let names: Vec<_> = fs::read_dir(job.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        let mut expected = Vec::new();
        let options = Options::default();
        crate::convert::convert_to(&checkpoint, &mut expected, &options, &mut |_, _| ()).unwrap();
        assert_eq!(fs::read(&job.model).unwrap(), expected);
        assert!(job.hit().unwrap().is_ok_and(|hit| hit.is_hit()));
    }
}
