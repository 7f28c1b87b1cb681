"""Response objects, whole or as the events of a stream.

Invariant: `status` is "completed" only for a complete answer. An answer that was cut off is "incomplete", with the
reason "max_output_tokens", and so is the item that it was cut off in.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..answers import Choice, choice_of, failure, usage_of
from ..completion_request import CompletionRequest
from ..errors import ApiError
from ..service import RunningRequest
from ..ticket import SequenceRow
from ..turn_deltas import TurnDeltas
from .output_items import OutputItems, deltas_of

__all__ = ["ResponseObject", "ResponseStream"]


@dataclass
class ResponseObject:
    """What all parts of one response have in common."""

    request: CompletionRequest
    identity: str = field(default_factory=lambda: f"resp_{secrets.token_hex(24)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def shown(self, status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Return the object.

        Args:
            status: Its status.
            output: Its items.
            **more: Further fields.
        """
        return {
            "id": self.identity,
            "object": "response",
            "created_at": self.created,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.request.model,
            "output": output,
            "usage": None,
            "background": False,
            "previous_response_id": None,
            "service_tier": "default",
            "store": False,
            "truncation": "disabled",
            **self.request.echoed,
            **more,
        }

    def whole(
        self, choices: list[Choice], usage: dict[str, int], details: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the body of a response that is not streamed. It has one choice."""
        (choice,) = choices
        items = OutputItems(has_logprobs=self.request.logprobs)
        for delta in deltas_of(choice, self.request.tools):
            for _ in items.add(delta):
                pass
        for _ in items.close(choice):
            pass
        return self.ended(choice, items.items, usage, details)

    def ended(
        self,
        choice: Choice,
        output: list[dict[str, Any]],
        usage: dict[str, int],
        details: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the object at the end of its answer."""
        more: dict[str, Any] = {"usage": _usage(choice, usage)}
        if self.request.details:
            more["structgen"] = {**(choice.details or {}), **(details or {})}
        if choice.reason == "length":
            reason = {"reason": "max_output_tokens"}
            return self.shown("incomplete", output, incomplete_details=reason, **more)
        return self.shown("completed", output, completed_at=int(time.time()), **more)


def _usage(choice: Choice, usage: dict[str, int]) -> dict[str, Any]:
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": choice.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": choice.reasoning_tokens},
        "total_tokens": usage["total_tokens"],
    }


class ResponseStream:
    """The events of one streamed response."""

    def __init__(self, request: CompletionRequest, vocabulary: Any) -> None:
        self._response = ResponseObject(request)
        self._request, self._vocabulary = request, vocabulary
        self._items = OutputItems(has_logprobs=request.logprobs)
        self._deltas = TurnDeltas(request)
        self._numbers = itertools.count()

    async def events(self, running: RunningRequest, deadline: float) -> AsyncIterator[dict[str, Any]]:
        """Yield the events up to the end of the response. Raises `ApiError` if the answer failed.

        Args:
            running: The request, whose ticket has been submitted.
            deadline: When to raise `TimeoutError`, in the event loop's time.
        """
        ticket = running.ticket
        assert ticket is not None
        (sequence,) = ticket.sequences
        for kind in ("response.created", "response.in_progress"):
            yield self._numbered({"type": kind, "response": self._response.shown("in_progress", [])})
        finish = None
        while finish is None:
            # subtle: only around this wait; a cancellation while an event is sent does not reach this generator.
            async with asyncio.timeout_at(deadline):
                await running.wait_for_change()
            # subtle: the finish is read first, since the model's thread writes it last.
            finish = sequence.finish
            for event in self._new_events(sequence, ends=finish is not None):
                yield self._numbered(event)
        choice = choice_of(self._request, sequence, self._vocabulary)
        for event in self._items.close(choice):
            yield self._numbered(event)
        usage = usage_of(len(sequence.row.prompt), ticket.tokens)
        response = self._response.ended(choice, self._items.items, usage)
        yield self._numbered({"type": f"response.{response['status']}", "response": response})

    def failed(self, error: ApiError) -> dict[str, Any]:
        """Return the last event of a stream that has failed."""
        self._items.fail()
        # The protocol has few codes; `type` and the message say more.
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        shown = {**error.body["error"], "code": code}
        response = self._response.shown("failed", self._items.items, error=shown)
        return self._numbered({"type": "response.failed", "response": response})

    def _new_events(self, sequence: SequenceRow, *, ends: bool) -> Iterator[dict[str, Any]]:
        text = sequence.text
        if ends and (error := failure(sequence)) is not None:
            raise error
        for delta in self._deltas.new(text, ends=ends):
            yield from self._items.add(delta)

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "sequence_number": next(self._numbers)}
