"""Finished texts in the form of OpenAI's API: choices, chunks, usage. `streaming` handles unfinished ones.

Invariant: `finish_reason` is "stop" only for a complete text (under its constraint, or ended by the model or a stop
string), "tool_calls" for complete calls, "length" for a text that was cut off, perhaps in the middle of a call.
"""

from __future__ import annotations

import codecs
import math
import secrets
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from structgen.errors import OutputInvalid
from structgen.tools.custom import InputReader
from structgen.tools.partial_turn import PartialCall, PartialTurn

from .completion_request import CompletionRequest
from .errors import ApiError, failed
from .ticket import SequenceRow

__all__ = [
    "Answer",
    "Choice",
    "choice_of",
    "failure",
    "finite",
    "new_call_id",
    "token_spans",
    "unreadable_turn",
    "usage_of",
    "whole_turn",
]

_LEAST_LOGPROB = -9999.0
_REASONS = {"complete": "stop", "stop": "stop", "length": "length"}


@dataclass
class Choice:
    """One answer."""

    text: str
    reason: str
    calls: Sequence[PartialCall] = ()
    reasoning: str | None = None
    logprobs: list[dict[str, Any]] | None = None
    text_tokens: slice = field(default_factory=lambda: slice(None))
    """The tokens of `text`, among all tokens of the answer."""
    reasoning_tokens: int = 0
    """The number of tokens of the reasoning and its markers."""
    cached_tokens: int = 0
    """The number of tokens of the prompt that were not read again."""
    details: dict[str, Any] | None = None


