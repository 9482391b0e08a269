//! Deliberate mistakes, each of which a comparison must notice.

use super::row::TracedRow;
use crate::model::control::Window;
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
        let controls = Control::ALL.map(|(name, _, control)| Self { name, control, attends_padding: false });
        let mut all = controls.to_vec();
        // After the mistakes about what a layer sees, of which it is one.
        all.insert(4.min(all.len()), padding);
        all
    }

    /// What to do when rows like `rows` do not notice it.
    pub fn advice(&self, config: &Config, rows: &[TracedRow]) -> String {
        let radius = config.window / 2;
        let other = "not one bit of these rows depends on it: give other rows";
        // Layer 0 is a global one. The shortest row with a key that one side sees and the other does not:
        let needed = match self.control.window {
            Window::Model if !self.control.head_attention_output && config.n_head_layer == 0 => {
                return "the decision head of this model has no layers".into();
            }
            Window::Model if self.control.first_attention_norm => {
                return "layer 0 of this model has an attention norm of its own".into();
            }
            Window::Model => return other.into(),
            Window::AllGlobal | Window::Shifted(_) if (0..config.n_layer).all(|i| config.is_global(i)) => {
                return "every encoder layer of this model is a global one".into();
            }
            Window::AllGlobal | Window::AllLocal => radius + 2,
            Window::Shifted(by) => radius.saturating_add_signed(by).max(radius) + 1,
        };
        let longest = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        if longest >= needed {
            return other.into();
        }
        format!(
            "the longest row has {longest} tokens and a local layer of this model sees {radius} to each side: give rows of \
             at least {needed} tokens (items with a longer state)"
        )
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
            let twins = all.iter().filter(|other| {
                other.name == mutation.name
                    || (other.control, other.attends_padding) == (mutation.control, mutation.attends_padding)
            });
            assert_eq!(twins.count(), 1, "{}", mutation.name);
        }
    }
}
