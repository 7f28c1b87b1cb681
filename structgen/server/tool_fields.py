"""Tools and messages of a request: definitions to the spec of a turn, messages to what the chat template takes.

Why: templates differ in what they know of tools, so the model is told of them in its system message, in the same form
that the constraint asks of it; earlier calls and what they gave are shown in that form, too.
Invariant: a message of a client cannot forge a turn (its markers are read as plain text, see `models.hugging_face`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from structgen.errors import StructgenError, with_kind
from structgen.tools import FORMATS, Tool, ToolFormat, instructions, read_tools
from structgen.tools.forms import Forms
from structgen.tools.growing import GrowingTurn
from structgen.tools.order import formulas_of

from .errors import bad_request, message_of
from .fields import Fields
from .settings import ServerSettings

__all__ = ["ToolsAsked", "read_messages", "read_tools_asked"]

_MOST_TOOLS = 128
_NOTATED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "json": lambda arguments: json.dumps(arguments, ensure_ascii=False),
    "python": lambda arguments: ", ".join(f"{name}={value!r}" for name, value in arguments.items()),
    "xml": lambda arguments: "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for name, value in arguments.items()
    ),
}
_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


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

    def reader(self) -> GrowingTurn:
        """Return a reader of one turn, whole or while it is written."""
        return GrowingTurn(self.format, self.offered, self.forms)

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


def read_messages(fields: Fields, tools: ToolsAsked | None) -> list[dict[str, Any]]:
    """The messages as a chat template takes them."""
    given = fields.take("messages")
    if not isinstance(given, list) or not given:
        raise bad_request("messages", "messages is a list of messages that is not empty")
    format = FORMATS["hermes"] if tools is None else tools.format
    names: dict[str, str] = {}
    messages = [_message(one, f"messages[{place}]", format, names) for place, one in enumerate(given)]
    if tools is not None and tools.described:
        try:
            told = tools.instructions()
        except StructgenError as error:
            raise bad_request("structgen.ltl", message_of(error)) from None
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{told}"
        else:
            messages.insert(0, {"role": "system", "content": told})
    return messages


def _message(given: Any, where: str, format: ToolFormat, names: dict[str, str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise bad_request(where, f"{where} is {with_kind(given)}, not an object")
    fields = Fields(given, where)
    role = fields.take("role")
    if role not in _ROLES:
        raise bad_request(f"{where}.role", f"{where}.role is {role!r:.60}; it is one of {', '.join(_ROLES)}")
    content = _content(fields.take("content"), f"{where}.content")
    fields.ignored("name")
    fields.only("refusal", [""], "")
    fields.only("audio", [], "there is no audio")
    fields.only("function_call", [], "write tool_calls")
    if role == "assistant":
        fields.ignored("annotations", "reasoning", "reasoning_content")
        calls = fields.take("tool_calls")
        fields.end()
        return {
            "role": role,
            "content": content + _written(calls or [], f"{where}.tool_calls", format, names),
        }
    if role == "tool":
        identity = fields.text("tool_call_id")
        fields.end()
        text = format.result.replace("$name", names.get(identity or "", "")).replace("$result", content)
        return {"role": format.result_role, "content": text}
    fields.end()
    return {"role": _ROLES[role], "content": content}


def _content(given: Any, where: str) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise bad_request(where, f"{where} is {with_kind(given)}, not a text or a list of parts")
    parts = []
    for place, part in enumerate(given):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise bad_request(
                f"{where}[{place}]", f"{where}[{place}] is {kind!r:.60}; only parts of text are read"
            )
        parts.append(part["text"])
    return "".join(parts)


def _written(calls: Any, where: str, format: ToolFormat, names: dict[str, str]) -> str:
    """Earlier calls as the model writes them."""
    if not isinstance(calls, list):
        raise bad_request(where, f"{where} is {with_kind(calls)}, not a list")
    written = []
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        try:
            name, arguments = str(function["name"]), json.loads(function["arguments"])  # type: ignore[index]
        except (TypeError, KeyError, ValueError, RecursionError):
            raise bad_request(
                f"{where}[{place}]", f'{where}[{place}] has no "function" with a name and arguments in JSON'
            ) from None
        if not isinstance(arguments, dict):
            raise bad_request(f"{where}[{place}]", f"the arguments of {where}[{place}] are no object")
        names[str(call.get("id"))] = name
        shown = _NOTATED[format.arguments](arguments)
        written.append(format.call.replace("$name", name).replace("$arguments", shown))
    between = format.between if format.between is not None else "\n"
    return format.begin + between.join(written) + format.end if written else ""
