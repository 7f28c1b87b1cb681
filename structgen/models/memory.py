"""A deterministic model in memory, whose distribution is written down: for tests and for understanding samplers.

`DistributionModel(vocabulary, law)` has the next-token probabilities ``law(tokens after the prompt)``. Nothing
is cached or approximated, so laws of samplers over it can be enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError
from structgen.vocabulary import Vocabulary

__all__ = ["DistributionModel"]

Law = Callable[[tuple[int, ...]], Sequence[float]]


class DistributionModel:
    """`law` gives probabilities over the whole vocabulary for each sequence of tokens after the prompt.

    A mapping works too: from token tuples to probabilities, with an entry for every prefix that is reached.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        law: Law | Mapping[tuple[int, ...], Sequence[float]],
        *,
        context_length: int | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.context_length = context_length
        self._law: Law = law.__getitem__ if isinstance(law, Mapping) else law

    def encode(self, prompt: str | Sequence[dict[str, Any]]) -> list[int]:
        """A prompt is one token: the law does not depend on it."""
        return [0]

    def start(self, prompts: Sequence[Sequence[int]]) -> _Session:
        return _Session(self, prompts)

    def log_probabilities(self, tokens: tuple[int, ...]) -> NDArray[np.float32]:
        """Logits after `tokens`: the logarithm of the written probabilities."""
        law = np.asarray(self._law(tokens), dtype=np.float64)
        if law.shape != (self.vocabulary.size,):
            raise ModelError(
                f"the law gives {law.shape} probabilities after {tokens}, the vocabulary has {self.vocabulary.size} tokens"
            )
        with np.errstate(divide="ignore"):
            return np.log(law).astype(np.float32)


class _Session:
    def __init__(self, model: DistributionModel, prompts: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._rows: list[list[int]] = [[] for _ in prompts]

    def logits(self) -> NDArray[np.float32]:
        return np.stack([self._model.log_probabilities(tuple(row)) for row in self._rows])

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        for row, new in zip(self._rows, tokens, strict=True):
            row.extend(new)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        before = [len(row) for row in self._rows]
        self.append(tokens)
        return [
            np.stack([self._model.log_probabilities(tuple(row[: start + i + 1])) for i in range(len(new))])
            if new
            else np.empty((0, self._model.vocabulary.size), dtype=np.float32)
            for row, start, new in zip(self._rows, before, tokens, strict=True)
        ]

    def select(self, rows: Sequence[int]) -> None:
        self._rows = [list(self._rows[row]) for row in rows]

    def rollback(self, row: int, n: int) -> None:
        if not 0 <= n <= len(self._rows[row]):
            raise ModelError(f"cannot take back {n} tokens: the row has {len(self._rows[row])}")
        del self._rows[row][len(self._rows[row]) - n :]
