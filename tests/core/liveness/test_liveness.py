"""A state is live if it has a completion, and dead otherwise.

A completion that the core finds and the oracles accept proves that a state is live. Dead bytes are checked with all
texts of a small world that satisfy the constraint: each prefix of one must be live. Walks that try to reach a dead end
(at random, as deep or as long as the mask allows) must still end in a valid text. Regular constraints are exact. A
schema may have states that count as live because the search ran out of budget; they are counted and must be few.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from structgen.constraints.base import Constraint
from structgen.constraints.expressions import RE
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint
from structgen.matcher import Matcher
from tests.core.liveness.live_texts import LETTERS, RELAXED, live_texts
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary, json_vocabulary
from tests.oracles import regex_twin
from tests.oracles.json_spelling import SUPPORTED, accepts, expected, matcher_of
from tests.oracles.json_validator import SchemaError, Validator
from tests.strategies.json_schemas import schemas
from tests.strategies.json_texts import plain_text
from tests.strategies.patterns import patterns


def prefixes(texts: set[bytes]) -> set[bytes]:
    return {text[:end] for text in texts for end in range(len(text) + 1)}


# ------------------------------------------------------------------ regular constraints


def matches(pattern: str, text: str) -> bool:
    """As `re` says; but to older versions of it the empty text has no \\B."""
    if not text and r"\B" in pattern:
        return regex_twin.accepts(_expression(regex(pattern)), text)
    return re.fullmatch(pattern, text) is not None


def _expression(constraint: Constraint) -> RE:
    expression = constraint.regular()
    assert expression is not None
    return expression


SHORT = ["".join(letters) for size in range(6) for letters in product(LETTERS, repeat=size)]


@settings(max_examples=60, suppress_health_check=RELAXED)
@given(patterns())
def test_states_of_patterns_are_live_or_dead(pattern: str) -> None:
    texts = {text.encode() for text in SHORT if matches(pattern, text)}
    try:
        matcher = Matcher(regex(pattern), byte_vocabulary(LETTERS.encode()))
    except EmptyConstraint:
        assert not texts
        return
    possible = prefixes(texts)
    for text in live_texts(matcher, LETTERS.encode(), 200):
        rest = matcher.witness_text(text)
        assert rest is not None
        assert matches(pattern, (text + rest).decode())
        possible.discard(text)
    assert not {text for text in possible if matcher.viable_bytes(text) < len(text)}
    assert matcher.unproven == 0


@settings(max_examples=40, suppress_health_check=RELAXED)
@given(patterns(), patterns())
def test_states_of_intersections_are_live_or_dead(first: str, second: str) -> None:
    constraint = regex(first) & regex(second)
    texts = {text.encode() for text in SHORT if matches(first, text) and matches(second, text)}
    try:
        matcher = Matcher(constraint, byte_vocabulary(LETTERS.encode()))
    except EmptyConstraint:
        assert not texts
        return
    for text in live_texts(matcher, LETTERS.encode(), 60):
        rest = matcher.witness_text(text)
        assert rest is not None
        assert matches(first, (text + rest).decode()) and matches(second, (text + rest).decode())
    assert not {text for text in prefixes(texts) if matcher.viable_bytes(text) < len(text)}


# ------------------------------------------------------------------ schemas

SCALARS: list[Any] = [None, True, False, 0, 1, 2, 7, -1, 1.5, 10, "", "a", "b", "ab", "abc", "0", "é"]
SMALL = [*SCALARS, [], {}]
WORLD: list[Any] = [
    *SMALL,
    *([item] for item in SMALL),
    *map(list, product([0, 1, "a", None, []], repeat=2)),
    *({name: value} for name in ("a", "b", "ab", "") for value in SMALL),
    *({"a": one, "b": other} for one in [0, "a", None, {}] for other in [0, "b", True, []]),
    {"a": {"a": 0}},
    {"b": ["a"]},
    [[0, 1]],
    {"a": 1, "b": "b", "ab": None},
]
TEXTS = [plain_text(value).encode() for value in WORLD]
ALPHABET = b'{}[],:"ab01n.- \n'


@settings(max_examples=60, suppress_health_check=RELAXED)
@given(schemas(SUPPORTED))
def test_prefixes_of_valid_texts_are_live(schema: Any) -> None:
    matcher = matcher_of(schema, byte_vocabulary(), whitespace="compact")
    try:
        validator = Validator(schema, formats=True)
        valid = {text for text in TEXTS if validator.accepts(text)}
    except SchemaError:
        assume(False)
    for text in valid:
        assert matcher is not None
        for end in range(len(text)):
            assert text[end] in matcher.native.next_bytes(text[:end])[0]


@pytest.mark.parametrize("contained", [{"type": "array"}, {"type": "object"}, {"const": []}])
def test_required_contained_items_are_found(contained: Any) -> None:
    matcher = Matcher(json_schema({"type": "array", "contains": contained}), byte_vocabulary())
    for text in (b"[", b"[1", b"[1,"):
        assert matcher.witness_text(text) is not None


def test_live_states_have_a_completion() -> None:
    states: Counter[bool] = Counter()

    @settings(max_examples=100, suppress_health_check=RELAXED)
    @given(schemas(SUPPORTED), st.sampled_from(["compact", "flexible", "indented"]))
    def collect(schema: Any, whitespace: str) -> None:
        matcher = matcher_of(schema, byte_vocabulary(), whitespace=whitespace)
        if matcher is None:
            return
        for text in live_texts(matcher, ALPHABET, 60):
            rest = matcher.witness_text(text)
            states[rest is None] += 1
            if rest is None:
                assert matcher.unproven > 0
                continue
            assert accepts(matcher, text + rest)
            try:
                assert expected(schema, (text + rest).decode(), whitespace)
            except SchemaError:
                assume(False)

    collect()
    assert states[True] < states[False] / 50


Strategy = Callable[[Matcher, list[int], random.Random], int]


def _piece(matcher: Matcher, token: int) -> bytes:
    return matcher.vocabulary.token_bytes(token) or b""


STRATEGIES: dict[str, Strategy] = {
    "uniform": lambda matcher, ids, source: source.choice(ids),
    "longest": lambda matcher, ids, source: max(
        source.choices(ids, k=30), key=lambda token: len(_piece(matcher, token))
    ),
    "deepest": lambda matcher, ids, source: max(
        source.choices(ids, k=30), key=lambda token: sum(_piece(matcher, token).count(b) for b in b'[{"')
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_walks_end_in_valid_texts(strategy: str) -> None:
    ends: Counter[bool] = Counter()

    @settings(max_examples=80, suppress_health_check=RELAXED)
    @given(schemas(SUPPORTED), st.randoms(use_true_random=False))
    def collect(schema: Any, source: random.Random) -> None:
        matcher = matcher_of(schema, json_vocabulary(more=100))
        if matcher is None:
            return
        for _ in range(25):
            ids = sorted(allowed(matcher.mask()) - set(EOS))
            if not ids:
                break
            assert matcher.advance(STRATEGIES[strategy](matcher, ids, source))
        rest = matcher.witness()
        ends[rest is None] += 1
        if rest is None:
            assert matcher.unproven > 0
            return
        assert all(map(matcher.advance, rest))
        assert matcher.is_complete()
        try:
            assert expected(schema, matcher.text.decode())
        except SchemaError:
            assume(False)

    collect()
    assert ends[True] <= 1 + ends[False] / 50  # one may always be met by chance


def test_one_extra_key_breaks_several_requirements() -> None:
    """Each `not` wants a key that it names; with room for two keys, one of them has to serve twice."""
    named = [{"propertyNames": {"not": {"enum": keys}}} for keys in (["1", "3"], ["2", "3"], ["3", "4"])]
    schema = {"type": "object", "not": {"anyOf": named}, "maxProperties": 1}
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    witness = matcher.witness_text()
    assert witness is not None
    assert Validator(schema).accepts(witness.decode())


def test_an_escape_starts_only_if_its_character_fits() -> None:
    matcher = Matcher(
        json_schema({"type": "string", "maxLength": 1, "pattern": "b$"}), byte_vocabulary(bytes(range(256)))
    )
    assert matcher.viable_bytes('"\\') == 1
    escaped = Matcher(
        json_schema({"type": "string", "maxLength": 1, "pattern": "b$"}, escapes="all"),
        byte_vocabulary(bytes(range(256))),
    )
    assert escaped.viable_bytes('"\\u0062"') == 8
    assert escaped.viable_bytes('"\\u0063') < 7


@pytest.mark.parametrize("count", [60, 150])
def test_a_witness_for_many_free_keys(count: int) -> None:
    matcher = Matcher(
        json_schema({"type": "object", "minProperties": count}), byte_vocabulary(bytes(range(256)))
    )
    text = matcher.witness_text()
    assert text is not None
    assert text.count(b":") == count


_OWED_CONTAINER = {"properties": {"a": {"type": "object"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"oneOf": [{}, {"required": ["b"]}]}, _OWED_CONTAINER]},
        {"type": "object", "minProperties": 1, "properties": {"a": {"$ref": "#"}}},
        {
            "minProperties": 1,
            "properties": {"a": {"$ref": "#"}},
            "type": "object",
            "not": {"required": ["b"]},
        },
    ],
)
def test_a_witness_where_a_declared_key_leads_deeper(schema: Any) -> None:
    """Other keys are no way out while the one that is owed is too deep, and are one where it has no end."""
    text = Matcher(json_schema(schema), byte_vocabulary()).witness_text()
    assert text is not None
    assert Validator(schema).accepts(text)


def test_no_witness_overflows_the_stack() -> None:
    schema = {"type": "object", "minProperties": 30_000}
    text = Matcher(json_schema(schema), byte_vocabulary(bytes(range(256)))).witness_text()
    assert text is not None
    assert len(json.loads(text)) == 30_000
