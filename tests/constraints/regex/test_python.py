"""Python's dialect compared with `re` itself: the same texts, the same errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.regex import pattern_language, regex
from structgen.errors import ConstraintError, OptionError, RegexSyntaxError, RegexUnsupported
from tests.oracles.regex_twin import accepts
from tests.strategies.patterns import patterns, texts

FLAGS = st.sampled_from([0, re.I, re.M, re.S, re.A, re.I | re.M])


@settings(deadline=None, max_examples=400)
@given(patterns(), FLAGS, st.lists(texts, min_size=4, max_size=12))
def test_the_language_is_that_of_re(pattern: str, flags: int, samples: list[str]) -> None:
    expected = re.compile(pattern, flags)
    full = regex(pattern, flags=flags).regular()
    search = pattern_language(pattern, "python", flags)
    for text in ["", "a", "a\n", *samples]:
        if not text and r"\B" in pattern:
            continue  # before 3.14, re says that \B does not hold in an empty text
        assert accepts(full, text) == bool(expected.fullmatch(text)), (pattern, text)
        assert accepts(search, text) == bool(expected.search(text)), (pattern, text)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # classes that look as if they held a class
@settings(deadline=None, max_examples=600)
@given(st.text(r"ab1()[]{}|*+?.^$\-,:=!<>P# ixdwsAZ" + "\n", max_size=10))
def test_the_same_patterns_are_refused(pattern: str) -> None:
    try:
        re.compile(pattern)
        allowed = True
    except (re.error, OverflowError) as error:
        allowed = "look-behind requires fixed-width" in str(error)
    try:
        regex(pattern)
        accepted = True
    except RegexSyntaxError:
        accepted = False
    except RegexUnsupported:
        accepted = allowed
    assert accepted == allowed, pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("abc", ["abc"], ["ab", "abcd", ""]),
        (r"\d{3}-\d{4}", ["555-1234", "٣٣٣-1234"], ["555-123"]),
        (r"(?a)\d+", ["12"], ["٣"]),
        (r"(?i)straSSe", ["STRAſſe", "strasse"], ["straße"]),
        (r"(?i)[k-l]", ["K", "\u212a", "l"], ["m"]),
        (r"(?ai)k", ["K"], ["\u212a"]),
        (r"a$", ["a"], ["a\n"]),
        (r"a$\n", ["a\n"], ["a"]),
        (r"(?m)^a$\n^b$", ["a\nb"], ["ab"]),
        (r"(?x) a  b # note" + "\n c", ["abc"], ["a b"]),
        (r"(?x:a b)\ (?-x: )c", ["ab  c"], ["ab c"]),
        (r"x{,2}", ["", "xx"], ["xxx"]),
        (r"x{}|x{,y", ["x{}", "x{,y"], ["x"]),
        (r"[]a]+", ["]a]"], ["b"]),
        (r"[^]a]", ["b"], ["]", "a"]),
        (r"[a\]-]+", ["a]-"], ["b"]),
        (r"\x41\u0042\U00000043\103\07\N{BULLET}", ["ABCC\x07•"], []),
        (r"\0", ["\0"], ["0"]),
        (r"(?P<year>\d{4})(?#note)", ["2024"], ["24"]),
        (r"ab(?#note)?c", ["abc", "ac"], ["c"]),
        (r"ab(?#x)(?#y){2}", ["abb"], ["abab"]),
        (r"(?s).", ["\n"], [""]),
        (r"\ud800", [], ["\ufffd", ""]),
        ("(a|b)*?c", ["ababc", "c"], ["ab"]),
        (r"\bfoo\b.*\bbar\b", ["foo bar", "foo-bar"], ["foobar", "foo barx"]),
    ],
)
def test_cases(pattern: str, yes: list[str], no: list[str]) -> None:
    expression = regex(pattern).regular()
    compiled = re.compile(pattern)
    for text in yes:
        assert accepts(expression, text)
        assert compiled.fullmatch(text)
    for text in no:
        assert not accepts(expression, text)
        assert not compiled.fullmatch(text)


def test_look_behind_may_have_any_width() -> None:
    expression = regex("a*(?<=a*b|aa)").regular()
    assert [accepts(expression, "a" * count) for count in range(4)] == [False, False, True, True]


def test_a_compiled_pattern_brings_its_flags() -> None:
    assert regex(re.compile("a.b", re.S | re.I)) == regex("(?si)a.b")


def test_flags_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="LOCALE"):
        regex("a", flags=re.LOCALE)
    with pytest.raises(OptionError, match="exclude"):
        regex("a", flags=re.ASCII | re.UNICODE)


def test_bytes_are_refused() -> None:
    with pytest.raises(ConstraintError, match="not a bytes"):
        regex(b"a")  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="not a bytes"):
        regex(re.compile(b"a"))  # type: ignore[arg-type]


def test_unknown_dialect() -> None:
    with pytest.raises(OptionError, match="'python', 'ecma' and 'rust'"):
        regex("a", dialect="perl")  # type: ignore[arg-type]
