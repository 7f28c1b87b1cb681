"""What is new in a growing answer, as typed deltas: reasoning, text, calls and their arguments.

Why: each endpoint sends the same deltas in a form of its own.
Invariant: what was returned is never revoked. The deltas add up to the turn that `answers.whole_turn` reads.
Cost: reading is linear in the text. Each call also compares the text with the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from structgen.errors import OutputInvalid
from structgen.tools import TurnEvent
from structgen.tools.custom import InputReader
from structgen.tools.partial_turn import PartialTurn

from .answers import unreadable_turn
from .completion_request import CompletionRequest
from .errors import ApiError

__all__ = ["ArgumentsDelta", "CallStart", "Delta", "ReasoningDelta", "TextDelta", "TurnDeltas"]


@dataclass(frozen=True)
class ReasoningDelta:
    """More of the reasoning."""

    text: str


@dataclass(frozen=True)
class TextDelta:
    """More of the answer's text, or of the text before its calls."""

    text: str


@dataclass(frozen=True)
class CallStart:
    """A new call, without its arguments."""

    index: int
    name: str
    is_custom: bool = False
    """Whether it is a call of a custom tool."""


@dataclass(frozen=True)
class ArgumentsDelta:
    """More of the arguments of call `index`; of a custom tool's call, more of its input."""

    index: int
    text: str
    is_custom: bool = False


Delta = ReasoningDelta | TextDelta | CallStart | ArgumentsDelta


class TurnDeltas:
    """Reads a growing answer, with the events of the turn's parser."""

    def __init__(self, request: CompletionRequest) -> None:
        self._request = request
        self._reader = request.reader()
        self._read = ""
        """The text that was read."""
        self._inputs: dict[int, InputReader] = {}
        """For each call of a custom tool, what decodes its input."""

    def new(self, text: str, *, ends: bool) -> Iterator[Delta]:
        """Yield what is new.

        Args:
            text: The whole answer so far.
            ends: Whether no more text follows.

        Raises:
            ApiError: The answer is no turn, or has backtracked past what was returned.
        """
        reader, read, self._read = self._reader, self._read, text
        if reader is not None:
            for event in self._events(reader, text, read, ends=ends):
                if (delta := self._delta_of(event)) is not None:
                    yield delta
        elif not text.startswith(read):
            raise _went_back()
        elif len(text) > len(read):
            yield TextDelta(text[len(read) :])

    def _events(self, reader: PartialTurn, text: str, read: str, *, ends: bool) -> list[TurnEvent]:
        try:
            if text.startswith(read):
                return reader.follow(text, ends=ends)
            again = self._request.reader()  # the row has backtracked from a dead end
            assert again is not None
            again.follow(text, ends=ends)
        except OutputInvalid as error:
            raise unreadable_turn(error) from None
        self._reader = again
        if (events := again.events_since(reader)) is None:
            raise _went_back()
        return events

    def _delta_of(self, event: TurnEvent) -> Delta | None:
        """Return the delta of an event; None if it has nothing to send."""
        if event.kind == "call_started":
            assert event.call is not None
            tools = self._request.tools
            if tools is not None and tools.is_custom(event.name):
                self._inputs[event.call] = InputReader()
            return CallStart(event.call, event.name, event.call in self._inputs)
        if not event.text:
            return None
        if event.kind == "argument_delta":
            assert event.call is not None
            return self._arguments(event.call, event.text)
        return ReasoningDelta(event.text) if event.kind == "reasoning" else TextDelta(event.text)

    def _arguments(self, call: int, piece: str) -> ArgumentsDelta | None:
        if call not in self._inputs:
            return ArgumentsDelta(call, piece)
        text = self._inputs[call].more(piece)
        return ArgumentsDelta(call, text, is_custom=True) if text else None


def _went_back() -> ApiError:
    return ApiError(422, "the text backtracked from a dead end, past what was already sent", code="dead_end")
