"""One request's constraint as serving engines drive it: accept, validate, roll back, fill a row, with stop tokens.

Why: vLLM and SGLang need the same operations under different names. Both add stop tokens of a request, which end its
text although the vocabulary does not list them as such.
Invariant: an end of text is allowed if and only if the text is complete. After an end, further tokens are ignored, and
the row allows everything. If the core meets a limit, or no token is allowed, the sequence has *failed*: its row allows
everything, since an engine cannot sample from an empty mask, and the next token is refused. The engine then ends this
request, and only this one, with an error.
Cost: that of the matcher, and at most `CALL_SECONDS` of CPU time per call.
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
"""Limit on the CPU time of one call of the core; a sequence that needs more has failed."""


class ConstrainedSequence:
    """A matcher with the stop tokens of a request."""

    __slots__ = ("_ended", "_ends", "_more", "failure", "matcher")

    matcher: Matcher
    failure: str | None
    """Why the request cannot continue; None if it can."""

    def __init__(self, matcher: Matcher, stop_ids: Iterable[int] = ()) -> None:
        self.matcher = matcher
        size, known = matcher.vocabulary.size, matcher.vocabulary.eos_ids
        self._more = tuple(sorted(i for i in set(stop_ids) - set(known) if 0 <= i < size))
        self._ends = frozenset((*known, *self._more))
        self._ended = False
        self.failure = None

    @property
    def is_ended(self) -> bool:
        """Whether an end of text has been read."""
        return self._ended

    @property
    def is_plain(self) -> bool:
        """Whether its row is exactly the matcher's mask."""
        return not self._more and not self._ended and self.failure is None

    def advance(self, token: int) -> bool:
        """Append a token. Return False, and change nothing, if it is not allowed. After the end, tokens are ignored."""
        if self._ended:
            return True
        if self.failure is not None:
            return False
        try:
            with _bounded():
                if token in self._ends:
                    # subtle: the matcher accepts only its vocabulary's ends, not stop tokens of the request.
                    self._ended = self.matcher.is_complete()
                    return self._ended
                return self.matcher.advance(token)
        except LimitExceeded as error:
            self.failure = error.message
            return False

    def accepted(self, tokens: Sequence[int]) -> int:
        """Return how many of these tokens can follow, in order, including an end of text. Changes nothing."""
        if self._ended or self.failure is not None:
            return 0
        end = next((i for i, token in enumerate(tokens) if token in self._ends), len(tokens))
        try:
            with _bounded():
                count = self.matcher.accepts(list(tokens[:end]))
                if count < end or end == len(tokens):
                    return count
                return end + self._completes(tokens[:end])
        except LimitExceeded:
            return 0

    def _completes(self, tokens: Sequence[int]) -> bool:
        """Return whether the text would be complete after these tokens, which are known to be allowed."""
        ahead = self.matcher.fork()
        return all(ahead.advance(token) for token in tokens) and ahead.is_complete()

    def rollback(self, count: int) -> None:
        """Remove the last `count` tokens, including an end of text."""
        if count <= 0:
            return
        if self._ended:
            self._ended = False
            count -= 1
        self.matcher.rollback(min(count, len(self.matcher.tokens)))
        self.failure = None

    def reset(self) -> None:
        """Go back to the empty text."""
        self.matcher.reset()
        self._ended, self.failure = False, None

    def fork(self) -> ConstrainedSequence:
        """Return an independent sequence in the same state."""
        made = object.__new__(type(self))
        made.matcher = self.matcher.fork()
        made._more, made._ends, made._ended, made.failure = self._more, self._ends, self._ended, self.failure
        return made

    def fill(self, out: NDArray[np.int32], row: int) -> None:
        """Write the mask into one row. After the end, it is all ones.

        Args:
            out: int32 ``[rows, words]``.
            row: The row to write.
        """
        if self._ended or self.failure is not None:
            out[row] = -1
            return
        try:
            with _bounded():
                self.matcher.native.fill(out, row)
        except Exception as error:  # noqa: BLE001 — the engine must survive a fault as it does a LimitError
            self._fail(str(error), out, row)
            return
        self.finish_row(out, row)

    def finish_row(self, out: NDArray[np.int32], row: int) -> None:
        """Add the request's own stop tokens to a row that the matcher filled, and fail if the row is empty."""
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
    """Write the mask of sequence i into row i, in one call of the core that releases the GIL.

    Sequences of one engine are filled one after the other, those of different engines in parallel.

    Args:
        sequences: One per row.
        out: int32 ``[rows, words]``.
        threads: How many engines to use in parallel.
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
        # A row that failed is empty; filling it again finds the reason.
        for row, sequence in enumerate(sequences):
            if not out[row].any():
                sequence.fill(out, row)
        return
    full = np.asarray(out[: len(sequences)].any(axis=1))
    for empty in map(int, np.flatnonzero(~full)):
        sequences[empty].finish_row(out, empty)
