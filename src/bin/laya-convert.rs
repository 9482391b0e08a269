//! Makes a model file from a checkpoint directory.
fn main() -> std::process::ExitCode {
    laya::cli::convert::main()
}
