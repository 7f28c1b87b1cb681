"""The outputs of an EAGLE drafter for whole texts: after the model's own states, and after its own outputs.

Why: when it drafts, the second token and all later ones follow its own output. So training unrolls it: step j reads the
outputs of step j - 1 in place of the model's states.
What: at step j position t sees the positions up to t as step 0 has read them, and itself as steps 1 to j have. That is
what `speculative.learned.Eagle` sees when it drafts token j + 1 after position t.
Source: Li et al. 2025 (EAGLE-3), "training-time test".
"""

from __future__ import annotations

import torch

from structgen.speculative.learned.eagle import EagleNetwork

__all__ = ["unrolled"]


def unrolled(
    network: EagleNetwork, states: torch.Tensor, embeddings: torch.Tensor, steps: int
) -> list[torch.Tensor]:
    """Return the outputs of each step.

    Args:
        network: The drafter.
        states: The model's states at positions 0 to T - 1, ``[texts, T, layers, hidden]``.
        embeddings: The embeddings of tokens 1 to T - 1 + steps, ``[texts, T - 1 + steps, hidden]``.
        steps: The number of steps.

    Returns:
        For each step j what the layer returned at each position t, ``[texts, T, hidden]`` for a layer of one output.
        `EagleNetwork.continued` stands for the states of position t + j + 1, and the output layer makes of
        `EagleNetwork.predicted` the distribution of token t + j + 2.
    """
    layer, count = network.layer, states.shape[1]
    grouped = layer.sizes.heads // layer.sizes.kv_heads
    before = network.fused(states)
    later = torch.ones((count, count), dtype=torch.bool, device=states.device).triu(1)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    outputs = []
    for step in range(steps):
        inputs, embedded = network.layer_inputs(before, embeddings[:, step : step + count])
        angles = layer.angles(step, count).to(states.device)
        queries, keys, values = layer.projected(inputs, embedded, angles)
        seen.append((keys.repeat_interleave(grouped, 1), values.repeat_interleave(grouped, 1)))
        queries = queries * layer.sizes.head_size**-0.5
        first = (queries @ seen[0][0].transpose(-1, -2)).masked_fill_(later, -torch.inf)
        own = [(queries * key).sum(-1, keepdim=True) for key, _ in seen[1:]]
        weights = torch.cat([first, *own], -1).softmax(-1, dtype=queries.dtype)
        attended = weights[..., :count] @ seen[0][1]
        for index, (_, value) in enumerate(seen[1:]):
            attended = attended + weights[..., count + index, None] * value
        output = layer.finished(inputs, attended.transpose(1, 2).flatten(2))
        outputs.append(output)
        before = network.continued(output)
    return outputs
