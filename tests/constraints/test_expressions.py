"""The builders of expressions keep the language, by the slow twin."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.expressions import (
    ALL_RANGES,
    ANY,
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    alternate,
    character_class,
    complement,
    concat,
    has_look,
    intersect,
    literal,
    literals,
    negate_ranges,
    normalise_ranges,
    nullable,
    repeat,
    scope,
)
from tests.oracles.regex_twin import accepts

TEXTS = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
POINTS = st.integers(0, 0x10FFFF)
LEAVES = st.sampled_from(
    [
        EPSILON,
        NOTHING,
        ANY,
        TEXT,
        ("literal", "a"),
        ("literal", "ab"),
        ("class", ((97, 98),)),
        ("literals", ("", "b")),
    ]
)


def _larger(inner: st.SearchStrategy[RE]) -> st.SearchStrategy[RE]:
    parts = st.lists(inner, max_size=3)
    counts = st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 2, None]))
    return st.one_of(
        parts.map(lambda p: ("raw", "concat", tuple(p))),
        parts.map(lambda p: ("raw", "alternate", tuple(p))),
        parts.map(lambda p: ("raw", "intersect", tuple(p))),
        inner.map(lambda p: ("raw", "complement", p)),
        st.tuples(inner, counts).map(lambda t: ("raw", "repeat", t[0], t[1][0], _high(*t[1]))),
    )


def _high(low: int, more: int | None) -> int | None:
    return None if more is None else low + more


def plain(node: RE) -> RE:
    """The expression as it is written."""
    if node[0] != "raw":
        return node
    _, kind, parts, *counts = node
    if kind in ("complement", "repeat"):
        return (kind, plain(parts), *counts)
    return (kind, tuple(plain(part) for part in parts))


def built(node: RE) -> RE:
    """The expression as the builders make it."""
    if node[0] != "raw":
        return node
    _, kind, parts, *counts = node
    if kind == "complement":
        return complement(built(parts))
    if kind == "repeat":
        return repeat(built(parts), *counts)
    return {"concat": concat, "alternate": alternate, "intersect": intersect}[kind](map(built, parts))


@settings(deadline=None, max_examples=300)
@given(st.recursive(LEAVES, _larger, max_leaves=8))
def test_builders_keep_the_language(node: RE) -> None:
    before, after = plain(node), built(node)
    for text in TEXTS:
        assert accepts(before, text) == accepts(after, text)
    assert nullable(after) == accepts(after, "")


@given(st.lists(st.tuples(POINTS, POINTS), max_size=6), st.lists(POINTS, max_size=20))
def test_ranges(pairs: list[tuple[int, int]], points: list[int]) -> None:
    ranges = normalise_ranges((min(pair), max(pair)) for pair in pairs)
    negated = negate_ranges(ranges)
    assert all(low <= high for low, high in (*ranges, *negated))
    assert all(a[1] + 1 < b[0] or (a[1], b[0]) == (0xD7FF, 0xE000) for a, b in pairwise(ranges))
    for point in (*points, *(edge for pair in pairs for edge in pair), 0xD800):
        inside = any(low <= point <= high for low, high in ranges)
        wanted = any(min(pair) <= point <= max(pair) for pair in pairs) and not 0xD800 <= point <= 0xDFFF
        assert inside == wanted
        if not 0xD800 <= point <= 0xDFFF:
            assert inside != any(low <= point <= high for low, high in negated)


def test_small_shapes() -> None:
    assert character_class(()) == NOTHING
    assert character_class(ALL_RANGES) == ANY
    assert character_class(((97, 97),)) == ("literal", "a")
    assert literal("\ud800") == NOTHING
    assert literals(["a", "b"]) == ("class", ((97, 98),))
    assert literals(["a", "bc"]) == ("literals", ("a", "bc"))
    assert concat([("literal", "a"), ("literal", "b")]) == ("literal", "ab")
    assert concat([]) == EPSILON
    assert alternate([]) == NOTHING
    assert alternate([EPSILON, ("literal", "a")]) == ("repeat", ("literal", "a"), 0, 1)
    assert repeat(("literal", "a"), 1, 1) == ("literal", "a")


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_condition_is_not_repeated(count: int) -> None:
    look = ("look", True, False, ("literal", "a"))
    assert repeat(look, count, None) == (look if count else EPSILON)


def test_scopes() -> None:
    look = ("look", True, False, ("literal", "a"))
    assert has_look(("concat", (look, TEXT)))
    assert scope(look) == ("scope", look)
    assert not has_look(scope(look))
    assert scope(TEXT) == TEXT
    assert nullable(scope(look)) is None
