//! The decision head: type embedding, mixing layers, option scorer and act head.

use super::encoder::{Attention, Pass};
use super::forward::{Logits, Row};
use super::trace::{Stage, Trace};
use crate::kernels::elementary::{Activate, AddInPlace, ReluInPlace};

/// Runs the head over the encoder's `hidden`, `[n_tokens, n_embd]`, and reads the logits of every row.
pub fn decide(pass: Pass<'_>, rows: &[Row<'_>], hidden: &mut [f32], trace: &mut dyn Trace) -> Vec<Logits> {
    let Pass { compute, config, weights, control, spans } = pass;
    let d = config.n_embd;
    let n = hidden.len() / d;
    if control.type_embedding {
        for (row, span) in rows.iter().zip(spans) {
            let embedding = &weights.type_embd[row.kind * d..][..d];
            for token in hidden[span.start * d..span.end * d].chunks_exact_mut(d) {
                compute.isa.run(AddInPlace(token, embedding));
            }
        }
    }
    trace.stage(Stage::TypeEmbedding, hidden);

    let mut normed = vec![0.0; n * d];
    let mut wide = vec![0.0; n * 4 * d];
    let mut attended = vec![0.0; n * d];
    for (i, layer) in weights.head.iter().enumerate() {
        compute.norm_with_bias(hidden, &layer.attn_norm, config.head_norm_epsilon, &mut normed);
        let qkv = &mut wide[..n * 3 * d];
        compute.linear(&normed, &layer.attn_qkv, qkv);
        let attention = Attention { width: d, n_head: config.n_decision_head(), rotary: None, radius: None };
        compute.attention(&attention, qkv, spans, &mut attended);
        if control.head_attention_output {
            compute.linear(&attended, &layer.attn_output, &mut normed);
            compute.add(hidden, &normed, d);
        } else {
            compute.add(hidden, &attended, d);
        }

        compute.norm_with_bias(hidden, &layer.ffn_norm, config.head_norm_epsilon, &mut normed);
        let up = &mut wide[..n * 4 * d];
        compute.linear(&normed, &layer.ffn_up, up);
        compute.threads.for_each_row(up, 4 * d, |_, row| compute.isa.run(ReluInPlace(row)));
        compute.linear(up, &layer.ffn_down, &mut normed);
        compute.add(hidden, &normed, d);
        trace.stage(Stage::HeadLayer(i), hidden);
    }

    let scores = score(pass, rows, hidden);
    let mut scores = scores.as_slice();
    let options: Vec<Vec<f32>> = rows
        .iter()
        .map(|row| {
            let (own, rest) = scores.split_at(row.markers.len());
            scores = rest;
            own.to_vec()
        })
        .collect();
    let act = act(pass, &options, hidden);
    let act = act.chunks_exact(config.n_act);
    options.into_iter().zip(act).map(|(options, act)| Logits { options, act: act.to_vec() }).collect()
}

/// The raw logit of every marker, rows one after the other.
fn score(pass: Pass<'_>, rows: &[Row<'_>], hidden: &[f32]) -> Vec<f32> {
    let Pass { compute, config, weights, control, spans } = pass;
    let (d, scorer) = (config.n_embd, &weights.scorer);
    let mut markers = Vec::new();
    for (row, span) in rows.iter().zip(spans) {
        for marker in row.markers {
            markers.extend_from_slice(&hidden[(span.start + *marker as usize) * d..][..d]);
        }
    }
    let mut normed = vec![0.0; markers.len()];
    compute.norm_with_bias(&markers, &scorer.norm, config.head_norm_epsilon, &mut normed);
    compute.linear(&normed, &scorer.hidden, &mut markers);
    compute.threads.for_each_row(&mut markers, d, |_, row| compute.isa.run(Activate(row, control.activation)));
    let mut scores = vec![0.0; markers.len() / d];
    compute.linear(&markers, &scorer.output, &mut scores);
    scores
}

/// The raw act logits, `[n_rows, n_act]`.
fn act(pass: Pass<'_>, options: &[Vec<f32>], hidden: &[f32]) -> Vec<f32> {
    let Pass { compute, config, weights, control, spans } = pass;
    let (d, head) = (config.n_embd, &weights.act);
    let mut input = Vec::with_capacity(spans.len() * (d + 4));
    for (options, span) in options.iter().zip(spans) {
        input.extend_from_slice(&hidden[span.start * d..][..d]);
        input.extend(act_features(options));
    }
    let width = head.hidden.bias.len();
    let mut inner = vec![0.0; spans.len() * width];
    compute.linear(&input, &head.hidden, &mut inner);
    compute.threads.for_each_row(&mut inner, width, |_, row| compute.isa.run(Activate(row, control.activation)));
    let mut out = vec![0.0; spans.len() * config.n_act];
    compute.linear(&inner, &head.output, &mut out);
    out
}

/// What the act head sees of the options, from the softmax `p` of the raw logits (temperature 1):
/// the largest `p`, its lead over the second, the entropy over `ln k`, and `k / 255`, with `k = max(2, options)`.
pub fn act_features(logits: &[f32]) -> [f32; 4] {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|x| libm::exp(f64::from(*x) - f64::from(top))).collect();
    let total: f64 = weights.iter().sum();
    let (mut first, mut second, mut entropy) = (0.0_f64, 0.0_f64, 0.0_f64);
    for weight in &weights {
        let p = weight / total;
        if p > first {
            (first, second) = (p, first);
        } else if p > second {
            second = p;
        }
        entropy -= p * libm::log(p.max(1e-9));
    }
    let k = logits.len().max(2) as f64;
    [first as f32, (first - second) as f32, (entropy / libm::log(k)) as f32, (k / 255.0) as f32]
}

#[cfg(test)]
mod tests {
    use super::act_features;

    #[test]
    fn features_of_one_two_and_equal_options() {
        assert_eq!(act_features(&[3.0]), [1.0, 1.0, 0.0, 2.0 / 255.0]);
        assert_eq!(act_features(&[1.0, 1.0]), [0.5, 0.0, 1.0, 2.0 / 255.0]);
        let [first, lead, entropy, k] = act_features(&[0.0, f32::ln(3.0), 0.0]);
        assert!((first - 0.6).abs() < 1e-6 && (lead - 0.4).abs() < 1e-6 && k == 3.0 / 255.0);
        assert!((entropy - 0.950_27 / 1.098_61).abs() < 1e-4, "{entropy}");
    }
}
