"""Tools of a request: definitions to the spec of a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from structgen.errors import StructgenError
from structgen.tools import FORMATS, Tool, ToolFormat, instructions, read_tools
from structgen.tools.forms import Forms
from structgen.tools.growing import GrowingTurn
from structgen.tools.order import formulas_of

from .errors import bad_request, message_of
from .fields import Fields
from .settings import ServerSettings
from .thinking import Thinking

__all__ = ["ToolsAsked", "read_tools_asked"]

_MOST_TOOLS = 128


@dataclass
class ToolsAsked:
    """Tools that an answer may call."""

    offered: tuple[Tool, ...]
    format: ToolFormat
    spec: dict[str, Any]
    """For the compiler."""
    described: bool = True
    forms: Forms = field(default_factory=dict)
    """Of the compiled constraint, which is made elsewhere; known once it is there."""

    def reader(self, thinking: Thinking | None) -> GrowingTurn:
        """Return a reader of one turn, whole or while it is written."""
        think, optional = None, False
        if thinking is not None:
            begin, end = self.think(thinking)
            think, optional = (begin, end), thinking.optional
        return GrowingTurn(
            self.format,
            self.offered,
            self.forms,
            think=think,
            optional=optional,
            answers="answer" in self.spec,
        )

    def think(self, thinking: Thinking) -> tuple[str, str]:
        """The texts around the reasoning, which the format may write in its own way."""
        begin, end = self.format.think
        return (begin if thinking.open else ""), end

    def instructions(self) -> str:
        order = self.spec.get("order")
        return instructions(self.offered, self.format, [] if order is None else formulas_of(order))


def read_tools_asked(fields: Fields, own: Fields | None, settings: ServerSettings) -> ToolsAsked | None:
    """The tools, if there are any that may be called."""
    given, choice = fields.take("tools"), fields.take("tool_choice")
    parallel = fields.take("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise bad_request("parallel_tool_calls", "parallel_tool_calls is true or false")
    chosen = None if own is None else own.text("tool_format")
    described = True if own is None else own.flag("describe_tools", default=True)
    if given is None or given == []:
        if choice not in (None, "none", "auto"):
            raise bad_request("tool_choice", "tool_choice is given, but no tools")
        return None
    name = settings.tool_format if chosen is None else chosen
    if name not in FORMATS:
        raise bad_request("structgen.tool_format", f"{name!r:.60} is none of {', '.join(FORMATS)}")
    if not isinstance(given, list) or len(given) > _MOST_TOOLS:
        raise bad_request("tools", f"tools is a list of at most {_MOST_TOOLS} definitions")
    try:
        offered = read_tools(given)
    except StructgenError as error:
        raise bad_request("tools", message_of(error)) from None
    wanted = _choice(choice, offered)
    if wanted == "none":
        return None
    spec: dict[str, Any] = {"tools": given, "format": name, "tool_choice": wanted}
    format = FORMATS[name]
    if parallel is False or (parallel is True and format.between is not None):
        spec["parallel"] = parallel
    return ToolsAsked(offered, format, spec, described)


def _choice(given: Any, offered: tuple[Tool, ...]) -> str:
    if given is None:
        return "auto"
    if (
        isinstance(given, dict)
        and given.get("type") == "function"
        and isinstance(given.get("function"), dict)
    ):
        name = given["function"].get("name")
        if any(tool.name == name for tool in offered):
            return str(name)
        raise bad_request("tool_choice", f"tool_choice names {name!r:.60}, which is no tool of this request")
    if given in ("auto", "required", "none"):
        return str(given)
    raise bad_request(
        "tool_choice",
        f'tool_choice is {given!r:.80}; it is "auto", "required", "none" or '
        '{"type": "function", "function": {"name": ...}}',
    )
