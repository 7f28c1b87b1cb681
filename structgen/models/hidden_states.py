"""`HiddenStates`: the hidden states of chosen layers after every token of a session's rows.

Why: learned drafters read them, those of the prompt included.
What: each row has a buffer that grows with its tokens. What a row forgets is cut off its buffer, so a state belongs to
the token at its position, however the row was read, cropped, duplicated or batched. The states at the nodes of a draft
tree follow those of the tokens, until `keep` says which nodes become tokens.
Invariant: after ``append`` the states of a row are those of one forward pass over its tokens, up to rounding.
Cost: one copy of the states of each pass; memory for each token of a row, ``layers x hidden size`` numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from structgen.errors import ModelError

__all__ = ["HiddenStates"]

_FIRST_CAPACITY = 64


class HiddenStates:
    """States of several rows. Row and token numbers are those of the session.

    Args:
        layers: The layers: 0 for the embeddings, k for the output of the k-th layer, the number of layers for what the
            output layer reads (after the final norm).
        rows: The number of rows.
    """

    def __init__(self, layers: Sequence[int], rows: int) -> None:
        self.layers = tuple(layers)
        self._buffers: list[torch.Tensor | None] = [None] * rows
        """The states of each row, ``[capacity, layers, hidden size]``."""
        self._lengths = [0] * rows

    def of(self, row: int, start: int = 0) -> torch.Tensor:
        """Return the states after the tokens of a row from number `start` on, ``[tokens, layers, hidden size]``.

        Those of the nodes of its tree follow, if there is one. The tensor must not be written to. It is valid until
        states are appended to this row, or some of its nodes are kept: no other method writes into its memory.
        """
        buffer, length = self._buffers[row], self._lengths[row]
        if buffer is None:
            raise ModelError(f"row {row} has no tokens, and no hidden states")
        return buffer[start:length]

    def append(self, row: int, states: torch.Tensor) -> None:
        """Add the states after new tokens, ``[tokens, layers, hidden size]``."""
        length, added = self._lengths[row], len(states)
        if not added:
            return
        buffer = self._buffers[row]
        if buffer is None or len(buffer) < length + added:
            capacity = max(_FIRST_CAPACITY, length + added + (length + added) // 2)
            grown = states.new_empty((capacity, *states.shape[1:]))
            if buffer is not None:
                grown[:length] = buffer[:length]
            buffer = self._buffers[row] = grown
        buffer[length : length + added] = states
        self._lengths[row] = length + added

    def keep(self, row: int, nodes: Sequence[int], count: int) -> None:
        """Keep the states of these nodes, in ascending order, of the last `count` ones; forget the others of those."""
        buffer, first = self._buffers[row], self._lengths[row] - count
        self._lengths[row] = first + len(nodes)
        if buffer is not None and list(nodes) != list(range(len(nodes))):
            buffer[first : first + len(nodes)] = buffer[[first + node for node in nodes]]

    def crop(self, row: int, n: int) -> None:
        """Forget the states of the last `n` tokens of a row."""
        self._lengths[row] -= n

    def select(self, rows: Sequence[int]) -> HiddenStates:
        """Return the states of these rows. They share no memory that either side writes to."""
        other = HiddenStates(self.layers, len(rows))
        for index, row in enumerate(rows):
            buffer = self._buffers[row]
            other._buffers[index] = None if buffer is None else buffer[: self._lengths[row]].clone()
            other._lengths[index] = self._lengths[row]
        return other

    def join(self, other: HiddenStates) -> None:
        """Add the rows of `other`, which must not be used afterwards."""
        self._buffers += other._buffers
        self._lengths += other._lengths
