"""The constraint of arguments in each of the notations.

Why: formats differ in their markers, which are data, and in the notation of arguments, which is one of five.
Invariant: what the constraint allows reads back (`argument_readers`) as arguments that the tool's schema accepts. A
schema that a notation cannot express exactly is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from structgen.constraints.composition import body_of
from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.errors import ConstraintError, LimitExceeded
from structgen.ir.grammar import Body

from .bare_arguments import bare_arguments
from .bodies import sequence_of, text_of
from .custom import PARAMETER, custom_arguments, custom_value
from .definitions import Tool
from .format_texts import ToolFormat
from .forms import Form
from .pythonic import keyword_arguments, python_arguments
from .xml_parameters import SharedParameters, xml_arguments

__all__ = ["arguments_of"]


def arguments_of(
    tool: Tool, format: ToolFormat, write: Callable[[str], Body], shared: SharedParameters
) -> tuple[Body, dict[str, Form]]:
    """Return the body of a tool's arguments, and the forms of their values. Errors name the tool.

    Args:
        tool: The tool.
        format: How arguments are written.
        write: Returns the body of a text, which may contain special tokens.
        shared: What is known of parameters of other tools of the turn.
    """
    try:
        if tool.input is not None and format.arguments == "bare":
            value = custom_value(tool.name, tool.input, (format.quote,))
            mark = write(format.quote)
            return sequence_of((text_of(f"{{{PARAMETER}:"), mark, value, mark, text_of("}"))), {}
        if tool.input is not None and format.arguments != "xml":
            is_compact = format.whitespace == "compact"
            return custom_arguments(tool.name, tool.input, format.arguments, is_compact=is_compact), {}
        # Also for other notations: it reports errors with their position in the whole.
        whole = _json(tool, format)
        if format.arguments == "json":
            return whole, {}
        if format.arguments == "python":
            return python_arguments(tool), {}
        if format.arguments == "keywords":
            return keyword_arguments(tool), {}
        if format.arguments == "bare":
            return bare_arguments(tool, format.quote, write), {}
        assert format.style is not None
        return xml_arguments(tool, format.style, write, shared)
    except (ConstraintError, LimitExceeded) as error:
        parameters = f"the {'parameters' if tool.input is None else 'format'} of {tool.name}"
        if not str(error.where).startswith(parameters):
            error.where = f"{parameters}, {error.where}" if error.where else parameters
        raise


def _json(tool: Tool, format: ToolFormat) -> Body:
    # For the whole schema: a part of a larger constraint keeps no text of it.
    return body_of(
        part_of_schema(tool.parameters, (), ordered=True, whitespace=format.whitespace, integers="digits")
    )
