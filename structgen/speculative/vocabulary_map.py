"""A map between the tokens of a draft model and those of the target, learned from texts that both have tokenized.

What: a draft token with the bytes of a target token stands for it from the start. The others are learned. Where a
target token and several draft tokens cover the same bytes of a text, this n-gram of draft tokens stands for the target
token. Where a draft token covers several target tokens, it stands for the first of them. The probability of an n-gram
is the product of those of its tokens. So a distribution over draft tokens gives one over target tokens.
Invariant: the probabilities of target tokens are not negative, and their sum is at most 1. The rest belongs to draft
tokens that stand for no target token yet. Verification is exact for every map.
Cost: the most probable beginning of an n-gram is followed, which takes a pass of the draft model for each of its tokens
but the last. At most `entries` n-grams are kept, those that were seen last.
Source: Ramakrishnan et al. 2025 (OmniDraft).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

__all__ = ["VocabularyMap"]

Array = NDArray[Any]
_LONGEST = 8
"""The largest number of draft tokens of an n-gram."""


class VocabularyMap:
    """What draft tokens and n-grams of them stand for.

    Args:
        draft: The vocabulary of the draft model.
        target: The vocabulary of the target.
        entries: The largest number of n-grams.
    """

    def __init__(self, draft: Vocabulary, target: Vocabulary, entries: int = 20_000) -> None:
        self._draft, self._target, self._entries = draft, target, entries
        by_bytes: dict[bytes, int] = {}
        for token in range(target.size):
            if data := target.token_bytes(token):
                by_bytes.setdefault(data, token)
        self._single = np.full(draft.size, -1, dtype=np.int64)
        """The target token that a draft token stands for; -1 for none."""
        for token in range(draft.size):
            self._single[token] = by_bytes.get(draft.token_bytes(token) or b"", -1)
        if target.eos_ids:
            self._single[list(draft.eos_ids)] = target.eos_ids[0]
        self._ngrams: OrderedDict[tuple[int, ...], int] = OrderedDict()
        self._following: dict[tuple[int, ...], dict[int, int]] = {}
        """For the beginnings of n-grams, how many n-grams go on with each token."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of n-grams."""
        return len(self._ngrams)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def token_of(self, ngram: Sequence[int]) -> int | None:
        """Return the target token that draft tokens stand for, or None."""
        if len(ngram) == 1:
            token = int(self._single[ngram[0]])
            return None if token < 0 else token
        return self._ngrams.get(tuple(ngram))

    def learn(self, target_tokens: Sequence[int], draft_tokens: Sequence[int]) -> None:
        """Learn from two tokenizations of one text."""
        target_tokens = [token for token in target_tokens if self._target.token_bytes(token)]
        draft_tokens = [token for token in draft_tokens if self._draft.token_bytes(token)]
        target_ends = _ends(self._target, target_tokens)
        draft_ends = _ends(self._draft, draft_tokens)
        target_borders, draft_borders = _borders(target_ends), _borders(draft_ends)
        with self._lock:
            for token, end, start in zip(target_tokens, target_ends, [0, *target_ends[:-1]], strict=True):
                if start in draft_borders and end in draft_borders:
                    ngram = tuple(draft_tokens[draft_borders[start] : draft_borders[end]])
                    if 1 < len(ngram) <= _LONGEST:
                        self._keep(ngram, token)
            for token, end, start in zip(draft_tokens, draft_ends, [0, *draft_ends[:-1]], strict=True):
                # A token with equal bytes is never replaced.
                is_open = self._target.token_bytes(int(self._single[token])) != self._draft.token_bytes(token)
                if is_open and start in target_borders and end in target_borders:
                    self._single[token] = target_tokens[target_borders[start]]

    def distribution(
        self, draft_distribution: Callable[[Sequence[int]], Array | None], least: float
    ) -> Array | None:
        """Return the probabilities of the next target token, float64 ``[target.size]``, with a sum of at most 1.

        Args:
            draft_distribution: From draft tokens after the text to the draft model's distribution of the next one,
                normalised; None if it reads no more.
            least: The probability that the beginning of an n-gram must have to be followed.
        """
        masses = np.zeros(self._target.size)
        beginning: tuple[int, ...] = ()
        mass, held = (
            1.0,
            -1,
        )  # `held` is the token of the beginning, or of its own longest beginning that has one
        while True:
            chances = draft_distribution(beginning)
            if chances is None:
                return masses if beginning else None
            with self._lock:
                following = list(self._following.get(beginning, ()))
                if not beginning:
                    mapped = np.flatnonzero(self._single[: len(chances)] >= 0)
                    tokens = self._single[mapped]
                else:
                    pairs = [(last, self._ngrams.get((*beginning, last), -1)) for last in following]
                    mapped = np.array([last for last, token in pairs if token >= 0], dtype=np.int64)
                    tokens = np.array([token for _, token in pairs if token >= 0], dtype=np.int64)
            moved = mass * chances[mapped]
            masses += np.bincount(tokens, moved, len(masses))
            if held >= 0:
                masses[held] = max(0.0, masses[held] - float(moved.sum()))
            longer = [last for last in following if (*beginning, last) in self._following]
            if not longer:
                return masses
            best = max(longer, key=lambda last: float(chances[last]))
            mass *= float(chances[best])
            beginning = (*beginning, best)
            if mass < least or mass <= 0:
                return masses
            known = self.token_of(beginning)
            held = held if known is None else known

    def _keep(self, ngram: tuple[int, ...], token: int) -> None:
        if ngram in self._ngrams:
            self._ngrams.move_to_end(ngram)
        else:
            if len(self._ngrams) >= self._entries:
                self._count(self._ngrams.popitem(last=False)[0], -1)
            self._count(ngram, 1)
        self._ngrams[ngram] = token

    def _count(self, ngram: tuple[int, ...], change: int) -> None:
        for length in range(len(ngram)):
            counts = self._following.setdefault(ngram[:length], {})
            counts[ngram[length]] = counts.get(ngram[length], 0) + change
            if not counts[ngram[length]]:
                del counts[ngram[length]]
            if not counts:
                del self._following[ngram[:length]]


def _ends(vocabulary: Vocabulary, tokens: Sequence[int]) -> list[int]:
    """Return the number of bytes up to the end of each token."""
    return list(accumulate(len(vocabulary.token_bytes(token) or b"") for token in tokens))


def _borders(ends: Sequence[int]) -> dict[int, int]:
    """Return the number of tokens before each border between tokens, by its number of bytes."""
    return {0: 0} | {end: number for number, end in enumerate(ends, 1)}
