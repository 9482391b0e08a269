//! The threads that share a pass.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};

/// A fixed set of threads. How work is split between them never changes a bit of it.
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

    /// As many threads as the process may run at once.
    pub fn default_count() -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Runs `work` on every item; each thread that takes part makes its scratch once with `scratch`.
    pub fn for_each<T: Send, S>(
        &self,
        items: Vec<T>,
        scratch: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, T) + Sync + Send,
    ) {
        match &self.0 {
            Some(pool) if items.len() > 1 => {
                // A shared queue, so that a thread's scratch serves every item it takes.
                let queue = Mutex::new(items.into_iter());
                let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                pool.broadcast(|_| {
                    let mut scratch = scratch();
                    while let Some(item) = take() {
                        work(&mut scratch, item);
                    }
                });
            }
            _ => {
                let mut scratch = scratch();
                items.into_iter().for_each(|item| work(&mut scratch, item));
            }
        }
    }

    /// Runs `work` on every row of `rows`, a matrix of `width` columns, with the row's index.
    pub fn for_each_row(&self, rows: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync + Send) {
        // Few enough rows a task to share evenly, enough to be worth the handing over.
        const ROWS: usize = 8;
        let tasks: Vec<_> = rows.chunks_mut(ROWS * width.max(1)).enumerate().collect();
        self.for_each(
            tasks,
            || (),
            |(), (t, task)| {
                for (i, row) in task.chunks_mut(width.max(1)).enumerate() {
                    work(t * ROWS + i, row);
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_visited_once() {
        for n in [1, 2, 3] {
            let threads = Threads::new(n).unwrap();
            assert_eq!(threads.count(), n);
            let mut rows = vec![0.0; 100 * 3];
            threads.for_each_row(&mut rows, 3, |i, row| row.iter_mut().for_each(|x| *x += i as f32));
            assert!(rows.iter().enumerate().all(|(i, x)| *x == (i / 3) as f32));
        }
    }

    #[test]
    fn no_threads_is_an_error() {
        assert!(Threads::new(0).is_err());
    }
}
