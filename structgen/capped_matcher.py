"""A matcher of reasoning with a limit in tokens, which counts the tokens that hold reasoning.

Why: servers and models state budgets in tokens. No automaton over texts can do that, since a text has many
tokenizations. So the count is kept in addition to the automaton's state.
What: a token counts if one of its bytes lies between the markers. Far from the limit, the mask is that of the
automaton. Near it, a token is allowed only if the closing marker can still be written in time: a token that ends inside
a character reserves one token for each missing byte, and once the limit is reached only the marker's own tokens remain.
Invariant: at most `max_tokens` tokens hold reasoning, and ``mask()`` allows a token iff ``advance`` accepts it. The
mask is never empty before the end, if the vocabulary has a token for each byte.
Cost: a few comparisons per token; the first mask near a limit reads the vocabulary once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.constraints.base import constraint_of
from structgen.constraints.composition import CappedReasoning
from structgen.errors import EmptyConstraint
from structgen.matcher import Matcher, accepted_by_steps
from structgen.vocabulary import Vocabulary

__all__ = ["CappedMatcher"]

_BEFORE, _INSIDE, _AFTER = range(3)
_LONGEST_REST = 3
"""The largest number of bytes that a UTF-8 character may lack after its first byte."""


class _Frame(NamedTuple):
    """The state after a token. It is a function of the tokens, so forks share it."""

    previous: _Frame | None
    phase: int
    """Before, inside or after the reasoning."""
    used: int = 0
    """Tokens with a byte after the opening marker."""
    length: int = 0
    """Bytes of reasoning so far; before the reasoning, bytes of the opening marker so far."""
    limit: int | None = None
    """The start, in bytes of reasoning, of the first token over the limit: the closing marker starts by then."""
    tail: bytes = b""
    """The last bytes of reasoning that may belong to the marker or to an incomplete character."""


@dataclass(frozen=True)
class _Marker:
    """The closing marker in the tokens of a vocabulary."""

    text: bytes
    token: int | None
    """Its special token; None if it is text."""
    candidates: NDArray[np.int64]
    """Tokens that continue the marker from some byte of it."""
    live: tuple[bool, ...]
    """For each number of bytes of the marker, whether tokens spell exactly the rest."""
    ends: NDArray[np.int8]
    """For each token the number of bytes that its last character lacks; -1 if it only continues a character."""

    def borders(self, tail: bytes) -> Iterator[int]:
        """Yield the numbers of bytes of the marker that `tail` may end with, zero included."""
        for size in range(min(len(tail), len(self.text) - 1), -1, -1):
            if self.live[size] and tail.endswith(self.text[:size]):
                yield size


class CappedMatcher(Matcher):
    """The matcher of `structgen.reasoning` with `max_tokens`; `Matcher` makes it."""

    __slots__ = ("_frame", "_marker", "_masks", "_open", "_open_token", "most")

    most: int

    def __init__(self, constraint: object, vocabulary: Vocabulary) -> None:
        constraint = constraint_of(constraint)
        assert isinstance(constraint, CappedReasoning)
        super().__init__(constraint.reasoning, vocabulary)
        self.constraint = constraint
        self.most = constraint.max_tokens
        self._open = constraint.reasoning.open.encode()
        self._open_token = vocabulary.specials.get(constraint.reasoning.open)
        self._marker = _marker_of(constraint.reasoning.close, vocabulary)
        self._frame = _Frame(None, _BEFORE if self._open else _INSIDE)
        self._masks: tuple[_Frame, NDArray[np.int32]] | None = None
        if not self._marker.live[0]:
            raise EmptyConstraint(
                f"no tokens of this vocabulary spell the closing marker {constraint.reasoning.close!r} alone",
                hint="Give another close=, or leave out max_tokens and bound the reasoning with max_chars.",
            )

    @property
    def mask_is_native(self) -> bool:
        """Always False: the automaton does not know the limit."""
        return False

    # -- the count

    def _after(self, frame: _Frame, token: int) -> tuple[_Frame, bool]:
        """Return the frame after a token that the automaton allows, and whether the limit allows it."""
        data = self.vocabulary.token_bytes(token) or b""
        if frame.phase == _BEFORE:
            if token == self._open_token:
                return _Frame(frame, _INSIDE), True
            if self._open_token is None and self._open[frame.length :].startswith(data):
                length = frame.length + len(data)
                return _Frame(
                    frame, _INSIDE if length == len(self._open) else _BEFORE, 0, length % len(self._open)
                ), True
            rest = self._open[frame.length :]
            if self._open_token is not None or not data.startswith(rest):
                return _Frame(frame, _AFTER), True  # an answer without reasoning
            return self._inside(_Frame(frame, _INSIDE), frame, token, data[len(rest) :])
        if frame.phase == _INSIDE:
            return self._inside(frame, frame, token, data)
        return _Frame(frame, _AFTER), True

    def _inside(self, frame: _Frame, previous: _Frame, token: int, data: bytes) -> tuple[_Frame, bool]:
        marker, start, count = self._marker, frame.length, frame.used + 1
        if token == marker.token:
            return _Frame(previous, _AFTER), True
        limit = start if count == self.most + 1 else frame.limit
        known = frame.tail + data
        if marker.token is None and (offset := known.find(marker.text)) >= 0:
            return _Frame(previous, _AFTER), limit is None or start - len(frame.tail) + offset <= limit
        length = start + len(data)
        kept = max(len(marker.text) - 1, _LONGEST_REST)
        after = _Frame(previous, _INSIDE, count, length, limit, known[-kept:])
        if limit is None:
            lacking = _lacking(after.tail)
            if lacking == 0 or count + lacking <= self.most:
                return after, True
            return after, marker.token is None and any(size > 0 for size in marker.borders(after.tail))
        if marker.token is not None:
            return after, False
        return after, any(length - size <= limit for size in marker.borders(after.tail))

    @property
    def _is_near(self) -> bool:
        """Whether the limit may refuse what the automaton allows."""
        frame = self._frame
        return frame.phase != _AFTER and frame.used + 1 + _LONGEST_REST > self.most

    # -- masks

    def mask(self) -> NDArray[np.int32]:
        """Return the tokens that the automaton and the limit allow, int32 ``[vocabulary.words]``; read-only."""
        words = super().mask()
        if not self._is_near or self.is_finished:
            return words
        if self._masks is None or self._masks[0] is not self._frame:
            kept = self._kept(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")))
            bits = np.zeros(len(words) * 32, dtype=np.uint8)
            bits[kept] = 1
            mask: NDArray[np.int32] = np.packbits(bits, bitorder="little").view(np.int32)
            mask.setflags(write=False)
            self._masks = self._frame, mask
        return self._masks[1]

    def _kept(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the automaton's tokens that the limit allows."""
        frame, marker = self._frame, self._marker
        if frame.phase == _INSIDE and frame.used >= self.most:
            ids = (
                ids[ids == marker.token]
                if marker.token is not None
                else np.intersect1d(ids, marker.candidates)
            )
            sure = ids[:0]
        elif frame.phase == _INSIDE:
            lacking = marker.ends[ids]
            is_sure = (lacking == 0) | ((lacking > 0) & (frame.used + 1 + lacking <= self.most))
            sure, ids = ids[is_sure], ids[~is_sure]
        else:
            sure = ids[:0]
        doubtful = [token for token in ids.tolist() if self._after(frame, token)[1]]
        return np.concatenate([sure, np.array(doubtful, dtype=np.int64)])

    def fill(self, out: NDArray[np.int32], row: int = 0) -> None:
        """Write the mask into row `row` of `out`, int32 ``[rows, words]``."""
        super().fill(out, row)
        if self._is_near:
            out[row, : self.vocabulary.words] = self.mask()

    def allowed_count(self) -> int:
        """Return the number of tokens that the automaton and the limit allow."""
        return _count(self.mask()) if self._is_near else super().allowed_count()

    # -- advancing

    def advance(self, token_id: int) -> bool:
        """Append a token; return False, and change nothing, if the automaton or the limit refuses it."""
        if self.is_finished or not super().advance(token_id):
            return False
        after, fits = self._after(self._frame, token_id)
        if not fits:
            super().rollback(1)
            return False
        self._frame = after
        return True

    def accepts(self, token_ids: Sequence[int]) -> int:
        """Return how many of these tokens can follow, in order, without advancing."""
        return accepted_by_steps(self, token_ids)

    def rollback(self, n: int) -> None:
        """Remove the last `n` tokens, and restore the count of reasoning tokens."""
        super().rollback(n)
        for _ in range(n):
            assert self._frame.previous is not None
            self._frame = self._frame.previous

    def reset(self) -> None:
        """Return to the start of the text."""
        self.rollback(len(self._native.tokens))

    def fork(self) -> CappedMatcher:
        """Return an independent matcher in the same state, with the same count."""
        other = super().fork()
        assert isinstance(other, CappedMatcher)
        for name in CappedMatcher.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    # -- forced tokens and completions

    def forced(self, most: int = 256) -> list[int]:
        """Return the run of tokens that are the only choice, the limit included; at most `most` of them."""
        run = super().forced(most)
        if run or not self._is_near:
            return run
        try:
            while len(run) < most and self._is_near:
                words = self.mask()
                if _count(words) != 1:
                    break
                token = int(np.unpackbits(words.view(np.uint8), bitorder="little").argmax())
                if not self.advance(token):
                    break
                run.append(token)
        finally:
            self.rollback(len(run))
        return run

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        """Return a short completion that keeps the limit; None if none was found.

        If the automaton's own completion does not keep it, the reasoning is ended at once.
        """
        completion = super().witness(max_tokens)
        if completion is not None and self.accepts(completion) == len(completion):
            return completion
        if self._frame.phase != _INSIDE:
            return None
        # The automaton's completion may continue the reasoning; this one ends it at once.
        ended: list[int] = []
        try:
            while self._frame.phase == _INSIDE and len(ended) <= len(self._marker.text) + _LONGEST_REST:
                token = self._next_to_end()
                if token is None or not self.advance(token):
                    return None
                ended.append(token)
            room = None if max_tokens is None else max_tokens - len(ended)
            rest = super().witness(room) if room is None or room >= 0 else None
        finally:
            self.rollback(len(ended))
        return None if rest is None else [*ended, *rest]

    def _next_to_end(self) -> int | None:
        """Return a token towards the end of the reasoning: of the marker, or the shortest that ends a character."""
        frame, marker = self._frame, self._marker
        words = self.mask()
        ids = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        if marker.token is not None and marker.token in ids:
            return marker.token
        best: tuple[int, int] | None = None
        for token in (
            ids.tolist() if _lacking(frame.tail) else np.intersect1d(ids, marker.candidates).tolist()
        ):
            after, fits = self._after(frame, token)
            if not fits:
                continue
            if _lacking(frame.tail):
                rank = _lacking(after.tail) * 100 + len(self.vocabulary.token_bytes(token) or b"")
            elif after.phase == _AFTER:
                rank = -1
            else:
                rank = len(marker.text) - next(marker.borders(after.tail), 0)
            if best is None or rank < best[0]:
                best = rank, token
        return None if best is None else best[1]


