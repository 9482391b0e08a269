//! How a tool ends: the one table from outcomes to exit codes, and the one line about an error.

use super::stderr;
use crate::error::{Error, ErrorKind};
use clap::Parser;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The exit codes as every `--help` documents them.
///
/// No tool handles the interrupt: the system ends it at once, also while it waits for input, and a shell shows that as
/// 130. Whole lines are printed and flushed one by one, so nothing printed is lost or cut.
pub(super) const EXIT_HELP: &str = "\
Exit codes:
  0    done
  1    the work failed; stderr says why
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// [`EXIT_HELP`] of a tool that compares.
pub(super) const COMPARE_EXIT_HELP: &str = "\
Exit codes:
  0    done; compared files are the same
  1    the work failed; stderr says why
  2    the compared files differ
  64   the command line makes no sense
  130  interrupted (Ctrl-C), as a shell reports it";

/// How a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything asked for was done.
    Done,
    /// The work, or a part of it, failed.
    Failed,
    /// A comparison found a difference.
    Differs,
    /// A gate refuses to judge.
    Refused,
    /// The command line makes no sense.
    Usage,
    /// Another program's own code, passed on.
    PassedOn(u8),
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Differs | Self::Refused => 2,
            Self::Usage => 64,
            Self::PassedOn(code) => code,
        }
    }

    fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Mismatch => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// Why a tool stops before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something went wrong.
    Failed(Error),
    /// Whoever read standard output has gone (`| head -1`): nothing is wrong and nobody is listening.
    PipeClosed,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<crate::request::RequestError> for Stop {
    fn from(error: crate::request::RequestError) -> Self {
        Self::Failed(error.into())
    }
}

impl Stop {
    /// A failed write to standard output.
    pub(super) fn writing(source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::Failed(Error::io("cannot write", "standard output", source)),
        }
    }
}

/// Reads the command line, does the work and turns the outcome into an exit code; an error is one line on stderr.
pub(super) fn main<A: Parser>(tool: &str, work: impl FnOnce(A) -> Result<Exit, Stop>) -> ExitCode {
    main_of(tool, std::env::args_os(), work)
}

/// [`main`] on a command line given as its words, the program's name first.
pub(super) fn main_of<A: Parser>(
    tool: &str,
    words: impl Iterator<Item = OsString>,
    work: impl FnOnce(A) -> Result<Exit, Stop>,
) -> ExitCode {
    let outcome = match A::try_parse_from(words) {
        Ok(arguments) => work(arguments),
        Err(message) => {
            // The message of a usage error goes to stderr, whose failures never count.
            let printed = message.print().and_then(|()| io::stdout().flush());
            match printed {
                _ if message.use_stderr() => Ok(Exit::Usage),
                printed => printed.map(|()| Exit::Done).map_err(|error| Stop::writing(&error)),
            }
        }
    };
    let exit = match outcome {
        Ok(exit) => exit,
        Err(Stop::PipeClosed) => Exit::Done,
        Err(Stop::Failed(error)) => {
            stderr::error(tool, &error.to_string());
            Exit::of(error.kind())
        }
    };
    ExitCode::from(exit.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_documented_code() {
        let codes = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Differs, Exit::PassedOn(7)].map(Exit::code);
        assert_eq!(codes, [0, 1, 64, 2, 7]);
        for code in &codes[..3] {
            assert!(EXIT_HELP.contains(&format!("\n  {code} ")), "{code} is not documented");
        }
        for code in &codes[..4] {
            assert!(COMPARE_EXIT_HELP.contains(&format!("\n  {code} ")), "{code} is not documented");
        }
        assert_eq!(Exit::of(ErrorKind::Gguf), Exit::Failed);
        assert_eq!(Exit::of(ErrorKind::Mismatch).code(), 2);
        assert_eq!(Exit::of(ErrorKind::Usage), Exit::Usage);
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        assert!(matches!(Stop::writing(&io::ErrorKind::BrokenPipe.into()), Stop::PipeClosed));
        assert!(matches!(Stop::writing(&io::ErrorKind::StorageFull.into()), Stop::Failed(_)));
    }
}
