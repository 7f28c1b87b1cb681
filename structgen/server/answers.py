"""Finished and growing texts as OpenAI's interface shows them: choices, chunks, usage.

Invariant: `finish_reason` is "stop" only for a text that is whole (in its constraint, or ended by the model or a stop
string), "tool_calls" for whole calls, "length" for what was cut off. Nothing else is given as an answer.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from structgen.errors import OutputInvalid
from structgen.tools import ToolCall

from .engine import Ticket
from .errors import ApiError, as_text, failed
from .protocol import Asked
from .text import held_back

__all__ = ["Answer", "Choice", "Streamed", "choice_of", "failure"]

_REASONS = {"complete": "stop", "stop": "stop", "length": "length"}


@dataclass
class Choice:
    """One answer."""

    text: str
    reason: str
    calls: tuple[ToolCall, ...] = ()
    logprobs: list[dict[str, Any]] | None = None
    details: dict[str, Any] | None = None


@dataclass
class Answer:
    """What all parts of one answer have in common."""

    asked: Asked
    identity: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def is_chat(self) -> bool:
        return self.asked.endpoint == "chat"

    def envelope(self, *, chunk: bool) -> dict[str, Any]:
        kind = ("chat.completion" + (".chunk" if chunk else "")) if self.is_chat else "text_completion"
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {
            "id": f"{prefix}-{self.identity}",
            "object": kind,
            "created": self.created,
            "model": self.asked.model,
        }

    def whole(
        self, choices: list[Choice], usage: dict[str, int], details: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        shown = [self._choice(place, one) for place, one in enumerate(choices)]
        body = {**self.envelope(chunk=False), "choices": shown, "usage": usage}
        return body if details is None else {**body, "structgen": details}

    def _choice(self, place: int, choice: Choice) -> dict[str, Any]:
        shown: dict[str, Any] = {"index": place, "finish_reason": choice.reason}
        if self.is_chat:
            message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
            if choice.calls:
                message["content"] = choice.text or None
                message["tool_calls"] = [shown_call(call) for call in choice.calls]
            shown["message"] = message
        else:
            shown["text"] = choice.text
        shown["logprobs"] = None if choice.logprobs is None else self.shown_logprobs(choice.logprobs)
        if choice.details is not None:
            shown["structgen"] = choice.details
        return shown

    def shown_logprobs(self, scored: list[dict[str, Any]]) -> dict[str, Any]:
        """As chats and as completions have them."""
        return {"content": scored, "refusal": None} if self.is_chat else _legacy(scored)

    def chunk(
        self, place: int, delta: dict[str, Any] | str, reason: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """A part of a choice; a text for completions, a delta for chats."""
        shown: dict[str, Any] = {"index": place, "finish_reason": reason, "logprobs": None}
        shown["delta" if self.is_chat else "text"] = delta
        shown.update({key: value for key, value in more.items() if value is not None})
        chunk = {**self.envelope(chunk=True), "choices": [shown]}
        if self.asked.include_usage:
            chunk["usage"] = None
        return chunk

    def usage_chunk(self, usage: dict[str, int]) -> dict[str, Any]:
        return {**self.envelope(chunk=True), "choices": [], "usage": usage}


def shown_call(call: ToolCall, index: int | None = None) -> dict[str, Any]:
    """A call with an id of its own; with its index where it is a part of a stream."""
    shown: dict[str, Any] = {} if index is None else {"index": index}
    # subtle: as an escape half of a character is JSON, too, and as itself no answer could be written.
    arguments = as_text(json.dumps(call.arguments, ensure_ascii=False))
    shown["id"], shown["type"] = f"call_{secrets.token_hex(12)}", "function"
    shown["function"] = {"name": call.name, "arguments": arguments}
    return shown


def failure(ticket: Ticket) -> ApiError | None:
    """What a client is told where a text did not come to any end."""
    if (error := ticket.error) is not None:
        return failed(error)
    for place, finish in enumerate(ticket.finish):
        if finish not in _REASONS:
            text = ticket.settled[place]
            return ApiError(
                422, f"no token continues the text under its constraint: {text[-80:]!r}", code=str(finish)
            )
    return None


def choice_of(asked: Asked, ticket: Ticket, place: int, vocabulary: Any) -> Choice:
    """One finished row."""
    row, finish = ticket.rows[place], str(ticket.finish[place])
    choice = Choice(ticket.settled[place], _REASONS[finish])
    if asked.tools is not None:
        if finish == "complete":
            turn = asked.tools.read(choice.text)
            choice.text, choice.calls = turn.text, turn.calls
            if turn.calls:
                choice.reason = "tool_calls"
        else:
            choice.text = Streamed(asked).shown(choice.text, whole=True)
    if asked.logprobs:
        choice.logprobs = [
            _scored(vocabulary, token, score)
            for token, score in zip(row.tokens, row.token_logprobs, strict=True)
        ]
    if asked.details:
        choice.details = {
            "finish": finish,
            "logprob": row.logprob,
            "log_weight": row.log_weight,
            "forced_tokens": row.forced_tokens,
            "seed": list(row.seed),
        }
    return choice


class Streamed:
    """What of a growing text is shown: in turns with tools, only what is no call."""

    def __init__(self, asked: Asked) -> None:
        self._tools = asked.tools
        self.sent = 0

    def shown(self, text: str, *, whole: bool) -> str:
        """`whole`: nothing more comes."""
        tools = self._tools
        if tools is None:
            return text
        if tools.format.is_framed:
            return ""  # what frames hold is known when the turn is whole
        if tools.format.at_start:
            marker = tools.markers[0]
            begins = text.startswith(marker) or (not whole and marker.startswith(text))
            return "" if begins else text
        places = [place for marker in tools.markers if (place := text.find(marker)) >= 0]
        if places:
            return text[: min(places)]
        return text if whole else held_back(text, tools.markers)


def _scored(vocabulary: Any, token: int, score: float | None) -> dict[str, Any]:
    data = vocabulary.token_bytes(token) or b""
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": -9999.0 if score is None else max(score, -9999.0),
        "bytes": list(data),
        "top_logprobs": [],
    }


def _legacy(scored: list[dict[str, Any]]) -> dict[str, Any]:
    offsets, place = [], 0
    for one in scored:
        offsets.append(place)
        place += len(one["token"])
    return {
        "tokens": [one["token"] for one in scored],
        "token_logprobs": [one["logprob"] for one in scored],
        "top_logprobs": None,
        "text_offset": offsets,
    }


def whole_turn(asked: Asked, text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """The text and the calls of a turn that a sampler drew."""
    if asked.tools is None:
        return text, ()
    try:
        turn = asked.tools.read(text)
    except OutputInvalid as error:
        raise ApiError(500, str(error), code="internal_error") from None
    return turn.text, turn.calls
