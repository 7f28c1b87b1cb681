"""Masks inside repeated classes, whose tokens are taken as bit sets, compared with a step for each token.

In a state that repeats a class of characters, tokens of such characters are taken by their length, and only the others
are walked. This must not show where a count ends, at tokens longer than the bit sets reach, at characters outside the
class, or at length bounds that the pattern itself keeps, nearly keeps or breaks.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

import structgen as sg
from structgen.errors import UnsatisfiableSchema
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed

EOS = 0
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OTHERS = '0123456789-_. /:é"\\'


@functools.cache
def vocabulary() -> Vocabulary:
    """Words of one to 24 characters, some with other characters inside, in front and at the end."""
    rng = random.Random(1)
    pieces = {chr(code) for code in range(0x20, 0x7F)}
    for length in range(1, 25):
        for _ in range(30):
            word = rng.choices(_LETTERS, k=length)
            for _ in range(rng.choice((0, 0, 1, 2))):
                word[rng.randrange(length)] = rng.choice(_OTHERS)
            pieces |= {"".join(word), "".join(word[:3]) + "".join(word)}
    pieces |= {
        f"{word}{end}"
        for word in ("a", "xyz", "a1-b")
        for end in ('"', '",', '"}', '": "', '"]}', "\\n", "\\u00e9")
    }
    pieces |= {"é", "éa", "aé", "zzzzzzzzzzzzzzzzé", "1234", "0" * 17, "x" * 16, "x" * 17, "x" * 18 + '"'}
    return Vocabulary.from_tokens(
        [None, *(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in sorted(pieces))], [EOS]
    )


def check(matcher: sg.Matcher, seed: int) -> None:
    """Compare masks along a random text."""
    rng = random.Random(seed)
    for _ in range(12):
        ids = allowed(matcher.mask())
        for token in range(1, vocabulary().size):
            assert (token in ids) == matcher.accepts([token]), (
                token,
                vocabulary().token_bytes(token),
                matcher.text,
            )
        inside = sorted(ids - {EOS})
        if not inside:
            return
        some = rng.choices(inside, k=2)
        assert matcher.advance(max(some, key=lambda token: len(vocabulary().token_bytes(token) or b"")))


PATTERNS = [
    "^[a-zA-Z0-9-]{36}$",
    "^[a-zA-Z0-9]{10}$",
    "^[a-zA-Z]{3,18}[0-9]*$",
    "^[a-zA-Z0-9_]{1,17}(?:-[a-z]{2})?$",
    "^([0-9a-zA-Z][_-]?){1,20}$",
    "^(Builtin.[a-zA-Z0-9_-]+|[a-zA-Z][a-zA-Z0-9-_]{0,29}-[a-zA-Z0-9]{10})$",
    "^[\\w .:/-]+$",
    "^[a-z]{2}[a-zA-Z]*[^a-zA-Z]{0,3}$",
    "^(?!x)[a-zA-Zé]{1,40}$",
    "^[a-zA-Z]{16}$|^[a-zA-Z]{18}-$",
    "^[^\\s/]{2,19}$",
    "[A-Z]{2}[a-zA-Z]{5,}",
]
BOUNDS: list[dict[str, int]] = [
    {},
    {"maxLength": 12},
    {"minLength": 9},
    {"minLength": 10, "maxLength": 36},
    {"minLength": 3, "maxLength": 200},
    {"maxLength": 2048, "minLength": 1},
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings(pattern: str, bounds: dict[str, int]) -> None:
    schema: dict[str, Any] = {"type": "string", "pattern": pattern, **bounds}
    for seed in range(2):
        try:
            matcher = sg.Matcher(sg.json_schema(schema), vocabulary())
        except UnsatisfiableSchema:
            return
        assert matcher.advance(1 + ord('"'))
        check(matcher, seed)


@pytest.mark.parametrize("pattern", PATTERNS[:8] + PATTERNS[9:11])
def test_plain_texts(pattern: str) -> None:
    for constraint in (sg.regex(pattern.strip("^$")), sg.regex(pattern.strip("^$")) + "-end"):
        for seed in range(2):
            check(sg.Matcher(constraint, vocabulary()), seed)


def test_bounds_that_a_pattern_keeps() -> None:
    """Bounds that change nothing, against the pattern without them, at each step of a text."""
    pattern = "^arn:[a-z]{1,20}:[a-zA-Z0-9]{12}$"
    one = sg.Matcher(sg.json_schema({"type": "string", "pattern": pattern}), vocabulary())
    bounded = {"type": "string", "pattern": pattern, "minLength": 18, "maxLength": 37}
    other = sg.Matcher(sg.json_schema(bounded), vocabulary())
    for byte in b'"arn:zz:abcDEF123456"':
        assert (one.mask() == other.mask()).all()
        assert one.advance(1 + byte)
        assert other.advance(1 + byte)
    assert one.is_complete() == other.is_complete()
    assert other.is_complete()


def test_escapes_before_a_bound() -> None:
    """Inside an escape the expression stands before the escaped character, and shows too few that are missing."""
    bytes_alone = Vocabulary.of_bytes()
    for pattern, length in ((r"^a(\n{9})?$", 5), (r"a(\n{9})?$", 5), (r"^[ab]*(\"{4}|\\{3}x)?$", 4)):
        schema = {"type": "string", "pattern": pattern, "maxLength": length}
        matcher = sg.Matcher(sg.json_schema(schema), bytes_alone)
        for byte in b'"a':
            assert matcher.advance(byte)
            ids = allowed(matcher.mask())
            assert {token for token in range(256) if matcher.accepts([token])} == ids - set(
                bytes_alone.eos_ids
            )