@dataclass
class Answer:
    """What all parts of one response have in common."""

    request: CompletionRequest
    identity: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def is_chat(self) -> bool:
        """Return whether this is a response of the chat endpoint."""
        return self.request.endpoint == "chat"

    def envelope(self, *, chunk: bool) -> dict[str, Any]:
        """Return the fields with which every response begins, or every chunk of a stream."""
        kind = ("chat.completion" + (".chunk" if chunk else "")) if self.is_chat else "text_completion"
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {
            "id": f"{prefix}-{self.identity}",
            "object": kind,
            "created": self.created,
            "model": self.request.model,
        }

    def whole(
        self, choices: list[Choice], usage: dict[str, int], details: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the body of a response that is not streamed."""
        shown = [self._choice(index, choice) for index, choice in enumerate(choices)]
        body = {**self.envelope(chunk=False), "choices": shown, "usage": usage}
        return body if details is None else {**body, "structgen": details}

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        shown: dict[str, Any] = {"index": index, "finish_reason": choice.reason}
        if self.is_chat:
            message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
            if choice.reasoning is not None:
                message["reasoning_content"] = choice.reasoning
            if choice.calls:
                message["content"] = choice.text or None
                message["tool_calls"] = [self._call(call) for call in choice.calls]
            shown["message"] = message
        else:
            shown["text"] = choice.text
        shown["logprobs"] = None if choice.logprobs is None else self.shown_logprobs(choice.logprobs)
        if choice.details is not None:
            shown["structgen"] = choice.details
        return shown

    def _call(self, call: PartialCall) -> dict[str, Any]:
        tools = self.request.tools
        return shown_call(call, is_custom=tools is not None and tools.is_custom(call.name))

    def shown_logprobs(self, scored: list[dict[str, Any]]) -> dict[str, Any]:
        """Return log probabilities in the form of the endpoint."""
        if self.is_chat:
            return {"content": scored, "refusal": None}
        return _legacy(scored, has_top=self.request.top_logprobs > 0)

    def chunk(
        self, index: int, delta: dict[str, Any] | str, reason: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return one chunk of a choice.

        Args:
            index: The index of the choice.
            delta: A text for completions, an object for chats.
            reason: The finish reason, in the last chunk.
            **more: Further fields; those that are None are left out.
        """
        shown: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": None}
        shown["delta" if self.is_chat else "text"] = delta
        shown.update({key: value for key, value in more.items() if value is not None})
        chunk = {**self.envelope(chunk=True), "choices": [shown]}
        if self.request.include_usage:
            chunk["usage"] = None
        return chunk

    def usage_chunk(self, usage: dict[str, int]) -> dict[str, Any]:
        """Return the chunk that reports token counts at the end of a stream; it has no choices."""
        return {**self.envelope(chunk=True), "choices": [], "usage": usage}


def usage_of(prompt: int, drawn: int) -> dict[str, int]:
    """Return the token counts of a request."""
    return {"prompt_tokens": prompt, "completion_tokens": drawn, "total_tokens": prompt + drawn}


def shown_call(call: PartialCall, *, is_custom: bool = False) -> dict[str, Any]:
    """Return a call with a new id; that of a custom tool has its input as a text."""
    if is_custom:
        custom = {"name": call.name, "input": InputReader().more(call.arguments)}
        return {"id": new_call_id(), "type": "custom", "custom": custom}
    return {
        "id": new_call_id(),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def new_call_id() -> str:
    """Return a random identifier of a tool call."""
    return f"call_{secrets.token_hex(12)}"


def failure(sequence: SequenceRow) -> ApiError | None:
    """Return the error of a finished row whose text is incomplete; None for a good one."""
    if (error := sequence.row.error) is not None:
        return failed(error)
    if sequence.finish in _REASONS:
        return None
    message = f"no token continues the text under its constraint: {sequence.text[-80:]!r}"
    return ApiError(422, message, code=str(sequence.finish))


def choice_of(request: CompletionRequest, sequence: SequenceRow, vocabulary: Any) -> Choice:
    """Return the choice of a finished row. `vocabulary` spells its tokens, for log probabilities."""
    row, finish = sequence.row, str(sequence.finish)
    choice = Choice(sequence.text, _REASONS[finish], cached_tokens=row.cached_tokens)
    if (reader := request.reader()) is not None:
        turn = whole_turn(reader, choice.text, is_cut_off=request.spec is None or finish != "complete")
        choice.text, choice.calls, choice.reasoning = turn.text, turn.calls, turn.reasoning
        choice.reasoning_tokens, choice.text_tokens = token_spans(turn, row.tokens, vocabulary)
        if turn.calls and finish == "complete":
            choice.reason = "tool_calls"
    if request.logprobs:
        choice.logprobs = [
            {
                **_scored(vocabulary, token, score),
                "top_logprobs": [_scored(vocabulary, *pair) for pair in top],
            }
            for token, score, top in zip(
                row.tokens, row.scores.token_logprobs, row.scores.top_logprobs, strict=True
            )
        ]
    if request.details:
        choice.details = {
            "finish": finish,
            "logprob": finite(row.logprob),
            "log_weight": finite(row.log_weight),
            "forced_tokens": row.forced_tokens,
            "seed": list(row.seed),
        }
    return choice


def token_spans(turn: PartialTurn, tokens: Sequence[int], vocabulary: Any) -> tuple[int, slice]:
    """Return the number of tokens of a turn's reasoning, and the slice of those of its text.

    A token belongs to the part in which it ends, so that a token that ends the reasoning and begins the text belongs to
    the text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends = list(accumulate(len(decoder.decode(vocabulary.spelled_bytes([token]))) for token in tokens))
    thought = 0
    if turn.reasoning is not None:
        thought = len(ends) if turn.reasoning_end is None else bisect_right(ends, turn.reasoning_end)
    if turn.text_start is None:
        return thought, slice(0, 0)
    start, end = turn.text_start, turn.text_start + len(turn.text)
    return thought, slice(bisect_right(ends, start), bisect_left(ends, end) + 1)


def _scored(vocabulary: Any, token: int, score: float | None) -> dict[str, Any]:
    data = vocabulary.token_bytes(token)
    if data is None:  # a special token, which has no text
        name = next((text for text, number in vocabulary.specials.items() if number == token), "")
        return {"token": name, "logprob": _bounded(score), "bytes": None}
    return {"token": data.decode("utf-8", "replace"), "logprob": _bounded(score), "bytes": list(data)}


def _bounded(score: float | None) -> float:
    return _LEAST_LOGPROB if score is None else max(score, _LEAST_LOGPROB)


def _legacy(scored: list[dict[str, Any]], *, has_top: bool) -> dict[str, Any]:
    offsets, index = [], 0
    for position in scored:
        offsets.append(index)
        index += len(position["token"])
    top = [
        {each["token"]: each["logprob"] for each in reversed(position["top_logprobs"])} for position in scored
    ]
    return {
        "tokens": [position["token"] for position in scored],
        "token_logprobs": [position["logprob"] for position in scored],
        "top_logprobs": top if has_top else None,
        "text_offset": offsets,
    }


def finite(value: float | None) -> float | None:
    """Return a number that JSON can write; None for a probability of 0."""
    return float(value) if value is not None and math.isfinite(value) else None


def unreadable_turn(error: OutputInvalid) -> ApiError:
    """Return the error for an answer that cannot be read as a turn of its tool format."""
    cause = "the answer cannot be read as a turn of its tool format"
    return ApiError(500, str(error), code="internal_error", log_message=cause)


def whole_turn(reader: PartialTurn, text: str, *, is_cut_off: bool = False) -> PartialTurn:
    """Return the reader after it has read a finished text. Raises `ApiError` if the text is not a turn."""
    try:
        reader.feed(text, ends=True)
    except OutputInvalid as error:
        raise unreadable_turn(error) from None
    if not (reader.is_whole or is_cut_off):
        raise ApiError(
            500,
            f"the turn has no end: {text[-80:]!r}",
            code="internal_error",
            log_message="the turn has no end",
        )
    return reader
