"""Keys of dictionaries: the texts that a key type reads, as the schema of a string.

Why: JSON's keys are strings. Pydantic converts them, and describes of the key type little more than its pattern.
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
_MOST_MULTIPLES = 1000


def key_schema(keys: Schema, schema: Any) -> Schema | None:
    """The schema of a dictionary's keys; None where every text is a key.

    `keys` describes the key type's values, `schema` is pydantic's core schema of the dictionary.
    """
    found = _of(keys, schema)
    return None if found == {"type": "string"} else found


def _of(keys: Schema, schema: Any) -> Schema:
    if "enum" in keys or "const" in keys:
        return _finite(keys["enum"] if "enum" in keys else [keys["const"]], schema)
    if "anyOf" in keys:
        branches = [_of(branch, schema) for branch in keys["anyOf"]]
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
    if kind == "number" and "allOf" not in keys and "multipleOf" not in keys and _is_wide(keys):
        return _pattern(r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,14})?$")
    if kind == "boolean":
        return _pattern("^(?:true|false)$")
    if not keys:
        return {"type": "string"}
    raise Unreadable(
        "its keys cannot be read from the strings that JSON's keys are",
        "Use str, int, an enum or a date for keys, without bounds on numbers that are not whole; or a list of pairs.",
    )


def _is_wide(keys: Schema) -> bool:
    """Do the bounds only keep infinity away?"""
    return bool(keys.get("minimum", -1e300) <= -1e300 and keys.get("maximum", 1e300) >= 1e300) and not (
        keys.keys() & {"exclusiveMinimum", "exclusiveMaximum"}
    )


def _finite(values: list[Any], schema: Any) -> Schema:
    one: Any = core_schema.dict_schema(schema["keys_schema"])
    validator = SchemaValidator(one)
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    for text, value in zip(texts, values, strict=True):
        try:
            validator.validate_json(json.dumps({text: None}))
        except ValidationError as error:
            raise Unreadable(
                f"its key {value!r} cannot be read from a string",
                "Keys of an enum that is not derived from int, and literals, have to be strings.",
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
    if low is None or high is None or (high - low) // step > _MOST_MULTIPLES:
        raise Unreadable("its keys have a multiple_of and no close bounds", "Give the keys ge= and le=, too.")
    multiples = range(-(-low // step) * step, high + 1, step)
    return _pattern(f"^(?:{'|'.join(map(str, multiples))})$")


def _pattern(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}
