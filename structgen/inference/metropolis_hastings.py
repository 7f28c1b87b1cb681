"""Metropolis-Hastings: cut a text somewhere, grow it again by local masking, accept or reject the new text.

What: a chain starts with a draw by local masking. A proposal cuts the text x before step i, drawn by `cut`, and grows y
from there. It is accepted with probability min(1, P(y) q(x|y) / (P(x) q(y|x))). Any cut up to the position where x and
y differ leads to y, so q(y|x) is the sum over all of these.

    restart   always before the first step; the ratio is that of the importance weights
    uniform   every step with the same probability
    priority  a step in proportion to the entropy of its masked distribution: where there was a choice

Steps are tokens and the end of the text. `proposals` counts the first draw, so one proposal is local masking. A first
draw without a text is repeated up to 1,000 times; if the first chain has none, the others do not start.
Invariant: as proposals are added, the distribution of each chain converges to Q, proportional to P(x) * 1[x in L] *
exp(potentials). A text that a potential rejects, or that the cap cuts off, has no weight; any text with weight replaces
it.
Cost: one row of the model for each new prefix; the distributions of recent prefixes are cached.
Source: Gonzalez et al. 2025 (constrained sampling by Markov chains).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import log_sum_exp, next_ids, sample_index
from structgen.generation.potentials import Condition

from .prefixes import Distribution, Prefix, PrefixReader

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["CUTS", "Chains", "Cut", "Text"]

Array = NDArray[Any]
Cut = Literal["restart", "uniform", "priority"]
CUTS = ("restart", "uniform", "priority")

_MAX_FIRST_DRAWS = 1_000
"""The largest number of first draws of a chain."""
_LEAST_ENTROPY = 1e-6
"""Steps without a choice are cut as well, with this weight, so that every text can lead to every other one."""


@dataclass
class _Step:
    log_p: float
    log_z: float
    entropy: float


@dataclass
class Text:
    """The state of a chain."""

    tokens: list[int] = field(default_factory=list)
    end_token: int | None = None
    steps: list[_Step] = field(default_factory=list)
    """One for each token, and one for the end if there is one."""
    log_weight: float = -math.inf
    """The sum of the potentials; minus infinity if the text has not ended."""
    lost: str = ""
    """Why it has no weight: "refused" by potentials, "max_tokens", "no mass"."""

    @property
    def log_prob(self) -> float:
        """Log P(x)."""
        return sum(step.log_p for step in self.steps)

    def symbols(self) -> list[int]:
        """Return the tokens, and the end-of-sequence token if there is one."""
        return self.tokens if self.end_token is None else [*self.tokens, self.end_token]


class Chains:
    """Chains under one prompt, several in parallel."""

    def __init__(
        self,
        reader: PrefixReader,
        matcher: TextMatcher,
        condition: Condition,
        *,
        proposals: int,
        cut: Cut,
        parallel: int = 1,
        max_tokens: int = 512,
        stream: Callable[[int], np.random.Generator],
    ) -> None:
        self._reader = reader
        self._matcher = matcher
        self._condition = condition
        self._proposals = proposals
        self._cut = cut
        self._slots = parallel
        self._max_tokens = max_tokens
        self._stream = stream
        self._eos = frozenset(matcher.vocabulary.eos_ids)

    def run(self, count: int, go_on: Callable[[], bool]) -> Iterator[Text]:
        """Yield the last texts of `count` chains, in the order in which these started, until `go_on` returns False."""
        waiting: dict[int, Text] = {}
        running: dict[int, tuple[int, Generator[Prefix, Distribution, Text]]] = {}
        wanted: dict[int, Prefix] = {}
        started = given = 0
        while given < count and go_on():
            distributions = self._reader.read(wanted) if wanted else {}
            for slot in range(self._slots):
                if slot not in running and started < count:
                    running[slot] = started, self._chain(self._stream(started))
                    started += 1
                    self._send(slot, None, running, wanted, waiting)
                elif slot in running:
                    self._send(slot, distributions[slot], running, wanted, waiting)
            while given in waiting:
                yield waiting.pop(given)
                given += 1

    @staticmethod
    def _send(
        slot: int,
        distribution: Distribution | None,
        running: dict[int, tuple[int, Generator[Prefix, Distribution, Text]]],
        wanted: dict[int, Prefix],
        waiting: dict[int, Text],
    ) -> None:
        number, chain = running[slot]
        try:
            wanted[slot] = next(chain) if distribution is None else chain.send(distribution)
        except StopIteration as end:
            waiting[number] = end.value
            del running[slot]
            wanted.pop(slot, None)

    # -- one chain, a generator that yields a prefix to get the distribution after it

    def _chain(self, random: np.random.Generator) -> Generator[Prefix, Distribution, Text]:
        text = yield from self._grow(Text(), random)
        for _ in range(_MAX_FIRST_DRAWS - 1):
            if text.log_weight > -math.inf:
                break
            text = yield from self._grow(Text(), random)
        for _ in range(self._proposals - 1):
            position = self._draw_position(text, random)
            kept = Text(text.tokens[:position], steps=text.steps[:position])
            other = yield from self._grow(kept, random)
            if self._takes(text, other, random):
                text = other
        return text

    def _grow(self, text: Text, random: np.random.Generator) -> Generator[Prefix, Distribution, Text]:
        matcher = self._matcher.fork()
        for token in text.tokens:
            matcher.advance(token)
        while True:
            log_p = (yield tuple(text.tokens)).log_p
            at_cap = len(text.tokens) >= self._max_tokens
            ids = next_ids(matcher, at_cap=at_cap)
            allowed = log_p[ids].astype(np.float64)
            log_z = log_sum_exp(allowed)
            if log_z == -math.inf:
                text.lost = "max_tokens" if at_cap else "no mass"
                return text
            distribution = np.exp(allowed - log_z)
            index = sample_index(np.cumsum(distribution), float(random.random()))
            token = int(ids[index])
            positive = distribution[distribution > 0]
            entropy = float(-(positive * np.log(positive)).sum())
            text.steps.append(_Step(float(log_p[token]), min(0.0, log_z), entropy))
            matcher.advance(token)
            if token in self._eos:
                text.end_token = token
                text.log_weight = self._condition.of_text(matcher.text)
                text.lost = "refused" if text.log_weight == -math.inf else ""
                return text
            text.tokens.append(token)
            if self._condition.of_prefix(matcher.text) == -math.inf:
                text.lost = "refused"
                return text

    def _cuts(self, text: Text) -> Array:
        """Return the probability of each position of the cut."""
        count = max(1, len(text.steps))
        if self._cut == "restart":
            weights = np.zeros(count)
            weights[0] = 1
        elif self._cut == "uniform" or not text.steps:
            weights = np.ones(count)
        else:
            weights = np.array([max(step.entropy, _LEAST_ENTROPY) for step in text.steps])
        probabilities: Array = weights / weights.sum()
        return probabilities

    def _draw_position(self, text: Text, random: np.random.Generator) -> int:
        return min(sample_index(np.cumsum(self._cuts(text)), float(random.random())), len(text.tokens))

    def _takes(self, text: Text, other: Text, random: np.random.Generator) -> bool:
        if other.log_weight == -math.inf:
            return False
        if text.log_weight == -math.inf:
            return True
        ratio = (
            other.log_prob
            + other.log_weight
            + self._log_proposal(text, other)
            - text.log_prob
            - text.log_weight
            - self._log_proposal(other, text)
        )
        return ratio >= 0 or math.log1p(-float(random.random())) < ratio

    def _log_proposal(self, to: Text, source: Text) -> float:
        """Return log q(to | source)."""
        common = 0
        for mine, theirs in zip(source.symbols(), to.symbols(), strict=False):
            if mine != theirs:
                break
            common += 1
        cuts = self._cuts(source)[: common + 1]
        masked = np.array([step.log_p - step.log_z for step in to.steps])
        after = np.concatenate((np.cumsum(masked[::-1])[::-1], [0.0]))[: len(cuts)]
        with np.errstate(divide="ignore"):
            return log_sum_exp(np.log(cuts[: len(after)]) + after)
