//! Fits every type and bucket, and decides on held-out records which of it is used.

use std::collections::{BTreeMap, HashMap};

use super::effect::{Asked, Resampling, n_states};
use super::metric::{Answered, accuracy};
use super::objective::{Example, mean_nll};
use super::{Bucket, Clamp, Effect, Mean, Range, Refusal, Refused, note, solve};
use crate::calibrate::{Fraction, Measured, Split};
use crate::request::QuestionType;
use crate::spec::Calibration;

/// Least states held-out questions must be of, unless fewer questions are asked for: of a few states every resample is much
/// like the others, and an interval says nothing.
pub(super) const MIN_EVAL_STATES: usize = 20;

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
    /// Where some bucket does not use the type's temperature: the questions in no such bucket, which that one is for.
    pub rest: Option<Group>,
    /// Its buckets that have questions, unless all are in one: that one is the type as a whole.
    pub buckets: Vec<Group>,
    /// The buckets that have questions.
    pub seen: Vec<Bucket>,
    /// What becomes of the answers to records that were kept for a test; `None` without any.
    pub test: Option<Effect>,
}

impl TypeFit {
    /// The temperature of the questions in no bucket with one of its own; `None` where those in force stay.
    pub fn general(&self) -> Option<f64> {
        self.rest.as_ref().unwrap_or(&self.whole).own()
    }

    /// The temperature a question with `n_options` options has when `in_force` was used for it before.
    pub fn temperature(&self, n_options: usize, in_force: f64) -> f64 {
        let bucket = Some(Bucket::of(n_options));
        match self.buckets.iter().find(|group| group.bucket == bucket) {
            Some(group) if group.verdict == Verdict::Kept => in_force,
            group => group.and_then(Group::own).or(self.general()).unwrap_or(in_force),
        }
    }
}

/// The questions of a type or of a bucket, and what came of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The bucket; `None` for more than one.
    pub bucket: Option<Bucket>,
    /// Questions to fit on.
    pub n_fit: usize,
    /// Questions held out.
    pub n_eval: usize,
    /// States the held-out questions are of.
    pub n_eval_states: usize,
    /// What was fitted and how it does; `None` where nothing was.
    pub judged: Option<Judged>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why nothing could be fitted, for [`Verdict::Unfit`].
    pub refusal: Option<Refusal>,
    /// The temperatures that were in force for its questions.
    pub in_force: Range,
    /// The temperatures its questions have now.
    pub uses: Range,
    /// The held-out answers under all temperatures that are used; `None` where nothing is held out.
    pub in_use: Option<Effect>,
}

impl Group {
    /// The temperature fitted on it, where that is used.
    pub fn own(&self) -> Option<f64> {
        self.judged.as_ref().filter(|_| self.verdict.is_used()).map(|judged| judged.temperature)
    }
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
    /// It is not, and neither is that of the type: it is better than that one, but not than what is in force, which stays.
    Kept,
    /// There is none: too little data.
    TooLittle,
    /// There is none: the data does not determine one.
    Unfit,
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
            Self::Kept => "in force",
            Self::TooLittle => "too little data",
            Self::Unfit => "cannot be fitted",
        }
    }
}

/// A fitted temperature and how it does on held-out questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The temperature, inside the clamp.
    pub temperature: f64,
    /// Mean negative log-likelihood of the questions it was fitted on.
    pub fit_nll: f64,
    /// What it does to held-out questions to have it instead of the temperatures in force.
    pub effect: Effect,
    /// For a bucket whose type has a new temperature: that one, and the gain over it.
    pub over_type: Option<(f64, Mean)>,
}

impl Judged {
    /// Whether it is better than what is in force, and than the new temperature of its type if there is one: the interval of
    /// the gain is above zero.
    fn verdict(&self) -> Verdict {
        let over_type = self.over_type.map(|(_, (_, of_gain))| of_gain.low > 0.0);
        match (self.effect.gain.1.low > 0.0, over_type) {
            (true, None | Some(true)) => Verdict::Better,
            (false, Some(true)) => Verdict::Kept,
            (_, Some(false)) | (false, None) => Verdict::NotBetter,
        }
    }
}

/// The questions of one type, by split.
#[derive(Default)]
struct Pool<'a> {
    fit: Vec<Asked<'a>>,
    eval: Vec<Asked<'a>>,
    test: Vec<Asked<'a>>,
}

impl<'a> Pool<'a> {
    /// The questions in buckets that `holds`.
    fn of(&self, holds: impl Fn(Bucket) -> bool) -> Self {
        let part = |all: &[Asked<'a>]| {
            all.iter().filter(|asked| holds(Bucket::of(asked.example.logits.len()))).copied().collect()
        };
        Self { fit: part(&self.fit), eval: part(&self.eval), test: part(&self.test) }
    }

    /// How many there are to fit on and to judge by.
    fn len(&self) -> usize {
        self.fit.len() + self.eval.len()
    }

