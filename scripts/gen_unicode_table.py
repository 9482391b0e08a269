#!/usr/bin/env python3
"""Write src/tokenizer/unicode_table.rs: the Unicode data of the tokenizer, probed from the PyPI package `tokenizers`.

The checkpoints' ids were made by that package. Its letter, number and space classes come from the Oniguruma it bundles,
its NFC from a normalization crate of an older Unicode, so neither Rust's nor Python's own tables give the same ids on
recent characters. Everything here is therefore asked of the package itself, over every code point; Python's
`unicodedata` is not used.

usage: gen_unicode_table.py [--check]
  --check   write nothing; exit 1 when the committed file differs from what the package says
needs: tokenizers == 0.23.3
"""

import itertools
import random
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

VERSION = "0.23.3"
TARGET = Path(__file__).resolve().parent.parent / "src" / "tokenizer" / "unicode_table.rs"
WIDTH = 160
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL_SYLLABLES = range(0xAC00, 0xAC00 + 11172)
# Second parts of the Hangul compositions, which are arithmetic and not in the tables.
HANGUL_SECONDS = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))

nfc = normalizers.NFC().normalize_str
nfd = normalizers.NFD().normalize_str


def members(pattern):
    """Code points that the package's regular expression `pattern` matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str
    return {c for c in CODE_POINTS if not split(chr(c))}


def lstrip_spaces():
    """Code points that an added token with `lstrip` swallows on its left."""
    tokenizer = Tokenizer(models.WordLevel({"u": 0}, unk_token="u"))
    tokenizer.add_special_tokens([AddedToken("[M]", lstrip=True)])
    return {c for c in CODE_POINTS if len(tokenizer.encode(chr(c) + "[M]").ids) == 1}


def ranges(points):
    """Inclusive ranges of a set of code points."""
    out = []
    for c in sorted(points):
        if out and out[-1][1] + 1 == c:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def combining_classes(decomposed):
    """Rank of the canonical combining class of every code point that has one (only their order matters)."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240, the ends of the scale

    def below(a, b):  # 0 < class(a) < class(b)
        return nfd(b + a) != b + a

    marks = [chr(c) for c in CODE_POINTS if c not in decomposed]
    marks = [m for m in marks if below(m, high) or below(low, m)]
    classes = []  # representatives in ascending order, and their members
    for m in marks:
        start, end = 0, len(classes)
        while start < end:
            middle = (start + end) // 2
            representative = classes[middle][0]
            if below(m, representative):
                end = middle
            elif below(representative, m):
                start = middle + 1
            else:
                classes[middle].append(m)
                break
        else:
            classes.insert(start, [m])
    return {ord(m): rank for rank, group in enumerate(classes, 1) for m in group}


def compositions(decomposed, unstable):
    """(c, a, b): c is canonically a then b, and NFC puts them together again. Hangul is left out."""
    out = []
    for c, parts in sorted(decomposed.items()):
        if c in unstable or c in HANGUL_SYLLABLES:
            continue
        first, second = nfc(parts[:-1]), parts[-1]
        if len(first) != 1 or nfc(first + second) != chr(c):
            sys.exit(f"U+{c:04X}: not a pair the table can hold")
        out.append((c, ord(first), ord(second)))
    return out


