"""Which drafters are credited with accepted tokens, which rest because they do not pay, and what they learn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel, DistributionSession
from structgen.protocols import SessionCapabilities
from structgen.speculative import (
    Costs,
    Fixed,
    Goodput,
    Proposal,
    Rejection,
    Speculation,
)
from structgen.speculative.drafters import Context
from structgen.speculative.guarded import DrafterRecord
from tests.clocks import HandClock
from tests.inference.toys import random_distribution
from tests.oracles.toy_model import ToyModel

from .letters import CONSTRAINT, LETTERS, MODEL, SilentDrafter, generate


def test_drafters_that_do_not_pay_rest() -> None:
    slow = DrafterRecord("slow")
    calls = 0
    for _ in range(1000):
        if slow.resting:
            slow.rested()
            continue
        calls += 1
        slow.passed(0.02, 0, 0.03, weighed=True)
    assert calls < 160 and slow.rests >= 4
    good = DrafterRecord("good")
    for step in range(100):
        good.passed(0.02, step % 2 * 2, 0.03, weighed=True)
        assert not good.resting


def test_drafters_do_not_rest_where_costs_are_not_weighed() -> None:
    slow = DrafterRecord("slow")
    for _ in range(100):
        slow.passed(0.02, 0, 0.03, weighed=False)
    assert not slow.resting and not slow.rests and "paused" not in str(slow)


def test_slow_drafters_rest_under_goodput(drafting_clock: HandClock) -> None:
    class Slow(SilentDrafter):
        calls = 0

        def propose(self, context: Context) -> Any:
            if not context.drafted:
                self.calls += 1
            drafting_clock.advance(0.003)
            return []

    options = SamplingOptions(seed=1, max_tokens=120)
    found = {}
    for controller in (Goodput(), Fixed(4)):
        slow = Slow()
        speculation = Speculation([slow], controller=controller)
        generate_tokens(
            MODEL,
            [[0]],
            [Matcher(sg.regex("[abc]{200,}"), LETTERS)],
            options,
            drafting=speculation.start(MODEL),
        )
        found[type(controller)] = slow.calls
        assert "Slow: 0." in speculation.report()
    assert found[Goodput] < 50 < 100 < found[Fixed]


def test_slow_drafters_rest_in_samplers(drafting_clock: HandClock) -> None:
    class Slow(SilentDrafter):
        calls = 0

        def propose(self, context: Context) -> Any:
            self.calls += 1
            drafting_clock.advance(0.003)
            return []

    slow = Slow()
    speculation = Speculation([slow])
    model = DistributionModel(LETTERS, random_distribution(5, 5))
    found = sg.sample(
        model, "x", CONSTRAINT, n=20, sampler=sg.inference.LocalMasking(), seed=1, speculate=speculation
    )
    assert speculation.records[0].rests and slow.calls < speculation.counts["passes"] > 20
    assert (
        found.texts
        == sg.sample(
            model, "x", CONSTRAINT, n=20, sampler=sg.inference.LocalMasking(), seed=1, speculate=False
        ).texts
    )


class Knows(SilentDrafter):
    """Knows the model's distribution."""

    gives_distributions = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def propose(self, context: Context) -> Any:
        distribution = np.asarray(MODEL.distribution(tuple(context.tokens[3:])))
        return [Proposal((int(distribution.argmax()),), self.kind, 0.9)]

    def distribution(self, context: Context) -> Any:
        return np.asarray(MODEL.distribution(tuple(context.tokens[3:])))


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("kind", ["mine", "name+value", "forced"])
def test_the_drafter_that_proposed_a_token_is_credited(kind: str, temperature: float) -> None:
    """Credit goes by the name of the drafter, not of the proposal."""
    speculation = Speculation([Knows(kind)], controller=Fixed(4))
    generate(speculation, temperature=temperature)
    assert speculation.counts["accepted"] > 5
    assert speculation.records[0].accepted == speculation.counts["accepted"]
    both = Speculation([Knows(kind), Knows(kind)], controller=Fixed(4))
    generate(both, temperature=temperature)
    assert both.counts["accepted"] > 5 and [record.accepted for record in both.records] == [0, 0]


def test_the_drafter_whose_distribution_was_drawn_from_is_credited() -> None:
    speculation = Speculation([Knows("mine"), SilentDrafter()], Rejection(), Fixed(4))
    generate(speculation)
    assert speculation.counts["accepted"] > 5
    assert [record.accepted for record in speculation.records] == [speculation.counts["accepted"], 0]


def test_drafters_learn_nothing_from_padding() -> None:
    class Learns(SilentDrafter):
        def __init__(self) -> None:
            self.contexts: list[tuple[int, ...]] = []

        def propose(self, context: Context) -> Any:
            return [Proposal((0, 1), "two", 0.9)]

        def learn(self, contexts: Any, logits: Any) -> None:
            assert len(contexts) == len(logits) <= 3
            self.contexts += map(tuple, contexts)

    class PaddedSession(DistributionSession):
        @property
        def capabilities(self) -> SessionCapabilities:
            return replace(super().capabilities, takes_padding=True)

    class Pads(DistributionModel):
        def start(self, prompts: Any) -> Any:
            return PaddedSession(self, prompts)

    speculation = Speculation([learner := Learns()], controller=Fixed(2))
    speculation.costs = Costs({1: {1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0, 6: 0.1}})
    model = Pads(LETTERS, random_distribution(5, 5))
    assert generate(speculation, model=model).tokens == generate(None, model=model).tokens
    assert len(learner.contexts) > 5


def test_drafters_learn_while_drafts_rest() -> None:
    class Learns(SilentDrafter):
        def __init__(self) -> None:
            self.wrong = self.reported = 0

        def learn(self, contexts: Any, logits: Any) -> None:
            self.reported += 1
            self.wrong += int(np.asarray(logits[0]).argmax()) != contexts[0][-1]

    size = 5
    model = ToyModel(
        LETTERS, lambda tokens: [0.96 if token == (tokens or (2,))[-1] else 0.01 for token in range(size)]
    )
    learns = Learns()
    speculation = Speculation([learns])
    run = speculation.start(model)
    run._idle, run._drafting, run._reading = 10**6, 10.0, 0.1  # drafts have long been fruitless
    options = SamplingOptions(seed=3, max_tokens=60)
    generate_tokens(model, [[0, 1, 2]], [Matcher(sg.regex("[abc]{60,}"), LETTERS)], options, drafting=run)
    assert learns.reported > 40 and learns.wrong == 0
