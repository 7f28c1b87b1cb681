"""Messages as the OpenAI protocol writes them, to messages as chat templates take them.

Why: a conversation that a server takes should work here as it is: content in parts, developer messages, calls of tools
and their results. Chat templates take texts alone, and differ in what they know of tools.
What: parts of text are joined; an assistant's `tool_calls` are written into its text, and a tool's result into a
message, in the notation that the model writes calls in (`CallNotation`, by default that of Hermes and Qwen). Keys that
say nothing to a model are dropped. Roles and contents that are texts already stay as they are.
Invariant: `plain_messages` of its own result is that result. What cannot be shown to a text model (images, audio) is
refused by name, never dropped.
Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from structgen.errors import PromptError, did_you_mean, with_kind

__all__ = ["HERMES", "OTHER_ROLES", "CallNotation", "plain_messages", "prompt_of"]

_OLD_CALL = "function_call"
"""Stands for the identifier of a call in the protocol's older form, which has none."""
_MESSAGE_HINT = 'Messages look like {"role": "user", "content": "..."}.'
_ROLES = ("system", "developer", "user", "assistant", "tool")
_OF_OPENAI = frozenset(
    ("tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations", "parsed", "logprobs")
)
"""Keys that templates do not read, or that are written into the content."""


class CallNotation(Protocol):
    """How calls and their results are written; `structgen.tools.ToolFormat` is one."""

    def write_calls(self, calls: Sequence[tuple[str, Mapping[str, Any] | str]]) -> str:
        """Return calls: the name and the arguments of each; a text stands for arguments that are no object."""
        ...

    @property
    def result(self) -> str:
        """A result, with ``$name`` and ``$result``."""
        ...

    @property
    def result_role(self) -> str:
        """The role of the message with a result."""
        ...


@dataclass(frozen=True)
class _Hermes:
    result: str = "<tool_response>\n$result\n</tool_response>"
    result_role: str = "user"

    def write_calls(self, calls: Sequence[tuple[str, Mapping[str, Any] | str]]) -> str:
        """Return calls, one after another."""
        return "\n".join(
            f'<tool_call>\n{{"name": "{name}", "arguments": {_shown(given)}}}\n</tool_call>'
            for name, given in calls
        )


