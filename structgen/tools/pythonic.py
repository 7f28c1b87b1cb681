"""Arguments as keyword arguments: ``city="Paris", days=3, exact=True``.

What: values are JSON, or literals of Python. JSON without true, false and null is also Python (strings use the escapes
that both have). So the JSON automaton handles values of such schemas whole; for the others, this module builds what
Python writes.
Invariant: a schema that neither the JSON automaton nor this module expresses exactly is refused with its keyword.
Cost: linear in the schema, and quadratic in the number of optional arguments.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structgen.constraints.composition import body_of
from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.drafts import LATEST, draft_of
from structgen.constraints.json_schema.pointers import escape
from structgen.errors import ConstraintError, UnsupportedKeyword
from structgen.ir.grammar import Body

from .argument_writers import python_literal
from .bodies import EMPTY, choice_of, listed, sequence_of, text_of
from .definitions import Tool
from .parameters import (
    ANNOTATIONS,
    DEFINITIONS,
    WRITTEN,
    SchemaPath,
    constraint_at,
    has_identifier,
    parameters_of,
    resolved,
)

__all__ = ["keyword_arguments", "python_arguments"]

_SCALARS = frozenset({"string", "integer", "number"})
_STRINGS = frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ARRAYS = frozenset({"items", "minItems", "maxItems"})
_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_UNIONS = frozenset({"anyOf"})


def python_arguments(tool: Tool) -> Body:
    """Return the body of everything between the parentheses, with values as Python writes them."""
    values = _Values(tool)
    return _listed(tool, lambda name, schema: values.write(schema, ("properties", name), ()))


def keyword_arguments(tool: Tool) -> Body:
    """Return the body of everything between the parentheses, with values in JSON."""
    return _listed(tool, lambda name, _: body_of(constraint_at(tool, ("properties", name))))


def _listed(tool: Tool, value_of: Callable[[str, Any], Body]) -> Body:
    """Return the keyword arguments; `value_of` returns the value of a parameter from its name and its schema."""
    items = []
    for name, schema, required in parameters_of(tool, "keyword arguments"):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConstraintError(
                f"{name!r:.60} is no name of a keyword argument",
                where=f"the parameters of {tool.name}",
                hint="Rename it, or use a format whose arguments are JSON.",
            )
        items.append((sequence_of((text_of(f"{name}="), value_of(name, schema))), required))
    return listed(items, text_of(", "))


class _Values:
    """Builds the bodies of the values of one tool."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def write(self, schema: Any, path: SchemaPath, inside: tuple[int, ...]) -> Body:
        schema, path = resolved(self._tool, schema, path)
        if id(schema) in inside:
            raise self._unsupported(path, "$ref", "a value inside itself that may be True, False or None")
        inside = (*inside, id(schema))
        if self._is_json(schema, ()):
            return body_of(constraint_at(self._tool, path))
        if not isinstance(schema, Mapping):
            raise self._unsupported(path, "type", "a value of any type")
        if "$ref" in schema:
            raise self._unsupported(path, "$ref", "what this reference leads to")
        said = schema.keys() - ANNOTATIONS
        if "const" in said or "enum" in said:
            return self._listed(schema, path)
        if "anyOf" in said:
            self._only(schema, path, _UNIONS)
            branches = enumerate(schema["anyOf"])
            return choice_of([self.write(branch, (*path, "anyOf", str(i)), inside) for i, branch in branches])
        kind = schema.get("type")
        if isinstance(kind, Sequence) and not isinstance(kind, str):
            return choice_of([self._of_type(schema, name, path, inside) for name in kind])
        return self._of_type(schema, kind, path, inside)

    def _of_type(
        self, schema: Mapping[str, Any], kind: Any, path: SchemaPath, inside: tuple[int, ...]
    ) -> Body:
        if kind in ("boolean", "null"):
            self._only(schema, path, _STRINGS | _NUMBERS | _ARRAYS | _OBJECTS)
            return text_of("None") if kind == "null" else choice_of([text_of("True"), text_of("False")])
        if kind in _SCALARS:
            return body_of(constraint_at(self._tool, path) & json_schema({"type": kind}, **WRITTEN))
        if kind == "array":
            self._only(schema, path, _ARRAYS | _STRINGS | _NUMBERS)
            item = self.write(schema.get("items", True), (*path, "items"), inside)
            return self._several("[]", item, schema.get("minItems", 0), schema.get("maxItems"))
        if kind == "object":
            return self._object(schema, path, inside)
        raise self._unsupported(path, "type", "a value of any type")

    def _object(self, schema: Mapping[str, Any], path: SchemaPath, inside: tuple[int, ...]) -> Body:
        self._only(schema, path, _OBJECTS)
        properties: Mapping[str, Any] = schema.get("properties", {})
        more = schema.get("additionalProperties", not properties)
        required = schema.get("required", ())
        if (more is not False and properties) or any(name not in properties for name in required):
            raise self._unsupported(path, "additionalProperties", "an object with declared and other keys")
        if more is not False:
            value = self.write(more, (*path, "additionalProperties"), inside)
            key = body_of(json_schema({"type": "string"}, **WRITTEN))
            return self._several("{}", sequence_of((key, text_of(": "), value)), 0, None)
        items = [
            (
                sequence_of(
                    (
                        text_of(f"{json.dumps(name, ensure_ascii=False)}: "),
                        self.write(member, (*path, "properties", name), inside),
                    )
                ),
                name in required,
            )
            for name, member in properties.items()
        ]
        return sequence_of((text_of("{"), listed(items, text_of(", ")), text_of("}")))

    def _several(self, brackets: str, item: Body, least: int, most: int | None) -> Body:
        if most == 0:
            return text_of(brackets)
        more: Body = (
            "repeat",
            sequence_of((text_of(", "), item)),
            max(least - 1, 0),
            None if most is None else most - 1,
        )
        several = sequence_of((item, more))
        content = several if least else choice_of([EMPTY, several])
        return sequence_of((text_of(brackets[0]), content, text_of(brackets[1])))

    def _listed(self, schema: Mapping[str, Any], path: SchemaPath) -> Body:
        self._only(schema, path, frozenset({"const", "enum", "type"}))
        values = [schema["const"]] if "const" in schema else list(schema["enum"])
        import jsonschema  # type: ignore[import-untyped]

        kind = jsonschema.Draft202012Validator(dict(schema))
        return choice_of([text_of(python_literal(value)) for value in values if kind.is_valid(value)])

    def _is_json(self, schema: Any, inside: tuple[int, ...]) -> bool:
        """Return whether no value contains true, false or null; False if that is not certain."""
        schema, _ = resolved(self._tool, schema, ())
        if not isinstance(schema, Mapping) or "$ref" in schema or has_identifier(schema):
            return False
        if id(schema) in inside:
            return True
        inside = (*inside, id(schema))
        if "const" in schema or "enum" in schema:
            return all(map(_is_plain, [schema["const"]] if "const" in schema else schema["enum"]))
        branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if branches and "type" not in schema:
            return all(self._is_json(branch, inside) for branch in branches)
        kind = schema.get("type")
        if isinstance(kind, list):
            return _SCALARS.issuperset(kind)
        if kind in _SCALARS:
            return True
        if kind == "array":
            parts = [*schema.get("prefixItems", ()), schema.get("items", True)]
            if schema.get("maxItems", -1) == len(parts) - 1 and self._knows_prefixes():
                parts.pop()  # no items after the first ones
            return all(part is False or self._is_json(part, inside) for part in parts)
        if kind == "object" and schema.keys() - ANNOTATIONS <= {"type", *_OBJECTS, *DEFINITIONS}:
            more = schema.get("additionalProperties", True)
            parts = [*schema.get("properties", {}).values(), *([] if more is False else [more])]
            return all(self._is_json(part, inside) for part in parts)
        return False

    def _knows_prefixes(self) -> bool:
        """Return whether the schema is of draft 2020-12. Older drafts ignore `prefixItems`."""
        return draft_of(str(self._tool.parameters.get("$schema", LATEST.uri))) is LATEST

    def _only(self, schema: Mapping[str, Any], path: SchemaPath, known: frozenset[str]) -> None:
        for keyword_ in sorted(schema.keys() - ANNOTATIONS - known - {"type", *DEFINITIONS}):
            raise self._unsupported(path, keyword_, f"{keyword_} together with True, False or None")

    def _unsupported(self, path: SchemaPath, keyword_: str, what: str) -> UnsupportedKeyword:
        pointer = "/".join(("#", *map(escape, path)))
        return UnsupportedKeyword(
            f"{what} cannot be written as Python in the arguments of {self._tool.name}",
            pointer=pointer,
            keyword=keyword_,
            hint="Declare the type of every value, or use a format whose arguments are JSON, such as hermes.",
        )


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is not None and not isinstance(value, bool)
