"""Write the arguments of a call as text, in each of the notations: the inverse of `argument_readers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from structgen.constraints.json_schema.whitespace import WhitespaceName

from .forms import Form
from .xml_styles import XmlStyle

__all__ = ["bare_text", "json_text", "python_literal", "write_elements", "write_keywords"]

_COMPACT = (",", ":")


def json_text(value: Any, whitespace: WhitespaceName = "json.dumps") -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=_COMPACT if whitespace == "compact" else None)


def write_keywords(arguments: Mapping[str, Any], write: Callable[[Any], str]) -> str:
    """Return arguments as keyword arguments. `write` returns a value as text."""
    return ", ".join(f"{name}={write(value)}" for name, value in arguments.items())


def python_literal(value: Any) -> str:
    """Return a JSON value in JSON's spelling, with Python's words."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, Mapping):
        items = [f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(python_literal, value)) + "]"
    return json_text(value)


def bare_text(value: Any, quote: str) -> str:
    """Return a value in JSON's form, with keys without quotes and strings between two marks."""
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{bare_text(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(bare_text(item, quote) for item in value) + "]"
    return json_text(value)


def write_elements(
    arguments: Mapping[str, Any], style: XmlStyle, forms: Mapping[str, Form] | None = None
) -> str:
    """Return arguments as one element each.

    Args:
        arguments: The arguments, in their order.
        style: How elements are written.
        forms: The forms of the parameters; without them, each string is written without quotes.
    """
    written = []
    for name, value in arguments.items():
        is_plain = isinstance(value, str) and (style.types or (forms or {}).get(name) != "json")
        text = value if is_plain else json_text(value)
        key = name
        for character, escape in style.escapes.items():
            key = key.replace(character, escape)
        # In this order: a value may contain what looks like a placeholder.
        element = style.without_gaps.replace("$type", style.types.get(_json_type(value), ""))
        before, _, after = element.partition("$value")
        written.append(before.replace("$name", key) + text + after)
    return style.between.join(written)


def _json_type(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list | tuple) else "number"
