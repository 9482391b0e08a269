//! Temperatures.

use crate::request::QuestionType;

/// Lowest temperature in use: below it a fitted value sharpens more than honest calibration ever needs.
const LOWEST: f64 = 0.5;
/// Highest temperature in use.
const HIGHEST: f64 = 5.0;

/// The temperatures of a model: one a question type, replaced by that of the question's bucket where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// In type order: choice, score, noul.
    temperature: [f64; 3],
    by_options: Vec<(String, f64)>,
    adjustments: Vec<Adjustment>,
}

/// A temperature of the model that is not used as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjustment {
    /// The type (`choice`) or bucket (`choice:11+`) it belongs to.
    pub name: String,
    /// What the model has.
    pub given: f64,
    /// What is used instead.
    pub used: f64,
}

impl Calibration {
    /// The temperatures of a model, by type (choice, score, noul) and by bucket. Each passes the published package's
    /// filter: what is not finite becomes 1, the rest is kept within 0.5 and 5. Of a repeated bucket the last counts.
    pub fn new(temperature: [f64; 3], by_options: impl IntoIterator<Item = (String, f64)>) -> Self {
        let mut adjustments = Vec::new();
        let mut filter = |name: &str, given: f64| {
            let used = if given.is_finite() { given.clamp(LOWEST, HIGHEST) } else { 1.0 };
            if used != given {
                adjustments.push(Adjustment { name: name.to_owned(), given, used });
            }
            used
        };
        let [choice, score, noul] = temperature;
        let temperature = [filter("choice", choice), filter("score", score), filter("noul", noul)];
        let by_options = by_options
            .into_iter()
            .map(|(bucket, given)| {
                let used = filter(&bucket, given);
                (bucket, used)
            })
            .collect();
        Self { temperature, by_options, adjustments }
    }

    /// The temperature for a question of type `kind` with `n_options` options.
    pub fn temperature(&self, kind: QuestionType, n_options: usize) -> f64 {
        let bucket = Self::bucket(kind, n_options);
        if let Some((_, temperature)) = self.by_options.iter().rev().find(|(name, _)| *name == bucket) {
            return *temperature;
        }
        let [choice, score, noul] = self.temperature;
        match kind {
            QuestionType::Choice => choice,
            QuestionType::Score => score,
            QuestionType::Noul => noul,
        }
    }

    /// The bucket of a question: its type and `2` (one option too), `3-5`, `6-10` or `11+`.
    pub fn bucket(kind: QuestionType, n_options: usize) -> String {
        let size = match n_options {
            0..=2 => "2",
            3..=5 => "3-5",
            6..=10 => "6-10",
            _ => "11+",
        };
        format!("{}:{size}", kind.as_str())
    }

    /// The temperatures that are not used as the model has them, to be shown to whoever runs it.
    pub fn adjustments(&self) -> &[Adjustment] {
        &self.adjustments
    }
}

impl Default for Calibration {
    /// No calibration: every temperature is 1.
    fn default() -> Self {
        Self::new([1.0; 3], [])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QuestionType::{Choice, Noul, Score};

    #[test]
    fn a_bucket_comes_before_its_type() {
        let buckets = [("choice:3-5".to_owned(), 2.0), ("noul:2".to_owned(), 0.7), ("choice:3-5".to_owned(), 3.0)];
        let calibration = Calibration::new([1.5, 1.25, 1.75], buckets);
        for (kind, n_options, temperature) in [
            (Choice, 1, 1.5),
            (Choice, 2, 1.5),
            (Choice, 3, 3.0),
            (Choice, 5, 3.0),
            (Choice, 6, 1.5),
            (Score, 3, 1.25),
            (Noul, 2, 0.7),
        ] {
            assert_eq!(calibration.temperature(kind, n_options), temperature);
        }
        assert!(calibration.adjustments().is_empty());
    }

    #[test]
    fn bucket_edges() {
        let names: Vec<_> = [1, 2, 3, 5, 6, 10, 11, 300].map(|n| Calibration::bucket(Choice, n)).into();
        assert_eq!(
            names,
            [
                "choice:2",
                "choice:2",
                "choice:3-5",
                "choice:3-5",
                "choice:6-10",
                "choice:6-10",
                "choice:11+",
                "choice:11+"
            ]
        );
        assert_eq!(Calibration::bucket(Score, 4), "score:3-5");
        assert_eq!(Calibration::bucket(Noul, 2), "noul:2");
    }

    #[test]
    fn every_temperature_passes_the_filter() {
        let calibration = Calibration::new([f64::NAN, f64::INFINITY, -3.0], [("choice:11+".to_owned(), 0.1006)]);
        assert_eq!(calibration.temperature(Choice, 2), 1.0);
        assert_eq!(calibration.temperature(Score, 2), 1.0);
        assert_eq!(calibration.temperature(Noul, 2), 0.5);
        assert_eq!(calibration.temperature(Choice, 12), 0.5);
        assert_eq!(Calibration::new([9.0; 3], []).temperature(Noul, 2), 5.0);
        let names: Vec<_> = calibration.adjustments().iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["choice", "score", "noul", "choice:11+"]);
        assert_eq!(calibration.adjustments()[3].used, 0.5);
    }
}
