"""The request bodies that gen_golden.py answers: what each one covers, and the body.

The same bodies go through both tiny checkpoints. Most are short, so that their hidden states stay small.
"""

from typing import Any

Question = dict[str, Any]
Body = dict[str, Any]


def choice(instructions: Any, criteria: Any) -> Question:
    """A choice question."""
    return {"type": "choice", "instructions": instructions, "criteria": criteria}


def score(instructions: Any, *levels: Any) -> Question:
    """A score question."""
    return {"type": "score", "instructions": instructions, "criteria": list(levels)}


def noul(instructions: Any, **parts: Any) -> Question:
    """A noul (yes/no) question; `criteria` and `labels` as given."""
    return {"type": "noul", "instructions": instructions} | parts


def body(state: Any, *questions: Question) -> Body:
    """A request with questions named q0, q1, ..."""
    return {"state": state, "questions": {f"q{i}": q for i, q in enumerate(questions)}}


SHORT = {"false": "no", "true": "yes"}
TOPIC = choice("Topic?", ["billing", "delivery", "other"])
URGENT = score("How urgent?", "low", "medium", "high")
SPAM = noul("Is it spam?", criteria=SHORT)
LONG_TEXT = (
    "The parcel says delivered, but there is nothing here. I was charged twice for the monthly plan and want the money "
    "back today. The device reports a high temperature and the door is open. The pump stopped after the second restart "
    "at night. Error: connection lost, retrying. Hola, quiero cambiar la talla de las botas."
)
TURNS = [
    {"role": "user", "text": "where is my order"},
    {"role": "assistant", "text": "the parcel is delayed, please wait"},
    {"role": "user", "text": "I want the money back today"},
    {"role": "assistant", "text": "which account is it for?"},
    {"role": "user", "text": "the last one, please help"},
]

STATES: list[tuple[str, Body]] = [
    ("string state, choice list", body("charged twice", TOPIC)),
    ("string state, score", body("it is locked again", URGENT)),
    ("string state, noul with criteria", body("free money", SPAM)),
    ("three question types at once", body("where is the refund?", TOPIC, URGENT, SPAM)),
    ("empty string state", body("", SPAM)),
    ("empty array state", body([], SPAM)),
    ("empty object state", body({}, SPAM)),
    ("state 0", body(0, URGENT)),
    ("state false", body(False, URGENT)),
    ("state true", body(True, TOPIC)),
    ("negative integer state", body(-17, TOPIC)),
    ("float states: 1.0 is not 1", body(1.0, SPAM)),
    ("float spellings", body([0.1, 1e16, 1e-07, -0.0, 1e22, 123456789012345680.0], SPAM)),
    ("large integers", body([9007199254740993, -9223372036854775808, 18446744073709551615], SPAM)),
    ("object state", body({"door": "open", "temp": 7.25}, URGENT)),
    ("object state, null and nested", body({"a": None, "b": [1, {"c": True}], "d": ""}, TOPIC)),
    ("key order b a", body({"b": 2, "a": 1}, SPAM)),
    ("key order a b", body({"a": 1, "b": 2}, SPAM)),
    ("array of numbers", body([3, 2, 1], URGENT)),
    ("array of turns", body(TURNS[:1], SPAM)),
    ("JSON text as a string", body('{"door": "open", "temp": 7.25}', URGENT)),
    ("escapes in a JSON state", body({"t": 'a"b\\c\n\t\r\u0001\u001f\u007f/'}, SPAM)),
    ("the same characters raw", body('a"b\\c\n\t\r\u0001\u001f\u007f/', SPAM)),
    ("spaces, tabs and newlines", body("a  b   c        d\t\te\n\n\nf ", SPAM)),
    ("leading and trailing spaces", body("   hello there   ", TOPIC)),
    ("only spaces", body("     ", SPAM)),
    ("one space", body(" ", SPAM)),
]

