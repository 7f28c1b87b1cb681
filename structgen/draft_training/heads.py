"""The sizes of heads of Medusa or Hydra with their options, and their outputs for whole texts, teacher-forced.

What: head k at position t reads the model's state there and the text's own tokens t + 1 to t + k. That is what
`speculative.learned.Medusa` and `Hydra` read when the draft so far is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from structgen.errors import OptionError
from structgen.speculative.checks import check_whole
from structgen.speculative.learned.heads import MOST_BLOCKS, TRIGRAM, HeadSizes, HeadsNetwork
from structgen.speculative.learned.layers import LayerSizes
from structgen.speculative.learned.size_checks import LARGEST_SIZE

__all__ = ["HeadOptions", "head_outputs", "head_sizes"]


@dataclass(frozen=True)
class HeadOptions:
    """What heads of Medusa and Hydra are trained with."""

    blocks: int = 1
    """The number of residual blocks of each head (Hydra++)."""
    inner: int = 0
    """The width of the inner layer of a block; 0 for blocks with one matrix."""
    context_layer: bool = False
    """Whether a decoder layer reads the states of the whole text. The heads read its output (Hydra++, Clover)."""
    draft_layer: bool = False
    """Whether a decoder layer reads the drafted tokens, in place of the heads (Clover)."""
    trigrams: bool = False
    """Whether each head reads the last three tokens, encoded together, in place of all drafted ones (Chimera)."""

    def __post_init__(self) -> None:
        check_whole("blocks", self.blocks, high=MOST_BLOCKS)
        check_whole("inner", self.inner, low=0, high=LARGEST_SIZE)
        if self.draft_layer and self.trigrams:
            raise OptionError(
                "a layer over the drafted tokens and trigrams both say how the draft is read",
                hint="Use one of them: --draft-layer (Clover) or --trigrams (Chimera).",
            )

    @property
    def follow_draft(self) -> bool:
        """Whether they are options of heads that read drafted tokens."""
        return self.draft_layer or self.trigrams


def head_sizes(
    layer: LayerSizes, layer_count: int, steps: int, options: HeadOptions, *, reads_draft: bool
) -> HeadSizes:
    """Return the sizes of heads that are trained with these options.

    Args:
        layer: The sizes of a decoder layer of the model.
        layer_count: The number of the model's layers.
        steps: The number of heads.
        options: The options.
        reads_draft: Whether the heads read the drafted tokens: those of Hydra do, those of Medusa do not.
    """
    reads = 0 if not reads_draft or options.draft_layer else 1 if options.trigrams else steps
    return HeadSizes(
        layer.hidden,
        layer_count,
        steps,
        reads=reads,
        blocks=options.blocks,
        inner=options.inner,
        trigrams=options.trigrams,
        draft_layer=layer if options.draft_layer else None,
        context_layer=layer if options.context_layer else None,
    )


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
