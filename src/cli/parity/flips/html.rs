//! Changed answers as a page: one file that asks nothing of any other and runs nothing.

use super::excerpt::excerpt;
use super::{agreements, left_out, option, share};
use crate::cli::escape;
use crate::parity::{Flip, Flips, Identity, Side, Source};

const STYLE: &str = include_str!("page.css");

/// Characters of a state that are shown before it is unfolded.
const STATE_CHARS: usize = 160;

/// Digits of a hash that are shown: it can be looked up in the run.
const HASH_DIGITS: usize = 12;

/// The page.
pub(super) fn page(flips: &Flips, baseline: &Identity, candidate: &Identity) -> String {
    let n = flips.changed.len();
    let title = match n {
        0 => "No answer changes".to_owned(),
        1 => "1 answer changes".to_owned(),
        n => format!("{n} answers change"),
    };
    // Nothing is loaded and nothing runs, whatever a text turns out to be.
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    page += "<p class=\"lead\">Two runs answered the same questions. These are the ones they answer differently, the one \
             that the baseline is surest of first. The gap is how far the baseline's first option is ahead of its second. \
             A change under a small gap is what rounding does; one under a large gap is a fault to look for.</p>\n";
    page += &format!(
        "<div class=\"runs\">\n{}{}</div>\n",
        run("base", "Baseline", baseline),
        run("cand", "Candidate", candidate)
    );
    page += &summary(flips, baseline);
    if n > 0 {
        page += "<h2>Changes</h2>\n<div class=\"key\"><span class=\"b\">baseline</span><span class=\"c\">candidate</span></div>\n";
    }
    for (flip, number) in flips.changed.iter().zip(1..) {
        page += &section(flip, number);
    }
    page + "</body>\n</html>\n"
}

