//! Error against depth as an SVG picture, readable on a light and on a dark page.

use std::fmt::Write as _;

use super::compare::Comparison;
use super::rule::Measure;

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 600.0;
/// The frame of the plot: left, right, top, bottom.
const FRAME: [f64; 4] = [88.0, 850.0, 92.0, 500.0];
/// Height of the band at the bottom for errors of exactly zero, which no logarithm has.
const ZERO_BAND: f64 = 26.0;
/// Least distance between the labels of two lines.
const LABEL_STEP: f64 = 15.0;
/// Smallest error the axis shows; below it lies rounding of doubles.
const SMALLEST: f64 = 1e-12;
/// Colours of the mistakes; when they are used up they come again with dashes.
const N_COLOURS: usize = 5;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.muted{fill:#59636e}\
.page{fill:#ffffff}.grid{stroke:#d8dee4;stroke-width:1}.tier{stroke:#8c959f;stroke-width:1;stroke-dasharray:2 4}\
.bar{stroke:#cf222e;stroke-width:2;fill:none}text.bar{stroke:none;fill:#cf222e}.line{fill:none;stroke-width:1.6}\
.faithful{stroke:#1f2328;stroke-width:2.6}.dashed{stroke-dasharray:6 3}\
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#8250df}.c3{stroke:#1a7f37}.c4{stroke:#bf3989}\
.leader{stroke-width:.7;fill:none}.point{stroke-width:1.6;stroke-dasharray:none;fill:#ffffff}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.muted{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#2a313c}\
.tier{stroke:#656c76}.bar{stroke:#ff7b72}text.bar{fill:#ff7b72}.faithful{stroke:#e6edf3}.point{fill:#0d1117}\
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#bc8cff}.c3{stroke:#3fb950}.c4{stroke:#f778ba}}";

/// Where values lie.
struct Axes {
    n_nodes: usize,
    /// Exponents of ten at the bottom and at the top.
    low: f64,
    high: f64,
}

impl Axes {
    fn of(comparisons: &[Comparison]) -> Self {
        let nodes = comparisons.iter().flat_map(|comparison| &comparison.nodes);
        let shown = nodes.flat_map(|node| [node.error(), node.bar.tolerance]);
        let shown = shown.filter(|x| x.is_finite() && *x > 0.0).map(|x| x.max(SMALLEST).log10());
        let (low, high) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x.floor()), high.max(x.ceil())));
        // There is at least a decade between them, also when there is nothing.
        let (low, high) = if low <= high { (low, high.max(low + 1.0)) } else { (-5.0, -3.0) };
        Self { n_nodes: comparisons.first().map_or(0, |comparison| comparison.nodes.len()), low, high }
    }

    fn x(&self, node: f64) -> f64 {
        let [left, right, ..] = FRAME;
        left + (node + 0.5) * (right - left) / self.n_nodes.max(1) as f64
    }

    /// The height of a value: zero in its band, what is too large at the top.
    fn y(&self, value: f64) -> f64 {
        let [.., top, bottom] = FRAME;
        if value == 0.0 {
            return bottom - ZERO_BAND / 2.0;
        }
        let share = (value.max(SMALLEST).log10().min(self.high) - self.low) / (self.high - self.low);
        let floor = bottom - ZERO_BAND;
        floor - share * (floor - top)
    }
}

/// The picture of `comparisons`, which have the same nodes: one line each, and the bar. `title` and `subtitle` are shown as
/// they are: what turns the direction of a text is for the caller to spell out.
pub fn plot(comparisons: &[Comparison], title: &str, subtitle: &str) -> String {
    let axes = Axes::of(comparisons);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
        escape(title)
    );
    text(&mut svg, (24.0, 32.0), "title", title);
    text(&mut svg, (24.0, 54.0), "muted", subtitle);
    grid(&mut svg, &axes, comparisons);
    bar(&mut svg, &axes, comparisons);
    lines(&mut svg, &axes, comparisons);
    svg.push_str("</svg>\n");
    svg
}

/// Decades, nodes and tiers.
fn grid(svg: &mut String, axes: &Axes, comparisons: &[Comparison]) {
    let [left, right, top, bottom] = FRAME;
    let n_decades = (axes.high - axes.low).round() as i32;
    // Every decade has a line; with many of them, not every one a number.
    let every = (n_decades / 10).max(1);
    for decade in 0..=n_decades {
        let exponent = axes.low as i32 + decade;
        let y = axes.y(10_f64.powi(exponent));
        push(svg, format_args!("<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"));
        if decade % every == 0 {
            let label = match exponent {
                0 => "1".into(),
                1 => "10".into(),
                exponent => format!("1e{exponent}"),
            };
            push(
                svg,
                format_args!(
                    "<text class=\"muted\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    left - 8.0,
                    y + 4.0
                ),
            );
        }
    }
    push(svg, format_args!("<path class=\"grid\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>"));
    push(
        svg,
        format_args!(
            "<text class=\"muted\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">no error</text>",
            left - 8.0,
            axes.y(0.0) + 4.0
        ),
    );
    let middle = f64::midpoint(top, bottom);
    push(
        svg,
        format_args!(
            "<text class=\"muted\" transform=\"translate(20 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">error, as the bar measures it</text>"
        ),
    );
    let Some(first) = comparisons.first() else { return };
    let mut tier = 0;
    for (i, distance) in first.nodes.iter().enumerate() {
        let x = axes.x(i as f64);
        push(
            svg,
            format_args!(
                "<text class=\"muted\" transform=\"translate({:.1} {:.1}) rotate(-50)\" text-anchor=\"end\">{}</text>",
                x + 4.0,
                bottom + 16.0,
                distance.node.name()
            ),
        );
        let measure = distance.bar.measure;
        if first.nodes.get(i + 1).is_some_and(|next| next.bar.measure == measure) {
            continue;
        }
        // The last node of its tier.
        let end = axes.x(i as f64 + 0.5);
        if i + 1 < first.nodes.len() {
            push(svg, format_args!("<path class=\"tier\" d=\"M{end:.1} {:.1}V{bottom:.1}\"/>", top - 6.0));
        }
        let name = match measure {
            Measure::Absolute => "absolute",
            Measure::Relative => "relative to the state",
            Measure::Logit => "logits",
        };
        let middle = f64::midpoint(axes.x(f64::from(tier) - 0.5), end);
        push(
            svg,
            format_args!(
                "<text class=\"muted\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                top - 10.0
            ),
        );
        tier = i as i32 + 1;
    }
}

/// The tolerance of every node.
fn bar(svg: &mut String, axes: &Axes, comparisons: &[Comparison]) {
    let Some(first) = comparisons.first() else { return };
    let mut path = String::new();
    for (i, distance) in first.nodes.iter().enumerate() {
        let (left, right, y) = (axes.x(i as f64 - 0.5), axes.x(i as f64 + 0.5), axes.y(distance.bar.tolerance));
        let command = if i == 0 { 'M' } else { 'L' };
        path.push_str(&format!("{command}{left:.1} {y:.1}L{right:.1} {y:.1}"));
    }
    push(svg, format_args!("<path class=\"bar\" d=\"{path}\"/>"));
    let y = first.nodes.first().map_or(0.0, |distance| axes.y(distance.bar.tolerance));
    push(svg, format_args!("<text class=\"bar\" x=\"{:.1}\" y=\"{:.1}\">bar</text>", FRAME[0] + 6.0, y - 6.0));
}

/// One line a comparison, with its name at the right end.
fn lines(svg: &mut String, axes: &Axes, comparisons: &[Comparison]) {
    let right = FRAME[1];
    let mut labels = Vec::new();
    let mut n_mistakes = 0;
    for comparison in comparisons {
        let (name, class) = match comparison.mutation {
            None => ("candidate", "faithful".to_owned()),
            Some(mutation) => {
                let dashes = if n_mistakes / N_COLOURS % 2 == 1 { " dashed" } else { "" };
                let class = format!("c{}{dashes}", n_mistakes % N_COLOURS);
                n_mistakes += 1;
                (mutation.name, class)
            }
        };
        let at = |i: usize, error: f64| (axes.x(i as f64), axes.y(error));
        let points: Vec<_> = comparison.nodes.iter().enumerate().map(|(i, node)| (at(i, node.error()), node)).collect();
        let list: Vec<_> = points.iter().map(|((x, y), _)| format!("{x:.1},{y:.1}")).collect();
        push(svg, format_args!("<polyline class=\"line {class}\" points=\"{}\"/>", list.join(" ")));
        for ((x, y), node) in &points {
            push(
                svg,
                format_args!(
                    "<circle class=\"point {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"><title>{}: {} {:.2e} ({:.2e} of the bar)</title></circle>",
                    escape(name),
                    node.node.name(),
                    node.error(),
                    node.factor
                ),
            );
        }
        if let Some(((x, y), _)) = points.last() {
            labels.push((*y, *x, name, class));
        }
    }
    // From top to bottom, each below the one before it; then back up, so that the lowest stays on the page.
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut heights: Vec<f64> = labels.iter().map(|label| label.0).collect();
    for i in 1..heights.len() {
        heights[i] = heights[i].max(heights[i - 1] + LABEL_STEP);
    }
    let mut limit = HEIGHT - 24.0;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - LABEL_STEP;
    }
    for ((y, x, name, class), height) in labels.iter().zip(heights) {
        push(
            svg,
            format_args!(
                "<path class=\"leader {class}\" d=\"M{:.1} {y:.1}L{:.1} {height:.1}H{:.1}\"/>",
                x + 4.0,
                right + 10.0,
                right + 20.0
            ),
        );
        push(svg, format_args!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", right + 24.0, height + 4.0, escape(name)));
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    push(svg, format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text)));
}

fn push(svg: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(svg, "{part}");
}

/// `text` as XML holds it; what XML cannot hold is a replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::distance::Distance;
    use super::super::{Mutation, Node, Rule};
    use super::*;
    use crate::model::Stage;

    /// A comparison whose errors are those.
    fn comparison(mutation: Option<Mutation>, errors: &[f32]) -> Comparison {
        let node = |i| if i == 0 { Node::State(Stage::Embedding) } else { Node::State(Stage::EncoderLayer(10 + i)) };
        let nodes = errors.iter().enumerate().map(|(i, error)| {
            let mut distance = Distance::new(node(i), Rule::DEFAULT.bar(node(i)));
            distance.add(0, 1, &[1.0], &[1.0 + error]);
            distance
        });
        Comparison { mutation, nodes: nodes.collect(), acts: true, is_judged: true }
    }

    /// The heights of the points of the `n`th line.
    fn heights(svg: &str, n: usize) -> Vec<f64> {
        let line = svg.lines().filter(|line| line.starts_with("<polyline")).nth(n).unwrap();
        let points = line.split("points=\"").nth(1).unwrap().trim_end_matches("\"/>");
        points.split(' ').map(|point| point.split_once(',').unwrap().1.parse().unwrap()).collect()
    }

    #[test]
    fn larger_errors_are_higher_and_nothing_leaves_the_frame() {
        let mistakes = Mutation::all();
        let mut all = vec![comparison(None, &[0.0, 1e-6, 1e-5])];
        all.extend(mistakes.iter().map(|mistake| comparison(Some(*mistake), &[1e-3, 1.0, f32::INFINITY])));
        let svg = plot(&all, "A <title> & \u{1b}[2J", "sub");
        assert!(svg.contains("A &lt;title&gt; &amp; \u{fffd}[2J") && !svg.contains('\u{1b}'));
        let (faithful, mistaken) = (heights(&svg, 0), heights(&svg, 1));
        assert!(faithful[0] > faithful[1] && faithful[1] > faithful[2] && faithful[2] > mistaken[0]);
        assert!(mistaken[0] > mistaken[1] && mistaken[1] >= mistaken[2]);
        for height in faithful.iter().chain(&mistaken) {
            assert!((FRAME[2]..=FRAME[3]).contains(height), "{height}");
        }
        // Every line has its name, and no two names share a place.
        let mut places: Vec<f64> = Vec::new();
        for mistake in &mistakes {
            let line = svg.lines().find(|line| line.ends_with(&format!(">{}</text>", mistake.name))).unwrap();
            places.push(line.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap());
        }
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_STEP - 0.2), "{places:?}");
        assert!(places.iter().all(|place| (0.0..HEIGHT).contains(place)));
    }

    #[test]
    fn nothing_and_equality_are_pictures_too() {
        for all in [vec![], vec![comparison(None, &[])], vec![comparison(None, &[0.0, 0.0])]] {
            let svg = plot(&all, "t", "s");
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        }
    }
}
