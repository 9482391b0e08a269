//! This machine and this program, as a run records them.

use std::path::Path;

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
    let names = [("/proc/cpuinfo", "model name"), ("/proc/cpuinfo", "Processor"), ("/proc/cpuinfo", "Hardware")];
    let named = names.iter().find_map(|(file, key)| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    named.or_else(|| std::env::var("PROCESSOR_IDENTIFIER").ok()).unwrap_or_else(|| "unknown".into())
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
