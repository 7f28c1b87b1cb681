"""Read the tools of a request, and make the spec of a turn that may call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.errors import StructgenError
from structgen.tools import FORMATS, Tool, ToolFormat, instructions, read_tools
from structgen.tools.formats import as_spec
from structgen.tools.forms import Forms
from structgen.tools.order import formulas_of
from structgen.tools.partial_turn import PartialTurn

from .errors import bad_request, message_of
from .fields import Fields
from .reasoning import ChatTemplate, ReasoningFormat
from .settings import ServerSettings

__all__ = ["RequestedTools", "flat_param", "format_param", "read_requested_tools", "read_tool_format"]

_MOST_TOOLS = 128
_MODES = ("auto", "required", "none")


@dataclass
class RequestedTools:
    """Tools that an answer may call."""

    offered: tuple[Tool, ...]
    format: ToolFormat
    spec: dict[str, Any]
    """The spec for the compiler."""
    described: bool = True
    forms: Forms = field(default_factory=dict)
    """The forms of the compiled constraint; set once it is compiled."""
    is_flat: bool = False
    """Whether definitions have their fields next to the type, as in the Responses API."""

    def is_custom(self, name: str) -> bool:
        """Return whether the tool of this name is a custom tool, whose calls have one text."""
        return any(tool.name == name and tool.input is not None for tool in self.offered)

    def param_of(self, error: StructgenError) -> str | None:
        """Return the field of the custom tool that an error is about; None if it is about no format of one."""
        param = format_param(error, [tool.name for tool in self.offered])
        return flat_param(param) if self.is_flat else param

    def reader(self, reasoning: ReasoningFormat | None) -> PartialTurn:
        """Return a reader of one turn, whole or while it is written."""
        think, optional = None, False
        if reasoning is not None and not reasoning.is_off:
            begin, end = self.reasoning_markers(reasoning)
            think, optional = (begin, end), reasoning.optional
        return PartialTurn(
            self.format,
            self.offered,
            self.forms,
            think=think,
            optional=optional,
            answers="answer" in self.spec,
            is_opened=self.spec.get("reasoning") == "skipped",
        )

    def reasoning_markers(self, reasoning: ReasoningFormat) -> tuple[str, str]:
        """Return the markers around the reasoning, which the format may write in its own way."""
        begin, end = self.format.think
        return (begin if reasoning.open else ""), end

    def instructions(self) -> str:
        """Return the text of the system message that tells a model how to call the tools."""
        order = self.spec.get("order")
        return instructions(self.offered, self.format, [] if order is None else formulas_of(order))


def read_tool_format(own: Fields | None, settings: ServerSettings, template: ChatTemplate) -> ToolFormat:
    """Return the format of calls, of the answer's and of earlier ones. Raises `ApiError`."""
    chosen = None if own is None else own.text("tool_format")
    name = settings.tool_format if chosen is None else chosen
    if name == "auto":
        return template.tool_format(settings.model_name)
    if name not in FORMATS:
        raise bad_request(
            "structgen.tool_format",
            f"{name!r:.60} is not one of {', '.join(FORMATS)}. The server's operator can add one "
            "(--tool-format FILE.json)",
        )
    return FORMATS[name]


