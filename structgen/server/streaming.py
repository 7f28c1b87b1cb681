"""The chunks of a streamed response: what is new in each row, as deltas.

Invariant: what was sent is never revoked. The chunks of a choice add up to the response without `stream`. A row that
fails does not end the others: its error is the last event of the stream.
Cost: linear in the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from .answers import Answer, choice_of, failure, new_call_id, usage_of
from .completion_request import CompletionRequest
from .errors import ApiError
from .service import RunningRequest
from .ticket import SequenceRow
from .turn_deltas import CallStart, Delta, ReasoningDelta, TextDelta, TurnDeltas

__all__ = ["ChoiceStream", "chunks_of"]


async def chunks_of(
    request: CompletionRequest, running: RunningRequest, vocabulary: Any, deadline: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream. Raises `ApiError`, after all rows have ended, if one of them failed.

    Args:
        request: The request.
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
        self._deltas = TurnDeltas(request)
        self.has_ended = False

    def new_chunks(self, answer: Answer) -> Iterator[dict[str, Any]]:
        """Yield what is new. Raises `ApiError` if the row has failed."""
        index, sequence = self._index, self._sequence
        # subtle: the finish is read first, since the model's thread writes it last.
        finish = sequence.finish
        text = sequence.text
        if finish is not None and (error := failure(sequence)) is not None:
            raise error
        for delta in self._deltas.new(text, ends=finish is not None):
            yield answer.chunk(index, _shown(delta) if answer.is_chat else _text_of(delta))
        if finish is None:
            return
        choice = choice_of(self._request, sequence, self._vocabulary)
        logprobs = None if choice.logprobs is None else answer.shown_logprobs(choice.logprobs)
        nothing: dict[str, Any] | str = {} if answer.is_chat else ""
        yield answer.chunk(index, nothing, choice.reason, logprobs=logprobs, structgen=choice.details)
        self.has_ended = True


def _shown(delta: Delta) -> dict[str, Any]:
    """Return the delta of a chat."""
    if isinstance(delta, ReasoningDelta):
        return {"reasoning_content": delta.text}
    if isinstance(delta, TextDelta):
        return {"content": delta.text}
    if isinstance(delta, CallStart):
        kind, key = ("custom", "input") if delta.is_custom else ("function", "arguments")
        call = {"index": delta.index, "id": new_call_id(), "type": kind, kind: {"name": delta.name, key: ""}}
        return {"tool_calls": [call]}
    more = {"custom": {"input": delta.text}} if delta.is_custom else {"function": {"arguments": delta.text}}
    return {"tool_calls": [{"index": delta.index, **more}]}


def _text_of(delta: Delta) -> str:
    """Return the delta of a completion, which has only text."""
    assert isinstance(delta, TextDelta)
    return delta.text
