"""The chunks of a streamed response: what is new in each row, as deltas.

Invariant: what was sent is never revoked. The chunks of a choice add up to the response without `stream`. A row that
fails does not end the others: its error is the last event of the stream.
Cost: linear in the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from structgen.errors import OutputInvalid
from structgen.tools.partial_turn import PartialTurn

from .answers import Answer, choice_of, failure, new_call_id, unreadable_turn, usage_of
from .completion_request import CompletionRequest
from .errors import ApiError
from .service import RunningRequest
from .ticket import SequenceRow

__all__ = ["ChoiceStream", "chunks_of"]


async def chunks_of(
    request: CompletionRequest, running: RunningRequest, vocabulary: Any, deadline: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream. Raises `ApiError`, after all rows have ended, if one of them failed.

    Args:
        asked: The request.
        running: Its ticket has been submitted.
        vocabulary: Spells tokens, for log probabilities.
        deadline: When to raise `TimeoutError`, in the event loop's time.
    """
    answer, ticket = Answer(request), running.ticket
    assert ticket is not None
    streams = {
        index: ChoiceStream(request, sequence, index, vocabulary)
        for index, sequence in enumerate(ticket.sequences)
    }
    failed: ApiError | None = None
    if answer.is_chat:
        for index in streams:
            yield answer.chunk(index, {"role": "assistant", "content": ""})
    while streams:
        # subtle: only around this wait; a cancellation while a chunk is sent does not reach this generator.
        async with asyncio.timeout_at(deadline):
            await running.wait_for_change()
        for index, stream in list(streams.items()):
            try:
                for chunk in stream.new_chunks(answer):
                    yield chunk
            except ApiError as error:
                failed = failed or _of_choice(error, index, request.n)
                del streams[index]
            else:
                if stream.has_ended:
                    del streams[index]
    if failed is not None:
        raise failed
    if request.include_usage:
        yield answer.usage_chunk(usage_of(len(ticket.rows[0].prompt), ticket.tokens))


def _of_choice(error: ApiError, index: int, choices: int) -> ApiError:
    if choices == 1:
        return error
    return ApiError(
        error.status,
        f"choice {index}: {error.message}",
        param=error.param,
        code=error.code,
        log_message=f"choice {index}: {error.log_message}",
    )


class ChoiceStream:
    """The chunks of one choice."""

    def __init__(
        self, request: CompletionRequest, sequence: SequenceRow, index: int, vocabulary: Any
    ) -> None:
        self._request, self._sequence, self._index, self._vocabulary = request, sequence, index, vocabulary
        self._reader = request.reader()
        self._read = ""
        self._sent = self._thought = ""
        self._calls: list[str] = []
        """The name and arguments that were sent of each call."""
        self.has_ended = False

    def new_chunks(self, answer: Answer) -> Iterator[dict[str, Any]]:
        """Yield what is new. Raises `ApiError` if the row has failed."""
        index, sequence = self._index, self._sequence
        # subtle: the finish is read first, since the model's thread writes it last.
        finish = sequence.finish
        text = sequence.text
        if finish is None:
            yield from self._grown(answer, text, ends=False)
            return
        if (error := failure(sequence)) is not None:
            raise error
        yield from self._grown(answer, text, ends=True)
        choice = choice_of(self._request, sequence, self._vocabulary)
        logprobs = None if choice.logprobs is None else answer.shown_logprobs(choice.logprobs)
        nothing: dict[str, Any] | str = {} if answer.is_chat else ""
        yield answer.chunk(index, nothing, choice.reason, logprobs=logprobs, structgen=choice.details)
        self.has_ended = True

    def _grown(self, answer: Answer, text: str, *, ends: bool) -> Iterator[dict[str, Any]]:
        reader = self._reader
        shown = text if reader is None else self._follow(reader, text, ends=ends)
        if self._reader is not None and (thought := self._reader.reasoning or "") != self._thought:
            if not thought.startswith(self._thought):
                raise _went_back()
            new, self._thought = thought[len(self._thought) :], thought
            yield answer.chunk(self._index, {"reasoning_content": new})
        if not shown.startswith(self._sent):
            raise _went_back()
        if len(shown) > len(self._sent):
            new = shown[len(self._sent) :]
            self._sent = shown
            yield answer.chunk(self._index, {"content": new} if answer.is_chat else new)
        if self._reader is not None:
            for delta in self._call_deltas(self._reader):
                yield answer.chunk(self._index, {"tool_calls": [delta]})

    def _follow(self, reader: PartialTurn, text: str, *, ends: bool) -> str:
        if not text.startswith(self._read):  # the row has backtracked from a dead end
            again = self._request.reader()
            assert again is not None
            self._reader = reader = again
        self._read = text
        try:
            reader.feed(text, ends=ends)
        except OutputInvalid as error:
            raise unreadable_turn(error) from None
        return reader.text

    def _call_deltas(self, reader: PartialTurn) -> Iterator[dict[str, Any]]:
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
    return ApiError(422, "the text backtracked from a dead end, past what was already sent", code="dead_end")
