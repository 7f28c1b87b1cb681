"""The logits of a model after prompt tokens, at many positions of a text in one pass.

What: after each of the positions all embeddings follow, one after another. They see the text up to the position and
those before them, and nothing sees them: the same as when `speculative.learned.PromptTokens` drafts there.
Limits: gradients flow through the whole model to the embeddings, so it must not be packed (``pack=False``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["prompt_token_logits"]


def prompt_token_logits(
    model: PreTrainedModel, tokens: torch.Tensor, positions: Sequence[int], embeddings: torch.Tensor
) -> torch.Tensor:
    """Return the logits after each embedding.

    Args:
        model: The model of `transformers`.
        tokens: The tokens of one text, ``[tokens]``.
        positions: The numbers of the tokens after which the embeddings are read.
        embeddings: The embeddings, ``[embeddings, hidden size]``.

    Returns:
        ``[positions, embeddings, vocabulary]``. Those after embedding k, from 1, at position t give the distribution of
        token t + k + 1.
    """
    length, count, device = len(tokens), len(embeddings), tokens.device
    ends = torch.tensor(positions, device=device)
    own = model.get_input_embeddings()(tokens).detach()
    inputs = torch.cat([own, embeddings.to(own).repeat(len(ends), 1)])
    whole = len(inputs)
    sees = torch.ones((whole, whole), dtype=torch.bool, device=device).tril()
    after = torch.arange(whole - length, device=device) // max(
        1, count
    )  # which position each embedding follows
    sees[length:, :length] = torch.arange(length, device=device) <= ends[after][:, None]
    sees[length:, length:] &= after == after[:, None]
    mask = torch.zeros((whole, whole), dtype=own.dtype, device=device)
    mask = mask.masked_fill(~sees, torch.finfo(own.dtype).min)
    order = torch.arange(1, count + 1, device=device)
    places = torch.cat([torch.arange(length, device=device), (ends[:, None] + order).flatten()])
    logits: torch.Tensor = model(
        inputs_embeds=inputs[None],
        attention_mask=mask[None, None],
        position_ids=places[None],
        use_cache=False,
    ).logits
    return logits[0, length:].reshape(len(ends), count, -1)
