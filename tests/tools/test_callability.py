"""Which tools can be called shows at a glance only where the core finds arguments, too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.errors import ConstraintError, EmptyConstraint, UnsatisfiableSchema
from structgen.matcher import compile_constraint
from structgen.tools import read_tools
from structgen.tools.callability import _surely_has_value
from structgen.vocabulary import Vocabulary

BYTES = Vocabulary.of_bytes()


def has_value(schema: Any) -> bool:
    try:
        compile_constraint(json_schema(schema), BYTES)
    except (EmptyConstraint, UnsatisfiableSchema):
        return False
    return True


def schema(rng: random.Random, depth: int = 0) -> Any:
    """Draw a schema of the keywords that tools use. A few have no instance."""
    kind = rng.choice(("string", "integer", "number", "array", "object", "boolean", "list", "enum", "any"))
    if kind == "any":
        return rng.choice(({}, True, False, {"minimum": 3}))
    if kind == "enum":
        values = rng.choice(([], ["a"], [1], ["a", 2], [None, {}]))
        return {"enum": values, **rng.choice(({}, {"type": "string"}, {"type": "integer"}, {"minLength": 2}))}
    if kind == "list":
        found: dict[str, Any] = {"type": rng.choice((["string", "null"], ["integer"], ["array", "string"]))}
    else:
        found = {"type": kind}
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        for bound in (low, high):
            if rng.random() < 0.2:
                found[bound] = rng.choice((-1, 0, 2, 0.5) if bound.endswith("imum") else (0, 1, 2, 3, 5))
    if kind in ("array", "list") and depth < 3 and rng.random() < 0.7:
        found["items"] = schema(rng, depth + 1)
    if kind == "object" and depth < 3:
        found["properties"] = {name: schema(rng, depth + 1) for name in "abc"[: rng.randint(0, 3)]}
        found["required"] = [name for name in found["properties"] if rng.random() < 0.6]
    return found


def test_what_shows_at_a_glance_has_a_value() -> None:
    rng = random.Random(1)
    seen = {True: 0, False: 0}
    for _ in range(1_500):
        one = schema(rng)
        glance = _surely_has_value(one)
        seen[glance] += 1
        assert not glance or has_value(one), one
    assert min(seen.values()) > 300


@pytest.mark.parametrize(
    "given",
    [
        {"type": "integer", "minimum": 3},
        {"type": "string", "minLength": 2, "maxLength": 2, "description": "two"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        {"type": ["string", "null"]},
        {"type": "string", "enum": ["a", "b"]},
    ],
)
def test_usual_keywords_show_at_a_glance(given: dict[str, Any]) -> None:
    assert _surely_has_value({"type": "object", "properties": {"a": given}, "required": ["a"]})


def test_one_of_many_tools_that_cannot_be_called_is_named() -> None:
    good = {"type": "object", "properties": {"a": {"pattern": "^a"}}, "required": ["a"]}
    bad = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^a", "maxLength": 0}},
        "required": ["a"],
    }
    listed = [{"name": f"tool_{i}", "parameters": bad if i == 30 else good} for i in range(40)]
    with pytest.raises(ConstraintError, match="can never be called") as caught:
        read_tools(listed)
    assert "the parameters of tool_30, #/properties/a" in str(caught.value)


@pytest.mark.parametrize("kind", [{}, [{}], [["string"]], 3, "text", [None], {"type": "string"}])
def test_malformed_types_do_not_show_a_value(kind: object) -> None:
    assert not _surely_has_value({"type": kind})
    assert not _surely_has_value({"type": "array", "items": {"type": kind}, "minItems": 1})


@pytest.mark.parametrize(
    "given",
    [
        {"type": "string", "format": "date", "maxLength": 3},
        {"type": "string", "enum": ["abc"], "format": "date"},
    ],
)
def test_formats_are_not_overlooked(given: dict[str, Any]) -> None:
    parameters = {"type": "object", "properties": {"a": given}, "required": ["a"]}
    with pytest.raises(ConstraintError, match="can never be called"):
        read_tools([{"name": "f", "parameters": parameters}])


def test_repeated_types_are_not_followed_again_at_each_level() -> None:
    schema: object = False
    for _ in range(200):
        schema = {"type": ["array", "array"], "minItems": 1, "items": schema}
    assert not _surely_has_value(schema)  # in time that is linear
