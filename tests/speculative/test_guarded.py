"""Drafters that misbehave: the text stays as it is without drafts, and a warning names the error."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.matcher import Matcher
from structgen.speculative import (
    Fixed,
    ForcedBytes,
    GreedyTransport,
    KSeq,
    Proposal,
    Recursive,
    Rejection,
    Speculation,
    SpeculationWarning,
)
from structgen.speculative.drafters import Context, Start
from structgen.speculative.sampled import Sampled

from .letters import LETTERS, SilentDrafter, generate


def test_a_drafter_cannot_change_the_row() -> None:
    class Keeps(SilentDrafter):
        def start(self, start: Start) -> Any:
            self.tokens: Any = start.prompt
            return self

        def observe(self, tokens: Sequence[int], start: int) -> None:
            self.tokens[start:] = tokens[start:]

    class Rewrites(SilentDrafter):
        def propose(self, context: Context) -> Any:
            context.tokens.clear()
            return []

        def learn(self, contexts: Any, logits: Any) -> None:
            logits[:] = 0

    for drafter, warns in ((Keeps(), "tuple"), (Rewrites(), "read-only")):
        for seed in range(5):
            speculation = Speculation([drafter, ForcedBytes()], controller=Fixed(4))
            with pytest.warns(SpeculationWarning, match=warns):
                found = generate(speculation, seed)
            plain = generate(None, seed)
            assert (found.tokens, found.prompt_tokens) == (plain.tokens, plain.prompt_tokens)


def test_endless_proposals_are_cut() -> None:
    class Endless(SilentDrafter):
        def propose(self, context: Context) -> Any:
            return (Proposal((0,), "x" * 10_000 + str(number)) for number in itertools.count())

    speculation = Speculation([Endless()], controller=Fixed(4))
    assert generate(speculation).tokens == generate(None).tokens
    assert all(len(kind) < 2000 for kind in speculation.tallies.known)


@pytest.mark.parametrize("start", [lambda self, start: None, lambda self, start: 3])
def test_a_start_without_a_row_drafter_is_reported(start: Callable[..., Any]) -> None:
    drafter = type("Bad", (SilentDrafter,), {"start": start})()
    speculation = Speculation([drafter])
    with pytest.warns(SpeculationWarning, match="the drafter Bad failed.*TypeError.*has no `propose`"):
        assert generate(speculation).tokens == generate(None).tokens
    assert "Bad: " in speculation.report() and "left out of 1 texts: TypeError" in speculation.report()


def test_a_missing_distribution_is_reported() -> None:
    drafter = type("Lawless", (SilentDrafter,), {"gives_distributions": True})()
    with pytest.warns(
        SpeculationWarning, match="`gives_distributions` is set, and a Lawless has no `distribution`"
    ):
        generate(Speculation([drafter], Rejection()))


def test_an_error_is_reported_with_its_file_and_line() -> None:
    class Raises(SilentDrafter):
        def propose(self, context: Context) -> Any:
            raise ValueError("bad luck")

    with pytest.warns(SpeculationWarning, match=r"ValueError: bad luck \(.*test_guarded\.py:\d+\)"):
        generate(Speculation([Raises()]))


WHOLE = np.ones(5)


@pytest.mark.parametrize(
    ("reported", "verifier", "match"),
    [
        (Sampled(WHOLE, (-3,), "one"), Rejection(), "no probability"),
        (Sampled(WHOLE, (9,), "one"), Rejection(), "no probability"),
        (Sampled(WHOLE, (0, 1), "one"), Rejection(), "one token"),
        (Sampled(WHOLE, (0, 0), "distinct"), Recursive(), "drawn twice"),
        (Sampled(WHOLE, (0, 0), "greedy"), GreedyTransport(), "drawn twice"),
        (Sampled(WHOLE, (), "independent"), KSeq(), "no probability"),
        (Sampled(WHOLE, (0,), "somehow"), KSeq(), "drawn as"),  # type: ignore[arg-type]
        (Sampled(np.full(5, np.nan), (0,), "one"), Rejection(), "finite"),
        (Sampled(np.ones(4), (0,), "one"), Rejection(), "shape"),
        (Sampled(np.zeros(5), (0,), "one"), Rejection(), "no probability"),
    ],
)
def test_impossible_draws_are_reported(reported: Sampled, verifier: Any, match: str) -> None:
    class Draws(SilentDrafter):
        gives_distributions = True
        distribution = None

        def sampled(self, context: Context) -> Any:
            return reported

    with pytest.warns(SpeculationWarning, match=match):
        found = generate(Speculation([Draws()], verifier, Fixed(3), branching=True))
    assert found.tokens == generate(None).tokens


class Predicts(SilentDrafter):
    """Draws from a distribution, and predicts what a function returns."""

    gives_distributions = predicts_acceptance = True

    def __init__(self, found: Callable[[Sequence[int]], Any]) -> None:
        self.found = found

    def distribution(self, context: Context) -> Any:
        return np.ones(5)

    def acceptances(self, context: Context, tokens: Sequence[int]) -> Any:
        return self.found(tokens)


@pytest.mark.parametrize(
    ("found", "match"),
    [
        (lambda tokens: {7: 0.5}, "for token 7"),
        (lambda tokens: {tokens[0]: float("nan")}, "predicted nan"),
        (lambda tokens: [0.5], "AttributeError"),
        (lambda tokens: {tokens[0]: "much"}, "ValueError"),
    ],
)
@pytest.mark.parametrize("verifier", [Rejection(), KSeq()])
def test_impossible_predictions_are_reported(found: Any, match: str, verifier: Any) -> None:
    with pytest.warns(SpeculationWarning, match=match):
        text = generate(Speculation([Predicts(found)], verifier, Fixed(3), branching=True), temperature=1.0)
    assert text.tokens


def test_predictions_are_probabilities() -> None:
    for found in (lambda tokens: {tokens[0]: 1e9}, lambda tokens: {tokens[0]: -3}, lambda tokens: {}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            speculation = Speculation([Predicts(found)], Rejection(), Fixed(3))
            assert generate(speculation, temperature=1.0).tokens
    assert not speculation.tallies.known


def test_a_drafter_that_predicts_and_cannot_is_used_without() -> None:
    class Promises(Predicts):
        acceptances = None  # type: ignore[assignment]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert generate(Speculation([Promises(len)], Rejection(), Fixed(3))).accepted_tokens > 0


def test_distributions_of_any_size_are_normalised() -> None:
    class Huge(SilentDrafter):
        gives_distributions = True

        def distribution(self, context: Context) -> Any:
            return np.full(5, 1e308)

    for verifier in (Rejection(), Recursive(), KSeq(), GreedyTransport()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert generate(Speculation([Huge()], verifier, Fixed(3))).accepted_tokens > 0


def test_errors_of_structgen_in_a_users_drafter_are_reported() -> None:
    class Empty(SilentDrafter):
        def start(self, start: Start) -> Any:
            Matcher(sg.regex("z"), LETTERS)

    with pytest.warns(SpeculationWarning, match="the drafter Empty failed"):
        assert generate(Speculation([Empty()])).tokens == generate(None).tokens
