"""Messages about invalid patterns, and the time that hostile patterns take."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import pytest

from structgen.constraints.regex import RegexLimits, pattern_language, regex
from structgen.constraints.regex.constraint import Dialect
from structgen.errors import LimitExceeded, RegexError, RegexSyntaxError, RegexUnsupported, StructgenError


@pytest.mark.parametrize(
    ("pattern", "position", "text"),
    [
        ("a(b", 1, "this group is not closed"),
        ("a)b", 1, "closes no group"),
        ("[ab", 0, "this class is not closed"),
        ("a**", 2, "follows another quantifier"),
        ("ab|*", 3, "follows nothing"),
        ("^*", 1, "follows an anchor"),
        ("x{3,2}", 1, "bounds are reversed: {3,2}"),
        ("[z-a]", 1, "ends before it starts"),
        (r"[a-\d]", 1, "single characters"),
        ("a\\", 1, "a backslash ends the pattern"),
        (r"a\y", 1, r"unknown escape \y"),
        (r"\x4", 0, "2 hexadecimal digits"),
        (r"\U00110000", 0, "Unicode ends"),
        (r"\N{NO SUCH THING}", 0, "no character named"),
        ("\\N{\ud800}", 0, "no character named"),
        (r"\777", 0, r"above \377"),
        (r"a\1", 1, "no group 1"),
        ("(?P<1a>b)", 4, "is not an identifier"),
        ("(?P<a>b)(?P<a>c)", 12, "used twice"),
        ("(?<a>b)", 0, "Python writes a named group (?P<name>...)"),
        ("a(?i)", 1, "must be at its start"),
        ("(?q)", 0, "unknown mode 'q'"),
        ("(?Li)", 0, "bytes only"),
        ("(?-i)", 0, "for a group only"),
        ("(?au)", 0, "exclude one another"),
        ("(?)", 0, "a mode is missing"),
        ("(?#x", 0, "comment is not closed"),
        ("(*FAIL)", 1, "nothing to repeat"),
    ],
)
def test_syntax_errors_have_a_position(pattern: str, position: int, text: str) -> None:
    with pytest.raises(RegexSyntaxError) as caught:
        regex(pattern)
    assert text in str(caught.value)
    assert caught.value.position == position
    assert caught.value.pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "position", "feature"),
    [
        (r"(.)b\1", 4, "back-reference"),
        ("(?P<n>.)(?P=n)", 8, "back-reference"),
        ("(?:a|ab){2}+", 8, "atomic group"),
        ("x(?>(?:a|)*)", 1, "atomic group"),
        ("(a)(?(1)b|c)", 3, "conditional groups"),
        ("a(?R)", 1, "recursive patterns"),
        ("(a)(?1)", 3, "recursive patterns"),
        ("(?&name)", 0, "recursive patterns"),
    ],
)
def test_refusals_have_a_position(pattern: str, position: int, feature: str) -> None:
    with pytest.raises(RegexUnsupported, match=f"{feature}s? (is|are) not supported") as caught:
        regex(pattern)
    assert caught.value.position == position


def test_the_whole_message() -> None:
    with pytest.raises(RegexSyntaxError) as caught:
        regex("[0-9]+)")
    assert str(caught.value) == (
        "this ')' closes no group\n"
        "  at position 6:\n"
        "    [0-9]+)\n"
        "          ^\n"
        "Remove it, or write '\\)' for the character."
    )


def test_the_message_shows_the_line_of_a_long_pattern() -> None:
    with pytest.raises(RegexSyntaxError) as caught:
        regex("(?x)\n" + "a b\n" * 50 + "  c\t**\n")
    lines = str(caught.value).splitlines()
    assert lines[1] == "  at position 210 (line 52, column 6):"
    assert lines[2] == r"      c\t**"
    assert lines[3].index("^") == lines[2].index("**") + 1


def test_the_message_cuts_long_lines() -> None:
    with pytest.raises(RegexSyntaxError) as caught:
        regex("a" * 5000 + ")" + "b" * 5000)
    assert all(len(line) < 90 for line in str(caught.value).splitlines())
    assert ")" in str(caught.value).splitlines()[2]


def test_errors_survive_pickling() -> None:
    with pytest.raises(RegexError) as caught:
        regex("a(")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.position) == (str(caught.value), 1)


# Functions, so that a text lives no longer than its test: together they are 10 MB.
HOSTILE: dict[str, Callable[[], str]] = {
    "parentheses": lambda: "(" * 100_000 + ")" * 100_000,
    "nested alternatives": lambda: "(a|" * 150 + ")" * 150,
    "nested repetitions": lambda: "(" * 150 + "a" + "*)" * 150,
    "nested looks": lambda: "(?=a" * 150 + ")" * 150,
    "looks in a row": lambda: "(?=a)" * 20_000,
    "boundaries in a row": lambda: r"\b" * 500_000,
    "boundaries apart": lambda: r"\b.*" * 100_000,
    "anchors in alternatives": lambda: "(?:$|a)" * 5_000,
    "anchors in repetitions": lambda: "(?:^|a|$)*" * 150,
    "a megabyte of text": lambda: "a" * 1_000_000,
    "a megabyte in any case": lambda: "(?i)" + "aé" * 400_000,
    "a megabyte of classes": lambda: "[a-z]" * 200_000,
    "a megabyte of alternatives": lambda: "a|" * 500_000,
    "a megabyte in a class": lambda: "[" + "a-z" * 300_000 + "]",
    "a megabyte of open classes": lambda: "[" * 1_000_000,
    "too long": lambda: "a" * 1_000_001,
    "a large count": lambda: "a{1,1000000000}",
    "a count of many digits": lambda: "a{" + "9" * 500_000 + "}",
    "octal or not": lambda: r"\8" * 400_000,
    "comments": lambda: "(?#" * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dialect", ["python", "ecma"])
def test_hostile_patterns_end_soon(name: str, dialect: Dialect) -> None:
    pattern = HOSTILE[name]()
    start = time.process_time()
    try:
        hash(regex(pattern, dialect=dialect))
        pattern_language(pattern, dialect)
    except StructgenError as error:
        assert len(str(error)) < 1000
    assert time.process_time() - start < 60  # 1.5 s at most are usual


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("parentheses", "pattern_depth"),
        ("nested looks", "look_depth"),
        ("looks in a row", "pattern_conditions"),
        ("a large count", "repetition_count"),
        ("too long", "pattern_length"),
    ],
)
def test_limits_are_named(name: str, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        regex(HOSTILE[name]())
    assert caught.value.limit == limit
    assert caught.value.hint


def test_limits_can_be_raised() -> None:
    with pytest.raises(LimitExceeded, match="3"):
        regex("((((a))))", limits=RegexLimits(depth=3))
    assert regex("((((a))))", limits=RegexLimits(depth=4)) == regex("a")
    assert regex("a{2000000}", limits=RegexLimits(count=2_000_000)).regular() == (
        "repeat",
        ("literal", "a"),
        2000000,
        2000000,
    )
