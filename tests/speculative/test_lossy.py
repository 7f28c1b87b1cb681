"""Lossy verifiers: what typical acceptance accepts, by enumeration. Constraints hold, and results are marked."""

from __future__ import annotations

import copy
import math
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.generation import SamplingOptions
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.distributions import StepDistribution
from structgen.matcher import Matcher
from structgen.speculative import (
    Fixed,
    Judge,
    Match,
    Proposal,
    Speculation,
    SpeculationWarning,
    TriGrams,
    TypicalAcceptance,
)
from structgen.speculative.drafters import Context

from .letters import CONSTRAINT, LETTERS, MODEL, SilentDrafter, generate


class Every(SilentDrafter):
    """Proposes every token of a list at every node."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def propose(self, context: Context) -> Any:
        return [Proposal((token,), f"every {token}", 0.9 - 0.1 * token) for token in self.tokens]


def lossy(tokens: Sequence[int], verifier: Any = None, **options: Any) -> Speculation:
    chosen = TypicalAcceptance() if verifier is None else verifier
    return Speculation([Every(tokens)], chosen, Fixed(4), allow_lossy=True, **options)


@st.composite
def steps(draw: st.DrawFn) -> tuple[StepDistribution, list[float], dict[int, float], list[int]]:
    """A step: its distribution, the probabilities by the definition, and draft tokens."""
    size = draw(st.integers(2, 6))
    logits = [draw(st.floats(-4, 4)) for _ in range(size)]
    allowed = draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True).map(sorted))
    temperature = draw(st.sampled_from([0.3, 1.0, 1.7]))
    masses = {token: math.exp(logits[token] / temperature) for token in allowed}
    children = draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
    step = StepDistribution(
        np.array(logits), np.array(allowed, dtype=np.int64), SamplingOptions(temperature=temperature)
    )
    total = sum(masses.values())
    return step, logits, {token: mass / total for token, mass in masses.items()}, children


@given(step=steps(), epsilon=st.sampled_from([0.02, 0.09, 0.4]), delta=st.sampled_from([0.1, 0.3, 0.9]))
@settings(deadline=None, max_examples=200)
def test_typical_acceptance_follows_its_formula(
    step: tuple[StepDistribution, list[float], dict[int, float], list[int]], epsilon: float, delta: float
) -> None:
    distribution, logits, p, children = step
    entropy = -sum(chance * math.log(chance) for chance in p.values())
    threshold = min(epsilon, delta * math.exp(-entropy))
    target = distribution.over(len(logits))
    verifier = TypicalAcceptance(epsilon, delta)
    for token in range(len(logits)):
        assert distribution.allows(token) == (token in p)
        chance = p.get(token, 0.0)
        if abs(chance - threshold) > 1e-9:
            assert (verifier.accept(target, [token], None) == token) == (chance > threshold)
    best = max(p.get(token, 0.0) for token in children)
    accepted = verifier.accept(target, children, None)
    if abs(best - threshold) > 1e-9:
        assert (accepted is not None) == (best > threshold)
    if accepted is not None:
        assert p[accepted] == pytest.approx(best)


class Recording:
    """Accepts as typical acceptance does, and notes what it was given."""

    is_lossy = True
    drafted = "any"

    def __init__(self) -> None:
        self.seen: list[tuple[Any, list[int], int | None]] = []

    def accept(self, target: Any, children: Sequence[int], states: Any) -> int | None:
        token = TypicalAcceptance().accept(target, children, states)
        self.seen.append((target, list(children), token))
        return token


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_texts_have_the_tokens_that_are_accepted_under_the_mask(temperature: float, branching: bool) -> None:
    accepted = refused = 0
    for seed in range(12):
        verifier = Recording()
        made = generate(lossy([3, 0, 2], verifier, branching=branching), seed, temperature=temperature)
        assert re.fullmatch("[abc]{3,30}" if made.finish == "complete" else "[abc]{0,30}", made.text)
        matcher, position, text = Matcher(CONSTRAINT, LETTERS), 0, made.tokens
        for target, children, token in verifier.seen:
            while True:
                bits = np.unpackbits(matcher.mask().view(np.uint8), count=5, bitorder="little")
                p = np.array(MODEL.distribution(tuple(text[:position]))) ** (1 / temperature) * bits
                if np.allclose(target, p / p.sum(), atol=1e-9):
                    break
                matcher.advance(text[position])
                position += 1
            assert all(bits[child] for child in children)
            if token is not None and position < len(text):
                assert text[position] == token
                accepted += 1
            refused += token is None
    assert accepted > 20 and refused > 0


def test_an_accepted_token_may_differ_from_the_plain_draw() -> None:
    texts = [(generate(None, seed).text, generate(lossy([0]), seed).text) for seed in range(10)]
    assert any(plain != other for plain, other in texts)


def test_greedy_texts_are_those_without_drafts() -> None:
    made = generate(lossy([3, 0, 1, 2], branching=True), temperature=0.0)
    plain = generate(None, temperature=0.0)
    assert made.tokens == plain.tokens and made.accepted_tokens > 0
    assert made.is_lossy and not plain.is_lossy


def test_generations_say_so_and_have_no_log_weight() -> None:
    made = generate(lossy([0]), exact_weight=True)
    assert made.is_lossy and made.log_weight is None
    assert made.logprob is not None and made.logprob < 0
    exact = generate(Speculation([Every([0])], Match(), Fixed(4), allow_lossy=True), exact_weight=True)
    assert not exact.is_lossy and exact.log_weight is not None
    alone = generate(lossy([0]), speculate=False)
    assert not alone.is_lossy and alone.tokens == generate(None).tokens


def test_a_result_shows_that_it_is_lossy() -> None:
    from structgen.results import Result
    from structgen.types import output_type

    result: Any = Result(output_type(CONSTRAINT), generate(lossy([0])))
    assert result.is_lossy and "lossy" in repr(result) and "lossy" in result._repr_html_()
    other: Any = Result(output_type(CONSTRAINT), generate(None))
    assert not other.is_lossy and "lossy" not in repr(other) + other._repr_html_()


@pytest.mark.parametrize("verifier", [TypicalAcceptance(), Judge([1.0, 2.0])])
def test_a_lossy_verifier_has_to_be_allowed(verifier: Any) -> None:
    with pytest.raises(
        OptionError, match="is lossy: it accepts tokens .* the model's distribution"
    ) as raised:
        Speculation(verifier=verifier)
    assert "allow_lossy=True" in str(raised.value.hint)
    replaced = Speculation()
    replaced.verifier = verifier
    with pytest.raises(OptionError, match="is lossy"):
        replaced.start(MODEL)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TypicalAcceptance(epsilon=0),
        lambda: TypicalAcceptance(delta=-1),
        lambda: TypicalAcceptance(epsilon=float("nan")),
        lambda: Judge([1.0], threshold=2),
        lambda: Speculation(allow_lossy=1),  # type: ignore[arg-type]
    ],
)
def test_bad_options(make: Callable[[], Any]) -> None:
    with pytest.raises(OptionError, match="it must be"):
        make()
    with pytest.raises(OptionError, match="finite numbers"):
        Judge([[1.0]])


def test_what_a_judge_needs() -> None:
    with pytest.raises(OptionError, match="nodes of a tree"):
        Speculation(verifier=Judge([1.0]), branching=True, allow_lossy=True)
    with pytest.raises(OptionError, match="keeps none"):
        Speculation(verifier=Judge([1.0]), allow_lossy=True).start(MODEL)


def test_running_batches_refuse_it_and_samplers_warn() -> None:
    with pytest.raises(OptionError, match="running batch takes no lossy verifier"):
        ContinuousBatch(MODEL, drafting=lossy([0]).start(MODEL))  # type: ignore[arg-type]
    from structgen.speculative.defaults import sampler_drafts_of

    with pytest.warns(SpeculationWarning, match="TypicalAcceptance is not used"):
        sampler_drafts_of(
            MODEL,  # type: ignore[arg-type]
            lossy([0]),
            [0],
            Matcher(CONSTRAINT, LETTERS),
            temperature=1.0,
            max_tokens=5,
            sampler="exact",
        )


def test_the_report_and_copies() -> None:
    speculation = Speculation([TriGrams()], TypicalAcceptance(0.2), Fixed(4), allow_lossy=True)
    generate(speculation)
    assert "lossy: tokens accepted by TypicalAcceptance" in speculation.report()
    for other in (pickle.loads(pickle.dumps(speculation)), copy.deepcopy(speculation)):
        assert other.allow_lossy and other.verifier == TypicalAcceptance(0.2)
        assert generate(other).is_lossy
    judge = pickle.loads(pickle.dumps(Judge([1.0, -2.0], 0.5, 0.7)))
    assert judge.weight.tolist() == [1.0, -2.0] and (judge.bias, judge.threshold) == (0.5, 0.7)
