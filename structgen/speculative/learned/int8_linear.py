"""Linear layers of drafters with int8 weights, for the few rows that a draft reads at a time.

Why: between two drafts a pass of the model evicts the drafter's weights from the caches, so a draft token costs what
reading them costs. In int8, as they are stored, this is half of bfloat16.
What: `with_int8` gives the linear layers of a network in bfloat16 int8 weights beside their own. Up to three rows are
multiplied with those.
Cost: half as much memory again.
Source: torch's weight-only int8 product (`_weight_int8pack_mm`), which its compiler uses for language models.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Int8Linear", "with_int8"]

_MOST_ROWS = 3
"""The largest number of rows for which the int8 product is faster."""
_STEP = 32
"""The number of inputs of an int8 layer is a multiple of this.

subtle: torch's kernels read whole vectors. With other numbers of inputs they give wrong products, or read beyond the
end of the weight."""


class Int8Linear(nn.Module):
    """A linear layer in bfloat16: inputs ``[..., in_features]``, outputs ``[..., out_features]``.

    Args:
        linear: The layer, which multiplies many rows.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, bias = linear.weight.detach().float(), linear.bias
        factors = weight.abs().amax(1).clamp(min=1e-12) / 127
        self.linear = linear
        self._bias = None if bias is None else bias.detach().to(torch.bfloat16)
        self._weight = (weight / factors[:, None]).round().to(torch.int8).contiguous()
        self._factors = factors.to(torch.bfloat16)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the products of the rows with the weight, plus the bias."""
        count = rows.numel() // rows.shape[-1]
        if not 0 < count <= _MOST_ROWS:
            output: torch.Tensor = self.linear(rows)
            return output
        flat = rows.reshape(count, -1).contiguous()
        product = torch._weight_int8pack_mm(flat, self._weight, self._factors)
        if self._bias is not None:
            product = product + self._bias
        return product.view(*rows.shape[:-1], -1)


def with_int8(network: nn.Module) -> None:
    """Replace the linear layers of a network in bfloat16 on a CPU, whose products torch must give as expected.

    Those whose number of inputs is not a multiple of 32 stay as they are.
    """
    if not _works():
        return
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and child.in_features % _STEP == 0:
                setattr(parent, name, Int8Linear(child))


def _works() -> bool:
    """Return whether the operator exists and gives the product: torch gives no guarantee for it."""
    numbers = torch.Generator().manual_seed(0)
    linear = nn.Linear(96, 64, bias=False, device="meta")  # no draw from torch's global stream
    linear.weight = nn.Parameter(torch.randn(64, 96, generator=numbers))
    rows = torch.randn(2, 96, generator=numbers)
    try:
        product = Int8Linear(linear)(rows.to(torch.bfloat16)).float()
    except (AttributeError, RuntimeError, TypeError):
        return False
    wanted = rows @ linear.weight.detach().T
    return product.shape == wanted.shape and bool(torch.allclose(product, wanted, rtol=0.05, atol=0.5))
