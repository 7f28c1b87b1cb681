"""Anchors and look-around become plain expressions, which mean the same to the twin and to the core."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import RegexSpace
from structgen.constraints.expressions import ANY, EPSILON, NOTHING, TEXT, has_look
from structgen.constraints.regex import pattern_language, regex
from structgen.errors import LimitExceeded
from tests.oracles.regex_twin import accepts
from tests.strategies.patterns import patterns, texts


@pytest.mark.parametrize(
    "pattern",
    [
        "^a$|^b$",
        "^(a|b$)",
        "(^|,)a(,|$)",
        r"\bfoo\b",
        r"^\B.\B$",
        "^(?=.*[A-Z])(?=.*[0-9])(?!.*--).{8,}$",
        r"^(?=.*\bfoo\b).*$",
        "(?<!a)b(?!c)",
        "^.*(?<!foo)$",
        "^((?!foo).)*$",
        "^((?!foo)(?!bar).)*$",
        "^(.(?!foo))*$",
        "^([^,]+(,|$)){3,}$",
        r"^(\/?((\.{2})|([a-z0-9\-]*))($|\/))*$",
        "^(?:(?:^x|y)z)+$",
        "(?m:^a$)",
    ],
)
def test_usual_patterns_become_plain(pattern: str) -> None:
    assert not has_look(pattern_language(pattern))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^abc$", ("literal", "abc")),
        ("abc", ("concat", (TEXT, ("literal", "abc"), TEXT))),
        ("^abc", ("concat", (("literal", "abc"), TEXT))),
        ("^(?:a|b)$|^cd$", ("alternate", (("class", ((97, 98),)), ("literal", "cd")))),
        ("x*", TEXT),
        ("^[a-z]+", ("concat", (("class", ((97, 122),)), TEXT))),
        ("^", TEXT),
        ("^$", EPSILON),
        ("$^", EPSILON),
        ("a^", NOTHING),
        ("$a", NOTHING),
        (r"a\bb", NOTHING),
        (r"^[\s\S]*$", TEXT),
        (r"^[\s\S]$", ANY),
    ],
)
def test_small_results(pattern: str, expected: object) -> None:
    assert pattern_language(pattern) == expected


@settings(deadline=None, max_examples=200)
@given(patterns(), st.lists(texts, min_size=4, max_size=10))
def test_the_core_agrees_with_the_twin(pattern: str, samples: list[str]) -> None:
    for expression in (regex(pattern).regular(), pattern_language(pattern, "python")):
        space = RegexSpace()
        try:
            state = space.compile(expression)
        except LimitExceeded:
            continue
        for text in ["", *samples]:
            assert space.matches(state, text.encode()) == accepts(expression, text), (pattern, text)


@pytest.mark.parametrize(
    "inside", ["a|b", "(?:a|b)", "a*b{2,3}", "(?:^a)?b", "a\\b", "(?=a).", ".(?<=a)", "", "^a$", "a$|^b"]
)
def test_a_pattern_between_anchors_means_what_re_says(inside: str) -> None:
    """The short way for ``^...$`` is right, also if there are other conditions inside."""
    pattern = f"^{inside}$"
    for text in ("", "a", "b", "aa", "ab", "abb", "bb", "bbb", "aabbb", "ba"):
        assert accepts(pattern_language(pattern), text) == (re.search(pattern, text) is not None), text
