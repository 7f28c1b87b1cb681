"""Linear layers whose weights are laid out once for the products that decoding makes.

Why: a step of decoding multiplies a few rows with every weight. torch hands float32 products to MKL, which lays the
weights out anew in each call (and on AMD takes kernels that use half of the machine); oneDNN can keep them laid out.
With SmolLM2 on two cores of a Zen 5 a pass over one token takes 22 ms instead of 40, over eight 27 instead of 55, and
prompts are read twice as fast; in bfloat16 18 instead of 26 (docs/performance.md).
What: `pack_linear` puts a `PackedLinear` where an `nn.Linear` was. It holds the packed weight only: the other is freed,
or, if it was mapped from a file, not read again. What asks for `weight` gets it unpacked. Such a model is for inference
on the CPU that packed it.
Source: these are the operators to which torch's own compiler lowers linear layers when it freezes a model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from structgen.errors import ModelError

__all__ = ["PackedLinear", "pack_linear"]


class PackedLinear(nn.Module):
    """A linear layer for inference on a CPU: inputs (..., in_features), outputs (..., out_features)."""

    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        bias = None if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias, persistent=False)  # state_dict() writes it beside the weight
        self._packed = _pack(linear.weight)
        self._weight: torch.Tensor | None = None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return _product(rows, self._packed, self.bias)

    @property
    def weight(self) -> torch.Tensor:
        """Shape (out_features, in_features); unpacked where it is first asked for, and kept from then on."""
        if self._weight is None:
            self._weight = self._packed.to_dense()
        return self._weight

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )

    def _apply(self, fn: Any, recurse: bool = True) -> PackedLinear:
        # To where it is already, nothing moves. The packed tensor cannot be asked, but what is beside it can.
        sample = fn(torch.empty(0, dtype=self._packed.dtype))
        if sample.device.type != "cpu" or sample.dtype != self._packed.dtype:
            raise ModelError(
                f"the weights of this model are packed for the CPU in {_name(self._packed.dtype)}, "
                f"and cannot become {_name(sample.dtype)} on {sample.device}",
                hint="Load it with structgen.load(..., device=..., dtype=...), or with pack=False.",
            )
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self._packed.to_dense()
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": self._packed.to_dense(), "_weight": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_packed": _pack(state["_packed"])})  # type: ignore[no-untyped-call]


def pack_linear(model: nn.Module) -> int:
    """Pack the linear layers of a model, in place: how many were. None where this machine or torch cannot.

    Subclasses of `nn.Linear` are left alone: they may use their weights in their own way.
    """
    packed: dict[int, PackedLinear] = {}
    checked: dict[torch.dtype, bool] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is not nn.Linear or child._forward_hooks or child._forward_pre_hooks:
                continue
            weight = child.weight
            if weight.device.type != "cpu" or not weight.numel():
                continue
            if weight.dtype not in checked:
                checked[weight.dtype] = _can_pack(weight.dtype)
            if checked[weight.dtype]:
                if id(child) not in packed:
                    packed[id(child)] = PackedLinear(child).train(child.training)
                setattr(parent, name, packed[id(child)])
    return len(packed)


def _pack(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)  # type: ignore[no-any-return]


def _product(rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")  # type: ignore[no-any-return]


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether the operators are there and do what they are taken to do: torch promises nothing about them."""
    has_library = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (has_library and "AVX" in torch.backends.cpu.get_cpu_capability()):
        return False
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    try:
        if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
        numbers = torch.Generator().manual_seed(0)
        weight = torch.randn(24, 40, generator=numbers).to(dtype)
        rows, bias = torch.randn(3, 40, generator=numbers).to(dtype), torch.ones(24, dtype=dtype)
        found, wanted = _product(rows, _pack(weight), bias), functional.linear(rows, weight, bias)
    except (AttributeError, RuntimeError, TypeError):  # no such operator, or one that takes other things
        return False
    is_alike = found.shape == wanted.shape and found.dtype == wanted.dtype
    return is_alike and bool(torch.allclose(found.float(), wanted.float(), rtol=0.02, atol=0.02))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
