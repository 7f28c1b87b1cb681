"""`AcceptanceHead`: the probability that the next draft token will be accepted, from the drafter's hidden state.

Why: the probability that a drafter gives its token is often too high, most of all on text it was not trained on. A head
that was trained on acceptances replaces it. A draft then ends where it is likely to fail: SpecDec++ stops when
``1 - P(accept) * P(accept) * ...`` along the draft is greater than 0.7. `Confidence(least=0.3)` is this rule. It holds
with every verifier.
What: a residual network over the normed state from which the drafter's logits are computed. The first-ranked token is a
function of this state, so the head needs no embedding of it. SpecDec++ reads the state after the token instead, which
takes one more pass of the drafter.
Where its number counts: for the first-ranked token as a proposal, as the token that the row's noise selects (`Match` at
temperatures above 0), and as a draw for a verifier that draws drafts (`Rejection` and others). `Speculation` counts how
often it is right in each of these cases, for each tenth of the probability: the counts correct the head over time.
Invariant: it decides only how much is drafted, from the draft path and earlier passes. So no verifier becomes wrong by
it; `sampled` has the reasons.
Limits: it predicts the first-ranked token only. For other tokens, and under a mask that forbids this one or leaves no
other, the drafter's own probability counts. It is trained to predict that the model draws the token. Noise that both
share, and `Rejection` with min(1, p / q), accept the token more often. So its numbers are low until there are counts.
Cost: one matrix of hidden x hidden for each block: a tenth of an EAGLE layer. It is computed where its number counts.
Source: Huang et al. 2024 (SpecDec++), https://arxiv.org/abs/2405.19715.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from structgen.errors import ModelError

from .made_networks import network_of
from .weights import DraftWeights, load_weights

__all__ = [
    "ACCEPTANCE_PREFIX",
    "AcceptanceHead",
    "acceptance_head",
    "has_acceptance_head",
    "network_tensors",
]

ACCEPTANCE_PREFIX = "acceptance."
"""The names of the head's tensors in a file of weights start with this."""


class AcceptanceHead(nn.Module):
    """Blocks ``x + SiLU(linear(x))`` and one output: the logit of the acceptance.

    Args:
        hidden: The width of the drafter's states.
        blocks: The number of residual blocks. SpecDec++ uses three.
    """

    def __init__(self, hidden: int, blocks: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(blocks))
        self.output = nn.Linear(hidden, 1)

    @property
    def hidden(self) -> int:
        """The width of the states that it reads."""
        return self.output.in_features

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of the acceptance, ``[...]``, from the drafter's normed states, ``[..., hidden]``."""
        for block in self.blocks:
            states = states + functional.silu(block(states))
        logits: torch.Tensor = self.output(states)[..., 0]
        return logits

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return its weights under the names that they have in `DraftWeights.tensors`."""
        return {ACCEPTANCE_PREFIX + name: tensor for name, tensor in self.state_dict().items()}


def acceptance_head(weights: DraftWeights | str) -> AcceptanceHead:
    """Return the acceptance head that was saved with a drafter.

    Args:
        weights: The drafter's weights, or the path of their file.

    Raises:
        ModelError: There is no head among the weights, or its tensors do not fit together.

    Example:
        >>> weights = load_weights("eagle.safetensors")  # doctest: +SKIP
        >>> drafter = Eagle(weights, acceptance=acceptance_head(weights))  # doctest: +SKIP
        >>> speculation = Speculation(drafter, controller=Confidence(least=0.3))  # doctest: +SKIP
    """
    weights = load_weights(weights) if isinstance(weights, str) else weights
    own = {
        name.removeprefix(ACCEPTANCE_PREFIX): tensor
        for name, tensor in weights.tensors.items()
        if name.startswith(ACCEPTANCE_PREFIX)
    }
    if not own:
        raise ModelError(
            "the drafter's weights contain no acceptance head",
            hint="Leave out `acceptance`, or use weights that were trained with a head.",
        )
    output = own.get("output.weight")
    if output is None or output.ndim != 2:
        raise ModelError("the acceptance head among the drafter's weights has no output layer")
    hidden = output.shape[1]
    blocks = sum(name.startswith("blocks.") and name.endswith(".weight") for name in own)
    return network_of(lambda: AcceptanceHead(hidden, blocks), own, "the tensors of the acceptance head")


def has_acceptance_head(weights: DraftWeights) -> bool:
    """Return whether the weights contain an acceptance head."""
    return any(name.startswith(ACCEPTANCE_PREFIX) for name in weights.tensors)


def network_tensors(weights: DraftWeights) -> dict[str, torch.Tensor]:
    """Return the tensors of the drafter's network: all but those of an acceptance head."""
    return {
        name: tensor for name, tensor in weights.tensors.items() if not name.startswith(ACCEPTANCE_PREFIX)
    }
