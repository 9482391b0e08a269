//! The tools of the family as `cargo laya <tool> …`.
fn main() -> std::process::ExitCode {
    laya::cli::cargo::main()
}
