"""Describe tools to a model whose chat template does not describe them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from structgen.formulas import Formula, english

from .argument_writers import write_elements
from .definitions import Tool
from .format_texts import ToolFormat

__all__ = ["in_order", "instructions"]

_ARGUMENTS = {
    "json": '{"PARAMETER": VALUE}',
    "python": "PARAMETER=VALUE",
    "keywords": "PARAMETER=VALUE",
}


def instructions(
    tools: Sequence[Tool],
    format: ToolFormat,
    order: Sequence[Formula] = (),
    *,
    answer: str | None = "When you know enough, answer in words.",
) -> str:
    """Return the definitions as JSON, one per line, the form of a call, and in which order calls may come.

    Args:
        tools: The tools that may be called.
        format: How calls are written.
        order: The formulas that calls must satisfy.
        answer: The sentence about the answer after the calls; None leaves it out.
    """
    lines = [json.dumps(tool.definition()["function"], ensure_ascii=False) for tool in tools]
    call = _form_of_call(format)
    several = "" if format.between is None else " Several calls may follow one another."
    return (
        "You can call functions to find out what you need. They are, as JSON, one a line:\n"
        + "\n".join(lines)
        + f"\n\nA call is written in this form:\n{format.begin}{call}{format.end}\n\n"
        + f"Then you are shown its result.{several}"
        + (f" {answer}" if answer else "")
        + (f"\n\n{in_order(order)}" if order else "")
    )


def _form_of_call(format: ToolFormat) -> str:
    arguments = _ARGUMENTS.get(format.arguments, "")
    if format.style is not None:
        arguments = write_elements({"PARAMETER": "VALUE"}, format.style)
    if format.arguments == "bare":
        arguments = f"{{PARAMETER:{format.quote}VALUE{format.quote}}}"
    values = {"name": "FUNCTION", "arguments": arguments, "number": "0", "id": "IDENTIFIER"}
    return "".join(values.get(kind, text) for kind, text in format.pieces)


def in_order(order: Sequence[Formula]) -> str:
    """Return the order of calls in English."""
    return "The calls keep this order: " + " ".join(map(english, order))
