"""One row of a draft model: what it reads of a text, and its session, which follows the text.

What: a window bounds the tokens that the session holds. A shortened prompt takes the place of a long one.
Cost: a pass of the draft model for the tokens that it has not read.
Source: Yang et al. 2025 (LongSpec), for the window; Chen et al. 2025 (RAPID), for shortened prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from structgen.generation.prefix_logits import common_length

from .short_prompts import shorten_prompt

__all__ = ["DraftSession", "held_tokens"]

Array = NDArray[Any]
_SINKS = 4
"""The number of first tokens that a window keeps: models attend to them in any text (Xiao et al. 2024)."""


def held_tokens(window: int) -> int:
    """Return the largest number of tokens that a session with this window holds."""
    return _SINKS + window + window // 2


class DraftSession:
    """One row of a draft model, which moves to any prefix."""

    def __init__(self, model: Any, window: int | None = None) -> None:
        self.model = model
        self._window = window
        self._session: Any = None
        self._held: list[int] = []
        self._prompt: list[int] = []
        self._short: list[int] = []
        """What is read in place of `_prompt`."""
        self._base = _SINKS
        """The session holds the first `_SINKS` tokens of the text, and those from this position on."""

    def shorten(self, prompt: Sequence[int], most: int) -> None:
        """Read at most `most` tokens of texts that begin with `prompt` in place of it."""
        self._prompt, self._short = list(prompt), shorten_prompt(prompt, most)

    def logits(self, tokens: Sequence[int]) -> Array | None:
        """Return the logits after `tokens`; None if they exceed the model's context."""
        tokens = self._seen(tokens)
        length = self.model.context_length
        if not tokens or (length is not None and len(tokens) > length):
            return None
        if self._session is None:
            self._session, self._held = self.model.start([list(tokens)]), list(tokens)
        common = common_length(self._held, tokens)
        common = min(common, len(tokens) - 1) if common < len(self._held) else common
        if common < len(self._held):
            self._session.rollback(0, len(self._held) - common)
        if common < len(tokens):
            self._session.append([list(tokens[common:])])
        self._held = list(tokens)
        logits: Array = self._session.logits()[0]
        return logits

    def _seen(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the tokens that the draft model reads. The window moves in steps of half of it."""
        if self._prompt and list(tokens[: len(self._prompt)]) == self._prompt:
            tokens = [*self._short, *tokens[len(self._prompt) :]]
        window = self._window
        if window is None or len(tokens) <= held_tokens(window):
            return tokens
        if not 0 <= len(tokens) - self._base - window <= window // 2:
            self._base, self._session = (
                len(tokens) - window,
                None,
            )  # a new session: the old one cannot forget tokens
        return [*tokens[:_SINKS], *tokens[self._base :]]
