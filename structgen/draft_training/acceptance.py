"""The loss of an acceptance head: cross-entropy over "accepted", with a larger weight for rejections.

What: a label is 1 where the drafter's first-ranked token is the next token of a text that the model wrote, else 0. At
temperature 0 this is what verification decides. At other temperatures the text's token is a draw from the model, so the
mean of the labels is the probability of the acceptance.
Why: most draft tokens are accepted. Without a larger weight for the others, the head hardly learns to stop. With weight
w it learns ``a / (a + w * (1 - a))`` in place of the probability a, and so errs towards short drafts. The counts that
`Speculation` keeps for each tenth of the probability correct this while it runs.
Source: Huang et al. 2024 (SpecDec++), https://arxiv.org/abs/2405.19715: weight 6, divided by the sum of the weights.
"""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["acceptance_labels", "acceptance_loss"]


def acceptance_labels(draft_logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return 1 where the drafter's first-ranked token is that of the text, else 0, ``[positions]``.

    Args:
        draft_logits: The drafter's logits of its N tokens, ``[positions, N]``.
        token_ids: The text's tokens as indices of these, ``[positions]``; -1 where the drafter has no such token.
    """
    return (draft_logits.argmax(-1) == token_ids).float()


def acceptance_loss(
    logits: torch.Tensor,
    accepted: torch.Tensor,
    *,
    rejection_weight: float = 6.0,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the weighted mean of the cross-entropy, a scalar; computed in float32.

    Args:
        logits: Outputs of the head, ``[positions]``.
        accepted: Labels, or probabilities of the acceptance, ``[positions]``, from 0 to 1.
        rejection_weight: The weight of a rejection; an acceptance has 1.
        weights: The weight of each position, ``[positions]``. Positions of weight 0 are left out. If none remains, the
            loss is 0, and so is its gradient.
    """
    with torch.autocast(logits.device.type, enabled=False):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        accepted = accepted.to(logits.dtype)
        positions = torch.ones_like(accepted) if weights is None else weights.to(logits.dtype)
        counted = positions > 0
        logits = logits.masked_fill(~counted, 0.0)
        right = positions * accepted
        wrong = rejection_weight * positions * (1 - accepted)
        losses = right * functional.softplus(-logits) + wrong * functional.softplus(logits)
        total = (right + wrong).masked_fill(~counted, 0.0).sum()
        return losses.masked_fill(~counted, 0.0).sum() / total.clamp(min=torch.finfo(total.dtype).tiny)
