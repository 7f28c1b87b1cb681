"""What the sessions of `transformers` models share: the rows' tokens, their last logits, and a forward pass.

Invariant: a row's logits are those of one forward pass over its own tokens, up to the rounding of the kernels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Cache

from structgen.errors import ModelError
from structgen.protocols import Session, SessionCapabilities

from .caches import NoCache, memory_of, parameters_of
from .hidden_states import HiddenStates

__all__ = ["CachedSession", "Tokens", "chosen_states", "to_numpy"]

Tokens = Sequence[Sequence[int]]
"""The new tokens of each row."""


class CachedSession(Session):
    """What the sessions share: the model, each row's tokens and last logits, conversions of logits.

    Args:
        model: The model.
        size: The number of tokens of its vocabulary.
        rows: The number of rows.
        layers: The layers whose hidden states are kept.
    """

    def __init__(self, model: Any, size: int, rows: int, layers: Sequence[int] = ()) -> None:
        self._model = model
        self._size = size
        self._keeps_last = "logits_to_keep" in parameters_of(model)
        self._cache_argument = memory_of(model, size).argument or ""
        self._tokens: list[list[int]] = [[] for _ in range(rows)]
        self._last = torch.zeros((rows, size), dtype=model.dtype, device=model.device)
        self._array: NDArray[np.float32] | None = None
        self._stale: set[int] = set()
        """Rows that were cropped: their logits are read again when they are needed."""
        self._hidden = HiddenStates(layers, rows) if layers else None
        self._read_states: torch.Tensor | None = None
        """The hidden states of the last pass, ``[rows, positions, layers, hidden size]``, if they are kept."""
        self._capabilities = SessionCapabilities(scores_runs=True)

    @property
    def capabilities(self) -> SessionCapabilities:
        """See `Session.capabilities`."""
        return replace(self._capabilities, hidden_states=self._hidden is not None)

    def logits(self) -> NDArray[np.float32]:
        """See `Session.logits`; on a CPU in float32 the model's own array, not a copy."""
        tensor = self.logits_tensor()
        if self._array is None:
            self._array = to_numpy(tensor)
        return self._array

    def logits_tensor(self) -> torch.Tensor:
        """Return the logits on the model's device, in its own precision."""
        if self._stale:
            self._read_again()
        return self._last

    def hidden_states(self, row: int, start: int = 0) -> torch.Tensor:
        """See `Session.hidden_states`."""
        if self._hidden is None:
            raise ModelError(
                "this session keeps no hidden states", hint="Start it with start_with_hidden_states()."
            )
        return self._hidden.of(row, start)

    def append(self, tokens: Tokens) -> None:
        """See `Session.append`."""
        self._read(tokens, every=False)

    def append_scored(self, tokens: Tokens) -> list[NDArray[np.float32]]:
        """See `Session.append_scored`."""
        return [to_numpy(scores) for scores in self._read(tokens, every=True)]

    @abstractmethod
    def _read(self, tokens: Tokens, *, every: bool) -> list[torch.Tensor]:
        """Read tokens; return the logits after each new token of each row if `every`."""

    @abstractmethod
    def _read_again(self) -> None:
        """Read the logits of the `_stale` rows again."""

    def _check_rows(self, tokens: Sequence[Any]) -> None:
        if len(tokens) != len(self._tokens):
            raise ModelError(f"the session has {len(self._tokens)} rows, not {len(tokens)}")

    def _check_length(self, row: int, n: int) -> None:
        held = len(self._tokens[row])
        if not 0 <= n <= held:
            raise ModelError(f"cannot roll back {n} tokens of row {row}, which has {held}")

    def _forward(self, ids: torch.Tensor, cache: object, keep: int, **inputs: Any) -> torch.Tensor:
        """Return the logits of the last `keep` positions. `inputs_embeds` take the place of the ids."""
        device = self._model.device
        if self._keeps_last:
            inputs["logits_to_keep"] = keep
        if self._hidden is not None:
            inputs["output_hidden_states"] = list(self._hidden.layers)
        inputs[self._cache_argument] = cache
        if "inputs_embeds" not in inputs:
            inputs["input_ids"] = ids.to(device)
        with torch.inference_mode():
            output = self._model(use_cache=True, **inputs)
            if not isinstance(getattr(output, self._cache_argument, None), Cache):
                raise NoCache
            logits: torch.Tensor = output.logits[:, -keep:, : self._size]
            if self._hidden is not None:
                self._read_states = chosen_states(output, self._hidden.layers)
        return logits


def chosen_states(output: Any, layers: Sequence[int]) -> torch.Tensor:
    """Return the hidden states of these layers, ``[rows, positions, layers, hidden size]``, of an output of a model."""
    return torch.stack([output.hidden_states[layer] for layer in layers], dim=2)


def to_numpy(logits: torch.Tensor) -> NDArray[np.float32]:
    """Return a float32 array in the memory of the CPU, of the same shape."""
    array: NDArray[np.float32] = logits.float().cpu().numpy()
    return array
