"""Read the tools of a response request, which are flat, as tools of a chat.

    response    {"type": "function", "name": ..., "parameters": {...}, "strict": true}
    chat        {"type": "function", "function": {"name": ..., "parameters": {...}}}

Invariant: functions and custom tools are tools. Those that OpenAI runs itself (searches, ...) are refused.
"""

from __future__ import annotations

from typing import Any

from structgen.errors import with_kind
from structgen.tools import ToolFormat

from ..errors import ApiError, bad_request
from ..fields import Fields
from ..tool_fields import RequestedTools, flat_param, read_requested_tools

__all__ = ["read_response_tools"]

_KEYS = {"function": ("name", "description", "parameters"), "custom": ("name", "description", "format")}
"""The keys of each type of tool that describe it."""


def read_response_tools(
    fields: Fields, own: Fields | None, format: ToolFormat
) -> tuple[RequestedTools | None, dict[str, Any]]:
    """Read `tools`, `tool_choice` and `parallel_tool_calls`. Raises `ApiError`.

    Args:
        fields: The fields of the request.
        own: Those of its field `structgen`.
        format: How calls are written.

    Returns:
        The tools that the answer may call, and the fields that the response repeats.
    """
    given, choice = fields.take("tools"), fields.take("tool_choice")
    parallel = fields.take("parallel_tool_calls")
    listed = [] if given is None else given
    if not isinstance(listed, list):
        raise bad_request("tools", f"tools is {with_kind(listed)}, not a list")
    definitions = [_as_of_chat(tool, f"tools[{index}]") for index, tool in enumerate(listed)]
    of_chat = {"tools": definitions, "tool_choice": choice, "parallel_tool_calls": parallel}
    try:
        requested = read_requested_tools(Fields(of_chat), own, format)
    except ApiError as error:
        error.param = flat_param(error.param)
        raise
    if requested is not None:
        requested.is_flat = True
        parallel = requested.spec.get("parallel", format.between is not None)
    return requested, {
        "tools": [_as_shown(tool) for tool in listed],
        "tool_choice": "auto" if choice is None else choice,
        "parallel_tool_calls": parallel is not False,
    }


def _as_of_chat(tool: Any, place: str) -> dict[str, Any]:
    """Return the definition in the form of a chat. Raises `ApiError`."""
    if not isinstance(tool, dict):
        raise bad_request(place, f"{place} is {with_kind(tool)}, not an object")
    fields = Fields(tool, place)
    kind = fields.take("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        where = fields.name("type")
        raise bad_request(
            where,
            f"{where} is {kind!r:.60}; this server runs no tools itself, and offers those of the client: "
            '{"type": "function", "name": ..., "parameters": ...} or {"type": "custom", "name": ..., "format": ...}',
            "unsupported_parameter",
        )
    if kind in tool:
        where = fields.name(kind)
        raise bad_request(
            where,
            f"{where} is the form of chats; here its fields, such as the name, are fields of the tool itself",
        )
    fields.flag("strict")  # every schema is followed strictly
    fields.only("defer_loading", [False], "all tools are shown to the model")
    fields.only("allowed_callers", [["direct"]], "only the model calls tools")
    fields.only("async", [False], "calls are answered by the client")
    fields.ignored("output_schema")
    inner = {key: value for key in _KEYS[kind] if (value := fields.take(key)) is not None}
    fields.end()
    return {"type": kind, kind: inner}


def _as_shown(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the definition as the response repeats it, with the defaults of the protocol."""
    if tool["type"] == "function":
        return {"strict": True, "parameters": None, **tool}
    return {"format": {"type": "text"}, **tool}
