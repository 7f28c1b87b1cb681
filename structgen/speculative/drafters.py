"""Drafters: guesses at the tokens to come, from what costs nothing beside a forward pass.

What: a drafter sees the tokens so far and the constraint's state, and proposes a run of tokens. Rubbish is no harm but
time: what the constraint refuses is cut off, and the model has the last word about the rest.

    ForcedBytes    bytes that the constraint leaves no choice about, as the tokenizer splits them
    PromptLookup   what came after the same tokens before, in the prompt or in the text

Source: Saxena 2023 (prompt look-up); Dumitru et al. 2025 (CopySpec).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["NOTHING", "Context", "Drafter", "ForcedBytes", "Guessed", "PromptLookup"]


@dataclass
class Context:
    """Where a drafter stands."""

    tokens: list[int]
    """Prompt and text so far, with what has been drafted already."""
    matcher: Any
    """The constraint there; whoever advances it takes the tokens back."""
    vocabulary: Any


@dataclass(frozen=True)
class Guessed:
    """Tokens that may come next."""

    tokens: Sequence[int]
    kind: str
    """Guesses of one kind are right about as often; controllers count by it."""


NOTHING = Guessed((), "")


class Drafter(Protocol):
    """Guesses at what comes next."""

    def propose(self, context: Context, most: int) -> Guessed:
        """At most `most` tokens."""
        ...


class ForcedBytes:
    """The text that has no alternative."""

    def propose(self, context: Context, most: int) -> Guessed:
        """See `Drafter`."""
        forced = context.matcher.forced_bytes(8 * most)
        tokens = context.vocabulary.encode(forced) if forced else None
        return NOTHING if not tokens else Guessed(tokens[:most], "forced")


class PromptLookup:
    """What followed the last occurrence of the longest run of tokens that the text ends in."""

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self._longest = longest
        self._shortest = shortest

    def propose(self, context: Context, most: int) -> Guessed:
        """See `Drafter`."""
        tokens = context.tokens
        for length in range(min(self._longest, len(tokens) - 1), self._shortest - 1, -1):
            tail = tokens[-length:]
            for place in range(len(tokens) - length - 1, -1, -1):
                if tokens[place + length - 1] == tail[-1] and tokens[place : place + length] == tail:
                    return Guessed(tokens[place + length : place + length + most], f"look-up {length}")
        return NOTHING
