//! One candidate against its baseline, question by question.

use super::answer::{self, Class};
use super::input::inputs_differ;
use super::number::{first_option, is_within, relative_error, rounded_like, top_2_gap, total_variation};
use super::{Failure, Rule};
use crate::parity::tier::{Bounds, Difference, Strict};
use crate::parity::{ItemRecord, Kind, Outcome, QuestionRecord, Refusal, Run};
use std::collections::{BTreeMap, HashMap};

/// Failures at single items that are kept; all are counted.
const MAX_FAILURES: usize = 100;

/// What is asked of the numbers.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// Nothing: they are measured.
    Measured {
        /// Whether as `strict-f32` measures: a candidate rounded like its reference.
        like_reference: bool,
    },
    /// Every public number within the tolerance, first options the same.
    Strict(&'a Strict),
    /// Bounds on the errors, a few flips.
    Class(&'a Bounds),
    /// The same bits.
    Exact,
}

impl Numbers<'_> {
    fn is_exact(self) -> bool {
        matches!(self, Self::Exact)
    }

    fn like_reference(self) -> bool {
        matches!(self, Self::Strict(_) | Self::Measured { like_reference: true })
    }

    fn act_max_rel_dlogit(self) -> Option<f64> {
        match self {
            Self::Strict(strict) => Some(strict.act_max_rel_dlogit),
            Self::Class(bounds) => Some(bounds.act_max_rel_dlogit),
            Self::Measured { .. } | Self::Exact => None,
        }
    }
}

/// A question with another answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Flip {
    /// Its item.
    pub item: String,
    /// Its id.
    pub question: String,
    /// How far the first option of the baseline is ahead; see [`super::top_2_gap`].
    pub gap: f64,
    /// Whether the tier allows it.
    pub is_allowed: bool,
}

/// Largest errors of public numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MaxAbsError {
    /// Of probabilities and noul values.
    pub prob: f64,
    /// Of confidences.
    pub confidence: f64,
    /// Of scores, divided by the number of options less one.
    pub score: f64,
    /// Of scores as they are.
    pub score_raw: f64,
    /// Of other numbers.
    pub other: f64,
}

impl MaxAbsError {
    /// The largest that counts: all but the undivided score.
    pub fn largest(&self) -> f64 {
        [self.confidence, self.score, self.other].into_iter().fold(self.prob, f64::max)
    }
}

/// How far the raw logits of compared questions are apart. For people: no tier has bounds for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Logits {
    /// Largest difference.
    pub max_abs_dlogit: f64,
    /// Sum of the differences.
    sum_abs_dlogit: f64,
    n_logits: u64,
    /// Largest total variation of two distributions, softmax of the raw logits.
    pub max_tvd: f64,
    sum_tvd: f64,
    n_questions: u64,
}

impl Logits {
    /// Mean difference; 0 without logits.
    pub fn mean_abs_dlogit(&self) -> f64 {
        mean(self.sum_abs_dlogit, self.n_logits)
    }

    /// Mean total variation; 0 without questions.
    pub fn mean_tvd(&self) -> f64 {
        mean(self.sum_tvd, self.n_questions)
    }
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Items of the corpus.
    pub n_items: u64,
    /// Questions of the corpus.
    pub n_questions: u64,
    /// Questions with the same input on both sides and logits to compare.
    pub n_compared: u64,
    /// Compared questions whose answers were checked.
    pub n_public_checked: u64,
    /// Compared questions without an answer on a side.
    pub n_public_missing: u64,
    /// Items both sides refused.
    pub n_both_refused: u64,
    /// Questions of the items a side refused.
    pub n_refused_questions: u64,
    /// Compared questions with the same first option.
    pub n_argmax_agree: u64,
    /// Compared questions with another first option or choice.
    pub flips: Vec<Flip>,
    /// Questions and items that were not compared, by rule.
    pub input_mismatches: BTreeMap<Rule, u64>,
    /// Differences that are known, and allowed. `[Difference::ALL]`
    pub known_differences: [u64; Difference::ALL.len()],
    /// The first failures.
    pub failures: Vec<Failure>,
    /// All of them.
    pub n_failures: u64,
    /// Largest errors of public numbers.
    pub max_abs_error: MaxAbsError,
    sum_abs_dp: f64,
    n_dp: u64,
    /// Compared questions with act logits on both sides.
    pub n_act_checked: u64,
    /// Compared questions without act logits on a side.
    pub n_act_missing: u64,
    /// Largest relative error of an act logit.
    pub act_max_rel_dlogit: f64,
    /// The raw logits, for people.
    pub logits: Logits,
}

