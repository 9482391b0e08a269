//! `decision-bench`: see [`laya::cli::bench`].
fn main() -> std::process::ExitCode {
    laya::cli::bench::main()
}
