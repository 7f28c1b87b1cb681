"""`LayerCache`: the keys and values of a `DraftLayer` for one row, and for the nodes of its draft.

Invariant: the first slots belong to positions whose states are the model's own. What was drafted after them stays only
until the next draft.
Cost: one pass of the layer over the tokens that the model has read since the last call, and one for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from .layers import DraftLayer

__all__ = ["LayerCache"]

_FIRST_CAPACITY = 256


class LayerCache:
    """A KV cache of one layer.

    Args:
        layer: The layer.
        like: A tensor on the same device and of the same precision.
    """

    def __init__(self, layer: DraftLayer, like: torch.Tensor) -> None:
        self.held = 0
        """The number of positions whose keys and values are those of states of the model."""
        self._layer = layer
        self._slots = 0
        """The number of used slots, those of draft tokens included."""
        sizes = layer.sizes
        shape = (2, sizes.kv_heads, _FIRST_CAPACITY, sizes.head_size)
        self._cache = torch.empty(shape, dtype=like.dtype, device=like.device)
        """Keys and values, ``[2, heads, slots, head size]``."""
        self._angles = layer.angles(0, _FIRST_CAPACITY).to(self._cache)
        self._last: torch.Tensor | None = None
        """The output at the last position that is held."""

    def crop(self, held: int) -> None:
        """Keep the first `held` positions only."""
        if held < self.held:
            self.held, self._last = max(0, held), None

    def read(
        self, count: int, inputs: Callable[[int], tuple[torch.Tensor, torch.Tensor | None]]
    ) -> torch.Tensor | None:
        """Read the positions up to number `count`, those that are not held; forget all draft tokens.

        Args:
            count: The number of positions.
            inputs: From the first position to read to the states and the embeddings of all up to `count`, each
                ``[positions, hidden]``; no embeddings for a layer that reads none.

        Returns:
            The output at the last position that is held, ``[1, hidden]``; None if there is no position.
        """
        if self.held and self._last is None and count <= self.held:
            self.crop(count - 1)  # the position is held, and its output is not: compute it again
        if count > self.held:
            self._last = self._read(*inputs(self.held))
        self.forget_draft()
        return self._last

    def forget_draft(self) -> None:
        """Forget all draft tokens."""
        self._slots = self.held

    def step(
        self, state: torch.Tensor, embedding: torch.Tensor | None, position: int, slots: Sequence[int]
    ) -> tuple[torch.Tensor, list[int]]:
        """Read one draft token.

        Args:
            state: The state before it, ``[1, hidden]``; the state after it for a layer that reads no embeddings.
            embedding: Its embedding, ``[1, hidden]``; None for a layer that reads none.
            position: The position of the state.
            slots: The slots of the draft tokens before it, on its path.

        Returns:
            The output, ``[1, hidden]``, and the slots up to the token.
        """
        layer, slot = self._layer, self._slots
        self._make_room(max(slot, position) + 1)
        queries, keys, values = layer.projected(state, embedding, self._angles[:, position : position + 1])
        self._cache[0, :, slot : slot + 1], self._cache[1, :, slot : slot + 1] = keys, values
        self._slots = slot + 1
        path = [*slots, slot]
        if path[0] == self.held and path[-1] == self.held + len(path) - 1:
            seen = self._cache[:, :, : self.held + len(path)]
        else:
            seen = torch.cat([self._cache[:, :, : self.held], self._cache[:, :, path]], 2)
        heads, size = layer.sizes.kv_heads, layer.sizes.head_size
        grouped = queries.view(heads, -1, size)  # the queries that share keys and values
        weights = (grouped @ seen[0].transpose(-1, -2) / size**0.5).softmax(-1)
        return layer.finished(state, (weights @ seen[1]).reshape(1, -1)), path

    def _read(self, states: torch.Tensor, embeddings: torch.Tensor | None) -> torch.Tensor:
        """Add positions; return the output at the last one."""
        first, count = self.held, len(states)
        self._make_room(first + count)
        queries, keys, values = self._layer.projected(
            states, embeddings, self._angles[:, first : first + count]
        )
        self._cache[0, :, first : first + count] = keys
        self._cache[1, :, first : first + count] = values
        self.held = first + count
        mask = None
        if count > 1:
            mask = torch.ones((count, self.held), dtype=torch.bool, device=keys.device).tril(first)
        seen = self._cache[:, None, :, : self.held]
        attended = functional.scaled_dot_product_attention(
            queries[None], seen[0], seen[1], attn_mask=mask, enable_gqa=True
        )[0]
        return self._layer.finished(states[-1:], attended[:, -1].reshape(1, -1))

    def _make_room(self, slots: int) -> None:
        """Let the cache and the angles have at least so many slots."""
        capacity = self._cache.shape[2]
        if slots <= capacity:
            return
        more = max(slots, 2 * capacity)
        grown = self._cache.new_empty((*self._cache.shape[:2], more, self._cache.shape[3]))
        grown[:, :, :capacity] = self._cache
        self._cache = grown
        self._angles = self._layer.angles(0, more).to(self._cache)
