"""Training of an EAGLE drafter, with the options of papers that followed it.

    features            the states of three layers, fused into one (EAGLE-3), or the last state, fused with the
                        embedding of the next token (EAGLE-1)
    feature sampling    the token's embedding picks from the state before the layer reads it (FSPAD)
    alignment           the layer's outputs also learn to resemble the model's states: the same output from which
                        tokens are predicted (full, EAGLE), or an output of its own (partial, FSPAD)
    tokens a pass       one pass of the layer gives several tokens (Falcon), which learn from each other by glancing

Why: the layer's outputs take the place of the model's states at the next draft token. The closer they are to them, the
better the layer knows what it reads there. What predicts a token well is not what resembles the state most, so partial
alignment has an output for each. A pass that gives several tokens does not know which of them are drawn. Where in
training the first slots see what they should give, the later ones learn which token follows which.
What: the loss of the distributions, plus `alignment_weight` times the smooth L1 distance of states. Where the layer
reads one state of the model, the distance is to this one, as published. Where it reads several, fused into one, it is
to the fused state, without a gradient: that is what an output takes the place of.
    Glancing: the drafter guesses a batch as it drafts, without masks. Then it is trained on the same batch, and in some
blocks the first slots read the state and the token that they should give. The expected number of such slots is a share
of the number of wrong guesses, which falls while the training goes on. Slots that glance add no gradient. Falcon does
this for blocks next to each other, of one pass; here each position of the text has a block, and only its first pass
glances.
Invariant: without options the training is that of any drafter.
Cost: alignment computes the fused states of one more position for each position and step. Glancing computes each batch
once more, without gradients.
Source: Li et al. 2024 (EAGLE), Gui et al. 2024 (FSPAD), https://arxiv.org/abs/2408.15562. In both the weight of states
is 1, and that of the distributions is 0.1. Gao et al. 2024 (Falcon), https://arxiv.org/abs/2412.12639: "coupled
sequential glancing distillation", after Qian et al. 2021 (GLAT), where what is seen adds no gradient either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from structgen.errors import OptionError, did_you_mean
from structgen.speculative.checks import check_number, check_whole
from structgen.speculative.learned.eagle import LARGEST_BLOCK, EagleNetwork, EagleSizes
from structgen.speculative.learned.layers import LayerSizes

from .batches import Batch
from .training import Training
from .unrolling import unrolled

__all__ = [
    "ALIGNMENTS",
    "FEATURES",
    "EagleOptions",
    "EagleTraining",
    "alignment_loss",
    "eagle_outputs",
    "eagle_sizes",
]

ALIGNMENTS = ("none", "full", "partial")
"""The values of `EagleOptions.alignment`."""
FEATURES = ("eagle-3", "eagle-1")
"""The values of `EagleOptions.features`."""
_LAST_GLANCING = 0.25
"""The share of `EagleOptions.glancing` that remains at the end of a training. Falcon ends at 0.1 of 0.45."""


@dataclass(frozen=True)
class EagleOptions:
    """What an EAGLE drafter is trained with."""

    feature_sampling: bool = False
    """Whether it has a `FeatureSampler`, as wide as the feed-forward part of its layer."""
    alignment: Literal["none", "full", "partial"] = "none"
    """Which of its outputs learn to resemble the model's states."""
    alignment_weight: float = 10.0
    """The weight of the distance of states. The loss of the distributions has weight 1."""
    tokens_a_pass: int = 1
    """How many tokens one pass of the layer gives, see `EagleSizes.tokens_a_pass`."""
    glancing: float = 0.45
    """With several tokens for each pass: how many slots glance at first, as a share of the number of wrong guesses."""
    features: Literal["eagle-3", "eagle-1"] = "eagle-3"
    """Which of the model's states the drafter reads.

    "eagle-3": those of the layers that the features have, fused into one. The layer reads the embedding of the next
    token next to it, and its output is normed before the output layer.

    "eagle-1": the state after the model's final norm, fused with the embedding of the next token. The layer reads one
    vector, without a norm before its attention, and its output takes the place of that state. So the output layer reads
    it as it is, and `alignment` "full" compares it with the model's own state, as published."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("alignment", self.alignment, ALIGNMENTS),
            ("features", self.features, FEATURES),
        ):
            if value not in known:
                raise OptionError(
                    f"unknown {name} {value!r:.40}",
                    hint=did_you_mean(str(value), known) or f"Use one of {', '.join(known)}.",
                )
        check_number("alignment_weight", self.alignment_weight, high=1e6)
        check_whole("tokens_a_pass", self.tokens_a_pass, high=LARGEST_BLOCK)
        check_number("glancing", self.glancing)


def eagle_sizes(layer: LayerSizes, hidden_layers: tuple[int, ...], options: EagleOptions) -> EagleSizes:
    """Return the sizes of a drafter that is trained with these options.

    Args:
        layer: The sizes of its layer.
        hidden_layers: The layers of the model that it may read; the last one is what the output layer reads.
        options: The options.
    """
    is_first = options.features == "eagle-1"
    return EagleSizes(
        replace(layer, normed_input=False) if is_first else layer,
        hidden_layers[-1:] if is_first else hidden_layers,
        input_norms="none" if is_first else "each",
        fuse_bias=is_first,
        fuses_embeddings=is_first,
        normed_output=not is_first,
        sampler=layer.mlp if options.feature_sampling else 0,
        second_output=options.alignment == "partial",
        tokens_a_pass=options.tokens_a_pass,
    )


def eagle_outputs(
    network: nn.Module,
    states: torch.Tensor,
    embeddings: torch.Tensor,
    steps: int,
    glanced: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """Return what `unrolled` does, from states and embeddings as `Training` has them."""
    assert isinstance(network, EagleNetwork)
    seen = states.shape[1] - steps + (0 if glanced is None else glanced.shape[-1])
    return unrolled(network, states[:, :seen], embeddings[:, 1:], steps, glanced)


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
        self._tokens = torch.zeros((0, 0))
        """The tokens of the batch."""
        self._done = 0.0
        """The share of the training that has ended."""

    def _unrolled(
        self, network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
    ) -> Sequence[torch.Tensor]:
        assert isinstance(network, EagleNetwork)
        plain: list[torch.Tensor] = []
        glanced: torch.Tensor | None = None
        is_trained = network is self.network and torch.is_grad_enabled()
        if is_trained and self.eagle.tokens_a_pass > 1 and self.eagle.glancing > 0:
            device = states.device.type
            with (
                torch.no_grad(),
                # subtle: autocast would keep the weights that it casts here, without gradients, for the next pass
                torch.autocast(
                    device,
                    torch.get_autocast_dtype(device),
                    enabled=torch.is_autocast_enabled(device),
                    cache_enabled=False,
                ),
            ):
                plain = eagle_outputs(network, states, embeddings, steps)
                glanced = self._glanced(plain)
        raw = eagle_outputs(network, states, embeddings, steps, glanced)
        for slot, is_seen in enumerate(() if glanced is None else glanced.unbind(-1)):
            raw[slot] = torch.where(is_seen[..., None], plain[slot], raw[slot])
        if network is self.network:
            self._raw = raw
        predicted = [network.predicted(output) for output in raw]
        for slot, is_seen in enumerate(() if glanced is None else glanced.unbind(-1)):
            predicted[slot] = torch.where(is_seen[..., None], predicted[slot].detach(), predicted[slot])
        return predicted

    def _glanced(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return which slots glance, as in `unrolled`, where the drafter has returned these outputs.

        A block glances with a probability that is proportional to its number of wrong guesses, at some of its tokens
        from the first one on. The last token is never seen.
        """
        network, width = self.network, self.eagle.tokens_a_pass
        assert isinstance(network, EagleNetwork)
        shape = outputs[0].shape[:2]
        sampled = self._sampled(self._tokens)
        wrong = torch.zeros(shape, dtype=torch.long)
        rows = self._rows.select(sampled)
        for step, output in enumerate(outputs[:width]):
            best = rows(network.predicted(output)).argmax(-1).cpu()
            text = self._tokens[:, step + 2 : step + 2 + shape[1]].cpu()
            wrong += self._drafted[sampled][best] != text
        share = self.eagle.glancing * (1 - (1 - _LAST_GLANCING) * min(1.0, self._done))
        rng = np.random.default_rng((self.options.seed, 3, self._step))
        # The mean of the lengths is width / 2.
        glances = rng.random(shape) < 2 / width * share * wrong.numpy()
        lengths = rng.integers(1, width, size=shape)
        glanced = glances[..., None] & (np.arange(width - 1) < lengths[..., None])
        return torch.from_numpy(glanced).to(outputs[0].device)

    def _train(self, batch: NDArray[np.int64], done: float) -> float:
        self._done = done
        return super()._train(batch, done)

    def _read(self, batch: Sequence[int] | NDArray[np.int64]) -> Batch:
        read = super()._read(batch)
        self._tokens = read.tokens
        return read

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
        about, given = super()._about(), asdict(self.eagle)
        if self.eagle.features == EagleOptions.features:  # saves of versions without it are as good
            del given["features"]
        return about if self.eagle == EagleOptions() else {**about, "eagle": given}
