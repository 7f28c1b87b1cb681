"""A language model whose whole distribution is a Python function of the tokens so far.

It counts its forward passes and refuses what no real session could do, such as a rollback of more than it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.protocols import Session, SessionCapabilities

Distribution = Callable[[tuple[int, ...]], Sequence[float]]


class ToyModel:
    """`distribution(tokens after the prompt)` returns the probabilities of the next token."""

    def __init__(
        self,
        vocabulary: Any,
        distribution: Distribution,
        context_length: int | None = None,
        scored: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.distribution = distribution
        self.context_length = context_length
        self.forward_passes = 0
        self.scored = scored

    is_chat = True
    cache_bytes_per_token = 0

    def render_prompt(self, prompt: Any, *, template: Any = None) -> None:
        """There is no chat template."""

    def start(self, prompts: Sequence[Sequence[int]]) -> ToySession:
        kind = ToySession if self.scored else PlainSession
        return kind(self, prompts)


class PlainSession(Session):
    """What every session can do."""

    def __init__(self, model: ToyModel, prompts: Sequence[Sequence[int]]) -> None:
        self.model = model
        self.rows = [(list(prompt), len(prompt)) for prompt in prompts]

    def _logits(self, tokens: Sequence[int], prompt: int) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.model.distribution(tuple(tokens[prompt:])), dtype=np.float64))

    def logits(self) -> NDArray[Any]:
        return np.stack([self._logits(tokens, prompt) for tokens, prompt in self.rows])

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        self._check_decided()
        assert len(tokens) == len(self.rows)
        self.model.forward_passes += 1
        for (held, _), new in zip(self.rows, tokens, strict=True):
            held.extend(new)

    def select(self, rows: Sequence[int]) -> None:
        self._check_decided()
        self.rows = [(list(self.rows[row][0]), self.rows[row][1]) for row in rows]

    def join(self, other: PlainSession) -> None:
        self._check_decided()
        other._check_decided()
        self.rows += other.rows

    def _check_decided(self) -> None:
        assert not getattr(self, "trees", None), "keep() was not called"

    def rollback(self, row: int, n: int) -> None:
        self._check_decided()
        held = self.rows[row][0]
        assert 0 < n <= len(held)
        del held[len(held) - n :]


class ToySession(PlainSession):
    """A session that can also tell the logits inside a run of tokens."""

    capabilities = SessionCapabilities(scores_runs=True, reads_trees=True, crops_cheaply=True)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[NDArray[Any]]:
        starts = [(len(held), prompt) for held, prompt in self.rows]
        self.append(tokens)
        return [
            np.array([self._logits(held[: start + offset + 1], prompt) for offset in range(len(new))])
            for (held, _), (start, prompt), new in zip(self.rows, starts, tokens, strict=True)
        ]

    def append_trees(
        self, tokens: Sequence[Sequence[int]], trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[NDArray[Any]]:
        runs = self.append_scored(tokens)
        found = []
        for (held, prompt), run, (nodes, parents) in zip(self.rows, runs, trees, strict=True):
            branches: list[list[int]] = []
            for token, parent in zip(nodes, parents, strict=True):
                branches.append([*(branches[parent] if parent >= 0 else []), token])
            found.append(np.array([*run, *(self._logits([*held, *way], prompt) for way in branches)]))
        self.trees = {row: list(zip(*tree, strict=True)) for row, tree in enumerate(trees)}
        return found

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        tree, before = self.trees.pop(row), -1
        for node in nodes:
            token, parent = tree[node]
            assert parent == before, "what is kept is a path"
            self.rows[row][0].append(token)
            before = node
