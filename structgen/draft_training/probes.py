"""Training of the linear probe of Judge Decoding, by logistic regression.

What: each position is a draft token in its context, with the target's last hidden state after it and a label: 1 if the
token is acceptable there, although the target might not have drawn it, and 0 if it is wrong. The features are
standardised for the fit, and the probe's weights are those of the states as they are.
Cost: a few hundred passes over the positions.
Source: Bachmann et al. 2025 (Judge Decoding), https://arxiv.org/abs/2501.19309.
"""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch.nn import functional

from structgen.errors import OptionError
from structgen.speculative.lossy import Judge

__all__ = ["train_judge"]

_SMALLEST_DEVIATION = 1e-6
"""Features that vary less than this are left out."""


def train_judge(
    states: ArrayLike | torch.Tensor,
    acceptable: ArrayLike | torch.Tensor,
    *,
    penalty: float = 1e-3,
    rejection_weight: float = 1.0,
    threshold: float = 0.5,
    steps: int = 200,
) -> Judge:
    """Train a `Judge` on labelled positions.

    Args:
        states: The last hidden state after each draft token, a tensor or array ``[positions, hidden size]``, as
            `Session.hidden_states` gives it for the layer `HiddenStatesModel.layer_count`.
        acceptable: Labels, ``[positions]``: 1 for acceptable tokens, 0 for others.
        penalty: The factor of half the squared norm of the weights of standardised features.
        rejection_weight: The weight of a position with label 0; others have 1. A larger one accepts fewer wrong tokens.
        threshold: The threshold of the result.
        steps: The largest number of iterations of L-BFGS.

    Raises:
        OptionError: The shapes do not match, a number is not finite, or all labels are equal.
    """
    features = torch.as_tensor(states).detach().double().cpu()
    labels = torch.as_tensor(acceptable).detach().double().cpu()
    if features.dim() != 2 or labels.shape != features.shape[:1]:
        raise OptionError(
            f"states are [positions, hidden size] and labels [positions], not {tuple(features.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if not bool(torch.isfinite(features).all()):
        raise OptionError("a hidden state is not finite")
    if not bool(((labels == 0) | (labels == 1)).all()) or len(set(labels.tolist())) < 2:
        raise OptionError("labels are 0 and 1, and both must occur")
    mean, deviation = features.mean(0), features.std(0, correction=0)
    scale = torch.where(deviation > _SMALLEST_DEVIATION, 1 / deviation, torch.zeros_like(deviation))
    scaled = (features - mean) * scale
    weights = torch.where(labels == 1, 1.0, rejection_weight).double()
    weights /= weights.sum()
    slope = torch.zeros(features.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([slope, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        errors = functional.binary_cross_entropy_with_logits(scaled @ slope + bias, labels, reduction="none")
        total: torch.Tensor = (weights * errors).sum() + penalty / 2 * slope.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    weight = (slope * scale).detach()
    return Judge(weight.float().numpy(), float(bias.detach() - weight @ mean), threshold)
