//! What a person should know about a fit.

use super::fit::MIN_EVAL_STATES;
use super::refusal::name;
use super::{Bucket, Group, Mean, Options, Range, TypeFit, Verdict};
use crate::request::QuestionType;
use crate::spec::Calibration;

/// Option counts a note speaks of: those of the laya layout.
const MOST_OPTIONS: usize = 20;

/// A type that was not fitted.
pub(super) fn not_fitted(kind: QuestionType, in_force: &Calibration, options: &Options) -> Option<String> {
    let name = kind.as_str();
    let why = if options.types.contains(&kind) { "no labelled questions" } else { "not fitted" };
    if in_force.entry(Some(kind)).or(in_force.entry(None)).is_some() {
        return Some(format!(
            "{name}: {why}; it keeps what is in force, T = {}",
            range(kind, in_force, 2..=MOST_OPTIONS)
        ));
    }
    options.types.contains(&kind).then(|| format!("{name}: {why}; it gets no entry, and T = 1 at run time"))
}

/// A type that was fitted.
pub(super) fn of_type(fitted: &TypeFit, in_force: &Calibration, options: &Options) -> Vec<String> {
    let kind = fitted.kind;
    let mut notes = Vec::new();
    let mut add = |name: &str, group: &Group| notes.extend(of_group(name, group, options));
    add(&name(kind, None), &fitted.whole);
    for group in &fitted.buckets {
        add(&name(kind, group.bucket), group);
    }
    if let Some(rest) = &fitted.rest {
        add(&format!("{} *", kind.as_str()), rest);
    }
    // A noul has two options always.
    for bucket in Bucket::ALL.into_iter().filter(|_| kind != QuestionType::Noul) {
        let has = |n: usize| Bucket::of(n) == bucket;
        if let Some(general) = fitted.general().filter(|_| !fitted.seen.contains(&bucket)) {
            let before = Range::of((2..=MOST_OPTIONS).filter(|n| has(*n)).map(|n| in_force.temperature(kind, n)));
            let before = before.map_or_else(String::new, |before| format!(" instead of {before}"));
            notes.push(format!(
                "{}: no labelled questions; it uses the temperature of the type, {general:.4}{before}",
                name(kind, Some(bucket))
            ));
        }
    }
    notes
}

/// What is not as one would expect about the questions called `name`.
fn of_group(name: &str, group: &Group, options: &Options) -> Option<String> {
    let uses = format!("it uses {}", group.uses);
    let gain = |(gain, of): Mean| format!("gain {gain:.4}, 95 % interval {:.4} to {:.4}", of.low, of.high);
    let not_better = || {
        let judged = group.judged.as_ref()?;
        let t = judged.temperature;
        Some(match judged.over_type {
            Some((of_type, over)) if judged.effect.gain.1.low > 0.0 => format!(
                "{name}: T = {t:.4} is not better than that of the type, {of_type:.4}, on held-out data ({})",
                gain(over)
            ),
            _ => format!(
                "{name}: T = {t:.4} is not better than {}, which is in force, on held-out data ({})",
                group.in_force,
                gain(judged.effect.gain)
            ),
        })
    };
    match group.verdict {
        Verdict::Better => None,
        Verdict::AskedFor => Some(format!("{}; it is used because every bucket was asked for", not_better()?)),
        Verdict::NotBetter => Some(format!("{}; {uses}", not_better()?)),
        Verdict::Kept => {
            let judged = group.judged.as_ref()?;
            let (of_type, over) = judged.over_type?;
            Some(format!(
                "{}; better than that of the type, {of_type:.4} ({}), it is not used, and what is in force stays",
                not_better()?,
                gain(over)
            ))
        }
        Verdict::Unfit => Some(format!("{}; {uses}", group.refusal.as_ref()?)),
        Verdict::TooLittle if group.n_fit + group.n_eval == 0 => {
            Some(format!("{name}: no labelled questions; what is in force stays"))
        }
        Verdict::TooLittle => Some(format!(
            "{name}: has no temperature of its own: {} labelled questions to fit on and {} held out, of {} states; {} and \
             {} are needed (--min-examples, --min-eval), of {MIN_EVAL_STATES} states; {uses}",
            group.n_fit, group.n_eval, group.n_eval_states, options.min_examples, options.min_eval
        )),
    }
}

/// The temperatures `calibration` has for such questions.
fn range(kind: QuestionType, calibration: &Calibration, n_options: std::ops::RangeInclusive<usize>) -> String {
    let n_options = if kind == QuestionType::Noul { 2..=2 } else { n_options };
    Range::of(n_options.map(|n| calibration.temperature(kind, n))).map_or_else(String::new, |range| range.to_string())
}
