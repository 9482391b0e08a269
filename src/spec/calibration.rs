//! Temperatures: what the logits of a question are divided by before they become probabilities.

use super::bucket::Bucket;
use super::problem::{Problems, join, must, shown};
use crate::json::{Object, Value};
use crate::request::QuestionType;
use std::collections::BTreeSet;

/// The clamp of the published package: below it a fitted value sharpens more than honest calibration ever needs.
pub(super) const LAYA_CLAMP: (f64, f64) = (0.5, 5.0);
/// Temperatures and clamps lie within these. No fit gives others: they are a slip of the pen or of the unit, and with them
/// every answer would be certain, or none.
const SANE: (f64, f64) = (1e-6, 1e6);
/// The entry for types that have none of their own.
const ALL: &str = "all";
/// The option counts the published package tells apart, as it names them and as buckets.
const PUBLISHED: [(&str, &str); 4] = [("2", "1-2"), ("3-5", "3-5"), ("6-10", "6-10"), ("11+", "11+")];

/// The temperatures of a model, looked up by question type and number of options.
///
/// | step | |
/// |---|---|
/// | the entry | of the question's type, else `all` |
/// | in it | the bucket `N`, else `A-B`, else `N+`, else `*`; of several that hold the count, the one named first |
/// | found | clamped |
/// | not found | exactly 1 |
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Choice, score, noul, all.
    entries: [Option<Vec<Entry>>; 4],
    clamp: (f64, f64),
    version: Option<String>,
    is_none: bool,
    required: bool,
    adjustments: Vec<Adjustment>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    bucket: Bucket,
    temperature: f64,
}

/// A temperature of the model that is not used as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjustment {
    /// The type (`choice`) or type and bucket (`choice:11+`) it belongs to.
    pub name: String,
    /// What the model has.
    pub given: f64,
    /// What is used instead.
    pub used: f64,
}

impl Default for Calibration {
    /// No calibration: every temperature is 1.
    fn default() -> Self {
        let entries = [const { None }; 4];
        Self { entries, clamp: LAYA_CLAMP, version: None, is_none: true, required: false, adjustments: Vec::new() }
    }
}

impl Calibration {
    /// The temperatures the published package stores: by type (choice, score, noul), and by its own buckets such as
    /// `choice:3-5`, of which a repeated one counts as it was last given. Each passes the package's filter: what is not
    /// finite becomes 1, the rest is kept within 0.5 and 5.
    pub fn new(temperature: [f64; 3], by_options: impl IntoIterator<Item = (String, f64)>) -> Self {
        let mut calibration = Self { is_none: false, ..Self::default() };
        let mut adjustments = Vec::new();
        let mut filtered = |name: &str, given: f64| {
            let used = filter(given);
            if used != given {
                adjustments.push(Adjustment { name: name.to_owned(), given, used });
            }
            used
        };
        for (kind, (entry, given)) in QuestionType::ALL.iter().zip(calibration.entries.iter_mut().zip(temperature)) {
            *entry = Some(vec![Entry { bucket: Bucket::Any, temperature: filtered(kind.as_str(), given) }]);
        }
        for (name, given) in by_options {
            let temperature = filtered(&name, given);
            let known = published(&name).and_then(|(kind, bucket)| {
                let entry = calibration.entries.get_mut(kind.index())?.as_mut()?;
                Some((entry, Bucket::from_name(bucket)?))
            });
            if let Some((entry, bucket)) = known {
                entry.retain(|entry| entry.bucket != bucket);
                entry.push(Entry { bucket, temperature });
            }
        }
        calibration.adjustments = adjustments;
        calibration
    }

    /// The same with a version.
    #[must_use]
    pub(super) fn versioned(self, version: &str) -> Self {
        Self { version: Some(version.to_owned()), ..self }
    }

    /// The temperature for a question of type `kind` with `n_options` options.
    pub fn temperature(&self, kind: QuestionType, n_options: usize) -> f64 {
        let (least, most) = self.clamp;
        self.found(kind, n_options).map_or(1.0, |temperature| temperature.clamp(least, most))
    }

    /// What is written for such a question, before the clamp.
    fn found(&self, kind: QuestionType, n_options: usize) -> Option<f64> {
        let own = self.entries.get(kind.index())?.as_ref();
        let entry = own.or(self.entries.last()?.as_ref())?;
        let holding = entry.iter().filter(|entry| entry.bucket.holds(n_options));
        // `min_by_key` gives the first of equals.
        holding.min_by_key(|entry| entry.bucket.order()).map(|entry| entry.temperature)
    }

