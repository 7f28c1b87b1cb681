"""The decoder layers of a `transformers` model, for drafters that run only some of them."""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["NORMS", "find_layers", "shallow_copy"]

NORMS = ("norm", "final_layernorm")
"""The names that models give to the norm after the last layer."""


def find_layers(whole: object) -> tuple[Any, Any] | None:
    """Return the module of a model that holds its decoder layers, and the layers; None if it has none.

    Args:
        whole: A causal language model of `transformers`, such as Llama's, whose layers have ``self_attn``.
    """
    for inner in getattr(whole, "_modules", {}).values():
        layers = getattr(inner, "layers", None)
        if layers is not None and len(layers) and all(hasattr(layer, "self_attn") for layer in layers):
            return inner, layers
    return None


def shallow_copy(module: Any) -> Any:
    """Return the module with the same parameters, whose children may be replaced."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    # subtle: a method replaced on the module (compiled, say) would run the original module.
    copied.__dict__.pop("forward", None)
    return copied
