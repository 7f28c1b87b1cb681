"""The parameters of a tool one by one, as the notations that are not one JSON object need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from structgen.errors import UnsupportedKeyword

from .definitions import Tool

__all__ = ["ANNOTATIONS", "Parameter", "parameters_of", "resolved", "within"]

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
"""Keywords that allow and forbid nothing."""
_DEFINITIONS = ("$defs", "definitions")
_KNOWN = frozenset({"type", "properties", "required", "additionalProperties", *_DEFINITIONS}) | ANNOTATIONS
_MOST_REFERENCES = 32


class Parameter(NamedTuple):
    """One of them."""

    name: str
    schema: Any
    required: bool


def parameters_of(tool: Tool, notation: str) -> Iterator[Parameter]:
    """In the order in which they are declared; only declared ones are written."""
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


def within(tool: Tool, schema: Any) -> Any:
    """A part of the parameters as a schema of its own, with the definitions that it may refer to."""
    if not isinstance(schema, Mapping):
        return schema
    definitions = {key: tool.parameters[key] for key in _DEFINITIONS if key in tool.parameters}
    return {**definitions, **schema}


def resolved(tool: Tool, schema: Any) -> Any:
    """The schema that a chain of references to the tool's definitions leads to."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping) or schema.keys() - ANNOTATIONS != {"$ref"}:
            return schema
        group, _, name = str(schema["$ref"]).removeprefix("#/").partition("/")
        target = tool.parameters.get(group, {}).get(name) if group in _DEFINITIONS else None
        if target is None:
            return schema
        schema = target
    return schema


def _unsupported(tool: Tool, notation: str, pointer: str, keyword: str) -> UnsupportedKeyword:
    return UnsupportedKeyword(
        f"{keyword} in the parameters of {tool.name} cannot be followed where arguments are written as {notation}",
        pointer=pointer,
        keyword=keyword,
        hint="Use a format whose arguments are a JSON object, such as hermes.",
    )
