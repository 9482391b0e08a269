//! What a change of temperatures does to answers.

use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::{Cluster, Interval, intervals};
use super::metric::{Answered, Threshold, accuracy, calibration_error, thresholds};
use super::objective::{Example, nll};

/// A labelled question, of which state it is, and the temperature in force for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The number of its state: questions of one state are not independent.
    pub(super) state: usize,
    pub(super) example: Example<'a>,
    /// What the true option is called.
    pub(super) class: &'a str,
    /// Its temperature as the model is calibrated now.
    pub(super) in_force: f64,
}

/// A mean over questions and its interval.
pub type Mean = (f64, Interval);

/// Answers before, with the temperatures in force, and after.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Questions.
    pub n: usize,
    /// The states they are of, which the intervals resample.
    pub n_states: usize,
    /// Mean negative log-likelihood before.
    pub nll_before: Mean,
    /// The same after.
    pub nll_after: Mean,
    /// How much lower it is after, question by question.
    pub gain: Mean,
    /// Calibration error before.
    pub ece_before: f64,
    /// The same after.
    pub ece_after: f64,
    /// Share of right answers before.
    pub accuracy_before: f64,
    /// The same after; no temperature chooses another option (unless two are the same to seven digits).
    pub accuracy_after: f64,
    /// What is left above a confidence, after.
    pub thresholds: Vec<Threshold>,
}

/// How intervals are made.
pub(super) struct Resampling<'o> {
    pub(super) n: usize,
    pub(super) seed: u64,
    pub(super) threads: Option<&'o rayon::ThreadPool>,
}

impl Resampling<'_> {
    /// What it does to `questions` to have the temperatures `after`, and how much is gained over the temperatures `other`;
    /// `None` without questions. `stream` numbers what is resampled.
    pub(super) fn effect(
        &self,
        questions: &[Asked<'_>],
        after: impl Fn(&Asked<'_>) -> f64,
        other: impl Fn(&Asked<'_>) -> f64,
        stream: u64,
    ) -> Option<(Effect, Mean)> {
        if questions.is_empty() {
            return None;
        }
        let mut clusters: BTreeMap<usize, Cluster<4>> = BTreeMap::new();
        let mut sums = [0.0; 4];
        for asked in questions {
            let at = |temperature: f64| nll(&asked.example, 1.0 / temperature);
            let (before, is) = (at(asked.in_force), at(after(asked)));
            let more = [before, is, before - is, at(other(asked)) - is];
            let cluster = clusters.entry(asked.state).or_insert(Cluster { n: 0, sums: [0.0; 4] });
            cluster.n += 1;
            cluster.sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let clusters: Vec<_> = clusters.into_values().collect();
        let of = intervals(&clusters, self.n, self.seed, stream, self.threads);
        let [before, is, gain, over_other] = sums.map(|sum| sum / questions.len() as f64);
        let [of_before, of_is, of_gain, of_over_other] = of;
        let answers_before: Vec<_> = questions.iter().map(|q| Answered::new(&q.example, q.in_force)).collect();
        let answers_after: Vec<_> = questions.iter().map(|q| Answered::new(&q.example, after(q))).collect();
        let effect = Effect {
            n: questions.len(),
            n_states: clusters.len(),
            nll_before: (before, of_before),
            nll_after: (is, of_is),
            gain: (gain, of_gain),
            ece_before: calibration_error(&answers_before),
            ece_after: calibration_error(&answers_after),
            accuracy_before: accuracy(&answers_before),
            accuracy_after: accuracy(&answers_after),
            thresholds: thresholds(&answers_after),
        };
        Some((effect, (over_other, of_over_other)))
    }
}

/// How many states `questions` are of.
pub(super) fn n_states(questions: &[Asked<'_>]) -> usize {
    questions.iter().map(|asked| asked.state).collect::<BTreeSet<_>>().len()
}

/// The least and the most of some temperatures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Range {
    /// That of `temperatures`; `None` of none.
    pub(super) fn of(temperatures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let widened = |range: Option<Self>, t: f64| {
            let range = range.unwrap_or(Self { least: t, most: t });
            Some(Self { least: range.least.min(t), most: range.most.max(t) })
        };
        temperatures.into_iter().fold(None, widened)
    }

    /// The one temperature, if it is one.
    pub fn single(self) -> Option<f64> {
        (self.least == self.most).then_some(self.least)
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.single() {
            Some(temperature) => write!(f, "{temperature:.4}"),
            None => write!(f, "{:.4} to {:.4}", self.least, self.most),
        }
    }
}
