"""Inputs with shared parts: n lines that are a tree of 2^n nodes.

A function that walks such an input as a tree, without remembering what it visited, does not return. References of a
schema, rules of a grammar and templates make such inputs; two kilobytes are enough.

A level uses the next level twice. `STEPS` are the keywords that a sub-schema can use for this, `LEAVES` the contents of
the last level, `GRAMMARS` whole grammars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["GRAMMARS", "LEAVES", "STEPS", "UNEVALUATED", "beside_unevaluated", "inside", "schema"]

Schema = dict[str, Any]


def _but(part: Schema, value: object) -> Schema:
    return {"allOf": [part, {"not": {"const": value}}]}


STEPS: dict[str, Callable[[Schema, int], Schema]] = {
    "oneOf, not": lambda part, i: {"oneOf": [part, {"not": part}]},
    "oneOf": lambda part, i: {"oneOf": [part, {"allOf": [part, {"const": i}]}]},
    "oneOf, enum": lambda part, i: {"oneOf": [part, {"enum": [f"x{i}", i, {"a": i}, [i]]}]},
    "anyOf": lambda part, i: {"anyOf": [_but(part, i), _but(part, f"x{i}")]},
    "allOf": lambda part, i: {
        "allOf": [{"anyOf": [part, {"const": i}]}, {"anyOf": [part, {"const": f"x{i}"}]}]
    },
    "not": lambda part, i: {
        "not": {"anyOf": [{"not": part}, {"allOf": [part, {"const": f"a{i}"}]}]},
    },
    "if": lambda part, i: {
        "if": part,
        "then": {"not": {"const": i}},
        "else": {"anyOf": [part, {"const": f"x{i}"}]},
    },
    "then, else": lambda part, i: {
        "if": {"not": {"const": f"x{i}"}},
        "then": part,
        "else": {"not": part},
    },
    "properties": lambda part, i: {"properties": {"a": part, "b": part}, "required": ["a"], "items": part},
    "items": lambda part, i: {"prefixItems": [part], "items": part, "contains": part, "minItems": 1},
}
"""Functions by the keywords they use: from the next level's schema and a number to the schema of a level."""


def _object(part: Schema, i: int) -> Schema:
    return {"properties": {f"k{i}": part}}


def _present(part: Schema, i: int) -> Schema:
    return _object(part, i) | {"required": [f"k{i}"]}


def _first(part: Schema) -> Schema:
    return {"prefixItems": [part]}


UNEVALUATED: dict[str, Callable[[Schema, int], Schema]] = {
    "anyOf": lambda part, i: {"anyOf": [part, _object(part, i)], "unevaluatedProperties": part},
    "oneOf": lambda part, i: {"oneOf": [part, _present(part, i)], "unevaluatedProperties": part},
    "allOf": lambda part, i: {"allOf": [part, _object(part, i)], "unevaluatedProperties": part},
    "if": lambda part, i: {"if": _object(part, i), "then": part, "unevaluatedProperties": part},
    "else": lambda part, i: {"if": _present(part, i), "else": part, "unevaluatedProperties": part},
    "dependentSchemas": lambda part, i: {
        **_object(part, i),
        "dependentSchemas": {f"k{i}": part},
        "unevaluatedProperties": part,
    },
    "anyOf, a type": lambda part, i: {
        "anyOf": [part, _object(part, i)],
        "unevaluatedProperties": {"type": "integer"},
    },
    "anyOf, false": lambda part, i: {"anyOf": [part, _object(part, i)], "unevaluatedProperties": False},
    "items, anyOf": lambda part, i: {"anyOf": [part, _first(part)], "unevaluatedItems": part},
    "items, oneOf": lambda part, i: {
        "oneOf": [part, _first(part) | {"minItems": 2}],
        "unevaluatedItems": part,
    },
    "items, allOf": lambda part, i: {"allOf": [part, _first(part)], "unevaluatedItems": part},
    "items, if": lambda part, i: {"if": _first(part), "then": part, "unevaluatedItems": part},
    "items, false": lambda part, i: {"anyOf": [part, _first(part)], "unevaluatedItems": False},
}
"""Levels with `unevaluatedProperties` or `unevaluatedItems`, which depend on the levels below."""

LEAVES: dict[str, Schema] = {
    "any": {"minimum": 3},
    "number": {"type": "number", "minimum": 3},
    "string": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 40},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "object": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}},
    "array": {"type": "array", "minItems": 1, "items": {"type": "integer"}},
}


def schema(step: str, leaf: str, n: int) -> Schema:
    """Return a schema of `n` levels."""
    levels = {f"d{i}": STEPS[step]({"$ref": f"#/$defs/d{i + 1}"}, i) for i in range(n)}
    return {"$ref": "#/$defs/d0", "$defs": {**levels, f"d{n}": LEAVES[leaf]}}


def inside(step: str, leaf: str, n: int) -> Schema:
    """Return an object schema whose values are null or of such a schema, so that the first value reaches the levels."""
    levels = schema(step, leaf, n)
    value = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d0"}]}
    return {"type": "object", "additionalProperties": value, "$defs": levels["$defs"]}


def beside_unevaluated(step: str, leaf: Schema, n: int) -> Schema:
    """Return a schema of `n` levels of `UNEVALUATED`."""
    levels = {f"d{i}": UNEVALUATED[step]({"$ref": f"#/$defs/d{i + 1}"}, i) for i in range(n)}
    return {"$ref": "#/$defs/d0", "$defs": {**levels, f"d{n}": leaf}}


def _rules(start: str, level: str, last: str) -> Callable[[int], str]:
    """Return a function that writes `n` levels; {a} is the number of a level, {b} that of the next one."""

    def made(n: int) -> str:
        lines = [level.replace("{a}", str(i)).replace("{b}", str(i + 1)) for i in range(n)]
        return "\n".join([start, *lines, last.replace("{a}", str(n))]) + "\n"

    return made


GRAMMARS: dict[str, tuple[str, Callable[[int], str]]] = {
    "twice": ("gbnf", _rules("root ::= d0", "d{a} ::= d{b} d{b}", 'd{a} ::= "a"')),
    "twice, a class": ("gbnf", _rules("root ::= d0", "d{a} ::= d{b} d{b}", 'd{a} ::= [a-z] | "10"')),
    "alternatives": ("gbnf", _rules("root ::= d0", 'd{a} ::= d{b} | "x{a}" d{b}', 'd{a} ::= "a"')),
    "options": ("gbnf", _rules("root ::= d0", 'd{a} ::= d{b}? "x"? d{b}*', 'd{a} ::= "a"?')),
    "recursive": ("gbnf", _rules("root ::= d0", 'd{a} ::= d{b} | "(" d{b} ")" d0?', 'd{a} ::= "a"')),
    "ebnf": ("ebnf", _rules("root ::= d0", "d{a} ::= d{b} d{b}", 'd{a} ::= "a"')),
    "rules": ("lark", _rules("start: d0", "d{a}: d{b} d{b}", 'd{a}: "a"')),
    "rules, alternatives": ("lark", _rules("start: d0", 'd{a}: d{b} | "b" d{b}', 'd{a}: "a"')),
    "terminals": ("lark", _rules("start: D0", "D{a}: D{b} D{b}", 'D{a}: "a"')),
    "terminals, alternatives": ("lark", _rules("start: D0", 'D{a}: D{b} | "b{a}" D{b}', 'D{a}: "a"')),
    "templates": ("lark", _rules('start: d0{"a"}', "d{a}{x}: d{b}{x} d{b}{x}", 'd{a}{x}: x "b"')),
}
"""The notation, and a function that writes `n` levels."""
