"""Short words for schemas, so that a page holds several."""

from __future__ import annotations

from typing import Any

__all__ = ["D4", "D7", "D2020", "B", "I", "N", "S", "arr", "enum", "null_or", "obj", "ref", "text"]

S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}  # noqa: E741
N: dict[str, Any] = {"type": "number"}
B: dict[str, Any] = {"type": "boolean"}
D4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
D7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
D2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def obj(required: str = "", /, *, closed: bool | None = None, **properties: Any) -> dict[str, Any]:
    """An object; `required` are names, divided by spaces; a name's trailing underscore is dropped."""
    told: dict[str, Any] = {"type": "object", "properties": {k.rstrip("_"): v for k, v in properties.items()}}
    if required:
        told["required"] = required.split()
    if closed is not None:
        told["additionalProperties"] = not closed
    return told


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def enum(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def text(about: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "string", **({"description": about} if about else {}), **more}


def null_or(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, "null"]}


def ref(name: str, under: str = "definitions") -> dict[str, Any]:
    return {"$ref": f"#/{under}/{name}"}
