"""`TrimmedHead`: a model's output layer for some tokens, and what follows from its logits: proposals, distributions.

Why: the output layer is a large part of the time of a small drafter, and texts consist of few of the tokens.
What: the rows of these tokens make logits of states. The constraint's mask leaves out what may not follow.
Invariant: only tokens of its list are proposed, and only those that the mask allows.
Cost: a copy of these rows for each model.
Source: "VocabTrim" (Goel et al. 2025): a draft needs only the tokens that are frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.models.packed import pack_linear

from ..drafters import Context, Proposal
from ..trimmed_vocabulary import TrimmedVocabulary
from .output_layers import LogitMap, logit_map_of, output_rows
from .wrapped_models import transformers_model

__all__ = ["Scores", "TrimmedHead", "trimmed_head"]


@dataclass(frozen=True, slots=True)
class Scores:
    """What the output layers make of a node's state."""

    logits: NDArray[np.float32]
    """Of the tokens that may be drafted."""
    predict: Callable[[], float] | None = None
    """Computes `acceptance`. None without an acceptance head."""

    @property
    def acceptance(self) -> float | None:
        """The probability that the token with the largest logit is accepted. None without an acceptance head."""
        return None if self.predict is None else self.predict()


class _Predictions:
    """What an acceptance head makes of some states: all at once, when the first number is needed.

    Often none is needed: the mask forbids the first-ranked token, or another one was drawn.
    """

    def __init__(self, head: nn.Module, states: torch.Tensor) -> None:
        self._head, self._states = head, states
        self._known: list[float] = []

    def of(self, number: int) -> float:
        """Return the probability that belongs to a state."""
        if not self._known:
            with torch.inference_mode():
                self._known = self._head(self._states).float().sigmoid().tolist()
        return self._known[number]


class TrimmedHead(TrimmedVocabulary):
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
        super().__init__(token_ids, size)
        self._layer, self._acceptance = layer, acceptance
        self._map = LogitMap() if logit_map is None else logit_map

    @property
    def has_acceptance(self) -> bool:
        """Whether there is an acceptance head."""
        return self._acceptance is not None

    def scores(self, states: torch.Tensor) -> list[Scores]:
        """Return what follows from each of the states ``[states, hidden]``."""
        logits = self._map(self._layer(states).float()).cpu().numpy()
        if self._acceptance is None:
            return [Scores(row) for row in logits]
        predictions = _Predictions(self._acceptance, states)
        return [Scores(row, partial(predictions.of, number)) for number, row in enumerate(logits)]

    def best(self, states: torch.Tensor) -> NDArray[np.int64]:
        """Return the token with the largest logit of each of the states ``[..., hidden]``."""
        best: NDArray[np.int64] = self.token_ids[self._layer(states).argmax(-1).cpu().numpy()]
        return best

    def proposals(self, scores: Scores, context: Context, name: str, width: int) -> list[Proposal]:
        """Return the most probable tokens that the constraint allows, each as a proposal.

        How often they are right is counted by the rank, the depth (at most 3) and the tenth of the probability. A token
        with the number of the acceptance head is of a kind of its own.
        """
        logits = self.masked(scores.logits, context)
        if logits is None:
            return []
        width = min(width, len(logits))
        best = np.argpartition(logits, -width)[-width:] if width < len(logits) else np.arange(width)
        best = best[np.argsort(-logits[best], kind="stable")]
        masses = np.exp(logits - logits[best[0]])
        chances = masses[best] / masses.sum()
        predicted = self.acceptance_of(scores, logits, int(best[0]))
        if predicted is not None:
            chances[0] = predicted
        depth = min(context.drafted, 3)
        return [
            Proposal(
                (int(self.token_ids[place]),),
                f"{name} {rank if rank or predicted is None else 'head'}, {depth}, {int(chance * 10)}",
                float(chance),
                is_probability=True,
            )
            for rank, (place, chance) in enumerate(zip(best, chances, strict=True))
            if chance > 0
        ]

    def acceptance_of(self, scores: Scores, masked: NDArray[np.float32], index: int) -> float | None:
        """Return what the acceptance head predicts for the token at `index`; None if it does not predict this one.

        It was trained for the token that is first-ranked without a mask, where the mask leaves a choice.

        Args:
            scores: The scores of the node.
            masked: Their logits under the mask.
            index: The index of the token in `token_ids`.
        """
        if scores.predict is None or index != scores.logits.argmax():
            return None
        return scores.predict() if np.count_nonzero(masked > -np.inf) > 1 else None

    def acceptances(self, scores: Scores, context: Context, tokens: Sequence[int]) -> dict[int, float]:
        """Return what the acceptance head predicts, if `tokens` contain the token that it is for."""
        if scores.predict is None:
            return {}
        index = int(scores.logits.argmax())
        token = int(self.token_ids[index])
        masked = self.masked(scores.logits, context) if token in tokens else None
        predicted = None if masked is None else self.acceptance_of(scores, masked, index)
        return {} if predicted is None else {token: predicted}


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