TEXTS: list[tuple[str, Body]] = [
    ("Chinese", body("你好，我的订单在哪里？", SPAM)),
    ("Japanese", body("注文はどこですか", URGENT)),
    ("Arabic, right to left", body("مرحبا، أين طلبي؟", SPAM)),
    ("Hindi", body("नमस्ते, मेरा खाता", TOPIC)),
    ("Russian", body("привет, где мой заказ?", URGENT)),
    ("Thai, no spaces", body("สวัสดีครับ", SPAM)),
    ("emoji, joiners and flags", body("👍🏽 👨‍👩‍👧 🇸🇪 ☎️", SPAM)),
    ("precomposed accents", body("café déjà vu", SPAM)),
    ("combining accents", body("cafe\u0301 de\u0301ja\u0300 vu", SPAM)),
    ("stacked combining marks", body("z\u0324\u0301\u0303 a\u0301\u0324", SPAM)),
    ("Hangul jamo", body("\u1112\u1161\u11ab\u1100\u1173\u11af", SPAM)),
    ("Angstrom and ligatures", body("\u212b \ufb01 \u00bd \u2460", SPAM)),
    ("zero width and BOM", body("a\u200bb\u200dc\ufeffd\u00a0e\u2028f", SPAM)),
    ("rare planes", body("\U00010d4a \U0001e4d0 \U0010ffff", SPAM)),
    ("contractions and numbers", body("I'm, you're, it'S 12345 3.14 x2", TOPIC)),
    (
        "Spanish question",
        body("¿Cuándo llega el pedido?", choice("¿Tema?", {"envío": "el pedido", "pago": "la cuenta"})),
    ),
    ("German labels", body("Mein Paket ist da", noul("Ist es da?", labels={"false": "nein", "true": "ja"}))),
    ("mask text in the state", body("a [MASK] b <mask> c", SPAM)),
    ("mask text in the instructions", body("hello", noul("Is [MASK] it <mask>?", criteria=SHORT))),
    ("mask text in options", body("hello", choice("Topic?", ["a [MASK] b", "c<mask>d", "[MASK]", "<mask>"]))),
    ("mask text in a JSON key", body({"[MASK]": 1, "<mask>": 2}, SPAM)),
    ("mask text after spaces", body("a   [MASK]b   <mask>c", SPAM)),
    ("special text in the state", body("[CLS] a [SEP] b <eos> c <bos> [PAD]<pad> [UNK]<unk>", SPAM)),
    ("special text in the instructions", body("hello", noul("Is [SEP] it <eos>?", criteria=SHORT))),
    ("special text in options", body("hello", choice("Topic?", ["a[SEP]", "<eos>", "<start_of_turn>", "[unused1]"]))),
    ("added tokens", body("<table><td>x</td> [unused3] <unused2> |||EMAIL_ADDRESS||| [toxicity=0]", SPAM)),
    ("metaspace and byte letters as text", body("a\u2581b\u2581\u2581c \u0120d <0x41>", SPAM)),
]

QUESTIONS: list[tuple[str, Body]] = [
    ("one option", body("hello", choice("Topic?", ["billing"]))),
    ("one option with a description", body("hello", choice("Topic?", {"billing": "the account"}))),
    ("one level", body("hello", score("How urgent?", "low"))),
    ("two options", body("hello", choice("Topic?", ["red", "blue"]))),
    ("two levels", body("hello", score("How urgent?", "low", "high"))),
    (
        "four options with descriptions",
        body("the door", choice("Cause?", {"a": "door", "b": "pump", "c": "", "d": None})),
    ),
    ("five levels", body("hello", score("How urgent?", "none", "low", "medium", "high", "now"))),
    ("six options", body("blue", choice("Color?", ["red", "green", "blue", "none", "other", "all"]))),
    ("seven levels", body("hello", score("Level?", *"abcdefg"))),
    ("ten options", body("3", choice("Number?", list("0123456789")))),
    ("eleven options", body("k", choice("Letter?", list("abcdefghijk")))),
    ("twelve levels", body("k", score("Level?", *"abcdefghijkl"))),
    ("twenty options", body("t", choice("Letter?", list("abcdefghijklmnopqrst")))),
    ("twenty options, cut to few tokens", body("the door", choice("Cause?", [f"cause {i}" for i in range(20)]))),
    (
        "collapsed options",
        body("x", choice("Which?", [f"the account of the customer number {i}" for i in range(8)])),
    ),
    ("collapsed without a cap", body("x", choice("Which?", {"a": "x", "a: x": None, "b": "y"}))),
    ("scalar labels", body("2", choice("Which?", [3, 2.5, True, "3", 0]))),
    ("label 1e22", body("2", choice("Which?", [1e22, -0.5, False]))),
    ("falsy descriptions", body("x", choice("Which?", {"a": 0, "b": False, "c": [], "d": {}}))),
    ("structured choice criteria", body("x", choice("Which?", {"a": {"when": "door"}, "b": ["pump", 1.0]}))),
    ("structured levels", body("x", score("Level?", {"n": "ok"}, ["bad", 2], 3, False, ""))),
    ("structured noul criteria", body("x", noul("Ok?", criteria={"true": {"is": 1}, "false": [0.5]}))),
    ("default noul texts", body("free money", noul("Is it spam?"))),
    ("one-sided noul criteria", body("x", noul("Ok?", criteria={"true": "fine"}))),
    ("null and empty noul criteria", body("x", noul("Ok?", criteria={"true": None, "false": ""}))),
    ("upper-case noul keys, later wins", body("x", noul("Ok?", criteria={"TRUE": "a", "true": "b", "False": "c"}))),
    ("noul criteria null", body("x", noul("Ok?", criteria=None))),
    (
        "noul labels with spaces",
        body("x", noul("Ok?", criteria=SHORT, labels={"true": " A\u00a0", "false": "\u2028B\n"})),
    ),
    ("noul labels null", body("x", noul("Ok?", criteria=SHORT, labels=None))),
    ("object instructions", body("x", noul({"ask": "é?", "n": 1.0}, criteria=SHORT))),
    ("array instructions", body("x", choice(["a", 1, None], ["red", "blue"]))),
    ("null instructions", body("x", noul(None, criteria=SHORT))),
    ("empty instructions", body("x", noul("", criteria=SHORT))),
    ("number instructions", body("x", score(1e16, "low", "high"))),
    ("ignored question keys", body("x", SPAM | {"options": ["a"], "weight": 2})),
    ("empty label", body("x", choice("Which?", ["", "a"]))),
    ("option with leading spaces and newline", body("x", choice("Which?", ["  a", "b\n", "\tc"]))),
    (
        "option longer than 48 tokens, and a short one",
        body("x", choice("Which?", {"a": "0 1 2 3 4 5 6 7 8 9 " * 6, "b": "short"})),
    ),
    ("option longer than 48 tokens, alone", body("x", choice("Which?", ["0 1 2 3 4 5 6 7 8 9 " * 6]))),
    ("no questions", body("hello")),
    ("six questions", body("the door is open", TOPIC, SPAM, URGENT, choice("A?", ["a"]), noul("B?"), score("C?", "x"))),
]

