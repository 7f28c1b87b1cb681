"""The bound on a pattern's states, against the texts that the pattern accepts, and patterns that grow."""

import random

import pytest

from structgen import _core
from structgen.constraints.json_schema import json_schema
from structgen.serving.simple_patterns import simple_pattern_states

from .specs import BYTES

_SIMPLE = [
    "^[a-z]+$",
    "^[a-z][a-z0-9]*$",
    "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
    r"^\d{4}-\d{2}-\d{2}$",
    "^(?:[a-z]+/)?[a-z0-9]+(?::[a-z0-9]{1,32})?$",
    "^(?:north|south|[a-z][a-z ]*)$",
    "[ab]*a[ab]{0,30}",
    "^(a+)+$",
    "^.*foo.*bar.*$",
    "",
    "a|b",
]
_NOT_SIMPLE = [
    "^[ab]*a[ab]{30}$",
    "(a|b)*a(a|b){20}",
    "^[ab]*a[ab][ab][ab][ab][ab][ab][ab][ab]$",
    "[a-z]{5}",
    "^a{1000000}$",
    "^(ab){300}$",
    "^(?=.*a)b*$",
    "^" + "a?" * 300 + "$",
    "(",
]


@pytest.mark.parametrize("pattern", _SIMPLE)
def test_common_patterns_are_simple(pattern):
    assert simple_pattern_states(pattern) is not None


@pytest.mark.parametrize("pattern", _NOT_SIMPLE)
def test_patterns_with_many_states_are_not_simple(pattern):
    assert simple_pattern_states(pattern) is None


def test_counted_characters_are_states():
    assert simple_pattern_states("^[a-z]{5,64}$") >= 64
    assert simple_pattern_states("^[a-z]{3}$") <= 4


def _pattern(source, depth=2):
    def atom(level):
        if level and source.random() < 0.35:
            return f"(?:{alternatives(level - 1)})" + source.choice(("", "*", "+", "?"))
        return source.choice(["a", "[ab]", "[a-z]", "[^/]", ".", "\\d", "-", "x"]) + source.choice(
            ("", "*", "+", "?", "{2}", "{1,30}", "{5,64}", "{0,200}")
        )

    def alternatives(level):
        runs = range(source.randint(1, 2))
        return "|".join("".join(atom(level) for _ in range(source.randint(1, 5))) for _ in runs)

    return f"^(?:{alternatives(depth)})$"


def test_masks_of_simple_patterns_take_little_work():
    """Follow texts of random simple patterns: no mask takes more work than a few milliseconds."""
    source = random.Random(7)
    found = 0
    while found < 150:
        pattern = _pattern(source)
        if simple_pattern_states(pattern) is None:
            continue
        found += 1
        matcher = _core.Matcher(
            BYTES.engine.compile(json_schema({"type": "string", "pattern": pattern}).lower())
        )
        assert matcher.advance(ord('"'))
        for _ in range(40):
            before = _core.work_done()
            mask = matcher.mask()
            assert _core.work_done() - before < 250_000, pattern  # units of 20 ns
            allowed = [byte for byte in range(32, 127) if mask[byte >> 5] >> (byte & 31) & 1]
            if not allowed or not matcher.advance(source.choice(allowed)):
                break