/// `text` as the content of an element. What would act on the page or turn the direction of what follows is spelled out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if escape::acts(c) || is_invisible(c) => {
                out.push_str(&format!("<span class=\"sign\">U+{:04X}</span>", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Characters that leave no trace on a page, so that two texts that differ would look alike. The joiners inside emoji and
/// some scripts are not among them: they are seen by what they join.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// A run: what computed it.
fn run(class: &str, name: &str, identity: &Identity) -> String {
    let Identity { kind, host, build, model, runtime, .. } = identity;
    let hash = |hash: &Option<String>| hash.as_ref().map(|hash| hash.chars().take(HASH_DIGITS).collect::<String>());
    let facts = [
        ("model", Some(model.name.clone())),
        ("file", hash(&model.sha256)),
        ("values", hash(&model.values_sha256)),
        ("weights", Some(model.weights.clone())),
        ("revision", hash(&model.revision)),
        ("computed by", Some(format!("{kind}, {}", runtime.backend))),
        ("version", Some(build.version.clone())),
        ("device", runtime.device.clone()),
        ("kernels", runtime.kernels.clone()),
        ("instruction set", runtime.isa.clone()),
        ("activations", runtime.activations.clone()),
        ("plan", runtime.plan.clone()),
        ("threads", runtime.n_threads.map(|n| n.to_string())),
        ("numeric contract", runtime.numeric_contract.map(|n| n.to_string())),
        ("processor", Some(format!("{} ({}, {})", host.cpu, host.machine, host.os))),
    ];
    let rows = facts.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let rows: String = rows.map(|(key, value)| format!("<dt>{key}</dt><dd>{}</dd>\n", escaped(&value))).collect();
    format!("<section class=\"card {class}\">\n<h2 style=\"margin:0\">{name}</h2>\n<dl>\n{rows}</dl>\n</section>\n")
}

/// How many answers agree, and over what.
fn summary(flips: &Flips, baseline: &Identity) -> String {
    let corpus = &baseline.corpus;
    let mut text = format!(
        "<h2>Agreement</h2>\n<p>Corpus <span class=\"mono\">{}</span>, subset {}: {} items, {} questions.</p>\n",
        escaped(&corpus.sha256.chars().take(HASH_DIGITS).collect::<String>()),
        escaped(&corpus.subset),
        corpus.n_items,
        corpus.n_questions
    );
    text += "<table>\n<tr><th>type</th><th>compared</th><th>same</th><th>changed</th><th>agreement</th></tr>\n";
    for (name, n, n_same) in agreements(flips) {
        let agreement = if n == 0 { "-".to_owned() } else { format!("{:.2}%", 100.0 * n_same as f64 / n as f64) };
        let n_changed = n - n_same;
        text +=
            &format!("<tr><td>{name}</td><td>{n}</td><td>{n_same}</td><td>{n_changed}</td><td>{agreement}</td></tr>\n");
    }
    text += "</table>\n";
    for (what, n) in left_out(flips) {
        text += &format!("<p class=\"lead\">Not compared: {n} {what}.</p>\n");
    }
    text
}

/// One change.
fn section(flip: &Flip, number: usize) -> String {
    let mut text = format!(
        "<article class=\"card flip\" id=\"flip-{number}\">\n<header><a class=\"number\" href=\"#flip-{number}\">{number}</a>\
         <h3><bdi>{}</bdi> / <bdi>{}</bdi></h3><span class=\"tag\">{}</span>",
        escaped(&flip.item),
        escaped(&flip.question),
        flip.kind.as_str()
    );
    if let Some(asked) = flip.asked.as_ref().filter(|asked| !asked.category.is_empty()) {
        text += &format!("<span class=\"tag\">{}</span>", escaped(&asked.category));
    }
    if flip.same_input == Some(false) {
        text += "<span class=\"tag warn\">the runs read different tokens</span>";
    }
    text += &format!("<span class=\"gap\">gap <strong>{:.4}</strong></span></header>\n", flip.gap);
    if let Some(asked) = &flip.asked {
        text += &format!("<p class=\"asked\" dir=\"auto\">{}</p>\n", escaped(&asked.instructions));
    }
    text += "<div class=\"options\">\n";
    for (i, name) in flip.options.iter().enumerate() {
        let bars = [("b", &flip.baseline), ("c", &flip.candidate)].map(|(class, side)| bar(class, side, i));
        let name = if name.is_empty() { "<span class=\"sign\">empty</span>".to_owned() } else { escaped(name) };
        text += &format!("<div class=\"name\" dir=\"auto\">{name}</div><div class=\"bars\">{}</div>\n", bars.concat());
    }
    text += "</div>\n<p class=\"verdict\">";
    let sides = [("b", "baseline", &flip.baseline), ("c", "candidate", &flip.candidate)].map(|(class, who, side)| {
        let source = match side.source {
            Source::Logits => "",
            Source::Answer => ", as answered",
        };
        let (option, share) = (escaped(&excerpt(option(flip, side), 80)), percent(share(side)));
        format!("<span class=\"{class}\">{who}</span> <bdi>{option}</bdi> ({share}{source})")
    });
    text += &format!("{}</p>\n", sides.join(" &rarr; "));
    if let Some(asked) = &flip.asked {
        let (start, state) = (escaped(&excerpt(&asked.state, STATE_CHARS)), escaped(&asked.state));
        text += &format!(
            "<details><summary>State, {} characters: <bdi>{start}</bdi></summary><pre dir=\"auto\">{state}</pre></details>\n",
            asked.state.chars().count()
        );
    }
    text + "</article>\n"
}

/// The bar of option `i` with its number, which is bold where the option is the answer.
fn bar(class: &str, side: &Side, i: usize) -> String {
    let p = side.probabilities.get(i).copied().unwrap_or_default().clamp(0.0, 1.0);
    let first = if side.first == i { " first" } else { "" };
    format!(
        "<div class=\"rail {class}\"><i style=\"width:{:.2}%\"></i></div><div class=\"p{first}\">{}</div>",
        100.0 * p,
        percent(p)
    )
}

fn percent(p: f64) -> String {
    format!("{:.2}%", 100.0 * p)
}
