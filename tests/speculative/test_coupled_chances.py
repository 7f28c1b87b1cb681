"""Estimates of drafts that the row's own noise selects, against how often they are right for known distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import Context, Proposal, Start
from structgen.speculative.growth import coupled_chance
from structgen.speculative.speculation import Speculation
from tests.speculative.exact_texts import CONSTRAINT, MODEL, VOCABULARY

SIZE = 60


def agreement(p: Any, q: Any, token: int) -> float:
    """The probability that p selects the token under noise with which q selects it (Daliri et al. 2025)."""
    if not p[token]:
        return 0.0
    return float(1 / (q[token] * np.maximum(p / p[token], q / q[token]).sum()))


def pairs(count: int, closeness: float) -> list[tuple[float, float]]:
    """Probabilities that calibrated drafters give to the token that they draft, each with that of agreement."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        q = random.dirichlet(np.full(SIZE, random.choice([0.02, 0.1, 0.4]))) + 1e-12
        p = random.dirichlet(np.maximum(closeness * q, 1e-6))
        token = int((np.log(q) + random.gumbel(size=SIZE)).argmax())
        found.append((float(q[token]), agreement(p, q, token)))
    return found


def test_the_agreement_is_that_of_draws() -> None:
    random = np.random.default_rng(1)
    p, q = random.dirichlet(np.ones(4)), random.dirichlet(np.ones(4))
    noise = random.gumbel(size=(40_000, 4))
    own, drafted = (np.log(p) + noise).argmax(1), (np.log(q) + noise).argmax(1)
    for token in range(4):
        share = float((own == token)[drafted == token].mean())
        assert abs(share - agreement(p, q, token)) < 0.02


def test_the_prior_is_near_the_probability_of_agreement() -> None:
    """Closer than one number for all, in each quarter of the drafter's probability."""
    shares, right = np.array(pairs(1500, 10.0)).T
    estimates = np.array([coupled_chance(share) for share in shares])
    assert np.abs(estimates - right).mean() < 0.9 * np.abs(0.6 - right).mean()
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (shares >= low) & (shares < low + 0.25)
        assert abs(estimates[inside].mean() - right[inside].mean()) < 0.15


def test_certain_drafts_are_certain() -> None:
    assert coupled_chance(1.0) == 1.0 and 0.3 < coupled_chance(0.0) < 0.5


class Near:
    """Drafts from the model's own distribution, without the mask."""

    gives_distributions = True

    def start(self, start: Start) -> Near:
        return self

    def propose(self, context: Context) -> list[Proposal]:
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass

    def distribution(self, context: Context) -> Any:
        return np.array(MODEL.distribution(tuple(context.tokens[1:])))


def test_how_often_they_are_right_is_learned_by_the_drafters_probability() -> None:
    speculation = Speculation([Near()], controller=Fixed(4), depth=3)
    options = [SamplingOptions(temperature=1.0, seed=(5, row), max_tokens=3) for row in range(200)]
    for start in range(0, 200, 20):
        batch = options[start : start + 20]
        matchers = [Matcher(CONSTRAINT, VOCABULARY) for _ in batch]
        generate_tokens(MODEL, [[0]] * 20, matchers, batch, drafting=speculation.start(MODEL))
    kinds = {kind[0] for kind in speculation.chances[True]._tried}
    assert len(kinds) > 1 and all(kind.startswith("Near with noise, ") for kind in kinds)
    for kind in speculation.chances[True]._tried:
        if speculation.chances[True]._tried[kind] > 20:
            assert speculation.chances[True].of(kind, 0.5) > 0.9
