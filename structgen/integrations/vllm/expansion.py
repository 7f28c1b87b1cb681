"""A correction of vLLM's rejection sampler on a CPU.

Why: the sampler repeats the temperature, top-p and top-k of each request for its draft tokens. On a CPU, vLLM 0.32
writes the result into a copy of the output unless it holds 64-bit integers. So it divides logits by memory that was
not initialised, and tokens at a temperature do not have their distribution.
What: `correct_expansion` replaces vLLM's function. Workers with `GrammarProposer` call it.
Source: `_expand_kernel_impl` in vllm/utils/cpu_triton_utils.py of 0.32.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["correct_expansion", "expand_batch_to_tokens"]


def correct_expansion() -> None:
    """Replace vLLM's function in this process, if its platform is a CPU."""
    from vllm.platforms import current_platform
    from vllm.v1.sample import rejection_sampler

    if current_platform.is_cpu():
        rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens


def expand_batch_to_tokens(
    x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: Any = 0, replace_to: Any = 0
) -> torch.Tensor:
    """Repeat the value of each request for its tokens.

    Args:
        x: The values, ``[requests]``.
        cu_num_tokens: The number of tokens of each request and those before it, ``[requests]``.
        num_tokens: The number of all tokens.
        replace_from: A value that is replaced.
        replace_to: What replaces it.

    Returns:
        The values, ``[num_tokens]``.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
    return values.repeat_interleave(counts.to(torch.int64), output_size=num_tokens)
