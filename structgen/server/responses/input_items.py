"""Convert the input of a response request to messages: texts, calls, their results, and items of earlier responses.

What: a client sends the whole conversation, with the items of earlier responses as it received them. A function call
joins the assistant's message before it. Reasoning of earlier turns is not shown to the model, as in most chat
templates.
Invariant: an item that the model cannot see is refused by its name, never dropped. Reasoning is the only exception.
"""

from __future__ import annotations

from typing import Any

from structgen.errors import did_you_mean, with_kind
from structgen.tools import ToolFormat
from structgen.tools.custom import PARAMETER

from ..errors import ApiError, bad_request
from ..fields import Fields
from ..messages import describe_tools, message_texts
from ..tool_fields import RequestedTools

__all__ = ["read_input"]

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_ITEMS = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
)
_OF_HOSTED_TOOLS = (
    "file_search_call", "web_search_call", "computer_call", "computer_call_output", "image_generation_call",
    "code_interpreter_call", "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
    "apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
    "mcp_call", "tool_search_call", "tool_search_output",
)  # fmt: skip
"""Types of items that belong to tools which this server does not have."""


def read_input(
    fields: Fields, tools: RequestedTools | None, format: ToolFormat
) -> tuple[str | None, list[dict[str, Any]]]:
    """Read `instructions` and `input`.

    Args:
        fields: The fields of the request.
        tools: The tools that the answer may call.
        format: How earlier calls are shown, even if the answer may call no tool.

    Returns:
        The instructions, and the messages as a chat template takes them.

    Raises:
        ApiError: An item is malformed, or the model cannot see it.
    """
    instructions = fields.text("instructions")
    conversation = _Conversation()
    if instructions:
        conversation.add_message("system", instructions, "instructions")
    given = fields.take("input")
    if isinstance(given, str):
        conversation.add_message("user", given, "input")
    elif isinstance(given, list) and given:
        for index, item in enumerate(given):
            conversation.add(item, f"input[{index}]")
        if not conversation.has_input:
            raise bad_request("input", "input has no message, call or result, only reasoning")
    else:
        what = "missing" if given is None else "an empty list" if given == [] else with_kind(given)
        raise bad_request("input", f"input is {what}; it is a text, or a list with at least one item")
    messages = message_texts(conversation.messages, format, conversation.places)
    if instructions and len(messages) > 1 and messages[1]["role"] == "system":
        # Many templates take one system message only.
        messages[:2] = [{"role": "system", "content": f"{instructions}\n\n{messages[1]['content']}"}]
    return instructions, describe_tools(messages, tools)


class _Conversation:
    """Messages as they are read from items."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: list[str] = []
        """The path of the item that each message was read from."""
        self.has_input = False
        self._calls: set[str] = set()

    def add_message(self, role: str, content: Any, place: str) -> None:
        """Add a message."""
        self.has_input = self.has_input or place != "instructions"
        self.messages.append({"role": role, "content": content})
        self.places.append(place)

    def add(self, item: Any, place: str) -> None:
        """Add one item. Raises `ApiError`."""
        if not isinstance(item, dict):
            raise bad_request(place, f"{place} is {with_kind(item)}, not an object")
        fields = Fields(item, place)
        kind = fields.take("type")
        if kind is None and "role" in item:
            kind = "message"
        if kind == "message":
            self._add_message_item(fields)
        elif kind == "function_call":
            self._add_call(fields, place, fields.text("arguments") or "")
        elif kind == "custom_tool_call":
            # The model sees it as a call of a function of its input.
            self._add_call(fields, place, {PARAMETER: _required(fields, "input", may_be_empty=True)})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._add_output(fields, place)
        elif kind == "reasoning":
            fields.ignored("id", "summary", "content", "encrypted_content", "status")
        else:
            raise _unknown_item(kind, place)
        fields.end()

    def _add_message_item(self, fields: Fields) -> None:
        role = fields.take("role")
        if not isinstance(role, str) or role not in _ROLES:
            where = fields.name("role")
            hint = (
                " Send the result of a call as an item of the type function_call_output."
                if role == "tool"
                else ""
            )
            raise bad_request(where, f"{where} is {role!r:.60}; it is one of {', '.join(_ROLES)}.{hint}")
        content = fields.take("content")
        if not isinstance(content, str | list):
            where = fields.name("content")
            raise bad_request(where, f"{where} is {with_kind(content)}, not a text or a list of parts")
        fields.ignored("id", "status", "phase")
        self.add_message(_ROLES[role], content, fields.name("")[:-1])

    def _add_call(self, fields: Fields, place: str, arguments: str | dict[str, str]) -> None:
        identifier, name = _required(fields, "call_id"), _required(fields, "name")
        fields.ignored("id", "status", "parsed_arguments")
        fields.only("namespace", [name], "tools have no namespaces")
        call = {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
        self.has_input = True
        self._calls.add(identifier)
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.messages.append({"role": "assistant", "content": ""})
            self.places.append(place)
        self.messages[-1].setdefault("tool_calls", []).append(call)

    def _add_output(self, fields: Fields, place: str) -> None:
        identifier = _required(fields, "call_id")
        if identifier not in self._calls:
            where = fields.name("call_id")
            raise bad_request(
                where,
                f"{where} is {identifier!r:.60}, but no call before it has this call_id. Nothing is stored: "
                "send the items of earlier responses, too.",
            )
        output = fields.take("output")
        if not isinstance(output, str | list):
            where = fields.name("output")
            raise bad_request(where, f"{where} is {with_kind(output)}, not a text or a list of parts")
        fields.ignored("id", "status", "name")
        self.has_input = True
        self.messages.append({"role": "tool", "tool_call_id": identifier, "content": output})
        self.places.append(place)


def _required(fields: Fields, key: str, *, may_be_empty: bool = False) -> str:
    text = fields.text(key)
    if text is None or not (text or may_be_empty):
        raise bad_request(fields.name(key), f"{fields.name(key)} is missing")
    return text


def _unknown_item(kind: Any, place: str) -> ApiError:
    where = f"{place}.type"
    if kind == "item_reference":
        return bad_request(
            where,
            f"{where} is 'item_reference', but nothing is stored. Send the item itself.",
            "unsupported_parameter",
        )
    if isinstance(kind, str) and kind in _OF_HOSTED_TOOLS:
        return bad_request(
            where,
            f"{where} is {kind!r}, an item of a tool that this server does not have; it is one of {', '.join(_ITEMS)}",
            "unsupported_parameter",
        )
    near = did_you_mean(kind, _ITEMS) if isinstance(kind, str) else None
    return bad_request(
        where, f"{where} is {kind!r:.60}; it is one of {', '.join(_ITEMS)}" + (f". {near}" if near else "")
    )
