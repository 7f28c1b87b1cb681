"""Describe a type in words, for a prompt: its fields with their descriptions, in a few lines for a small model.

Why: field descriptions state what the author means; the constraint alone does not inform the model.

What: one line per field, nested fields indented: ``- name (string, required): The full name.``
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

__all__ = ["describe_schema", "is_one_object"]


def describe_schema(schema: dict[str, Any]) -> str:
    """Return lines that describe the JSON of a schema."""
    definitions = schema.get("$defs", {})
    lines = [
        f"Answer with JSON: {_kind_of_value(schema, definitions)}.{_description_of(_resolve(schema, definitions))}"
    ]
    lines += _fields(schema, definitions, "", frozenset())
    return "\n".join(lines)


@lru_cache(maxsize=512)
def is_one_object(text: str) -> bool:
    """Return whether a schema, given as JSON, describes one object with declared fields, or a list of such objects."""
    schema = json.loads(text)
    definitions = schema.get("$defs", {}) if isinstance(schema, dict) else {}
    for _ in range(_MAX_NESTING):
        if not isinstance(schema, dict):
            return False
        schema = _resolve(schema, definitions)
        branches = [branch for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
        if len(branches) == 1:
            schema = branches[0]
        elif schema.get("type") == "array" and isinstance(schema.get("items"), dict):
            schema = schema["items"]
        else:
            break
    return bool(schema.get("properties")) and not {"anyOf", "oneOf"} & schema.keys()


_MAX_NESTING = 8
"""References, lists and optional types that are followed."""


def _fields(
    schema: dict[str, Any], definitions: dict[str, Any], indent: str, inside: frozenset[str]
) -> list[str]:
    """Return one line per field, with those of nested objects below; a recursive object is not repeated."""
    reference = schema.get("$ref")
    if reference in inside:
        return []
    if reference is not None:
        inside |= {reference}
    schema = _resolve(schema, definitions)
    lines: list[str] = []
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        optional = "" if name in required else ", optional"
        note = _description_of(field) or _description_of(_resolve(field, definitions))
        lines.append(
            f"{indent}- {name} ({_kind_of_value(field, definitions)}{optional}){':' if note else ''}{note}"
        )
        lines += _fields(field, definitions, indent + "  ", inside)
    for part in (schema.get("items"), schema.get("additionalProperties"), *schema.get("prefixItems", ())):
        if isinstance(part, dict):
            lines += _fields(part, definitions, indent, inside)
    branches = (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
    described = [(branch, _fields(branch, definitions, indent, inside)) for branch in branches]
    several = sum(bool(inner) for _, inner in described) > 1
    for branch, inner in described:
        lines += [f"{indent}{_kind_of_value(branch, definitions)}:"] if several and inner else []
        lines += inner
    return lines


def _kind_of_value(
    schema: dict[str, Any], definitions: dict[str, Any], inside: frozenset[str] = frozenset()
) -> str:
    """Return the kind of value in words; a recursive type is called by its name."""
    reference = schema.get("$ref")
    if reference in inside:
        return str(reference.rpartition("/")[2])
    if reference is not None:
        inside |= {reference}
    resolved = _resolve(schema, definitions)
    if "const" in resolved:
        return json.dumps(resolved["const"], ensure_ascii=False)
    if "enum" in resolved:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in resolved["enum"])
    branches = [*resolved.get("anyOf", ()), *resolved.get("oneOf", ())]
    if branches:
        return " or ".join(dict.fromkeys(_kind_of_value(branch, definitions, inside) for branch in branches))
    kind = str(resolved.get("type", "any value"))
    if kind == "object":
        values = resolved.get("additionalProperties")
        if isinstance(values, dict) and "properties" not in resolved:
            return f"an object whose values are {_kind_of_value(values, definitions, inside)}"
        return (
            f"an object {resolved['title']}"
            if "title" in resolved and "properties" in resolved
            else "an object"
        )
    if kind == "array":
        items = resolved.get("items")
        return (
            f"a list of {_kind_of_value(items, definitions, inside)}" if isinstance(items, dict) else "a list"
        )
    return f"{resolved['format']} {kind}" if "format" in resolved else kind


def _description_of(schema: dict[str, Any]) -> str:
    description = " ".join(str(schema.get("description", "")).split())
    limits = [f"{words} {schema[key]}" for key, words in _LIMITS if key in schema]
    parts = [description, f"({', '.join(limits)})" if limits else ""]
    note = " ".join(part for part in parts if part)
    return f" {note}" if note else ""


_LIMITS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "less than"),
    ("minLength", "length at least"),
    ("maxLength", "length at most"),
    ("minItems", "items at least"),
    ("maxItems", "items at most"),
    ("pattern", "pattern"),
)


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    found = definitions.get(name) if reference.startswith("#/$defs/") else None
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}} if found else schema