fn mean(sum: f64, n: u64) -> f64 {
    // Whatever hostile numbers add up to can still be written down.
    if n == 0 { 0.0 } else { (sum / n as f64).min(f64::MAX) }
}

impl Comparison {
    /// Compares `candidate` with `baseline`, as far as their inputs are the same, and asks of the numbers what `numbers` says.
    pub fn new(baseline: &Run, candidate: &Run, numbers: Numbers<'_>, allowed: &[Difference]) -> Self {
        let corpus = &baseline.identity.corpus;
        let found = Self { n_items: corpus.n_items, n_questions: corpus.n_questions, ..Self::default() };
        let runs = [baseline, candidate];
        let is_server = runs.map(|run| run.identity.kind == Kind::Server);
        let has_act = runs.map(|run| questions(run).any(|question| act_logits(question).is_some()));
        let mut work = Work { numbers, allowed, is_server, has_act, found, n_seen: 0, n_unknown: 0 };
        work.items(baseline, candidate);
        work.whole(corpus.n_questions);
        work.found
    }

    /// Mean error of the probabilities and noul values of compared questions; 0 without any.
    pub fn mean_abs_dp(&self) -> f64 {
        mean(self.sum_abs_dp, self.n_dp)
    }

    /// Share of compared questions with another answer; 0 without any.
    pub fn flip_fraction(&self) -> f64 {
        mean(self.flips.len() as f64, self.n_compared)
    }

    /// Flips that are allowed.
    pub fn n_allowed_flips(&self) -> usize {
        self.flips.iter().filter(|flip| flip.is_allowed).count()
    }

    /// Public numbers of probabilities and nouls that were compared.
    pub fn n_dp(&self) -> u64 {
        self.n_dp
    }

    /// Whether no rule is broken.
    pub fn passes(&self) -> bool {
        self.n_failures == 0
    }
}

fn questions(run: &Run) -> impl Iterator<Item = &QuestionRecord> {
    run.items.iter().flat_map(|item| match &item.outcome {
        Outcome::Answered(questions) => questions.as_slice(),
        Outcome::Refused(_) | Outcome::Failed(_) => &[],
    })
}

/// The act logits of a question; an empty list is none.
fn act_logits(question: &QuestionRecord) -> Option<&[f32]> {
    question.act_logits.as_deref().filter(|logits| !logits.is_empty())
}

/// A question and its item.
#[derive(Clone, Copy)]
struct Place<'a> {
    item: &'a str,
    question: Option<&'a str>,
}

struct Work<'a> {
    numbers: Numbers<'a>,
    allowed: &'a [Difference],
    /// Baseline, candidate.
    is_server: [bool; 2],
    /// Whether a run has act logits at all.
    has_act: [bool; 2],
    found: Comparison,
    /// Questions that a side has.
    n_seen: u64,
    /// Items of which no side says how many questions they have.
    n_unknown: u64,
}

