"""Keys of dictionaries: the texts that a key type accepts, as the schema of a string.

Why: JSON's keys are strings. Pydantic converts them, and describes little more of the key type than its pattern.

Invariant: every text of the schema is a key that the type accepts.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError
from pydantic_core import SchemaValidator, core_schema

from . import patterns
from .readable import Unreadable

__all__ = ["key_schema"]

Schema = dict[str, Any]
_STRING = ("type", "pattern", "x-pattern-dialect", "format", "minLength", "maxLength", "allOf")
_MAX_MULTIPLES = 1000


def key_schema(keys: Schema, schema: object) -> Schema | None:
    """Return the schema of a dictionary's keys; None if every text is a key.

    Args:
        keys: The schema of the key type's values.
        schema: Pydantic's core schema of the dictionary.

    Raises:
        Unreadable: The keys cannot be stated as a schema of strings.
    """
    described = _string_schema(keys, schema)
    return None if described == {"type": "string"} else described


def _string_schema(keys: Schema, schema: object) -> Schema:
    if "enum" in keys or "const" in keys:
        return _enumerated(keys["enum"] if "enum" in keys else [keys["const"]], schema)
    if "anyOf" in keys:
        branches = [_string_schema(branch, schema) for branch in keys["anyOf"]]
        if {"type": "string"} in branches:
            return {"type": "string"}
        if all(branch.keys() == {"type", "pattern"} for branch in branches):
            return _pattern("|".join(f"(?:{branch['pattern']})" for branch in branches))
        return {"type": "string", "anyOf": branches}
    kind = keys.get("type")
    if kind == "string":
        return {keyword: keys[keyword] for keyword in _STRING if keyword in keys}
    if kind == "integer":
        return _integers(keys)
    if kind == "number" and not keys.keys() & {
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    }:
        return _pattern(r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,14})?$")
    if (
        kind == "number"
        and "allOf" not in keys
        and "multipleOf" not in keys
        and _only_excludes_infinity(keys)
    ):
        return _pattern(r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,14})?$")
    if kind == "boolean":
        return _pattern("^(?:true|false)$")
    if not keys:
        return {"type": "string"}
    raise Unreadable(
        "its keys cannot be converted from strings, as JSON's keys are",
        "Use str, int, an enum or a date for keys, floats without bounds, or a list of pairs.",
    )


def _only_excludes_infinity(keys: Schema) -> bool:
    """Return whether the bounds only exclude infinity."""
    return bool(keys.get("minimum", -1e300) <= -1e300 and keys.get("maximum", 1e300) >= 1e300) and not (
        keys.keys() & {"exclusiveMinimum", "exclusiveMaximum"}
    )


def _enumerated(values: list[Any], schema: Any) -> Schema:
    dictionary: Any = core_schema.dict_schema(schema["keys_schema"])
    validator = SchemaValidator(dictionary)
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    for text, value in zip(texts, values, strict=True):
        try:
            validator.validate_json(json.dumps({text: None}))
        except ValidationError as error:
            raise Unreadable(
                f"its key {value!r} cannot be converted from a string",
                "Keys that are literals, or members of an enum not derived from int, must be strings.",
            ) from error
    return _pattern(f"^(?:{'|'.join(map(re.escape, texts))})$")


def _integers(keys: Schema) -> Schema:
    low, high = keys.get("minimum"), keys.get("maximum")
    if "exclusiveMinimum" in keys:
        low = max(keys["exclusiveMinimum"] + 1, keys["exclusiveMinimum"] + 1 if low is None else low)
    if "exclusiveMaximum" in keys:
        high = min(keys["exclusiveMaximum"] - 1, keys["exclusiveMaximum"] - 1 if high is None else high)
    step = keys.get("multipleOf")
    if step is None:
        return _pattern(patterns.integer(low, high))
    if low is None or high is None or (high - low) // step > _MAX_MULTIPLES:
        raise Unreadable("its keys have a multiple_of without close bounds", "Add ge= and le= to the keys.")
    multiples = range(-(-low // step) * step, high + 1, step)
    return _pattern(f"^(?:{'|'.join(map(str, multiples))})$")


def _pattern(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}
