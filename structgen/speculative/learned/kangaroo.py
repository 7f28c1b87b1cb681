"""`Kangaroo`: the first layers of the model and a trained adapter, which share the model's KV cache.

What: the adapter is one attention layer over the states that the model itself has after its first layers. Its output
stands for the model's last state: through the model's own output layer, cut to the tokens that texts consist of, it
gives the distribution of the next token. For draft tokens the first layers run over the draft (`Session.early_exit`),
so the adapter always reads true states, never its own output. The draft exits twice: from the model after few layers,
and from drafting as soon as the adapter is not sure of a token.
Invariant: drafts depend on the row's tokens alone, not on how it was cropped or drafted before.
Cost: for each row and step one pass of the adapter over the tokens that the model has read. For each node from which
the draft goes on, one pass of the first layers and of the adapter. The adapter's KV cache has one layer. The verifying
pass reads draft tokens from the first layer on (see `models.early_exit`).
Source: Liu et al. 2024 (Kangaroo): layer 2 or 3 of 32, an adapter of one attention layer with two norms and no
feed-forward part, the model's output layer, threshold 0.6. A feed-forward part is an option here (`LayerSizes.mlp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from structgen.errors import ModelError

from ..checks import check_number
from ..drafters import Context, Proposal
from .fitting import Fitted
from .layer_cache import LayerCache
from .layers import DraftLayer, LayerSizes, RMSNorm
from .learned_drafter import LearnedDrafter, LearnedRow
from .row_exit import RowExit
from .size_checks import check_sizes
from .trimmed_head import Scores
from .weights import DraftWeights

__all__ = ["Kangaroo", "KangarooNetwork", "KangarooSizes"]


@dataclass(frozen=True)
class KangarooSizes:
    """What determines the shapes of an adapter, and where the draft leaves the model."""

    layer: LayerSizes
    exit_layer: int
    """The number of the model's layers that run over draft tokens."""

    def __post_init__(self) -> None:
        check_sizes(exit_layer=self.exit_layer)

    @property
    def hidden(self) -> int:
        """The width of hidden states."""
        return self.layer.hidden

    @property
    def hidden_layers(self) -> tuple[int, ...]:
        """The layer whose states the adapter reads."""
        return (self.exit_layer,)

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> KangarooSizes:
        """Return the sizes that `as_dict` returned."""
        return cls(LayerSizes(**given["layer"]), given["exit_layer"])


