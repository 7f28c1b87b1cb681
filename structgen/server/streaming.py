"""The parts of a streamed answer: what is new in each row, as deltas.

Invariant: what was sent stays. The parts of a choice make up what the same request without `stream` is answered with.
A row that fails does not end the others: its error is the last event of the stream.
Cost: linear in the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from structgen.errors import OutputInvalid
from structgen.tools.partial_turn import GrowingTurn

from .answers import Answer, choice_of, failure, new_call_id, usage_of
from .completion_request import Asked
from .errors import ApiError
from .model_thread import Ticket

__all__ = ["ChoiceStream", "parts_of"]


async def parts_of(
    asked: Asked, running: Any, vocabulary: Any, deadline: float
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream. Raises `ApiError`, when all rows have ended, if one of them failed.

    Args:
        asked: The request.
        running: `service.Running`, whose ticket is in the engine.
        vocabulary: Spells tokens, for log probabilities.
        deadline: When to raise `TimeoutError`, in the event loop's time.
    """
    answer, ticket = Answer(asked), running.ticket
    assert ticket is not None
    streams = {place: ChoiceStream(asked, ticket, place, vocabulary) for place in range(asked.n)}
    failed: ApiError | None = None
    if answer.is_chat:
        for place in streams:
            yield answer.chunk(place, {"role": "assistant", "content": ""})
    while streams:
        # subtle: for this alone, since what is cancelled while a part is sent is not this generator.
        async with asyncio.timeout_at(deadline):
            await running.change()
        for place, stream in list(streams.items()):
            try:
                for chunk in stream.new_chunks(answer):
                    yield chunk
            except ApiError as error:
                failed = failed or _of_choice(error, place, asked.n)
                del streams[place]
            else:
                if stream.has_ended:
                    del streams[place]
    if failed is not None:
        raise failed
    if asked.include_usage:
        yield answer.usage_chunk(usage_of(len(ticket.rows[0].prompt), sum(ticket.drawn)))


def _of_choice(error: ApiError, place: int, choices: int) -> ApiError:
    if choices == 1:
        return error
    return ApiError(error.status, f"choice {place}: {error.message}", param=error.param, code=error.code)


class ChoiceStream:
    """One row of a request."""

    def __init__(self, asked: Asked, ticket: Ticket, place: int, vocabulary: Any) -> None:
        self._asked, self._ticket, self._place, self._vocabulary = asked, ticket, place, vocabulary
        self._reader = asked.reader()
        self._read = ""
        self._sent = self._thought = ""
        self._calls: list[str] = []
        """Of each call that was sent, the arguments so far."""
        self.has_ended = False

    def new_chunks(self, answer: Answer) -> Iterator[dict[str, Any]]:
        """What is new. Raises `ApiError` if the row has failed."""
        place, ticket = self._place, self._ticket
        # subtle: the finish is read first, since the model's thread writes it last.
        finish = ticket.finish[place]
        text = ticket.settled[place]
        if finish is None:
            yield from self._grown(answer, text, ends=False)
            return
        if (error := failure(ticket, place)) is not None:
            raise error
        yield from self._grown(answer, text, ends=True)
        choice = choice_of(self._asked, ticket, place, self._vocabulary)
        logprobs = None if choice.logprobs is None else answer.shown_logprobs(choice.logprobs)
        nothing: dict[str, Any] | str = {} if answer.is_chat else ""
        yield answer.chunk(place, nothing, choice.reason, logprobs=logprobs, structgen=choice.details)
        self.has_ended = True

    def _grown(self, answer: Answer, text: str, *, ends: bool) -> Iterator[dict[str, Any]]:
        reader = self._reader
        shown = text if reader is None else self._follow(reader, text, ends=ends)
        if self._reader is not None and (thought := self._reader.reasoning or "") != self._thought:
            if not thought.startswith(self._thought):
                raise _went_back()
            new, self._thought = thought[len(self._thought) :], thought
            yield answer.chunk(self._place, {"reasoning_content": new})
        if not shown.startswith(self._sent):
            raise _went_back()
        if len(shown) > len(self._sent):
            new = shown[len(self._sent) :]
            self._sent = shown
            yield answer.chunk(self._place, {"content": new} if answer.is_chat else new)
        if self._reader is not None:
            for delta in self._call_deltas(self._reader):
                yield answer.chunk(self._place, {"tool_calls": [delta]})

    def _follow(self, reader: GrowingTurn, text: str, *, ends: bool) -> str:
        if not text.startswith(self._read):  # the row went back from a dead end
            again = self._asked.reader()
            assert again is not None
            self._reader = reader = again
        self._read = text
        try:
            reader.feed(text, ends=ends)
        except OutputInvalid as error:
            raise ApiError(500, str(error), code="internal_error") from None
        return reader.text

    def _call_deltas(self, reader: GrowingTurn) -> Iterator[dict[str, Any]]:
        if len(reader.calls) < len(self._calls):
            raise _went_back()
        for index, call in enumerate(reader.calls):
            delta: dict[str, Any] = {"index": index, "function": {}}
            if index == len(self._calls):
                self._calls.append(call.name)
                delta = {"index": index, "id": new_call_id(), "type": "function"}
                yield {**delta, "function": {"name": call.name, "arguments": ""}}
            sent = self._calls[index]
            written = call.name + call.arguments
            if not written.startswith(sent):
                raise _went_back()
            if len(written) > len(sent):
                self._calls[index] = written
                yield {"index": index, "function": {"arguments": written[len(sent) :]}}


def _went_back() -> ApiError:
    return ApiError(422, "the text went back from a dead end, before what was sent already", code="dead_end")
