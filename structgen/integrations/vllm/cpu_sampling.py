"""Corrections of vLLM's rejection sampler on a CPU.

Why: two faults of vLLM 0.32.
1. The sampler repeats the temperature, top-p and top-k of each request for its draft tokens. On a CPU, the result is
   written into a copy of the output unless it holds 64-bit integers. So logits are divided by memory that was not
   initialised, and tokens at a temperature do not have their distribution.
2. A step without any draft token, such as that of a first prompt, ends the engine with an error if a request has a
   top-k and none has a top-p. The largest top-k of no tokens is not defined.
What: `correct_cpu_sampling` replaces two of vLLM's functions. Workers with `GrammarProposer` call it.
Source: `_expand_kernel_impl` in vllm/utils/cpu_triton_utils.py and `apply_top_k_only` in
vllm/v1/sample/ops/topk_topp_sampler.py of 0.32.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["correct_cpu_sampling", "expand_batch_to_tokens"]

_MARK = "__structgen__"


def correct_cpu_sampling() -> None:
    """Replace vLLM's functions in this process, if its platform is a CPU."""
    from vllm.platforms import current_platform
    from vllm.v1.sample import rejection_sampler

    if not current_platform.is_cpu():
        return
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    if not hasattr(rejection_sampler.apply_sampling_constraints, _MARK):
        rejection_sampler.apply_sampling_constraints = _of_some_tokens(
            rejection_sampler.apply_sampling_constraints
        )


def _of_some_tokens(original: Any) -> Any:
    """Return vLLM's `apply_sampling_constraints`, with nothing to do for no tokens."""

    @functools.wraps(original)
    def apply_sampling_constraints(logits: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        return original(logits, *args, **options) if len(logits) else logits

    setattr(apply_sampling_constraints, _MARK, original)
    return apply_sampling_constraints


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
