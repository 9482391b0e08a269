//! Fits every type and bucket, and decides on held-out records which of it is used.

use std::collections::BTreeMap;

use super::bootstrap::{Cluster, Interval, intervals};
use super::metric::{Answered, Threshold, accuracy, calibration_error, thresholds};
use super::objective::{Example, nll};
use super::refusal::name;
use super::{Bucket, Clamp, Refusal, Refused, solve};
use crate::calibrate::{Fraction, Measured, Split};
use crate::request::QuestionType;

/// Least records held-out questions must be of, unless fewer questions are asked for: of a few records every resample is
/// much like the others, and an interval says nothing.
const MIN_EVAL_RECORDS: usize = 20;

/// How to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The types to fit.
    pub types: Vec<QuestionType>,
    /// Between which temperatures the optimum must lie.
    pub clamp: Clamp,
    /// Which records without a split are held out.
    pub fraction: Fraction,
    /// Least questions to fit a type, or a bucket of its own, on.
    pub min_examples: usize,
    /// Least questions to judge it on.
    pub min_eval: usize,
    /// Resamples of an interval.
    pub n_resamples: usize,
    /// Seed of the resamples.
    pub seed: u64,
    /// Use every temperature there is enough data for, whether held-out data says that it helps or not.
    pub all_buckets: bool,
    /// Threads that resample; their number changes no bit.
    pub n_threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            types: QuestionType::ALL.into(),
            clamp: Clamp::default(),
            fraction: Fraction::default(),
            min_examples: 200,
            min_eval: 100,
            n_resamples: 1000,
            seed: 0,
            all_buckets: false,
            n_threads: 1,
        }
    }
}

/// What was fitted, of the types that have data.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// In type order.
    pub types: Vec<TypeFit>,
    /// Labelled questions with one option, which say nothing about a temperature.
    pub n_single_option: usize,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// One type.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeFit {
    /// The type.
    pub kind: QuestionType,
    /// All its questions.
    pub whole: Group,
    /// Its buckets that have questions, unless all are in one: that one is the type as a whole.
    pub buckets: Vec<Group>,
}

/// The questions of a type or of a bucket, and what came of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The bucket, or the type as a whole.
    pub bucket: Option<Bucket>,
    /// Questions to fit on.
    pub n_fit: usize,
    /// Questions held out.
    pub n_eval: usize,
    /// Records the held-out questions are of.
    pub n_eval_records: usize,
    /// What was fitted and how it does; `None` where there is too little data.
    pub judged: Option<Judged>,
    /// What came of it.
    pub verdict: Verdict,
    /// The temperature that is used: its own, or 1 for a type and its type's for a bucket.
    pub used: f64,
    /// The held-out answers under all temperatures that are used; `None` where nothing is held out.
    pub in_use: Option<InUse>,
}

/// Whether a fitted temperature is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is: the held-out likelihood gains, and the interval of the gain is above zero.
    Better,
    /// It is, because every bucket with enough data was asked for.
    AskedFor,
    /// It is not: the interval of the gain reaches zero.
    NotBetter,
    /// There is none: too little data.
    TooLittle,
}

impl Verdict {
    /// Whether the group's own temperature is used.
    pub fn is_used(self) -> bool {
        matches!(self, Self::Better | Self::AskedFor)
    }

    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::AskedFor => "asked for",
            Self::NotBetter => "not better",
            Self::TooLittle => "too little data",
        }
    }
}

/// A fitted temperature and how it does on held-out questions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The temperature, inside the clamp.
    pub temperature: f64,
    /// The temperature in use without it: 1 for a type, its type's for a bucket.
    pub replaces: f64,
    /// Mean negative log-likelihood of the questions it was fitted on.
    pub fit_nll: f64,
    /// Mean negative log-likelihood at 1, with its interval.
    pub nll_before: (f64, Interval),
    /// The same at the fitted temperature.
    pub nll_after: (f64, Interval),
    /// How much lower it is than at the temperature it replaces, question by question.
    pub gain: (f64, Interval),
    /// Calibration error at 1.
    pub ece_before: f64,
    /// The same at the fitted temperature.
    pub ece_after: f64,
    /// Share of right answers at 1.
    pub accuracy_before: f64,
    /// The same at the fitted temperature, which chooses no other option (unless two are the same to seven digits).
    pub accuracy_after: f64,
}

