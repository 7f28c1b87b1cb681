"""Selective tokens: train the drafter on the positions from which it can still learn most.

Why: a small drafter cannot learn every token, and training on those that it cannot learn costs it others. A reference
drafter of the same size that was trained before shows what it can learn: where its loss is low and the drafter's is
still high, training helps.
What: of each batch, the share of positions with the largest difference ``draft loss - reference loss``.
Invariant: deterministic. Of equal differences, the earlier position is selected.
Source: Hu et al. 2025 (AdaSPEC: Selective Knowledge Distillation for Efficient Speculative Decoders),
https://arxiv.org/abs/2510.19779. The reference is trained by distillation first; the losses are forward KL; the share
is 0.4.
"""

from __future__ import annotations

import torch

from structgen.errors import OptionError
from structgen.speculative.checks import check_number

__all__ = ["select"]


def select(
    draft_losses: torch.Tensor,
    reference_losses: torch.Tensor,
    *,
    share: float = 0.4,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the weights with which the selected positions enter the loss, ``[positions]``; 0 for all others.

    Args:
        draft_losses: The drafter's loss of each position, `Loss.per_position`, ``[positions]``.
        reference_losses: The same loss of the reference drafter, ``[positions]``.
        share: The share of positions that is selected, rounded to whole ones, at least one.
        weights: The weight of each position, ``[positions]``; by default 1. Positions of weight 0 are not selected,
            and do not count towards the share. The shares of `Loss.per_position` leave out forced positions.

    Raises:
        OptionError: The share is not a number between 0 and 1, or the shapes differ.

    Example:
        >>> select(torch.tensor([3.0, 2.0, 5.0]), torch.tensor([0.5, 1.9, 4.0]), share=0.3)
        tensor([1., 0., 0.])
    """
    check_number("share", share)
    for name, tensor in (("reference_losses", reference_losses), ("weights", weights)):
        if tensor is not None and tensor.shape != draft_losses.shape:
            raise OptionError(
                f"{name} has the shape {list(tensor.shape)}; draft_losses has {list(draft_losses.shape)}"
            )
    differences = (draft_losses - reference_losses).detach().float()
    weights = torch.ones_like(differences) if weights is None else weights.to(differences.dtype)
    counted = (weights > 0).nonzero()[:, 0]
    if not len(counted):
        return torch.zeros_like(weights)
    number = max(1, int(share * len(counted) + 0.5))
    order = differences[counted].argsort(descending=True, stable=True)
    chosen = counted[order[:number]]
    return torch.zeros_like(weights).index_copy(0, chosen, weights[chosen])
