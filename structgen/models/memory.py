"""A deterministic model in memory, with explicit next-token distributions.

Why: the distributions of samplers can be enumerated over it, and programs that use structgen can be tested without
weights.
What: ``DistributionModel(vocabulary, distribution)`` has the next-token probabilities ``distribution(tokens after the
prompt)``; a table from token tuples to probabilities works too. It caches and approximates nothing, and needs no torch.
Invariant: logits are the logarithms of the given probabilities, in float32; minus infinity for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.argument_names import checks_names_of_init
from structgen.errors import ModelError
from structgen.protocols import Prompt, Session, SessionCapabilities
from structgen.vocabulary import Vocabulary

from .tree_checks import check_decided, check_path, check_trees

__all__ = ["Distribution", "DistributionModel"]

Distribution = Callable[[tuple[int, ...]], Sequence[float]]


@checks_names_of_init
class DistributionModel:
    """A model with explicit next-token distributions.

    Args:
        vocabulary: The vocabulary.
        distribution: From the tokens after the prompt to the probabilities of all tokens, ``[vocabulary.size]``: a
            function, or a table.
        context_length: The largest number of tokens of a row; None for no bound.
        total: Whether a function is defined after any tokens. If not, no draft tokens are read, as with a table.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        distribution: Distribution | Mapping[tuple[int, ...], Sequence[float]],
        *,
        context_length: int | None = None,
        total: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.context_length = context_length
        self.forward_passes = 0
        """The number of calls of sessions with new tokens, which a real model would have run."""
        self.knows_all = total and not isinstance(distribution, Mapping)
        """Whether the distribution is defined after any tokens."""
        self._law: Distribution = (
            _look_up(distribution) if isinstance(distribution, Mapping) else distribution
        )

    is_chat = True
    cache_bytes_per_token = 0

    def render_prompt(self, prompt: Prompt, *, template: Mapping[str, Any] | None = None) -> None:
        """Return None: there is no chat template."""

    def encode(self, prompt: Prompt) -> list[int]:
        """Return one token for any prompt: the distribution does not depend on it."""
        return [0]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self.vocabulary.decode(ids).decode("utf-8", "replace")

    def start(self, prompts: Sequence[Sequence[int]]) -> DistributionSession:
        """Return a session with one row per prompt."""
        return DistributionSession(self, prompts)

    def log_probabilities(self, tokens: tuple[int, ...]) -> NDArray[np.float32]:
        """Return the logits after `tokens`, float32 ``[vocabulary.size]``."""
        try:
            distribution = np.asarray(self._law(tokens), dtype=np.float64)
        except LookupError as error:
            raise ModelError(
                f"there is no distribution after {tokens}: {type(error).__name__}: {error}",
                hint="DistributionModel(..., total=False) is for functions that are defined only where texts go.",
            ) from error
        if distribution.shape != (self.vocabulary.size,):
            raise ModelError(
                f"there are {distribution.size} probabilities after {tokens}, for {self.vocabulary.size} tokens"
            )
        with np.errstate(divide="ignore"):
            return np.log(distribution).astype(np.float32)


class DistributionSession(Session):
    """Rows of tokens, each with the length of its prompt."""

    def __init__(self, model: DistributionModel, prompts: Sequence[Sequence[int]]) -> None:
        if not all(prompts):
            raise ModelError(
                "a prompt has no tokens", hint="Every row needs at least one token to start from."
            )
        self._model = model
        self._rows = [(list(prompt), len(prompt)) for prompt in prompts]
        self._trees: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
        """The trees that were read, until `keep` is called."""

    @property
    def capabilities(self) -> SessionCapabilities:
        """No drafts if the distribution is a table: it may lack what comes after a wrong draft token."""
        return SessionCapabilities(
            scores_runs=True, reads_trees=True, joins=True, crops_cheaply=self._model.knows_all
        )

    def logits(self) -> NDArray[np.float32]:
        """See `Session.logits`."""
        check_decided(self._trees)
        return np.stack([self._after(tokens, prompt) for tokens, prompt in self._rows])

    def append(self, tokens: Sequence[Sequence[int]]) -> None:
        """See `Session.append`."""
        check_decided(self._trees)
        self._model.forward_passes += 1
        for (held, _), new in zip(self._rows, tokens, strict=True):
            held.extend(new)

    def append_scored(self, tokens: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """See `Session.append_scored`."""
        starts = [len(held) for held, _ in self._rows]
        self.append(tokens)
        scores = [np.empty((len(new), self._model.vocabulary.size), dtype=np.float32) for new in tokens]
        for (held, prompt), start, scored in zip(self._rows, starts, scores, strict=True):
            for offset in range(len(scored)):
                scored[offset] = self._after(held[: start + offset + 1], prompt)
        return scores

    def append_trees(
        self, tokens: Sequence[Sequence[int]], trees: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[NDArray[np.float32]]:
        """See `Session.append_trees`."""
        check_decided(self._trees)
        check_trees(trees)
        scores = []
        runs = self.append_scored(tokens)
        for (held, prompt), run, (nodes, parents) in zip(self._rows, runs, trees, strict=True):
            branches: list[list[int]] = []
            for token, parent in zip(nodes, parents, strict=True):
                branches.append([*(branches[parent] if parent >= 0 else []), token])
            node_scores = [self._after([*held, *branch], prompt) for branch in branches]
            scores.append(np.stack([*run, *node_scores]) if node_scores else run)
        self._trees = dict(enumerate(trees))
        return scores

    def keep(self, row: int, nodes: Sequence[int]) -> None:
        """See `Session.keep`."""
        tokens, parents = self._trees.get(row, ((), None))
        check_path(row, parents, nodes)
        del self._trees[row]
        self._rows[row][0].extend(tokens[node] for node in nodes)

    def select(self, rows: Sequence[int]) -> None:
        """See `Session.select`."""
        check_decided(self._trees)
        self._rows = [(list(self._rows[row][0]), self._rows[row][1]) for row in rows]

    def join(self, other: DistributionSession) -> None:
        """See `Session.join`."""
        check_decided(self._trees)
        self._rows += other._rows

    def rollback(self, row: int, n: int) -> None:
        """See `Session.rollback`."""
        check_decided(self._trees)
        held = self._rows[row][0]
        if not 0 <= n <= len(held):
            raise ModelError(f"cannot roll back {n} tokens of row {row}, which has {len(held)}")
        del held[len(held) - n :]

    def _after(self, tokens: Sequence[int], prompt: int) -> NDArray[np.float32]:
        return self._model.log_probabilities(tuple(tokens[prompt:]))


def _look_up(table: Mapping[tuple[int, ...], Sequence[float]]) -> Distribution:
    def distribution(tokens: tuple[int, ...]) -> Sequence[float]:
        if tokens not in table:
            raise ModelError(f"the table has no probabilities after {tokens}")
        return table[tokens]

    return distribution
