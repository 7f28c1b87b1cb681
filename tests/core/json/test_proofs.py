"""Schemas whose states once counted as live without a proof, or whose completions were not found.

They are reduced from real schemas: more branches than a table of verdicts holds, keys of types with few texts, and
branching frames in which values could be written without end.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_validator import Validator

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def commands(*argument: Any) -> dict[str, Any]:
    """Branches that each ask something else of the same keys: too many for a table of verdicts."""
    branches = [
        {"properties": {"msg": {"enum": [f"m{i}"]}, "argument": schema}} for i, schema in enumerate(argument)
    ]
    return {"type": "object", "required": ["msg", "argument"], "oneOf": branches}


def some_key(pattern: str) -> dict[str, Any]:
    return {"not": {"propertyNames": {"not": {"pattern": pattern}}}}


EMPTY, FILLED, WHOLE = {"maxLength": 0}, {"minLength": 1}, {"type": "integer"}
NAMES = ({"enum": ["1", "3"]}, {"enum": ["2", "7"]}, {"enum": ["2", "11"]})
SCHEMAS: list[dict[str, Any]] = [
    commands(EMPTY, EMPTY, FILLED, FILLED, EMPTY, FILLED, EMPTY, FILLED, {"type": "string"}),
    commands(*({"type": "string", "maxLength": i} for i in range(9))),
    commands(*({"minimum": i, "type": "integer"} for i in range(8)), {"type": "string"}),
    {"type": "object", "not": {"propertyNames": {"not": {"const": "0"}}}},
    {
        "type": "object",
        "patternProperties": {"^[a-d]$": True},
        "additionalProperties": False,
        "minProperties": 3,
    },
    {
        "type": "object",
        "patternProperties": {"^[0-9]$": {"type": "array", "minItems": 1}},
        "not": {"anyOf": [{"propertyNames": {"not": names}} for names in NAMES]},
        "maxProperties": 3,
    },
    {"type": "object", "oneOf": [{"patternProperties": {p: {"maximum": 35}}} for p in ("a|b", "a")]},
    {"type": "object", "allOf": [some_key("a"), some_key("b")], "maxProperties": 2},
    {"oneOf": [{}, {"items": {"exclusiveMinimum": -10}}]},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_state_is_proven_and_completed(schema: dict[str, Any]) -> None:
    matcher = Matcher(json_schema(schema), byte_vocabulary(bytes(range(32, 127))))
    validator = Validator(schema)
    whole = matcher.witness_text()
    assert whole is not None
    starts = {whole[:end] for end in range(len(whole))}
    starts |= {
        b'{"',
        b'{"x',
        b'{"x":',
        b'{"argument":""',
        b'{"a":0,"',
        b'{"b":',
        b'{"1":[',
        b"[",
        b"[0,",
        b'["',
    }
    for start in starts:
        if matcher.viable_bytes(start) < len(start):
            continue
        rest = matcher.witness_text(start)
        assert rest is not None, start
        assert validator.accepts((start + rest).decode()), start + rest
    assert matcher.unproven == 0


values = st.one_of(
    st.fixed_dictionaries({}, optional={"minLength": st.integers(0, 3), "maxLength": st.integers(0, 3)}),
    st.fixed_dictionaries({"minimum": st.integers(0, 3)}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["", "a", "ab", 0, 2, None]), min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"not": st.fixed_dictionaries({"maximum": st.integers(0, 3)})}),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "number", "null"])}),
)
INSTANCES: list[Any] = ["", "a", "ab", "abcd", 0, 1, 2, 3, 4, None, True]


@settings(max_examples=60, suppress_health_check=RELAXED)
@given(st.lists(values, min_size=7, max_size=10), st.sampled_from(["oneOf", "anyOf"]), st.booleans())
def test_many_verdicts_over_one_value(branches: list[Any], keyword: str, last: bool) -> None:
    """A value is offered exactly where it, and what may follow it, satisfies the branches."""
    tags = [{"properties": {"k": b, "n": {"maximum": i}}} for i, b in enumerate(branches)]
    schema = {
        "type": "object",
        "required": ["k", "n"],
        "properties": {"n": {"enum": [0, 3, 20]}, "k": True},
        "additionalProperties": False,
        keyword: tags,
    }
    validator = Validator(schema)
    texts = {}
    for value in INSTANCES:
        for n in (0, 3, 20):
            pairs = [f'"k":{json.dumps(value)}', f'"n":{n}']
            text = "{" + ",".join(pairs if last else pairs[::-1]) + "}"
            texts[text] = validator.accepts(text)
    try:
        matcher = Matcher(json_schema(schema), byte_vocabulary(bytes(range(32, 127))))
    except UnsatisfiableSchema:
        assert not any(texts.values())
        return
    for text, valid in texts.items():
        assert (matcher.viable_bytes(text) == len(text)) == valid, text
        if not valid:
            end = matcher.viable_bytes(text)
            rest = matcher.witness_text(text[:end].encode())
            assert rest is not None or matcher.unproven > 0, text[:end]
            assert rest is None or validator.accepts(text[:end] + rest.decode())
