"""Many literals, whose nodes are made when they are read, compared with a set of texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import LimitError, RegexSpace

_PARTS = ("", "a", "b", "ab", "é", "€", "node.", "node", "-0")


def _texts(seed: int) -> list[str]:
    """From one text on; most draws have more than the core gives nodes at once. Some stand twice."""
    rng = random.Random(seed)
    parts = rng.choices(_PARTS, k=rng.randint(1, 5))
    return [
        "".join(rng.choices(parts, k=rng.randint(0, 7))) for _ in range(rng.choice([1, 5, 255, 300, 2_000]))
    ]


def _after(space: RegexSpace, state: int, text: bytes) -> int:
    for byte in text:
        state = space.derivative(state, byte)
    return state


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_language_is_the_set_of_texts(seed: int) -> None:
    texts = _texts(seed)
    space = RegexSpace()
    state = space.literals(texts)
    language = {text.encode() for text in texts}
    prefixes = {text[:end] for text in language for end in range(len(text) + 1)}
    for prefix in random.Random(seed).sample(sorted(prefixes), min(40, len(prefixes))):
        here = _after(space, state, prefix)
        rests = {text[len(prefix) :] for text in language if text.startswith(prefix)}
        lengths = {sum(byte & 0xC0 != 0x80 for byte in rest) for rest in rests}

        def asked(here: int = here, rests: set[bytes] = rests, lengths: set[int] = lengths) -> None:
            assert space.nullable(here) == (b"" in rests)
            assert space.min_length(here) == min(lengths)
            assert [n for n in range(40) if space.has_length(here, n, n)] == sorted(lengths)
            assert len(space.witness(here)) == min(map(len, rests))
            assert space.witness(here) in rests

        asked()  # before what follows has nodes
        assert {b for b in range(256) if space.row(here)[b]} == {rest[0] for rest in rests if rest}
        asked()
    for text in random.Random(seed).sample(sorted(prefixes), min(40, len(prefixes))):
        assert space.matches(state, text) == (text in language)
        assert not space.matches(state, text + b"?")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_intersections_with_other_languages(seed: int) -> None:
    texts = sorted(set(_texts(seed)))
    less = texts[:: 1 + seed % 3]
    space = RegexSpace()
    state, other = space.literals(texts), space.literals(less)
    left = space.intersect(state, space.complement(other))
    assert space.alive(left) == (len(less) < len(texts))
    both = space.alternate(left, other)
    for text in texts:
        assert space.matches(left, text.encode()) == (text not in less)
        assert space.matches(both, text.encode())


def test_equal_lists_are_one_expression() -> None:
    texts = [f"text {i}" for i in range(1_000)]
    space = RegexSpace()
    assert space.literals(texts) == space.literals(list(texts))
    assert space.literals(texts) != space.literals(texts[1:])


def test_equal_texts_count_once() -> None:
    space = RegexSpace()
    state = space.literals(["x"] * 300 + ["y"])
    assert _after(space, state, b"x") == RegexSpace.EPSILON


def test_unread_literals_have_no_nodes() -> None:
    texts = [f"{i:06d}" for i in range(100_000)]
    space = RegexSpace()
    before = space.size
    state = space.literals(texts)
    assert space.matches(state, b"012345")
    assert space.size - before < 100
    assert space.memory < 5_000_000


def test_nodes_are_limited_where_they_are_made() -> None:
    texts = [f"{i:04d} {i:04d}" for i in range(10_000)]
    space = RegexSpace(max_nodes=1_000)
    state = space.literals(texts)

    def match_all() -> None:
        for text in texts:
            space.matches(state, text.encode())

    with pytest.raises(LimitError, match="regex_nodes"):
        match_all()
    assert space.matches(state, texts[0].encode())