def _shown(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


HERMES = _Hermes()
"""The notation of Hermes 2 Pro and 3, Qwen 2.5 and Qwen 3."""


def prompt_of(given: object) -> Any:
    """Return what a prompt is: the messages of a conversation object, and anything else as it is.

    Messages and calls that are objects of the official OpenAI client, as its answers hold them, become mappings.
    """
    if isinstance(given, (str, bytes, Mapping)):
        return given
    messages = given if isinstance(given, Sequence) else getattr(given, "messages", None)
    if isinstance(messages, list) and messages is not given:
        given = list(messages)
    if isinstance(messages, Sequence):
        plain = [_without_objects(message) for message in messages]
        if any(new is not old for new, old in zip(plain, messages, strict=True)):
            return plain
    return given


def _without_objects(message: Any) -> Any:
    """Return the message and its calls as mappings; the same object if it is one already."""
    if isinstance(message, BaseModel):
        return message.model_dump(exclude_none=True)
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if isinstance(calls, list) and any(isinstance(call, BaseModel) for call in calls):
        return {**message, "tool_calls": [_without_objects(call) for call in calls]}
    return message


def plain_messages(messages: Iterable[Any], notation: CallNotation = HERMES) -> list[dict[str, Any]]:
    """Return the messages with texts as their contents.

    Args:
        messages: Messages of the OpenAI protocol.
        notation: How earlier calls and their results are shown.

    Raises:
        PromptError: A message is malformed, or holds what is no text; the error names its place.
    """
    names: dict[str, str] = {}
    return [_plain(message, f"messages[{index}]", notation, names) for index, message in enumerate(messages)]


def _plain(given: object, where: str, notation: CallNotation, names: dict[str, str]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise PromptError(f"a message is {with_kind(given)}, not a dict", where=where, hint=_MESSAGE_HINT)
    role = given.get("role")
    if not isinstance(role, str) or not role:
        problem = "has no role" if role is None else f"has the role {role!r:.60}"
        raise PromptError(f"the message {problem}", where=where, hint=f"Roles are {', '.join(_ROLES)}.")
    if role not in _ROLES and (suggestion := did_you_mean(role, _ROLES, OTHER_ROLES)) is not None:
        raise PromptError(f"the message has the role {role!r:.60}", where=where, hint=suggestion)
    kept = {key: value for key, value in given.items() if key not in _OF_OPENAI}
    content = _text(given.get("content"), f"{where}.content")
    calls, called = given.get("tool_calls"), given.get("function_call")
    if not calls and called is not None:  # the protocol's older form of one call
        calls = [{"id": _OLD_CALL, "function": called}]
    if role == "developer":
        role = "system"
    elif role == "assistant":
        refusal = given.get("refusal")
        content = content or (refusal if isinstance(refusal, str) else "")
        content += _written(calls, f"{where}.tool_calls", notation, names) if calls else ""
    elif (role == "tool" and "tool_call_id" in given) or (role == "function" and _OLD_CALL in names):
        identifier = _OLD_CALL if role == "function" else str(given["tool_call_id"])
        name = names.get(identifier, str(given.get("name") or ""))
        content = notation.result.replace("$name", name).replace("$result", content)
        return {"role": notation.result_role, "content": content}
    return {**kept, "role": role, "content": content}


def _text(given: object, where: str) -> str:
    """Return the text of a message's content: a text, or parts of text."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise PromptError(
            f"the content is {with_kind(given)}, not a text or a list of parts",
            where=where,
            hint=_MESSAGE_HINT,
        )
    parts = []
    for index, part in enumerate(given):
        if isinstance(part, str):
            parts.append(part)
            continue
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get(_TEXTS[kind]) if isinstance(kind, str) and kind in _TEXTS else None
        if not isinstance(text, str) and isinstance(kind, str) and kind in _TEXTS:
            raise PromptError(
                f"this part of the content has no text: its {_TEXTS[kind]!r} is {with_kind(part.get(_TEXTS[kind]))}",
                where=f"{where}[{index}]",
                hint='Parts look like {"type": "text", "text": "..."}.',
            )
        if not isinstance(text, str):
            shown = repr(kind if kind is not None else part)[:60]
            if known := _PARTS.get(str(kind)):
                shown = f"{known} ({shown})"
            raise PromptError(
                f"this part of the content is {shown}; the model reads text only",
                where=f"{where}[{index}]",
                hint='Parts look like {"type": "text", "text": "..."}. A model on a server may take others: '
                "structgen.connect(url).",
            )
        parts.append(text)
    return "".join(parts)


_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Kinds of parts, and the key of their text."""
_PARTS = {
    **dict.fromkeys(("image_url", "image", "input_image"), "an image"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "a sound"),
    **dict.fromkeys(("video", "video_url"), "a video"),
    **dict.fromkeys(("file", "input_file"), "a file"),
}
OTHER_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant", "gpt": "assistant"}
"""What other libraries call the roles."""


def _written(calls: object, where: str, notation: CallNotation, names: dict[str, str]) -> str:
    """Earlier calls, as the model writes them."""
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise PromptError(f"tool_calls is {with_kind(calls)}, not a list", where=where)
    written: list[tuple[str, Mapping[str, Any] | str]] = []
    for index, call in enumerate(calls):
        given = call.get("function") if isinstance(call, Mapping) else None
        function: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        name = function.get("name")
        if not isinstance(name, str):
            raise PromptError(
                "the call has no function with a name",
                where=f"{where}[{index}]",
                hint='Calls look like {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}.',
            )
        names[str(call.get("id"))] = name
        written.append((name, _arguments(function.get("arguments"))))
    return notation.write_calls(written)


def _arguments(given: object) -> Mapping[str, Any] | str:
    """Return the arguments as an object; a text that is not a JSON object stays as it is."""
    if not given:
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return str(given)
    return dict(given) if isinstance(given, Mapping) else json.dumps(given, ensure_ascii=False, default=str)
