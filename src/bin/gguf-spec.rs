//! Reads, writes and checks what a model file says about its use.
fn main() -> std::process::ExitCode {
    laya::cli::spec::main()
}
