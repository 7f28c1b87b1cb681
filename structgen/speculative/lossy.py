"""Lossy verifiers: they accept more draft tokens than exact ones, and the texts get another distribution.

What: at a node of a draft, a lossy verifier may accept a token that the model would not have drawn there. If it accepts
none, the token is drawn as without drafts.
Invariant: the constraint holds, since a verifier sees only children that the mask allows. A `Speculation` takes a lossy
verifier only with ``allow_lossy=True``. Its generations have `Generation.is_lossy`, and no log weight.

    TypicalAcceptance   accepts a token whose probability is large enough for the entropy of the distribution
    Judge               accepts a token by the target's last hidden state after it, with a trained linear probe

Cost: `TypicalAcceptance` takes a pass over the vocabulary for each node that has children, `Judge` one dot product for
each child. `Judge` needs a model that keeps hidden states.
Source: Cai et al. 2024 (Medusa), https://arxiv.org/abs/2401.10774, section 2.3.1; Bachmann et al. 2025 (Judge
Decoding), https://arxiv.org/abs/2501.19309.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError

from .checks import check_number

__all__ = ["Judge", "LossyVerifier", "TypicalAcceptance", "check_is_allowed", "is_lossy"]


Array = NDArray[Any]


class LossyVerifier(Protocol):
    """A rule of acceptance that changes the distribution of the texts."""

    is_lossy: ClassVar[Literal[True]]
    drafted: ClassVar[Literal["any"]]

    def accept(self, target: Array, children: Sequence[int], states: Any) -> int | None:
        """Return the child that is accepted; None leaves the draw to the plain sampler.

        Args:
            target: The distribution of the plain sampler's draw (mask, temperature, truncation), float64
                ``[vocabulary.size]``, normalised.
            children: The draft tokens at the node that the mask allows, at least one.
            states: The hidden states after each of the children, a tensor ``[children, layers, hidden size]`` of the
                verifier's `hidden_layers`; None if it declares none.
        """
        ...


@dataclass(frozen=True)
class TypicalAcceptance:
    """Accepts a draft token x if p(x) > min(epsilon, delta * exp(-H(p))), where H is the entropy of p.

    The more uncertain the model is, the less probable a token may be. p is the distribution of the plain draw: under
    the mask, at the temperature, after top-k, top-p and min-p. Of several such children the most probable one is
    accepted. At temperature 0 this is the model's own token. Drafts hold no end-of-sequence token, so texts tend to
    be longer than without drafts.

    Args:
        epsilon: The probability that is always enough.
        delta: The factor of exp(-H).
    """

    epsilon: float = 0.09
    delta: float = 0.3

    is_lossy: ClassVar[Literal[True]] = True
    drafted: ClassVar[Literal["any"]] = "any"

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            check_number(name, value)
            if value <= 0:
                raise OptionError(f"{name} is {value!r:.40}; it must be above 0")

    def accept(self, target: Array, children: Sequence[int], states: Any) -> int | None:
        """See `LossyVerifier`."""
        positive = target[target > 0]
        entropy = -float((positive * np.log(positive)).sum())
        threshold = min(self.epsilon, self.delta * math.exp(-entropy))
        best = max(children, key=lambda token: float(target[token]))
        return best if target[best] > threshold else None


@dataclass(frozen=True, eq=False)
class Judge:
    """Accepts a draft token if a linear probe on the target's last hidden state after it says that it is good.

    It may accept any token that the mask allows, at temperature 0 and outside top-k, too. Where it refuses a token, the
    plain draw decides. It needs drafts without branches, and a model that keeps hidden states
    (`HiddenStatesModel.layer_count`). `structgen.draft_training.probes.train_judge` trains one.

    Args:
        weight: The weights of the probe, float32 ``[hidden size]``.
        bias: Its bias.
        threshold: The probability of "acceptable" above which a token is accepted.
    """

    weight: Any
    bias: float = 0.0
    threshold: float = 0.5

    is_lossy: ClassVar[Literal[True]] = True
    drafted: ClassVar[Literal["any"]] = "any"

    def __post_init__(self) -> None:
        weight = np.array(self.weight, dtype=np.float32)
        if weight.ndim != 1 or not len(weight) or not np.isfinite(weight).all():
            raise OptionError(
                f"the probe's weights are finite numbers, [hidden size]; these are {weight.shape}"
            )
        check_number("threshold", self.threshold)
        if not isinstance(self.bias, int | float) or not math.isfinite(self.bias):
            raise OptionError(f"bias is {self.bias!r:.40}; it must be a finite number")
        weight.flags.writeable = False
        object.__setattr__(self, "weight", weight)

    def hidden_layers(self, count: int) -> tuple[int, ...]:
        """Return the layer whose states the probe reads: what the output layer reads, after the final norm."""
        return (count,)

    def probabilities(self, states: Any) -> Any:
        """Return the probability of "acceptable" for each state, float64 ``[positions]``.

        Args:
            states: A tensor or array ``[positions, hidden size]``.
        """
        numbers = states.float().cpu().numpy() if hasattr(states, "cpu") else np.asarray(states)
        if numbers.shape[-1] != len(self.weight):
            raise OptionError(
                f"the probe has {len(self.weight)} weights, and the model's hidden states have {numbers.shape[-1]}",
                hint="Train a probe for this model.",
            )
        scores = numbers.astype(np.float64) @ self.weight.astype(np.float64) + self.bias
        return 0.5 * (1 + np.tanh(scores / 2))  # the logistic function, without overflow

    def accept(self, target: Array, children: Sequence[int], states: Any) -> int | None:
        """See `LossyVerifier`."""
        if states is None:
            raise OptionError("Judge needs hidden states, and this session keeps none")
        good = self.probabilities(states[:, -1]) > self.threshold
        return next((token for token, is_good in zip(children, good, strict=True) if is_good), None)


def is_lossy(verifier: object) -> bool:
    """Return whether a verifier changes the distribution of the texts."""
    return bool(getattr(verifier, "is_lossy", False))


def check_is_allowed(verifier: object, *, allow_lossy: bool) -> None:
    """Raise `OptionError` for a lossy verifier that the caller has not allowed."""
    if is_lossy(verifier) and not allow_lossy:
        raise OptionError(
            f"{type(verifier).__name__} is lossy: it accepts tokens that the model would not have drawn, "
            "so that texts no longer follow the model's distribution",
            hint="Allow that with Speculation(..., allow_lossy=True). Results then have is_lossy=True and no "
            "log weight. All other verifiers keep the distribution.",
        )
