"""Compiled schemas obey the Boolean algebra that their applicators promise, text by text and mask by mask.

The parts of a schema reach the automaton by several paths: merged keyword groups, branching frames, the oracle. The
identities here relate whole automata to each other and need no validator. Texts are near one of the schemas, in any
offered spelling, and are read byte by byte through masks. The parts are resources with identifiers, so they may refer
to themselves in any position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import EOS, byte_vocabulary
from tests.oracles.json_spelling import SUPPORTED, has_offered_form, matcher_of
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import schemas, values
from tests.strategies.json_texts import texts

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FIRST, SECOND, THIRD = ({"$ref": f"urn:part:{place}"} for place in range(3))
Verdict = Callable[[Any], bool]


def joined(parts: tuple[Any, ...], **keywords: Any) -> Any:
    """A schema that may refer to the parts as FIRST, SECOND and THIRD."""
    named = {
        f"part{place}": {
            **(part if isinstance(part, dict) else {"allOf": [part]}),
            "$id": f"urn:part:{place}",
        }
        for place, part in enumerate(parts)
    }
    return {"$defs": named, **keywords}


@st.composite
def families(draw: DrawFn, count: int, depth: int = 1) -> tuple[Any, ...]:
    """So many schemas; later ones are often the first with some keywords replaced or added."""
    parts = [draw(schemas(SUPPORTED, depth=depth))]
    for _ in range(count - 1):
        other = draw(schemas(SUPPORTED, depth=depth))
        kin = isinstance(parts[0], dict) and isinstance(other, dict) and draw(st.booleans())
        parts.append({**parts[0], **other} if kin else other)
    return tuple(parts)


@st.composite
def near_texts(draw: DrawFn, parts: tuple[Any, ...]) -> str:
    chosen: list[SearchStrategy[Any]] = [*map(instances, parts), values]
    text: str = draw(st.one_of(chosen).flatmap(texts))
    return text


def read(matcher: Matcher | None, text: str) -> bool:
    """The verdict on a text, read byte by byte: what the mask offers is what `advance` takes."""
    if matcher is None:
        return False
    matcher.reset()
    for byte in text.encode("utf-8", "surrogatepass"):
        token = byte + len(EOS)
        offered = bool(int(matcher.mask()[token >> 5]) >> (token & 31) & 1)
        assert matcher.advance(token) == offered
        if not offered:
            return False
    assert bool(int(matcher.mask()[0]) >> EOS[0] & 1) == matcher.is_complete()
    return matcher.is_complete()


def verdicts(text: str, parts: tuple[Any, ...]) -> list[bool]:
    return [
        read(matcher_of(joined(parts, **part), byte_vocabulary()), text)
        for part in (FIRST, SECOND, THIRD)[: len(parts)]
    ]


IDENTITIES: dict[str, tuple[dict[str, Any], Callable[..., bool]]] = {
    "allOf": ({"allOf": [FIRST, SECOND]}, lambda a, b: a and b),
    "anyOf": ({"anyOf": [FIRST, SECOND]}, lambda a, b: a or b),
    "oneOf": ({"oneOf": [FIRST, SECOND]}, lambda a, b: a != b),
    "without": ({"allOf": [FIRST, {"not": SECOND}]}, lambda a, b: a and not b),
    "neither": ({"not": {"anyOf": [FIRST, SECOND]}}, lambda a, b: not a and not b),
    "not both": ({"not": {"allOf": [FIRST, SECOND]}}, lambda a, b: not a or not b),
    "equal": ({"not": {"oneOf": [FIRST, SECOND]}}, lambda a, b: a == b),
    "implies": ({"if": FIRST, "then": SECOND}, lambda a, b: not a or b),
    "or else": ({"if": FIRST, "else": SECOND}, lambda a, b: a or b),
    "absorbs": ({"anyOf": [FIRST, {"allOf": [FIRST, SECOND]}]}, lambda a, b: a),
}


@settings(max_examples=300, suppress_health_check=RELAXED)
@given(st.data(), families(2), st.sampled_from(sorted(IDENTITIES)))
def test_applicators_of_two_schemas(data: st.DataObject, parts: tuple[Any, Any], name: str) -> None:
    text = data.draw(near_texts(parts))
    keywords, identity = IDENTITIES[name]
    # Texts that no schema offers are in no language, so that `not` and `oneOf` cannot bring them back.
    expected = identity(*verdicts(text, parts)) and has_offered_form(text)
    assert read(matcher_of(joined(parts, **keywords), byte_vocabulary()), text) == expected


@settings(max_examples=120, suppress_health_check=RELAXED)
@given(st.data(), families(1, depth=2))
def test_not_is_the_complement(data: st.DataObject, parts: tuple[Any]) -> None:
    text = data.draw(near_texts(parts))
    (inside,) = verdicts(text, parts)
    outside = read(matcher_of(joined(parts, **{"not": FIRST}), byte_vocabulary()), text)
    assert [inside, outside].count(True) == has_offered_form(text)
    twice = joined(parts, **{"not": {"not": FIRST}})
    assert read(matcher_of(twice, byte_vocabulary()), text) == inside


THREE: dict[str, tuple[dict[str, Any], Callable[..., bool]]] = {
    "if": ({"if": FIRST, "then": SECOND, "else": THIRD}, lambda a, b, c: b if a else c),
    "oneOf": ({"oneOf": [FIRST, SECOND, THIRD]}, lambda *verdicts: sum(verdicts) == 1),
    "distributes": (
        {"allOf": [FIRST, {"anyOf": [SECOND, THIRD]}]},
        lambda a, b, c: (a and b) or (a and c),
    ),
    "anyOf": ({"anyOf": [FIRST, SECOND, THIRD]}, lambda *verdicts: any(verdicts)),
}


@settings(max_examples=150, suppress_health_check=RELAXED)
@given(st.data(), families(3), st.sampled_from(sorted(THREE)))
def test_applicators_of_three_schemas(data: st.DataObject, parts: tuple[Any, Any, Any], name: str) -> None:
    text = data.draw(near_texts(parts))
    keywords, identity = THREE[name]
    expected = identity(*verdicts(text, parts)) and has_offered_form(text)
    assert read(matcher_of(joined(parts, **keywords), byte_vocabulary()), text) == expected


# ------------------------------------------------------------------ masks


def next_bytes(matcher: Matcher | None, text: bytes) -> set[int]:
    return set() if matcher is None else set(matcher.native.next_bytes(text)[0])


@settings(max_examples=150, suppress_health_check=RELAXED)
@given(st.data(), families(2))
def test_masks_of_joined_schemas(data: st.DataObject, parts: tuple[Any, Any]) -> None:
    """What goes on in one of two schemas goes on in their union, and what goes on in both in neither's complement."""
    text = data.draw(near_texts(parts)).encode("utf-8", "surrogatepass")
    vocabulary = byte_vocabulary()
    first, second = (matcher_of(joined(parts, **part), vocabulary) for part in (FIRST, SECOND))
    union = matcher_of(joined(parts, anyOf=[FIRST, SECOND]), vocabulary)
    both = matcher_of(joined(parts, allOf=[FIRST, SECOND]), vocabulary)
    proven = not any(matcher.unproven for matcher in (first, second, union, both) if matcher is not None)
    for end in range(len(text) + 1):
        one, other = (next_bytes(matcher, text[:end]) for matcher in (first, second))
        together = next_bytes(union, text[:end])
        # Taken as alive for lack of budget, a state of a part may offer more than the state of the whole.
        if proven:
            assert together == one | other
            assert next_bytes(both, text[:end]) <= one & other
        if not together:
            break


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(st.data(), schemas(SUPPORTED - {"$ref"}, depth=1), schemas(SUPPORTED - {"$ref"}, depth=1))
def test_operators_are_the_applicators(data: st.DataObject, first: Any, second: Any) -> None:
    text = data.draw(near_texts((first, second)))
    left, right = json_schema(first), json_schema(second)
    for constraint, keyword in ((left & right, "allOf"), (left | right, "anyOf")):
        try:
            operated = Matcher(constraint, byte_vocabulary())
        except UnsatisfiableSchema:
            operated = None
        applied = matcher_of({keyword: [first, second]}, byte_vocabulary())
        assert read(operated, text) == read(applied, text)


@pytest.mark.parametrize("name", sorted(IDENTITIES))
def test_the_identities_hold_on_a_small_world(name: str) -> None:
    """A pair for which every combination of verdicts occurs."""
    parts = ({"type": "object", "required": ["a"]}, {"type": ["object", "array"], "maxProperties": 1})
    met = set()
    for text in ("{}", '{"a":1}', '{"a":1,"b":2}', "[]", "1", '{"b":[],"ab":null}'):
        keywords, identity = IDENTITIES[name]
        pair = verdicts(text, parts)
        met.add(tuple(pair))
        assert read(matcher_of(joined(parts, **keywords), byte_vocabulary()), text) == identity(*pair)
    assert len(met) == 4
