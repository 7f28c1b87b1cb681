"""What a model is told of its tools, where its own chat template does not tell it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from structgen.constraints.ltl import Formula, english

from .definitions import Tool
from .formats import ToolFormat

__all__ = ["in_order", "instructions"]

_ARGUMENTS = {
    "json": '{"PARAMETER": VALUE}',
    "python": "PARAMETER=VALUE",
    "xml": "<parameter=PARAMETER>\nVALUE\n</parameter>\n",
}


def instructions(tools: Sequence[Tool], format: ToolFormat, order: Sequence[Formula] = ()) -> str:
    """The definitions as JSON, one a line, the form of a call, and in which order calls may come."""
    lines = [json.dumps(tool.definition()["function"], ensure_ascii=False) for tool in tools]
    call = format.call.replace("$name", "FUNCTION").replace("$arguments", _ARGUMENTS[format.arguments])
    several = "" if format.between is None else " Several calls may follow one another."
    return (
        "You can call functions to find out what you need. They are, as JSON, one a line:\n"
        + "\n".join(lines)
        + f"\n\nA call is written in this form:\n{format.begin}{call}{format.end}\n\n"
        + f"What it gives is told to you then.{several} When you know enough, answer in words."
        + (f"\n\n{in_order(order)}" if order else "")
    )


def in_order(order: Sequence[Formula]) -> str:
    """Return the order of calls in English."""
    return "The calls keep this order: " + " ".join(map(english, order))