/// Held-out answers as they will be given.
#[derive(Debug, Clone, PartialEq)]
pub struct InUse {
    /// Mean negative log-likelihood.
    pub nll: f64,
    /// Calibration error.
    pub ece: f64,
    /// Share of right answers.
    pub accuracy: f64,
    /// What is left above a confidence.
    pub thresholds: Vec<Threshold>,
}

/// The questions of one type, by split.
#[derive(Default)]
struct Pool<'a> {
    fit: Vec<Example<'a>>,
    /// With the number of the record.
    eval: Vec<(usize, Example<'a>)>,
}

impl<'a> Pool<'a> {
    fn of(&self, bucket: Bucket) -> Self {
        let is = |example: &Example<'_>| Bucket::of(example.logits.len()) == bucket;
        Self {
            fit: self.fit.iter().filter(|example| is(example)).copied().collect(),
            eval: self.eval.iter().filter(|(_, example)| is(example)).copied().collect(),
        }
    }

    fn len(&self) -> usize {
        self.fit.len() + self.eval.len()
    }

    fn n_eval_records(&self) -> usize {
        // In order, so those of one record are neighbours.
        self.eval.chunk_by(|(a, _), (b, _)| a == b).count()
    }
}

/// Fits the temperatures of `records`.
///
/// The temperature of a type replaces 1, and that of a bucket replaces its type's, when the 95 % interval of the gain in
/// held-out log-likelihood is above zero (a paired bootstrap over records). Otherwise it is not used: a temperature that
/// helps the data it was fitted on and no other makes answers worse.
///
/// # Errors
/// Every reason why some type of [`Options::types`] that has data, or a bucket with enough of it, cannot be fitted.
pub fn fit(records: &[Measured], options: &Options) -> Result<Fit, Refused> {
    let (pools, n_single_option) = pools(records, options);
    let mut notes = Vec::new();
    if n_single_option > 0 {
        notes.push(format!("{n_single_option} labelled questions with one option say nothing about a temperature"));
    }
    // Without threads it takes longer and comes out the same.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.n_threads.max(1)).build().ok();
    let mut fitter = Fitter { options, threads, notes, refusals: Vec::new() };
    let mut types = Vec::new();
    for kind in QuestionType::ALL {
        match pools.get(&kind.index()) {
            Some(pool) => types.extend(fitter.fit_type(kind, pool)),
            None if options.types.contains(&kind) => fitter
                .notes
                .push(format!("{}: no labelled questions; it gets no entry, and T = 1 at run time", kind.as_str())),
            None => {}
        }
    }
    let Fitter { notes, mut refusals, .. } = fitter;
    if pools.is_empty() {
        refusals.push(Refusal::NoLabels);
    }
    if refusals.is_empty() { Ok(Fit { types, n_single_option, notes }) } else { Err(Refused { refusals }) }
}

/// The questions that say something about a temperature, by the index of their type, and the number of others.
fn pools<'a>(records: &'a [Measured], options: &Options) -> (BTreeMap<usize, Pool<'a>>, usize) {
    let mut pools: BTreeMap<usize, Pool<'_>> = BTreeMap::new();
    let mut n_single_option = 0;
    for (number, record) in records.iter().enumerate() {
        let split = record.split(options.fraction);
        for question in record.questions.iter().filter(|question| options.types.contains(&question.kind)) {
            if question.logits.len() < 2 {
                n_single_option += 1;
                continue;
            }
            let pool = pools.entry(question.kind.index()).or_default();
            let example = Example { logits: &question.logits, truth: question.truth };
            match split {
                Split::Fit => pool.fit.push(example),
                Split::Eval => pool.eval.push((number, example)),
            }
        }
    }
    (pools, n_single_option)
}

/// Whether there is enough to fit: of records whose logits mean nothing yet, before a model runs on them.
///
/// # Errors
/// Every type of [`Options::types`] that has questions and too few of them, or nothing has any.
pub fn check_counts(records: &[Measured], options: &Options) -> Result<(), Refused> {
    let (pools, _) = pools(records, options);
    let mut refusals: Vec<_> = QuestionType::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, pools.get(&kind.index())?)))
        .flat_map(|(kind, pool)| too_few(kind, pool, options))
        .collect();
    if pools.is_empty() {
        refusals.push(Refusal::NoLabels);
    }
    if refusals.is_empty() { Ok(()) } else { Err(Refused { refusals }) }
}

