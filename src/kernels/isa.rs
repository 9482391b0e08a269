//! The choice of instruction set, made once and passed on as a value.

use super::arch;
use super::lane::Operation;
use super::portable::Portable;
use super::scalar::Scalar;
use crate::error::{Error, ErrorKind, Result};

/// An instruction set this processor has. All of them give the same bits; they differ in speed.
#[derive(Debug, Clone, Copy)]
pub struct InstructionSet(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Scalar(Scalar),
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(arch::avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(arch::avx512::Avx512),
}

impl InstructionSet {
    /// The names [`InstructionSet::named`] understands, narrowest first.
    pub const NAMES: [&'static str; 4] = ["scalar", "portable", "avx2", "avx512"];

    /// The widest instruction set this processor has.
    pub fn widest() -> Self {
        Self::available().pop().unwrap_or(Self(Kind::Scalar(Scalar)))
    }

    /// Plain Rust: the meaning of every operation.
    pub fn scalar() -> Self {
        Self(Kind::Scalar(Scalar))
    }

    /// Every instruction set this processor has, narrowest first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self::scalar(), Self(Kind::Portable(Portable))];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(arch::avx2::Avx2::detect().map(|isa| Self(Kind::Avx2(isa))));
            sets.extend(arch::avx512::Avx512::detect().map(|isa| Self(Kind::Avx512(isa))));
        }
        sets
    }

    /// The instruction set called `name`.
    ///
    /// # Errors
    /// The name is none of [`InstructionSet::NAMES`], or this processor does not have the set.
    pub fn named(name: &str) -> Result<Self> {
        if let Some(set) = Self::available().into_iter().find(|set| set.name() == name) {
            return Ok(set);
        }
        let has: Vec<_> = Self::available().iter().map(|set| set.name()).collect();
        let why = if Self::NAMES.contains(&name) { "this processor does not have" } else { "there is no" };
        Err(Error::new(
            ErrorKind::Usage,
            format!("{why} instruction set {name:?}; this machine can run {}", has.join(", ")),
        ))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Scalar(_) => "scalar",
            Kind::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512",
        }
    }

    /// Whether its fused multiply-add is software on this machine.
    pub fn is_emulated(self) -> bool {
        matches!(self.0, Kind::Scalar(_) | Kind::Portable(_)) && !super::scalar::HAS_FUSED_MULTIPLY_ADD
    }

    /// Does the work of `operation` with this instruction set.
    pub fn run<O: Operation>(self, operation: O) -> O::Output {
        match self.0 {
            Kind::Scalar(isa) => operation.run(isa),
            Kind::Portable(isa) => operation.run(isa),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(isa) => isa.run(operation),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(isa) => isa.run(operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_is_everywhere_and_unknown_names_are_refused() {
        assert_eq!(InstructionSet::named("scalar").unwrap().name(), "scalar");
        let error = InstructionSet::named("sse9").unwrap_err().to_string();
        assert!(error.contains("sse9") && error.contains("scalar"), "{error}");
    }
}
