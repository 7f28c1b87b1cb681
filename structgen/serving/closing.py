"""Rows under a token budget: a token is allowed only if the text can still be completed after it.

Why: an answer that is cut off at `max_tokens` is worth nothing to a client that parses it. An engine draws from a row
and cannot draw again, so the row itself must leave out what would not fit (`generation.token_budget` draws again).
What: the completion of the text so far is known, and its next token is always allowed. Another token is allowed if the
completion after it fits, too. Where few tokens are allowed, each is tried. Where many are (inside a string), they are
tried only if the budget is near, and what they add to the completion is kept for all states with the same mask.
Invariant: a row is never empty, and its first completion fits, if that of the first row does.
Limits: the kept numbers may be too small where a completion's tokens join in another way; one token more is reserved
for it. Far from the budget, a token among many may need more than `RESERVE` tokens at once. In both cases the sequence
fails with an error when no completion fits: an answer is complete, or an error, and never cut off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from structgen.matcher import Matcher

__all__ = ["RESERVE", "Closing", "KeptNeeds", "NotClosable"]

RESERVE = 256
"""The tokens between a completion and the budget below which all tokens of a row are tried."""
_FEW = 1_024
"""Rows of at most so many tokens are tried each time."""
_MOST_KEPT = 64
"""Masks whose numbers are kept."""
KeptNeeds = OrderedDict[int, tuple[NDArray[np.int32], NDArray[np.int32]]]
"""By the address of a mask: the mask, and how many more tokens the completion takes after each of its tokens."""
_NONE = 1 << 20
"""Stands for a token after which no completion was found."""


class NotClosable(Exception):
    """No completion fits; the text says why."""


@dataclass(eq=False)
class Closing:
    """The budget of one text."""

    limit: Callable[[], int]
    """Returns the largest number of tokens of the whole text, its end included."""
    kept: KeptNeeds = field(default_factory=OrderedDict)
    """What is known of masks; requests with one compiled constraint may share it."""
    _held: tuple[int, tuple[int, ...]] | None = None
    """A completion, and the number of tokens before it."""

    def fork(self) -> Closing:
        """Return the budget of a fork. What is known of masks is shared."""
        return replace(self)

    def restrict(self, row: NDArray[np.int32], matcher: Matcher, ends: Iterable[int]) -> None:
        """Remove the tokens from a row after which the text cannot be completed.

        Args:
            row: The mask, int32 ``[words]``.
            matcher: The text so far; unchanged afterwards.
            ends: Tokens that end the text. They always fit.

        Raises:
            NotClosable: The text so far cannot be completed.
        """
        tokens = matcher.tokens
        left = self.limit() - len(tokens)
        forbidden = frozenset(ends)
        completion = self._completion(matcher, tokens, forbidden)
        if completion is None:
            raise NotClosable("no completion of the text was found")
        if len(completion) + 1 > left:
            raise NotClosable(
                f"the text cannot be completed within max_tokens: {len(completion) + 1} tokens are needed, and "
                f"{left} left"
            )
        self._held = len(tokens), completion
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        ended = bits[list(ends)]
        bits[list(ends)] = 0
        allowed = np.flatnonzero(bits)
        if len(allowed) > _FEW and left - len(completion) > RESERVE:
            return
        # Of the tokens left, one is this token, and one is the end.
        fits = allowed[self._needed(matcher, allowed, len(completion), forbidden) <= left - 2]
        bits[:] = 0
        bits[fits] = 1
        if completion:
            bits[completion[0]] = 1
        bits[list(ends)] = ended
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def _completion(
        self, matcher: Matcher, tokens: list[int], ends: frozenset[int]
    ) -> tuple[int, ...] | None:
        """Return the shorter one of the rest of the held completion and a new one."""
        found = _short_completion(matcher, ends)
        best = None if found is None else tuple(found)
        if self._held is not None:
            start, held = self._held
            count = len(tokens) - start
            if 0 <= count <= len(held) and tuple(tokens[start:]) == held[:count]:
                rest = held[count:]
                best = rest if best is None or len(rest) < len(best) else best
        return best

    def _needed(
        self, matcher: Matcher, allowed: NDArray[np.int64], now: int, ends: frozenset[int]
    ) -> NDArray[np.int64]:
        """Return the number of tokens of a completion after each of the tokens."""
        if len(allowed) <= _FEW:
            return _tried(matcher, allowed, ends)
        mask = matcher.mask()
        key = mask.__array_interface__["data"][0]
        if key not in self.kept:
            more = np.full(32 * len(mask), _NONE, np.int32)
            more[allowed] = _tried(matcher, allowed, ends) - now
            # subtle: the mask is kept, so no other one gets its address.
            self.kept[key] = mask, more
            if len(self.kept) > _MOST_KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(key)
        # Also one more the first time: a row must not depend on earlier requests.
        needed: NDArray[np.int64] = self.kept[key][1][allowed].astype(np.int64) + now + 1
        return needed


def _tried(matcher: Matcher, allowed: NDArray[np.int64], ends: frozenset[int]) -> NDArray[np.int64]:
    """Return the number of tokens of a short completion after each of the tokens."""
    needed = np.full(len(allowed), _NONE, np.int64)
    native = matcher.native
    for at, token in enumerate(allowed.tolist()):
        if native.advance(token):
            completion = _short_completion(matcher, ends)
            native.rollback(1)
            if completion is not None:
                needed[at] = len(completion)
    return needed


def _short_completion(matcher: Matcher, ends: frozenset[int]) -> list[int] | None:
    """Return the tokens of a short completion; None if none was found, or if it contains a token that ends the text.

    That of the shortest text takes a microsecond. The one of the fewest tokens may take a thousand times as long, and
    is searched for only if the text contains special tokens.
    """
    text = matcher.native.witness()
    tokens = None if text is None else matcher.vocabulary.native.fewest_tokens(text)
    if tokens is None:
        tokens = matcher.native.witness_tokens()
    return None if tokens is None or not ends.isdisjoint(tokens) else tokens