    /// Whether the calibration is required and has no temperature for such a question. A spec is only taken with one for
    /// every option count of its layout; a request may have more options than that.
    pub fn lacks(&self, kind: QuestionType, n_options: usize) -> bool {
        // The probability of the only option is 1 at any temperature.
        self.required && n_options > 1 && self.found(kind, n_options).is_none()
    }

    /// The entry of `kind`, or without one that of the types that have none of their own: names of buckets, and what is used
    /// for them, which is clamped.
    pub fn entry(&self, kind: Option<QuestionType>) -> Option<Object> {
        let (least, most) = self.clamp;
        let entry = self.entries.get(kind.map_or(QuestionType::ALL.len(), QuestionType::index))?.as_ref()?;
        let mut buckets = Object::new();
        for Entry { bucket, temperature } in entry {
            let name = bucket.name();
            // Of two that hold the same counts the first is used.
            if !buckets.contains_key(&name) {
                buckets.insert(name, temperature.clamp(least, most));
            }
        }
        Some(buckets)
    }

    /// The option counts from which on questions of type `kind` may have another temperature than below, lowest first.
    pub fn steps(&self, kind: QuestionType) -> Vec<usize> {
        let entries = [self.entries.get(kind.index()), self.entries.last()].into_iter().flatten().flatten().flatten();
        let steps: BTreeSet<_> = entries.flat_map(|entry| entry.bucket.steps()).flatten().collect();
        steps.into_iter().map(|step| step as usize).collect()
    }

    /// As the `calibration` of a spec, which is read back as one of the same temperatures.
    pub fn to_json(&self) -> Object {
        let mut fields = Object::new();
        fields.insert("method", if self.is_none { "none" } else { "temperature" });
        if let Some(version) = &self.version {
            fields.insert("version", version.as_str());
        }
        if self.is_none {
            return fields;
        }
        fields.insert("required", self.required);
        fields.insert("clamp", [self.clamp.0, self.clamp.1].into_iter().collect::<Value>());
        let types = QuestionType::ALL.into_iter().map(Some).chain([None]);
        let entry = |kind: Option<QuestionType>| Some((kind.map_or(ALL, QuestionType::as_str), self.entry(kind)?));
        fields.insert("temperature", types.filter_map(entry).collect::<Object>());
        fields
    }

