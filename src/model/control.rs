//! Negative controls: deliberate mistakes a comparison must notice.

use crate::kernels::elementary::Activation;

/// What the forward pass does differently from the model; the default is nothing.
///
/// Each field is a mistake a port has made in the field. A gate that passes with one of them set proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Which keys a layer sees.
    pub window: Window,
    /// Whether the type embedding is added.
    pub type_embedding: bool,
    /// The activation of the feed-forward gate, the scorer and the act head.
    pub activation: Activation,
    /// Whether layer 0 gets an attention norm (with unit weights) it does not have.
    pub first_attention_norm: bool,
    /// Whether the encoder's attention output goes through its projection.
    pub attention_output: bool,
    /// Whether the decision head's attention output goes through its projection.
    pub head_attention_output: bool,
}

/// Which keys a layer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// What the model says.
    Model,
    /// Every layer is a global one.
    AllGlobal,
    /// Every layer is a local one.
    AllLocal,
    /// The radius of local layers is this much larger.
    Shifted(isize),
}

impl Default for Control {
    fn default() -> Self {
        Self {
            window: Window::Model,
            type_embedding: true,
            activation: Activation::Gelu,
            first_attention_norm: false,
            attention_output: true,
            head_attention_output: true,
        }
    }
}

impl Control {
    /// What the controls are called at the gate, and in the goldens.
    pub const GATE_NAMES: [(&str, &str); 9] = [
        ("all-global", "all_layers_global"),
        ("all-local", "all_layers_local"),
        ("window-1", "window_radius_minus_1"),
        ("window+1", "window_radius_plus_1"),
        ("no-type-embedding", "no_type_embedding"),
        ("tanh-gelu", "tanh_gelu"),
        ("no-out-proj", "output_projection_skipped"),
        ("no-head-out-proj", "head_output_projection_skipped"),
        ("norm-on-layer-0", "attention_norm_on_layer_0"),
    ];

    /// Every negative control, with the name the goldens give it.
    pub fn all() -> Vec<(&'static str, Self)> {
        let model = Self::default();
        vec![
            ("all_layers_global", Self { window: Window::AllGlobal, ..model }),
            ("all_layers_local", Self { window: Window::AllLocal, ..model }),
            ("window_radius_plus_1", Self { window: Window::Shifted(1), ..model }),
            ("window_radius_minus_1", Self { window: Window::Shifted(-1), ..model }),
            ("no_type_embedding", Self { type_embedding: false, ..model }),
            ("tanh_gelu", Self { activation: Activation::GeluTanh, ..model }),
            ("attention_norm_on_layer_0", Self { first_attention_norm: true, ..model }),
            ("output_projection_skipped", Self { attention_output: false, ..model }),
            ("head_output_projection_skipped", Self { head_attention_output: false, ..model }),
        ]
    }

    /// The control a port's mistake is called by at the gate, see [`Control::GATE_NAMES`], or by its golden's name.
    pub fn named(name: &str) -> Option<Self> {
        let golden = Self::GATE_NAMES.iter().find(|(gate, _)| *gate == name).map_or(name, |(_, golden)| golden);
        Self::all().into_iter().find(|(known, _)| *known == golden).map(|(_, control)| control)
    }

    /// Whether a layer that is `global` by the model is treated as one, in its keys and in its rotary base.
    pub(super) fn is_global(&self, global: bool) -> bool {
        match self.window {
            Window::AllGlobal => true,
            Window::AllLocal => false,
            Window::Model | Window::Shifted(_) => global,
        }
    }

    /// The distance a key may have on a local layer.
    pub(super) fn radius(&self, window: usize) -> usize {
        match self.window {
            Window::Shifted(by) => (window / 2).saturating_add_signed(by),
            _ => window / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_has_both_names() {
        assert_eq!(Control::GATE_NAMES.len(), Control::all().len());
        for (gate, golden) in Control::GATE_NAMES {
            let control = Control::named(gate);
            assert!(control.is_some() && control == Control::named(golden) && control != Some(Control::default()));
        }
        assert_eq!(Control::named("window"), None);
    }
}
