"""What a model writes in a turn, as events: reasoning, content, and calls while they are written.

Invariant: events are never revoked. However a text is cut into pieces, the events of all pieces, `merged`, are those
of the whole text. `turn_of` returns the turn that they make up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from structgen.brief import short_repr
from structgen.errors import OutputInvalid

from .definitions import ToolCall

__all__ = ["AssistantTurn", "EventKind", "TurnEvent", "arguments_of_text", "merged", "turn_of"]

EventKind = Literal["reasoning", "content", "call_started", "argument_delta", "call_finished"]
_PARTS = ("reasoning", "content", "argument_delta")
"""The kinds that come in pieces."""


@short_repr
@dataclass(frozen=True)
class TurnEvent:
    """One event of a turn."""

    kind: EventKind
    text: str = ""
    """The new piece of the reasoning, of the content, or of the arguments, which are JSON."""
    call: int | None = None
    """For events of a call: its position in the turn, from 0."""
    name: str = ""
    """For ``call_started``: the name of the tool."""


@short_repr
@dataclass(frozen=True)
class AssistantTurn:
    """A finished turn of an assistant."""

    text: str
    """The answer, or the text before the calls."""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


def merged(events: Iterable[TurnEvent]) -> list[TurnEvent]:
    """Return the events with adjacent pieces of one part joined."""
    found: list[TurnEvent] = []
    for event in events:
        last = found[-1] if found else None
        if last is not None and event.kind in _PARTS and (last.kind, last.call) == (event.kind, event.call):
            found[-1] = replace(last, text=last.text + event.text)
        else:
            found.append(event)
    return found


def turn_of(events: Iterable[TurnEvent]) -> AssistantTurn:
    """Return the turn that these events make up. Raises `OutputInvalid` if arguments are cut off."""
    reasoning: str | None = None
    text = ""
    names: list[str] = []
    arguments: list[str] = []
    for event in events:
        if event.kind == "reasoning":
            reasoning = (reasoning or "") + event.text
        elif event.kind == "content":
            text += event.text
        elif event.kind == "call_started":
            names.append(event.name)
            arguments.append("")
        elif event.kind == "argument_delta":
            arguments[-1] += event.text
    calls = [
        ToolCall(name, arguments_of_text(name, given)) for name, given in zip(names, arguments, strict=True)
    ]
    return AssistantTurn(text, tuple(calls), reasoning)


def arguments_of_text(name: str, text: str) -> dict[str, Any]:
    """Return the arguments of a call from their JSON. Raises `OutputInvalid`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the arguments of {name} are no JSON: {error}", text=text) from error
    if not isinstance(value, dict):
        raise OutputInvalid(f"the arguments of {name} are no object", text=text)
    return value
