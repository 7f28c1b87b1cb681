"""The batches of a training: texts of different lengths as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Batch", "padded_batch"]


@dataclass(frozen=True)
class Batch:
    """Texts that are padded at their ends."""

    states: torch.Tensor
    """The states after each token, ``[texts, tokens, layers, hidden]``. The last layer is the one that the model's
    output layer reads."""
    tokens: torch.Tensor
    """``[texts, tokens]``."""
    answers: torch.Tensor
    """Which tokens belong to answers, ``[texts, tokens]``."""
    allowed: torch.Tensor | None
    """Which of the drafted tokens the masks allow, ``[texts, tokens, drafted]``; None if no text has a constraint."""


def padded_batch(
    states: Sequence[NDArray[np.float16]],
    tokens: Sequence[NDArray[np.integer]],
    prompts: Sequence[int],
    allowed: Sequence[NDArray[np.bool_] | None],
    device: torch.device,
) -> Batch:
    """Return texts as a batch.

    Args:
        states: The states of each text, ``[tokens, layers, hidden]``.
        tokens: The tokens of each text.
        prompts: The number of tokens before each answer.
        allowed: The mask of each text, ``[tokens, drafted]``; None for one without a constraint.
        device: Where the tensors are.
    """
    longest = max(len(text) for text in tokens)
    all_states = np.zeros((len(tokens), longest, *states[0].shape[1:]), dtype=np.float16)
    all_tokens = np.zeros((len(tokens), longest), dtype=np.int64)
    answers = np.zeros((len(tokens), longest), dtype=bool)
    masks = [mask for mask in allowed if mask is not None]
    all_masks = np.ones((len(tokens), longest, masks[0].shape[1]), dtype=bool) if masks else None
    for row, text in enumerate(tokens):
        all_states[row, : len(text)] = states[row]
        all_tokens[row, : len(text)] = text
        answers[row, prompts[row] : len(text)] = True
        mask = allowed[row]
        if all_masks is not None and mask is not None:
            all_masks[row, : len(text)] = mask
    return Batch(
        torch.from_numpy(all_states).to(device, torch.bfloat16),
        torch.from_numpy(all_tokens).to(device),
        torch.from_numpy(answers).to(device),
        None if all_masks is None else torch.from_numpy(all_masks).to(device),
    )
