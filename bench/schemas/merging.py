"""References, branches and conjunctions of schemas, for the walk that draws instances.

`merged` joins two schemas into one that requires both, for the keywords that a draw uses. It is approximate: the oracle
rejects instances that violate what it drops (`bench.schemas.instances`).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

__all__ = ["Impossible", "branches", "external_references", "merged", "resolved"]


class Impossible(Exception):
    """A sub-schema has no instance, or the draw found none."""


def resolved(root: Any, reference: str) -> Any:
    """Return the sub-schema to which a local reference points."""
    if reference == "#":
        return root
    if reference.startswith("#/"):
        part = root
        for step in reference[2:].split("/"):
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                part = part[int(step)] if isinstance(part, list) else part[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise Impossible from None
        return part
    named = _named(root, reference)
    if named is None:
        raise Impossible
    return named


def _named(root: Any, reference: str) -> Any:
    """The sub-schema with this `$id` or `$anchor`."""
    name = reference.removeprefix("#")
    stack = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("$anchor") == name or reference in (part.get("$id"), part.get("id")):
                return part
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return None


def external_references(schema: Any) -> bool:
    """Return whether a schema refers to another document."""
    stack = [schema]
    named: set[str] = set()
    references: list[str] = []
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            named.update(v for k in ("$id", "id") if isinstance(v := part.get(k), str))
            if isinstance(reference := part.get("$ref"), str):
                references.append(reference)
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return any(not r.startswith("#") and r.split("#")[0] not in named for r in references)


def branches(schema: dict[str, Any]) -> str | None:
    """Return the first keyword of a schema that offers a choice."""
    return next((name for name in ("anyOf", "oneOf", "if") if name in schema), None)


def merged(left: Any, right: Any) -> dict[str, Any]:
    """Return a schema for what both allow, as far as a draw can use it.

    Raises:
        Impossible: If their types or values have nothing in common.
    """
    if left is False or right is False:
        raise Impossible
    if left is True or right is True:
        kept = right if left is True else left
        return dict(kept) if isinstance(kept, dict) else {}
    joined = dict(left)
    for name, value in right.items():
        if name not in joined:
            joined[name] = value
        elif joined[name] != value:
            joined[name] = _RULES.get(name, _last)(joined[name], value)
    if "const" in joined and "enum" in joined and joined["const"] not in joined["enum"]:
        raise Impossible
    return joined


def _last(_: Any, value: Any) -> Any:
    return value


def _both(left: Any, right: Any) -> Any:
    return {"allOf": [left, right]}


def _types(left: Any, right: Any) -> list[str]:
    first = [left] if isinstance(left, str) else left
    second = [right] if isinstance(right, str) else right
    common = [t for t in first if t in second]
    if "number" in first and "integer" in second or "number" in second and "integer" in first:
        common.append("integer")
    if not common:
        raise Impossible
    return list(dict.fromkeys(common))


def _values(left: list[Any], right: list[Any]) -> list[Any]:
    common = [v for v in left if v in right]
    if not common:
        raise Impossible
    return common


def _same(left: Any, right: Any) -> Any:
    raise Impossible


def _members(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    joined = dict(left)
    for name, value in right.items():
        joined[name] = value if name not in joined or joined[name] == value else _both(joined[name], value)
    return joined


def _pairs(left: list[Any], right: list[Any]) -> list[Any]:
    """A branch for each pair of branches, from the first few of each."""
    return [_both(a, b) for a in left[:20] for b in right[:20]]


def _additional(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    if left is True or right is True:
        return right if left is True else left
    return _both(left, right)


_RULES: dict[str, Any] = {
    "type": _types,
    "enum": _values,
    "const": _same,
    "required": lambda a, b: (
        list(dict.fromkeys([*a, *b])) if isinstance(a, list) and isinstance(b, list) else b
    ),
    "properties": _members,
    "patternProperties": _members,
    "$defs": lambda a, b: {**b, **a},
    "definitions": lambda a, b: {**b, **a},
    "dependentRequired": _members,
    "additionalProperties": _additional,
    "items": lambda a, b: _both(a, b) if isinstance(a, dict) and isinstance(b, dict) else b,
    "allOf": lambda a, b: [*a, *b],
    "anyOf": lambda a, b: _pairs(a, b),
    "oneOf": lambda a, b: _pairs(a, b),
    "examples": lambda a, b: [],
    "default": lambda a, b: None,
    **dict.fromkeys(("minimum", "minLength", "minItems", "minProperties", "exclusiveMinimum"), max),
    **dict.fromkeys(("maximum", "maxLength", "maxItems", "maxProperties", "exclusiveMaximum"), min),
}
