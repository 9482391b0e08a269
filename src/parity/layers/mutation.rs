//! Deliberate mistakes, each of which a comparison must notice.

use super::row::TracedRow;
use crate::model::{Config, Control};

/// A mistake under the name it has at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutation {
    /// Its name.
    pub name: &'static str,
    /// What the pass does wrong.
    pub(super) control: Control,
    /// Whether rows get padding that their own tokens then attend to.
    pub(super) attends_padding: bool,
}

/// Padding tokens a row gets.
pub(super) const N_PADDING: usize = 32;

/// The mistake that is one of the rows and not of the pass: a batch without its mask.
const ATTEND_PADDING: &str = "attend-padding";

impl Mutation {
    /// Every mistake.
    pub fn all() -> Vec<Self> {
        let padding = Self { name: ATTEND_PADDING, control: Control::default(), attends_padding: true };
        let controls = Control::GATE_NAMES
            .iter()
            .filter_map(|(name, _)| Some(Self { name, control: Control::named(name)?, attends_padding: false }));
        let mut all: Vec<_> = controls.collect();
        // After the mistakes about what a layer sees, of which it is one.
        all.insert(4.min(all.len()), padding);
        all
    }

    /// The mistake called `name`, at the gate or in the goldens.
    pub fn named(name: &str) -> Option<Self> {
        let control = Control::named(name);
        Self::all()
            .into_iter()
            .find(|mutation| mutation.name == name || (!mutation.attends_padding && control == Some(mutation.control)))
    }

    /// What to do when rows like `rows` do not notice it.
    pub fn advice(&self, config: &Config, rows: &[TracedRow]) -> String {
        let longest = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let needed = config.window / 2 + 2;
        let n_global = (0..config.n_layer).filter(|i| config.is_global(*i)).count();
        if self.control.window != Control::default().window {
            if n_global == 0 || n_global == config.n_layer {
                return "all encoder layers of this model are of one kind".into();
            }
            return format!(
                "the longest row has {longest} tokens and a local layer of this model sees {} to each side: give rows of \
                 at least {needed} tokens (items with a longer state)",
                config.window / 2
            );
        }
        if !self.control.head_attention_output && config.n_head_layer == 0 {
            return "the decision head of this model has no layers".into();
        }
        if self.control.first_attention_norm {
            return "layer 0 of this model has an attention norm of its own".into();
        }
        "not one bit of these rows depends on it: give other rows".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_mistake_each() {
        let all = Mutation::all();
        assert_eq!(all.len(), 10);
        for mutation in &all {
            assert_eq!(Mutation::named(mutation.name), Some(*mutation));
            let twins = all
                .iter()
                .filter(|other| (other.control, other.attends_padding) == (mutation.control, mutation.attends_padding));
            assert_eq!(twins.count(), 1, "{}", mutation.name);
        }
        assert_eq!(Mutation::named("all_layers_local").map(|mutation| mutation.name), Some("all-local"));
        assert_eq!(Mutation::named("nothing"), None);
    }
}
