"""Masks inside the strings of enums, compared token by token with the prefixes of their values as JSON texts."""

from __future__ import annotations

import json
import random

import pytest

from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import json_schema
from structgen.core_calls import call_limits
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import allowed, json_vocabulary, spell, text_ids

_PARTS = (
    "a",
    "b",
    "ab",
    "é",
    "日",
    "\U0001f600",
    "urn:",
    "x.",
    "\n",
    '"',
    "\\",
    "/",
    "\0",
    "\x11",
    "\x7f",
    " ",
    "1",
    "00",
)


def _values(source: random.Random, count: int) -> list[str]:
    """Texts of few parts: many begin alike, or are the beginning of another one."""
    parts = source.choices(_PARTS, k=source.randint(2, 6))
    start = "".join(source.choices(_PARTS, k=source.choice([0, 0, 1, 4, 9, 20])))
    longest = source.choice([4, 8, 14])
    texts = {"".join(source.choices(parts, k=source.randint(0, longest))) for _ in range(3 * count)}
    values = [start + text for text in sorted(texts)]
    source.shuffle(values)
    return values[:count]


def _check(matcher: Matcher, written: set[bytes], source: random.Random, text: bytes) -> None:
    """Compares every mask along `text` with `written`, the texts that are accepted."""
    vocabulary = matcher.vocabulary
    beginnings = {one[:end] for one in written for end in range(len(one) + 1)}
    ids = list(text_ids(vocabulary))
    read = b""
    while True:
        expected = {i for i in ids if read + (vocabulary.token_bytes(i) or b"") in beginnings}
        got = allowed(matcher.mask()) - set(vocabulary.eos_ids)
        assert got == expected, (read, [vocabulary.token_bytes(i) for i in got ^ expected])
        if read == text:
            return
        fitting = [i for i in expected if text.startswith(read + (vocabulary.token_bytes(i) or b""))]
        token = source.choice(fitting)
        assert matcher.advance(token)
        read += vocabulary.token_bytes(token) or b""


def _check_some(constraint: Constraint, written: set[bytes], source: random.Random) -> None:
    for text in source.sample(sorted(written), min(4, len(written))):
        _check(Matcher(constraint, json_vocabulary(400)), written, source, text)


@pytest.mark.parametrize("seed", range(40))
def test_enum(seed: int) -> None:
    source = random.Random(seed)
    values = _values(source, source.choice([1, 5, 40, 255, 300, 1_500]))
    written = {json.dumps(value, ensure_ascii=False).encode() for value in values}
    constraint = json_schema({"enum": values}, whitespace="compact")
    _check_some(constraint, written, source)


@pytest.mark.parametrize("seed", range(20))
def test_choice(seed: int) -> None:
    source = random.Random(1_000 + seed)
    values = _values(source, source.choice([5, 40, 300, 1_500]))
    written = {value.encode() for value in values}
    constraint = choice([value for value in values if value])
    written.discard(b"")
    _check_some(constraint, written, source)


@pytest.mark.parametrize("seed", range(12))
def test_unique_items(seed: int) -> None:
    source = random.Random(2_000 + seed)
    values = _values(source, source.choice([2, 5, 30, 300]))
    schema = {"type": "array", "items": {"enum": values}, "uniqueItems": True, "minItems": 2, "maxItems": 2}
    dumped = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    some = source.sample(dumped, 2)
    pairs = {b"[%s,%s]" % (some[0], other) for other in dumped if other != some[0]}
    vocabulary = json_vocabulary(400)
    matcher = Matcher(json_schema(schema, whitespace="compact"), vocabulary)
    first = b"[%s," % some[0]
    for token in spell(vocabulary, first, source):
        assert matcher.advance(token)
    _check(matcher, {pair[len(first) :] for pair in pairs}, source, b"%s]" % some[1])


def test_no_text_is_lost_when_a_limit_ends_a_mask() -> None:
    ends = [f"{i:02}" for i in range(48)]
    long = "x" * 32_768
    source = random.Random(0)
    values = [letter + long + end for letter in "abcdefgh" for end in source.sample(ends, 48)]
    tokens = (
        [bytes([b]) for b in range(256)] + [b"x" * 4096] + [letter.encode() + b"x" for letter in "abcdefgh"]
    )
    vocabulary = Vocabulary.from_tokens([None, *tokens], eos_ids=[0])
    matcher = Matcher(choice(values), vocabulary.with_limits(automaton_states=10**8, regex_nodes=10**8))
    for milliseconds in (0.3, 0.6, 1, 1.5, 2, 3, 5):
        try:
            with call_limits(cpu_seconds=milliseconds / 1000):
                matcher.mask()
            break
        except LimitExceeded:
            pass
    for letter in "abcdefgh":
        prefix = matcher.fork()
        assert prefix.advance(1 + ord(letter))
        for _ in range(len(long) // 4096):
            assert prefix.advance(257)
        for end in ends:
            matcher_of_text = prefix.fork()
            assert all(matcher_of_text.advance(1 + ord(c)) for c in end) and matcher_of_text.is_complete()
