"""Is there an object that the parameters of a tool allow?

Why: a tool that can never be called would be left out of the turn in silence where calls are optional.
Invariant: what is refused has no arguments for certain. Where that takes too long to find out, nothing is refused.
Cost: nothing for schemas of the usual keywords; 50 ms of CPU time at most for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.constraints.json_schema.strings import TYPES
from structgen.core_calls import call_limits
from structgen.errors import ConstraintError, EmptyConstraint, StructgenError, UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

__all__ = ["check_can_be_called"]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "format", "$schema"})
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})
_MOST_CHARACTERS = 20_000
_SECONDS = 0.05


def check_can_be_called(parameters: Mapping[str, Any], name: str) -> None:
    """Raise `ConstraintError` if no arguments satisfy the schema."""
    try:
        if _surely_has_value(parameters) or len(str(parameters)) > _MOST_CHARACTERS:
            return
        with call_limits(cpu_seconds=_SECONDS):
            Matcher(part_of_schema(dict(parameters), ()), Vocabulary.of_bytes())
    except (EmptyConstraint, UnsatisfiableSchema) as empty:
        pointer = getattr(empty, "pointer", None) or "#"
        raise ConstraintError(
            f"the tool can never be called: {empty.message}",
            where=f"the parameters of {name}, {pointer}",
            hint='Write {"type": "object", "properties": {}} for a tool without parameters.',
        ) from empty
    except (StructgenError, RecursionError):
        return  # what is wrong with the schema is said where it is compiled


def _surely_has_value(schema: object) -> bool:
    """Return whether that shows at a glance."""
    if not isinstance(schema, Mapping):
        return schema is True
    keywords = schema.keys() - _ANNOTATIONS
    if keywords == {"enum"}:
        return bool(schema["enum"])
    kind = schema.get("type")
    if kind != "object":
        return keywords <= {"type", "items"} and kind in (None, "integer", *TYPES)
    declared, required = schema.get("properties", {}), schema.get("required", [])
    if not keywords <= _OBJECT or not isinstance(declared, Mapping) or not isinstance(required, list):
        return False
    return all(isinstance(key, str) and _surely_has_value(declared.get(key)) for key in required)
