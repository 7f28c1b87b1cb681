"""A model for samplers, whose passes are made by the engine's thread, between those of the batch.

Why: samplers (`structgen.sample`) drive sessions of their own, step by step; run in the engine's thread they would keep
everybody waiting until they are through, in a thread of their own two passes would run at once.
What: what a pass reads is cut in parts of `part()` tokens a row, and the batch takes its turn after each: a long prompt
of a sampler delays others by no more than one in the batch does.
Cost: a thread switch a pass; and each waits for one pass of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structgen.vocabulary import Vocabulary

__all__ = ["SharedModel"]

Run = Callable[[Callable[[], Any]], Any]
Part = Callable[[], int]


class SharedModel:
    """The model as `structgen.sample` takes it.

    Args:
        run: Runs a function on the thread of the model, between two passes of the batch.
        part: How many tokens of a row may be read in one pass at the moment.
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
        first = self._part()
        heads = [list(prompt[:first]) for prompt in prompts]
        session = _SharedSession(self._run(lambda: self._model.start(heads)), self._run, self._part)
        session.append([list(prompt[first:]) for prompt in prompts])
        return session


class _SharedSession:
    """A session whose methods run on the model's thread; what is no method is looked up and set as it is."""

    def __init__(self, session: Any, run: Run, part: Part) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_part", part)

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """See `ModelSession.append`; a part at a time."""
        at, longest = 0, max(map(len, tokens), default=0)
        while at < longest:
            end = at + self._part()
            part = [list(row[at:end]) for row in tokens]
            self._run(lambda part=part: self._session.append(part))
            at = end

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._run(lambda: found(*given, **named))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._session, name, value)
