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
