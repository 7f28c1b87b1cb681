"""`Regex`, `Substring`, rule options and assertions of XGrammar's EBNF, against slow twins."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import structgen as sg
from structgen.constraints.earliest import earliest_end
from structgen.constraints.grammar.ebnf.reader import read_ebnf
from structgen.errors import EmptyConstraint, GrammarSyntaxError, GrammarUnsupported, RegexSyntaxError
from structgen.ir.grammar import Ending, Rule
from tests.constraints.grammar.bnf_samples import check_error
from tests.oracles.regex_twin import accepts

BYTES = sg.Vocabulary.of_bytes()
TEXTS = ["".join(letters) for n in range(7) for letters in itertools.product("ab", repeat=n)]


def taken(source: str, texts: list[str] = TEXTS) -> list[str]:
    """Return those of the texts that a grammar accepts."""
    matcher = sg.Matcher(sg.ebnf(source), BYTES)
    return [text for text in texts if matcher.native.next_bytes(text.encode())[1]]


# Regex


@pytest.mark.parametrize(
    "pattern",
    [
        "a+b?",
        "(a|bb)*",
        "^ab|b$",
        "a{2,3}",
        "[^a]b*",
        "(?:a|b){3}",
        "a.b",
        "(?<x>ab)+",
        "(?P<x>a)b",
        "a*?b",
        "(a|)b",
    ],
)
def test_patterns(pattern: str) -> None:
    python = re.compile(pattern.replace("(?<x>", "(?P<x>"), re.DOTALL)
    assert taken(f'root ::= Regex("{pattern}")') == [text for text in TEXTS if python.fullmatch(text)]
    longer = [f"<{text}>" for text in TEXTS]
    assert taken(f'root ::= "<" Regex("{pattern}") ">"', longer) == [
        f"<{text}>" for text in TEXTS if python.fullmatch(text)
    ]


def test_dots_and_cases() -> None:
    texts = ["a\nb", "A\nB", "axb", "AXB", "aXb", "a\u2028b", "\u03c3", "\u03a3"]
    assert taken('root ::= Regex("a.b")', texts) == ["a\nb", "axb", "aXb", "a\u2028b"]
    assert taken('root ::= Regex("a.b", flags="")', texts) == ["axb", "aXb", "a\u2028b"]
    assert taken('root ::= Regex("a.b", flags="iu")', texts) == ["axb", "AXB", "aXb", "a\u2028b"]
    assert taken('root ::= Regex("a.b", flags="is")', texts) == texts[:6]
    assert taken('root ::= Regex("(\\?i)\u03a3")', texts) == ["\u03a3"]  # of ASCII letters only
    assert taken(r'root ::= Regex("\\a\\e\\x41\\u{42}\\cA")', ["\x07\x1bAB\x01"]) == ["\x07\x1bAB\x01"]


def test_bodies_of_json_strings() -> None:
    texts = ["", "ab", 'a"', "a\\b", "a\x1f", "\u20ac ", "a\n"]
    assert taken('root ::= Regex(".*", json_string=true)', texts) == ["", "ab", "\u20ac "]
    assert taken('root ::= Regex(".*", json_string=false)', texts) == texts


# Substring


@pytest.mark.parametrize("seed", range(20))
def test_runs(seed: int) -> None:
    random_ = random.Random(seed)
    chunks = ["".join(random_.choices("ab", k=random_.randrange(4))) for _ in range(random_.randrange(6))]
    runs = {"".join(chunks[i:j]) for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}
    call = ", ".join(f'"{chunk}"' for chunk in chunks)
    assert set(taken(f"root ::= Substring({call})")) == runs & set(TEXTS)
    whole = taken(f'root ::= part "a" part\npart ::= Substring({call})')
    assert set(whole) == {f"{one}a{other}" for one in runs for other in runs} & set(TEXTS)


# Options


def by_definition(language: set[str], least: int) -> set[str]:
    """Return the texts of at least `least` characters without a shorter prefix that is such a text."""
    return {text for text in language if not any(text[:cut] in language for cut in range(least, len(text)))}


BODIES = [
    '"a"* "b"',
    "[ab]*",
    '("ab" | "a")+',
    '"a"? "b"?',
    'Regex("(a|ba)*")',
    'Substring("ab", "a", "b")',
    "[ab]{2,4}",
    "[a]+",
    '"abab"',
]


@pytest.mark.parametrize("body", BODIES)
def test_where_rules_end(body: str) -> None:
    language = set(taken(f"root ::= {body}"))
    assert set(taken(f"root[lazy] ::= {body}")) == by_definition(language, 0)
    for most in (0, 1, 2, 3, 5):
        expected = by_definition(language, most)
        assert set(taken(f"root[max_chars={most}] ::= {body}")) == expected
        inner = f"root ::= part+\npart[max_chars={most}] ::= rest\nrest ::= {body}"
        repeated = {text for text in TEXTS if _is_made_of(text, expected)}
        assert set(taken(inner)) == repeated
    assert set(taken(f"root[max_chars=3, lazy] ::= {body}")) == by_definition(language, 0)


def _is_made_of(text: str, parts: set[str]) -> bool:
    ends = {0} if parts else set()
    reached: set[int] = set()
    while ends - reached:
        reached |= ends
        ends = {start + len(part) for start in reached for part in parts if text.startswith(part, start)}
    return bool(parts) and (len(text) in ends)


@pytest.mark.parametrize("least", [0, 1, 3])
def test_earliest_ends_by_the_twin(least: int) -> None:
    any_ = ("any",)
    for language in (
        ("text",),
        ("repeat", any_, 2, None),
        ("repeat", ("class", ((97, 98),)), 1, 4),
        ("literals", ("a", "ab")),
    ):
        expected = by_definition({text for text in TEXTS if accepts(language, text)}, least)
        assert {text for text in TEXTS if accepts(earliest_end(language, least), text)} == expected


def test_characters_are_counted_not_bytes() -> None:
    texts = ["\u20ac>", "\u20aca>", "\u20aca\U0001f600>"]
    assert taken('root ::= v ">"\nv[max_chars=2] ::= [^]*', texts) == texts[:2]


def test_rules_of_rules() -> None:
    source = 'root ::= "<" r ">"\nr[lazy] ::= ((x))\nx ::= ((y))\ny ::= (([ab] y) | ([ab]))\n'
    assert taken(source, ["<a>", "<ab>", "<>"]) == ["<a>"]
    assert [rule.name for rule in read_ebnf(source).rules] == ["root", "r"]
    kept = 'root ::= r | y\nr[lazy] ::= x\nx ::= y\ny ::= z\nz ::= "a"\nunused ::= z'
    assert [rule.name for rule in read_ebnf(kept).rules] == ["root", "r", "y", "z", "unused"]
    # A lazy rule in another one is as short as it is alone.
    source = 'root[max_chars=2] ::= (x "b")*\nx[lazy] ::= [a]+'
    assert taken(source) == ["", "ab"]


# Assertions


def test_assertions_change_nothing() -> None:
    for rule in ('"a" (="b")', '("a") (=("b" [0-9]) root*)', '("a" | "b") (= [ab]{2} root )'):
        assert taken(f"root ::= {rule}\n") == taken(f"root ::= {rule.split('(=')[0]}\n")
    assert taken('x ::= "a" (="b")\nroot ::= x "b" | x') == ["a", "ab"]


# Mistakes


@pytest.mark.parametrize(
    ("source", "position", "message"),
    [
        ("root ::= Regex()", (1, 10, 5), "Regex takes one pattern"),
        ('root ::= Regex("a", "b")', (1, 21, 1), "Regex takes one pattern"),
        ("root ::= Regex(abc)", (1, 16, 3), "in double quotes"),
        ('root ::= Regex("a",)', (1, 20, 1), "needs an argument"),
        ('root ::= Regex("a"', (1, 19, 1), "closing parenthesis"),
        ('root ::= Regex "a"', (1, 16, 3), "in parentheses"),
        ('root ::= Regex("a", foo=true)', (1, 21, 3), "no argument foo"),
        ('root ::= Regex("a", json_string=1)', (1, 33, 1), "true or false"),
        ('root ::= Regex("a", flags=true)', (1, 27, 4), "in double quotes"),
        ('root ::= Regex("a", flags="x")', (1, 27, 3), "no flag 'x'"),
        ('root ::= Regex("a", flags="i", flags="i")', (1, 32, 5), "given twice"),
        ('root ::= Regex(flags="i", "a")', (1, 27, 3), "follows a named one"),
        ('root ::= Substring("a", b)', (1, 25, 1), "in double quotes"),
        ('root ::= Substring("a", 1)', (1, 25, 1), "in double quotes"),
        ('root ::= Substring("a", x="b")', (1, 25, 1), "no argument x"),
        ('root[lazy, lazy] ::= "a"', (1, 12, 4), "given twice"),
        ('root[lazy=1] ::= "a"', (1, 11, 1), "takes no value"),
        ('root[max_chars] ::= "a"', (1, 6, 9), "a whole number"),
        ('root[max_chars=-1] ::= "a"', (1, 16, 2), "a whole number"),
        ('root[max_chars=2147483648] ::= "a"', (1, 16, 10), "a whole number"),
        ('root[max_tokens=0] ::= "a"', (1, 17, 1), "a whole number from 1"),
        ('root[temperature=1e999] ::= "a"', (1, 18, 5), "from 0 to 1,000,000"),
        ('root[temperature=x] ::= "a"', (1, 18, 1), "from 0 to 1,000,000"),
        ('root[stop_capture] ::= "a"', (1, 6, 12), "a name"),
        ('root[capture=""] ::= "a"', (1, 14, 2), "a name"),
        ('root[suffix="]"] ::= "a"', (1, 6, 6), "no option suffix"),
        ('root[lazy,] ::= "a"', (1, 11, 1), "an option, its value"),
        ('root ::= "a" (="b"', (1, 14, 2), "is not closed"),
        ('root ::= "a" (=)', (1, 14, 2), "is empty"),
        ('root ::= "a" (=*)', (1, 16, 1), "nothing to repeat"),
        ('root ::= "a" (="b" | "c")', (1, 20, 1), "may contain only"),
        ('root ::= "a" (=Substring("b"))', (1, 16, 9), "may contain only"),
        ('root ::= "a" (=x)', (1, 16, 1), "no rule x"),
        ('root ::= "a" (="b") "c"', (1, 21, 3), "at the end of its rule"),
        ('root ::= "a" (="b") (="c")', (1, 21, 2), "at the end of its rule"),
    ],
)  # fmt: skip
def test_mistakes(source: str, position: tuple[int, int, int], message: str) -> None:
    check_error(read_ebnf, source, position, message)


@pytest.mark.parametrize(
    "body",
    ['"a" root "b" | ""', '"a" root | "b"', 'x\nx ::= "a" x "b" | "c"', "x x\nx ::= x [ab] root | [ab]"],
)
def test_rules_with_an_end_are_regular(body: str) -> None:
    with pytest.raises(GrammarUnsupported, match="recursive") as caught:
        read_ebnf(f"root[lazy] ::= {body}")
    assert (caught.value.line, caught.value.column, caught.value.length) == (1, 5, 6)


def test_patterns_are_shown_with_their_place() -> None:
    with pytest.raises(RegexSyntaxError, match="nothing to repeat") as caught:
        read_ebnf('root ::= "x"\n| Regex("+a")')
    assert caught.value.where == "Regex at line 2, column 3"
    assert caught.value.position == 0
    with pytest.raises(RegexSyntaxError, match="four hexadecimal digits"):
        read_ebnf(r'root ::= Regex("\\u12")')


def test_what_has_no_text_is_empty() -> None:
    with pytest.raises(EmptyConstraint):
        sg.Matcher(sg.ebnf('root ::= Regex("\\"", json_string=true)'), BYTES)


# Captures, temperatures and token limits


def _rules(source: str) -> dict[str, Rule]:
    return {rule.name: rule for rule in read_ebnf(source).rules}


def test_tokens_are_counted() -> None:
    rules = _rules('root ::= a " " b\na[max_tokens=1] ::= sub\nb ::= sub\nsub ::= [a-z] sub | [a-z]')
    assert rules["a"].token_limit == (1, False) and rules["b"].token_limit is None
    vocabulary = sg.Vocabulary.from_tokens([b"a", b"b", b"ab", b" ", b"!", None], [5])
    matcher = sg.Matcher(sg.ebnf('root ::= a "!" a " "\na[max_tokens=2] ::= ("a" "b"*)+'), vocabulary)
    for token, following in ((0, [0, 1, 2, 4]), (1, [4]), (4, [0, 2]), (2, [0, 1, 2, 3]), (2, [3])):
        assert matcher.advance(token)
        mask = int(matcher.mask()[0])
        assert [i for i in range(5) if mask >> i & 1] == following


def test_captures_and_temperatures() -> None:
    rules = _rules(
        'root ::= "a" v w\nv[capture="num", temperature=0.5] ::= [0-9]+\nw[capture] ::= v | "x" w\n'
    )
    assert (rules["v"].capture, rules["v"].temperature, rules["w"].capture) == ("num", 0.5, "w")
    assert rules["root"].capture is None and rules["root"].ending is None
    short = _rules('root[lazy, capture="x", temperature=0] ::= [ab]+')["root"]
    assert (short.capture, short.temperature) == ("x", 0.0)
    assert short.body == _rules("root[lazy] ::= [ab]+")["root"].body


@pytest.mark.parametrize("kind", ["suffix", "stop"])
def test_markers(kind: str) -> None:
    pattern = 'Regex("(\\?:[a-z]*)(\\?:!\u00e9)")'
    source = f'r[capture="x", capture_hidden_{kind}_bytes=2, lazy] ::= {pattern}\nroot ::= r "z"'
    ending = _rules(source)["r"].ending
    assert ending == Ending(("text",), ("literal", "\u00e9"), None, kind == "stop")
    source = (
        f'root ::= r "z"\nr[capture_hidden_{kind}_bytes=1, capture_hidden_body_rule_id=2, '
        'capture_hidden_marker_rule_id=3, stop_capture="m", lazy] ::= body marker\nbody ::= [a-z]*\nmarker ::= "!"+\n'
    )
    rules = _rules(source)
    before, marker = _rules("root ::= [a-z]*")["root"].body[1], ("repeat", ("literal", "!"), 1, None)
    assert rules["r"].ending == Ending(before, marker, "m", kind == "stop")
    assert taken(source, ["ab!z", "ab!!z", "abz"]) == ["ab!z"]
    dispatch = (
        f'root[capture_hidden_{kind}_bytes=1] ::= TagDispatch(("!", e), loop_after_dispatch=false)\ne ::= ""'
    )
    assert _rules(dispatch)["root"].ending == Ending(("text",), ("literal", "!"), None, kind == "stop")
    assert taken(dispatch, ["ab!", "ab", "a!b"]) == ["ab!", "ab"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('stop_capture="m"', "need a marker"),
        ("capture_hidden_body_rule_id=0, capture_hidden_marker_rule_id=1", "need a marker"),
        ("capture_hidden_suffix_bytes=1, capture_hidden_stop_bytes=1", "a suffix or a stop"),
        ("capture_hidden_suffix_bytes=1, capture_hidden_body_rule_id=0", "need each other"),
        (
            "capture_hidden_suffix_bytes=1, capture_hidden_body_rule_id=0, capture_hidden_marker_rule_id=7",
            "no rule has this number",
        ),
        ("capture_hidden_suffix_bytes=0", "a whole number from 1"),
    ],
)
def test_mistakes_about_markers(options: str, message: str) -> None:
    with pytest.raises(GrammarSyntaxError, match=message):
        read_ebnf(f'root[{options}] ::= "ab"\nother ::= "c"')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('root[capture_hidden_suffix_bytes=1] ::= "a" [bc]', "the marker"),
        ('root[capture_hidden_suffix_bytes=1] ::= "\u00e9"', "the marker"),
        ('root[capture_hidden_suffix_bytes=1] ::= "a" root "b" | "b"', "recursive"),
        ('root[max_chars=3] ::= a\na ::= b\nb[capture] ::= "x"', "the rule b has a capture"),
        ('root[max_chars=3] ::= a\na ::= b\nb[max_tokens=2] ::= "x"', "the rule b has a capture"),
    ],
)
def test_options_that_are_refused(source: str, message: str) -> None:
    with pytest.raises(GrammarUnsupported, match=message) as caught:
        read_ebnf(source)
    assert caught.value.line == 1 and caught.value.hint
