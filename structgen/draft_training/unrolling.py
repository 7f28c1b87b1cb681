"""The outputs of an EAGLE drafter for whole texts: after the model's own states, and after its own outputs.

Why: when it drafts, the second token and all later ones follow its own output. So training unrolls it: pass j reads the
outputs of pass j - 1 in place of the model's states.
What: at pass j position t sees the positions up to t as pass 0 has read them, and itself as passes 1 to j have. That is
what `speculative.learned.Eagle` sees when it drafts token j + 1 after position t. With k tokens for each pass (see
`EagleSizes.tokens_a_pass`) each position t has a block of k slots: at pass 0 the positions t - k + 1 to t, later the k
outputs of the pass before. They see each other.
Source: Li et al. 2025 (EAGLE-3), "training-time test"; Gao et al. 2024 (Falcon).
"""

from __future__ import annotations

import torch

from structgen.speculative.learned.eagle import EagleNetwork
from structgen.speculative.learned.layers import DraftLayer

__all__ = ["unrolled"]

_Seen = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of the slots that each position sees, each ``[texts, heads, T, head size]``."""


def unrolled(
    network: EagleNetwork,
    states: torch.Tensor,
    embeddings: torch.Tensor,
    steps: int,
    glanced: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """Return the outputs of each step.

    Args:
        network: The drafter.
        states: The model's states at positions 0 to T - 1, ``[texts, T, layers, hidden]``. With `glanced` also those of
            the next k - 1 positions.
        embeddings: The embeddings of tokens 1 to T - 1 + steps, ``[texts, T - 1 + steps, hidden]``.
        steps: The number of steps: of tokens that are drafted.
        glanced: Which slots of pass 0 read what they should give, ``[texts, T, k - 1]``: slot i, from 1, the model's
            state at t + i and the token after it. The last slot never does. Needs at least k steps.

    Returns:
        For each step j what the layer returned for each position t, ``[texts, T, hidden]`` for a layer of one output.
        `EagleNetwork.continued` stands for the states of position t + j + 1, and the output layer makes of
        `EagleNetwork.predicted` the distribution of token t + j + 2.
    """
    layer, count, width = network.layer, embeddings.shape[1] + 1 - steps, network.sizes.tokens_a_pass
    fused = network.fused(states)
    inputs, embedded = network.layer_inputs(fused[:, :count], embeddings[:, :count])
    queries, *seen_first = layer.projected(inputs, embedded, layer.angles(0, count).to(states.device))
    history = _shared(layer, *seen_first)
    # A slot before the start of the text reads position 0.
    places = [
        (torch.arange(count, device=states.device) - width + slot).clamp(0) for slot in range(1, width + 1)
    ]
    reads = [(inputs[:, place], queries[:, :, place]) for place in places]
    own: _Seen = []
    local: _Seen = []
    if glanced is not None:
        reads, local = _glancing(network, fused, embeddings, places, reads, history, glanced)
    outputs: list[torch.Tensor] = []
    while True:
        # The glancing slots take the place of the last positions of the history.
        hidden = torch.ones((count, count), dtype=torch.bool, device=states.device)
        hidden = hidden.triu(1 - width if local else 1)
        for inputs, queries in reads[: steps - len(outputs)]:
            outputs.append(layer.finished(inputs, _attended(queries, history, hidden, [*local, *own])))
        if len(outputs) == steps:
            return outputs
        first, local = len(outputs) - width, []
        reads = []
        for slot in range(width):
            inputs, embedded = network.layer_inputs(
                network.continued(outputs[first + slot]),
                embeddings[:, first + slot + 1 : first + slot + 1 + count],
            )
            angles = layer.angles(first + slot + 1, count).to(states.device)
            queries, *seen = layer.projected(inputs, embedded, angles)
            reads.append((inputs, queries))
            own.append(_shared(layer, *seen))


def _glancing(
    network: EagleNetwork,
    fused: torch.Tensor,
    embeddings: torch.Tensor,
    places: list[torch.Tensor],
    reads: list[tuple[torch.Tensor, torch.Tensor]],
    history: tuple[torch.Tensor, torch.Tensor],
    glanced: torch.Tensor,
) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], _Seen]:
    """Return what the slots of pass 0 read, and their keys and values, where some of them glance."""
    layer, count = network.layer, len(places[0])
    changed, local = [], []
    for slot, (place, (inputs, queries)) in enumerate(zip(places, reads, strict=True)):
        keys, values = (each[:, :, place] for each in history)
        if slot < glanced.shape[-1]:
            ahead = slice(slot + 1, slot + 1 + count)
            new_inputs, embedded = network.layer_inputs(fused[:, ahead], embeddings[:, ahead])
            angles = layer.angles(0, count).to(fused.device)[:, place]
            new_queries, *new_seen = layer.projected(new_inputs, embedded, angles)
            new_keys, new_values = _shared(layer, *new_seen)
            given = glanced[:, :, slot, None]
            inputs = torch.where(given, new_inputs, inputs)
            queries = torch.where(given[:, None], new_queries, queries)
            keys = torch.where(given[:, None], new_keys, keys)
            values = torch.where(given[:, None], new_values, values)
        changed.append((inputs, queries))
        local.append((keys, values))
    return changed, local


def _shared(layer: DraftLayer, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values for each of the heads that share them."""
    grouped = layer.sizes.heads // layer.sizes.kv_heads
    return keys.repeat_interleave(grouped, 1), values.repeat_interleave(grouped, 1)


def _attended(
    queries: torch.Tensor, history: tuple[torch.Tensor, torch.Tensor], hidden: torch.Tensor, own: _Seen
) -> torch.Tensor:
    """Return what attention gives at each position, ``[texts, T, heads * head size]``.

    Args:
        queries: The queries, ``[texts, heads, T, head size]``.
        history: The keys and values of all positions.
        hidden: Which of them each position does not see, ``[T, T]``.
        own: Keys and values that only the position itself sees.
    """
    queries = queries * queries.shape[-1] ** -0.5
    first = (queries @ history[0].transpose(-1, -2)).masked_fill(hidden, -torch.inf)
    scores = [(queries * key).sum(-1, keepdim=True) for key, _ in own]
    weights = torch.cat([first, *scores], -1).softmax(-1, dtype=queries.dtype)
    attended = weights[..., : len(hidden)] @ history[1]
    for index, (_, value) in enumerate(own):
        attended = attended + weights[..., len(hidden) + index, None] * value
    return attended.transpose(1, 2).flatten(2)