    fn examples(&self) -> Vec<Example<'a>> {
        self.fit.iter().map(|asked| asked.example).collect()
    }
}

/// Which questions of a type are fitted.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    Rest,
    /// A bucket, and the new temperature of its type.
    Bucket(Bucket, Option<f64>),
}

impl Part {
    fn bucket(self) -> Option<Bucket> {
        match self {
            Self::Bucket(bucket, _) => Some(bucket),
            Self::Whole | Self::Rest => None,
        }
    }

    /// The number of its resamples.
    fn stream(self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Bucket(bucket, _) => bucket as u64 + 1,
            Self::Rest => 5,
        }
    }
}

/// Streams of a type: one a part, and as many for the parts as they are used.
const N_STREAMS: u64 = 16;
/// From which on they are those of what is used.
const IN_USE: u64 = 8;
/// That of the records kept for a test.
const TEST: u64 = IN_USE + 7;

/// Fits the temperatures of `records`, of a model that is calibrated by `in_force`.
///
/// The temperature of a type replaces those in force, and that of a bucket replaces its type's too, when the 95 % interval of
/// the gain in held-out log-likelihood is above zero (a paired bootstrap over states). Otherwise what is in force stays: a
/// temperature that helps the data it was fitted on and no other makes answers worse. Once it is known which buckets have
/// their own, the type's is fitted and judged again on the questions that will use it.
///
/// # Errors
/// Every reason why some type of [`Options::types`] that has data, or with [`Options::all_buckets`] a bucket with enough of
/// it, cannot be fitted.
pub fn fit(records: &[Measured], in_force: &Calibration, options: &Options) -> Result<Fit, Refused> {
    let (pools, n_single_option) = pools(records, in_force, options);
    let mut notes = Vec::new();
    if n_single_option > 0 {
        notes.push(format!("{n_single_option} labelled questions with one option say nothing about a temperature"));
    }
    // Without threads it takes longer and comes out the same.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.n_threads.max(1)).build().ok();
    let resampling = Resampling { n: options.n_resamples, seed: options.seed, threads: threads.as_ref() };
    let mut fitter = Fitter { options, resampling, refusals: Vec::new() };
    let mut types = Vec::new();
    for kind in QuestionType::ALL {
        match pools.get(&kind.index()) {
            Some(pool) => {
                let fitted = fitter.fit_type(kind, pool);
                notes.extend(fitted.iter().flat_map(|of_type| note::of_type(of_type, in_force, options)));
                types.extend(fitted);
            }
            None => notes.extend(note::not_fitted(kind, in_force, options)),
        }
    }
    let mut refusals = fitter.refusals;
    if pools.is_empty() {
        refusals.push(Refusal::NoLabels);
    }
    if refusals.is_empty() { Ok(Fit { types, n_single_option, notes }) } else { Err(Refused { refusals }) }
}

/// The questions that say something about a temperature, by the index of their type, and the number of others.
fn pools<'a>(records: &'a [Measured], in_force: &Calibration, options: &Options) -> (BTreeMap<usize, Pool<'a>>, usize) {
    let mut pools: BTreeMap<usize, Pool<'_>> = BTreeMap::new();
    let mut states: HashMap<&str, usize> = HashMap::new();
    let mut n_single_option = 0;
    for record in records {
        let n = states.len();
        let state = *states.entry(&record.state_sha256).or_insert(n);
        let split = record.split(options.fraction);
        for question in record.questions.iter().filter(|question| options.types.contains(&question.kind)) {
            if question.logits.len() < 2 {
                n_single_option += 1;
                continue;
            }
            let pool = pools.entry(question.kind.index()).or_default();
            let asked = Asked {
                state,
                example: Example { logits: &question.logits, truth: question.truth },
                class: &question.class,
                in_force: in_force.temperature(question.kind, question.logits.len()),
            };
            match split {
                Split::Fit => pool.fit.push(asked),
                Split::Eval => pool.eval.push(asked),
                Split::Test => pool.test.push(asked),
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
    let (pools, _) = pools(records, &Calibration::default(), options);
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
    let (found, needed) = (n_states(&pool.eval), MIN_EVAL_STATES.min(to_judge));
    if refusals.is_empty() && found < needed {
        refusals.push(Refusal::TooFewStates { kind, found, needed });
    }
    refusals
}

/// The class of all `questions`, if it is one.
fn only_class<'a>(questions: &[Asked<'a>]) -> Option<&'a str> {
    let class = questions.first()?.class;
    questions.iter().all(|asked| asked.class == class).then_some(class)
}

