"""A model for samplers, whose passes are made by the engine's thread, between those of the batch.

Why: samplers (`structgen.sample`) drive sessions of their own, step by step; run in the engine's thread they would keep
everybody waiting until they are through, in a thread of their own two passes would run at once.
What: a forward pass gets at most `part()` tokens over all rows, or one token per row if there are more rows. The batch
runs a step after each pass, so a sampler delays others no more than the prefill of a prompt does.
Cost: a thread switch a pass; and each waits for one pass of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.vocabulary import Vocabulary

__all__ = ["SharedModel"]

Run = Callable[[Callable[[], Any]], Any]
Part = Callable[[], int]


class SharedModel:
    """The model as `structgen.sample` takes it.

    Args:
        run: Runs a function on the thread of the model, between two passes of the batch.
        part: Returns the most tokens of one forward pass, over all rows.
    """

    def __init__(
        self, model: Any, vocabulary: Vocabulary, run: Run, part: Part, prompt: Sequence[int]
    ) -> None:
        self._model, self._run, self._part, self._prompt = model, run, part, list(prompt)
        self.vocabulary = vocabulary
        self.context_length = model.context_length

    def encode(self, prompt: Any) -> list[int]:
        """The tokens of the one prompt of this request, whatever is asked."""
        return list(self._prompt)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._model.decode(ids)
        return text

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        """A session over prompts, which are read in parts."""
        first = max(1, self._part() // max(1, len(prompts)))
        heads = [list(prompt[:first]) for prompt in prompts]
        session = self._run(lambda: self._model.start(heads))
        kind = _SharedScoringSession if hasattr(session, "append_scored") else _SharedSession
        shared = kind(session, self._run, self._part)
        shared.append([list(prompt[first:]) for prompt in prompts])
        return shared


class _SharedSession:
    """A session whose methods run on the model's thread; what is no method is looked up and set as it is."""

    def __init__(self, session: Any, run: Run, part: Part) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_part", part)

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """See `ModelSession.append`; a part at a time."""
        for part in self._parts(tokens):
            self._run(lambda part=part: self._session.append(part))

    def _parts(self, tokens: Sequence[Sequence[int]]) -> Iterator[list[list[int]]]:
        at, longest = 0, max(map(len, tokens), default=0)
        while at < longest:
            rows = sum(len(row) > at for row in tokens)
            end = at + max(1, self._part() // rows)
            yield [list(row[at:end]) for row in tokens]
            at = end

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._run(lambda: found(*given, **named))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._session, name, value)


class _SharedScoringSession(_SharedSession):
    def append_scored(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        """See `ScoringSession.append_scored`; a part at a time."""
        parts = self._parts(tokens)
        scored = [self._run(lambda part=part: self._session.append_scored(part)) for part in parts]
        if not scored:
            return [logits[:0] for logits in self.logits()[:, None]]
        return [np.concatenate(logits) for logits in zip(*scored, strict=True)]
