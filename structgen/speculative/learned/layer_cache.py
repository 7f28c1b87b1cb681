"""`LayerCache`: the keys and values of a `DraftLayer` for one row, and for the nodes of its draft.

Invariant: the first slots belong to positions whose states are the model's own. What was drafted after them stays only
until the next draft.
Cost: one pass of the layer over the tokens that the model has read since the last call, and one for each node, or for
each block of nodes.
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
        block: The number of positions that see each other: the last ones that are read, and those of a step.
    """

    def __init__(self, layer: DraftLayer, like: torch.Tensor, block: int = 1) -> None:
        self.held = 0
        """The number of positions whose keys and values are those of states of the model."""
        self._layer, self._block = layer, block
        self._slots = 0
        """The number of used slots, those of draft tokens included."""
        sizes = layer.sizes
        shape = (2, sizes.kv_heads, _FIRST_CAPACITY, sizes.head_size)
        # Products in bfloat16 are compiled for each number of slots, which takes longer than they do.
        dtype = torch.float32 if like.device.type == "cpu" else like.dtype
        self._cache = torch.empty(shape, dtype=dtype, device=like.device)
        """Keys and values, ``[2, heads, slots, head size]``."""
        self._angles = layer.angles(0, _FIRST_CAPACITY).to(self._cache)
        self._last: torch.Tensor | None = None
        """The outputs at the last positions that are held, a block of them."""

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
            The outputs at the last positions that are held, ``[block, hidden]``; None if there are fewer positions.
        """
        if count < self._block:
            return None
        if self.held and self._last is None and count <= self.held:
            self.crop(count - 1)  # the position is held, and its output is not: compute it again
        if count > self.held:
            first = min(self.held, count - self._block)
            self._last = self._read(first, *inputs(first))
        self.forget_draft()
        return self._last

    def forget_draft(self) -> None:
        """Forget all draft tokens."""
        self._slots = self.held

    def step(
        self, state: torch.Tensor, embedding: torch.Tensor | None, position: int, slots: Sequence[int]
    ) -> tuple[torch.Tensor, list[int]]:
        """Read one draft token, or a block of them, which see each other.

        Args:
            state: The state before each token, ``[tokens, hidden]``; the state after it for a layer that reads no
                embeddings.
            embedding: Their embeddings, of the same shape; None for a layer that reads none.
            position: The position of the first state.
            slots: The slots of the draft tokens before them, on their path.

        Returns:
            The outputs, ``[tokens, hidden]``, and the slots up to the last token.
        """
        layer, slot, count = self._layer, self._slots, len(state)
        self._make_room(max(slot, position) + count)
        queries, keys, values = layer.projected(
            state, embedding, self._angles[:, position : position + count]
        )
        self._cache[0, :, slot : slot + count], self._cache[1, :, slot : slot + count] = keys, values
        self._slots = slot + count
        path = [*slots, *range(slot, slot + count)]
        if path[0] == self.held and path[-1] == self.held + len(path) - 1:
            seen = self._cache[:, :, : self.held + len(path)]
        else:
            seen = torch.cat([self._cache[:, :, : self.held], self._cache[:, :, path]], 2)
        heads, size = layer.sizes.kv_heads, layer.sizes.head_size
        grouped = queries.reshape(heads, -1, size).to(seen)  # the queries that share keys and values
        weights = (grouped @ seen[0].transpose(-1, -2) / size**0.5).softmax(-1)
        attended = (weights @ seen[1]).reshape(-1, count, size).transpose(0, 1)
        return layer.finished(state, attended.reshape(count, -1).to(state)), path

    def _read(self, first: int, states: torch.Tensor, embeddings: torch.Tensor | None) -> torch.Tensor:
        """Add positions, from number `first` on; return the outputs at the last ones, which see each other."""
        count, last = len(states), self._block
        self._make_room(first + count)
        queries, keys, values = self._layer.projected(
            states, embeddings, self._angles[:, first : first + count]
        )
        self._cache[0, :, first : first + count] = keys
        self._cache[1, :, first : first + count] = values
        self.held = first + count
        seen = self._cache[:, None, :, : self.held]
        attended = functional.scaled_dot_product_attention(
            queries[None, :, -last:].to(seen), seen[0], seen[1], enable_gqa=True
        )[0]
        return self._layer.finished(states[-last:], attended.transpose(0, 1).reshape(last, -1).to(states))

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
