"""Arguments as one element for each parameter, as Qwen3-Coder writes them.

    <parameter=city>
    Paris
    </parameter>

What: a parameter that is always a string is written as it is, without quotes and escapes. One that is a string or null
is written so, too; ``null`` then means null, and the string "null" is not written. Any other value is JSON.
Invariant: which of the three holds is asked of the schema's language, however the schema says it; what is written reads
back as a value of the schema. Texts that would end the element for the readers of model servers are not written inside
a string.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Literal

from structgen import _core
from structgen.constraints.base import IR, Constraint
from structgen.constraints.composition import body_of
from structgen.constraints.expressions import NOTHING, alternate, complement, intersect, literal
from structgen.constraints.failures import limit_exceeded
from structgen.constraints.grammar.ir import Body
from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.strings import of_types, string_language
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, OutputInvalid
from structgen.vocabulary import Vocabulary

from .bodies import choice_of, sequence_of, text_of
from .definitions import Tool
from .fields import parameters_of, within

__all__ = ["read_xml_parameters", "xml_parameters"]

_END = "</parameter>"
_NULL = "null"
_NEVER = (_END, "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>")


def xml_parameters(tool: Tool) -> Body:
    """Return every element, in the order in which the parameters are declared."""
    parts = []
    for name, schema, required in parameters_of(tool, "XML"):
        if not name or set(name) & set("<>\n"):
            raise ConstraintError(
                f"{name!r:.60} is no name of an element", where=f"the parameters of {tool.name}"
            )
        element = sequence_of(
            (text_of(f"<parameter={name}>\n"), _value(_constraint(tool, schema)), text_of(f"\n{_END}\n"))
        )
        parts.append(element if required else choice_of((sequence_of(()), element)))
    return sequence_of(parts)


def _constraint(tool: Tool, schema: Any) -> Constraint:
    return json_schema(within(tool, schema), ordered=True, whitespace="json.dumps", integers="digits")


def _value(constraint: Constraint) -> Body:
    written = _written(constraint.lower())
    if written == "json":
        return body_of(constraint)
    strings = [string_language(constraint.lower()), without(_NEVER)]
    if written == "string":
        return ("text", intersect(strings))
    return ("text", alternate([intersect([*strings, complement(literal(_NULL))]), literal(_NULL)]))


def _written(schema: IR) -> Literal["string", "string or null", "json"]:
    """How the values of a schema are written."""
    if string_language(schema) == NOTHING:  # asked first, since it is bounded by itself
        return "json"
    if not _has(schema, "string") or _has(schema, "boolean", "object", "array", "number"):
        return "json"
    return "string or null" if _has(schema, "null") else "string"


def _has(schema: IR, *types: str) -> bool:
    """Is there a value of one of these types?"""
    try:
        return _engine().compile(of_types(schema, types)).empty_parts() is None
    except _core.LimitError as error:
        raise limit_exceeded(error, "a parameter") from None


@functools.cache
def _engine() -> _core.Engine:
    return Vocabulary.of_bytes().engine


@functools.lru_cache(maxsize=1024)
def _how_written(tool: Tool) -> dict[str, Literal["string", "string or null", "json"]]:
    """Of each parameter; tools are told apart by identity."""
    return {
        name: _written(_constraint(tool, schema).lower()) for name, schema, _ in parameters_of(tool, "XML")
    }


def read_xml_parameters(source: str, start: int, tool: Tool) -> tuple[dict[str, Any], int]:
    """Return the arguments up to the first text that is no element, and where that is."""
    written = _how_written(tool)
    arguments: dict[str, Any] = {}
    place = start
    while source.startswith("<parameter=", place):
        opened = source.find(">\n", place)
        name = source[place + len("<parameter=") : opened]
        if opened < 0 or name not in written:
            raise OutputInvalid(f"the arguments of {tool.name} have an element of no parameter", text=source)
        value, closed = _read_value(source, opened + 2, tool, name, written[name])
        if not source.startswith(f"\n{_END}\n", closed):
            raise OutputInvalid(f"the argument {name} of {tool.name} has no end", text=source)
        arguments[name] = value
        place = closed + len(_END) + 2
    return arguments, place


def _read_value(source: str, start: int, tool: Tool, name: str, written: str) -> tuple[Any, int]:
    if written != "json":
        end = max(source.find(f"\n{_END}", start), start)
        text = source[start:end]
        return (None if text == _NULL and written == "string or null" else text), end
    try:
        return json.JSONDecoder().raw_decode(source, start)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the argument {name} of {tool.name} is no JSON: {error}", text=source) from error
