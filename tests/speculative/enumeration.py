"""Every text that a generation can draw, with its exact probability: all random choices are enumerated.

What: `text_distribution` runs one generation again and again. Each run follows other choices: the draft tokens that are
drawn at a node, the token that a verifier draws, and the token that the plain sampler draws.
The probability of a run is the product of the probabilities of its choices. All else is the real code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from structgen.generation.distributions import StepDistribution
from structgen.generation.row import Row
from structgen.speculative import sampled
from structgen.speculative.verifiers import Drafted, Outcome

__all__ = ["DRAWS", "distinct", "greedy", "independent", "one", "text_distribution"]

Array = NDArray[np.float64]
Drafts = Iterator[tuple[tuple[int, ...], float]]


def one(q: Array, _: int) -> Drafts:
    """Each draw of one token, with its probability."""
    for token in np.flatnonzero(q):
        yield (int(token),), float(q[token])


def distinct(q: Array, count: int) -> Drafts:
    """Each draw without replacement."""
    some = [int(token) for token in np.flatnonzero(q)]
    for order in permutations(some, min(count, len(some))):
        probability, left = 1.0, q.copy()
        for token in order:
            probability *= left[token] / left.sum()
            left[token] = 0
        yield order, probability


def independent(q: Array, count: int) -> Drafts:
    """Each draw with replacement."""
    for order in product(np.flatnonzero(q).tolist(), repeat=count):
        yield order, math.prod(float(q[token]) for token in order)


def greedy(q: Array, count: int) -> Drafts:
    """The most probable tokens, and each draw of one of the others."""
    best = tuple(int(token) for token in np.argsort(-q, kind="stable")[: count - 1])
    others = q.copy()
    others[list(best)] = 0
    if others.sum() == 0:
        yield best, 1.0
        return
    for token in np.flatnonzero(others):
        yield (*best, int(token)), float(others[token] / others.sum())


DRAWS: dict[Drafted, Callable[[Array, int], Drafts]] = {
    "one": one,
    "distinct": distinct,
    "independent": independent,
    "greedy": greedy,
}


class _Choices:
    """The choices of one run: those of `script`, and after it always the first one.

    As long as the row's text is part of `begin`, there is no choice: the text goes on with it.
    """

    def __init__(self, script: Sequence[int], begin: Sequence[int]) -> None:
        self.taken, self.begin = list(script), begin
        self.widths: list[int] = []
        self.probability = 1.0
        self.row: Row | None = None
        """The row, as soon as it draws."""

    @property
    def is_given(self) -> bool:
        """Whether the next token is given."""
        return (0 if self.row is None else len(self.row.tokens)) < len(self.begin)

    def choose(self, options: Sequence[tuple[Any, float]]) -> Any:
        """Take the next choice among values with their probabilities."""
        if self.is_given:
            return options[0][0]
        number = len(self.widths)
        if number == len(self.taken):
            self.taken.append(0)
        self.widths.append(len(options))
        value, probability = options[self.taken[number]]
        self.probability *= probability
        return value

    def choose_token(self, options: Sequence[tuple[int, float]]) -> int:
        """Take the next token of the row. At the largest length, tokens differ only in whether they end the text."""
        assert self.row is not None
        if self.is_given:
            return self.begin[len(self.row.tokens)]
        if len(self.row.tokens) == self.row.capacity:
            ends = [option for option in options if option[0] in self.row._eos]
            others = [option for option in options if option[0] not in self.row._eos]
            options = [*ends, *((token, math.fsum(p for _, p in others)) for token, _ in others[:1])]
        token: int = self.choose(options)
        return token

    def next_script(self) -> list[int] | None:
        """Return the script of the next run; None if this was the last one."""
        script = self.taken[:]
        while script and script[-1] + 1 == self.widths[len(script) - 1]:
            script.pop()
        if not script:
            return None
        script[-1] += 1
        return script


def text_distribution(generate: Callable[[], Any], begin: Sequence[int] = ()) -> Counter[Any]:
    """Return the distribution of what `generate` returns.

    Args:
        generate: Generates one text.
        begin: The first tokens of the text. The distribution is that of texts that begin so.
    """
    found: Counter[Any] = Counter()
    script: list[int] | None = []
    while script is not None:
        choices = _Choices(script, begin)
        with pytest.MonkeyPatch.context() as patch:
            _enumerate(patch, choices)
            text = generate()
        found[text] += choices.probability  # type: ignore[assignment]
        script = choices.next_script()
    return found


def _enumerate(patch: pytest.MonkeyPatch, choices: _Choices) -> None:
    """Let all random choices be those of `choices`."""
    draw = Row.draw

    def draw_in_row(row: Row, *arguments: Any) -> None:
        choices.row = row
        draw(row, *arguments)

    def draw_children(q: Array, drafted: Drafted, count: int, _: object) -> tuple[int, ...]:
        children: tuple[int, ...] = choices.choose(list(DRAWS[drafted](q, count)))
        return children

    def draw_outcome(outcome: Outcome, _: float) -> int:
        distribution = outcome.distribution()
        return choices.choose_token(
            [(int(token), float(distribution[token])) for token in distribution.nonzero()[0]]
        )

    def draw_plain(step: StepDistribution, _: float) -> int:
        return choices.choose_token(list(step.probabilities().items()))

    patch.setattr(Row, "draw", draw_in_row)
    patch.setattr(sampled, "drawn_children", draw_children)
    patch.setattr(Outcome, "draw", draw_outcome)
    patch.setattr(StepDistribution, "draw", draw_plain)
