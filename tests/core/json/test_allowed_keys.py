"""The keys that may follow in an object with branches, compared with all objects of a small world.

The core first tries keys on objects that it has found already, and searches only for the rest. These tests look for
each key in every object. Both must agree key by key, however many branches name it.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_validator import Validator

NAMES = "abc"
OTHERS = "yz"
"""Keys that no schema names: as many as a schema may demand in addition to the named ones."""
VALUES: tuple[Any, ...] = (None, 1, "x", 1.5)
"""What a key is in an object of the world, one for each kind that schemas tell apart; the first: it is not there."""
WORLD: list[dict[str, Any]] = [
    {name: value for name, value in zip(NAMES + OTHERS, chosen, strict=True) if value is not None}
    for chosen in product(VALUES, repeat=len(NAMES + OTHERS))
]
_KINDS: list[Any] = [True, False, {"type": "integer"}, {"type": "string"}]


@st.composite
def groups(draw: DrawFn) -> dict[str, Any]:
    group: dict[str, Any] = {}
    if draw(st.booleans()):
        group["required"] = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    if draw(st.booleans()):
        group["properties"] = draw(
            st.dictionaries(st.sampled_from(NAMES), st.sampled_from(_KINDS), min_size=1, max_size=2)
        )
    rare = draw(st.integers(0, 11))
    if rare == 0:
        group["additionalProperties"] = draw(st.sampled_from(_KINDS))
    elif rare == 1:
        group["maxProperties"] = draw(st.integers(0, 1))  # its negation demands two
    elif rare == 2:
        group["minProperties"] = draw(st.integers(0, 2))
    return group


@st.composite
def branching(draw: DrawFn, depth: int = 2) -> dict[str, Any]:
    schema: dict[str, Any] = draw(groups())
    if depth:
        keyword = draw(st.sampled_from(["allOf", "anyOf", "oneOf", "oneOf", "not"]))
        if keyword == "not":
            schema["not"] = draw(branching(depth=depth - 1))
        else:
            schema[keyword] = draw(st.lists(branching(depth=depth - 1), min_size=1, max_size=4))
    return schema


def agrees(schema: Any, path: dict[str, Any]) -> None:
    """Read the keys of `path`, in order, and compare what may come after each."""
    validator = Validator(schema)
    valid = [item for item in WORLD if validator.accepts(json.dumps(item))]
    try:
        matcher = Matcher(json_schema({"type": "object", **schema}, whitespace="compact"), byte_vocabulary())
    except UnsatisfiableSchema:
        assert not valid
        return
    read: dict[str, Any] = {}
    for name, value in [*path.items(), ("", None)]:
        possible = {
            key for item in valid if read.items() <= item.items() for key in item.keys() - read.keys()
        }
        text = json.dumps(read, separators=(",", ":"))[:-1] + (',"' if read else '"')
        keys = {key: f'{text}{key}"'.encode() for key in (NAMES + OTHERS) if key not in read}
        found = {key for key, after in keys.items() if matcher.viable_bytes(after) == len(after)}
        assert possible <= found
        assert possible == found or matcher.unproven > 0
        if name not in possible:
            return
        read[name] = value
        if not any(read.items() <= item.items() for item in valid):
            return


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(branching(), st.permutations(NAMES), st.lists(st.sampled_from(VALUES[1:]), min_size=3, max_size=3))
def test_allowed_keys_occur_in_some_object(schema: Any, names: list[str], values: list[Any]) -> None:
    agrees(schema, dict(zip(names, values, strict=True)))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["allOf", "anyOf", "oneOf"]),
    st.lists(groups(), min_size=9, max_size=14),
    st.permutations(NAMES),
    st.lists(st.sampled_from(VALUES[1:]), min_size=3, max_size=3),
)
def test_keys_of_many_groups(keyword: str, parts: list[Any], names: list[str], values: list[Any]) -> None:
    agrees({keyword: parts}, dict(zip(names, values, strict=True)))


@st.composite
def tagged(draw: DrawFn) -> dict[str, Any]:
    """Records that are referenced, with a tag next to the reference, a base, and perhaps no other keys."""
    tags: list[Any] = [1, "x", 1.5]
    records = draw(st.lists(groups(), min_size=3, max_size=3))
    shape = draw(st.sampled_from(["few", "overlapping", "many"]))
    if shape == "overlapping":
        tags[1] = tags[0]
    elif (
        shape == "many"
    ):  # the tags of the others are not in the world, so they must allow what the other text does
        tags += [f"t{i}" for i in range(18)]
        records += [records[1]] * 18
    key = draw(st.sampled_from(NAMES))
    branches = [
        {"allOf": [{"$ref": f"#/$defs/r{i}"}, {"properties": {key: {"const": tag}}, "required": [key]}]}
        for i, tag in enumerate(tags)
    ]
    schema: dict[str, Any] = {
        "allOf": [draw(groups()), {draw(st.sampled_from(["oneOf", "anyOf"])): branches}],
        "$defs": {f"r{i}": record for i, record in enumerate(records)},
    }
    closed = draw(st.sampled_from([None, False, {"type": "integer"}]))
    return schema if closed is None else {**schema, "unevaluatedProperties": closed}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tagged(), st.permutations(NAMES), st.lists(st.sampled_from(VALUES[1:]), min_size=3, max_size=3))
def test_tagged_records(schema: Any, names: list[str], values: list[Any]) -> None:
    agrees(schema, dict(zip(names, values, strict=True)))


@pytest.mark.parametrize(
    "more", [{}, {"additionalProperties": False}, {"properties": {"common": {"type": "string"}}}]
)
def test_keys_of_one_of_many_alternatives(more: dict[str, Any]) -> None:
    names = [f"a{i}" for i in range(120)]
    branches = [
        {**more, "properties": {name: {"type": "integer"}, **more.get("properties", {})}, "required": [name]}
        for name in names
    ]
    matcher = Matcher(
        json_schema({"type": "object", "oneOf": branches}, whitespace="compact"), byte_vocabulary()
    )
    for name in names:
        assert matcher.viable_bytes(f'{{"{name}":1}}'.encode()) == len(name) + 6
    assert matcher.viable_bytes(b'{"a7":1,"a8":1}') < 15  # the second branch holds, too
    assert matcher.unproven == 0


def test_independent_pairs() -> None:
    pairs = [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(60)]
    matcher = Matcher(
        json_schema({"type": "object", "allOf": pairs}, whitespace="compact"), byte_vocabulary()
    )
    text = json.dumps({f"{'ab'[i % 2]}{i}": i for i in range(60)}, separators=(",", ":")).encode()
    for byte_count in (len(text) - 1, len(text)):
        assert matcher.viable_bytes(text[:byte_count]) == byte_count
    assert matcher.viable_bytes(text[: text.rindex(b",")] + b"}") == text.rindex(b",")
    assert matcher.unproven == 0


CONTRADICTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"maxProperties": 1, "anyOf": [{"required": ["x"]}, {"properties": {"c": {}}, "minProperties": 2}]},
        {"x": 0},
    ),
    (
        {
            "maxProperties": 1,
            "anyOf": [
                {"required": ["x"], "additionalProperties": False, "properties": {"x": {}}},
                {"properties": {"c": {}, "d": {}}, "minProperties": 2, "additionalProperties": False},
            ],
        },
        {"x": 0},
    ),
    ({"maxProperties": 2, "anyOf": [{"enum": [{}]}, {"required": ["c"], "minProperties": 3}]}, {}),
    (
        {
            "if": {"maxProperties": 1, "anyOf": [{"minProperties": 2}]},
            "else": {"properties": {"d": {}}, "maxProperties": 0},
        },
        {},
    ),
]


@pytest.mark.parametrize(("schema", "instance"), CONTRADICTIONS)
def test_branches_whose_groups_contradict_each_other_allow_no_key(
    schema: dict[str, Any], instance: dict[str, Any]
) -> None:
    constraint = json_schema({"type": "object", **schema})
    matcher = Matcher(constraint, byte_vocabulary())
    assert {key for key in "cdxz" if matcher.viable_bytes(f'{{"{key}'.encode()) == 3} == set(instance)
    text = json.dumps(instance).encode()
    assert matcher.viable_bytes(text) == len(text) and matcher.witness_text(text) == b""
