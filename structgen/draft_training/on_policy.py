"""On-policy batches: texts that the draft model itself draws, labelled with the model's distributions.

Why: a draft model is used after its own tokens, and on the model's texts alone it never learns what comes after them.
What: it answers the prompts of training texts at temperature 1, with its last exit, under their constraints. An answer
has at most as many tokens as the model's. Then the model reads the texts, and its states give its distributions.
Invariant: a batch depends on the network, the texts and the seed only.
Cost: a step of the draft model for each token of the longest answer, and a pass of the model over the texts: several
times the time of a training step.
Source: Zhou et al. 2024 (DistillSpec); Agarwal et al. 2024 (on-policy distillation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from structgen.generation.distributions import bits_of
from structgen.speculative.learned.layers import DraftLayer
from structgen.speculative.learned.nested_layers import NestedNetwork
from structgen.speculative.learned.wrapped_models import transformers_model

from .batches import Batch, padded_batch
from .features import Features, as_half
from .masks import TextMasks
from .output_rows import OutputRows

if TYPE_CHECKING:
    from structgen.matcher import Matcher
    from structgen.models.hugging_face import HuggingFaceModel
    from structgen.vocabulary import Vocabulary

__all__ = ["OnPolicy", "draw_answers"]


@dataclass(frozen=True)
class OnPolicy:
    """Makes on-policy batches.

    Args:
        model: The model that the texts are from.
        features: The texts.
        masks: Their masks.
        embeddings: The model's embeddings, ``[tokens, hidden]``.
        rows: The rows of its output layer for the tokens that may be drafted.
        token_ids: These tokens.
        seed: The seed of all draws.
    """

    model: HuggingFaceModel
    features: Features
    masks: TextMasks
    embeddings: torch.Tensor
    rows: OutputRows
    token_ids: NDArray[np.int64]
    seed: int = 0

    def batch(self, network: NestedNetwork, texts: Sequence[int], step: int) -> Batch:
        """Return a batch of texts that begin with the prompts of these texts and end with the draft model's answers."""
        features = self.features
        firsts = [int(features.offsets[text]) for text in texts]
        asked = [int(features.answers[text]) for text in texts]
        prompts = [
            features.tokens[first : first + count].tolist()
            for first, count in zip(firsts, asked, strict=True)
        ]
        most = [features.length(text) - count for text, count in zip(texts, asked, strict=True)]
        rng = np.random.default_rng((self.seed, 3, step))
        answers, allowed = draw_answers(
            network,
            self.embeddings,
            self.rows,
            self.token_ids,
            prompts,
            rng.random((len(texts), max(most))),
            most=most,
            matchers=[self.masks.matcher(text) for text in texts],
            vocabulary=self.model.vocabulary,
        )
        written = [
            np.array([*prompt, *answer], dtype=np.int64)
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        masks: list[NDArray[np.bool_] | None] = []
        for prompt, mask in zip(prompts, allowed, strict=True):
            before = np.ones((len(prompt), len(self.token_ids)), dtype=bool)
            masks.append(None if mask is None else np.concatenate([before, mask]))
        return padded_batch(self._states(written), written, asked, masks, self.embeddings.device)

    def _states(self, texts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float16]]:
        """Return what the model's output layer reads after each token, ``[tokens, 1, hidden]`` for each text."""
        whole, last = transformers_model(self.model), self.model.layer_count
        ids = torch.zeros((len(texts), max(len(text) for text in texts)), dtype=torch.long)
        for row, text in enumerate(texts):  # what follows a text changes nothing before it
            ids[row, : len(text)] = torch.from_numpy(text)
        with torch.inference_mode():
            output = whole(
                input_ids=ids.to(whole.device),
                use_cache=False,
                logits_to_keep=1,
                output_hidden_states=[last],
            )
        states = as_half(output.hidden_states[last])
        return [states[row, : len(text), None] for row, text in enumerate(texts)]


