"""Atomic groups, possessive quantifiers and back-references, against Python's `re`, which has all of them."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import structgen as sg
from structgen import _core
from structgen.errors import LimitExceeded, RegexSyntaxError, RegexUnsupported

TEXTS = ["".join(letters) for n in range(7) for letters in itertools.product("abc", repeat=n)]


def matched(pattern: str, texts: list[str] = TEXTS, **options: object) -> list[str]:
    space = _core.RegexSpace()
    compiled = space.compile(sg.regex(pattern, **options).regular())  # type: ignore[arg-type]
    return [text for text in texts if space.matches(compiled, text.encode())]


def by_re(pattern: str, texts: list[str] = TEXTS) -> list[str]:
    compiled = re.compile(pattern)
    return [text for text in texts if compiled.fullmatch(text)]


PATTERNS = [
    "a++b", "a++a", "a*+a", "a*+b", "a?+a", "a?+ab", "(?>a)", "(?>a|ab)c", "(?>ab|a)c", "(?>a|ab)(?>c|bc)",
    "(?>a*)b", "(?>a*)ab", "(?>a*?)b", "(?>a+?)ab", "(?>a{2,3})a", "(?>a{2,3}?)a", "a{2,3}+a", "a{2}+a", "a{1,}+c",
    "(?:ab|a)++b", "(?:a|ab)++c", "(?:a|ab)*+b", "(?>(?:a|ab){2})c", "(?>(?:a|ab)(?:c|bc))a", "(?>[ab]*b)c",
    "(?>[ab]*b|c)a?", "(?>a*b)*+a", "(?:a*b)*+a", "(?:ab?)?+b", "(?>(?>a|ab)c|ab)c", "(?>(?:a|b)+?c)a",
    "(?>(?:a|bc)*)b", "(?>(?:ab|a|b)+)c", "x|(?>a|ab)c|b", "(?>a|)b", "(?>|a)b", "(?>)a", "(?:(?>a|ab)c)*b",
    "(?!(?>a|ab)c)[abc]*", "(?=(?>a|ab)c)[abc]*", "(?>a(?!b)|ab)c?", "(?:a\\b)*+", "(?>a\\b)", "(?>ab\\b|a)b?",
    "(?>a{0,2}?b)a", "(?>(?:a|ab){1,2}?c)a", "(?>(?:a|ab){0,3})c", "(?>[ab]{2,}?c)a", "a++(?>b|bc)c",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_first_match(pattern: str) -> None:
    assert matched(pattern) == by_re(pattern)


def _pattern(random_: random.Random, depth: int) -> str:
    if depth == 0 or random_.random() < 0.2:
        return random_.choice(["a", "b", "c", "ab", "[ab]", "[^a]", "."])
    inner = [_pattern(random_, depth - 1) for _ in range(2)]
    match random_.randrange(8):
        case 0 | 1:
            return "".join(inner)
        case 2 | 3:
            return f"(?:{inner[0]}|{inner[1]})"
        case 4:
            return f"(?>{inner[0]}|{inner[1]})"
        case 5:
            return f"(?>{inner[0]})"
        case _:
            quantifier = random_.choice(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"]) + random_.choice(
                ["", "?", "+"]
            )
            return f"(?:{inner[0]}){quantifier}"


@pytest.mark.parametrize("seed", range(25))
def test_random_patterns(seed: int) -> None:
    random_ = random.Random(seed)
    read = 0
    for _ in range(25):
        pattern = _pattern(random_, 3)
        try:
            found = matched(pattern, TEXTS[:400])
        except RegexUnsupported:
            continue
        read += 1
        assert found == by_re(pattern, TEXTS[:400]), pattern
    assert read > 10


REFERENCES = [
    "(a)\\1", "((a)\\2)", "(a|b)c\\1", "(a|b)*", "(a|ab)\\1", "([ab]{1,2})c\\1", "(a)?b\\1", "(?:(a)|b)\\1",
    "(?P<x>a|b)(?P=x)",
    "(?:(a|b)\\1)*", "(a|b)(?!\\1)[abc]", "(a|b)(?=\\1)[abc]*", "(?:(a)|(b))(?:\\1|\\2)", "((a|b)c)\\1\\2", "(a|b)\\1*",
    "(a|b)(c|\\1)", "(?i:(a))\\1", "(?i)(a|B)\\1", "(|a)b\\1", "(?:(a)\\1|b)c", "(?:(a)|b\\1)c?", "((a)|b)\\2",
    "(a)(?>\\1|b)", "(?>(a)\\1|b)", "([a-c])\\1",
]  # fmt: skip


@pytest.mark.parametrize(
    "pattern", [r"(?:(a|b)(c|d)\1|e)\2", r"(?:x(a|b)(c|d)\1|e)\2", r"((a|a)|(b|a))b\3(?:\2|b)\1"]
)
def test_groups_that_an_earlier_reference_has_copied(pattern: str) -> None:
    texts = ["".join(one) for n in range(6) for one in itertools.product("abcdex", repeat=n)]
    matcher = sg.Matcher(sg.regex(pattern), sg.Vocabulary.of_bytes())
    wanted = [text for text in texts if re.fullmatch(pattern, text)]
    assert wanted and [text for text in texts if matcher.viable_bytes(text) == len(text)] != []
    assert all(matcher.explain(text).ok for text in wanted)
    others = random.Random(1).sample([text for text in texts if text not in set(wanted)], 500)
    assert not any(matcher.explain(text).ok for text in others)


@pytest.mark.parametrize("pattern", REFERENCES)
def test_back_references(pattern: str) -> None:
    texts = [*TEXTS, *("".join(letters) for n in range(4) for letters in itertools.product("aAbB", repeat=n))]
    assert matched(pattern, texts) == by_re(pattern, texts)


def test_references_of_ecma() -> None:
    assert matched("(?<x>a|b)c\\k<x>", dialect="ecma") == ["aca", "bcb"]
    # A group that took no part is empty, and each round of a repetition begins without captures.
    assert matched("(?:(a)|b)\\1", TEXTS, dialect="ecma") == ["b", "aa"]
    rounds = matched("(?:(a)|b\\1c)*", [*TEXTS, "abac", "abc"], dialect="ecma")
    assert "abc" in rounds and "abac" not in rounds


@pytest.mark.parametrize(
    ("pattern", "message", "position"),
    [
        ("(a*)\\1", "its group has more than 256 texts", 4),
        ("(.)\\1", "its group has more than 256 texts", 3),
        ("(a\\b)\\1", "depends on the text around it", 5),
        ("(a)+\\1", "its group is repeated", 4),
        ("(?=(a))\\1", "its group is in a look-around", 7),
        ("(?:(a)|b\\1)*", "an earlier round", 8),
        ("(?>(a|ab))\\1", "in an atomic group", 10),
        ("(?>(?:a|)*)b", "may be empty", 0),
        ("(?:a|ab){2}+", "its rounds have several matches", 8),
        ("(?>(?:a|ab){0,100})c", "more than 64 rounds", 0),
        ("([a-z])" * 5 + "\\1\\2\\3\\4\\5", "too large", None),
    ],
)
def test_refused(pattern: str, message: str, position: int | None) -> None:
    with pytest.raises(RegexUnsupported, match=message) as caught:
        sg.regex(pattern)
    assert position is None or caught.value.position == position
    assert caught.value.hint


def test_mistakes() -> None:
    for pattern, message in [
        ("\\1", "no group 1"), ("(a\\1)", "its own group"), ("(?P=x)", "no group named"),
        ("(?P<x>a(?P=x))", "its own group"),
    ]:  # fmt: skip
        with pytest.raises(re.error):
            re.compile(pattern)
        with pytest.raises(RegexSyntaxError, match=message):
            sg.regex(pattern)


def test_what_changes_nothing_costs_nothing() -> None:
    assert sg.regex("[a-z]++;").regular() == sg.regex("[a-z]+;").regular()
    assert sg.regex('"(?>[^"]*)"').regular() == sg.regex('"[^"]*"').regular()
    assert sg.regex("(?>abc|abd)x").regular() == sg.regex("(?:abc|abd)x").regular()


def test_deep_ones_end() -> None:
    for pattern in ("(?>" * 150 + "a" + "|b)" * 150, "(?>a|ab)" * 300, "(?:" * 100 + "a" + "++|b)" * 100):
        try:
            sg.regex(pattern)
        except (RegexUnsupported, LimitExceeded) as error:
            assert "atomic group" in error.message or error.limit.startswith("pattern_")  # type: ignore[union-attr]


def test_in_schemas() -> None:
    schema = sg.json_schema({"type": "string", "pattern": "^a++b$"})
    matcher = sg.Matcher(schema, sg.Vocabulary.of_bytes())
    assert matcher.explain('"aab"').ok and not matcher.explain('"aa"').ok
