"""The outputs of all heads of Medusa or Hydra for whole texts, teacher-forced.

What: head k at position t reads the model's state there and the text's own tokens t + 1 to t + k. That is what
`speculative.learned.Medusa` and `Hydra` read when the draft so far is right.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from structgen.speculative.learned.heads import TRIGRAM, HeadsNetwork

__all__ = ["head_outputs"]


def head_outputs(network: HeadsNetwork, states: torch.Tensor, embeddings: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs of each head.

    Args:
        network: The heads.
        states: The model's states after the final norm at positions 0 to T - 1, ``[texts, T, hidden]``.
        embeddings: The embeddings of tokens 0 to T - 1 + heads, ``[texts, T + heads, hidden]``. The texts start at
            token 0.

    Returns:
        For each head k, from 1, the states that stand for those of position t + k, ``[texts, T, hidden]``; the model's
        output layer gives the distribution of token t + k + 1.
    """
    heads, count = len(network.heads), states.shape[1]
    encoded = network.encoded(functional.pad(embeddings, (0, 0, TRIGRAM - 1, 0)))[:, 1:]
    if network.context_layer is not None:
        states = network.context_layer(states, encoded[:, :count])
    after = encoded.unfold(1, heads, 1).transpose(-1, -2)  # tokens t + 1 to t + heads at each position t
    by_head = states[:, :, None].expand_as(after)
    if network.draft_layer is not None:
        drafted = network.draft_layer(by_head.flatten(0, 1), after.flatten(0, 1))
        by_head = drafted.unflatten(0, states.shape[:2])
    return [head(by_head[:, :, index], after[:, :, : index + 1]) for index, head in enumerate(network.heads)]
