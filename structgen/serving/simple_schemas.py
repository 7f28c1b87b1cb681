"""Recognise JSON Schemas that are cheap to build and to mask by their form alone.

Why: a compile probe costs a round trip to another process, and the constraint is built twice. Most schemas of tools and
of structured output need no probe to know that they are harmless.
What: a schema is simple if it has only the keywords in `_CHECKS`, with small values, and annotations. Where several
sub-schemas may hold (`anyOf`, `oneOf`), the first characters of a value must choose one of them: their types differ, or
they are objects whose first key has different constants. So a text never has two open alternatives.
Invariant: reading, building and each mask of a simple schema are linear in its size, with a small factor. A schema that
is not known to be simple is not simple; nothing is ever refused here.
Cost: one visit of each sub-schema; about 1 µs for each keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from structgen.constraints.json_schema.nodes import TYPES

from .simple_patterns import simple_pattern_states

__all__ = ["is_simple_schema"]

_MOST_SCHEMAS = 50_000
_MOST_KEYS = 500
"""Properties of one object, since each mask between two keys visits all that may follow."""
_MOST_KEY_CHARACTERS = 50_000
"""Characters of all keys of one object, for the same reason."""
_MOST_ITEMS = 1_000
_MOST_CHARACTERS = 100_000
_MOST_CHARACTERS_OF_PATTERN = 10_000
"""The same for strings with a pattern or a format."""
_MOST_STATES = 10_000
"""States of the automaton of a pattern."""
_MOST_PAIRS = 2_048
"""States of a pattern times the shortest length. The search for a text that satisfies both visits each pair once."""
_MOST_BRANCHES = 1_024
_MOST_DEFINITIONS = 256
"""Since chains of references cost more than their length."""
_MOST_NUMBERS = 1_000
"""Numbers of an enumeration, which cost more than strings."""
_MOST_LISTED = 2_000
"""Listed values of all properties of one object, for the same reason as `_MOST_KEYS`."""
_LONGEST_NUMBER = 20
_BITS = {**TYPES, "integer": TYPES["number"]}
_ANNOTATIONS = frozenset(
    ("$comment", "title", "description", "default", "examples", "readOnly", "writeOnly", "deprecated")
)
_DEFINITIONS = frozenset(("$defs", "definitions"))
_WITH_BRANCHES = _ANNOTATIONS | _DEFINITIONS | {"$schema", "type", "anyOf", "oneOf"}
_WITH_REF = _ANNOTATIONS | _DEFINITIONS | {"$schema", "$ref"}
_DIALECTS = frozenset(
    f"{scheme}://json-schema.org/{name}"
    for scheme in ("http", "https")
    for name in ("draft-07/schema#", "draft-07/schema", "draft/2019-09/schema", "draft/2020-12/schema")
)
_FORMATS = frozenset(("date-time", "date", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"))
"""Formats with small automata."""

_Schema = dict[str, Any]


class _Walk:
    """The sub-schemas of one schema that wait for their visit."""

    def __init__(self, root: _Schema) -> None:
        self.root = root
        self.pending: list[Any] = [root]
        self.count = 0

    def is_simple(self) -> bool:
        pending, checks = self.pending, _CHECKS
        while pending:
            schema = pending.pop()
            if schema is True:
                continue
            self.count += 1
            if schema.__class__ is not dict or self.count > _MOST_SCHEMAS:
                return False
            for keyword, value in schema.items():
                check = checks.get(keyword)
                if check is None:
                    if keyword not in _ANNOTATIONS:
                        return False
                elif not check(self, value, schema):
                    return False
        return True

    def target(self, schema: Any) -> Any:
        """Return the schema that a reference leads to, or the schema itself; None if it is not a plain definition."""
        if schema.__class__ is not dict or "$ref" not in schema:
            return schema
        reference = schema["$ref"]
        parts = reference.split("/") if isinstance(reference, str) else ()
        if (
            len(parts) != 3
            or parts[0] != "#"
            or parts[1] not in _DEFINITIONS
            or "%" in parts[2]
            or "~" in parts[2]
        ):
            return None
        found = self.root.get(parts[1])
        target = found.get(parts[2]) if isinstance(found, dict) else None
        return None if target.__class__ is not dict or "$ref" in target else target

    def excludes_others(self, branches: list[Any], outer: int | None) -> bool:
        """Return whether the first characters of a value choose a branch.

        Args:
            branches: The sub-schemas.
            outer: The types that the value may have, as bits; None if they are not given.
        """
        seen = 0
        objects: list[_Schema] = []
        for branch in map(self.target, branches):
            if branch.__class__ is not dict or "anyOf" in branch or "oneOf" in branch:
                return False
            types = _types(branch) or outer
            if types == TYPES["object"]:
                objects.append(branch)
            elif types is None or types & seen:
                return False
            else:
                seen |= types
        if len(objects) < 2:
            return not (objects and seen & TYPES["object"])
        tags = list(map(_tag, objects))
        return (
            not seen & TYPES["object"]
            and None not in tags
            and len(set(tags)) == len(tags)
            and len({tag[0] for tag in tags if tag is not None}) == 1
        )


def is_simple_schema(schema: Any, *, ordered: bool) -> bool:
    """Return whether a parsed schema is simple.

    Args:
        schema: The schema, with decimals as `Decimal`.
        ordered: Whether objects write their keys in declared order. Otherwise a key that tells two alternatives apart
            need not come first.
    """
    if isinstance(schema, bool) or schema.__class__ is not dict or not ordered:
        return schema is True
    return _Walk(schema).is_simple()


def _types(schema: _Schema) -> int | None:
    """Return the types of the values of a schema as bits, from its own keywords; None if they do not say."""
    given = schema.get("type")
    if isinstance(given, str):
        return _BITS.get(given)
    if isinstance(given, list):
        return sum({_BITS[name] for name in given if isinstance(name, str) and name in _BITS}) or None
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(values, list):
        return None
    return TYPES["string"] if all(isinstance(value, str) for value in values) else None


def _tag(schema: _Schema) -> tuple[str, str] | None:
    """Return the first key of an object and its constant; None if it has no such key, or the key is optional."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties or not isinstance(required, list):
        return None
    key, value = next(iter(properties.items()))
    if key not in required or value.__class__ is not dict:
        return None
    names = value["enum"] if isinstance(value.get("enum"), list) else [value.get("const")]
    return (key, names[0]) if len(names) == 1 and isinstance(names[0], str) else None


