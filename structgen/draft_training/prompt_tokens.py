"""Training of prompt tokens (PPD): the states of a model after them, at many positions of texts in one pass.

What: after each of the positions all embeddings follow, one after another. They see the text up to the position and
those before them, and nothing sees them: the same as when `speculative.learned.PromptTokens` drafts there.
Cost: the whole model reads the texts, without gradients, and then the embeddings at the positions, with them. So a step
reads some positions of each text only.
Limits: gradients flow through the whole model to the embeddings, so it must not be packed (``pack=False``).
Source: Chen et al. 2024 (Parallel Prompt Decoding, PPD): https://arxiv.org/abs/2405.18628, trained with the model's own
distributions as targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from structgen.errors import ModelError
from structgen.models.caches import memory_of, reads_trees
from structgen.models.packed import PackedLinear
from structgen.speculative.learned.prompt_tokens import PromptTokensNetwork

from .training import Training

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["PromptTokenTraining", "prompt_token_states"]

_POSITIONS = 24
"""The largest number of positions of a text that a step reads."""


def prompt_token_states(
    model: PreTrainedModel, tokens: torch.Tensor, positions: torch.Tensor, embeddings: torch.Tensor
) -> torch.Tensor:
    """Return the states after each embedding that the output layer reads.

    Args:
        model: The model of `transformers`.
        tokens: The tokens of the texts, ``[texts, tokens]``. What is after the positions has no effect.
        positions: The numbers of the tokens after which the embeddings are read, ``[texts, positions]``.
        embeddings: The embeddings, ``[embeddings, hidden size]``.

    Returns:
        ``[texts, positions, embeddings, hidden size]``. From the state after embedding k, from 1, at position t the
        output layer gives the distribution of token t + k + 1.

    Raises:
        ModelError: The model does not keep keys and values, or does not take masks.
    """
    from transformers import DynamicCache

    body, own = model.base_model, model.get_input_embeddings().weight
    memory = memory_of(model, len(own))
    if memory.argument is None or not memory.has_slots or not reads_trees(model):
        raise ModelError(
            f"{type(model).__name__} cannot read prompt tokens: it keeps no keys and values, or takes no masks",
            hint="Train a drafter of another kind.",
        )
    cache = {memory.argument: DynamicCache(config=model.config)}
    (texts, length), places, count = tokens.shape, positions.shape[1], len(embeddings)
    with torch.no_grad():
        body(input_ids=tokens, use_cache=True, **cache)
    ends = positions.repeat_interleave(count, 1)
    after = (
        torch.arange(places * count, device=tokens.device) // count
    )  # which position each embedding follows
    among = (after == after[:, None]).tril()
    sees = torch.cat(
        [
            torch.arange(length, device=tokens.device) <= ends[..., None],
            among.expand(texts, -1, -1),
        ],
        -1,
    )
    mask = torch.zeros(sees.shape, dtype=own.dtype, device=tokens.device)
    mask = mask.masked_fill(~sees, torch.finfo(own.dtype).min)
    order = torch.arange(1, count + 1, device=tokens.device)
    states: torch.Tensor = body(
        inputs_embeds=embeddings.to(own).repeat(places, 1).expand(texts, -1, -1),
        attention_mask=mask[:, None],
        position_ids=(positions[..., None] + order).flatten(1),
        use_cache=True,
        **cache,
    ).last_hidden_state
    return states.reshape(texts, places, count, -1)


class PromptTokenTraining(Training):
    """The training of prompt tokens: as that of other drafters, at some positions of each text.

    Args:
        model: The model of `transformers`. Its weights do not change.
        network: The embeddings.
        read: What `Training` reads, from `Training.features` on.

    Raises:
        ModelError: The model is packed.
    """

    def __init__(self, model: PreTrainedModel, network: nn.Module, *read: Any) -> None:  # noqa: ANN401 — as in Training
        if any(isinstance(module, PackedLinear) for module in model.modules()):
            raise ModelError(
                "prompt tokens are trained through the whole model, and this one is packed for inference",
                hint="Load it with pack=False.",
            )
        super().__init__(network, self._outputs_at_positions, *read)
        self._model = model
        self._tokens = self._chosen = torch.zeros((0, 0))

    def run(self, *, progress: bool = False, resume: bool = False) -> dict[str, torch.Tensor]:
        """Train; return the best weights."""
        frozen = [weight for weight in self._model.parameters() if weight.requires_grad]
        for weight in frozen:  # their gradients would take as much memory as they do
            weight.requires_grad_(False)
        try:
            return super().run(progress=progress, resume=resume)
        finally:
            for weight in frozen:
                weight.requires_grad_(True)

    def _positions(
        self, tokens: torch.Tensor, answers: torch.Tensor, count: int, *, is_validation: bool
    ) -> list[torch.Tensor]:
        """Return some of the positions at which all steps are before a token of the answer."""
        (possible, *others) = super()._positions(tokens, answers, count, is_validation=True)
        rng = np.random.default_rng((self.options.seed, 2, 0 if is_validation else self._step + 1))
        chosen = torch.zeros_like(possible)
        for row, each in enumerate(possible):
            found = each.nonzero()[:, 0].cpu().numpy()
            chosen[row, torch.from_numpy(rng.permutation(found)[:_POSITIONS])] = True
        self._tokens, self._chosen = tokens[:, :count], chosen
        return [chosen] * (1 + len(others))

    def _outputs_at_positions(
        self, network: nn.Module, states: torch.Tensor, embeddings: torch.Tensor, steps: int
    ) -> list[torch.Tensor]:
        """Return the states of each step, ``[texts, count, hidden]``; 0 where they were not computed."""
        assert isinstance(network, PromptTokensNetwork)
        chosen = self._chosen
        most = max(1, int(chosen.sum(1).max()))
        positions = torch.zeros((len(chosen), most), dtype=torch.long, device=chosen.device)
        is_given = torch.zeros_like(positions, dtype=torch.bool)
        for row, each in enumerate(chosen):
            found = each.nonzero()[:, 0]
            positions[row, : len(found)], is_given[row, : len(found)] = found, True
        computed = prompt_token_states(self._model, self._tokens, positions, network.embeddings)[is_given]
        outputs = []
        for step in range(steps):
            whole = computed.new_zeros((*chosen.shape, computed.shape[-1]))
            outputs.append(whole.masked_scatter(chosen[..., None], computed[:, step]))
        return outputs
