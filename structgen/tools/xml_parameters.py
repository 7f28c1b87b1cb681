"""Arguments as one element for each parameter, as Qwen3-Coder writes them.

    <parameter=city>
    Paris
    </parameter>

What: a parameter whose schema is a string is written as it is, without quotes and escapes, any other value as JSON.
Texts that would end the element for the readers of model servers are not written inside one.
"""

from __future__ import annotations

import json
from typing import Any

from structgen.constraints.composition import body_of
from structgen.constraints.expressions import RE, alternate, intersect, literal
from structgen.constraints.grammar.ir import Body
from structgen.constraints.json_schema import json_schema
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, OutputInvalid
from structgen.types.raw_text import text_constraint

from .bodies import choice_of, sequence_of, text_of
from .definitions import Tool
from .fields import ANNOTATIONS, parameters_of, resolved, within

__all__ = ["read_xml_parameters", "xml_parameters"]

_END = "</parameter>"
_NEVER = (_END, "<parameter=", "</function>", "<function=", "<tool_call>", "</tool_call>")


def xml_parameters(tool: Tool) -> Body:
    """Every element, in the order in which the parameters are declared."""
    parts = []
    for name, schema, required in parameters_of(tool, "XML"):
        if not name or set(name) & set("<>\n"):
            raise ConstraintError(
                f"{name!r:.60} is no name of an element", where=f"the parameters of {tool.name}"
            )
        raw = _raw_string(tool, schema)
        if raw is None:
            whole = within(tool, schema)
            value = body_of(json_schema(whole, ordered=True, whitespace="json.dumps", integers="digits"))
        else:
            value = ("text", intersect([raw, without(_NEVER)]))
        element = sequence_of((text_of(f"<parameter={name}>\n"), value, text_of(f"\n{_END}\n")))
        parts.append(element if required else choice_of((sequence_of(()), element)))
    return sequence_of(parts)


def _raw_string(tool: Tool, schema: Any) -> RE | None:
    """The texts of a schema that says "a string like this"; None for any other."""
    schema = resolved(tool, schema)
    if not isinstance(schema, dict):
        return None
    said = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    values = [said["const"]] if "const" in said else said.get("enum")
    if said.keys() <= {"type", "enum", "const"} and values and said.get("type", "string") == "string":
        if not all(isinstance(value, str) for value in values):
            return None
        return alternate([literal(value) for value in values])
    constraint = text_constraint(said, "")
    return None if constraint is None else constraint.regular()


def read_xml_parameters(source: str, start: int, tool: Tool) -> tuple[dict[str, Any], int]:
    """The arguments up to the first text that is no element."""
    schemas = {name: schema for name, schema, _ in parameters_of(tool, "XML")}
    arguments: dict[str, Any] = {}
    place = start
    while source.startswith("<parameter=", place):
        opened = source.find(">\n", place)
        name = source[place + len("<parameter=") : opened]
        if opened < 0 or name not in schemas:
            raise OutputInvalid(f"the arguments of {tool.name} have an element of no parameter", text=source)
        value, closed = _read_value(source, opened + 2, tool, name, schemas[name])
        if not source.startswith(f"\n{_END}\n", closed):
            raise OutputInvalid(f"the argument {name} of {tool.name} has no end", text=source)
        arguments[name] = value
        place = closed + len(_END) + 2
    return arguments, place


def _read_value(source: str, start: int, tool: Tool, name: str, schema: Any) -> tuple[Any, int]:
    if _raw_string(tool, schema) is not None:
        end = max(source.find(f"\n{_END}", start), start)
        return source[start:end], end
    try:
        return json.JSONDecoder().raw_decode(source, start)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the argument {name} of {tool.name} is no JSON: {error}", text=source) from error
