"""The preferred matches of patterns, against the matches of `re` on texts."""

from __future__ import annotations

import re
import time
import warnings

import pytest
from hypothesis import HealthCheck, assume, given, settings

from structgen._core._native import RegexSpace
from structgen.constraints.grammar.builders import lark
from structgen.constraints.grammar.lark.preferred_match import Preference, preference
from structgen.errors import LimitExceeded, RegexUnsupported
from tests.strategies.patterns import patterns, texts

PYTHON_STRING = r"""(?i:([ubf]?r?|r[ubf])("(?!"").*?(?<!\\)(\\\\)*?"|'(?!'').*?(?<!\\)(\\\\)*?'))"""
PYTHON_LONG_STRING = r"""(?s:([ubf]?r?|r[ubf])(\"\"\".*?(?<!\\)(\\\\)*?\"\"\"|'''.*?(?<!\\)(\\\\)*?'''))"""

KINDS = [
    (r"[a-z]+", "longest"),
    (r"[^\W\d]\w*", "longest"),
    (r'"[^"]*"', "longest"),
    (r'"(?:[^"\\]|\\.)*"', "longest"),
    (r"ab|a", "longest"),
    (r"abc|abd|ab", "longest"),
    (r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", "longest"),
    (r"(?:abc)??abc", "shortest"),
    (r"[a-z]{1,1000}", "longest"),
    (r"\d+(?!\d)", "longest"),
    (r"\w+\b", "longest"),
    (r"(?m:#.*$)", "longest"),
    (r"a(?<=a)b*", "longest"),
    (r"/\*(.|\n)*?\*/", "shortest"),
    (r"a|ab", "shortest"),
    (r"in|int|integer", "shortest"),
    (r"a+?", "shortest"),
    (r'".*?(?<!\\)(\\\\)*?"', "shortest"),
    (PYTHON_STRING, "shortest"),
    (PYTHON_LONG_STRING, "shortest"),
    (r"a?(ab)?", "other"),
    (r"\d+|\d+\.\d+", "other"),
    (r"0|[1-9]\d*|0x[0-9a-f]+", "other"),
    (r"\d+(\.\d+?)?", "other"),
    (r"(a|ab)(c|bcd)(d*)", "longest"),
    (r"(a|ab)(c|bcd)?", "other"),
    (r"(|a)+b*", "other"),
    (r"a*(a(.a*){2,}){2}||a\b", "other"),
]
TEXTS = [
    "",
    "a",
    "ab",
    "aab",
    "abcd",
    "abc",
    "0x1f",
    "12.34",
    '"a"b"',
    '""',
    '"\\""',
    "/* * */ */",
    "integer",
    "aaa",
    "'''a'''",
]


@pytest.mark.parametrize(("pattern", "kind"), KINDS)
def test_kind(pattern: str, kind: str) -> None:
    found = preference(pattern)
    assert found.kind == kind
    for text in TEXTS:
        check(found, pattern, text)


@settings(suppress_health_check=list(HealthCheck))
@given(patterns(), texts)
def test_is_what_re_takes(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(pattern)
        except re.error:
            assume(False)
    try:
        found = preference(pattern)
    except (RegexUnsupported, LimitExceeded):
        assume(False)
    check(found, pattern, text)


@settings(suppress_health_check=list(HealthCheck))
@given(patterns(depth=3, looks=False), texts)
def test_is_what_re_takes_without_looks(pattern: str, text: str) -> None:
    try:
        found = preference(pattern)
    except LimitExceeded:
        assume(False)
    check(found, pattern, text)


def check(found: Preference, pattern: str, text: str) -> None:
    """The longest prefix in the language is the match of `re`, unless a returned condition forbids it."""
    space = RegexSpace()
    language = space.compile(found.language)
    prefixes = [text[:length] for length in range(len(text) + 1)]
    for condition in found.conditions:
        conditional = space.compile(condition.language)
        for prefix, following in zip(prefixes, text, strict=False):
            excluded = any(low <= ord(following) <= high for low, high in condition.excluded)
            if excluded and space.matches(conditional, prefix.encode()):
                return
    lengths = [len(prefix) for prefix in prefixes if space.matches(language, prefix.encode())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        match = re.match(pattern, text)
    assert (max(lengths) if lengths else None) == (match.end() if match else None)


def test_conditions_are_what_may_not_follow() -> None:
    space = RegexSpace()
    [condition] = preference(r"if\b").conditions
    assert space.matches(space.compile(condition.language), b"if")
    assert any(low <= ord("x") <= high for low, high in condition.excluded)
    assert not any(low <= ord("(") <= high for low, high in condition.excluded)
    double, single = sorted(preference(PYTHON_STRING).conditions, key=lambda one: one.excluded)
    assert (double.excluded, single.excluded) == (((34, 34),), ((39, 39),))
    assert space.matches(space.compile(double.language), b'rb""')
    assert not space.matches(space.compile(double.language), b'"a"')


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(?<!x)a", "the text before the lexeme"),
        (r"^a", "the text before the lexeme"),
        (r"\ba", "the character before the lexeme"),
        (r"a(?=b)", "the text after the lexeme decides"),
        (r"a$", "more than one character after the lexeme"),
        (r"a(?!bc)", "more than one character after the lexeme"),
        (r"a(?:\b|)b?", "the text after the lexeme decides"),
        (r"(?=a\b)a", "conditions inside look-around"),
    ],
)
def test_text_outside_of_the_lexeme_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(RegexUnsupported, match=message):
        preference(pattern)


def test_limits() -> None:
    start = time.process_time()
    for pattern in [r"((a|b){1,100}c?){1,100}", r"(?:a?){2000}a{2000}b?", r"(?:a|b|ab|ba){300}(?:a|aa)*"]:
        with pytest.raises(LimitExceeded):
            preference(pattern)
    assert time.process_time() - start < 30


def test_long_patterns_of_one_way_meet_the_limit_too() -> None:
    """Lists of one thread also count: this took seconds before it exceeded a limit."""
    pattern = r"\\u(?:[0-9A-Fa-f]){11000}(?:[0-9]|[A-F]|[a-f]|[g-z]|[G-Z]|[.,;:!?])*"
    begin = time.process_time()
    with pytest.raises(LimitExceeded, match="which match of the pattern"):
        preference(pattern)
    assert time.process_time() - begin < 20


def test_the_terminals_of_a_grammar_share_a_limit() -> None:
    rules = "start: " + " | ".join(f"T{i}" for i in range(300)) + "\n"
    terminals = "\n".join(f"T{i}: /(x|y){{1,{1000 + i}}}?z/" for i in range(300))
    with pytest.raises(LimitExceeded, match="this terminal and those before it"):
        lark(rules + terminals)


def test_parts_of_terminals_count_as_well() -> None:
    rules = "start: " + " | ".join(f"T{i}" for i in range(20)) + "\n"
    parts = "\n".join(
        f"T{i}: P{i} & Q{i}\nP{i}: /(?=[xy])(x|y){{1,{6000 + i}}}?z/\nQ{i}: /[xyz]+/" for i in range(20)
    )
    begin = time.process_time()
    with pytest.raises(LimitExceeded, match="those before it"):
        lark(rules + parts)
    assert time.process_time() - begin < 60


def test_nothing_a_million_times() -> None:
    assert preference(r"(?:(?:){1000000}){1000000}a").kind == "longest"