class Model:
    """NFC as the Rust code computes it from the tables, so that the tables are proved here."""

    def __init__(self, ccc, pairs, unstable):
        self.ccc, self.unstable = ccc, unstable
        self.apart = {c: (a, b) for c, a, b in pairs}
        self.together = {(a, b): c for c, a, b in pairs}

    def decompose(self, c, out):
        if c in HANGUL_SYLLABLES:
            s = c - 0xAC00
            out += [0x1100 + s // 588, 0x1161 + s % 588 // 28] + ([0x11A7 + s % 28] if s % 28 else [])
        elif c in self.unstable:
            out += map(ord, self.unstable[c])
        elif c in self.apart:
            self.decompose(self.apart[c][0], out)
            self.decompose(self.apart[c][1], out)
        else:
            out.append(c)

    def compose(self, a, b):
        if 0x1100 <= a < 0x1113 and 0x1161 <= b < 0x1176:
            return 0xAC00 + ((a - 0x1100) * 21 + b - 0x1161) * 28
        if a in HANGUL_SYLLABLES and (a - 0xAC00) % 28 == 0 and 0x11A8 <= b < 0x11C3:
            return a + b - 0x11A7
        return self.together.get((a, b))

    def nfc(self, text):
        points = []
        for c in text:
            self.decompose(ord(c), points)
        for starter, run in itertools.groupby(list(range(len(points))), lambda i: points[i] not in self.ccc):
            if not starter:
                run = list(run)
                points[run[0] : run[-1] + 1] = sorted(points[run[0] : run[-1] + 1], key=self.ccc.__getitem__)
        out, starter, last = [], None, 0
        for c in points:
            ccc = self.ccc.get(c, 0)
            if starter is not None and (last < ccc or last == 0):
                joined = self.compose(out[starter], c)
                if joined is not None:
                    out[starter] = joined
                    continue
            if ccc == 0:
                starter = len(out)
            last = ccc
            out.append(c)
        return "".join(map(chr, out))


def prove(model, ccc, pairs, decomposed):
    """Every code point, every pair that could compose, and random mark sequences: equal to the package's NFC."""
    for c in CODE_POINTS:
        if model.nfc(chr(c)) != nfc(chr(c)):
            sys.exit(f"U+{c:04X}: the tables give another NFC")
    firsts = sorted({a for _, a, _ in pairs} | {0x41, 0x1100, 0x1112, 0x1113, 0xAC00, 0xAC01, 0xAC1C})
    seconds = sorted({b for _, _, b in pairs} | {0x1160, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0x11C3})
    for a, b in itertools.product(firsts, seconds):
        if model.nfc(chr(a) + chr(b)) != nfc(chr(a) + chr(b)):
            sys.exit(f"U+{a:04X} U+{b:04X}: the tables give another NFC")
    source = random.Random(1)
    marks, starters = sorted(ccc), sorted(set(firsts) | set(decomposed))
    for _ in range(200_000):
        text = "".join(chr(source.choice(marks if source.random() < 0.7 else starters)) for _ in range(source.randint(2, 9)))
        if model.nfc(text) != nfc(text):
            sys.exit(f"{text!r}: the tables give another NFC")
    firsts_apart = set()
    for c, _, _ in pairs:
        points = []
        model.decompose(c, points)
        firsts_apart.add(points[0])
    unsafe = firsts_apart & ({b for _, _, b in pairs} | HANGUL_SECONDS | set(ccc))
    if unsafe:
        sys.exit(f"{sorted(map(hex, unsafe))}: a composed character starts with one that can join the character before it")


def table(doc, name, kind, items):
    """One Rust constant, its items filled into lines."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    lines.append(line)
    body = "\n".join(lines)
    return f"\n/// {doc}\n#[rustfmt::skip]\npub(super) const {name}: &[{kind}] = &[\n{body}\n];\n"


def generate():
    letters, numbers, spaces = members(r"\p{L}"), members(r"\p{N}"), members(r"\s")
    others = members(r"[^\s\p{L}\p{N}]")
    if sum(map(len, (letters, numbers, spaces, others))) != len(CODE_POINTS):
        sys.exit("the classes of the pre-tokenizer overlap or leave a gap")
    if lstrip_spaces() != spaces:
        sys.exit("lstrip strips other characters than the pre-tokenizer's spaces")
    decomposed = {c: parts for c in CODE_POINTS if (parts := nfd(chr(c))) != chr(c)}
    unstable = {c: decomposed[c] for c in CODE_POINTS if nfc(chr(c)) != chr(c)}
    ccc = combining_classes(decomposed)
    pairs = compositions(decomposed, unstable)
    prove(Model(ccc, pairs, unstable), ccc, pairs, decomposed)

    ccc_ranges = []
    for c, rank in sorted(ccc.items()):
        if ccc_ranges and ccc_ranges[-1][1] + 1 == c and ccc_ranges[-1][2] == rank:
            ccc_ranges[-1][1] = c
        else:
            ccc_ranges.append([c, c, rank])

    def spell(points):
        return [f"(0x{a:X}, 0x{b:X})" for a, b in ranges(points)]

    def escape(text):
        return "".join(f"\\u{{{ord(c):X}}}" for c in text)

    return (
        "//! Unicode data of the tokenizer, equal to the PyPI package `tokenizers` " + VERSION + ".\n"
        "//!\n//! Written by scripts/gen_unicode_table.py; do not edit. Ranges are inclusive.\n"
        + table("Letters: what the pre-tokenizer's `\\p{L}` matches.", "LETTER", "(u32, u32)", spell(letters))
        + table("Numbers: what the pre-tokenizer's `\\p{N}` matches.", "NUMBER", "(u32, u32)", spell(numbers))
        + table("Spaces: what `\\s` matches and what `lstrip` swallows.", "SPACE", "(u32, u32)", spell(spaces))
        + table(
            "Combining marks: first, last, rank of the canonical combining class (1 is the lowest; only the order counts).",
            "MARK",
            "(u32, u32, u8)",
            [f"(0x{a:X}, 0x{b:X}, {r})" for a, b, r in ccc_ranges],
        )
        + table(
            "Composed characters c = a b, sorted by c: NFD takes c apart, NFC puts a b together. Without Hangul.",
            "COMPOSED",
            "(u32, u32, u32)",
            [f"(0x{c:X}, 0x{a:X}, 0x{b:X})" for c, a, b in pairs],
        )
        + table(
            "Characters that NFC replaces, sorted, with their full decomposition.",
            "REPLACED",
            "(u32, &str)",
            [f'(0x{c:X}, "{escape(parts)}")' for c, parts in sorted(unstable.items())],
        )
    )


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if tokenizers.__version__ != VERSION:
        sys.exit(f"needs tokenizers {VERSION}, found {tokenizers.__version__}")
    text = generate()
    if not sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        print(f"wrote {TARGET.name}: {len(text)} bytes, {text.count(chr(10))} lines")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit(f"{TARGET.name} differs from what tokenizers {VERSION} says; run {Path(__file__).name}")
    else:
        print(f"{TARGET.name}: equal to tokenizers {VERSION}")


if __name__ == "__main__":
    main()