def _is_type(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if value.__class__ is str:
        return value in _BITS
    return isinstance(value, list) and all(isinstance(name, str) and name in _BITS for name in value)


def _are_values(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if not isinstance(value, list) or not value:
        return False
    numbers = sum(not isinstance(one, str) for one in value)
    return numbers <= _MOST_NUMBERS and all(_is_scalar(walk, one, schema) for one in value)


def _is_scalar(walk: _Walk, value: Any, schema: _Schema) -> bool:
    return value is None or value.__class__ in (str, bool) or _is_number(walk, value, schema)


def _is_number(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if value.__class__ is int:
        return -(10**_LONGEST_NUMBER) < value < 10**_LONGEST_NUMBER  # type: ignore[no-any-return]
    if value.__class__ is not Decimal and value.__class__ is not float:
        return False
    text = str(value)
    return len(text) <= _LONGEST_NUMBER and text.lstrip("-").replace(".", "").isdigit()


def _is_count(most: int) -> Callable[[_Walk, Any, _Schema], bool]:
    def check(walk: _Walk, value: Any, schema: _Schema) -> bool:
        return value.__class__ is int and 0 <= value <= most

    return check


def _is_length(walk: _Walk, value: Any, schema: _Schema) -> bool:
    is_plain = "pattern" not in schema and "format" not in schema
    most = _MOST_CHARACTERS if is_plain else _MOST_CHARACTERS_OF_PATTERN
    return value.__class__ is int and 0 <= value <= most


def _is_pattern(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if not isinstance(value, str) or "format" in schema:
        return False
    states, shortest = simple_pattern_states(value), schema.get("minLength", 0)
    return (
        states is not None
        and states <= _MOST_STATES
        and isinstance(shortest, int)
        and (shortest <= 1 or states * shortest <= _MOST_PAIRS)
    )


def _is_format(walk: _Walk, value: Any, schema: _Schema) -> bool:
    # Whether a text of a format is long enough takes a search of milliseconds.
    return isinstance(value, str) and value in _FORMATS and schema.get("minLength", 0) in (0, 1)


def _are_properties(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if not isinstance(value, dict) or len(value) > _MOST_KEYS or not _are_short(value):
        return False
    listed = [
        len(one["enum"])
        for one in value.values()
        if one.__class__ is dict and isinstance(one.get("enum"), list)
    ]
    if sum(listed) > _MOST_LISTED and len(value) > 1:
        return False
    walk.pending.extend(value.values())
    return True


def _are_names(walk: _Walk, value: Any, schema: _Schema) -> bool:
    return isinstance(value, list) and len(value) <= _MOST_KEYS and _are_short(value)


def _are_short(names: Iterable[Any]) -> bool:
    try:
        return len("".join(names)) <= _MOST_KEY_CHARACTERS
    except TypeError:
        return False  # a key is not a text


def _is_schema(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if value is not False:
        walk.pending.append(value)
    return True


def _are_branches(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if not isinstance(value, list) or len(value) > _MOST_BRANCHES:
        return False
    if not schema.keys() <= _WITH_BRANCHES or ("anyOf" in schema and "oneOf" in schema):
        return False
    walk.pending.extend(value)
    return walk.excludes_others(value, _types(schema))


def _is_reference(walk: _Walk, value: Any, schema: _Schema) -> bool:
    return schema.keys() <= _WITH_REF and walk.target(schema) is not None


def _are_definitions(walk: _Walk, value: Any, schema: _Schema) -> bool:
    if schema is not walk.root or not isinstance(value, dict) or len(value) > _MOST_DEFINITIONS:
        return False
    walk.pending.extend(value.values())
    return True


def _is_dialect(walk: _Walk, value: Any, schema: _Schema) -> bool:
    return schema is walk.root and isinstance(value, str) and value in _DIALECTS


_CHECKS: dict[str, Callable[[_Walk, Any, _Schema], bool]] = {
    "type": _is_type,
    "enum": _are_values,
    "const": _is_scalar,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "minLength": _is_length,
    "maxLength": _is_length,
    "pattern": _is_pattern,
    "format": _is_format,
    "items": _is_schema,
    "minItems": _is_count(_MOST_ITEMS),
    "maxItems": _is_count(_MOST_ITEMS),
    "properties": _are_properties,
    "additionalProperties": _is_schema,
    "required": _are_names,
    "anyOf": _are_branches,
    "oneOf": _are_branches,
    "$ref": _is_reference,
    "$defs": _are_definitions,
    "definitions": _are_definitions,
    "$schema": _is_dialect,
}
