//! How many tokens a row may have.

use crate::request::BudgetOverride;

/// Token budgets of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Longest row.
    pub max_len: usize,
    /// What instructions and options share. `[CLS]` and the `[SEP]`s are not counted in it.
    pub head_max_len: usize,
}

impl Budget {
    /// These budgets with those a request gives in their place.
    #[must_use]
    pub fn overridden_by(self, given: BudgetOverride) -> Self {
        Self {
            max_len: given.max_len.unwrap_or(self.max_len),
            head_max_len: given.head_max_len.unwrap_or(self.head_max_len),
        }
    }
}
