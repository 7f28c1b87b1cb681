"""What a trained drafter guesses in texts of the model: the first token of a draft, the second, and so on.

What: its outputs at every position of an answer, where the draft so far is right, with the model's own states. That is
what it computes when it drafts, so examples for an acceptance head or a judge follow from it without drafting.
Cost: one pass of the drafter over the texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from structgen.errors import ModelError
from structgen.progress import ProgressBar
from structgen.speculative.learned import DraftWeights
from structgen.speculative.learned.acceptance import network_tensors
from structgen.speculative.learned.loading import drafter_of

from .features import Features
from .masks import TextMasks
from .recipes import frozen_rows, outputs_of

if TYPE_CHECKING:
    from structgen.models.hugging_face import HuggingFaceModel

__all__ = ["Guesses", "guesses_in_texts"]

_STEPS = 3


@dataclass(frozen=True)
class Guesses:
    """The guesses of one draft step in one text."""

    text: int
    """The number of the text."""
    ahead: int
    """The number of draft tokens before the guess."""
    positions: NDArray[np.int64]
    """The numbers of the tokens that are guessed, ``[guesses]``."""
    states: torch.Tensor
    """The drafter's output states that its logits are computed from, ``[guesses, hidden size]``."""
    logits: torch.Tensor
    """Of the drafter's tokens, ``[guesses, drafter tokens]``."""
    allowed: torch.Tensor | None
    """Which of these the constraint allows, of the same shape; None for a text without a constraint."""


def guesses_in_texts(
    weights: DraftWeights, model: HuggingFaceModel, features: Features, *, progress: bool = False
) -> Iterator[Guesses]:
    """Yield the guesses of a drafter, text by text, with the number of draft tokens ascending.

    Those of a draft model with several exits are its last exit's.

    Args:
        weights: The drafter's weights.
        model: The model.
        features: Texts of the model, with the states that the drafter reads.
        progress: Whether to show a progress bar.

    Raises:
        ModelError: The weights are not for the model, or the drafter has an output layer or embeddings of its own.
        OptionError: Drafters of this kind have no states: prompt tokens.
    """
    outputs = outputs_of(weights.kind)
    drafter = drafter_of(weights)
    drafter.prepare(model)
    if weights.sizes.get("output_rows") or weights.sizes.get("embedding_rows"):
        raise ModelError("a drafter with an output layer or embeddings of its own cannot be used for this")
    embeddings, rows = frozen_rows(model, weights.token_ids)
    network = drafter.new_network()
    network.load_state_dict(network_tensors(weights))
    network.to(embeddings.device).eval()
    steps = int(getattr(drafter.sizes, "count", _STEPS))
    columns = [features.layers.index(layer) for layer in drafter.hidden_layers]
    masks = TextMasks(features, model.vocabulary, weights.token_ids)
    with ProgressBar(len(features), "guesses", progress) as bar, torch.inference_mode():
        for text in range(len(features)):
            bar.advance()
            first, length = int(features.offsets[text]), features.length(text)
            count = length - 1 - steps
            if count < 1:
                continue
            states = torch.from_numpy(np.array(features.states[first : first + length - 1, columns]))
            tokens = torch.from_numpy(features.tokens[first : first + length - 1].astype(np.int64))
            inputs = states.to(embeddings)[None], embeddings[tokens.to(embeddings.device)][None]
            mask = masks.of(text)
            start = int(features.answers[text])
            for ahead, output in enumerate(outputs(network, *inputs, steps)[:steps]):
                guessed = np.arange(ahead + 2, ahead + 2 + count)
                chosen = guessed >= start
                there = output[0, torch.from_numpy(chosen).to(output.device)]
                guessed = guessed[chosen]
                yield Guesses(
                    text,
                    ahead,
                    guessed,
                    there,
                    rows(there),
                    None if mask is None else torch.from_numpy(mask[guessed]).to(there.device),
                )
