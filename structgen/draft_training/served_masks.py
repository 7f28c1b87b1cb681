"""`ServedMasks`: the masks of a text's tokens, kept while it is drawn under a constraint.

Why: what a constraint forces needs no draft, and a drafter has to be right among the allowed tokens only. To compute
masks again afterwards would take the constraint, which a server may keep in another process, and time of its engine.
What: generation computes the mask of each token that it draws. Such a mask is cut to the tokens that may be drafted. A
token without a mask, such as a forced one, allows none, so that a training leaves it out.
Invariant: the mask of a token was computed from the tokens before it. Those of tokens that a row replaces are dropped.
Cost: for each token drawn about 0.03 ms, or 0.13 ms if the mask allows most of a vocabulary of 49,152 tokens; and a
comparison with the tokens before it, 0.01 ms for each thousand.
Memory: one bit for each token that may be drafted, once for all tokens of a text with equal masks. Masks of fewer than
``2 * longest`` tokens are kept, as many of replaced tokens, and the numbers of all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnswerMasks", "ServedMasks"]

_NONE = b""
"""Stands for a mask of a token that needs no draft: fewer than two tokens that may be drafted are allowed."""


@dataclass(frozen=True)
class AnswerMasks:
    """The masks of successive tokens of an answer, cut to the N tokens that may be drafted."""

    kinds: NDArray[np.uint8]
    """The different masks as bits, most significant bit first, ``[kinds, N / 8 rounded up]``. Each allows at least two
    tokens, or none if a token needs no draft."""
    places: NDArray[np.int32]
    """For each token the number of its mask, ``[tokens]``."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.kinds.nbytes + self.places.nbytes

    @property
    def has_choice(self) -> bool:
        """Whether some token was drawn with a choice between tokens that may be drafted."""
        return bool(np.any(self.kinds[self.places]))

    def since(self, first: int) -> AnswerMasks:
        """Return the masks without those of the first tokens."""
        return replace(self, places=self.places[first:].copy())

    def allowed(self, count: int) -> NDArray[np.bool_]:
        """Return the masks as an array, ``[tokens, count]``.

        Args:
            count: The number of tokens that may be drafted.
        """
        found: NDArray[np.bool_] = np.unpackbits(self.kinds, axis=1, count=count).astype(bool)[self.places]
        return found


class ServedMasks:
    """The masks of one text.

    Args:
        token_ids: The tokens that may be drafted.
        size: The number of tokens of the vocabulary.
        longest: The number of last tokens whose masks are kept; up to twice as many are.
    """

    def __init__(self, token_ids: NDArray[np.int64], size: int, longest: int) -> None:
        self._token_ids, self._size, self._longest = token_ids, size, longest
        self._tokens: list[int] = []
        """The tokens before the last mask."""
        self._first = 0
        """The number of the token that the first kept mask belongs to."""
        self._masks: list[bytes] = []
        self._known: dict[bytes, bytes] = {}
        """The different masks, so that equal ones share their memory."""

    def note(self, tokens: Sequence[int], allowed: NDArray[np.int64]) -> None:
        """Keep the mask of the token that is drawn next.

        Args:
            tokens: The tokens of the text before it, without the prompt. The row may have stepped back since the call
                before.
            allowed: The tokens that the mask allows.
        """
        self._cut(tokens)
        if not self._masks:
            self._first = len(tokens)
        place = len(tokens) - self._first
        del self._masks[place:]
        self._masks += [_NONE] * (place - len(self._masks))
        self._masks.append(self._packed(allowed))
        self._tokens.extend(tokens[len(self._tokens) :])
        if len(self._masks) >= 2 * self._longest:
            self._first += len(self._masks) - self._longest
            self._masks = self._masks[-self._longest :]
        if len(self._known) > 2 * self._longest:  # some are of tokens that were replaced, or long ago
            self._known = {mask: mask for mask in self._masks}

    def end(self, tokens: Sequence[int], first: int, end: int) -> AnswerMasks:
        """Return the masks of the tokens ``first`` to ``end`` of a text that has ended.

        Args:
            tokens: All its tokens, without the prompt. It may have stepped back since the last mask.
            first: The number of the first one.
            end: The number after the last one.
        """
        self._cut(tokens)
        last = self._first + len(self._masks)
        numbers: dict[bytes, int] = {}
        places = [
            numbers.setdefault(
                self._masks[number - self._first] if self._first <= number < last else _NONE, len(numbers)
            )
            for number in range(first, end)
        ]
        width = (len(self._token_ids) + 7) // 8
        kinds = np.frombuffer(b"".join(mask or bytes(width) for mask in numbers), np.uint8)
        return AnswerMasks(kinds.reshape(len(numbers), width), np.array(places, dtype=np.int32))

    def _cut(self, tokens: Sequence[int]) -> None:
        """Drop the masks that do not follow from these tokens: all after the first one that was replaced."""
        shared = len(self._tokens)
        if self._tokens != list(tokens[:shared]):
            pairs = zip(self._tokens, tokens, strict=False)
            shared = next((place for place, (old, new) in enumerate(pairs) if old != new), len(tokens))
            del self._tokens[shared:]
        del self._masks[max(0, shared + 1 - self._first) :]

    def _packed(self, allowed: NDArray[np.int64]) -> bytes:
        if len(allowed) < 2:
            return _NONE
        bits = np.zeros(self._size, dtype=bool)
        bits[allowed] = True
        drafted = bits[self._token_ids]
        if np.count_nonzero(drafted) < 2:
            return _NONE
        packed = np.packbits(drafted).tobytes()
        return self._known.setdefault(packed, packed)
