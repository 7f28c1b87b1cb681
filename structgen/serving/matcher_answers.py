"""The answers of a matcher process: what each query may return, and how many bytes that takes.

Why: hostile input may take over the process that runs it. The serving process reads each answer as the type that its
query returns, and as nothing else.
Invariant: a reader returns a value that fits the query and the vocabulary, or raises `Garbled`.
Cost: one pass over the tokens of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .wire import Garbled, pack

__all__ = ["STARTED", "AnswerReader", "MatcherView", "answer_reader"]

_SMALL = 64 << 10
"""Bytes of an answer without its mask: its numbers and forced tokens, or an error."""
_LARGE = 16 << 20
"""Bytes of an answer with a completion, or with an error that shows a whole pattern."""


@dataclass(frozen=True)
class MatcherView:
    """What generation needs from a matcher after one prefix."""

    mask: bytes
    """int32 words, least significant bit first."""
    allowed: int
    """Number of allowed tokens."""
    is_complete: bool
    must_stop: bool
    forced: tuple[int, ...]
    """The run of tokens that are the only choice, from here on."""
    temperature: float | None = None
    """The temperature that the constraint sets for the next token; None if it sets none."""

    def pack(self) -> bytes:
        """Return the view as a message."""
        content = [self.allowed, self.is_complete, self.must_stop, self.forced, self.temperature]
        return pack("view", content, self.mask)

    @classmethod
    def unpacked(cls, content: Any, mask: bytes, size: int) -> MatcherView:
        """Read a message, and clear the padding bits of the mask.

        Args:
            content: The JSON content of the message.
            mask: The tail of the message.
            size: Number of tokens of the vocabulary.

        Raises:
            Garbled: The message is not a view.
        """
        words = (size + 31) // 32
        if not isinstance(content, list) or len(content) != 5 or len(mask) != 4 * words:
            raise Garbled("not a view")
        allowed, is_complete, must_stop, forced, temperature = content
        if type(is_complete) is not bool or type(must_stop) is not bool:
            raise Garbled("not the fields of a view")
        if _count(allowed) > size:
            raise Garbled("a view allows more tokens than there are")
        if temperature is not None and not (
            type(temperature) in (int, float) and 0 <= temperature < math.inf
        ):
            raise Garbled("not a temperature")
        kept = _without_padding(mask, size)
        return cls(kept, allowed, is_complete, must_stop, _tokens(forced, size), temperature)


@dataclass(frozen=True)
class AnswerReader:
    """Reads the answer to one query."""

    max_bytes: int
    """Upper bound of the answer's frame, in bytes; a longer one is not read."""
    read: Callable[[str, Any, bytes], Any]
    """Returns the value of a message from its kind, content and tail. Raises `Garbled`."""


def answer_reader(name: str, arguments: tuple[Any, ...], size: int) -> AnswerReader:
    """Return the reader for a query of a matcher, for a vocabulary of `size` tokens."""
    match name:
        case "view":
            return AnswerReader(
                size // 8 + _SMALL,
                _of_kind("view", lambda content, tail: MatcherView.unpacked(content, tail, size)),
            )
        case "forced_bytes":
            (most,) = arguments
            return AnswerReader(
                most + _SMALL, _of_kind("bytes", lambda content, tail: _bytes(content, tail, most))
            )
        case "least_tokens":
            return AnswerReader(_SMALL, _of_kind("value", _plain(_count)))
        case "search_failure":
            return AnswerReader(_SMALL, _of_kind("value", _plain(_reason)))
        case "witness_tokens":
            return AnswerReader(_LARGE, _of_kind("value", _plain(lambda got: list(_tokens(got, size)))))
    raise ValueError(f"a matcher process has no query {name!r}")


def _of_kind(kind: str, read: Callable[[Any, bytes], Any]) -> Callable[[str, Any, bytes], Any]:
    def checked(found: str, content: Any, tail: bytes) -> Any:
        if found != kind:
            raise Garbled(f"a message of the kind {found!r:.40}, not {kind!r}")
        return read(content, tail)

    return checked


def _plain(read: Callable[[Any], Any]) -> Callable[[Any, bytes], Any]:
    """Return a reader of content that may be null, and has no tail."""

    def checked(content: Any, tail: bytes) -> Any:
        if tail:
            raise Garbled("a value with a tail")
        return None if content is None else read(content)

    return checked


def _bytes(content: Any, tail: bytes, most: int) -> bytes:
    if content is not None or len(tail) > most:
        raise Garbled("not the bytes of a text")
    return tail


def _nothing(content: Any, tail: bytes) -> None:
    if content is not None or tail:
        raise Garbled("more than the message that the matcher process is ready")


STARTED = AnswerReader(_LARGE, _of_kind("ready", _nothing))
"""Reads the message that the automaton is built."""


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Garbled("not a count")
    return value


def _reason(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Garbled("not a reason")
    return value


def _tokens(tokens: Any, size: int) -> tuple[int, ...]:
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token < size for token in tokens):
        raise Garbled("not tokens")
    return tuple(tokens)


def _without_padding(mask: bytes, size: int) -> bytes:
    if size % 32 == 0:
        return mask
    words = np.frombuffer(mask, dtype=np.uint32).copy()
    words[-1] &= np.uint32((1 << size % 32) - 1)
    return words.tobytes()
