"""One request's constraint as engines drive it: accept, validate, roll back, fill a row, with their stop tokens.

Why: vLLM and SGLang ask for the same moves in other words, and both bring stop tokens of a request, which are ends of
text for it though the vocabulary does not know them.
Invariant: an end of text is allowed if and only if the text is complete. After an end nothing more is read, and the row
is left to the engine. Where the core meets a limit, or no token is left, the sequence has *failed*: its row allows
everything, since an engine cannot draw from nothing, and the next token is refused, so that the engine ends this
request, and only this one, with an error.
Cost: that of the matcher, and at most `CALL_SECONDS` of CPU time for each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher

__all__ = ["CALL_SECONDS", "ConstrainedSequence", "fill_rows"]

CALL_SECONDS = 1.0
"""CPU time of one call of the core; a sequence that needs more has failed."""


class ConstrainedSequence:
    """A matcher with the stop tokens of a request."""

    __slots__ = ("_ended", "_ends", "_more", "failure", "matcher")

    matcher: Matcher
    failure: str | None
    """Why the request cannot go on; None: it can."""

    def __init__(self, matcher: Matcher, stop_ids: Iterable[int] = ()) -> None:
        self.matcher = matcher
        size, known = matcher.vocabulary.size, matcher.vocabulary.eos_ids
        self._more = tuple(sorted(i for i in set(stop_ids) - set(known) if 0 <= i < size))
        self._ends = frozenset((*known, *self._more))
        self._ended = False
        self.failure = None

    @property
    def is_ended(self) -> bool:
        """Has an end of text been read?"""
        return self._ended

    @property
    def is_plain(self) -> bool:
        """Its row is what the matcher fills, and no more."""
        return not self._more and not self._ended and self.failure is None

    def advance(self, token: int) -> bool:
        """Read a token; False, and nothing changed, if it is not allowed. After the end it is not looked at."""
        if self._ended:
            return True
        if self.failure is not None:
            return False
        try:
            with _bounded():
                if token in self._ends:
                    # subtle: the matcher reads its own ends only, to which a stop token of the request does not belong.
                    self._ended = self.matcher.is_complete()
                    return self._ended
                return self.matcher.advance(token)
        except LimitExceeded as error:
            self.failure = error.message
            return False

    def accepted(self, tokens: Sequence[int]) -> int:
        """How many of these tokens can follow, in order, the end of text included. Does not advance."""
        if self._ended or self.failure is not None:
            return 0
        place = next((i for i, token in enumerate(tokens) if token in self._ends), len(tokens))
        try:
            with _bounded():
                count = self.matcher.accepts(list(tokens[:place]))
                if count < place or place == len(tokens):
                    return count
                return place + self._completes(tokens[:place])
        except LimitExceeded:
            return 0

    def _completes(self, tokens: Sequence[int]) -> bool:
        """Would the text be complete after these tokens, which can follow?"""
        ahead = self.matcher.fork()
        return all(ahead.advance(token) for token in tokens) and ahead.is_complete()

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens that were read, the end of text included."""
        if count <= 0:
            return
        if self._ended:
            self._ended = False
            count -= 1
        self.matcher.rollback(min(count, len(self.matcher.tokens)))
        self.failure = None

    def reset(self) -> None:
        self.matcher.reset()
        self._ended, self.failure = False, None

    def fork(self) -> ConstrainedSequence:
        """An independent one in the same state."""
        made = object.__new__(type(self))
        made.matcher = self.matcher.fork()
        made._more, made._ends, made._ended, made.failure = self._more, self._ends, self._ended, self.failure
        return made

    def fill(self, out: NDArray[np.int32], row: int) -> None:
        """Write the mask into row `row` of `out`, int32 ``[rows, words]``; all ones after the end."""
        if self._ended or self.failure is not None:
            out[row] = -1
            return
        try:
            with _bounded():
                self.matcher.native.fill(out, row)
        except Exception as error:  # LimitError; whatever it is, the engine must live
            self._fail(str(error), out, row)
            return
        self.finish_row(out, row)

    def finish_row(self, out: NDArray[np.int32], row: int) -> None:
        """After the matcher filled the row: the request's own stop tokens, and what an empty row means."""
        line = out[row]
        if self._more:
            try:
                with _bounded():
                    complete = self.matcher.is_complete()
            except LimitExceeded as error:
                self._fail(error.message, out, row)
                return
            for token in self._more:
                # subtle: NumPy's int32 has no unsigned bit 31, so it is set in a view.
                word = line.view(np.uint32)[token >> 5 : (token >> 5) + 1]
                bit = np.uint32(1 << (token & 31))
                word[0] = word[0] | bit if complete else word[0] & ~bit
        if not line.any():
            self._fail("no token continues the text", out, row)

    def _fail(self, why: str, out: NDArray[np.int32], row: int) -> None:
        self.failure = why
        out[row] = -1


def _bounded() -> _core.CallLimits:
    return _core.CallLimits(cpu_seconds=CALL_SECONDS)


def fill_rows(sequences: Sequence[ConstrainedSequence], out: NDArray[np.int32], threads: int = 1) -> None:
    """Fill row i with the mask of sequence i, in one call of the core, without the GIL.

    Those of one engine take turns; those with an engine of their own are filled at the same time.
    """
    plain = all(sequence.is_plain for sequence in sequences)
    if not plain:
        for row, sequence in enumerate(sequences):
            sequence.fill(out, row)
        return
    try:
        with _bounded():
            _core.fill_masks([sequence.matcher.native for sequence in sequences], out, threads)
    except _core.LimitError:
        # A row that failed is empty; filling it again tells why.
        for row, sequence in enumerate(sequences):
            if not out[row].any():
                sequence.fill(out, row)
        return
    full = np.asarray(out[: len(sequences)].any(axis=1))
    for empty in map(int, np.flatnonzero(~full)):
        sequences[empty].finish_row(out, empty)
