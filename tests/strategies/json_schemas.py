"""Random JSON Schemas restricted to a set of keywords, small and dense: every keyword bites often.

`schemas(keywords)` draws from `ASSERTIONS` and `APPLICATORS` below only what the set names, so a
test says what it supports: `schemas(CORE - {"not"})`. All schemas share few names, strings and
numbers, so that keywords of different branches meet in the same instances.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Schema = Any  # bool | dict[str, Schema]

NAMES = ("a", "b", "ab", "", "é", "x y")
STRINGS = ("", "a", "b", "ab", "abc", "aab", "0", "12", 'q"', "\\", "é", "\U0001f600", "a\n")
NUMBERS = tuple(
    Decimal(text) for text in ("-10", "-2", "-1", "-0.5", "0", "0.1", "1", "1.5", "2", "3", "7", "10")
)
PATTERNS = (
    "^a",
    "b$",
    "^[a-c]*$",
    "^.{1,2}$",
    "[0-9]",
    "^a+b?$",
    "^(a|bc)*$",
    "é|^$",
    r"^\S+$",
    "^(?!ab).*$",
)
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email", "uri", "unknown-format")
TYPES = ("null", "boolean", "object", "array", "number", "integer", "string")

names = st.sampled_from(NAMES)
numbers = st.sampled_from(NUMBERS)
small = st.integers(0, 3)
scalars = st.none() | st.booleans() | numbers | st.sampled_from(STRINGS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)

ASSERTIONS: dict[str, SearchStrategy[Any]] = {
    "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
    "enum": st.lists(values, min_size=1, max_size=4),
    "const": values,
    "minimum": numbers,
    "maximum": numbers,
    "exclusiveMinimum": numbers,
    "exclusiveMaximum": numbers,
    "multipleOf": st.sampled_from([Decimal(text) for text in ("1", "2", "3", "0.5", "0.1", "2.5")]),
    "minLength": small,
    "maxLength": small,
    "pattern": st.sampled_from(PATTERNS),
    "format": st.sampled_from(FORMATS),
    "minItems": small,
    "maxItems": small,
    "uniqueItems": st.booleans(),
    "minContains": small,
    "maxContains": small,
    "required": st.lists(names, max_size=2, unique=True),
    "minProperties": small,
    "maxProperties": small,
    "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
}


def _one(child: SearchStrategy[Schema]) -> SearchStrategy[Any]:
    return child


def _list(child: SearchStrategy[Schema]) -> SearchStrategy[Any]:
    return st.lists(child, min_size=1, max_size=3)


def _map(child: SearchStrategy[Schema]) -> SearchStrategy[Any]:
    return st.dictionaries(names, child, max_size=3)


def _by_pattern(child: SearchStrategy[Schema]) -> SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(PATTERNS), child, max_size=2)


APPLICATORS: dict[str, Callable[[SearchStrategy[Schema]], SearchStrategy[Any]]] = {
    "properties": _map,
    "patternProperties": _by_pattern,
    "additionalProperties": _one,
    "propertyNames": _one,
    "items": _one,
    "prefixItems": _list,
    "contains": _one,
    "allOf": _list,
    "anyOf": _list,
    "oneOf": _list,
    "not": _one,
    "if": _one,
    "then": _one,
    "else": _one,
    "dependentSchemas": _map,
    "unevaluatedItems": _one,
    "unevaluatedProperties": _one,
}

ALL = frozenset(ASSERTIONS) | frozenset(APPLICATORS) | {"$ref"}
CORE = frozenset(
    ("type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties")
    + (
        "minProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
    )
    + ("pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    + ("anyOf", "oneOf", "allOf", "not", "$ref")
)

# Keywords that say something only together are drawn together.
_TOGETHER = (
    {"type"},
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    {"minLength", "maxLength", "pattern", "format"},
    {"minItems", "maxItems", "items", "prefixItems", "uniqueItems", "unevaluatedItems"},
    {"contains", "minContains", "maxContains"},
    {"properties", "required", "additionalProperties", "patternProperties", "unevaluatedProperties"},
    {"minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas"},
    {"if", "then", "else"},
    {"allOf", "anyOf", "oneOf", "not"},
    {"enum"},
    {"const"},
    {"$ref"},
)
_DEFINITIONS = ("first", "second")


def schemas(keywords: Collection[str] = CORE, *, depth: int = 2) -> SearchStrategy[Schema]:
    """Schemas of draft 2020-12; with "$ref" in `keywords` they have definitions and may recurse.

    A reference may loop without consuming the instance; the oracle then raises SchemaError.
    """
    known = frozenset(keywords)
    if unknown := known - ALL:
        raise ValueError(f"no strategy for {sorted(unknown)}")
    body = _schema(known, depth)
    if "$ref" not in known:
        return body
    inner = _schema(known, max(0, depth - 1))
    return st.builds(_with_definitions, body, st.tuples(*(inner for _ in _DEFINITIONS)))


def _with_definitions(schema: Schema, definitions: tuple[Schema, ...]) -> Schema:
    if isinstance(schema, bool):
        return schema
    return {**schema, "$defs": dict(zip(_DEFINITIONS, definitions, strict=True))}


def _schema(keywords: frozenset[str], depth: int) -> SearchStrategy[Schema]:
    if depth < 0:
        return st.booleans()
    return st.one_of(*([_object_schema(keywords, depth)] * 9), st.booleans())


@st.composite
def _object_schema(draw: DrawFn, keywords: frozenset[str], depth: int) -> Schema:
    child = st.deferred(lambda: _schema(keywords, depth - 1))
    groups = [sorted(group & keywords) for group in _TOGETHER if group & keywords]
    schema: dict[str, Schema] = {}
    for group in draw(st.lists(st.sampled_from(groups), max_size=3, unique_by=tuple)):
        for name in draw(st.lists(st.sampled_from(group), min_size=1, max_size=4, unique=True)):
            if name == "$ref":
                schema[name] = draw(st.sampled_from(["#", *(f"#/$defs/{name}" for name in _DEFINITIONS)]))
            elif name in ASSERTIONS:
                schema[name] = draw(ASSERTIONS[name])
            elif depth > 0:
                schema[name] = draw(APPLICATORS[name](child))
    return schema
