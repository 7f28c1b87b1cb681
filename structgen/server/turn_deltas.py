"""What is new in a growing answer, as typed deltas: reasoning, text, calls and their arguments.

Why: each endpoint sends the same deltas in a form of its own.
Invariant: what was returned is never revoked. The deltas add up to the turn that `answers.whole_turn` reads.
Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from structgen.errors import OutputInvalid
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


@dataclass(frozen=True)
class ArgumentsDelta:
    """More of the arguments of call `index`."""

    index: int
    text: str


Delta = ReasoningDelta | TextDelta | CallStart | ArgumentsDelta


class TurnDeltas:
    """Compares an answer with what was returned of it before."""

    def __init__(self, request: CompletionRequest) -> None:
        self._request = request
        self._reader = request.reader()
        self._read = ""
        self._sent = self._thought = ""
        self._calls: list[str] = []
        """The name and arguments that were returned of each call."""

    def new(self, text: str, *, ends: bool) -> Iterator[Delta]:
        """Yield what is new.

        Args:
            text: The whole answer so far.
            ends: Whether no more text follows.

        Raises:
            ApiError: The answer is no turn, or has backtracked past what was returned.
        """
        if self._reader is None:
            yield from self._grown_text(text)
            return
        reader = self._follow(self._reader, text, ends=ends)
        if (thought := reader.reasoning or "") != self._thought:
            if not thought.startswith(self._thought):
                raise _went_back()
            new, self._thought = thought[len(self._thought) :], thought
            yield ReasoningDelta(new)
        yield from self._grown_text(reader.text)
        yield from self._grown_calls(reader)

    def _grown_text(self, shown: str) -> Iterator[Delta]:
        if not shown.startswith(self._sent):
            raise _went_back()
        if len(shown) > len(self._sent):
            new, self._sent = shown[len(self._sent) :], shown
            yield TextDelta(new)

    def _follow(self, reader: PartialTurn, text: str, *, ends: bool) -> PartialTurn:
        if not text.startswith(self._read):  # the row has backtracked from a dead end
            again = self._request.reader()
            assert again is not None
            self._reader = reader = again
        self._read = text
        try:
            reader.feed(text, ends=ends)
        except OutputInvalid as error:
            raise unreadable_turn(error) from None
        return reader

    def _grown_calls(self, reader: PartialTurn) -> Iterator[Delta]:
        if len(reader.calls) < len(self._calls):
            raise _went_back()
        for index, call in enumerate(reader.calls):
            if index == len(self._calls):
                self._calls.append(call.name)
                yield CallStart(index, call.name)
            sent = self._calls[index]
            written = call.name + call.arguments
            if not written.startswith(sent):
                raise _went_back()
            if len(written) > len(sent):
                self._calls[index] = written
                yield ArgumentsDelta(index, written[len(sent) :])


def _went_back() -> ApiError:
    return ApiError(422, "the text backtracked from a dead end, past what was already sent", code="dead_end")
