"""Masks of patterns with bounds on their length, most of them without anchors, compared with a step for each token.

Without anchors, every text is the beginning of one that contains the pattern. So only the room that a token leaves
decides: tokens that leave enough for any completion are taken as bit sets, and the others are walked until too little
room is left.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

import structgen as sg
from structgen.errors import UnsatisfiableSchema
from structgen.vocabulary import Vocabulary

from .mask_checks import check_mask, walk

PIECES = [
    "a",
    "A1",
    "é",
    "日本",
    "\\n",
    "\\u00",
    "\\u00e9",
    "\\",
    "e9",
    "ab",
    "a-",
    "-x",
    "x" * 5,
    "Ab" * 4,
    " ",
    "\\\\",
    "🙂",
]


@functools.cache
def vocabulary() -> Vocabulary:
    """Words, escapes and closing quotes; so many tokens begin a string that their fragment is a bit set."""
    rng = random.Random(2)
    pieces = {"".join(rng.choices(PIECES, k=rng.randint(1, 4))) for _ in range(150)}
    pieces |= {f"{piece}{end}" for piece in sorted(pieces)[:30] for end in ('"', '",', '"}')}
    pieces |= {f'"{piece}' for piece in sorted(pieces)[::2]} | {
        f': "{piece}' for piece in sorted(pieces)[:20]
    }
    bytes_alone = [bytes([byte]) for byte in range(256)]
    return Vocabulary.from_tokens(
        [
            None,
            *bytes_alone,
            *(piece.encode() for piece in sorted(pieces)),
            b"a\xe6\x97",
            b"\x97\xa5a",
            b"x\xc3",
        ],
        [0],
    )


PATTERNS = [
    "a-",
    "[A-Za-z][0-9a-f]",
    "^ab",
    "A{2,4}[\\w.-]",
    "x{5}|é",
    "日本?a{3}",
    "\\\\",
    "\\n{2}|a{9}",
    "^(?:ab|A1)-",
    "-x$",
    "^[a-zA]([-a-z1]{0,9}[a-z])?$",
    "^[axé日]*(-x|日本)$",
    "^(?:ab|é)*[A1]{2,12}$",
]
BOUNDS: list[dict[str, int]] = [
    *({"maxLength": length} for length in (1, 2, 3, 5, 8, 12, 16, 40)),
    {"minLength": 1, "maxLength": 6},
    {"minLength": 4, "maxLength": 6},
    {"minLength": 7, "maxLength": 7},
    {"minLength": 5, "maxLength": 300},
    {"minLength": 6},
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_open_patterns(pattern: str, bounds: dict[str, int]) -> None:
    check_strings({"type": "string", "pattern": pattern, **bounds})


@pytest.mark.parametrize(
    "schema",
    [
        {"maxLength": 4},
        {"minLength": 3, "maxLength": 4},
        {"not": {"enum": ["a", "ab", "é"]}, "maxLength": 2},
        {"not": {"enum": ["a", "ab", "aaaaa"]}, "minLength": 1, "maxLength": 5},
        {"not": {"pattern": "^a{2}$"}, "maxLength": 3},
        {"anyOf": [{"pattern": "a-"}, {"pattern": "^x{3}"}], "maxLength": 5},
        {"allOf": [{"pattern": "a"}, {"pattern": "x"}], "maxLength": 4},
    ],
    ids=str,
)
def test_relatives(schema: dict[str, Any]) -> None:
    check_strings({"type": "string", **schema})


def check_strings(schema: dict[str, Any]) -> None:
    """Check the masks before a string, inside it, and in an object, along random tokens."""
    nested = {"type": "object", "properties": {"k": schema}, "required": ["k"], "additionalProperties": False}
    for each, start in ((schema, ""), (schema, '"'), (schema, '"\\'), (nested, '{"k"')):
        try:
            matcher = sg.Matcher(sg.json_schema(each), vocabulary())
        except UnsatisfiableSchema:
            return
        if matcher.accepts([1 + byte for byte in start.encode()]) < len(start):
            continue
        for byte in start.encode():
            assert matcher.advance(1 + byte)
        for _ in walk(matcher, 3, random.Random(len(start))):
            check_mask(matcher)
