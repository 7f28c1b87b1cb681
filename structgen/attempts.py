"""Several attempts at one answer: their results, and the messages that show the model its mistake.

Why: local and remote models get further attempts in the same form, so that a prompt works with either. A model that is
shown its answer and its error corrects it more often than one that only draws again.
Invariant: the user's messages are unchanged; feedback is added after them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.errors import PromptError

__all__ = ["Account", "Attempt", "Message", "attempt_seed", "feedback", "messages_of"]

Message = dict[str, Any]
_MOST_QUOTED = 4_000
"""The largest number of characters of an answer that the model is shown."""


@dataclass(frozen=True)
class Attempt:
    """One answer of a model."""

    text: str
    problem: str
    """The error; empty for a valid answer."""
    tokens: int
    """Generated tokens. For a server, its own count, or an estimate from the length if it gives no count."""
    seconds: float
    dialect: str
    """How the constraint was applied: "mask" for a local model; for a server the dialect in which it was sent, or
    "none"."""


@dataclass
class Account:
    """All attempts at an answer."""

    attempts: list[Attempt] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Dialects in which the server refused the constraint, each with the server's sentence; in this call or an earlier
    one."""

    @property
    def tokens(self) -> int:
        """Generated tokens of all attempts."""
        return sum(attempt.tokens for attempt in self.attempts)


def messages_of(prompt: object) -> list[Message]:
    """Return the prompt as messages: a text is a message of the user."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, Sequence) and prompt and all(isinstance(message, Mapping) for message in prompt):
        return [dict(message) for message in prompt]
    raise PromptError(
        f"a prompt is a text or a list of messages, not {prompt!r:.60}",
        hint='Messages look like {"role": "user", "content": "..."}.',
    )


def attempt_seed(seed: int | Sequence[int], attempt: int) -> int:
    """Return the seed of an attempt, counted from 0: a function of the seed and the number."""
    parts: list[Any] = list(seed) if isinstance(seed, (list, tuple)) else [seed]
    digest = hashlib.sha256(repr([*map(int, parts), attempt]).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def feedback(text: str, problem: str, was_cut: bool) -> list[Message]:
    """Return the messages after a wrong answer: the answer and its error."""
    shown = text if len(text) <= _MOST_QUOTED else text[:_MOST_QUOTED] + " ..."
    wanted = "Answer again, shorter." if was_cut else "Answer again, and correct exactly that."
    shown = shown.encode("utf-8", "replace").decode()
    correction = (
        f"That answer is wrong: {problem}\n\n{wanted} Write the answer alone, nothing before or after it."
    )
    return [{"role": "assistant", "content": shown or "(nothing)"}, {"role": "user", "content": correction}]
