"""Trimmed vocabularies (VocabTrim): the tokens that a drafter may propose, and how to find them in calibration text.

Why: the output layer is a large part of the time of a small drafter, and texts consist of few of the tokens.
What: `frequent_tokens` counts the tokens of calibration texts. A `TrimmedVocabulary` combines the logits of such tokens
with the constraint's mask, and makes distributions of them.
Invariant: only tokens of the list get a probability, and only those that the mask allows. Where it allows none of them
there is no distribution, and the draft ends.
Source: Goel et al. 2025 (VocabTrim).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structgen.errors import ModelError, OptionError, a_kind
from structgen.generation.distributions import bits_of
from structgen.vocabulary import Vocabulary

from .checks import check_whole
from .drafters import Context

__all__ = [
    "MIN_TEMPERATURE",
    "TrimmedVocabulary",
    "check_in_vocabulary",
    "checked_token_ids",
    "frequent_tokens",
    "most_frequent",
]

MIN_TEMPERATURE = 0.05
"""The lowest temperature of a drafter's distribution: a greedy draft needs one, too."""


class TrimmedVocabulary:
    """Some tokens of a vocabulary, over which a drafter's output layer gives logits.

    Args:
        token_ids: The tokens, ascending.
        size: The size of the vocabulary.
    """

    def __init__(self, token_ids: NDArray[np.int64], size: int) -> None:
        self.token_ids, self.size = token_ids, size

    def masked(self, logits: NDArray[np.float32], context: Context) -> NDArray[np.float32] | None:
        """Return logits with minus infinity where the constraint forbids a token; None if it forbids all of them."""
        if not context.is_constrained:
            return logits
        allowed = bits_of(context.matcher.mask(), self.size)[self.token_ids]
        return np.where(allowed, logits, np.float32(-np.inf)) if allowed.any() else None

    def distribution(self, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
        """Return the distribution over the whole vocabulary, not normalised, ``[size]``."""
        scaled = logits.astype(np.float64) / max(temperature, MIN_TEMPERATURE)
        distribution = np.zeros(self.size)
        distribution[self.token_ids] = np.exp(scaled - scaled.max())
        return distribution

    def expanded(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return logits over the whole vocabulary, ``[size]``; those of other tokens are minus infinity."""
        whole = np.full(self.size, -np.inf, dtype=np.float32)
        whole[self.token_ids] = logits
        return whole


def checked_token_ids(token_ids: ArrayLike | None) -> NDArray[np.int64] | None:
    """Return a list of tokens without repetitions, ascending; None for None.

    Raises:
        OptionError: It is empty, or contains other things than token ids.
    """
    if token_ids is None:
        return None
    try:
        given = np.asarray(token_ids)
    except ValueError:  # rows of different lengths
        given = np.empty((0, 0))
    if (
        given.ndim != 1
        or not len(given)
        or given.dtype.kind not in "iu"
        or given.min() < 0
        or given.max() > np.iinfo(np.int64).max
    ):
        raise OptionError(
            f"token_ids is {token_ids!r:.60}; it must be a list of token ids, with at least one",
            hint="frequent_tokens(model.vocabulary, texts) of structgen.speculative returns such a list.",
        )
    return np.unique(given).astype(np.int64)


def check_in_vocabulary(token_ids: NDArray[np.int64], size: int) -> None:
    """Check that a model has the tokens of a list.

    Args:
        token_ids: The tokens, ascending.
        size: The size of the model's vocabulary.

    Raises:
        ModelError: It does not have one of them.
    """
    if token_ids[-1] >= size:
        raise ModelError(f"token_ids contains the token {token_ids[-1]}; the model has {size} tokens")


def most_frequent(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the tokens with the largest counts above 0, ascending; of equal counts those of smaller numbers.

    Args:
        counts: How often each token occurs, ``[tokens]``.
        most: The largest number of tokens.
    """
    chosen = np.argsort(-counts, kind="stable")[:most]
    return np.sort(chosen[counts[chosen] > 0]).astype(np.int64)


def frequent_tokens(
    vocabulary: Vocabulary, texts: Iterable[str | Sequence[int]], most: int = 8192
) -> NDArray[np.int64]:
    """Return the tokens that calibration texts have most often, ascending: those that a drafter may propose.

    Texts like those that will be generated are best, such as answers of the model to earlier requests.

    Args:
        vocabulary: The vocabulary of the model that drafts, `LanguageModel.vocabulary`.
        texts: Each as a text or as its tokens. After a text, the end of text counts as one of its tokens.
        most: The largest number of tokens.

    Raises:
        OptionError: There are no texts, one of them cannot be tokenized, or it has a token beyond the vocabulary.

    Example:
        >>> small = structgen.load("small-model")
        >>> tokens = frequent_tokens(small.vocabulary, answers, 4096)
        >>> drafter = DraftModel(small, token_ids=tokens)

    Source: Goel et al. 2025 (VocabTrim).
    """
    check_whole("most", most, high=10_000_000)
    if isinstance(texts, str):
        raise OptionError("texts is one text; it must be a list of texts", hint="Write [text].")
    counts = np.zeros(vocabulary.size, dtype=np.int64)
    for number, text in enumerate(texts, 1):
        counts += np.bincount(
            np.array(_tokens(vocabulary, text, number), dtype=np.int64), minlength=len(counts)
        )
    if not counts.any():
        raise OptionError("the calibration texts have no tokens", hint="Give texts like those to generate.")
    return most_frequent(counts, most)


def _tokens(vocabulary: Vocabulary, text: str | Sequence[int], number: int) -> list[int]:
    if isinstance(text, str):
        encoded = vocabulary.encode(text)
        if encoded is None:
            raise OptionError(
                f"calibration text {number} cannot be tokenized",
                hint="Use a model with a tokenizer that reproduces the text, or give the text as its tokens.",
            )
        return [*encoded, *vocabulary.eos_ids[:1]]
    tokens: list[Any] | None = list(text) if isinstance(text, Sequence | np.ndarray) else None
    if tokens is None or isinstance(text, bytes) or not all(_is_whole(token) for token in tokens):
        raise OptionError(
            f"calibration text {number} is {a_kind(text)}; it must be a text or a list of tokens"
        )
    wrong = next((token for token in tokens if not 0 <= token < vocabulary.size), None)
    if wrong is not None:
        raise OptionError(
            f"calibration text {number} has the token {wrong}; the vocabulary has {vocabulary.size} tokens",
            hint="Give texts of the model that drafts.",
        )
    return [int(token) for token in tokens]


def _is_whole(token: object) -> bool:
    return isinstance(token, int | np.integer) and not isinstance(token, bool)
