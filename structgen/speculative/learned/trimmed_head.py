"""`TrimmedHead`: a model's output layer for some tokens, and what follows from its logits: proposals, distributions.

Why: the output layer is a large part of the time of a small drafter, and texts consist of few of the tokens.
What: the rows of these tokens make logits of states. The constraint's mask leaves out what may not follow.
Invariant: only tokens of its list are proposed, and only those that the mask allows.
Cost: a copy of these rows for each model.
Source: "VocabTrim" (Goel et al. 2025): a draft needs only the tokens that are frequent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.generation.distributions import bits_of
from structgen.models.packed import pack_linear

from ..drafters import Context, Proposal
from .output_layers import LogitMap, logit_map_of, output_rows
from .wrapped_models import transformers_model

__all__ = ["Scores", "TrimmedHead", "trimmed_head"]

_MIN_TEMPERATURE = 0.05
"""The lowest temperature of a distribution: a greedy draft needs one, too."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What the output layers make of a node's state."""

    logits: NDArray[np.float32]
    """Of the tokens that may be drafted."""
    acceptance: float | None
    """The probability that the token with the largest of them is accepted. None without an acceptance head."""


class TrimmedHead:
    """The rows of a model's output layer for some tokens.

    Args:
        layer: Makes logits of the tokens from states: the linear layer of those rows, or one for each of the states.
        token_ids: The tokens, ascending.
        size: The size of the vocabulary.
        acceptance: The acceptance head.
        logit_map: What the model does with the logits of the layer.
    """

    def __init__(
        self,
        layer: nn.Module,
        token_ids: NDArray[np.int64],
        size: int,
        acceptance: nn.Module | None = None,
        logit_map: LogitMap | None = None,
    ) -> None:
        self._layer, self.token_ids, self.size, self._acceptance = layer, token_ids, size, acceptance
        self._map = LogitMap() if logit_map is None else logit_map

    def scores(self, states: torch.Tensor) -> list[Scores]:
        """Return what follows from each of the states ``[states, hidden]``."""
        logits = self._map(self._layer(states).float()).cpu().numpy()
        if self._acceptance is None:
            return [Scores(row, None) for row in logits]
        chances = self._acceptance(states).float().sigmoid().tolist()
        return [Scores(row, chance) for row, chance in zip(logits, chances, strict=True)]

    def best(self, states: torch.Tensor) -> NDArray[np.int64]:
        """Return the token with the largest logit of each of the states ``[..., hidden]``."""
        best: NDArray[np.int64] = self.token_ids[self._layer(states).argmax(-1).cpu().numpy()]
        return best

    def masked(self, logits: NDArray[np.float32], context: Context) -> NDArray[np.float32] | None:
        """Return logits with minus infinity where the constraint forbids a token; None if it forbids all of them."""
        if not context.is_constrained:
            return logits
        allowed = bits_of(context.matcher.mask(), self.size)[self.token_ids]
        return np.where(allowed, logits, np.float32(-np.inf)) if allowed.any() else None

    def proposals(self, scores: Scores, context: Context, name: str, width: int) -> list[Proposal]:
        """Return the most probable tokens that the constraint allows, each as a proposal.

        Acceptance is counted by the rank, the depth (at most 3) and the tenth of the probability.
        """
        logits = self.masked(scores.logits, context)
        if logits is None:
            return []
        width = min(width, len(logits))
        best = np.argpartition(logits, -width)[-width:] if width < len(logits) else np.arange(width)
        best = best[np.argsort(-logits[best], kind="stable")]
        masses = np.exp(logits - logits[best[0]])
        chances = masses[best] / masses.sum()
        # The acceptance head was trained for the token that is first-ranked without a mask.
        if scores.acceptance is not None and best[0] == scores.logits.argmax():
            chances[0] = scores.acceptance
        depth = min(context.drafted, 3)
        return [
            Proposal(
                (int(self.token_ids[place]),),
                f"{name} {rank}, {depth}, {int(chance * 10)}",
                float(chance),
                is_probability=True,
            )
            for rank, (place, chance) in enumerate(zip(best, chances, strict=True))
            if chance > 0
        ]

    def distribution(self, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
        """Return the distribution over the whole vocabulary, not normalised, ``[size]``."""
        scaled = logits.astype(np.float64) / max(temperature, _MIN_TEMPERATURE)
        distribution = np.zeros(self.size)
        distribution[self.token_ids] = np.exp(scaled - scaled.max())
        return distribution


def trimmed_head(model: Any, token_ids: NDArray[np.int64]) -> TrimmedHead:
    """Return a model's own output layer, cut to some tokens.

    Args:
        model: A `LanguageModel` with a model of `transformers`.
        token_ids: The tokens, ascending.
    """
    whole = transformers_model(model)
    module = nn.ModuleList([output_rows(whole, token_ids)])
    if module[0].weight.device.type == "cpu":
        pack_linear(module)
    return TrimmedHead(module[0], token_ids, model.vocabulary.size, logit_map=logit_map_of(whole))
