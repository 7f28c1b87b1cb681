"""Convert the messages of a request to what the chat template takes.

Why: templates differ in their support of tools. So the system message describes the tools to the model, in the form
that the constraint requires. Earlier calls and their results are shown in that form, too.
What: histories are accepted as OpenAI's server accepts them. Clients send back messages as they received them, with
keys that mean nothing to the model, and with arguments that are empty or were cut off.
Invariant: a message of a client cannot forge a turn (its markers are read as plain text, see `models.hugging_face`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from structgen.errors import PromptError, StructgenError, did_you_mean, with_kind
from structgen.models.messages import OTHER_ROLES, plain_messages
from structgen.tools import ToolFormat
from structgen.tools.custom import PARAMETER

from .errors import bad_request, message_of
from .fields import Fields
from .tool_fields import RequestedTools

__all__ = ["describe_tools", "message_texts", "read_messages"]

_PLACE = re.compile(r"^messages\[(\d+)\]")

_ROLES = {
    "developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "function": "tool",
}  # fmt: skip
_RECEIVED = (
    "parsed", "annotations", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks",
    "provider_specific_fields", "id", "structgen",
)  # fmt: skip
"""Keys of messages that clients received, from this server or another one, and send back."""


def read_messages(fields: Fields, tools: RequestedTools | None, format: ToolFormat) -> list[dict[str, Any]]:
    """Return the messages as a chat template takes them.

    Args:
        fields: The fields of the request.
        tools: The tools that the answer may call.
        format: How earlier calls are shown, even if the answer may call no tool.
    """
    given = fields.take("messages")
    if not isinstance(given, list) or not given:
        raise bad_request("messages", "messages must be a list with at least one message")
    places = [f"messages[{index}]" for index in range(len(given))]
    checked = [_checked(message, place) for message, place in zip(given, places, strict=True)]
    return describe_tools(message_texts(checked, format, places), tools)


def message_texts(
    checked: Sequence[dict[str, Any]], format: ToolFormat, places: Sequence[str]
) -> list[dict[str, Any]]:
    """Return messages with texts as their contents.

    Args:
        checked: Messages of the protocol, with known keys.
        format: How earlier calls are shown.
        places: The path of each message in the request, for errors.

    Raises:
        ApiError: A message holds what is no text.
    """
    try:
        plain = plain_messages(checked, format)
    except PromptError as error:
        where = _PLACE.sub(lambda found: places[int(found[1])], error.where or "", count=1)
        raise bad_request(where, f"{where}: {error.message}") from None
    return [{"role": message["role"], "content": message["content"]} for message in plain]


def describe_tools(messages: list[dict[str, Any]], tools: RequestedTools | None) -> list[dict[str, Any]]:
    """Return the messages with a description of the tools in the system message. Raises `ApiError`."""
    if tools is not None and tools.described:
        try:
            described = tools.instructions()
        except StructgenError as error:
            raise bad_request("structgen.ltl", message_of(error)) from None
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{described}"
        else:
            messages.insert(0, {"role": "system", "content": described})
    return messages


def _checked(given: Any, where: str) -> dict[str, Any]:
    """Return a message with the keys that matter to a model; other known keys are dropped, unknown ones refused."""
    if not isinstance(given, dict):
        raise bad_request(where, f"{where} is {with_kind(given)}, not an object")
    fields = Fields(given, where)
    role = fields.take("role")
    if not isinstance(role, str) or role not in _ROLES:
        near = did_you_mean(role, _ROLES, OTHER_ROLES) if isinstance(role, str) else None
        raise bad_request(
            f"{where}.role",
            f"{where}.role is {role!r:.60}; it is one of {', '.join(_ROLES)}" + (f". {near}" if near else ""),
        )
    message = {"role": _ROLES[role], "content": fields.take("content")}
    name = fields.take("name")
    if role == "assistant":
        fields.ignored(*_RECEIVED)
        message["refusal"] = fields.text("refusal")
        fields.only("audio", [], "there is no audio")
        message["tool_calls"] = _calls(fields, where)
    elif role in ("tool", "function"):
        message["tool_call_id"] = fields.text("tool_call_id")
        message["name"] = name
        fields.ignored("is_error", "status")
    fields.end()
    return message


def _calls(fields: Fields, where: str) -> list[dict[str, Any]]:
    """Return the calls of a message; ``function_call`` is their older form."""
    calls, older = fields.take("tool_calls"), fields.take("function_call")
    path = f"{where}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        raise bad_request(path, f"{path} is {with_kind(calls)}, not a list")
    calls = [_of_function(call, f"{path}[{index}]") for index, call in enumerate(calls or [])]
    for index, call in enumerate(calls):
        _check_call(call, f"{path}[{index}]")
    if older is None:
        return calls
    _check_call({"function": older}, f"{where}.function_call")
    return [*calls, {"function": older}]


def _of_function(call: Any, where: str) -> Any:
    """Return a custom tool's call as the model writes it, as one of a function of its input."""
    if not isinstance(call, dict) or call.get("type") != "custom":
        return call
    custom = call.get("custom")
    name, text = (custom.get("name"), custom.get("input")) if isinstance(custom, dict) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(text, str):
        raise bad_request(where, f'{where} has no "custom" with a name and an input')
    rest = {key: value for key, value in call.items() if key != "custom"}
    return {**rest, "type": "function", "function": {"name": name, "arguments": {PARAMETER: text}}}


def _check_call(given: Any, where: str) -> None:
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name or not isinstance(arguments, str | dict | None):
        raise bad_request(where, f'{where} has no "function" with a name and arguments as JSON text')
