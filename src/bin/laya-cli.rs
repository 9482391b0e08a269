//! Answers requests with a decision model.
fn main() -> std::process::ExitCode {
    laya::cli::answer::main()
}
