//! `cargo-laya`: `cargo laya <tool> …` runs a tool of the family.

use super::exit::{self, Exit, Stop};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

const TOOL: &str = "cargo-laya";

/// The tools of the family, with what each does.
const TOOLS: &[(&str, &str)] = &[
    ("laya-cli", "answer requests with a decision model"),
    ("laya-convert", "make a model file from a checkpoint directory"),
    ("decision-bench", "measure how fast decision models run"),
    ("gguf-spec", "say what a model file is, and read, write and check its spec"),
    ("parity-gate", "say whether a run of one backend may stand for another"),
    ("fit-router-calibration", "fit a calibration on labelled data"),
];

const EXIT_HELP: &str = "\
Exit codes:
  the tool's own, and 64 when there is no such tool";

/// Runs a tool of the laya family
#[derive(Debug, clap::Parser)]
#[command(name = TOOL, bin_name = "cargo laya", version, max_term_width = 100)]
#[command(after_help = after_help(), arg_required_else_help = true)]
#[command(override_usage = "cargo laya <TOOL> [ARGUMENTS]...")]
struct Arguments {
    /// The tool, with or without the first word of its name, and its arguments
    #[arg(value_name = "TOOL", trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the tool on the arguments of this process.
pub fn main() -> ExitCode {
    // Cargo calls it as `cargo-laya laya <tool> …`, a person may leave that word out.
    let from_cargo = std::env::args_os().nth(1).is_some_and(|word| word == "laya");
    let words = std::env::args_os().enumerate().filter(|(i, _)| !(from_cargo && *i == 1)).map(|(_, word)| word);
    exit::main_of(TOOL, words, |arguments: Arguments| {
        let mut command = arguments.command.into_iter();
        let name = command.next().unwrap_or_default();
        let program = find(&name.to_string_lossy(), &folder()?)?;
        let status = Command::new(&program)
            .args(command)
            .status()
            .map_err(|error| Error::io("cannot run", program.clone(), &error))?;
        Ok::<_, Stop>(Exit::PassedOn(code(status)))
    })
}

/// The folder this program is in, which is where the family is installed.
fn folder() -> Result<PathBuf> {
    let this = std::env::current_exe().map_err(|error| Error::io("cannot find", TOOL, &error))?;
    Ok(this.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// The program of the tool called `name`, which must be in `folder`.
fn find(name: &str, folder: &Path) -> Result<PathBuf> {
    let short = |tool: &str| tool.split_once('-').map(|(_, short)| short.to_owned());
    let full_name = |(tool, _): &&(&str, &str)| *tool == name || short(tool).as_deref() == Some(name);
    if let Some((tool, _)) = TOOLS.iter().find(full_name) {
        if let Some(program) = installed(tool, folder) {
            return Ok(program);
        }
        let message = format!("{tool} is not installed next to cargo-laya, in {}", folder.display());
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let names: Vec<_> = TOOLS.iter().filter(|(tool, _)| installed(tool, folder).is_some()).map(|(n, _)| *n).collect();
    let message = format!("there is no tool {name:?}; installed are: {}", names.join(", "));
    Err(Error::new(ErrorKind::Usage, message))
}

fn installed(tool: &str, folder: &Path) -> Option<PathBuf> {
    let program = folder.join(format!("{tool}{}", std::env::consts::EXE_SUFFIX));
    program.is_file().then_some(program)
}

fn after_help() -> String {
    let folder = folder().unwrap_or_default();
    let mut help = String::from("Tools:\n");
    let width = TOOLS.iter().map(|(tool, _)| tool.len()).max().unwrap_or(0);
    for (tool, what) in TOOLS {
        if installed(tool, &folder).is_some() {
            help.push_str(&format!("  {tool:<width$}  {what}\n"));
        }
    }
    help + "\n" + EXIT_HELP
}

/// The code to end with after a tool ended with `status`; a tool a signal ended counts as 128 and the signal, as in a
/// shell.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(1);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_either_name_and_only_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(format!("laya-cli{}", std::env::consts::EXE_SUFFIX));
        std::fs::write(&program, "").unwrap();
        assert_eq!(find("laya-cli", folder.path()).unwrap(), program);
        assert_eq!(find("cli", folder.path()).unwrap(), program);
        let error = find("laya-convert", folder.path()).unwrap_err();
        assert!(error.message().contains("not installed") && error.kind() == ErrorKind::Usage, "{error}");
        let error = find("rm", folder.path()).unwrap_err();
        assert!(error.message().contains("installed are: laya-cli") && !error.message().contains("convert"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_signal_is_passed_on_as_a_shell_does() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(code(ExitStatus::from_raw(2)), 130);
        assert_eq!(code(ExitStatus::from_raw(64 << 8)), 64);
    }

    #[test]
    fn the_command_line_is_sound_and_its_help_fits() {
        crate::cli::sound::check(<Arguments as clap::CommandFactory>::command());
    }
}