_markers: weakref.WeakKeyDictionary[Vocabulary, dict[str, _Marker]] = weakref.WeakKeyDictionary()


def _marker_of(close: str, vocabulary: Vocabulary) -> _Marker:
    """Return the marker in the tokens of the vocabulary, from a cache that lives as long as the vocabulary."""
    kept = _markers.setdefault(vocabulary, {})
    if close not in kept:
        kept[close] = _read_marker(close.encode(), vocabulary.specials.get(close), vocabulary)
    return kept[close]


def _read_marker(text: bytes, special: int | None, vocabulary: Vocabulary) -> _Marker:
    rests = [text[start:] for start in range(len(text))]
    first = frozenset(text)
    spelled: set[bytes] = set()
    candidates: list[int] = []
    ends = np.zeros(vocabulary.words * 32, dtype=np.int8)
    for token in range(vocabulary.size):
        data = vocabulary.token_bytes(token)
        if not data:
            continue
        if data[-1] >= 0x80:
            ends[token] = _lacking(data) if any(byte & 0xC0 != 0x80 for byte in data[-4:]) else -1
        if data[0] in first and any(rest.startswith(data) or data.startswith(rest) for rest in rests):
            candidates.append(token)
            spelled.add(data)
    live = [False] * len(text) + [True]
    for start in range(len(text) - 1, -1, -1):
        live[start] = any(live[start + len(piece)] for piece in spelled if text.startswith(piece, start))
    if special is not None:
        live[0] = True
    return _Marker(text, special, np.array(candidates, dtype=np.int64), tuple(live), ends)


def _lacking(data: bytes) -> int:
    """Return how many bytes the last character lacks."""
    for back in range(1, min(len(data), 4) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return max(0, size - back)
    return 0


def _count(words: NDArray[np.int32]) -> int:
    return int(np.unpackbits(words.view(np.uint8)).sum(dtype=np.int64))
