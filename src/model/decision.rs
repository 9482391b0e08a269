//! The decision head: type embedding, mixing layers, option scorer and act head.

use std::ops::Range;

use super::encoder::{Attention, FeedForward, Part, Pass, blocks};
use super::forward::{Logits, Row};
use super::scratch::{PerThread, Scratch};
use super::trace::{Phase, Stage, Trace};
use super::weight::{ActHead, HeadLayer};
use crate::kernels::elementary::AddInPlace;
use crate::kernels::product::{Finish, Output};

/// Runs the head over the encoder's `scratch.hidden`, `[n_tokens, n_embd]`, and reads the logits of every row.
///
/// Only the `[CLS]` and marker rows are read, so the last layer computes no others (unless they are traced): its keys and
/// values still come from every row.
pub(super) fn decide(pass: Pass<'_>, rows: &[Row<'_>], scratch: &mut Scratch, trace: &mut dyn Trace) -> Vec<Logits> {
    let Pass { compute, config, weights, control, spans } = pass;
    let d = config.n_embd;
    if control.type_embedding {
        for (row, span) in rows.iter().zip(spans) {
            let embedding = &weights.type_embd[row.kind * d..][..d];
            for token in scratch.hidden[span.start * d..span.end * d].chunks_exact_mut(d) {
                compute.isa.run(AddInPlace(token, embedding));
            }
        }
    }
    trace.stage(Stage::TypeEmbedding, &scratch.hidden);
    trace.phase(Phase::FinalNorm);

    let every_row = trace.wants_every_row();
    let (before, last) = match weights.head.split_last() {
        Some((last, before)) if !every_row => (before, Some(last)),
        _ => (weights.head.as_slice(), None),
    };
    for (i, layer) in before.iter().enumerate() {
        whole_layer(pass, layer, scratch, trace);
        trace.stage(Stage::HeadLayer(i), &scratch.hidden);
    }
    // The rows that are read: `[CLS]`, then the markers, of every row.
    scratch.read.clear();
    let mut read_spans: Vec<Range<usize>> = Vec::with_capacity(rows.len());
    for (row, span) in rows.iter().zip(spans) {
        for at in std::iter::once(0).chain(row.markers.iter().map(|marker| *marker as usize)) {
            scratch.read.extend_from_slice(&scratch.hidden[(span.start + at) * d..][..d]);
        }
        let start = read_spans.last().map_or(0, |span| span.end);
        read_spans.push(start..start + 1 + row.markers.len());
    }
    if let Some(layer) = last {
        read_layer(pass, layer, &read_spans, scratch, trace);
    }

    let options = score(pass, &read_spans, scratch);
    let act = match &weights.act {
        Some(head) => act(pass, head, &options, &read_spans, scratch),
        None => vec![Vec::new(); options.len()],
    };
    trace.phase(Phase::Readout);
    options.into_iter().zip(act).map(|(options, act)| Logits { options, act }).collect()
}

/// One head layer for every row of tokens.
fn whole_layer(pass: Pass<'_>, layer: &HeadLayer, scratch: &mut Scratch, trace: &mut dyn Trace) {
    let Pass { compute, config, spans, .. } = pass;
    let Scratch { hidden, qkv, attended, input, threads, .. } = scratch;
    let n = hidden.len() / config.n_embd;
    let norm = Some(layer.attn_norm.with(config.head_norm_epsilon));
    let product = layer.attn_qkv.product(Finish::Store);
    qkv.resize(product.n_panel_values(n), 0.0);
    compute.project(product, hidden, norm, Output::panels(qkv, n), input, &threads.products);
    trace.phase(Phase::Head);
    attend(pass, Part::split(qkv, n), spans, attended, threads);
    trace.phase(Phase::HeadAttention);
    rest_of_layer(pass, layer, false, scratch);
    trace.phase(Phase::Head);
}

/// One head layer for the rows `scratch.read`, which attend to all rows of their sequence.
fn read_layer(
    pass: Pass<'_>,
    layer: &HeadLayer,
    read_spans: &[Range<usize>],
    scratch: &mut Scratch,
    trace: &mut dyn Trace,
) {
    let Pass { compute, config, .. } = pass;
    let Scratch { hidden, qkv, attended, read, input, threads, .. } = scratch;
    let (n, n_read) = (hidden.len() / config.n_embd, read.len() / config.n_embd);
    let norm = Some(layer.attn_norm.with(config.head_norm_epsilon));
    let product = layer.attn_qkv.product(Finish::Store);
    let (of_read, of_all) = (product.of_parts(0, 1), product.of_parts(1, 3));
    let n_values = of_all.n_panel_values(n);
    qkv.resize(n_values + of_read.n_panel_values(n_read), 0.0);
    let (keys_and_values, queries) = qkv.split_at_mut(n_values);
    compute.project(of_all, hidden, norm, Output::panels(keys_and_values, n), input, &threads.products);
    compute.project(of_read, read, norm, Output::panels(queries, n_read), input, &threads.products);
    trace.phase(Phase::Head);
    let [keys, values] = Part::split(keys_and_values, n);
    let [queries] = Part::split(queries, n_read);
    attend(pass, [queries, keys, values], read_spans, attended, threads);
    trace.phase(Phase::HeadAttention);
    rest_of_layer(pass, layer, true, scratch);
    trace.phase(Phase::Head);
}