    /// Reads the `calibration` of a spec for models of the laya layout.
    ///
    /// # Errors
    /// The first broken rule, after its path in `value`.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let mut problems = Problems::default();
        // Whether a required one is complete is for the spec to say, which has the limits.
        let calibration = Self::read(&mut problems, Some(value), LAYA_CLAMP, 1);
        match (problems.0.first(), calibration) {
            (None, Some(calibration)) => Ok(calibration),
            (Some(problem), _) => Err(problem.to_string().trim_start_matches("calibration.").to_owned()),
            (None, None) => Err("must be an object".to_owned()),
        }
    }

    /// Whether it must have a temperature for every question.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Whether the model is calibrated at all.
    pub fn is_calibrated(&self) -> bool {
        !self.is_none
    }

    /// What the calibration calls itself.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The temperatures that are not used as the model has them, to be shown to whoever runs it.
    pub fn adjustments(&self) -> &[Adjustment] {
        &self.adjustments
    }

    /// Reads the `calibration` of a spec for questions of up to `max_options` options; `None` when there is none.
    pub(super) fn read(
        problems: &mut Problems,
        value: Option<&Value>,
        clamp: (f64, f64),
        max_options: u32,
    ) -> Option<Self> {
        const PATH: &str = "calibration";
        let fields = problems.object(PATH, value)?;
        let at = |key: &str| join(PATH, key);
        let is_temperature = match fields.get("method") {
            None => {
                problems.add(&at("method"), "is missing; it is \"temperature\" or \"none\"");
                false
            }
            method => problems.word(&at("method"), method, false, &[("temperature", true), ("none", false)]),
        };
        let required = match fields.get("required") {
            None => false,
            Some(Value::Bool(required)) => *required,
            Some(other) => {
                problems.add(&at("required"), must("true or false", other));
                false
            }
        };
        let version = fields.get("version").and_then(|version| {
            if version.as_str().is_none() {
                problems.add(&at("version"), must("a text", version));
            }
            version.as_str().map(str::to_owned)
        });
        let clamp = fields.get("clamp").map_or(clamp, |given| read_clamp(problems, &at("clamp"), given, clamp));
        let n_before = problems.0.len();
        let entries = read_entries(problems, &at("temperature"), fields.get("temperature"));
        let mut calibration =
            Self { entries, clamp, version, is_none: !is_temperature, required, adjustments: Vec::new() };
        if required && !is_temperature && fields.get("method").is_some() {
            problems.add(&at("required"), "is true, but the method is none; give temperatures or leave it out");
        }
        // A temperature that cannot be read is a problem of its own, and not also a gap.
        if required && is_temperature && problems.0.len() == n_before {
            for gap in calibration.gaps(max_options) {
                problems.add(&at("temperature"), format!("has none for {gap}, and the calibration is required"));
            }
        }
        if !is_temperature {
            return Some(Self { version: calibration.version, ..Self::default() });
        }
        calibration.adjustments = calibration.clamped(fields.get("temperature"));
        Some(calibration)
    }

    /// Questions a required calibration has no temperature for: the first option count of each type.
    fn gaps(&self, max_options: u32) -> Vec<String> {
        let most = max_options as usize;
        let counts = |kind| if kind == QuestionType::Noul { 2..=2 } else { 2..=most };
        let gap = |kind: QuestionType| {
            let n = counts(kind).find(|&n| self.found(kind, n).is_none())?;
            Some(format!("{} with {n} options", kind.as_str()))
        };
        QuestionType::ALL.into_iter().filter_map(gap).collect()
    }

    /// The temperatures of `given` that the clamp changes.
    fn clamped(&self, given: Option<&Value>) -> Vec<Adjustment> {
        let (least, most) = self.clamp;
        let adjustment = |name: String, value: &Value| {
            let given = value.as_f64()?;
            let used = given.clamp(least, most);
            (used != given).then_some(Adjustment { name, given, used })
        };
        let types = given.and_then(Value::as_object).into_iter().flat_map(Object::iter);
        types
            .flat_map(|(kind, value)| match value.as_object() {
                Some(buckets) => {
                    buckets.iter().filter_map(|(bucket, t)| adjustment(format!("{kind}:{bucket}"), t)).collect()
                }
                None => Vec::from_iter(adjustment(kind.to_owned(), value)),
            })
            .collect()
    }
}

/// The published package's filter.
fn filter(given: f64) -> f64 {
    if given.is_finite() { given.clamp(LAYA_CLAMP.0, LAYA_CLAMP.1) } else { 1.0 }
}

/// Whether the bucket called `name` in a spec is for questions with `n_options` options; no bucket is of another name.
pub fn bucket_holds(name: &str, n_options: usize) -> bool {
    Bucket::from_name(name).is_some_and(|bucket| bucket.holds(n_options))
}

/// Type and bucket of a published name such as `choice:3-5`. The package looks no other name up.
fn published(name: &str) -> Option<(QuestionType, &'static str)> {
    let (kind, size) = name.split_once(':')?;
    let (_, bucket) = PUBLISHED.into_iter().find(|(known, _)| *known == size)?;
    Some((QuestionType::from_name(kind)?, bucket))
}

/// The temperatures of [`Calibration::new`] as a spec spells them, or `None` when they calibrate nothing: all are 1 and
/// there are no buckets. They are written as stored, for the clamp to change; only what a spec may not hold is replaced.
pub(super) fn spelled(temperature: [f64; 3], by_options: &[(String, f64)]) -> Option<Object> {
    let known: Vec<_> = by_options.iter().filter_map(|(name, t)| Some((published(name)?, *t))).collect();
    if temperature == [1.0; 3] && known.is_empty() {
        return None;
    }
    let written = |given: f64| if (SANE.0..=SANE.1).contains(&given) { given } else { filter(given) };
    let types = QuestionType::ALL.into_iter().zip(temperature).map(|(kind, of_type)| {
        let of_kind = known.iter().filter(|((of, _), _)| *of == kind);
        let mut buckets: Object = of_kind.map(|((_, bucket), t)| (*bucket, written(*t))).collect();
        buckets.insert("*", written(of_type));
        (kind.as_str(), buckets)
    });
    Some(types.collect())
}

