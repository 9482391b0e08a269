//! Which records a fit sees, and which are held out to judge it.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::Measured;

/// What a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// To fit on.
    Fit,
    /// Held out: to judge the fit, and to choose what is used of it.
    Eval,
    /// Kept from all that, for a last look at what came of it.
    Test,
}

impl Split {
    /// The name in the data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Eval => "eval",
            Self::Test => "test",
        }
    }

    /// The split of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fit, Self::Eval, Self::Test].into_iter().find(|split| split.as_str() == name)
    }
}

/// The share of the records without a split that is held out: above 0, below 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fraction(f64);

impl Fraction {
    /// `share`, if it is above 0 and below 1.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self(share))
    }

    /// The share.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The split of the record called `name`: held out when the SHA-256 of `temperature:<name>`, read as a fraction, falls
    /// below this share. It depends on nothing else, so data may grow and be sorted anew and a record stays where it is.
    pub fn split(self, name: &str) -> Split {
        let hash = Sha256::digest(format!("temperature:{name}"));
        let high = hash.iter().take(8).fold(0_u64, |high, byte| high << 8 | u64::from(*byte));
        // As many bits as a double holds, so that the comparison is exact.
        let fraction = (high >> 11) as f64 / (1_u64 << 53) as f64;
        if fraction < self.0 { Split::Eval } else { Split::Fit }
    }
}

impl Default for Fraction {
    fn default() -> Self {
        Self(0.3)
    }
}

/// Records that are not as independent as held-out data must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leak {
    /// Ids that more than one line has: the id, and its lines.
    pub repeated_ids: Vec<(String, Vec<u64>)>,
    /// States more than one split has: the lines with that state.
    pub shared_states: Vec<Vec<u64>>,
    /// States more than one record of one split has: the lines with that state.
    pub repeated_states: Vec<Vec<u64>>,
}

impl Leak {
    /// What there is to say about it, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some((id, lines)) = self.repeated_ids.first() {
            let n = self.repeated_ids.len();
            let (first, second) = (lines.first().unwrap_or(&0), lines.get(1).unwrap_or(&0));
            notes.push(format!(
                "{n} ids are those of more than one record, such as {id:?} (lines {first} and {second}); an id should name \
                 one record"
            ));
        }
        let listed = |lines: &[u64]| lines.iter().take(4).map(u64::to_string).collect::<Vec<_>>().join(", ");
        if let Some(lines) = self.shared_states.first() {
            let n = self.shared_states.len();
            notes.push(format!(
                "leakage: {n} states are in several splits, such as that of lines {}; held-out figures look better than \
                 they are, give such records one split",
                listed(lines)
            ));
        }
        if let Some(lines) = self.repeated_states.first() {
            let n = self.repeated_states.len();
            notes.push(format!(
                "{n} states are those of several records of a split, such as that of lines {}; the records of a state count \
                 as one in every interval",
                listed(lines)
            ));
        }
        notes
    }
}

/// Looks for repeated ids and repeated states, in one split or several, under the splits `fraction` gives.
pub fn leak(records: &[Measured], fraction: Fraction) -> Leak {
    let mut by_id: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut by_state: BTreeMap<&str, (BTreeSet<Split>, Vec<u64>)> = BTreeMap::new();
    for record in records {
        if let Some(id) = &record.id {
            by_id.entry(id).or_default().push(record.line);
        }
        // One with nothing to fit or judge on leaks nothing.
        if record.questions.is_empty() {
            continue;
        }
        let (splits, lines) = by_state.entry(&record.state_sha256).or_default();
        splits.insert(record.split(fraction));
        lines.push(record.line);
    }
    let mut repeated_ids: Vec<_> =
        by_id.into_iter().filter(|(_, lines)| lines.len() > 1).map(|(id, lines)| (id.to_owned(), lines)).collect();
    let (shared, alone): (Vec<_>, Vec<_>) = by_state.into_values().partition(|(splits, _)| splits.len() > 1);
    let lines = |states: Vec<(BTreeSet<Split>, Vec<u64>)>| {
        let mut lines: Vec<_> = states.into_iter().map(|(_, lines)| lines).filter(|lines| lines.len() > 1).collect();
        lines.sort();
        lines
    };
    // In the order of the data.
    repeated_ids.sort_by(|a, b| a.1.cmp(&b.1));
    Leak { repeated_ids, shared_states: lines(shared), repeated_states: lines(alone) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::Labelled;
    use crate::request::QuestionType;

    fn record(line: u64, id: Option<&str>, state: &str, split: Split) -> Measured {
        Measured {
            line,
            id: id.map(str::to_owned),
            given_split: Some(split),
            state_sha256: state.to_owned(),
            questions: vec![Labelled {
                id: "q".into(),
                kind: QuestionType::Noul,
                logits: vec![0.0, 1.0],
                truth: 0,
                class: "false".into(),
            }],
        }
    }

    #[test]
    fn the_split_is_a_hash_of_the_name() {
        // sha256("temperature:1") starts with 518c, which is 0.31855 as a fraction, that of "temperature:a" with b19e
        // (0.69382), by sha256sum.
        let split = |share, name| Fraction::new(share).unwrap().split(name);
        assert_eq!([split(0.3185, "1"), split(0.3186, "1")], [Split::Fit, Split::Eval]);
        assert_eq!([split(0.6938, "a"), split(0.6939, "a")], [Split::Fit, Split::Eval]);
        let fraction = Fraction::default();
        let names: Vec<_> = (1..=1000).map(|i| i.to_string()).collect();
        let n_eval = names.iter().filter(|name| fraction.split(name) == Split::Eval).count();
        assert!((250..350).contains(&n_eval), "{n_eval} of 1000");
        for name in &names {
            let wider = Fraction::new(0.6).unwrap();
            assert!(fraction.split(name) == Split::Fit || wider.split(name) == Split::Eval, "{name} left eval");
        }
        assert_eq!([0.0, 1.0, -0.1, f64::NAN, f64::INFINITY].map(Fraction::new), [None; 5]);
    }

    #[test]
    fn leaks_are_found_and_named() {
        use Split::{Eval, Fit};
        let records = [
            record(1, Some("a"), "s1", Fit),
            record(2, Some("b"), "s2", Eval),
            record(3, Some("a"), "s3", Fit),
            record(4, None, "s1", Eval),
            record(5, None, "s4", Fit),
            record(6, None, "s4", Fit),
        ];
        let leak = leak(&records, Fraction::default());
        assert_eq!(leak.repeated_ids, [("a".to_owned(), vec![1, 3])]);
        assert_eq!(leak.shared_states, [vec![1, 4]]);
        assert_eq!(leak.repeated_states, [vec![5, 6]]);
        let notes = leak.notes();
        assert!(notes[0].contains("\"a\" (lines 1 and 3)"), "{}", notes[0]);
        assert!(notes[1].starts_with("leakage: 1 states are in several splits, such as that of lines 1, 4;"));
        assert!(notes[2].starts_with("1 states are those of several records of a split, such as that of lines 5, 6;"));
        let few = super::leak(&records[..3], Fraction::default());
        assert!(few.shared_states.is_empty() && few.repeated_states.is_empty());
        assert!(Leak::default().notes().is_empty());
    }
}
