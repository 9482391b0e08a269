//! A corpus through a backend: batch by batch, several at a time, the answers in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use super::{Item, ItemRecord};
use crate::error::Result;

/// What answers items.
pub trait Backend: Sync {
    /// Items that are best asked together.
    fn batch_items(&self) -> usize;

    /// Answers `items`, in order.
    ///
    /// # Errors
    /// The backend is not there or cannot go on; what it refuses or fails to answer is in the records.
    fn answer(&self, items: &[&Item]) -> Result<Vec<ItemRecord>>;
}

/// Asks `backend` all `items`, `jobs` batches at a time, and gives `take` the answers in the order of the items.
///
/// # Errors
/// The backend's, or the first `take` returns; what is under way is finished and dropped.
pub fn run(
    backend: &dyn Backend,
    items: &[&Item],
    jobs: usize,
    mut take: impl FnMut(ItemRecord) -> Result<()>,
) -> Result<()> {
    let batches: Vec<_> = items.chunks(backend.batch_items().max(1)).collect();
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, batches.len().max(1)) {
            let (send, batches, next, stopped) = (send.clone(), &batches, &next, &stopped);
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(batch) = batches.get(i) else { break };
                    if send.send((i, backend.answer(batch))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let outcome = in_order(answers, &mut take);
        stopped.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Passes on what comes numbered, in the order of the numbers.
fn in_order(
    answers: mpsc::Receiver<(usize, Result<Vec<ItemRecord>>)>,
    take: &mut impl FnMut(ItemRecord) -> Result<()>,
) -> Result<()> {
    let (mut early, mut next) = (BTreeMap::new(), 0);
    for (i, records) in answers {
        early.insert(i, records);
        while let Some(records) = early.remove(&next) {
            records?.into_iter().try_for_each(&mut *take)?;
            next += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::json::Value;
    use crate::parity::Outcome;
    use std::time::Duration;

    /// Answers later items sooner.
    struct Hasty;

    impl Backend for Hasty {
        fn batch_items(&self) -> usize {
            2
        }

        fn answer(&self, items: &[&Item]) -> Result<Vec<ItemRecord>> {
            let first: u64 = items[0].id.parse().unwrap();
            std::thread::sleep(Duration::from_millis(20_u64.saturating_sub(first)));
            if items.iter().any(|item| item.category == "unplugged") {
                return Err(Error::new(ErrorKind::Io, "unplugged"));
            }
            let failed = || Outcome::Failed(String::new());
            Ok(items.iter().map(|item| ItemRecord { id: item.id.clone(), outcome: failed() }).collect())
        }
    }

    fn items(n: usize) -> Vec<Item> {
        let item = |i: usize| Item { id: i.to_string(), category: String::new(), body: Value::Null };
        (0..n).map(item).collect()
    }

    #[test]
    fn answers_come_in_order_however_many_are_under_way() {
        let items = items(21);
        let items: Vec<_> = items.iter().collect();
        for jobs in [1, 2, 8, 100] {
            let mut ids = Vec::new();
            run(&Hasty, &items, jobs, |record| {
                ids.push(record.id);
                Ok(())
            })
            .unwrap();
            assert_eq!(ids, items.iter().map(|item| item.id.clone()).collect::<Vec<_>>(), "{jobs} jobs");
        }
        run(&Hasty, &[], 3, |_| panic!("nothing was asked")).unwrap();
    }

    #[test]
    fn what_was_answered_before_a_backend_goes_away_is_kept() {
        let mut items = items(10);
        items[5].category = "unplugged".into();
        let items: Vec<_> = items.iter().collect();
        let mut n = 0;
        let error = run(&Hasty, &items, 3, |_| {
            n += 1;
            Ok(())
        });
        assert_eq!((n, error.unwrap_err().message()), (4, "unplugged"));
        let enough = run(&Hasty, &items, 3, |_| Err(Error::new(ErrorKind::Io, "full disk")));
        assert_eq!(enough.unwrap_err().message(), "full disk");
    }
}
