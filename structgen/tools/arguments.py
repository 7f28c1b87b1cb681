"""The three notations of arguments: the constraint of what may be written, and the reader of what was written.

Why: formats differ in their markers, which are data, and in the notation of arguments, which is one of three.
Invariant: what the constraint allows reads back as arguments that the tool's schema accepts. A schema that a notation
cannot express exactly is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from structgen.constraints.composition import body_of
from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.errors import ConstraintError, LimitExceeded, OutputInvalid
from structgen.ir.grammar import Body

from .definitions import Tool
from .formats import ToolFormat
from .forms import Form
from .pythonic import python_arguments, read_python_arguments
from .xml_parameters import read_xml_parameters, xml_parameters

__all__ = ["NOTATIONS", "Notation", "arguments_of"]


@dataclass(frozen=True)
class Notation:
    """One notation, for writing and for reading."""

    write: Callable[[Tool, ToolFormat], tuple[Body, dict[str, Form]]]
    """Returns the body of the arguments, and the forms of their values for `read`."""
    read: Callable[[str, int, Tool, Mapping[str, Form] | None], tuple[dict[str, Any], int]]
    """Returns the arguments, and the position after them, from a text, their position, and the forms."""


def arguments_of(tool: Tool, format: ToolFormat) -> tuple[Body, dict[str, Form]]:
    """Return the body of a tool's arguments, and the forms of their values. Errors name the tool."""
    try:
        if format.arguments != "json":
            _write_json(tool, format)  # reports errors in the schema with their position in the whole
        return NOTATIONS[format.arguments].write(tool, format)
    except (ConstraintError, LimitExceeded) as error:
        parameters = f"the parameters of {tool.name}"
        if not str(error.where).startswith(parameters):
            error.where = f"{parameters}, {error.where}" if error.where else parameters
        raise


def _write_json(tool: Tool, format: ToolFormat) -> Body:
    # For the whole schema: a part of a larger constraint keeps no text of it.
    return body_of(
        part_of_schema(tool.parameters, (), ordered=True, whitespace=format.whitespace, integers="digits")
    )


def _read_json(text: str, start: int, tool: Tool) -> tuple[dict[str, Any], int]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the arguments of {tool.name} are no JSON: {error}", text=text) from error
    if not isinstance(value, dict):
        raise OutputInvalid(f"the arguments of {tool.name} are no object", text=text)
    return value, end


NOTATIONS: Mapping[str, Notation] = {
    "json": Notation(
        lambda tool, format: (_write_json(tool, format), {}),
        lambda text, start, tool, forms: _read_json(text, start, tool),
    ),
    "python": Notation(
        lambda tool, format: (python_arguments(tool), {}),
        lambda text, start, tool, forms: read_python_arguments(text, start, tool),
    ),
    "xml": Notation(lambda tool, format: xml_parameters(tool), read_xml_parameters),
}
