"""What a model writes in a turn, as events: reasoning, content, and calls while they are written.

Invariant: events are never revoked. However a text is cut into pieces, the events of all pieces, `merged`, are those
of the whole text. `turn_of` returns the turn that they make up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
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
    for (kind, _), group in groupby(events, key=lambda event: (event.kind, event.call)):
        same = list(group)
        if kind in _PARTS and len(same) > 1:
            same = [replace(same[0], text="".join([event.text for event in same]))]
        found += same
    return found


def turn_of(events: Iterable[TurnEvent]) -> AssistantTurn:
    """Return the turn that these events make up. Raises `OutputInvalid` if arguments are cut off."""
    reasoning: list[str] | None = None
    text: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    for event in events:
        if event.kind == "reasoning":
            reasoning = [] if reasoning is None else reasoning
            reasoning.append(event.text)
        elif event.kind == "content":
            text.append(event.text)
        elif event.kind == "call_started":
            calls.append((event.name, []))
        elif event.kind == "argument_delta":
            calls[-1][1].append(event.text)
    made = [ToolCall(name, arguments_of_text(name, "".join(pieces))) for name, pieces in calls]
    return AssistantTurn("".join(text), tuple(made), None if reasoning is None else "".join(reasoning))


def arguments_of_text(name: str, text: str) -> dict[str, Any]:
    """Return the arguments of a call from their JSON. Raises `OutputInvalid`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputInvalid(f"the arguments of {name} are no JSON: {error}", text=text) from error
    if not isinstance(value, dict):
        raise OutputInvalid(f"the arguments of {name} are no object", text=text)
    return value
