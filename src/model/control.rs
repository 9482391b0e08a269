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
        Self::MODEL
    }
}

impl Control {
    /// The model as it is.
    const MODEL: Self = Self {
        window: Window::Model,
        type_embedding: true,
        activation: Activation::Gelu,
        first_attention_norm: false,
        attention_output: true,
        head_attention_output: true,
    };

    /// Every negative control: what it is called at the gate, what the goldens call it, and what it does.
    pub const ALL: [(&str, &str, Self); 9] = [
        ("all-global", "all_layers_global", Self { window: Window::AllGlobal, ..Self::MODEL }),
        ("all-local", "all_layers_local", Self { window: Window::AllLocal, ..Self::MODEL }),
        ("window-1", "window_radius_minus_1", Self { window: Window::Shifted(-1), ..Self::MODEL }),
        ("window+1", "window_radius_plus_1", Self { window: Window::Shifted(1), ..Self::MODEL }),
        ("no-type-embedding", "no_type_embedding", Self { type_embedding: false, ..Self::MODEL }),
        ("tanh-gelu", "tanh_gelu", Self { activation: Activation::GeluTanh, ..Self::MODEL }),
        ("no-out-proj", "output_projection_skipped", Self { attention_output: false, ..Self::MODEL }),
        ("no-head-out-proj", "head_output_projection_skipped", Self { head_attention_output: false, ..Self::MODEL }),
        ("norm-on-layer-0", "attention_norm_on_layer_0", Self { first_attention_norm: true, ..Self::MODEL }),
    ];

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
    fn every_control_is_one_mistake_with_names_of_its_own() {
        for (i, (gate, golden, control)) in Control::ALL.iter().enumerate() {
            assert_ne!(*control, Control::default(), "{gate}");
            for (other_gate, other_golden, other) in &Control::ALL[..i] {
                assert!(gate != other_gate && golden != other_golden && control != other, "{gate} and {other_gate}");
            }
        }
    }
}
