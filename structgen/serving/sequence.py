"""One request's constraint as serving engines drive it: accept, validate, roll back, fill a row, with stop tokens.

Why: vLLM and SGLang need the same operations under different names. Both add stop tokens of a request, which end its
text although the vocabulary does not list them as such.
Invariant: an end of text is allowed if and only if the text is complete. After an end, further tokens are ignored, and
the row allows everything; `rollback` counts them like others. If the core meets a limit, or no token is allowed, the
sequence has *failed*: its row allows everything, since an engine cannot sample from an empty mask, and the next token
is refused. The engine then ends this request, and only this one, with an error.
Cost: that of the matcher, and at most `CALL_SECONDS` of CPU time per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from structgen import _core
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher

from .closing import Closing, NotClosable

__all__ = ["CALL_SECONDS", "ConstrainedSequence", "after_drafts", "fill_rows"]

CALL_SECONDS = 1.0
"""Limit on the CPU time of one call of the core; a sequence that needs more has failed."""


class ConstrainedSequence:
    """A matcher with the stop tokens of a request."""

    __slots__ = ("_ended", "_ends", "_ignored", "_more", "closing", "failure", "matcher")

    matcher: Matcher
    failure: str | None
    """Why the request cannot continue; None if it can."""
    closing: Closing | None
    """The budget within which its text must be complete; None if it may be cut off."""

    def __init__(self, matcher: Matcher, stop_ids: Iterable[int] = ()) -> None:
        self.matcher = matcher
        size, known = matcher.vocabulary.size, matcher.vocabulary.eos_ids
        self._more = tuple(sorted(i for i in set(stop_ids) - set(known) if 0 <= i < size))
        self._ends = frozenset((*known, *self._more))
        self._ended = False
        self._ignored = 0
        """The number of tokens after the end."""
        self.failure = None
        self.closing = None

    @property
    def is_ended(self) -> bool:
        """Whether an end of text has been read."""
        return self._ended

    @property
    def is_open(self) -> bool:
        """Whether it has neither ended nor failed, so that its row is not all ones."""
        return not self._ended and self.failure is None

    @property
    def changes_rows(self) -> bool:
        """Whether its row is not exactly the matcher's mask: the request has stop tokens of its own, or a budget."""
        return bool(self._more) or self.closing is not None

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end its text: those of the vocabulary and those of the request."""
        return self._ends

    def advance(self, token: int) -> bool:
        """Append a token. Return False, and change nothing, if it is not allowed. After the end, tokens are ignored."""
        if self._ended:
            self._ignored += 1
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
        """Remove the last `count` tokens, including an end of text and tokens after it."""
        if count <= 0:
            return
        ignored = min(count, self._ignored)
        self._ignored -= ignored
        count -= ignored
        if count and self._ended:
            self._ended = False
            count -= 1
        self.matcher.rollback(min(count, len(self.matcher.tokens)))
        self.failure = None

    def reset(self) -> None:
        """Go back to the empty text."""
        self.matcher.reset()
        self._ended, self._ignored, self.failure = False, 0, None

    def fork(self) -> ConstrainedSequence:
        """Return an independent sequence in the same state."""
        made = object.__new__(type(self))
        made.matcher = self.matcher.fork()
        made._more, made._ends = self._more, self._ends
        made._ended, made._ignored, made.failure = self._ended, self._ignored, self.failure
        made.closing = None if self.closing is None else self.closing.fork()
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
        """Finish a row that the matcher filled: with the request's stop tokens, and within its budget.

        It fails if the row is empty, or if the text cannot be completed within the budget.
        """
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
        elif self.closing is not None:
            try:
                with _bounded():
                    self.closing.restrict(line[: self.matcher.vocabulary.words], self.matcher, self._ends)
            except (NotClosable, _core.LimitError, LimitExceeded) as error:
                self._fail(str(error), out, row)

    def _fail(self, why: str, out: NDArray[np.int32], row: int) -> None:
        self.failure = why
        out[row] = -1


def _bounded() -> _core.CallLimits:
    return _core.CallLimits(cpu_seconds=CALL_SECONDS)


def after_drafts(sequence: ConstrainedSequence, drafts: Sequence[int]) -> list[ConstrainedSequence]:
    """Return the sequence and a fork of it after each draft token, up to the first one that cannot follow.

    Why: an engine needs a row for each of these positions, and they can be filled in one call. The sequence itself is
    not advanced, so nothing has to be rolled back.
    """
    found = [sequence]
    for token in drafts:
        if not found[-1].is_open:
            break
        ahead = found[-1].fork()
        if not ahead.advance(token):
            break
        found.append(ahead)
    return found


def fill_rows(
    sequences: Sequence[ConstrainedSequence | None], out: NDArray[np.int32], threads: int = 1
) -> None:
    """Write the mask of sequence i into row i, in one call of the core that releases the GIL.

    Sequences of one engine are filled one after the other, those of different engines in parallel.

    Args:
        sequences: One per row; a row without one allows everything. No sequence occurs twice.
        out: int32 ``[rows, words]``.
        threads: How many engines to use in parallel.
    """
    found = [(row, one) for row, one in enumerate(sequences) if one is not None and one.is_open]
    rows, filled = [row for row, _ in found], [one for _, one in found]
    if len(rows) == len(sequences):
        _fill_open(filled, out, threads)
        return
    out[: len(sequences)] = -1
    if rows:
        masks = out[rows]  # a copy: the core fills neighbouring rows
        _fill_open(filled, masks, threads)
        out[rows] = masks


def _fill_open(filled: Sequence[ConstrainedSequence], out: NDArray[np.int32], threads: int) -> None:
    try:
        with _bounded():
            _core.fill_masks([one.matcher.native for one in filled], out, threads)
    except _core.LimitError:
        # A row that failed is empty; filling it again finds the reason.
        for row, one in enumerate(filled):
            if not out[row].any():
                one.fill(out, row)
            elif one.changes_rows:
                one.finish_row(out, row)
        return
    has_any = np.asarray(out[: len(filled)].any(axis=1))
    for row, one in enumerate(filled):
        if one.changes_rows or not has_any[row]:
            one.finish_row(out, row)
