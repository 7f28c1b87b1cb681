"""`LastStates`: the hidden states after the last tokens of a text, kept while it is drawn.

Why: a session's states are valid until its next forward pass only, and a drafter that learns needs them when the text
has ended. To copy those of the whole text at each draft takes time that grows with the square of its length.
What: each `read` copies the states that are new since the one before. These chunks are joined once, at the end.
Invariant: the state at a place was computed from the tokens up to it. What a row that steps back removes is cut off,
and at the end also what it replaced since the last `read`.
Cost: one copy of each state. If a row has stepped back and too few states are left, the last `longest` ones are read
again. Memory: the states of fewer than ``2 * longest`` tokens, and the numbers of all tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from structgen.generation.drafting import RowStates

__all__ = ["LastStates"]


class LastStates:
    """The states of some layers after the last tokens of one text.

    Args:
        layers: The layers.
        longest: The number of last tokens whose states are kept; up to twice as many are.
    """

    def __init__(self, layers: tuple[int, ...], longest: int) -> None:
        self._layers, self._longest = layers, longest
        self._tokens: list[int] = []
        """The tokens of the text up to the last one whose state was read."""
        self._chunks: deque[torch.Tensor] = deque()
        """The states after the last tokens of those."""
        self._size = 0
        """The number of states."""

    def read(self, hidden: RowStates, tokens: Sequence[int]) -> None:
        """Copy the states that are new.

        Args:
            hidden: The states of the text.
            tokens: Its tokens. `cut` was called for those that are others than before.
        """
        count, known = min(hidden.count, len(tokens)), len(self._tokens)
        if count < known or (count == known and self._size >= min(self._longest, count)):
            return
        first = max(0, count - self._longest)
        if known - self._size <= first <= known:
            first = known
        else:  # states are missing before the new ones: the first read, a pause, or a text that stepped back far
            self._chunks.clear()
            self._size = 0
        # subtle: a copy, since the session writes to its memory again, and a view would keep all of it.
        self._chunks.append(hidden.since(first, self._layers)[: count - first].clone())
        self._size += count - first
        self._tokens.extend(tokens[known:count])
        while self._size - len(self._chunks[0]) >= self._longest:
            self._size -= len(self._chunks.popleft())

    def cut(self, count: int) -> None:
        """Forget what was read after the first `count` tokens, which others replace."""
        excess = len(self._tokens) - count
        if excess <= 0:
            return
        del self._tokens[count:]
        while self._chunks and excess >= len(self._chunks[-1]):
            dropped = len(self._chunks.pop())
            self._size, excess = self._size - dropped, excess - dropped
        if self._chunks and excess:
            self._chunks[-1] = self._chunks[-1][:-excess]
            self._size -= excess

    def end(self, tokens: Sequence[int]) -> tuple[int, torch.Tensor] | None:
        """Return the kept states that belong to a text that has ended. Nothing is kept afterwards.

        Args:
            tokens: Its tokens. It may have stepped back since the last `read`.

        Returns:
            The number of the first of these tokens, and the states, a tensor ``[tokens, layers, hidden size]``. None
            if there are no states.
        """
        pairs = zip(self._tokens, tokens, strict=False)
        shared = next((place for place, (old, new) in enumerate(pairs) if old != new), len(tokens))
        self.cut(shared)
        found = (len(self._tokens) - self._size, torch.cat(list(self._chunks))) if self._chunks else None
        self.cut(0)
        return found
