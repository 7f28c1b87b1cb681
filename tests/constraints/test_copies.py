"""Constraints can be copied and pickled: to other processes, and inside other objects."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated

import pytest

from structgen.constraints.base import Constraint, Literal
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import JsonSchemaConstraint, json_schema
from structgen.constraints.regex import regex
from structgen.constraints.substring import substring
from structgen.matcher import Matcher
from structgen.types import constraint_for_type
from structgen.vocabulary import Vocabulary

BYTES = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], eos_ids=[256], size=257)
SCHEMA = {"properties": {"a": {"enum": [1, "x", {"b": []}]}, "c": {"$ref": "#"}}, "required": ["a"]}

CONSTRAINTS: dict[str, tuple[Constraint, str]] = {
    "literal": (Literal("a"), "a"),
    "choice": (choice(["yes", "no"]), "no"),
    "substring": (substring("yes or no", by="words"), "or no"),
    "pattern": (regex("a+b"), "aab"),
    "ecma pattern": (regex("[^]", dialect="ecma"), "é"),
    "schema": (json_schema(SCHEMA, whitespace="compact"), '{"a":1}'),
    "schemas joined": (json_schema(SCHEMA) & json_schema({"minProperties": 1}), '{"a": "x"}'),
    "union": (regex("a") | json_schema(True), "a"),
    "intersection": (regex("a*") & regex("(..)*"), "aa"),
    "sequence": ("x=" + json_schema({"type": "null"}), "x=null"),
    "text": (constraint_for_type(Annotated[str, "a text"]), "any"),
    "type": (constraint_for_type(list[int]), "[1, 2]"),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled(name: str, protocol: int) -> None:
    constraint, text = CONSTRAINTS[name]
    hash(constraint)
    other = pickle.loads(pickle.dumps(constraint, protocol))
    assert type(other) is type(constraint)
    assert other == constraint and hash(other) == hash(constraint)
    assert repr(other) == repr(constraint)
    assert Matcher(other, BYTES).explain(text).ok


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_copied(name: str) -> None:
    constraint, _ = CONSTRAINTS[name]
    assert copy.copy(constraint) is constraint
    assert copy.deepcopy([constraint])[0] is constraint


def test_a_pickled_schema_keeps_its_options_and_its_messages() -> None:
    constraint = json_schema({"const": 1}, whitespace="compact", integers="digits")
    other: JsonSchemaConstraint = pickle.loads(pickle.dumps(constraint))
    assert other.options == constraint.options
    found, expected = (str(Matcher(one, BYTES).explain("2")) for one in (other, constraint))
    assert found == expected
    with pytest.raises(AttributeError, match="never changes"):
        other.options = constraint.options
