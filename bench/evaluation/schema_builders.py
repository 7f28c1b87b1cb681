"""Builders of schemas with short names, so that a generated schema fits on a page."""

from __future__ import annotations

from typing import Any

__all__ = ["D4", "D7", "B", "I", "N", "S", "arr", "enum", "obj", "ref", "text"]

S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}  # noqa: E741
N: dict[str, Any] = {"type": "number"}
B: dict[str, Any] = {"type": "boolean"}
D4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
D7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


def obj(required: str = "", /, *, closed: bool | None = None, **properties: Any) -> dict[str, Any]:
    """Build an object schema; `required` are names separated by spaces, and a trailing underscore is dropped."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {k.rstrip("_"): v for k, v in properties.items()},
    }
    if required:
        schema["required"] = required.split()
    if closed is not None:
        schema["additionalProperties"] = not closed
    return schema


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def enum(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def text(about: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "string", **({"description": about} if about else {}), **more}


def ref(name: str, under: str = "definitions") -> dict[str, Any]:
    return {"$ref": f"#/{under}/{name}"}
