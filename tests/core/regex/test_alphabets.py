"""Intersections that are empty because their operands have no character in common, and searches that give up.

The bytes of an expression's texts decide such intersections where a search over all states of a format would not. They
must never rule out a text that exists. A search that gives up is counted by every program that relies on it.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen._core._native import RegexSpace
from structgen.matcher import Matcher
from tests.core.regex.test_regex import LEAVES, RE, TEXTS
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import matcher_of
from tests.oracles.json_validator import Validator
from tests.oracles.regex_twin import accepts

# For each format, letters of which candidates are built, and a character that no text of the format has.
FORMATS = [
    ("email", ["a", "@", ".", "b", "é"], "é"),
    ("hostname", ["a", "-", ".", "_"], "_"),
    ("uuid", ["12345678", "-1234", "-123456789abc", "g"], "g"),
    ("date", ["2020", "-01", "-31", "x"], "x"),
    ("ipv4", ["1", "1.1", ".1", "a"], "a"),
]
SIZES = {"uuid": 5}


def candidates(name: str, pieces: list[str]) -> list[str]:
    return ["".join(t) for n in range(SIZES.get(name, 4) + 1) for t in itertools.product(pieces, repeat=n)]


def string_matcher(schema: dict[str, Any]) -> Matcher | None:
    return matcher_of({"type": "string", **schema}, byte_vocabulary())


@pytest.mark.parametrize("extra", [{}, {"maxLength": 40}, {"minLength": 3}], ids=["any", "short", "long"])
@pytest.mark.parametrize(("name", "pieces", "impossible"), FORMATS, ids=[name for name, _, _ in FORMATS])
def test_formats_without_a_character_are_empty(
    name: str, pieces: list[str], impossible: str, extra: dict[str, int]
) -> None:
    schema = {"type": "string", "format": name, "pattern": impossible, **extra}
    validator = Validator(schema, formats=True)
    assert not any(validator.accepts(f'"{text}"') for text in candidates(name, pieces))
    assert string_matcher(schema) is None


@pytest.mark.parametrize(("name", "pieces", "impossible"), FORMATS, ids=[name for name, _, _ in FORMATS])
def test_only_other_branches_remain(name: str, pieces: list[str], impossible: str) -> None:
    """The empty intersection is one of two branches, or the value of an object's optional key."""
    format_alone = Validator({"format": name}, formats=True)
    valid = next(text for text in candidates(name, pieces) if format_alone.accepts(f'"{text}"'))
    literal = valid.replace(".", "[.]")
    matcher = string_matcher({"format": name, "pattern": f"{impossible}|^{literal}$"})
    assert matcher is not None
    for end in range(len(valid)):
        assert matcher.native.next_bytes(f'"{valid[:end]}'.encode())[0] == valid[end].encode()
    assert matcher.unproven == 0
    empty = {"type": "string", "format": name, "pattern": impossible}
    matcher = matcher_of(
        {"type": "object", "properties": {"a": empty}, "additionalProperties": False}, byte_vocabulary()
    )
    assert matcher is not None
    assert matcher.witness_text() == b"{}"
    assert matcher.native.next_bytes(b"{")[0].strip() == b"}"
    assert (
        matcher_of({"type": "object", "properties": {"a": empty}, "required": ["a"]}, byte_vocabulary())
        is None
    )


def test_a_branch_with_the_empty_text_does_not_help() -> None:
    assert string_matcher({"pattern": "é|^$", "format": "email"}) is None


def _combined(inner: st.SearchStrategy[RE]) -> st.SearchStrategy[RE]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.tuples(st.just("concat"), parts),
        st.tuples(st.just("alternate"), parts),
        st.tuples(st.just("intersect"), parts),
        st.tuples(st.just("complement"), inner),
        inner.map(lambda x: ("repeat", x, 0, None)),
        inner.map(lambda x: ("concat", (("text",), x, ("text",)))),
    )


@settings(max_examples=400, deadline=None)
@given(st.recursive(st.sampled_from(LEAVES), _combined, max_leaves=8))
def test_alphabets_rule_out_no_text(ir: RE) -> None:
    """With almost no budget, little but the alphabets can decide."""
    space = RegexSpace(emptiness_budget=8)
    r = space.compile(ir)
    wanted = [text for text in TEXTS if accepts(ir, text)]
    assert space.alive(r) or not wanted
    for text in wanted:
        state = r
        for byte in text.encode():
            state = space.derivative(state, byte)
        assert space.nullable(state)


# Numbers of "a" that are divisible by 7, 11 and 13, but not by 1001 except 0.
HARD: dict[str, Any] = {
    "type": "string",
    "allOf": [{"pattern": f"^(a{{{n}}})*$"} for n in (7, 11, 13)],
    "not": {"pattern": "^(a{1001})*$"},
}


def test_every_program_counts_the_search_on_which_it_relies() -> None:
    """The verdict is stored in the space that the programs of a vocabulary share."""
    vocabulary = byte_vocabulary(b'"a').with_limits(emptiness_budget=200)
    for _ in range(3):
        matcher = matcher_of(HARD, vocabulary)
        assert matcher is not None and matcher.unproven > 0
        assert matcher.advance(next(t for t in range(vocabulary.size) if vocabulary.token_bytes(t) == b'"'))
        assert matcher.unproven < 10
    other = matcher_of({"type": "string", "pattern": "^a+$"}, vocabulary)
    assert other is not None and other.unproven == 0
    assert matcher_of(HARD, byte_vocabulary(b'"a')) is None


def _common_multiples(*letters: str) -> RE:
    """Return texts whose lengths are divisible by 7, 11 and 13, each condition over some letters."""
    conditions = []
    for chosen, n in zip(letters, (7, 11, 13), strict=True):
        letter = ("class", tuple((ord(c), ord(c)) for c in chosen))
        conditions.append(("repeat", ("repeat", letter, n, n), 1, None))
    return ("intersect", tuple(conditions))


@pytest.mark.parametrize("budget", [8, 64, 200])
def test_the_search_of_a_restricted_expression_meets_a_state_of_one_that_gave_up(budget: int) -> None:
    """Restricted to "a", the second expression is the first one."""
    space = RegexSpace(emptiness_budget=budget)
    for letters in ("aaa", ("ab", "ac", "ad"), ("ab", "ac", "ad"), ("ab", "ac", "a")):
        assert space.alive(space.compile(_common_multiples(*letters)))