def draw_answers(
    network: NestedNetwork,
    embeddings: torch.Tensor,
    rows: OutputRows,
    token_ids: NDArray[np.int64],
    prompts: Sequence[Sequence[int]],
    uniforms: NDArray[np.float64],
    *,
    most: Sequence[int],
    matchers: Sequence[Matcher | None],
    vocabulary: Vocabulary,
) -> tuple[list[list[int]], list[NDArray[np.bool_] | None]]:
    """Draw the draft model's own answers, all at the same time.

    Args:
        network: The draft model.
        embeddings: The embeddings of all tokens, ``[tokens, hidden]``.
        rows: The output rows of `token_ids`.
        token_ids: The tokens that may be drawn.
        prompts: The tokens before each answer; at least one.
        uniforms: A number from 0 to 1 for each token, by which it is drawn, ``[prompts, tokens]``.
        most: The largest number of tokens of each answer.
        matchers: At the start of each answer; None for one without a constraint. They advance.
        vocabulary: Has the tokens that end an answer.

    Returns:
        The tokens of each answer, and which of `token_ids` its constraint allowed at each of them, ``[tokens,
        token_ids]``; None without a constraint. An answer ends early where its constraint allows none of them.
    """
    ends = frozenset(vocabulary.eos_ids)
    answers: list[list[int]] = [[] for _ in prompts]
    allowed: list[list[NDArray[np.bool_]]] = [[] for _ in prompts]
    running = {row for row in range(len(prompts)) if most[row]}
    with torch.no_grad():
        reader = _Reader(network, embeddings, prompts)
        for step in range(max(most, default=0)):
            logits = rows(reader.last).double().cpu().numpy()
            drawn = [0] * len(prompts)
            for row in sorted(running):
                matcher = matchers[row]
                if matcher is not None:
                    mask = bits_of(matcher.mask(), vocabulary.size)[token_ids].astype(bool)
                    if not mask.any():
                        running.discard(row)
                        continue
                    allowed[row].append(mask)
                    logits[row, ~mask] = -np.inf
                masses = np.exp(logits[row] - logits[row].max()).cumsum()
                place = int(np.searchsorted(masses, uniforms[row, step] * masses[-1], side="right"))
                token = drawn[row] = int(token_ids[min(place, len(token_ids) - 1)])
                answers[row].append(token)
                if matcher is not None:
                    matcher.advance(token)
                if token in ends or len(answers[row]) == most[row]:
                    running.discard(row)
            if not running:
                break
            reader.read(drawn)
    masks = [
        None if matcher is None else np.array(found, dtype=bool).reshape(-1, len(token_ids))
        for matcher, found in zip(matchers, allowed, strict=True)
    ]
    return answers, masks


class _Reader:
    """The keys and values of a network for texts of different lengths, which end at the same column.

    Rotary positions count from the first column: attention depends on their differences only.
    """

    def __init__(
        self, network: NestedNetwork, embeddings: torch.Tensor, prompts: Sequence[Sequence[int]]
    ) -> None:
        self._network, self._embeddings = network, embeddings
        longest = max(len(prompt) for prompt in prompts)
        ids = torch.tensor([[*[0] * (longest - len(prompt)), *prompt] for prompt in prompts])
        starts = torch.tensor([longest - len(prompt) for prompt in prompts], device=embeddings.device)
        columns = torch.arange(longest, device=embeddings.device)
        self._padding = (columns < starts[:, None])[:, None, None]
        """Which of the prompts' columns belong to no text, ``[texts, 1, 1, columns]``."""
        sees = (columns[:, None] >= columns) & ~self._padding
        # subtle: a row of attention that sees nothing would be NaN.
        sees = sees | torch.eye(longest, dtype=torch.bool, device=embeddings.device)
        self._seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._count = 0
        self.last = self._passed(ids, sees)
        """The states of the last exit after the last tokens, ``[texts, hidden]``."""

    def read(self, tokens: Sequence[int]) -> None:
        """Read the next token of each text."""
        sees = functional.pad(~self._padding, (0, self._count + 1 - self._padding.shape[-1]), value=True)
        self.last = self._passed(torch.tensor(tokens)[:, None], sees)

    def _passed(self, ids: torch.Tensor, sees: torch.Tensor) -> torch.Tensor:
        states = self._embeddings[ids.to(self._embeddings.device)]
        for index, layer in enumerate(self._network.layers):
            assert isinstance(layer, DraftLayer)
            angles = layer.angles(self._count, ids.shape[1]).to(states.device)
            queries, keys, values = layer.projected(states, None, angles)
            if self._count:
                before = self._seen[index]
                keys, values = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
                self._seen[index] = keys, values
            else:
                self._seen.append((keys, values))
            attended = functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=sees, enable_gqa=True
            )
            states = layer.finished(states, attended.transpose(1, 2).flatten(2))
        self._count += ids.shape[1]
        normed: torch.Tensor = self._network.exit_norms[-1](states[:, -1])
        return normed
