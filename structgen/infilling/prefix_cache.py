"""A model that keeps the KV cache from one session to the next, for generations after the same prompt.

Why: each hole of a template is a generation of its own after the same text, which the model should not read again.
Invariant: a session's logits are those of its own tokens, as for the model's own sessions.
Cost: the common prefix with the last session is kept; the rest of the cache is cropped, and the rest of the text read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import Session, SessionCapabilities, capabilities_of

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Prompt

__all__ = ["PrefixCachedModel"]


class PrefixCachedModel:
    """The same model for one row at a time. A new session ends the one before."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.vocabulary = model.vocabulary
        self.context_length = model.context_length
        self._prompt: list[int] | None = None
        self._read: _Read | None = None

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt, as the model does."""
        return list(self._model.encode(prompt))

    def start(self, prompts: Sequence[Sequence[int]]) -> _Session:
        """Return a session over one prompt."""
        (prompt,) = prompts
        if self._read is None or self._prompt != list(prompt):
            self._prompt = list(prompt)
            self._read = _Read(self._model.start([prompt]))
        return _Session(self._read)


class _Read:
    """The model's session, and the tokens that it holds after the prompt."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tokens: list[int] = []
        self.first: NDArray[np.float32] = np.array(session.logits())
        """The logits after the prompt."""

    def become(self, tokens: Sequence[int]) -> None:
        shared = 0
        while shared < min(len(tokens), len(self.tokens)) and tokens[shared] == self.tokens[shared]:
            shared += 1
        if shared < len(self.tokens):
            self.session.rollback(0, len(self.tokens) - shared)
        if shared < len(tokens):
            self.session.append([list(tokens[shared:])])
        self.tokens = list(tokens)


class _Session(Session):
    """A session of one row that reads its tokens when its logits are needed."""

    def __init__(self, read: _Read) -> None:
        self._read = read
        self._tokens: list[int] = []

    @property
    def capabilities(self) -> SessionCapabilities:
        return SessionCapabilities(scores_runs=capabilities_of(self._read.session).scores_runs)

    def logits(self) -> NDArray[np.float32]:
        if not self._tokens:
            return self._read.first
        self._read.become(self._tokens)
        logits: NDArray[np.float32] = self._read.session.logits()
        return logits

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        self._tokens += tokens[0]

    def rollback(self, row: int, n: int) -> None:
        del self._tokens[len(self._tokens) - n :]

    def select(self, rows: Sequence[int]) -> None:
        if list(rows) != [0]:
            raise ValueError(f"there is one row, not {list(rows)}")

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> Sequence[NDArray[np.float32]]:
        self._read.become(self._tokens)
        scores: Sequence[NDArray[np.float32]] = self._read.session.append_scored([list(tokens[0])])
        self._tokens += tokens[0]
        self._read.tokens = list(self._tokens)
        return scores
