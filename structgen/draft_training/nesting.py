"""The outputs of a draft model with exits for whole texts.

Why: all exits are trained together, so that each of them is a good draft model (Sorted LLaMA). One pass to the last
layer passes all exits.
Source: Kavehzadeh et al. 2023 (Sorted LLaMA): the sum of the losses of all sub-models.
"""

from __future__ import annotations

import torch

from structgen.speculative.learned.nested_layers import NestedNetwork

__all__ = ["nested_outputs"]


def nested_outputs(network: NestedNetwork, embeddings: torch.Tensor, steps: int) -> list[torch.Tensor]:
    """Return the outputs of the last exit for each step, and then those of the other exits for the first step.

    Args:
        network: The draft model.
        embeddings: The embeddings of tokens 0 to T - 1 + steps, ``[texts, T + steps, hidden]``.
        steps: The number of steps. The draft model reads its draft tokens as it reads others, so later steps are the
            same outputs at later positions.

    Returns:
        States ``[texts, T, hidden]``. The output layer gives the distribution of token t + j + 2 in step j.
    """
    *others, last = network(embeddings)
    count = embeddings.shape[1] - steps
    return [last[:, 1 + step : 1 + step + count] for step in range(steps)] + [
        other[:, 1 : 1 + count] for other in others
    ]
