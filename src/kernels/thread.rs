//! The threads that share a pass.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::interleave::split;
use crate::error::{Error, ErrorKind, Result};

/// A fixed set of threads. How work is split between them never changes a bit of it; between passes they sleep.
#[derive(Debug)]
pub struct Threads(Option<rayon::ThreadPool>);

impl Threads {
    /// `n` threads; one means the calling thread alone.
    ///
    /// # Errors
    /// `n` is zero, or the system refuses the threads.
    pub fn new(n: usize) -> Result<Self> {
        match n {
            0 => Err(Error::new(ErrorKind::Usage, "the number of threads must be at least 1")),
            1 => Ok(Self(None)),
            n => rayon::ThreadPoolBuilder::new()
                .num_threads(n)
                .thread_name(|i| format!("laya-{i}"))
                .build()
                .map(|pool| Self(Some(pool)))
                .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start {n} threads: {e}"))),
        }
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Does `work` on one of the threads: the steps of a pass that follow one another there need not wake another thread
    /// between them.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Runs `work` on every item.
    pub fn for_each<T: Send>(&self, items: Vec<T>, work: impl Fn(T) + Sync + Send) {
        self.run(items, |_, item| work(item));
    }

    /// Runs `work` on every item, with the scratch of the thread that does it.
    ///
    /// # Panics
    /// There is less scratch than threads: a mistake of the caller.
    pub fn for_each_with<T: Send, S: Send>(
        &self,
        scratch: &[Mutex<S>],
        items: Vec<T>,
        work: impl Fn(&mut S, T) + Sync + Send,
    ) {
        assert!(scratch.len() >= self.count(), "scratch for every thread");
        self.run(items, |thread, item| {
            // No other thread has this index, so the lock never waits.
            work(&mut scratch[thread].lock().unwrap_or_else(PoisonError::into_inner), item);
        });
    }

    /// The pieces of task `i` of `n_tasks`, which takes `n_units` units of work that may be done apart, at least `smallest`
    /// together: the last tasks fall into pieces, so that no thread waits long for another that took the last whole one.
    pub fn pieces(&self, i: usize, n_tasks: usize, n_units: usize, smallest: usize) -> Vec<Range<usize>> {
        let last = self.count() > 1 && i + self.count() >= n_tasks;
        let largest = if last { n_units.div_ceil(LAST_PIECES).max(smallest) } else { n_units };
        split(n_units, largest.max(1))
    }

    /// Runs `work` on every item, with the index of the thread that does it.
    fn run<T: Send>(&self, items: Vec<T>, work: impl Fn(usize, T) + Sync + Send) {
        match &self.0 {
            Some(pool) if items.len() > 1 => {
                // A shared queue, so that a thread that is done early takes over from one that is late.
                let queue = Mutex::new(items.into_iter());
                let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                pool.broadcast(|thread| {
                    while let Some(item) = take() {
                        work(thread.index(), item);
                    }
                });
            }
            _ => items.into_iter().for_each(|item| work(0, item)),
        }
    }
}

/// Pieces of a task nobody could take over otherwise.
const LAST_PIECES: usize = 4;

/// Rows a task of row-wise work takes: few enough to share evenly, enough to be worth the handing over.
pub const ROWS_PER_TASK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_with_the_scratch_of_its_thread() {
        for n in [1, 2, 3] {
            let threads = Threads::new(n).unwrap();
            assert_eq!(threads.count(), n);
            let scratch: Vec<_> = (0..n).map(|_| Mutex::new(0_usize)).collect();
            let mut values = [0_usize; 100];
            threads.for_each_with(&scratch, values.iter_mut().enumerate().collect(), |done, (i, value)| {
                *value += i;
                *done += 1;
            });
            assert!(values.iter().enumerate().all(|(i, x)| *x == i));
            assert_eq!(scratch.into_iter().map(|done| done.into_inner().unwrap()).sum::<usize>(), 100);
        }
    }

    #[test]
    fn the_last_tasks_fall_into_pieces() {
        let (one, two) = (Threads::new(1).unwrap(), Threads::new(2).unwrap());
        assert_eq!(one.pieces(11, 12, 40, 1).len(), 1);
        assert_eq!(two.pieces(9, 12, 40, 1).len(), 1);
        assert_eq!(two.pieces(10, 12, 40, 1), [0..10, 10..20, 20..30, 30..40]);
        assert_eq!(two.pieces(11, 12, 40, 20), [0..20, 20..40]);
        assert_eq!(two.pieces(0, 1, 1, 1).len(), 1);
        assert!(two.pieces(0, 1, 0, 1).is_empty());
    }

    #[test]
    fn no_threads_is_an_error() {
        assert!(Threads::new(0).is_err());
    }
}