struct Fitter<'o> {
    options: &'o Options,
    resampling: Resampling<'o>,
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
        let whole = self.fit_part(kind, Part::Whole, pool);
        if let Some(refusal) = whole.refusal {
            self.refusals.push(refusal);
            return None;
        }
        let mut parts = Vec::new();
        let mut seen = Vec::new();
        for bucket in Bucket::ALL {
            let part = pool.of(|other| other == bucket);
            if part.len() > 0 {
                seen.push(bucket);
            }
            if part.len() > 0 && part.len() < pool.len() {
                let group = self.fit_part(kind, Part::Bucket(bucket, whole.own()), &part);
                if self.options.all_buckets {
                    self.refusals.extend(group.refusal.clone());
                }
                parts.push((group, part));
            }
        }
        let is_apart = |group: &Group| group.own().is_some() || group.verdict == Verdict::Kept;
        let rest_pool =
            pool.of(|bucket| !parts.iter().any(|(group, _)| group.bucket == Some(bucket) && is_apart(group)));
        let has_rest = parts.iter().any(|(group, _)| is_apart(group));
        let rest = has_rest.then(|| self.fit_part(kind, Part::Rest, &rest_pool));
        let (buckets, pools): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let mut fitted = TypeFit { kind, whole, rest, buckets, seen, test: None };

        // Every group as it will be used.
        let used = fitted.clone();
        let temperature = |asked: &Asked<'_>| used.temperature(asked.example.logits.len(), asked.in_force);
        let effect = |questions: &[Asked<'_>], stream: u64| {
            let stream = kind.index() as u64 * N_STREAMS + stream;
            self.resampling.effect(questions, temperature, |asked| asked.in_force, stream).map(|(effect, _)| effect)
        };
        let finish = |group: &mut Group, pool: &Pool<'_>, part: Part| {
            let uses = Range::of(pool.fit.iter().chain(&pool.eval).map(temperature));
            group.uses = uses.unwrap_or(group.in_force);
            group.in_use = effect(&pool.eval, IN_USE + part.stream());
        };
        finish(&mut fitted.whole, pool, Part::Whole);
        if let Some(rest) = &mut fitted.rest {
            finish(rest, &rest_pool, Part::Rest);
        }
        for (group, pool) in fitted.buckets.iter_mut().zip(&pools) {
            let part = group.bucket.map_or(Part::Whole, |bucket| Part::Bucket(bucket, None));
            finish(group, pool, part);
        }
        fitted.test = effect(&pool.test, TEST);
        Some(fitted)
    }

    /// Fits the questions of `pool`.
    fn fit_part(&self, kind: QuestionType, part: Part, pool: &Pool<'_>) -> Group {
        let in_force = Range::of(pool.fit.iter().chain(&pool.eval).map(|asked| asked.in_force));
        // Nothing is in force for no questions.
        let in_force = in_force.unwrap_or(Range { least: 1.0, most: 1.0 });
        let mut group = Group {
            bucket: part.bucket(),
            n_fit: pool.fit.len(),
            n_eval: pool.eval.len(),
            n_eval_states: n_states(&pool.eval),
            judged: None,
            verdict: Verdict::TooLittle,
            refusal: None,
            in_force,
            uses: in_force,
            in_use: None,
        };
        if !too_few(kind, pool, self.options).is_empty() {
            return group;
        }
        match self.judge(kind, part, pool) {
            Ok(judged) => {
                group.verdict = match judged.verdict() {
                    Verdict::NotBetter | Verdict::Kept if self.options.all_buckets => Verdict::AskedFor,
                    verdict => verdict,
                };
                group.judged = Some(judged);
            }
            Err(refusal) => {
                group.verdict = Verdict::Unfit;
                group.refusal = Some(refusal);
            }
        }
        group
    }

    /// The temperature of the questions to fit on, and how it does on those held out, of which there are some.
    fn judge(&self, kind: QuestionType, part: Part, pool: &Pool<'_>) -> Result<Judged, Refusal> {
        let (bucket, clamp) = (part.bucket(), self.options.clamp);
        for (split, questions) in [(Split::Fit, &pool.fit), (Split::Eval, &pool.eval)] {
            if let Some(class) = only_class(questions) {
                let (found, class) = (questions.len(), class.to_owned());
                return Err(Refusal::SingleClass { kind, bucket, split, found, class });
            }
        }
        let examples = pool.examples();
        let at_clamp = |edge| {
            let answers: Vec<_> = examples.iter().map(|example| Answered::new(example, 1.0)).collect();
            let accuracy = accuracy(&answers);
            Refusal::AtClamp { kind, bucket, found: examples.len(), edge, clamp, accuracy }
        };
        let temperature = solve(&examples, clamp).map_err(at_clamp)?;
        let of_type = match part {
            Part::Bucket(_, of_type) => of_type,
            Part::Whole | Part::Rest => None,
        };
        let stream = kind.index() as u64 * N_STREAMS + part.stream();
        let other = |asked: &Asked<'_>| of_type.unwrap_or(asked.in_force);
        let (effect, over_other) = self
            .resampling
            .effect(&pool.eval, |_| temperature, other, stream)
            .ok_or(Refusal::TooFewToJudge { kind, found: 0, needed: 1 })?;
        Ok(Judged {
            temperature,
            fit_nll: mean_nll(&examples, 1.0 / temperature),
            effect,
            over_type: of_type.map(|of_type| (of_type, over_other)),
        })
    }
}
