//! Buckets of option counts.

use crate::spec::bucket_holds;

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

    /// The bucket of a question with `n_options` options: the one whose name says so, as it will be looked up.
    pub fn of(n_options: usize) -> Self {
        let holds = |bucket: &Self| bucket_holds(bucket.as_str(), n_options.max(1));
        // Together they hold every count.
        Self::ALL.into_iter().find(holds).unwrap_or(Self::Above10)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Object, Value};
    use crate::request::QuestionType;
    use crate::spec::Calibration;

    #[test]
    fn the_bucket_of_a_count_is_the_one_a_calibration_finds() {
        let buckets: Object = Bucket::ALL.into_iter().zip([1.1, 1.2, 1.3, 1.4]).map(|(b, t)| (b.as_str(), t)).collect();
        let types: Object = [("choice", Value::from(buckets)), ("all", Value::from(2.0))].into_iter().collect();
        let mut fields = Object::new();
        fields.insert("method", "temperature");
        fields.insert("temperature", types);
        let calibration = Calibration::from_json(&Value::Object(fields)).unwrap();
        for n in 1..=300 {
            let found = calibration.temperature(QuestionType::Choice, n);
            assert_eq!([1.1, 1.2, 1.3, 1.4][Bucket::of(n) as usize], found, "{n} options");
        }
        let edges = [1, 2, 3, 5, 6, 10, 11, 300].map(|n| Bucket::of(n) as usize);
        assert_eq!(edges, [0, 0, 1, 1, 2, 2, 3, 3]);
    }
}
