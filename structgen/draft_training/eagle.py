"""Training of an EAGLE drafter, with the options of papers that followed it.

    feature sampling    the token's embedding picks from the state before the layer reads it (FSPAD)
    alignment           the layer's outputs also learn to resemble the model's states: the same output from which
                        tokens are predicted (full, EAGLE), or an output of its own (partial, FSPAD)

Why: the layer's outputs take the place of the model's states at the next draft token. The closer they are to them, the
better the layer knows what it reads there. What predicts a token well is not what resembles the state most, so partial
alignment has an output for each.
What: the loss of the distributions, plus `alignment_weight` times the smooth L1 distance of states. Where the layer
reads one state of the model, the distance is to this one, as published. Where it reads several, fused into one, it is
to the fused state, without a gradient: that is what an output takes the place of.
Invariant: without options the training is that of any drafter.
Cost: the fused states of one more position for each position, step and batch.
Source: Li et al. 2024 (EAGLE), Gui et al. 2024 (FSPAD), https://arxiv.org/abs/2408.15562. In both the weight of states
is 1, and that of the distributions is 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from structgen.errors import OptionError, did_you_mean
from structgen.speculative.checks import check_number
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes
from structgen.speculative.learned.layers import LayerSizes

from .training import Training
from .unrolling import unrolled

__all__ = ["ALIGNMENTS", "EagleOptions", "EagleTraining", "alignment_loss", "eagle_outputs", "eagle_sizes"]

ALIGNMENTS = ("none", "full", "partial")
"""The values of `EagleOptions.alignment`."""


@dataclass(frozen=True)
class EagleOptions:
    """What an EAGLE drafter is trained with."""

    feature_sampling: bool = False
    """Whether it has a `FeatureSampler`, as wide as the feed-forward part of its layer."""
    alignment: Literal["none", "full", "partial"] = "none"
    """Which of its outputs learn to resemble the model's states."""
    alignment_weight: float = 10.0
    """The weight of the distance of states. The loss of the distributions has weight 1."""

    def __post_init__(self) -> None:
        if self.alignment not in ALIGNMENTS:
            raise OptionError(
                f"unknown alignment {self.alignment!r:.40}",
                hint=did_you_mean(str(self.alignment), ALIGNMENTS) or f"Use one of {', '.join(ALIGNMENTS)}.",
            )
        check_number("alignment_weight", self.alignment_weight, high=1e6)


def eagle_sizes(layer: LayerSizes, hidden_layers: tuple[int, ...], options: EagleOptions) -> EagleSizes:
    """Return the sizes of a drafter that is trained with these options.

    Args:
        layer: The sizes of its layer.
        hidden_layers: The layers of the model that it reads.
        options: The options.
    """
    return EagleSizes(
        layer,
        hidden_layers,
        sampler=layer.mlp if options.feature_sampling else 0,
        second_output=options.alignment == "partial",
    )


def eagle_outputs(
    network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> list[torch.Tensor]:
    """Return what `unrolled` does, from states and embeddings as `Training` has them."""
    assert isinstance(network, EagleNetwork)
    return unrolled(network, states[:, : states.shape[1] - steps], embeddings[:, 1:], steps)


def alignment_loss(
    states: torch.Tensor, wanted: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the weighted mean of the smooth L1 distance of states, a scalar; 0 if there is no position.

    Args:
        states: The drafter's states, ``[positions, hidden]``.
        wanted: The states that they should resemble, of the same shape.
        weights: The weight of each position, ``[positions]``; by default 1.
    """
    with torch.autocast(states.device.type, enabled=False):
        precision = torch.promote_types(states.dtype, torch.float32)
        states, wanted = states.to(precision), wanted.detach().to(precision)
        distances = functional.smooth_l1_loss(states, wanted, reduction="none").mean(-1)
        counted = torch.ones_like(distances) if weights is None else weights.to(precision)
        return (distances * counted).sum() / counted.sum().clamp(min=torch.finfo(precision).tiny)


@dataclass
class EagleTraining(Training):
    """The training of one EAGLE drafter; see `Training`.

    Args:
        eagle: The options of EAGLE.
    """

    eagle: EagleOptions = field(default_factory=EagleOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.outputs = self._unrolled
        self._raw: list[torch.Tensor] = []
        """What the layer returned last."""

    def _unrolled(
        self, network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
    ) -> Sequence[torch.Tensor]:
        assert isinstance(network, EagleNetwork)
        raw = eagle_outputs(network, states, embeddings, steps)
        if network is self.network:
            self._raw = raw
        return [network.predicted(output) for output in raw]

    def _further_loss(
        self,
        step: int,
        chosen: tuple[torch.Tensor, ...],
        states: torch.Tensor,
        weights: torch.Tensor | None,
    ) -> torch.Tensor | float:
        if self.eagle.alignment == "none":
            return 0.0
        network, output = self.network, self._raw[step]
        assert isinstance(network, EagleNetwork)
        with torch.no_grad():
            after = states[:, step + 1 : step + 1 + output.shape[1], self._columns]
            wanted = network.fused(after[chosen])
        aligned = alignment_loss(network.continued(output[chosen]), wanted, weights)
        return self.eagle.alignment_weight * aligned

    def _about(self) -> dict[str, Any]:
        about = super()._about()
        return about if self.eagle == EagleOptions() else {**about, "eagle": asdict(self.eagle)}
