"""The parameters of a tool one by one, for notations other than one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from structgen.constraints.json_schema.constraint import JsonSchemaConstraint, part_of_schema
from structgen.constraints.json_schema.pointers import segments
from structgen.errors import UnsupportedKeyword

from .definitions import Tool

__all__ = [
    "ANNOTATIONS",
    "DEFINITIONS",
    "WRITTEN",
    "Parameter",
    "SchemaPath",
    "constraint_at",
    "has_identifier",
    "parameters_of",
    "resolved",
]

SchemaPath = tuple[str, ...]
"""Keywords and keys that lead from the root of a schema to a sub-schema."""
WRITTEN: dict[str, Any] = {"ordered": True, "whitespace": "json.dumps", "integers": "digits"}
"""How the JSON of one value is written."""

ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
    }
)
"""Keywords without an effect on values."""
DEFINITIONS = ("$defs", "definitions")
_IDENTIFIERS = frozenset({"$id", "id", "$anchor", "$dynamicAnchor"})
_KNOWN = (
    frozenset({"type", "properties", "required", "additionalProperties", *DEFINITIONS})
    | ANNOTATIONS
    | _IDENTIFIERS
)
_MOST_REFERENCES = 32


class Parameter(NamedTuple):
    """One parameter."""

    name: str
    schema: Any
    required: bool


def parameters_of(tool: Tool, notation: str) -> Iterator[Parameter]:
    """Return the declared parameters, in their order."""
    root = tool.parameters
    for keyword in root.keys() - _KNOWN:
        raise _unsupported(tool, notation, f"#/{keyword}", keyword)
    if root.get("type", "object") != "object":
        raise _unsupported(tool, notation, "#/type", "type")
    properties: Mapping[str, Any] = root.get("properties", {})
    required = root.get("required", ())
    for name in required:
        if name not in properties:
            raise _unsupported(tool, notation, "#/required", "required")
    for name, schema in properties.items():
        yield Parameter(name, schema, name in required)


def constraint_at(tool: Tool, path: SchemaPath) -> JsonSchemaConstraint:
    """Return the constraint of the sub-schema at this pointer. References are resolved in the whole schema."""
    return part_of_schema(tool.parameters, path, **WRITTEN)


def resolved(tool: Tool, schema: Any, path: SchemaPath) -> tuple[Any, SchemaPath]:
    """Return the sub-schema at the end of a chain of references inside the parameters, and its pointer.

    A reference to another document stays unresolved.
    """
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping) or schema.keys() - ANNOTATIONS != {"$ref"}:
            break
        target = _target(tool.parameters, schema["$ref"])
        if target is None:
            break
        schema, path = target
    return schema, path


def _target(root: Mapping[str, Any], reference: object) -> tuple[Any, SchemaPath] | None:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    path = tuple(segments(reference[1:]))
    part: Any = root
    for name in path:
        if not isinstance(part, Mapping) or name not in part:
            return None
        if part is not root and has_identifier(part):
            return None  # references inside it have another base
        part = part[name]
    return part, path


def has_identifier(schema: Mapping[str, Any]) -> bool:
    """Return whether references inside the sub-schema may have another base than outside."""
    return any(isinstance(schema.get(keyword), str) for keyword in ("$id", "id"))


def _unsupported(tool: Tool, notation: str, pointer: str, keyword: str) -> UnsupportedKeyword:
    return UnsupportedKeyword(
        f"{keyword} in the parameters of {tool.name} cannot be followed where arguments are written as {notation}",
        pointer=pointer,
        keyword=keyword,
        hint="Use a format whose arguments are a JSON object, such as hermes.",
    )