class KangarooNetwork(nn.Module):
    """The weights of an adapter, without the model's layers and output layer."""

    def __init__(self, sizes: KangarooSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.layer = DraftLayer(sizes.layer, reads_embeddings=False)
        self.output_norm = RMSNorm(sizes.layer.hidden, sizes.layer.eps)


class Kangaroo(LearnedDrafter[KangarooNetwork]):
    """Drafts with the first layers of the model and an adapter that was trained on their states.

    It needs a model whose first layers can run alone (`SessionCapabilities.exits`): those of Llama, Qwen and similar
    models do, those of models with sliding windows or recurrent layers do not. With these, generation goes on without
    the drafter, and a `SpeculationWarning` says so.

    Args:
        weights: Weights that `structgen draft train` wrote, or the path of their file.
        threshold: The draft stops after a node whose most probable token has less than this probability, under the
            constraint's mask; with an acceptance head, its number decides. The token itself is still proposed.
        options: Those of `LearnedDrafter`. The paper's drafts are chains, with a `width` of 1.
    """

    kind = "kangaroo"
    grows_without_lock = True
    computes_in_half = False  # the model's own layers read its states
    sizes: KangarooSizes
    usual_width = 2
    drafts_in_batches = False

    def __init__(self, weights: DraftWeights | str | Path, *, threshold: float = 0.6, **options: Any) -> None:
        check_number("threshold", threshold)
        super().__init__(weights, **options)
        self.threshold = threshold

    def _check_layers(self, layers: int) -> None:
        if self.sizes.exit_layer >= layers:
            raise ModelError(
                f"the draft leaves the model after layer {self.sizes.exit_layer}; this model has {layers} layers",
                hint="Use weights that were trained for this model.",
            )

    def _sizes_from(self, given: dict[str, Any]) -> KangarooSizes:
        return KangarooSizes.from_dict(given)

    def new_network(self) -> KangarooNetwork:
        """See `LearnedDrafter`."""
        return KangarooNetwork(self.sizes)

    def _row(self, fitted: Fitted[KangarooNetwork], temperature: float) -> _KangarooRow:
        return _KangarooRow(fitted, self, temperature)


@dataclass(slots=True)
class _Node:
    """The end of what the model has read, or a token after it."""

    output: torch.Tensor | None
    """The adapter's output there, ``[1, hidden]``; None if the row has no tokens."""
    slots: list[int]
    """Where the KV cache has the tokens up to it that the model has not read."""
    scores: Scores | None = None
    top: float = 1.0
    """The probability of the most probable token, or the acceptance head's number for it, if that is known."""


class _KangarooRow(LearnedRow):
    """The adapter's KV cache of one row, and the nodes of its last draft."""

    def __init__(self, fitted: Fitted[KangarooNetwork], drafter: Kangaroo, temperature: float) -> None:
        super().__init__(fitted.head, drafter, temperature)
        self._network, self._exit_layer = fitted.network, drafter.sizes.exit_layer
        self._threshold = drafter.threshold
        self._cache = LayerCache(fitted.network.layer, fitted.embeddings)
        self._exit = RowExit()
        self._nodes: dict[tuple[int, ...], _Node] = {}
        """By the tokens that the model has not read."""

    def observe(self, tokens: Sequence[int], start: int) -> None:
        """See `RowDrafter.observe`."""
        self._cache.crop(start)
        self._exit.clear()
        self._nodes.clear()

    def propose(self, context: Context) -> Iterable[Proposal]:
        """See `RowDrafter.propose`."""
        proposals = list(super().propose(context))
        if proposals:
            self._nodes[self._path(context)].top = proposals[0].chance
        return proposals

    def distribution(self, context: Context) -> NDArray[Any] | None:
        """See `RowDrafter.distribution`."""
        scores = self._known(context)
        logits = None if scores is None else self._head.masked(scores.logits, context)
        if logits is None:
            return None
        assert scores is not None
        predicted = self._head.acceptance_of(scores, logits, int(logits.argmax()))
        own = float(1 / np.exp(logits - logits.max()).sum())
        self._nodes[self._path(context)].top = own if predicted is None else predicted
        return self._head.distribution(logits, self._temperature)

    def _path(self, context: Context) -> tuple[int, ...]:
        """Return the tokens up to the node that the model has not read."""
        assert context.hidden is not None
        return tuple(context.tokens[context.hidden.count :])

    def _scores(self, context: Context) -> Scores | None:
        if context.hidden is None:
            return None
        path = self._path(context)
        if context.drafted:
            before = self._nodes.get(path[:-1])
            if before is not None and before.top < self._threshold:
                return None
        node = self._node(context, path)
        if node is None or node.output is None:
            return None
        if node.scores is None:
            node.scores = self._head.scores(self._network.output_norm(node.output))[0]
        return node.scores

    def _node(self, context: Context, path: tuple[int, ...]) -> _Node | None:
        """Return the node after `path`; None if the first layers would have to read too many tokens."""
        if path in self._nodes:
            return self._nodes[path]
        states = self._exit.states(context, self._exit_layer) if path else None
        if path and states is None:
            return None
        known = len(path)
        while known and path[:known] not in self._nodes:
            known -= 1
        if not known and () not in self._nodes:
            self._nodes[()] = _Node(self._read(context), [])
        node = self._nodes[path[:known]]
        first = len(context.tokens) - len(path)
        for depth in range(known, len(path)):
            assert states is not None
            output, slots = self._cache.step(states[depth : depth + 1], None, first + depth, node.slots)
            node = self._nodes[path[: depth + 1]] = _Node(output, slots)
        return node

    def _read(self, context: Context) -> torch.Tensor | None:
        """Read what the model has read since the last draft; return the output at the end of that."""
        hidden = context.hidden
        assert hidden is not None
        count = min(hidden.count, len(context.tokens) - context.drafted)
        # subtle: a row that steps back and draws the same tokens again has read fewer of them than before.
        self._cache.crop(count)

        def inputs(first: int) -> tuple[torch.Tensor, None]:
            return hidden.since(first, (self._exit_layer,))[: count - first, 0], None

        return self._cache.read(count, inputs)
