//! Says what model files are, and reads, writes and checks what they say about their use.
fn main() -> std::process::ExitCode {
    laya::cli::spec::main()
}
