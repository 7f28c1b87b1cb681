"""The model's own output layer for drafters: the rows of some tokens, and what the model does after it.

Why: some models scale their logits (Cohere, Granite), bound them (Gemma), or add a bias. A drafter that scores its
states with the weights alone would misjudge its own tokens, and draw from a distribution that is not near the model's.
What: the model reads a few tokens once. Its logits there, over those of the weights, give the scale, and show that
nothing else happens. So no list of architectures is needed; only a bound has to be named by the model's configuration.
Cost: one forward pass over a few tokens for each model.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError

__all__ = ["LogitMap", "logit_map_of", "output_rows", "output_weight"]

_CAPS = ("final_logit_softcapping", "logits_soft_cap")
"""The names under which configurations have the bound of the logits."""
_PROBE_TOKENS = 4
_TOLERANCE = 0.02
"""The largest difference of logits, as a fraction of the largest one: low precisions round to eight bits."""
_UNCAPPED = 0.9
"""The scale is found from logits below this fraction of the bound."""

_known: weakref.WeakKeyDictionary[Any, LogitMap] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class LogitMap:
    """What a model does with the logits of its output layer: ``cap * tanh(scale * logits / cap)``."""

    scale: float = 1.0
    cap: float | None = None
    """None for ``scale * logits``."""

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the model's logits, of those of its output layer."""
        if self.scale != 1:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * (logits / self.cap).tanh()


def output_weight(whole: Any) -> torch.Tensor:
    """Return the weight of the output layer of a model of `transformers`, ``[tokens, hidden]``."""
    tied = getattr(whole.config.get_text_config(), "tie_word_embeddings", False)
    layer = whole.get_input_embeddings() if tied else whole.get_output_embeddings()
    weight: torch.Tensor = layer.weight.detach()
    return weight


def output_rows(whole: Any, token_ids: NDArray[np.int64]) -> nn.Linear:
    """Return a copy of the rows of a model's output layer for some tokens."""
    weight, bias = output_weight(whole), _bias(whole)
    rows = torch.from_numpy(token_ids).to(weight.device)
    layer = nn.Linear(weight.shape[1], len(rows), bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight[rows], requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias[rows], requires_grad=False)
    return layer


def logit_map_of(whole: Any) -> LogitMap:
    """Return what a model of `transformers` does with the logits of its output layer.

    Raises:
        ModelError: It is neither a scale nor a bound that its configuration names.
    """
    found = _known.get(whole)
    if found is None:
        found = _known[whole] = _found(whole)
    return found


def _bias(whole: Any) -> torch.Tensor | None:
    bias = getattr(whole.get_output_embeddings(), "bias", None)
    return bias.detach() if isinstance(bias, torch.Tensor) else None


def _found(whole: Any) -> LogitMap:
    weight, bias = output_weight(whole), _bias(whole)
    ids = torch.arange(min(_PROBE_TOKENS, len(weight)), device=weight.device)[None]
    with torch.inference_mode():
        output = whole(input_ids=ids, use_cache=False, output_hidden_states=True)
        states, wanted = output.hidden_states[-1][0], output.logits[0].float()
        own = nn.functional.linear(states.to(weight), weight, bias).float()[:, : wanted.shape[1]]
    config = whole.config.get_text_config()
    cap = next((float(cap) for name in _CAPS if (cap := getattr(config, name, None))), None)
    inner, free = wanted, torch.ones_like(wanted, dtype=torch.bool)
    if cap is not None:
        inner, free = cap * (wanted / cap).atanh(), wanted.abs() < _UNCAPPED * cap
    squares = float((own[free] ** 2).sum())
    scale = float((own[free] * inner[free]).sum()) / squares if squares else 1.0
    found = LogitMap(1.0 if abs(scale - 1) < _TOLERANCE else scale, cap)
    if not (found(own) - wanted).abs().max() <= _TOLERANCE * max(float(wanted.abs().max()), 1.0):
        raise ModelError(
            f"the logits of {type(whole).__name__} do not follow from its last hidden states by its output layer, a "
            "scale and a bound",
            hint="Learned drafters use the model's output layer, and cannot repeat what this model does after it.",
        )
    return found
