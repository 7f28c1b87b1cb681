"""Messages of a request to what the chat template takes.

Why: templates differ in what they know of tools, so the system message describes the tools to the model, in the form
that the constraint requires. Earlier calls and their results are shown in that form, too.
What: histories are taken as OpenAI's server takes them. A message that a client received is sent back as it is, with
keys that say nothing to the model, and with arguments that are empty or were cut off.
Invariant: a message of a client cannot forge a turn (its markers are read as plain text, see `models.hugging_face`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from structgen.errors import StructgenError, with_kind
from structgen.tools import FORMATS, ToolFormat

from .errors import bad_request, message_of
from .fields import Fields
from .tool_fields import ToolsAsked

__all__ = ["read_messages"]

_NOTATED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "json": lambda arguments: json.dumps(arguments, ensure_ascii=False),
    "python": lambda arguments: ", ".join(f"{name}={value!r}" for name, value in arguments.items()),
    "xml": lambda arguments: "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for name, value in arguments.items()
    ),
}
_ROLES = {
    "developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "function": "tool",
}  # fmt: skip
_RECEIVED = (
    "parsed", "annotations", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks",
    "provider_specific_fields", "id", "structgen",
)  # fmt: skip
"""Keys of messages that clients received, from this server or another one, and send back."""


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
            described = tools.instructions()
        except StructgenError as error:
            raise bad_request("structgen.ltl", message_of(error)) from None
        if messages[0]["role"] == "system":
            messages[0]["content"] += f"\n\n{described}"
        else:
            messages.insert(0, {"role": "system", "content": described})
    return messages


def _message(given: Any, where: str, format: ToolFormat, names: dict[str, str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise bad_request(where, f"{where} is {with_kind(given)}, not an object")
    fields = Fields(given, where)
    role = fields.take("role")
    if role not in _ROLES:
        raise bad_request(f"{where}.role", f"{where}.role is {role!r:.60}; it is one of {', '.join(_ROLES)}")
    content = _content(fields.take("content"), f"{where}.content")
    name = fields.take("name")
    if role == "assistant":
        fields.ignored(*_RECEIVED)
        refusal = fields.text("refusal")
        fields.only("audio", [], "there is no audio")
        calls = _calls(fields, where)
        fields.end()
        return {"role": role, "content": (content or refusal or "") + _written(calls, format, names)}
    if role in ("tool", "function"):
        identity = fields.text("tool_call_id")
        fields.ignored("is_error", "status")
        fields.end()
        called = names.get(identity or "", name if isinstance(name, str) else "")
        text = format.result.replace("$name", called).replace("$result", content)
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
    return "".join(_part(part, f"{where}[{place}]") for place, part in enumerate(given))


def _part(given: Any, where: str) -> str:
    if isinstance(given, str):
        return given
    kind = given.get("type") if isinstance(given, dict) else given
    text = given.get(kind) if isinstance(given, dict) and kind in ("text", "refusal") else None
    if not isinstance(text, str):
        raise bad_request(where, f"{where} is {kind!r:.60}; only parts of text are read")
    return text


def _calls(fields: Fields, where: str) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of the calls of a message; ``function_call`` is their older form."""
    calls, older = fields.take("tool_calls"), fields.take("function_call")
    place = f"{where}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        raise bad_request(place, f"{place} is {with_kind(calls)}, not a list")
    found = [_call(call, f"{place}[{index}]") for index, call in enumerate(calls or [])]
    if older is not None:
        found.append(_call({"function": older}, f"{where}.function_call"))
    return found


def _call(given: Any, where: str) -> tuple[str, str, Any]:
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name or not isinstance(arguments, str | dict | None):
        raise bad_request(where, f'{where} has no "function" with a name and arguments as a text of JSON')
    return str(given.get("id")), name, arguments


def _written(calls: list[tuple[str, str, Any]], format: ToolFormat, names: dict[str, str]) -> str:
    """Earlier calls as the model writes them."""
    written = []
    for identity, name, arguments in calls:
        names[identity] = name
        shown = _arguments(arguments, format)
        written.append(format.call.replace("$name", name).replace("$arguments", shown))
    between = format.between if format.between is not None else "\n"
    return format.begin + between.join(written) + format.end if written else ""


def _arguments(given: Any, format: ToolFormat) -> str:
    """Arguments in the notation of the format. A text that is no JSON object was cut off, and stays as it is."""
    found = given or {}
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return str(given)
    return _NOTATED[format.arguments](found) if isinstance(found, dict) else str(given)
