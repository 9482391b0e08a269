//! `fit-router-calibration`: see [`laya::cli::fit`].
fn main() -> std::process::ExitCode {
    laya::cli::fit::main()
}