/// The attention of a head layer: of the queries of every sequence to all its keys.
fn attend(
    pass: Pass<'_>,
    [queries, keys, values]: [Part<'_>; 3],
    query_spans: &[Range<usize>],
    attended: &mut Vec<f32>,
    threads: &PerThread,
) {
    let Pass { compute, config, spans: key_spans, .. } = pass;
    let (width, n_head) = (config.n_embd, config.n_decision_head());
    attended.resize(query_spans.last().map_or(0, |span| span.end) * width, 0.0);
    let (rotary, radius) = (None, None);
    let attention = Attention { width, n_head, rotary, radius, queries, keys, values, query_spans, key_spans };
    compute.attention(&attention, &threads.attention, attended);
}

/// What follows the attention of a head layer, for the rows that are read or for all.
fn rest_of_layer(pass: Pass<'_>, layer: &HeadLayer, only_read: bool, scratch: &mut Scratch) {
    let Pass { compute, config, control, .. } = pass;
    let Scratch { hidden, attended, read, input, inner, threads, .. } = scratch;
    let d = config.n_embd;
    let x = if only_read { read } else { hidden };
    let feed_forward = FeedForward {
        norm: layer.ffn_norm.with(config.head_norm_epsilon),
        up: layer.ffn_up.product(Finish::Relu),
        down: layer.ffn_down.product(Finish::Add),
    };
    if control.head_attention_output {
        let product = layer.attn_output.product(Finish::Add);
        compute.project(product, attended, None, Output::Rows(x), input, &threads.products);
    } else {
        compute.add(x, attended, d);
    }
    for block in blocks(x.len() / d) {
        let rows = &mut x[block.start * d..block.end * d];
        feed_forward.run(compute, rows, input, inner, &threads.products);
    }
}

/// The raw logit of every marker, by row.
fn score(pass: Pass<'_>, read_spans: &[Range<usize>], scratch: &mut Scratch) -> Vec<Vec<f32>> {
    let Pass { compute, config, weights, control, .. } = pass;
    let Scratch { read, input, inner, threads, .. } = scratch;
    let (d, scorer) = (config.n_embd, &weights.scorer);
    // All rows but each sequence's first, which is `[CLS]`.
    let markers: Vec<f32> =
        read_spans.iter().flat_map(|span| &read[(span.start + 1) * d..span.end * d]).copied().collect();
    let mut scores = vec![0.0; markers.len() / d];
    for block in blocks(scores.len()) {
        let norm = scorer.norm.with(config.head_norm_epsilon);
        input.fill(compute.isa, compute.threads, &markers[block.start * d..block.end * d], d, Some(norm));
        inner.reserve(compute.isa, block.len(), d);
        let hidden = scorer.hidden.product(Finish::Activate(control.activation));
        compute.product(hidden, &threads.products, input, Output::Interleaved(inner));
        let output = scorer.output.product(Finish::Store);
        compute.product(output, &threads.products, inner, Output::Rows(&mut scores[block]));
    }
    let mut scores = scores.as_slice();
    let of_row = |span: &Range<usize>| {
        let (own, rest) = scores.split_at(span.len() - 1);
        scores = rest;
        own.to_vec()
    };
    read_spans.iter().map(of_row).collect()
}

/// The raw act logits of every row, `[n_act]` each.
fn act(
    pass: Pass<'_>,
    head: &ActHead,
    options: &[Vec<f32>],
    read_spans: &[Range<usize>],
    scratch: &mut Scratch,
) -> Vec<Vec<f32>> {
    let Pass { compute, config, control, .. } = pass;
    let Scratch { read, input, inner, threads, .. } = scratch;
    let d = config.n_embd;
    let mut features = Vec::with_capacity(read_spans.len() * (d + 4));
    for (options, span) in options.iter().zip(read_spans) {
        features.extend_from_slice(&read[span.start * d..][..d]);
        features.extend(act_features(options));
    }
    let mut out = vec![0.0; read_spans.len() * config.n_act];
    for block in blocks(read_spans.len()) {
        let rows = &features[block.start * (d + 4)..block.end * (d + 4)];
        input.fill(compute.isa, compute.threads, rows, d + 4, None);
        let hidden = head.hidden.product(Finish::Activate(control.activation));
        inner.reserve(compute.isa, block.len(), hidden.n_outputs());
        compute.product(hidden, &threads.products, input, Output::Interleaved(inner));
        let rows = &mut out[block.start * config.n_act..block.end * config.n_act];
        compute.product(head.output.product(Finish::Store), &threads.products, inner, Output::Rows(rows));
    }
    out.chunks_exact(config.n_act).map(<[f32]>::to_vec).collect()
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
