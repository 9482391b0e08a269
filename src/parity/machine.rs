//! This machine and this program, as a run records them.

use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};

use super::identity::{Build, Host};
use crate::error::{Error, Result};
use crate::spec::hex;

impl Host {
    /// The machine this program runs on.
    pub fn here() -> Self {
        Self { os: std::env::consts::OS.into(), machine: std::env::consts::ARCH.into(), cpu: processor() }
    }
}

/// The processor's name, where the system says it.
fn processor() -> String {
    let linux = || processor_of(&std::fs::read_to_string("/proc/cpuinfo").ok()?);
    let windows = || std::env::var("PROCESSOR_IDENTIFIER").ok();
    linux().or_else(brand).or_else(windows).unwrap_or_else(|| "unknown".into())
}

/// The processor in the text of `/proc/cpuinfo`. On ARM that has no name, but the numbers of maker and part.
fn processor_of(text: &str) -> Option<String> {
    let fact = |key: &str| {
        let of = |line: &str| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        };
        text.lines().find_map(of)
    };
    let part = || Some(format!("implementer {}, part {}", fact("CPU implementer")?, fact("CPU part")?));
    fact("model name").or_else(part).or_else(|| fact("Processor")).or_else(|| fact("Hardware"))
}

/// What macOS calls the processor.
fn brand() -> Option<String> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let output = Command::new("/usr/sbin/sysctl").args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}

impl Build {
    /// The program in `file`, built from these sources.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file).map_err(|error| Error::io("cannot read", file, &error))?;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            sha256: Some(hex(&Sha256::digest(bytes))),
            source_sha256: Some(env!("LAYA_SOURCE_SHA256").into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_or_numbered() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A CPU @ 2.00GHz\nprocessor\t: 1\n";
        assert_eq!(processor_of(x86).as_deref(), Some("A CPU @ 2.00GHz"));
        let arm =
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n\nHardware\t: Board\n";
        assert_eq!(processor_of(arm).as_deref(), Some("implementer 0x41, part 0xd40"));
        assert_eq!(processor_of("model name\t:\nHardware\t: Board\n").as_deref(), Some("Board"));
        assert_eq!(processor_of("processor\t: 0\n"), None);
    }
}