fn read_clamp(problems: &mut Problems, path: &str, value: &Value, default: (f64, f64)) -> (f64, f64) {
    if let Some([Value::Number(least), Value::Number(most)]) = value.as_array() {
        let (least, most) = (least.as_f64(), most.as_f64());
        if (SANE.0..=SANE.1).contains(&least) && (least..=SANE.1).contains(&most) {
            return (least, most);
        }
    }
    let message = format!("two numbers, lowest and highest, from {:e} to {:e}", SANE.0, SANE.1);
    problems.add(path, must(&message, value));
    default
}

fn read_entries(problems: &mut Problems, path: &str, value: Option<&Value>) -> [Option<Vec<Entry>>; 4] {
    let mut entries = [const { None }; 4];
    let Some(fields) = problems.object(path, value) else { return entries };
    for (name, value) in fields.iter() {
        let at = join(path, name);
        let names = QuestionType::ALL.map(QuestionType::as_str).into_iter().chain([ALL]);
        let Some(slot) = names.zip(&mut entries).find(|(known, _)| *known == name).map(|(_, slot)| slot) else {
            problems.add(&at, "is no question type; temperatures are given for choice, score, noul or all");
            continue;
        };
        *slot = Some(match value {
            Value::Object(buckets) => buckets
                .iter()
                .filter_map(|(name, value)| {
                    let at = join(&at, name);
                    let bucket = Bucket::from_name(name);
                    if bucket.is_none() {
                        problems.add(&at, "is no number of options; write \"4\", \"3-5\", \"11+\" or \"*\"");
                    }
                    let temperature = read_temperature(problems, &at, value);
                    Some(Entry { bucket: bucket?, temperature: temperature? })
                })
                .collect(),
            value => {
                let temperature = read_temperature(problems, &at, value);
                temperature.map(|temperature| Entry { bucket: Bucket::Any, temperature }).into_iter().collect()
            }
        });
    }
    entries
}

