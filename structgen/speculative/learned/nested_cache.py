"""`NestedCache`: the keys and values of a small draft model for one row, and for the nodes of its draft.

What: tokens have slots: those of the row the first ones, in order, draft tokens the next ones. The layers between two
exits are a stage. A stage reads the tokens of a path when a state after it is wanted, and then those that it has not
read before: they are the last ones of the path, since a stage that has read a token has read all tokens before it.
Invariant: states are those of one pass over the tokens of the path. Draft tokens stay until the row changes.
Cost: besides keys and values, one state for each token and exit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from structgen.generation.prefix_logits import common_length

from .layers import DraftLayer

__all__ = ["NestedCache"]

_FIRST_CAPACITY = 256


class NestedCache:
    """A KV cache of several layers with exits.

    Args:
        layers: The layers, which read no embeddings but the first one's input.
        exits: The number of layers before each exit.
        embeddings: Of all tokens, ``[tokens, hidden]``.
    """

    def __init__(self, layers: Iterable[nn.Module], exits: Sequence[int], embeddings: torch.Tensor) -> None:
        self._layers = [cast("DraftLayer", layer) for layer in layers]
        self._stages = [range(first, end) for first, end in zip((0, *exits), exits, strict=False)]
        self._embeddings = embeddings
        self._tokens: list[int] = []
        """By slot."""
        self._row = 0
        """The number of tokens of the row."""
        self._held = [0] * len(exits)
        """For each stage, how many of them it has read."""
        self._read: list[int] = []
        """For each draft token, the number of stages that have read it."""
        sizes = self._layers[0].sizes
        shape = (len(self._layers), 2, sizes.kv_heads, _FIRST_CAPACITY, sizes.head_size)
        self._cache = embeddings.new_empty(shape)
        """Keys and values, ``[layers, 2, heads, slots, head size]``."""
        self._states = embeddings.new_empty((len(exits), _FIRST_CAPACITY, sizes.hidden))
        """The states at each exit, ``[exits, slots, hidden]``."""
        self._angles = self._layers[0].angles(0, _FIRST_CAPACITY).to(embeddings)

    def begin(self, tokens: Sequence[int]) -> None:
        """Hold a row's tokens, and forget all draft tokens. What was read of the same tokens stays."""
        common = common_length(self._tokens[: self._row], tokens)
        self._held = [min(held, common) for held in self._held]
        self._tokens, self._row, self._read = list(tokens), len(tokens), []

    def add(self, token: int) -> int:
        """Add a draft token; return its slot."""
        self._tokens.append(token)
        self._read.append(0)
        return len(self._tokens) - 1

    def state(self, path: Sequence[int], exit_: int) -> torch.Tensor:
        """Return the state at an exit after a path, ``[1, hidden]``.

        Args:
            path: The slots of its draft tokens.
            exit_: The index of the exit.
        """
        self._make_room(len(self._tokens))
        for stage in range(exit_ + 1):
            self._run(stage, path)
        last = path[-1] if path else self._row - 1
        return self._states[exit_, last : last + 1]

    def _run(self, stage: int, path: Sequence[int]) -> None:
        """Let a stage read what it has not read up to the end of a path."""
        held = self._held[stage]
        new = [slot for slot in path if self._read[slot - self._row] <= stage]
        slots = [*range(held, self._row), *new]
        if not slots:
            return
        first = held if held < self._row else self._row + len(path) - len(new)
        tokens = [self._tokens[slot] for slot in slots]
        states = self._states[stage - 1, slots] if stage else self._embeddings[tokens]
        for layer in self._stages[stage]:
            states = self._extended(layer, states, slots, path, first)
        self._states[stage, slots] = states
        self._held[stage] = self._row
        for slot in new:
            self._read[slot - self._row] = stage + 1

    def _extended(
        self, index: int, states: torch.Tensor, slots: Sequence[int], path: Sequence[int], first: int
    ) -> torch.Tensor:
        """Return a layer's outputs for the last tokens of a path, from number `first` on, ``[tokens, hidden]``."""
        layer, cache = self._layers[index], self._cache[index]
        queries, keys, values = layer.projected(states, None, self._angles[:, first : first + len(slots)])
        cache[0, :, slots], cache[1, :, slots] = keys, values
        length = self._row + len(path)
        if not path or path[-1] == length - 1:
            seen = cache[:, :, :length]
        else:
            seen = torch.cat([cache[:, :, : self._row], cache[:, :, path]], 2)
        heads, size = layer.sizes.kv_heads, layer.sizes.head_size
        if len(slots) == 1:
            grouped = queries.reshape(heads, -1, size)  # the queries that share keys and values
            weights = (grouped @ seen[0].transpose(-1, -2) / size**0.5).softmax(-1)
            return layer.finished(states, (weights @ seen[1]).reshape(1, -1))
        mask = torch.ones((len(slots), length), dtype=torch.bool, device=states.device).tril(first)
        attended = functional.scaled_dot_product_attention(
            queries[None], seen[0, None], seen[1, None], attn_mask=mask, enable_gqa=True
        )[0]
        return layer.finished(states, attended.transpose(0, 1).flatten(1))

    def _make_room(self, slots: int) -> None:
        """Let the cache, the states and the angles have at least so many slots."""
        capacity = self._cache.shape[3]
        if slots <= capacity:
            return
        more = max(slots, 2 * capacity) - capacity
        self._cache = functional.pad(self._cache, (0, 0, 0, more))
        self._states = functional.pad(self._states, (0, 0, 0, more))
        self._angles = self._layers[0].angles(0, capacity + more).to(self._embeddings)