LONG: list[tuple[str, Body]] = [
    ("long string state, cut on the right", body(LONG_TEXT, SPAM)),
    ("long list state, cut on the left", body(TURNS, SPAM)),
    ("long object state, cut on the right", body({"turns": TURNS}, URGENT)),
    ("long instructions, cut", body("hello", noul(LONG_TEXT, criteria=SHORT))),
    ("long everything", body(LONG_TEXT, choice(LONG_TEXT, [LONG_TEXT, LONG_TEXT[40:], LONG_TEXT[90:]]))),
    (
        "hardly room for the state, list",
        body(TURNS, choice("Which of the parcels is the last one?", [f"the parcel {i}" for i in range(20)])),
    ),
    ("medium string state", body(LONG_TEXT[:100], URGENT)),
    ("medium list state", body(TURNS[:2], TOPIC)),
]

REFUSED: list[tuple[str, Body]] = [
    ("refused: null state", body(None, SPAM)),
    ("refused: questions is an array", {"state": "x", "questions": [SPAM]}),
    ("refused: definition is a string", {"state": "x", "questions": {"q0": "Is it spam?"}}),
    ("refused: unknown type", body("x", {"type": "bool", "instructions": "Ok?"})),
    ("refused: no type", body("x", {"instructions": "Ok?"})),
    ("refused: no instructions", body("x", {"type": "noul"})),
    ("refused: choice without criteria", body("x", {"type": "choice", "instructions": "Which?"})),
    ("refused: empty choice", body("x", choice("Which?", []))),
    ("refused: null label", body("x", choice("Which?", ["a", None]))),
    ("refused: structured label", body("x", choice("Which?", ["a", ["b"]]))),
    ("refused: repeated label, 1 and true", body("x", choice("Which?", [1, "a", True]))),
    (
        "refused: score criteria is an object",
        body("x", {"type": "score", "instructions": "L?", "criteria": {"a": "b"}}),
    ),
    ("refused: no level", body("x", score("Level?"))),
    ("refused: null level", body("x", score("Level?", "low", None))),
    ("refused: noul criteria is a list", body("x", noul("Ok?", criteria=["a", "b"]))),
    ("refused: noul criteria keyed yes", body("x", noul("Ok?", criteria={"yes": "a", "No": "b"}))),
    ("refused: labels on a choice", body("x", TOPIC | {"labels": SHORT})),
    ("refused: equal labels after strip", body("x", noul("Ok?", labels={"true": "a ", "false": "a"}))),
    ("refused: second question", body("x", SPAM, {"type": "noul"})),
    ("refused: more markers than fit", body("x", choice("Which?", [f"o{i}" for i in range(40)]))),
]

ITEMS = STATES + TEXTS + QUESTIONS + LONG + REFUSED
