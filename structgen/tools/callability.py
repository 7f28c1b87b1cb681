"""Check that some object satisfies the schema of a tool's parameters.

Why: a tool that can never be called would silently be left out of turns with optional calls.
Invariant: a tool is refused only if it is proven that it has no arguments. If that takes too long, it is accepted.
Cost: nothing for schemas of the usual keywords; at most 50 ms of CPU time for others. Most of these take 0.1 ms if the
tools of a list share a vocabulary, since building its engine takes several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.constraints.json_schema.nodes import TYPES
from structgen.core_calls import call_limits
from structgen.errors import ConstraintError, EmptyConstraint, StructgenError, UnsatisfiableSchema
from structgen.matcher import compile_constraint
from structgen.vocabulary import Vocabulary

__all__ = ["check_can_be_called"]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "format", "$schema"})
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})
_BOUNDS: Mapping[object, tuple[str, ...]] = {
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}
"""By type, the keywords that bound a size."""
_MAPPING = (dict, Mapping)
"""The most common class first, since the check is then cheaper."""
_MOST_CHARACTERS = 20_000
_SECONDS = 0.05


def check_can_be_called(parameters: Mapping[str, Any], name: str, byte_tokens: Vocabulary) -> None:
    """Raise `ConstraintError` if no arguments satisfy the schema.

    Args:
        parameters: The schema.
        name: The tool's name, for the message.
        byte_tokens: `Vocabulary.of_bytes()`, shared by all tools of a list.
    """
    try:
        if _surely_has_value(parameters) or len(str(parameters)) > _MOST_CHARACTERS:
            return
        with call_limits(cpu_seconds=_SECONDS):
            compile_constraint(part_of_schema(dict(parameters), ()), byte_tokens)
    except (EmptyConstraint, UnsatisfiableSchema) as empty:
        pointer = getattr(empty, "pointer", None) or "#"
        raise ConstraintError(
            f"the tool can never be called: {empty.message}",
            where=f"the parameters of {name}, {pointer}",
            hint='Write {"type": "object", "properties": {}} for a tool without parameters.',
        ) from empty
    except (StructgenError, RecursionError):
        return  # errors in the schema are reported when it is compiled


def _surely_has_value(schema: object) -> bool:
    """Return whether a value of the schema surely exists, from its keywords alone."""
    if not isinstance(schema, _MAPPING):
        return schema is True
    keywords = schema.keys() - _ANNOTATIONS
    kind = schema.get("type")
    if "format" in schema and keywords & {"enum", "minLength", "maxLength"}:
        return False
    if "enum" in keywords:
        return keywords <= {"type", "enum"} and _lists_value(schema["enum"], kind)
    if isinstance(kind, list):
        if not all(isinstance(name, str) for name in kind) or len(set(kind)) < len(kind):
            return False  # repeated types would be followed again at each level
        return any(_surely_has_value({**schema, "type": name}) for name in kind)
    if kind == "object":
        return _has_object(schema, keywords)
    if kind is not None and not (isinstance(kind, str) and (kind == "integer" or kind in TYPES)):
        return False
    bounds = _BOUNDS.get(kind, ())
    if not keywords <= {"type", "items", *bounds}:
        return False
    given = [schema[bound] for bound in bounds if bound in schema]
    if any(type(number) is not int for number in given) or given != sorted(given):
        return False
    return not schema.get("minItems") or _surely_has_value(schema.get("items", True))


def _lists_value(values: object, kind: object) -> bool:
    """Return whether one of the values of `enum` surely has the type."""
    if not isinstance(values, list):
        return False
    return (
        bool(values) if kind is None else kind == "string" and any(isinstance(value, str) for value in values)
    )


def _has_object(schema: Mapping[str, Any], keywords: Set[str]) -> bool:
    """Return whether an object of the required keys alone surely satisfies the schema."""
    declared, required = schema.get("properties", {}), schema.get("required", [])
    if not keywords <= _OBJECT or not isinstance(declared, _MAPPING) or not isinstance(required, list):
        return False
    return all(isinstance(key, str) and _surely_has_value(declared.get(key)) for key in required)
