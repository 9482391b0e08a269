//! What the tests ask of every command line.

use clap::Command;

/// Checks a command and all its subcommands: arguments that do not contradict each other, and help that fits a hundred
/// columns.
pub(super) fn check(mut command: Command) {
    command.build();
    command.clone().debug_assert();
    check_help(&mut command);
}

fn check_help(command: &mut Command) {
    for line in command.render_long_help().to_string().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    command.get_subcommands_mut().for_each(check_help);
}
