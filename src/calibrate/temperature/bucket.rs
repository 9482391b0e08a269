//! Buckets of option counts.

/// A range of option counts that may have a temperature of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// One or two options.
    UpTo2,
    /// Three to five.
    UpTo5,
    /// Six to ten.
    UpTo10,
    /// Eleven and more.
    Above10,
}

impl Bucket {
    /// Every bucket, fewest options first.
    pub const ALL: [Self; 4] = [Self::UpTo2, Self::UpTo5, Self::UpTo10, Self::Above10];

    /// The bucket of a question with `n_options` options.
    pub fn of(n_options: usize) -> Self {
        match n_options {
            0..=2 => Self::UpTo2,
            3..=5 => Self::UpTo5,
            6..=10 => Self::UpTo10,
            _ => Self::Above10,
        }
    }

    /// The name in a calibration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpTo2 => "1-2",
            Self::UpTo5 => "3-5",
            Self::UpTo10 => "6-10",
            Self::Above10 => "11+",
        }
    }
}
