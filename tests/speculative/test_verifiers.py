"""Verifiers by enumeration: over all drafts, with their probabilities, what comes out is the target, to 1e-12."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.speculative.verifiers import GreedyTransport, KSeq, Match, Recursive, Rejection, Verifier

from .enumeration import Array, Drafts, distinct, greedy, independent, one

VERIFIERS: list[tuple[Verifier, Callable[[Array, int], Drafts]]] = [
    (Match(), distinct),
    (Match(), greedy),
    (Rejection(), one),
    (Recursive(), distinct),
    (KSeq(), independent),
    (GreedyTransport(), greedy),
]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array]:
    """A masked target and a distribution of drafts, masked or not."""
    size = draw(st.integers(2, 6))

    def distribution(zeros: bool) -> Array:
        parts = draw(st.lists(st.integers(0 if zeros else 1, 20), min_size=size, max_size=size).filter(any))
        found: Array = np.array(parts, dtype=np.float64) / sum(parts)
        return found

    return distribution(True), distribution(draw(st.booleans()))


def outcome_distribution(
    verifier: Verifier, p: Array, q: Array, drafts: Callable[[Array, int], Drafts], count: int
) -> Array:
    whole = np.zeros_like(p)
    for children, probability in drafts(q, count):
        outcome = verifier.outcome(p, q, children)
        assert (
            outcome.distribution().sum() == pytest.approx(1, abs=1e-12) and outcome.distribution().min() >= 0
        )
        whole += probability * outcome.distribution()
    return whole


@pytest.mark.parametrize(("verifier", "drafts"), VERIFIERS, ids=lambda one: getattr(one, "__name__", None))
@given(problem=problems(), count=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_what_comes_out_is_the_target(
    verifier: Verifier, drafts: Callable[[Array, int], Drafts], problem: tuple[Array, Array], count: int
) -> None:
    p, q = problem
    assert outcome_distribution(verifier, p, q, drafts, count) == pytest.approx(p, abs=1e-12)


P = np.array([0.5, 0.3, 0.0, 0.2, 0.0])  # masked
Q = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
UNMASKED = np.array([0.3, 0.2, 0.3, 0.1, 0.1])


@pytest.mark.parametrize(
    ("verifier", "drafts"), VERIFIERS[2:], ids=lambda one: getattr(one, "__name__", None)
)
def test_canaries_fail(verifier: Verifier, drafts: Callable[[Array, int], Drafts]) -> None:
    """What must be wrong: acceptance against the unmasked distribution, and a q from which the draft was not drawn."""

    def far(p: Array, q: Array, drawn: Array) -> float:
        whole = np.zeros_like(P)
        for children, probability in drafts(drawn, 2):
            whole += probability * verifier.outcome(p, q, children).distribution()
        return float(abs(whole - P).sum())

    assert far(P, Q, Q) < 1e-12
    assert far(UNMASKED, Q, Q) > 0.1
    wrong = np.array([0.35, 0.35, 0.1, 0.1, 0.1])
    assert far(P, wrong, Q) > 0.01


def test_a_verifier_for_independent_drafts_is_wrong_for_distinct_ones() -> None:
    p, q = np.array([0.1, 0.6, 0.05, 0.25, 0.0]), np.array([0.6, 0.1, 0.1, 0.1, 0.1])
    whole = np.zeros_like(p)
    for children, probability in distinct(q, 2):
        whole += probability * KSeq().outcome(p, q, children).distribution()
    assert abs(whole - p).sum() > 0.01


def test_more_drafts_are_taken_more_often() -> None:
    """Mean acceptance over 30 masked problems, in the order of the field's figures; the optimum is the greatest."""
    random = np.random.default_rng(2)
    means = dict.fromkeys(["one", "independent", "distinct", "greedy"], 0.0)
    for _ in range(30):
        p, q = random.dirichlet(np.full(8, 0.5)), random.dirichlet(np.full(8, 0.5))
        p[random.random(8) < 0.3] = 0
        p = p / p.sum() if p.sum() else np.full(8, 0.125)
        q = np.where(p > 0, q, 0.0)
        q = q / q.sum() if q.sum() else p
        for (verifier, drafts), count in zip(VERIFIERS[2:], (1, 3, 3, 3), strict=True):
            for children, probability in drafts(q, count):
                outcome = verifier.outcome(p, q, children).distribution()
                means[verifier.drafted] += probability * sum(outcome[list(set(children))]) / 30
    assert means["one"] < means["independent"] < means["distinct"] + 0.02
    assert means["distinct"] <= means["greedy"] + 1e-9


def test_draws_follow_the_outcome() -> None:
    for verifier, drafts in VERIFIERS:
        children = next(iter(drafts(Q, 1 if isinstance(verifier, Rejection) else 3)))[0]
        outcome = verifier.outcome(P, Q, children)
        uniforms = (np.arange(20_000) + 0.5) / 20_000
        counts = np.bincount([outcome.draw(float(u)) for u in uniforms], minlength=5) / 20_000
        assert counts == pytest.approx(outcome.distribution(), abs=1e-3)
