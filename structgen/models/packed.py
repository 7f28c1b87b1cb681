"""Linear layers whose weights are laid out once for the matrix products of decoding.

Why: a decode step multiplies a few rows with every weight. torch hands float32 products to MKL, which lays the weights
out again in each call (and on AMD uses kernels at half the speed of the machine). oneDNN can keep them laid out. With
SmolLM2 on two cores of a Zen 5, a pass over one token takes 22 ms instead of 40, over eight 27 instead of 55, and
prefill is twice as fast; in bfloat16, one token takes 18 ms instead of 26 (docs/performance.md).
What: `pack_linear` replaces each `nn.Linear` by a `PackedLinear`, which holds the packed weight only; the other one is
freed. A file stays mapped as long as any tensor of it does, so `unmap` copies the rest. Code that reads `weight` gets
it unpacked. Such a model is for inference on the CPU that packed it.
Source: these are the operators to which torch's own compiler lowers linear layers when it freezes a model.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from structgen.errors import ModelError

__all__ = ["PackedLinear", "can_pack", "pack_linear", "unmap"]


_DTYPE_GUARD = "packed_weights_stay"


class PackedLinear(nn.Module):
    """A linear layer for inference on a CPU: inputs ``[..., in_features]``, outputs ``[..., out_features]``."""

    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        bias = None if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias, persistent=False)  # state_dict() writes it next to the weight
        self._packed = _pack(linear.weight)
        self._weight: torch.Tensor | None = None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the product of `rows`, ``[..., in_features]``, with the packed weight, plus the bias."""
        if rows.shape[-1] != self.in_features:
            raise ModelError(f"a layer of {self.in_features} inputs was given rows of {rows.shape[-1]}")
        if rows.dtype != self._packed.dtype:  # under autocast
            rows = rows.to(self._packed.dtype)
        return _product(rows, self._packed, self.bias)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight":
            self._repack(value)
        else:
            super().__setattr__(name, value)

    def _repack(self, weight: torch.Tensor) -> None:
        if weight.shape != (self.out_features, self.in_features):
            raise ModelError(
                f"a weight of shape {tuple(weight.shape)} for a layer of {(self.out_features, self.in_features)}",
                hint="Load the model with pack=False to change the shapes of its layers.",
            )
        self._packed, self._weight = _pack(weight.to("cpu", self._packed.dtype)), None

    @property
    def packed_dtype(self) -> torch.dtype:
        """The dtype of the weight."""
        return self._packed.dtype

    @property
    def weight(self) -> torch.Tensor:
        """A copy of shape (out_features, in_features), which is kept.

        Writing into it has no effect; another weight may be set.
        """
        if self._weight is None:
            self._weight = self._packed.to_dense()
        return self._weight

    def extra_repr(self) -> str:
        """Return what torch shows of a linear layer between the parentheses of its repr."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )

    def _apply(self, fn: object, recurse: bool = True) -> PackedLinear:
        # A move to the same place changes nothing. The packed tensor has no such query, but its neighbours have.
        _check_stays(fn, self._packed.dtype)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self._packed.to_dense()
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: object,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name, held in (("weight", self.weight), ("bias", self.bias)):
            if held is None:
                continue
            given = state_dict.get(prefix + name)
            if given is None:
                missing_keys.append(prefix + name)
            elif given.shape != held.shape:
                error_msgs.append(f"size mismatch for {prefix + name}: {given.shape} for {held.shape}")
            elif name == "weight":
                self._repack(given)
            else:
                held.copy_(given)
        self._weight = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": self._packed.to_dense(), "_weight": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_packed": _pack(state["_packed"])})  # type: ignore[no-untyped-call]


class _Stays(nn.Module):
    """The first child of a model with packed layers: it refuses a move before anything else has moved."""

    def __init__(self, dtypes: set[torch.dtype]) -> None:
        super().__init__()
        self._dtypes = sorted(dtypes, key=str)

    def _apply(self, fn: object, recurse: bool = True) -> _Stays:
        for dtype in self._dtypes:
            _check_stays(fn, dtype)
        return self


def _check_stays(fn: Any, dtype: torch.dtype) -> None:
    sample = fn(torch.empty(0, dtype=dtype))
    if sample.device.type != "cpu" or sample.dtype != dtype:
        raise ModelError(
            f"the weights of this model are packed for the CPU in {_name(dtype)}, "
            f"and cannot become {_name(sample.dtype)} on {sample.device}",
            hint="Load it with structgen.load(..., device=..., dtype=...), or with pack=False.",
        )


def pack_linear(model: nn.Module, *, fresh: bool = False) -> int:
    """Pack the linear layers of a model, in place.

    Args:
        model: The model. Subclasses of `nn.Linear` are left alone: they may use their weights in other ways.
        fresh: The model was loaded just now and no weight was changed, so pages of its file may leave memory as soon as
            they are packed.

    Returns:
        The number of packed layers; 0 if this machine or torch cannot pack.
    """
    files = _mapped_files() if fresh else []
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
                checked[weight.dtype] = can_pack(weight.dtype)
            if checked[weight.dtype]:
                if id(child) not in packed:
                    packed[id(child)] = PackedLinear(child).train(child.training)
                    _drop_pages(weight, files)
                setattr(parent, name, packed[id(child)])
    # Their calls reach all children in turn.
    if packed and not hasattr(model, _DTYPE_GUARD) and not isinstance(model, nn.Sequential | nn.ModuleList):
        children = dict(model._modules)
        model._modules.clear()
        model.add_module(_DTYPE_GUARD, _Stays({layer.packed_dtype for layer in packed.values()}))
        model._modules.update(children)
    return len(packed)


def unmap(model: nn.Module) -> None:
    """Copy the parameters that remain after packing, so that the file they are mapped from is no longer held.

    With SmolLM2 that takes 110 MB and releases 510 MB. Nothing is done if the copies would be larger than the packed
    weights, as with experts that are not linear layers.
    """
    packed = sum(
        module.in_features * module.out_features * module.packed_dtype.itemsize
        for module in model.modules()
        if isinstance(module, PackedLinear)
    )
    rest = [parameter for parameter in model.parameters() if parameter.device.type == "cpu"]
    if sum(parameter.numel() * parameter.element_size() for parameter in rest) <= packed:
        for parameter in rest:
            parameter.data = parameter.data.clone()


def _mapped_files() -> list[tuple[int, int]]:
    """Return the address ranges of the weight files that are mapped into this process; empty if that is unknown."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            ranges = [line.split(maxsplit=1)[0].split("-") for line in lines if ".safetensors" in line]
    except OSError:
        return []
    return [(int(begin, 16), int(end, 16)) for begin, end in ranges]


def _drop_pages(weight: torch.Tensor, files: list[tuple[int, int]]) -> None:
    """Evict the pages of a mapped weight from this process's memory; a later access reads them from the file again."""
    page, begin = mmap.PAGESIZE, weight.data_ptr()
    first, last = -(-begin // page) * page, (begin + weight.numel() * weight.element_size()) // page * page
    if first < last and any(low <= first and last <= high for low, high in files):
        # subtle: only for pages of a file that nothing has written to; others would lose their content.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)


def _pack(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)  # type: ignore[no-any-return]


def _product(rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")  # type: ignore[no-any-return]


def can_pack(dtype: torch.dtype) -> bool:
    """Return whether the operators exist and behave as expected: torch gives no guarantee for them."""
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
        product, wanted = _product(rows, _pack(weight), bias), functional.linear(rows, weight, bias)
    except (AttributeError, RuntimeError, TypeError):  # no such operator, or one with other arguments
        return False
    is_alike = product.shape == wanted.shape and product.dtype == wanted.dtype
    return is_alike and bool(torch.allclose(product.float(), wanted.float(), rtol=0.02, atol=0.02))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
