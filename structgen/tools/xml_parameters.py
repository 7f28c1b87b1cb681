"""Arguments as one XML element per parameter, as Qwen3-Coder writes them.

    <parameter=city>
    Paris
    </parameter>

What: a parameter that is always a string is written without quotes and escapes. So is one that is a string or null;
``null`` then means null, and the string "null" cannot be written. Any other value is JSON.
Invariant: which of the three holds (the *form* of a parameter) depends on the language of the schema, not on its
spelling. It is decided once, when the constraint is made; reading uses it, and does no work in the core. What is
written reads back as a value of the schema. Strings do not contain texts that would end the element for the readers of
model servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.composition import body_of
from structgen.constraints.expressions import NOTHING, alternate, complement, intersect, literal
from structgen.constraints.failures import limit_exceeded
from structgen.constraints.json_schema.strings import restrict_types, string_language
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, OutputInvalid
from structgen.ir.grammar import Body
from structgen.vocabulary import Vocabulary

from .bodies import choice_of, sequence_of, text_of
from .definitions import Tool
from .forms import Form
from .parameters import constraint_at, parameters_of

__all__ = ["read_xml_parameters", "xml_parameters"]

_END = "</parameter>"
_NULL = "null"
_NEVER = (_END, "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>")


def xml_parameters(tool: Tool) -> tuple[Body, dict[str, Form]]:
    """Return every element, in the order in which the parameters are declared, and the form of each value."""
    parts = []
    forms: dict[str, Form] = {}
    engine = Vocabulary.of_bytes().engine  # not shared: what it compiles would stay in its caches
    for name, _, required in parameters_of(tool, "XML"):
        if not name or set(name) & set("<>\n"):
            raise ConstraintError(
                f"{name!r:.60} is no name of an element", where=f"the parameters of {tool.name}"
            )
        constraint = constraint_at(tool, ("properties", name))
        forms[name] = _form(constraint.lower(), engine)
        value = _value(constraint, forms[name])
        element = sequence_of((text_of(f"<parameter={name}>\n"), value, text_of(f"\n{_END}\n")))
        parts.append(element if required else choice_of((sequence_of(()), element)))
    return sequence_of(parts), forms


def _value(constraint: Constraint, form: Form) -> Body:
    if form == "json":
        return body_of(constraint)
    strings = [string_language(constraint.lower()), without(_NEVER)]
    if form == "string":
        return ("text", intersect(strings))
    return ("text", alternate([intersect([*strings, complement(literal(_NULL))]), literal(_NULL)]))


def _form(schema: IR, engine: _core.Engine) -> Form:
    """Return how the values of a schema are written."""

    def has(*types: str) -> bool:
        try:
            return engine.compile(restrict_types(schema, types)).empty_parts() is None
        except _core.LimitError as error:
            raise limit_exceeded(error, "a parameter") from None

    if string_language(schema) == NOTHING:  # first, since it has a bound of its own
        return "json"
    if not has("string") or has("boolean", "object", "array", "number"):
        return "json"
    return "string or null" if has("null") else "string"


def read_xml_parameters(
    source: str, start: int, tool: Tool, forms: Mapping[str, Form] | None
) -> tuple[dict[str, Any], int]:
    """Return the arguments up to the first text that is not an element, and its position.

    `forms` are those that `xml_parameters` returned for the tool; None if the tool may not be called.
    """
    if forms is None:
        raise OutputInvalid(f"{tool.name} is called, which this turn could not call", text=source)
    arguments: dict[str, Any] = {}
    position = start
    while source.startswith("<parameter=", position):
        opened = source.find(">\n", position)
        name = source[position + len("<parameter=") : opened]
        if opened < 0 or name not in forms:
            raise OutputInvalid(f"the arguments of {tool.name} have an element of no parameter", text=source)
        value, closed = _read_value(source, opened + 2, tool, name, forms[name])
        if not source.startswith(f"\n{_END}\n", closed):
            raise OutputInvalid(f"the argument {name} of {tool.name} has no end", text=source)
        arguments[name] = value
        position = closed + len(_END) + 2
    return arguments, position


def _read_value(source: str, start: int, tool: Tool, name: str, form: Form) -> tuple[Any, int]:
    if form != "json":
        end = max(source.find(f"\n{_END}", start), start)
        text = source[start:end]
        return (None if text == _NULL and form == "string or null" else text), end
    try:
        return json.JSONDecoder().raw_decode(source, start)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the argument {name} of {tool.name} is no JSON: {error}", text=source) from error
