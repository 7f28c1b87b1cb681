"""A model for samplers, whose passes are made by the engine's thread, between those of the batch.

Why: samplers (`structgen.sample`) drive sessions of their own, step by step; run in the engine's thread they would keep
everybody waiting until they are through, in a thread of their own two passes would run at once.
Cost: a thread switch a pass; and each waits for one pass of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structgen.vocabulary import Vocabulary

__all__ = ["SharedModel"]

Run = Callable[[Callable[[], Any]], Any]
_OURS = ("_session", "_run")


class SharedModel:
    """The model as `structgen.sample` takes it; `run` runs a function on the thread of the model."""

    def __init__(self, model: Any, vocabulary: Vocabulary, run: Run, prompt: Sequence[int]) -> None:
        self._model, self._run, self._prompt = model, run, list(prompt)
        self.vocabulary = vocabulary
        self.context_length = model.context_length

    def encode(self, prompt: Any) -> list[int]:
        """The tokens of the one prompt of this request, whatever is asked."""
        return list(self._prompt)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._model.decode(ids)
        return text

    def start(self, prompts: Sequence[Sequence[int]]) -> Any:
        return _SharedSession(self._run(lambda: self._model.start(prompts)), self._run)


class _SharedSession:
    """A session whose methods run on the model's thread; what is no method is looked up and set as it is."""

    def __init__(self, session: Any, run: Run) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_run", run)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._run(lambda: found(*given, **named))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._session, name, value)