/// What is missing of a type.
fn too_few(kind: QuestionType, pool: &Pool<'_>, options: &Options) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let (to_fit, to_judge) = (options.min_examples.max(1), options.min_eval.max(1));
    if pool.fit.len() < to_fit {
        refusals.push(Refusal::TooFewToFit { kind, found: pool.fit.len(), needed: to_fit });
    }
    if pool.eval.len() < to_judge {
        refusals.push(Refusal::TooFewToJudge { kind, found: pool.eval.len(), needed: to_judge });
    }
    let (found, needed) = (pool.n_eval_records(), MIN_EVAL_RECORDS.min(to_judge));
    if refusals.is_empty() && found < needed {
        refusals.push(Refusal::TooFewRecords { kind, found, needed });
    }
    refusals
}

struct Fitter<'o> {
    options: &'o Options,
    threads: Option<rayon::ThreadPool>,
    notes: Vec<String>,
    refusals: Vec<Refusal>,
}

impl Fitter<'_> {
    /// Fits one type; nothing, and a refusal more, when that cannot be done.
    fn fit_type(&mut self, kind: QuestionType, pool: &Pool<'_>) -> Option<TypeFit> {
        let too_few = too_few(kind, pool, self.options);
        if !too_few.is_empty() {
            self.refusals.extend(too_few);
            return None;
        }
        let mut whole = self.fit_group(kind, None, pool, 1.0)?;
        let mut buckets = Vec::new();
        for bucket in Bucket::ALL {
            let part = pool.of(bucket);
            if part.len() == pool.len() {
                break;
            }
            if part.len() > 0 {
                // Of a bucket that cannot be fitted the refusal is enough.
                buckets.extend(self.fit_group(kind, Some(bucket), &part, whole.used).map(|group| (group, part)));
            }
        }
        let temperature_of = |example: &Example<'_>| {
            let bucket = Some(Bucket::of(example.logits.len()));
            buckets.iter().find(|(group, _)| group.bucket == bucket).map_or(whole.used, |(group, _)| group.used)
        };
        let in_use = |part: &Pool<'_>| {
            let eval: Vec<_> = part.eval.iter().map(|(_, example)| (*example, temperature_of(example))).collect();
            InUse::of(&eval)
        };
        let whole_in_use = in_use(pool);
        let in_use: Vec<_> = buckets.iter().map(|(_, part)| in_use(part)).collect();
        whole.in_use = whole_in_use;
        let buckets = buckets.into_iter().zip(in_use).map(|((group, _), in_use)| Group { in_use, ..group }).collect();
        Some(TypeFit { kind, whole, buckets })
    }

    /// Fits the questions of `pool`, for which `replaces` is used otherwise.
    fn fit_group(
        &mut self,
        kind: QuestionType,
        bucket: Option<Bucket>,
        pool: &Pool<'_>,
        replaces: f64,
    ) -> Option<Group> {
        let mut group = Group {
            bucket,
            n_fit: pool.fit.len(),
            n_eval: pool.eval.len(),
            n_eval_records: pool.n_eval_records(),
            judged: None,
            verdict: Verdict::TooLittle,
            used: replaces,
            in_use: None,
        };
        let name = name(kind, bucket);
        let Options { min_examples, min_eval, clamp, .. } = *self.options;
        if !too_few(kind, pool, self.options).is_empty() {
            self.notes.push(format!(
                "{name}: has no temperature of its own: {} labelled questions to fit on and {} held out, of {} records; \
                 {min_examples} and {min_eval} are needed (--min-examples, --min-eval), of {MIN_EVAL_RECORDS} records; it \
                 uses {replaces:.4}",
                group.n_fit, group.n_eval, group.n_eval_records
            ));
            return Some(group);
        }
        let found = group.n_fit;
        let truth = pool.fit.first().map_or(0, |example| example.truth);
        if pool.fit.iter().all(|example| example.truth == truth) {
            self.refusals.push(Refusal::SingleClass { kind, bucket, found, truth });
            return None;
        }
        let temperature = match solve(&pool.fit, clamp) {
            Ok(temperature) => temperature,
            Err(edge) => {
                let answers: Vec<_> = pool.fit.iter().map(|example| Answered::new(example, 1.0)).collect();
                let accuracy = accuracy(&answers);
                self.refusals.push(Refusal::AtClamp { kind, bucket, found, edge, clamp, accuracy });
                return None;
            }
        };
        let judged = self.judge(kind, bucket, pool, temperature, replaces);
        let (gain, Interval { low, high }) = judged.gain;
        group.verdict = match (low > 0.0, self.options.all_buckets) {
            (true, _) => Verdict::Better,
            (false, true) => Verdict::AskedFor,
            (false, false) => Verdict::NotBetter,
        };
        if group.verdict.is_used() {
            group.used = temperature;
        }
        let not_better = format!(
            "{name}: T = {temperature:.4} is not better than {replaces:.4} on held-out data (gain {gain:.4}, 95 % interval \
             {low:.4} to {high:.4})"
        );
        match group.verdict {
            Verdict::NotBetter => self.notes.push(format!("{not_better}; it uses {replaces:.4}")),
            Verdict::AskedFor => {
                self.notes.push(format!("{not_better}; it is used because every bucket was asked for"))
            }
            Verdict::Better | Verdict::TooLittle => {}
        }
        group.judged = Some(judged);
        Some(group)
    }

    /// How `temperature` does on the held-out questions.
    fn judge(
        &self,
        kind: QuestionType,
        bucket: Option<Bucket>,
        pool: &Pool<'_>,
        temperature: f64,
        replaces: f64,
    ) -> Judged {
        let mut clusters: Vec<Cluster<3>> = Vec::new();
        for record in pool.eval.chunk_by(|(a, _), (b, _)| a == b) {
            let mut cluster = Cluster { n: record.len(), sums: [0.0; 3] };
            for (_, example) in record {
                let (before, after) = (nll(example, 1.0), nll(example, 1.0 / temperature));
                let gain = nll(example, 1.0 / replaces) - after;
                cluster.sums.iter_mut().zip([before, after, gain]).for_each(|(sum, more)| *sum += more);
            }
            clusters.push(cluster);
        }
        let mut sums = [0.0; 3];
        for cluster in &clusters {
            sums.iter_mut().zip(cluster.sums).for_each(|(sum, more)| *sum += more);
        }
        let [before, after, gain] = sums.map(|sum| sum / pool.eval.len() as f64);
        let stream = kind.index() as u64 * 8 + bucket.map_or(0, |bucket| bucket as u64 + 1);
        let Options { n_resamples, seed, .. } = *self.options;
        let [of_before, of_after, of_gain] = intervals(&clusters, n_resamples, seed, stream, self.threads.as_ref());
        let answers = |temperature| -> Vec<_> {
            pool.eval.iter().map(|(_, example)| Answered::new(example, temperature)).collect()
        };
        let (answers_before, answers_after) = (answers(1.0), answers(temperature));
        Judged {
            temperature,
            replaces,
            fit_nll: super::objective::mean_nll(&pool.fit, 1.0 / temperature),
            nll_before: (before, of_before),
            nll_after: (after, of_after),
            gain: (gain, of_gain),
            ece_before: calibration_error(&answers_before),
            ece_after: calibration_error(&answers_after),
            accuracy_before: accuracy(&answers_before),
            accuracy_after: accuracy(&answers_after),
        }
    }
}

impl InUse {
    /// The answers to questions at the temperature of each; `None` without questions.
    fn of(questions: &[(Example<'_>, f64)]) -> Option<Self> {
        if questions.is_empty() {
            return None;
        }
        let answers: Vec<_> =
            questions.iter().map(|(example, temperature)| Answered::new(example, *temperature)).collect();
        let total: f64 = questions.iter().map(|(example, temperature)| nll(example, 1.0 / temperature)).sum();
        Some(Self {
            nll: total / questions.len() as f64,
            ece: calibration_error(&answers),
            accuracy: accuracy(&answers),
            thresholds: thresholds(&answers),
        })
    }
}
