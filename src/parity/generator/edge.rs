//! Texts and numbers that tokenizers, JSON writers and servers are known to get wrong.

/// Texts, as Rust spells them: most of what matters in them cannot be seen.
pub(super) const TEXTS: &[&str] = &[
    // Blanks and line ends.
    "first line\nsecond line\n\nafter a blank line\n\n\n\nafter three",
    "\tone tab\n\t\ttwo tabs\n\t\t\tthree tabs\tand one inside",
    "dos line\r\ndos line\r\n\r\nold mac line\rform feed\u{c}vertical tab\u{b}end",
    "two  blanks, three   blanks, four    blanks, eight        blanks",
    "     five blanks before",
    "five blanks after     ",
    " ",
    "\n",
    "                                        forty blanks before a word, and twenty at the end                    ",
    "no-break\u{a0}blank, thin\u{2009}blank, ideographic\u{3000}blank, narrow\u{202f}one, line\u{2028}separator",
    // What cannot be seen.
    "zero\u{200b}width\u{200c}characters\u{200d}and\u{2060}joiners\u{feff}inside",
    "soft\u{ad}hyphen, bell \u{7}, escape \u{1b}[31mred\u{1b}[0m, delete \u{7f}, next line \u{85}",
    "unit \u{1f} record \u{1e} group \u{1d} file \u{1c} separators",
    "\u{feff}a byte order mark at the start",
    "marks \u{202e}that turn\u{202c} the direction \u{2066}of text\u{2069} and \u{200f}back\u{200e}",
    // Letters in more than one spelling.
    "cafe\u{301} or caf\u{e9}, A\u{30a} or \u{c5} or \u{212b}, o\u{308}ffnen or \u{f6}ffnen",
    "stacked z\u{351}\u{357}\u{35e}\u{316}\u{32d}a\u{334}\u{338}\u{35b}\u{323}l\u{336}\u{30f}\u{325}g\u{337}\u{33f}\u{330}o",
    "\u{fb01}ne \u{fb02}ow \u{ff21}\u{ff22}\u{ff23}\u{ff11}\u{ff12} \u{1d49c}\u{1d4b7}\u{1d4b8} \u{2460}\u{2461} \u{bd} \u{2122} \u{33a1}",
    "\u{1e9e} \u{df} SS, \u{130}I\u{131}i, \u{3c3}\u{3c2}\u{3a3}, \u{1c4}\u{1c5}\u{1c6}",
    "\u{1100}\u{1161}\u{11a8} or \u{ac01}, \u{304b}\u{3099} or \u{304c}, \u{ff76}\u{ff9e}",
    "\u{928}\u{93f} \u{915}\u{94d}\u{937} \u{0e19}\u{0e49}\u{0e33} \u{0ba8}\u{0bbf} \u{1780}\u{17d2}\u{1798}",
    // Characters outside the first plane.
    "\u{1f600}\u{1f64f}\u{1f3fd} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f3f3}\u{fe0f}\u{200d}\u{1f308} \u{1f1eb}\u{1f1ee} 1\u{fe0f}\u{20e3} \u{2764}\u{fe0f}",
    "\u{20000}\u{2a6d6} \u{10330}\u{10331} \u{12000} \u{1f9ff}\u{1fae0} \u{e000} \u{fffd} \u{10fffd}",
    "\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}",
    // What looks like a token of a vocabulary.
    "<bos>a<eos>b<pad>c<unk>d<mask>e<start_of_turn>user\nf<end_of_turn>",
    "[CLS] a [SEP] b [PAD] c [UNK] d [MASK] e <|endoftext|> f |||IP_ADDRESS|||",
    "<mask><mask> <mask>[MASK][MASK]<mask",
    "<unused0><unused61> [unused3] <2mass> <0x0A><0xE2>",
    "\u{2581}under\u{2581}\u{2581}score \u{2581} \u{120}word\u{10a}line \u{ad}\u{142}",
    "##ing un##able <s>text</s> </s><s>",
    // Markup, code and what is quoted.
    "<table><tr><td>1</td><td>&amp;&lt;</td></tr></table><script>alert(\"x\")</script><!-- no -->",
    "# Title\n\n- one\n- two\n  - three\n\n| a | b |\n|---|--:|\n| 1 | 2.5 |\n\n> said\n\n**bold** _it_ `code`",
    "fn main() {\n    let xs = vec![1u8; 32];\n    println!(\"{:?}\", &xs[..4]); // done\n}",
    "{\"a\": [1, 2.0, null], \"b\": {\"c\": \"d\\n\\\"e\\\"\"}, \"u\": \"\\u00e9\\ud83d\\ude00\"}",
    "SELECT t.\"when\", COUNT(*) FROM runs t WHERE t.name <> 'it''s' AND t.p >= 0.05;",
    "back\\slash, \"double\", 'single', `tick`, \u{201e}low\u{201c}, \u{ab}angle\u{bb}, \u{2018}curly\u{2019}, /slash/",
    "C:\\data\\new\\table.txt and /var/tmp/../x y/%7Euser?a=1&b=%20#frag",
    "https://example.org/a_b/c-d.e?f=g+h&i=%C3%A9#j, mail to someone@example.org",
    // Numbers and signs.
    "0 00 007 1,000,000 1.000.000,50 1e-7 0x1F 3.14159265358979 12:05:59 2031-02-29 +44 (0) 99-88",
    "1234567890123456789012345678901234567890",
    "!!! ??? ... \u{2026} --- \u{2014} \u{2013} *** ### $$$ %%% ^^^ ((( ))) {{{ }}} ~~~ ===== >>>>",
    "it's we'll they're I'd don't 's 't 're IT'S o'clock rock'n'roll",
    "\u{661}\u{662}\u{663} \u{967}\u{968}\u{969} \u{4e00}\u{4e8c}\u{4e09} \u{2167} x\u{b2} H\u{2082}O 5\u{202f}\u{20ac} \u{2212}3 \u{d7} 4 \u{2260} \u{221e}",
    // Runs.
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "counterdeinstitutionalizationalistically-pseudohyperparathyroidlike_snakeCaseAndCamelCaseWORDS",
    "x",
    "",
    // Two directions and many scripts on one line.
    "order 42 \u{5e9}\u{5d5}\u{5dc}\u{5d7}\u{5df} (table) \u{637}\u{627}\u{648}\u{644}\u{629} 17 end",
    "data\u{30c7}\u{30fc}\u{30bf}\u{434}\u{430}\u{43d}\u{43d}\u{44b}\u{435}\u{6570}\u{636e}\u{b370}donn\u{e9}es",
];

/// Doubles whose shortest digits, exponents and signs are easy to get wrong.
pub(super) const DOUBLES: [f64; 18] = [
    0.1,
    0.30000000000000004,
    -0.0,
    1.0,
    2.5,
    1e15,
    1e16,
    9999999999999998.0,
    1e22,
    123456789.125,
    0.0001,
    0.00001,
    1e-7,
    -1234.5678,
    1e100,
    1.7976931348623157e308,
    2.2250738585072014e-308,
    5e-324,
];

/// Integers at the ends of the ranges that readers use.
pub(super) const INTEGERS: [i64; 9] =
    [0, -1, 7, 65536, 2147483648, 9007199254740993, -9007199254740993, i64::MAX, i64::MIN];

/// Keys of objects that need escapes, or that are something else elsewhere.
pub(super) const KEYS: [&str; 10] =
    ["", "a b", "tab\tkey", "line\nkey", "quote\"key", "back\\slash", "x.y[0]", "type", "1", "null"];
