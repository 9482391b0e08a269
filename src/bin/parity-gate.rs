//! Says whether a run of one backend may stand for another.
fn main() -> std::process::ExitCode {
    laya::cli::parity::main()
}
