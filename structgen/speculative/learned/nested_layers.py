"""`NestedLayers`: a small draft model whose first layers are a smaller one, and that stops after as few as it needs.

What: a few decoder layers over the model's own embeddings. After some of them there is an exit: a norm of its own and
the model's output layer, cut to the tokens that texts consist of. All exits are trained together. At a node the draft
model runs to the first exit, and goes on to the next one only while the most probable token, of those that the mask
allows, has less than a given probability. So one file serves as several draft models: a low threshold suits a model
that is cheap to run, a high one a model whose passes are expensive. It reads tokens only, no states of the model.
Invariant: drafts depend on the row's tokens alone, not on how it was cropped or drafted before. What a later exit
computes begins with the states of the exit before it, at every token.
Cost: for each row and step one pass over the row's new tokens, and one for each node from which the draft goes on; each
to the exit that is taken. Layers beyond it read the tokens that they have missed when an exit after them is needed.
Source: Kavehzadeh et al. 2024 (S2D: Sorted Speculative Decoding), and 2023 (Sorted LLaMA) for the training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..checks import check_number
from ..drafters import Context, Proposal
from .fitting import Fitted
from .layers import DraftLayer, LayerSizes, RMSNorm
from .learned_drafter import LearnedDrafter, LearnedRow
from .nested_cache import NestedCache
from .trimmed_head import Scores
from .weights import DraftWeights

__all__ = ["NestedLayers", "NestedNetwork", "NestedSizes"]


@dataclass(frozen=True)
class NestedSizes:
    """What determines the shapes of a draft model."""

    layer: LayerSizes
    exits: tuple[int, ...]
    """The number of layers before each exit, ascending. The last one is the number of all layers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "exits", tuple(self.exits))  # JSON has lists only
        whole = all(type(exit_) is int for exit_ in self.exits)
        if not whole or not self.exits or not all(a < b for a, b in pairwise((0, *self.exits))):
            raise ValueError(f"exits are {self.exits!r:.80}; they are numbers of layers above 0, ascending")
        if self.exits[-1] > _MOST_LAYERS:
            raise ValueError(
                f"a draft model has at most {_MOST_LAYERS} layers, and exits are at {self.exits[-1]!r:.40}"
            )

    @property
    def hidden(self) -> int:
        """The width of hidden states."""
        return self.layer.hidden

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layers of the model whose states it reads: none."""
        return ()

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> NestedSizes:
        """Return the sizes that `as_dict` returned."""
        return cls(LayerSizes(**given["layer"]), tuple(given["exits"]))


_MOST_LAYERS = 128


class NestedNetwork(nn.Module):
    """The weights of a draft model, without the embeddings and the output layer, which are the model's.

    `exit_norms` has one norm for each exit.
    """

    def __init__(self, sizes: NestedSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(
            DraftLayer(sizes.layer, reads_embeddings=False) for _ in range(sizes.exits[-1])
        )
        self.exit_norms = nn.ModuleList(RMSNorm(sizes.hidden, sizes.layer.eps) for _ in sizes.exits)

    def forward(self, embeddings: torch.Tensor) -> list[torch.Tensor]:
        """Return the normed states of each exit for whole texts, each ``[texts, tokens, hidden]``.

        Args:
            embeddings: The embeddings of the tokens, ``[texts, tokens, hidden]``. Texts of different lengths are padded
                at their ends.
        """
        states = embeddings
        outputs: list[torch.Tensor] = []
        for count, layer in enumerate(self.layers, 1):
            states = layer(states, None)
            if count in self.sizes.exits:
                outputs.append(self.exit_norms[len(outputs)](states))
        return outputs


class NestedLayers(LearnedDrafter[NestedNetwork]):
    """Drafts with a small model of a few layers; how many of them run depends on how sure it is.

    Args:
        weights: The weights.
        confidence: At a node, later layers run only while the most probable token has less than this probability, under
            the constraint's mask. 0 for the first exit always; 1 for the last one.
        options: Those of `LearnedDrafter`.
    """

    kind = "layers"
    grows_without_lock = True
    computes_in_half = False  # it is a draft model, with a KV cache in the precision of the target
    sizes: NestedSizes

    def __init__(
        self, weights: DraftWeights | str | Path, *, confidence: float = 0.6, **options: Any
    ) -> None:
        check_number("confidence", confidence)
        super().__init__(weights, **options)
        self.confidence = confidence

    def _sizes_from(self, given: dict[str, Any]) -> NestedSizes:
        return NestedSizes.from_dict(given)

    def new_network(self) -> NestedNetwork:
        """See `LearnedDrafter`."""
        return NestedNetwork(self.sizes)

    def _row(self, fitted: Fitted[NestedNetwork], temperature: float) -> _NestedRow:
        return _NestedRow(fitted, self, temperature)


@dataclass(slots=True)
class _Node:
    """The end of the row, or a draft token after it."""

    slots: list[int]
    """Where the KV cache has the draft tokens up to it."""
    exit: int = 0
    """The index of the exit that was taken."""
    scores: Scores | None = None


class _NestedRow(LearnedRow):
    """The KV cache of one row, and the nodes of its last draft."""

    def __init__(self, fitted: Fitted[NestedNetwork], drafter: NestedLayers, temperature: float) -> None:
        super().__init__(fitted.head, drafter, temperature)
        self._norms, self._exits = fitted.network.exit_norms, drafter.sizes.exits
        self._confidence = drafter.confidence
        self._cache = NestedCache(fitted.network.layers, self._exits, fitted.embeddings)
        self._nodes: dict[tuple[int, ...], _Node] = {}
        """By the draft tokens up to them."""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """See `RowDrafter.observe`."""
        self._nodes.clear()

    def propose(self, context: Context) -> Iterable[Proposal]:
        """See `RowDrafter.propose`. Acceptance is counted by the exit, too."""
        scores = self._known(context)
        if scores is None:
            return ()
        node = self._node(context)
        name = f"{self.name} {self._exits[node.exit]}"
        return self._head.proposals(scores, context, name, self._options.width)

    def _scores(self, context: Context) -> Scores | None:
        if len(context.tokens) == context.drafted:
            return None  # the row has no tokens
        node = self._node(context)
        if node.scores is None:
            node.scores = self._first_sure(context, node)
        return node.scores

    def _first_sure(self, context: Context, node: _Node) -> Scores:
        """Return the scores of the first exit that is sure enough, or of the last one."""
        for node.exit, norm in enumerate(self._norms):
            scores = self._head.scores(norm(self._cache.state(node.slots, node.exit)))[0]
            if node.exit == len(self._exits) - 1:
                break
            scores = replace(scores, predict=None)  # such a head is trained on the states of the last exit
            logits = self._head.masked(scores.logits, context)
            if logits is None or float(1 / np.exp(logits - logits.max()).sum()) >= self._confidence:
                break
        return scores

    def _node(self, context: Context) -> _Node:
        """Return the node at the end of the context."""
        base = len(context.tokens) - context.drafted
        if not self._nodes:
            self._cache.begin(context.tokens[:base])
            self._nodes[()] = _Node([])
        path = tuple(context.tokens[base:])
        node = self._nodes[()]
        for depth, token in enumerate(path, 1):
            known = self._nodes.get(path[:depth])
            if known is None:
                known = self._nodes[path[:depth]] = _Node([*node.slots, self._cache.add(token)])
            node = known
        return node
