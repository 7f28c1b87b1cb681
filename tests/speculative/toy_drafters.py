"""Drafters for tests: all that need no model, random drafts, and fixed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structgen.speculative.drafters import Context, Copying, ForcedBytes, Proposal, Start, TokenLookup
from structgen.speculative.recycling import LogitNGrams, SuffixStore, TokenRecycling, TriGrams


def DRAFTERS() -> list[Any]:
    """All that need no model."""
    return [
        ForcedBytes(),
        Copying(),
        TokenLookup(),
        SuffixStore(),
        TokenRecycling(),
        LogitNGrams(),
        TriGrams(),
    ]


class Guess:
    """Drafts by chance, often what the plain sampler will draw; several continuations at once."""

    def __init__(self, seed: int, reported: Sequence[int]) -> None:
        self._random = np.random.default_rng(seed)
        self._reported = list(reported)
        self._start = 0

    def start(self, start: Start) -> Guess:
        self._start = len(start.prompt)
        return self

    def propose(self, context: Context) -> list[Proposal]:
        drawn = len(context.tokens) - self._start
        found = []
        for kind in range(int(self._random.integers(1, 4))):
            draft = self._reported[drawn : drawn + 5]
            for index in range(len(draft)):
                if self._random.random() < 0.25:
                    draft[index] = int(self._random.integers(14))
            found.append(Proposal(draft[: int(self._random.integers(0, 6))], f"guess {kind}"))
        return [proposal for proposal in found if proposal.tokens]

    def observe(self, tokens: Sequence[int], start: int) -> None:
        assert len(tokens) >= start


class Reported:
    """Proposes always the same tokens, at each length of the text or at one."""

    def __init__(self, tokens: Sequence[int], at: int | None = None) -> None:
        self._tokens, self._at = tokens, at

    def start(self, start: Start) -> Reported:
        return self

    def propose(self, context: Context) -> list[Proposal]:
        here = self._at is None or len(context.tokens) == self._at
        return [Proposal(self._tokens, "given", 0.9)] if here else []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass
