"""The ECMA-262 dialect: what JSON Schema patterns mean, strictly and leniently."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.regex import pattern_language, regex
from structgen.constraints.regex.ecma import StrictEcmaParser
from structgen.errors import OptionError, RegexError, RegexSyntaxError
from tests.oracles.ecma_regex import search as oracle_search
from tests.oracles.regex_twin import accepts
from tests.shared import maskbench
from tests.strategies.patterns import patterns, texts

# Name of each pattern of MaskBench that is refused, and why; this list only shrinks.
REFUSED = {
    r"^\s*<([A-Za-z]+).+?(\/>|\/\1>)\s*$": "this back-reference is not supported: its group has more than 256 texts, "
    "or depends on the text around it"
}


def found(pattern: str, text: str) -> bool:
    return accepts(pattern_language(pattern), text)


@settings(deadline=None, max_examples=200)
@given(patterns(looks=False), st.lists(texts, min_size=4, max_size=12))
def test_the_language_is_that_of_the_oracle(pattern: str, samples: list[str]) -> None:
    pattern = pattern.replace("{,", "{0,")  # a brace without a lower bound is no quantifier here
    for text in ["", *samples]:
        assert found(pattern, text) == oracle_search(pattern, text), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("foo", ["foo", "a foo b"], ["fo"]),
        ("^foo$", ["foo"], ["foo\n", "a foo"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        (r"^\d+$", ["12"], ["٣"]),
        (r"^\w+$", ["a_1"], ["é"]),
        (r"^\s+$", [" \u00a0\ufeff\u2028"], ["\x1c", "\x85"]),
        (r"^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028", ""]),
        (r"^\p{Lu}\p{Script=Greek}\P{L}$", ["Aλ1"], ["aλ1", "Aa1", "Aλa"]),
        (r"^\p{Emoji_Presentation}$", ["😀"], ["a"]),
        (r"^\p{sc=Grek}\p{scx=Deva}\p{Alphabetic}\p{gc=Nd}$", ["λ\u0951a1"], ["λaa1"]),
        (r"^[\p{L}\d]+$", ["éa1"], ["-"]),
        (r"^\u0041\x42\u{43}\u{1F600}\ud83d\ude00$", ["ABC😀😀"], []),
        (r"^\cJ\0$", ["\n\0"], []),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^[]$", [], ["", "a"]),
        (r"^[^]$", ["a", "\n"], [""]),
        (r"^(?<year>\d{4})$", ["2024"], ["24"]),
        (r"^(?i:a)b$", ["Ab", "ab"], ["AB"]),
        (r"^a{2}$", ["aa"], ["a"]),
        (r"^(?=.*\d)(?=.*[a-z]).{4,}$", ["abc1", "1abc"], ["abcd", "a1"]),
        (r"^(?!foo)", ["bar", ""], ["foobar"]),
        (r"\bfoo\b", ["a foo b", "foo"], ["afoo", "foob"]),
        (r"\.(?<!\.\.)$", ["a."], ["a..", "a"]),
        ("", ["", "a"], []),
    ],
)
def test_strict_cases(pattern: str, yes: list[str], no: list[str]) -> None:
    assert StrictEcmaParser(pattern).parse() is not None
    assert all(found(pattern, text) for text in yes)
    assert not any(found(pattern, text) for text in no)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^\-\_\#\y$", ["-_#y"], []),
        (r"^a]b}c{$", ["a]b}c{"], []),
        (r"^x{,5}$", ["x{,5}"], ["x"]),
        (r"^[\w-z]$", ["-", "a", "z"], ["+"]),
        (r"\Afoo\Z", ["foo"], ["foo\n"]),
        (r"\Afoo\z", ["foo"], ["foo\n"]),
        (r"(?i)^abc$", ["aBc"], ["ab"]),
        (r"(?s)^a.c$", ["a\nc"], []),
        (r"^\pL\PN$", ["aa"], ["1a", "a1"]),
        (r"^(?P<n>a)$", ["a"], []),
        (r"^\012\8\1$", ["\n8\x01"], []),
        (r"^\c$", ["\\c"], []),
        (r"^[\c_]$", ["\x1f"], []),
        (r"^\xZ\uZ$", ["xZuZ"], []),
        (r"^\k$", ["k"], []),
        (r"^(?=a)*a$", ["a"], []),
        (r"^[[:alpha:]]$", ["a]", ":]"], ["b"]),
    ],
)
def test_lenient_cases(pattern: str, yes: list[str], no: list[str]) -> None:
    assert all(found(pattern, text) for text in yes)
    assert not any(found(pattern, text) for text in no)
    if pattern != r"^[[:alpha:]]$":
        with pytest.raises(RegexError):
            StrictEcmaParser(pattern).parse()


@settings(deadline=None, max_examples=300)
@given(st.text(r"ab1()[]{}|*+?.^$\-,:=!<>k#xduwpLZ" + "\n", max_size=10))
def test_what_is_strict_means_the_same_leniently(pattern: str) -> None:
    try:
        strict = StrictEcmaParser(pattern).parse()
    except RegexError:
        return
    from structgen.constraints.regex.ecma import EcmaParser

    assert EcmaParser(pattern).parse() == strict


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "a**", "*", "[b-a]", "(?<a", r"\p{Nonsense}", "(?q)", "\\"]
)
def test_refused_in_any_mode(pattern: str) -> None:
    with pytest.raises(RegexSyntaxError):
        pattern_language(pattern)


def test_flags() -> None:
    assert accepts(regex("a.^b", dialect="ecma", flags=re.I | re.S | re.M).regular(), "A\nB")
    with pytest.raises(OptionError, match="VERBOSE"):
        regex("a", dialect="ecma", flags=re.X)


def test_lines_end_at_four_characters() -> None:
    expression = regex("a$.^b", dialect="ecma", flags=re.M | re.S).regular()
    assert [accepts(expression, f"a{end}b") for end in "\n\r\u2028\u2029\x85x"] == [True] * 4 + [False] * 2


def test_case_is_that_of_simple_folding() -> None:
    assert found(r"(?i)^\u{212a}$", "k")
    assert found("(?i)^ſ$", "S")
    assert not found("(?i)^i$", "\u0131")
    assert not found("(?i)^ß$", "ss")


def test_all_patterns_of_maskbench_are_read() -> None:
    refused = {}
    for pattern in set(_patterns_of(record["schema"] for record in maskbench())):
        try:
            pattern_language(pattern)
        except RegexError as error:
            refused[pattern] = error.message
    assert refused == REFUSED


def _patterns_of(values: object) -> list[str]:
    pending, result = list(values), []  # type: ignore[call-overload]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                result.append(value["pattern"])
            if isinstance(value.get("patternProperties"), dict):
                result.extend(value["patternProperties"])
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return result
