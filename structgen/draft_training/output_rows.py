"""The model's output layer over the tokens that may be drafted, as trainings compute with it.

Why: a drafter is trained for the distributions that it is verified against. Where the model scales its logits, bounds
them or adds a bias, the products with the weights alone give other distributions, of the model and of the drafter.
Invariant: from the same states the logits are those of `TrimmedHead` when the drafter is used, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from structgen.speculative.learned.output_layers import LogitMap

__all__ = ["OutputRows"]


@dataclass(frozen=True)
class OutputRows:
    """Rows of an output layer, and what the model does with their logits. None of it changes in a training."""

    weight: torch.Tensor
    """``[tokens, hidden]``."""
    bias: torch.Tensor | None = None
    """``[tokens]``; None for a layer without a bias."""
    logit_map: LogitMap = field(default_factory=LogitMap)
    """What the model does with the logits of the layer."""

    def __len__(self) -> int:
        return len(self.weight)

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits in float32, ``[..., tokens]``.

        Args:
            states: What the output layer reads, ``[..., hidden]``.
        """
        logits = (states @ self.weight.T).float()
        if self.bias is not None:
            logits = logits + self.bias.float()
        return self.logit_map(logits)

    def select(self, places: torch.Tensor) -> OutputRows:
        """Return the rows at these places."""
        return OutputRows(
            self.weight[places], None if self.bias is None else self.bias[places], self.logit_map
        )

    def to(self, dtype: torch.dtype) -> OutputRows:
        """Return the same rows with weights of another precision. The bias is added in float32."""
        return OutputRows(self.weight.to(dtype), self.bias, self.logit_map)