impl Work<'_> {
    fn fail(&mut self, rule: Rule, place: Option<Place<'_>>, what: impl Into<String>) {
        if rule.is_of_inputs() {
            *self.found.input_mismatches.entry(rule).or_default() += 1;
        }
        self.found.n_failures += 1;
        let failures = &mut self.found.failures;
        // What is wrong with the whole run comes first: there may be many others.
        let at = match place {
            None => failures.iter().take_while(|failure| failure.item.is_none()).count(),
            Some(_) if failures.len() >= MAX_FAILURES => return,
            Some(_) => failures.len(),
        };
        let failure = Failure {
            rule,
            item: place.map(|place| place.item.to_owned()),
            question: place.and_then(|place| place.question).map(str::to_owned),
            what: what.into(),
        };
        failures.insert(at, failure);
    }

    /// Counts a difference if the tier allows it.
    fn allows(&mut self, difference: Difference) -> bool {
        let is_allowed = self.allowed.contains(&difference);
        let count = self.found.known_differences.get_mut(difference as usize);
        if let Some(count) = count.filter(|_| is_allowed) {
            *count += 1;
        }
        is_allowed
    }

    fn items(&mut self, baseline: &Run, candidate: &Run) {
        let mut of_candidate: HashMap<_, _> = candidate.items.iter().map(|item| (item.id.as_str(), item)).collect();
        for a in &baseline.items {
            let place = Place { item: &a.id, question: None };
            match of_candidate.remove(a.id.as_str()) {
                Some(b) => self.item(place, a, b),
                None => self.fail(Rule::ItemMissing, Some(place), "the candidate does not have it"),
            }
        }
        // In the order of the file, not of the map.
        for b in candidate.items.iter().filter(|item| of_candidate.contains_key(item.id.as_str())) {
            let place = Place { item: &b.id, question: None };
            self.fail(Rule::ItemMissing, Some(place), "the baseline does not have it");
        }
    }

    fn item(&mut self, place: Place<'_>, a: &ItemRecord, b: &ItemRecord) {
        use Outcome::{Answered, Failed, Refused};
        self.count(place, a, b);
        match (&a.outcome, &b.outcome) {
            (Answered(a), Answered(b)) => self.questions(place, a, b),
            (Failed(message), _) => {
                self.fail(Rule::Failed, Some(place), format!("the baseline failed at it: {message}"))
            }
            (_, Failed(message)) => {
                self.fail(Rule::Failed, Some(place), format!("the candidate failed at it: {message}"))
            }
            (Refused(a), Refused(b)) => {
                self.found.n_both_refused += 1;
                if self.numbers.is_exact() {
                    if a != b {
                        let what = format!("it is refused with {:?} and {:?}", a.message, b.message);
                        self.fail(Rule::RefusalDiffers, Some(place), what);
                    }
                } else if !(a.null_state && b.null_state) {
                    let what = format!("both refuse it, with {:?} and {:?}", a.message, b.message);
                    self.fail(Rule::BothRefused, Some(place), what);
                }
            }
            (Refused(refusal), Answered(_)) => self.refused_by(place, "baseline", refusal),
            (Answered(_), Refused(refusal)) => self.refused_by(place, "candidate", refusal),
        }
    }

    /// Counts the questions of an item that is not answered by both: then they are paired, and counted there.
    fn count(&mut self, place: Place<'_>, a: &ItemRecord, b: &ItemRecord) {
        let [x, y] = [a, b].map(|item| matches!(item.outcome, Outcome::Answered(_)));
        if x && y {
            return;
        }
        let n = match (a.n_questions(), b.n_questions()) {
            (Some(n), Some(m)) if n != m => {
                self.fail(Rule::Coverage, Some(place), format!("it has {n} and {m} questions"));
                n.max(m)
            }
            (Some(n), _) | (_, Some(n)) => n,
            (None, None) => {
                self.n_unknown += 1;
                0
            }
        };
        self.n_seen = self.n_seen.saturating_add(n);
        if [a, b].iter().any(|item| matches!(item.outcome, Outcome::Refused(_))) {
            self.found.n_refused_questions = self.found.n_refused_questions.saturating_add(n);
        }
    }

    fn refused_by(&mut self, place: Place<'_>, side: &str, refusal: &Refusal) {
        if !(refusal.null_state && self.allows(Difference::NullStateRefused)) {
            self.fail(Rule::Refused, Some(place), format!("the {side} alone refuses it: {}", refusal.message));
        }
    }

    fn questions(&mut self, place: Place<'_>, a: &[QuestionRecord], b: &[QuestionRecord]) {
        let mut of_candidate: HashMap<_, _> = b.iter().map(|question| (question.id.as_str(), question)).collect();
        for question in a {
            let place = Place { question: Some(&question.id), ..place };
            self.n_seen += 1;
            match of_candidate.remove(question.id.as_str()) {
                None => self.fail(Rule::QuestionMissing, Some(place), "the candidate does not have it"),
                Some(other) => match inputs_differ(question, other) {
                    Some((rule, what)) => self.fail(rule, Some(place), what),
                    None => self.question(place, question, other),
                },
            }
        }
        for question in b.iter().filter(|question| of_candidate.contains_key(question.id.as_str())) {
            self.n_seen += 1;
            let place = Place { question: Some(&question.id), ..place };
            self.fail(Rule::QuestionMissing, Some(place), "the baseline does not have it");
        }
    }

    /// A question with the same input on both sides.
    fn question(&mut self, place: Place<'_>, a: &QuestionRecord, b: &QuestionRecord) {
        let (Some(x), Some(y)) = (&a.logits, &b.logits) else {
            let side = if a.logits.is_none() { "baseline" } else { "candidate" };
            return self.fail(Rule::Logits, Some(place), format!("the {side} has no raw logits"));
        };
        if x.len() != y.len() || x.is_empty() {
            return self.fail(Rule::Logits, Some(place), format!("there are {} and {} raw logits", x.len(), y.len()));
        }
        if !x.iter().chain(y).all(|logit| logit.is_finite()) {
            return self.fail(Rule::Logits, Some(place), "a raw logit is not finite");
        }
        self.found.n_compared += 1;
        self.measure(x, y);
        if self.numbers.is_exact()
            && let Some(what) = bits_differ("raw", x, y)
        {
            self.fail(Rule::LogitBits, Some(place), what);
        }
        let firsts = [first_option(x), first_option(y)];
        let agrees = firsts[0] == firsts[1];
        self.found.n_argmax_agree += u64::from(agrees);
        let choice_differs = self.answers(place, a, b, x.len());
        if !agrees || choice_differs {
            self.flip(place, top_2_gap(x), firsts);
        }
        self.act(place, act_logits(a), act_logits(b));
    }

    fn measure(&mut self, x: &[f32], y: &[f32]) {
        let logits = &mut self.found.logits;
        for (x, y) in x.iter().zip(y) {
            let error = (f64::from(*x) - f64::from(*y)).abs();
            logits.max_abs_dlogit = logits.max_abs_dlogit.max(error);
            logits.sum_abs_dlogit += error;
            logits.n_logits += 1;
        }
        let tvd = total_variation(x, y);
        logits.max_tvd = logits.max_tvd.max(tvd);
        logits.sum_tvd += tvd;
        logits.n_questions += 1;
    }

    fn flip(&mut self, place: Place<'_>, gap: f64, [x, y]: [usize; 2]) {
        let is_allowed = match self.numbers {
            Numbers::Measured { .. } => true,
            Numbers::Class(bounds) => gap < bounds.flip_max_gap,
            Numbers::Strict(_) | Numbers::Exact => false,
        };
        if !is_allowed {
            let how = if x == y { "another choice is made".into() } else { format!("option {y} comes first, not {x}") };
            self.fail(Rule::Argmax, Some(place), format!("{how}; the baseline is ahead by {gap:.4}"));
        }
        let question = place.question.unwrap_or_default().to_owned();
        self.found.flips.push(Flip { item: place.item.to_owned(), question, gap, is_allowed });
    }

    /// Checks the public answers; returns whether another choice was made.
    fn answers(&mut self, place: Place<'_>, a: &QuestionRecord, b: &QuestionRecord, n_options: usize) -> bool {
        let (Some(x), Some(y)) = (&a.answer, &b.answer) else {
            self.found.n_public_missing += 1;
            let side = match (&a.answer, &b.answer) {
                (None, None) => "neither side has",
                (None, _) => "the baseline does not have",
                _ => "the candidate does not have",
            };
            self.fail(Rule::PublicMissing, Some(place), format!("{side} an answer"));
            return false;
        };
        if self.numbers.is_exact() && !answer::same_object(x, y) {
            self.fail(Rule::AnswerDiffers, Some(place), "the answers are not the same");
        }
        let lax = self.is_server.map(|is_server| is_server && self.allowed.contains(&Difference::ServerAnswerShape));
        let compared = answer::compare(a.kind, x, y, n_options, lax);
        if compared.left_out {
            self.allows(Difference::ServerAnswerShape);
        }
        self.found.n_public_missing += u64::from(compared.is_incomplete);
        self.found.n_public_checked += u64::from(!compared.is_incomplete);
        for (rule, what) in compared.faults {
            // Keys that differ are said above, in a tier that has no room for any.
            if !(self.numbers.is_exact() && rule == Rule::AnswerKeys) {
                self.fail(rule, Some(place), what);
            }
        }
        for pair in compared.pairs {
            self.number(place, &pair, n_options);
        }
        compared.choice_differs
    }

    fn number(&mut self, place: Place<'_>, pair: &answer::Pair, n_options: usize) {
        let (a, mut b) = (pair.baseline, pair.candidate);
        if self.numbers.like_reference() {
            b = rounded_like(a, b);
        }
        let raw = (a - b).abs().min(f64::MAX);
        let mut error = raw;
        let largest = &mut self.found.max_abs_error;
        match pair.class {
            Class::Probability => {
                largest.prob = largest.prob.max(raw);
                self.found.sum_abs_dp += raw;
                self.found.n_dp += 1;
            }
            Class::Confidence => largest.confidence = largest.confidence.max(raw),
            Class::Score => {
                error = raw / n_options.saturating_sub(1).max(1) as f64;
                largest.score_raw = largest.score_raw.max(raw);
                largest.score = largest.score.max(error);
            }
            Class::Other => largest.other = largest.other.max(raw),
        }
        let (rule, tolerance) = match (self.numbers, pair.class) {
            (Numbers::Strict(strict), _) => (Rule::PublicError, strict.public_atol),
            (Numbers::Class(bounds), Class::Probability) => (Rule::MaxAbsDp, bounds.max_abs_dp),
            // Computed from the probabilities by the same code, so that being finite is enough; or to the bit, which is
            // another rule.
            _ => return,
        };
        if !is_within(error, tolerance) {
            let what = format!("{} is {a} and {b}: the error {error:.3e} is above {tolerance}", pair.path);
            self.fail(rule, Some(place), what);
        }
    }

    fn act(&mut self, place: Place<'_>, x: Option<&[f32]>, y: Option<&[f32]>) {
        let (Some(x), Some(y)) = (x, y) else {
            self.found.n_act_missing += 1;
            // Only a side without any may lack these, and only if it is a server.
            let lacks = [x.is_none(), y.is_none()];
            let is_known = (0..2).all(|i| {
                let of = |flags: [bool; 2]| flags.get(i).copied().unwrap_or_default();
                !of(lacks) || (of(self.is_server) && !of(self.has_act))
            });
            if is_known && self.allows(Difference::ServerNoActHead) {
                return;
            }
            let side = match lacks {
                [true, true] => "neither side has",
                [true, false] => "the baseline does not have",
                _ => "the candidate does not have",
            };
            return self.fail(Rule::ActMissing, Some(place), format!("{side} act logits"));
        };
        if x.len() != y.len() {
            self.found.n_act_missing += 1;
            return self.fail(
                Rule::ActMissing,
                Some(place),
                format!("there are {} and {} act logits", x.len(), y.len()),
            );
        }
        self.found.n_act_checked += 1;
        let errors = x.iter().zip(y).map(|(x, y)| relative_error(*x, *y));
        // What is no number is larger than any.
        let error = errors.fold(0.0, |largest: f64, e| if e.is_nan() { f64::MAX } else { largest.max(e) });
        self.found.act_max_rel_dlogit = self.found.act_max_rel_dlogit.max(error);
        if let Some(bound) = self.numbers.act_max_rel_dlogit()
            && !is_within(error, bound)
        {
            let what = format!("the relative error {error:.3e} of an act logit is above {bound}");
            self.fail(Rule::ActError, Some(place), what);
        }
        if self.numbers.is_exact()
            && let Some(what) = bits_differ("act", x, y)
        {
            self.fail(Rule::ActBits, Some(place), what);
        }
    }

    /// The rules about the whole run.
    fn whole(&mut self, n_questions: u64) {
        let Comparison { n_compared, n_public_checked, .. } = self.found;
        if self.n_seen != n_questions || self.n_unknown > 0 {
            let what = match self.n_unknown {
                0 => format!("the runs hold {} questions, the corpus has {n_questions}", self.n_seen),
                n => format!(
                    "the runs hold {} of {n_questions} questions, and say of {n} items not how many they have",
                    self.n_seen
                ),
            };
            self.fail(Rule::Coverage, None, what);
        }
        if let Numbers::Class(bounds) = self.numbers {
            let fraction = self.found.flip_fraction();
            if !is_within(fraction, bounds.max_flip_fraction) {
                let n = self.found.flips.len();
                let what = format!(
                    "{n} of {n_compared} questions have another answer: {fraction:.5} is above {}",
                    bounds.max_flip_fraction
                );
                self.fail(Rule::FlipFraction, None, what);
            }
            let mean = self.found.mean_abs_dp();
            if !is_within(mean, bounds.mean_abs_dp) {
                let what = format!("the mean error {mean:.3e} of the probabilities is above {}", bounds.mean_abs_dp);
                self.fail(Rule::MeanAbsDp, None, what);
            }
        }
        if n_compared == 0 {
            self.fail(Rule::NothingCompared, None, "no question could be compared");
        }
        if n_public_checked == 0 {
            self.fail(Rule::NothingChecked, None, "no public answer could be checked");
        }
    }
}

/// What is said of logits that are not the same to the bit.
fn bits_differ(name: &str, x: &[f32], y: &[f32]) -> Option<String> {
    let i = x.iter().zip(y).position(|(x, y)| x.to_bits() != y.to_bits())?;
    let (x, y) = (x.get(i)?, y.get(i)?);
    Some(format!("{name} logit {i} is {x:?} and {y:?}, bits {:08x} and {:08x}", x.to_bits(), y.to_bits()))
}
