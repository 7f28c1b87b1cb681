"""The outputs of an adapter (Kangaroo) for whole texts.

Why: when it drafts, the adapter reads the states of the model's first layers, at draft tokens as at others. So training
needs no unrolling: one causal pass over the states of a text is what `speculative.learned.Kangaroo` computes.
Source: Liu et al. 2024 (Kangaroo): cross-entropy with the model's distribution as target.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from structgen.speculative.learned.kangaroo import KangarooNetwork

__all__ = ["adapted"]


def adapted(network: KangarooNetwork, states: torch.Tensor) -> torch.Tensor:
    """Return the adapter's outputs, before its output norm.

    Args:
        network: The adapter.
        states: The model's states after `KangarooSizes.exit_layer` layers, ``[texts, tokens, hidden]``. Texts of
            different lengths are padded at their ends.

    Returns:
        For each position t the state whose output layer gives the distribution of token t + 1,
        ``[texts, tokens, hidden]``.
    """
    layer, count = network.layer, states.shape[1]
    queries, keys, values = layer.projected(states, None, layer.angles(0, count).to(states.device))
    attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    return layer.finished(states, attended.transpose(1, 2).flatten(2))
