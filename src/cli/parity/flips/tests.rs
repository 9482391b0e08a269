use super::*;
use crate::parity::{Asked, LeftOut, Source};

/// Ends a script, an attribute and a comment; entities; a control; turns the direction; what cannot be seen.
const HOSTILE: &str = "</script></style></title><script>alert('x')</script><img src=x onerror=\"a\"> &amp; --> \u{1b}[2J\u{0}\u{202e}abc\u{2066}\u{200b}\r\n<b>שלום</b>";

fn side(first: usize) -> Side {
    let probabilities = if first == 0 { vec![0.75, 0.25] } else { vec![0.125, 0.875] };
    Side { probabilities, first, source: if first == 0 { Source::Logits } else { Source::Answer } }
}

fn flips() -> Flips {
    let flip = Flip {
        item: HOSTILE.into(),
        question: HOSTILE.into(),
        kind: QuestionType::Choice,
        gap: 0.5,
        options: vec![HOSTILE.into(), String::new()],
        baseline: side(0),
        candidate: side(1),
        same_input: Some(false),
        asked: Some(Asked { category: HOSTILE.into(), state: HOSTILE.repeat(9), instructions: HOSTILE.into() }),
    };
    Flips {
        changed: vec![flip],
        agreement: Default::default(),
        left_out: LeftOut { n_unlike: 3, ..LeftOut::default() },
    }
}

fn identity() -> crate::parity::Identity {
    let text = include_str!("../../../../tests/cli/input/flips/f32.jsonl").replace("Example CPU", "<Example>");
    let header = crate::json::parse(text.lines().next().unwrap().as_bytes()).unwrap();
    crate::parity::Identity::from_json(header.get("identity").unwrap()).unwrap()
}

#[test]
fn no_text_of_a_run_becomes_a_part_of_the_page() {
    let page = html::page(&flips(), &identity(), &identity());
    assert!(!page.contains(|c| escape::acts(c) && c != '\n'), "controls and turns are spelled out");
    for made in ["<script", "<img", "<b>", "onerror=\"", "<Example>"] {
        assert!(!page.contains(made), "{made}");
    }
    // What is closed is what the page itself opened.
    for element in ["style", "title", "details", "pre", "article", "bdi", "html"] {
        let count = |tag: String| page.matches(&tag).count();
        assert_eq!(
            count(format!("</{element}>")),
            count(format!("<{element}>")) + count(format!("<{element} ")),
            "{element}"
        );
    }
    for shown in [
        "&lt;/script&gt;&lt;/style&gt;",
        "&amp;amp; --&gt;",
        ">U+001B<",
        ">U+0000<",
        ">U+202E<",
        ">U+200B<",
        "שלום",
        "&lt;Example&gt;",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(page.contains("Not compared: 3 questions whose answers are not comparable."));
    assert!(page.contains("the runs read different tokens"));
    assert!(page.contains("75.00%") && page.contains("87.50%, as answered"));
    for outside in ["http:", "https:", "src=", "url(", "@import", "<link", "javascript:"] {
        let given = HOSTILE.contains(outside);
        assert!(given || !page.contains(outside), "{outside}");
    }
}

#[test]
fn a_page_without_changes_says_so() {
    let none = Flips { changed: Vec::new(), ..flips() };
    let page = html::page(&none, &identity(), &identity());
    assert!(page.contains("<h1>No answer changes</h1>") && !page.contains("<article"));
}

#[test]
fn nothing_in_the_tables_acts() {
    let text = text(&flips(), 5);
    assert!(!text.contains(|c| escape::acts(c) && c != '\n'), "{text:?}");
    assert!(text.contains("0.5000 ") && text.contains("0.750 ") && text.contains("0.875*"), "{text}");
    assert!(text.ends_with("* of the public answer, calibrated: the run has no logits"), "{text}");
    let json = json::text(&flips(), &identity(), &identity());
    assert!(!json.contains(|c| escape::acts(c) && c != '\n'), "{json:?}");
    let json = crate::json::parse(json.as_bytes()).unwrap();
    let flip = &json.get("flips").and_then(crate::json::Value::as_array).unwrap()[0];
    assert_eq!(flip.get("item").and_then(crate::json::Value::as_str), Some(HOSTILE));
}
