//! Which rows share a pass of the model.

use crate::error::{Error, ErrorKind, Result};

/// Tokens a pass over several requests should have at most; a request that has more has a pass of its own. It is enough
/// to keep the matrix products at full speed, and more would only make the first answer of a pass wait longer.
pub const PASS_TOKENS: usize = 2048;

/// Which rows share a pass of the model, and with it the reading of its weights. No bit of an answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Plan {
    /// The questions of a request, and the requests given together.
    #[default]
    Packed,
    /// None: every question has a pass of its own.
    Sequential,
}

impl Plan {
    /// Every plan.
    pub const ALL: [Self; 2] = [Self::Packed, Self::Sequential];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Sequential => "sequential",
        }
    }
}

impl std::str::FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|plan| plan.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Usage, format!("unknown plan {text:?}; one of {all}"))
        })
    }
}
