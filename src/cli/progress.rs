//! Progress for people: on stderr, and only where somebody is looking.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// A progress bar, or nothing at all.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar over `n_bytes` of input (a counter when that is unknown). It shows when stderr is a terminal and standard
    /// output is not: on one terminal the answers themselves are the progress.
    pub(super) fn over_lines(n_bytes: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() || std::io::stdout().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(n_bytes, ProgressDrawTarget::stderr());
        let template = match n_bytes {
            Some(_) => "{bar:30} {percent:>3}%  {msg}  {elapsed}",
            None => "{spinner} {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// A bar over `n` records, which are counted with [`Progress::done`].
    pub(super) fn over_records(n: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(Some(n), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} records  {elapsed}, {eta} left") {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// One more is done.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// A bar over the bytes of a file being written or read.
    pub(super) fn over_bytes() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}  {elapsed}  {msg}") {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// `done` of `total` bytes are read.
    pub(super) fn read(&self, done: u64, total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    /// `done` of `total` bytes are written.
    pub(super) fn written(&self, done: u64, total: u64) {
        self.read(done, total);
        if let Some(bar) = &self.0 {
            // What follows, reading back and the disk, has no measure.
            if done >= total {
                bar.set_message("checking");
            }
        }
    }

    /// The input is read up to byte `position`; `n_lines` of it are done.
    pub(super) fn at(&self, position: u64, n_lines: u64, n_failed: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(position);
            bar.set_message(match n_failed {
                0 => format!("{n_lines} lines"),
                _ => format!("{n_lines} lines, {n_failed} failed"),
            });
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
