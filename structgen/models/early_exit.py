"""`EarlyExit`: the first layers of a model over draft tokens, with the KV cache that the model has of a row.

Why: a drafter that is the first layers of the model itself needs no session of its own. The keys and values of the
tokens that the model has read are those that the first layers would compute, so nothing is read twice.
What: a shallow copy of the model without its later layers and without the final norm runs over new tokens. Its cache
returns the row's keys and values and those of the draft path before the new ones, and writes to neither. The states and
keys of a path are kept by the path, so a tree shares what its branches have in common.
Invariant: the states are those of a plain forward pass over the row and the path, up to the rounding of the kernels.
Cost: a pass of these layers for each new token. The pass that verifies the draft reads all its tokens from the first
layer on, because a draft's leaves, padding and other drafters' tokens have no states to continue from. That repeats
1/N of the pass for each layer of N: with SmolLM2 two layers of 30 take 7 % of a pass over one token, and 7 % of
one over six (`python -m bench.speculation.exits`, CPU times of one thread on a busy machine).
As long as an exit is held, so is the cache that these layers had when it was made.
Limits: models whose rows have slots in one cache (`BatchedSession`) and whose layers have ``self_attn``: Llama, Qwen2
and 3, Mixtral, OLMo, Phi and similar ones. Not GPT-2, Falcon and others that name their layers otherwise, not models
with sliding windows (Mistral, Gemma), recurrent layers or attention biases (Bloom). `can_exit` tests each model once.
Source: Liu et al. 2024 (Kangaroo), Elhoushi et al. 2024 (LayerSkip).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from .decoder_layers import NORMS, find_layers, shallow_copy

__all__ = ["EarlyExit", "can_exit", "first_layers"]

_TOLERANCE = 0.05
"""The largest relative difference of states that counts as rounding; wrong positions give differences above 0.3."""
_TEST_TOKENS, _TEST_READ = 8, 5

Held = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer, ``[1, heads, tokens, head size]``."""


@dataclass(frozen=True, slots=True)
class _Path:
    """What is known of a draft path."""

    states: torch.Tensor
    """``[tokens, hidden size]``."""
    held: list[Held]
    """Keys and values of its tokens in each layer."""


class EarlyExit:
    """The first layers of a model over the tokens that follow one row; see `structgen.protocols.EarlyExit`.

    Args:
        body: The first layers, from `first_layers`.
        argument: The name of its argument for a cache.
        held: What each of these layers keeps of the row.
    """

    def __init__(self, body: Any, argument: str, held: Sequence[Held]) -> None:
        self._body, self._argument, self._held = body, argument, held
        self._paths: dict[tuple[int, ...], _Path] = {}

    def states(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the hidden states after each of `tokens`, ``[tokens, hidden size]``."""
        path = tuple(tokens)
        known = len(path) - self.unread(path)
        if known < len(path):
            self._paths[path] = self._read(self._paths.get(path[:known]), known, path[known:])
        return self._paths[path].states

    def unread(self, tokens: Sequence[int]) -> int:
        """Return how many of `tokens` the layers have to read."""
        path = tuple(tokens)
        return next((n for n in range(len(path)) if path[: len(path) - n] in self._paths), len(path))

    def _read(self, before: _Path | None, known: int, tokens: Sequence[int]) -> _Path:
        """Return the path that continues `before`, a path of `known` tokens, with `tokens`."""
        layers = [
            _DraftLayer(row, None if before is None else before.held[index])
            for index, row in enumerate(self._held)
        ]
        cache = DynamicCache()
        cache.layers = layers
        first, device = self._held[0][0].shape[-2] + known, self._held[0][0].device
        inputs = {
            "input_ids": torch.tensor([list(tokens)], device=device),
            "position_ids": torch.arange(first, first + len(tokens), device=device)[None],
            self._argument: cache,
        }
        with torch.inference_mode():
            states: torch.Tensor = self._body(use_cache=True, **inputs).last_hidden_state[0]
            if before is not None:
                states = torch.cat([before.states, states])
        return _Path(states, [layer.path for layer in layers])


class _DraftLayer(DynamicLayer):  # type: ignore[misc]
    """The cache of one layer: the row's keys and values, which stay as they are, and those of a draft path."""

    path: Held

    def __init__(self, row: Held, path: Held | None) -> None:
        super().__init__()
        self._row, self._before = row, path
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add tokens to the path; return all keys and values that they see."""
        if self._before is not None:
            key_states = torch.cat([self._before[0], key_states], -2)
            value_states = torch.cat([self._before[1], value_states], -2)
        self.path = key_states, value_states
        return torch.cat([self._row[0], key_states], -2), torch.cat([self._row[1], value_states], -2)

    def get_seq_length(self) -> int:
        """Return the number of tokens before the new ones."""
        return int(self._row[0].shape[-2]) + (0 if self._before is None else int(self._before[0].shape[-2]))


_BODIES: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()
_CAN: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def first_layers(model: Any, count: int) -> Any:
    """Return the first `count` layers of a model that `can_exit`, as a module without the final norm."""
    bodies = _BODIES.setdefault(model, {})
    if count not in bodies:
        found = find_layers(model)
        assert found is not None
        inner, layers = found
        body = bodies[count] = shallow_copy(inner)
        body._modules["layers"] = nn.ModuleList(layers[:count])
        body._modules[_norm_name(inner)] = nn.Identity()
    return bodies[count]


def can_exit(model: Any, argument: str) -> bool:
    """Return whether the first layers of a model can run alone, with a cache of their own.

    A model counts if the states of its first layers, after a part of a short text, are those of the whole model. That
    takes a few passes over a few tokens, once per model.

    Args:
        model: A causal language model of `transformers`, read by a `BatchedSession`.
        argument: The name of its argument for a cache.
    """
    if model not in _CAN:
        try:
            with torch.inference_mode():
                _CAN[model] = _states_agree(model, argument)
        except Exception:  # noqa: BLE001 — a module of another architecture may raise anything without its layers
            _CAN[model] = False
    return _CAN[model]


def _norm_name(inner: Any) -> str:
    return next(name for name in NORMS if name in inner._modules)


def _states_agree(model: Any, argument: str) -> bool:
    found = find_layers(model)
    if found is None or len(found[1]) < 2 or not any(name in found[0]._modules for name in NORMS):
        return False
    inner, layers = found
    tokens = [(3 + 5 * index) % inner.get_input_embeddings().weight.shape[0] for index in range(_TEST_TOKENS)]
    ids = torch.tensor([tokens], device=model.device)
    whole = model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    cache = DynamicCache(config=model.config)
    model(input_ids=ids[:, :_TEST_READ], use_cache=True, **{argument: cache})
    held = [(layer.keys, layer.values) for layer in cache.layers]
    for count in (len(layers) // 2, len(layers)):
        exit_ = EarlyExit(first_layers(model, count), argument, held[:count])
        exit_.states(tokens[_TEST_READ:-1])
        states = exit_.states(tokens[_TEST_READ:])
        if count == len(layers):  # what the output layer reads
            states = inner._modules[_norm_name(inner)](states)
        wanted = whole[count][0, _TEST_READ:]
        difference = (states - wanted).float().norm(dim=-1) / wanted.float().norm(dim=-1)
        if not float(difference.max()) <= _TOLERANCE:  # also if it is not a number
            return False
    return True