def read_requested_tools(fields: Fields, own: Fields | None, format: ToolFormat) -> RequestedTools | None:
    """Return the tools that an answer may call; None if it may call no tool. Raises `ApiError`."""
    given, choice = fields.take("tools"), fields.take("tool_choice")
    parallel = fields.take("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise bad_request("parallel_tool_calls", "parallel_tool_calls is true or false")
    described = True if own is None else own.flag("describe_tools", default=True)
    if given is None or given == []:
        if choice not in (None, "none", "auto"):
            raise bad_request("tool_choice", "tool_choice is given, but no tools")
        return None
    if not isinstance(given, list) or len(given) > _MOST_TOOLS:
        raise bad_request("tools", f"tools is a list of at most {_MOST_TOOLS} definitions")
    try:
        offered = read_tools(given)
    except StructgenError as error:
        names_given = [_name_in(definition) for definition in given]
        raise bad_request(format_param(error, names_given) or "tools", message_of(error)) from None
    wanted, names = _choice(choice, offered)
    if wanted == "none":
        return None
    if names is not None:
        given = [definition for definition, tool in zip(given, offered, strict=True) if tool.name in names]
    spec: dict[str, Any] = {"tools": given, "format": as_spec(format), "tool_choice": wanted}
    if parallel is None and isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
        parallel = False  # one call of this tool
    if parallel is False or (parallel is True and format.between is not None):
        spec["parallel"] = parallel
    return RequestedTools(offered, format, spec, described)


def _choice(given: Any, offered: tuple[Tool, ...]) -> tuple[str, frozenset[str] | None]:
    """Return the mode of `tool_choice`, and the names of the tools that may be called; None allows all.

    subtle: a tool may be named "none", so a tool that is chosen by name is never taken for a mode.
    """
    if given is None:
        return "auto", None
    if isinstance(given, str) and given in _MODES:
        return given, None
    kind = given.get("type") if isinstance(given, dict) else None
    if kind in ("function", "custom"):
        if (name := _name_in(given)) is not None:
            chosen = _known([(kind, name)], offered)
            return ("required", chosen) if name in _MODES else (name, None)
    elif kind == "allowed_tools":
        return _allowed(given, offered)
    meant = {tool.name: f'{{"type": "function", "function": {{"name": "{tool.name}"}}}}' for tool in offered}
    near = {"any": '"required"', **meant}.get(given) if isinstance(given, str) else None
    hint = f". Did you mean {near}?" if near else ""
    raise bad_request(
        "tool_choice",
        f'tool_choice is {given!r:.80}; it is "auto", "required", "none" or '
        f'{{"type": "function", "function": {{"name": ...}}}}{hint}',
    )


def _allowed(given: dict[str, Any], offered: tuple[Tool, ...]) -> tuple[str, frozenset[str]]:
    """Return the mode and the names of a choice of the type ``allowed_tools``."""
    inner = given["allowed_tools"] if isinstance(given.get("allowed_tools"), dict) else given
    listed, mode = inner.get("tools"), inner.get("mode", "auto")
    listed = listed if isinstance(listed, list) else []
    names = [_name_in(tool) for tool in listed]
    if not names or None in names or mode not in ("auto", "required"):
        raise bad_request(
            "tool_choice",
            'tool_choice of the type "allowed_tools" has {"mode": "auto" or "required", "tools": '
            '[{"type": "function", "function": {"name": ...}}]}',
        )
    return mode, _known([(tool.get("type", "function"), _name_in(tool)) for tool in listed], offered)


def format_param(error: StructgenError, names: Sequence[Any]) -> str | None:
    """Return the field of a custom tool's format, if an error is about one.

    Args:
        error: The error.
        names: The names of all tools of the request, in their order.
    """
    where = error.where or ""
    for index, name in enumerate(names):
        if where == (about := f"the format of {name}") or where.startswith(f"{about},"):
            return f"tools[{index}].custom.format"
    return None


def flat_param(param: str | None) -> str | None:
    """Return the field of a tool whose definition has its fields next to the type."""
    return param.replace(".custom.", ".", 1) if param is not None else None


def _name_in(choice: Any) -> Any:
    """Return the name of a tool in a choice, which some clients write without "function" around it."""
    if not isinstance(choice, dict):
        return None
    inner = choice.get("custom" if choice.get("type") == "custom" else "function", choice)
    return inner.get("name") if isinstance(inner, dict) else None


def _known(named: Sequence[tuple[Any, Any]], offered: tuple[Tool, ...]) -> frozenset[str]:
    """Return the names of types and names of tools. Raises `ApiError` if the request has no such tool."""
    types = {tool.name: "function" if tool.input is None else "custom" for tool in offered}
    for kind, name in named:
        if not isinstance(name, str) or name not in types:
            raise bad_request(
                "tool_choice", f"tool_choice names {name!r:.60}, which is not a tool of this request"
            )
        if kind != types[name]:
            raise bad_request(
                "tool_choice",
                f"tool_choice names {name!r:.60} with the type {kind!r:.40}; it is a {types[name]} tool",
            )
    return frozenset(name for _, name in named)