fn read_temperature(problems: &mut Problems, path: &str, value: &Value) -> Option<f64> {
    let found = match value {
        Value::Number(n) => Some(n.as_f64()).filter(|t| (SANE.0..=SANE.1).contains(t)),
        _ => None,
    };
    if found.is_none() {
        let message = format!("a temperature is a number from {:e} to {:e}, not {}", SANE.0, SANE.1, shown(value));
        problems.add(path, message);
    }
    found
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
    fn published_buckets_have_their_edges() {
        let names = ["choice:2", "choice:3-5", "choice:6-10", "choice:11+"];
        let buckets = names.iter().zip([2.0, 3.0, 4.0, 5.0]).map(|(name, t)| ((*name).to_owned(), t));
        let calibration = Calibration::new([1.0; 3], buckets);
        let found = [1, 2, 3, 5, 6, 10, 11, 300].map(|n| calibration.temperature(Choice, n));
        assert_eq!(found, [2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        // A name the package never looks up.
        let other = Calibration::new([1.0; 3], [("choice:4".to_owned(), 2.0), ("vote:2".to_owned(), 2.0)]);
        assert_eq!(other.temperature(Choice, 4), 1.0);
    }

    #[test]
    fn every_published_temperature_passes_the_filter() {
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

    fn read(text: &str) -> (Option<Calibration>, Vec<String>) {
        let mut problems = Problems::default();
        let value = crate::json::parse(text.as_bytes()).unwrap();
        let calibration = Calibration::read(&mut problems, Some(&value), LAYA_CLAMP, 20);
        (calibration, problems.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_narrowest_bucket_is_asked_first_and_of_equals_the_first() {
        let (calibration, problems) = read(
            r#"{"method": "temperature", "clamp": [0.5, 4], "version": "v1", "temperature": {
                "choice": {"*": 1.1, "3+": 1.2, "5+": 1.25, "2-4": 1.3, "3-9": 1.35, "3": 1.4},
                "all": {"2": 0.1, "7+": 99}}}"#,
        );
        assert_eq!(problems, [""; 0]);
        let calibration = calibration.unwrap();
        for (kind, n, temperature) in [
            (Choice, 1, 1.1),
            (Choice, 2, 1.3),
            (Choice, 3, 1.4),
            (Choice, 4, 1.3),
            (Choice, 5, 1.35),
            (Choice, 10, 1.2),
            // Through `all`, clamped; and not found, which is 1 and not clamped.
            (Noul, 2, 0.5),
            (Score, 8, 4.0),
            (Score, 3, 1.0),
        ] {
            assert_eq!(calibration.temperature(kind, n), temperature, "{kind:?} {n}");
        }
        assert_eq!((calibration.version(), calibration.is_calibrated()), (Some("v1"), true));
        let adjusted: Vec<_> = calibration.adjustments().iter().map(|a| (a.name.as_str(), a.used)).collect();
        assert_eq!(adjusted, [("all:2", 0.5), ("all:7+", 4.0)]);
    }

    #[test]
    fn what_is_not_found_is_one_even_outside_the_clamp() {
        let (calibration, _) = read(r#"{"method": "temperature", "clamp": [2, 3], "temperature": {"noul": 2.5}}"#);
        let calibration = calibration.unwrap();
        assert_eq!((calibration.temperature(Choice, 2), calibration.temperature(Noul, 2)), (1.0, 2.5));
    }

    #[test]
    fn an_empty_entry_does_not_fall_through_to_all() {
        let (calibration, problems) =
            read(r#"{"method": "temperature", "required": true, "temperature": {"all": 1.2, "score": {}}}"#);
        assert_eq!(
            problems,
            ["calibration.temperature: has none for score with 2 options, and the calibration is required"]
        );
        assert_eq!(calibration.unwrap().temperature(Score, 2), 1.0);
    }

    #[test]
    fn no_method_is_no_calibration() {
        let (calibration, problems) = read(r#"{"method": "none", "version": "off", "temperature": {"all": 2}}"#);
        let calibration = calibration.unwrap();
        assert!(problems.is_empty() && !calibration.is_calibrated());
        assert_eq!((calibration.temperature(Noul, 2), calibration.version()), (1.0, Some("off")));
    }

    #[test]
    fn a_calibration_is_written_as_it_is_used() {
        let text = r#"{"method": "temperature", "clamp": [0.5, 4], "version": "v1", "temperature": {
            "choice": {"*": 1.1, "3+": 1.2, "2-4": 1.3, "02-4": 9, "3": 0.1}, "all": 99}}"#;
        let calibration = read(text).0.unwrap();
        let written = Value::Object(calibration.to_json());
        assert_eq!(
            written.dumps(),
            r#"{"method": "temperature", "version": "v1", "required": false, "clamp": [0.5, 4.0], "temperature": {"choice": {"*": 1.1, "3+": 1.2, "2-4": 1.3, "3": 0.5}, "all": {"*": 4.0}}}"#
        );
        let again = Calibration::from_json(&written).unwrap();
        for kind in QuestionType::ALL {
            assert!((1..=300).all(|n| again.temperature(kind, n) == calibration.temperature(kind, n)));
        }
        assert_eq!((calibration.steps(Choice), calibration.steps(Noul)), (vec![2, 3, 4, 5], vec![]));
        let none = Calibration::default();
        assert_eq!(Calibration::from_json(&Value::Object(none.to_json())), Ok(none));
        let error = Calibration::from_json(&crate::json::parse(br#"{"method": "temperature", "clamp": 1}"#).unwrap());
        assert!(error.unwrap_err().starts_with("clamp: must be"));
        let stored = Calibration::new([1.5, 0.1, 7.0], [("choice:2".to_owned(), 2.0)]);
        let entry = |kind| Value::Object(stored.entry(Some(kind)).unwrap()).dumps();
        assert_eq!([entry(Choice), entry(Score)], [r#"{"*": 1.5, "1-2": 2.0}"#, r#"{"*": 0.5}"#]);
    }

    #[test]
    fn stored_temperatures_as_a_spec_spells_them() {
        assert_eq!(spelled([1.0; 3], &[]), None);
        assert_eq!(spelled([1.0; 3], &[("choice:4".into(), 2.0)]), None);
        let buckets = [("choice:11+".to_owned(), 0.1006), ("choice:2".to_owned(), f64::NAN)];
        let spelled = spelled([1.5, -2.0, 1.0], &buckets).unwrap();
        assert_eq!(
            Value::Object(spelled).dumps(),
            r#"{"choice": {"11+": 0.1006, "1-2": 1.0, "*": 1.5}, "score": {"*": 0.5}, "noul": {"*": 1.0}}"#
        );
    }
}
