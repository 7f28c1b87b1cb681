"""With drafts or without, the same tokens, weights and ends: any draft, any constraint, any noise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.choice import choice
from structgen.errors import LimitExceeded
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import Context, ForcedBytes, Start
from structgen.speculative.generation_drafts import GenerationDrafts
from structgen.speculative.speculation import Speculation
from structgen.vocabulary import Vocabulary
from tests.generation.small_vocabulary import NAIVE, REAL, WORDS
from tests.inference.toys import random_distribution
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel
from tests.speculative.toy_drafters import DRAFTERS, Guess, Reported

OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([0, 1.0, 0.7]),
    top_k=st.none() | st.integers(1, 3),
    seed=st.integers(0, 99),
    max_tokens=st.sampled_from([4, 20]),
    forced=st.booleans(),
    exact_weight=st.booleans(),
    max_backtracks=st.sampled_from([0, 64]),
    close_within_budget=st.booleans(),
    noise=st.sampled_from(["uniform", "gumbel"]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 1.5, -2.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.7]),
    logit_bias=st.none() | st.dictionaries(st.integers(0, 13), st.floats(-3, 3), max_size=2),
)


def same(one: Generation, other: Generation) -> None:
    mine, theirs = asdict(one), asdict(other)
    for name in ("timing", "logprob", "log_weight", "error", "drafted_tokens", "accepted_tokens"):
        mine.pop(name), theirs.pop(name)
    assert mine == theirs
    if one.logprob is not None:  # draft tokens are scored, which plain drawing may have been spared
        assert one.logprob == pytest.approx(other.logprob)
    if one.log_weight is not None:
        assert one.log_weight == pytest.approx(other.log_weight)
    assert str(one.error) == str(other.error)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, OPTIONS), min_size=1, max_size=3),
    st.integers(0, 99),
    st.integers(1, 9),
    st.booleans(),
)
@example(  # whether forced tokens are scored, where they need not be, depended on drafts
    rows=[
        (
            [""],
            ["baé"],
            SamplingOptions(
                seed=9,
                max_tokens=4,
                exact_weight=False,
                max_backtracks=0,
                close_within_budget=False,
                noise="uniform",
            ),
        ),
        (
            ["aaba"],
            [""],
            SamplingOptions(temperature=0, seed=0, max_tokens=4, max_backtracks=0, close_within_budget=False),
        ),
    ],
    seed=0,
    most=2,
    branching=False,
)
def test_drafts_change_nothing(
    rows: list[tuple[list[str], list[str], SamplingOptions]], seed: int, most: int, branching: bool
) -> None:
    """Also where masks promise what there is not (`optimistic`), so that rows go back from dead ends."""
    model = ToyModel(NAIVE, random_distribution(seed, 14))
    each = [options for _, _, options in rows]

    def matchers() -> list[Any]:
        return [
            NaiveMatcher([word.encode() for word in words], NAIVE, [word.encode() for word in dead])
            for words, dead, _ in rows
        ]

    prompts = [[0]] * len(rows)
    plain = generate_tokens(model, prompts, matchers(), each)
    reported = max((one.tokens for one in plain), key=len)
    speculation = Speculation([Guess(seed, reported)], controller=Fixed(most), branching=branching)
    found = generate_tokens(model, prompts, matchers(), each, drafting=speculation.start(model))
    for one, other in zip(plain, found, strict=True):
        same(one, other)
        assert other.accepted_tokens <= other.drafted_tokens
    assert sum(one.drafted_tokens for one in found) == speculation.counts["drafted"]
    assert sum(one.accepted_tokens for one in found) == speculation.counts["accepted"]


@settings(max_examples=100, deadline=None)
@given(WORDS, OPTIONS, st.integers(0, 20))
def test_drafters_change_nothing(words: list[str], options: SamplingOptions, distribution: int) -> None:
    model = ToyModel(REAL, random_distribution(distribution, 14))
    (plain,) = generate_tokens(model, [[0, 1, 0, 1, 2]], [Matcher(choice(words), REAL)], options)
    speculation = Speculation(DRAFTERS(), controller=Fixed(), branching=True)
    for _ in range(2):  # the second time they have learned
        (drafted,) = generate_tokens(
            model,
            [[0, 1, 0, 1, 2]],
            [Matcher(choice(words), REAL)],
            options,
            drafting=speculation.start(model),
        )
        same(plain, drafted)


def test_a_dead_end_after_tokens_that_the_budget_refused() -> None:
    """What the budget refused at a position is drawn again there, as if it had been read again."""
    pieces = [b"a", b"b", b"c", b"d", None]
    vocabulary = Vocabulary.from_tokens(pieces, [4])

    def distribution(tokens: tuple[int, ...]) -> tuple[float, ...]:
        if tokens == (1,):
            return (0, 0, 0, 0, 1)  # the model would end here, the constraint does not
        return (0.2,) * 5 if tokens else (0.5, 0.3, 0.1, 0.1, 0)

    constraint = sg.regex("a(b|c|d){4}|b(a|c)|c(a|b)|d(a|b)")
    model = ToyModel(vocabulary, distribution)
    steered = 0
    for seed in range(200):
        options = SamplingOptions(seed=seed, max_tokens=2, close_within_budget=True)
        (plain,) = generate_tokens(model, [[0]], [Matcher(constraint, vocabulary)], options)
        drafting = Speculation([Reported([1], at=1)], controller=Fixed()).start(model)
        (found,) = generate_tokens(
            model, [[0]], [Matcher(constraint, vocabulary)], options, drafting=drafting
        )
        same(plain, found)
        steered += plain.steered and plain.retries > 0
    assert steered > 20


def test_a_limit_met_on_a_guess_is_nothing() -> None:
    class Short(NaiveMatcher):
        def advance(self, token_id: int) -> bool:
            if guessing:
                raise LimitExceeded("too much")
            return super().advance(token_id)

    class Careful(GenerationDrafts):
        def propose(self, rows: Any, hidden: Any = None, **reads: bool) -> Any:
            guessing.append(1)
            draft = super().propose(rows, hidden, **reads)  # type: ignore[misc]
            guessing.clear()
            return draft

    guessing: list[int] = []
    model = ToyModel(NAIVE, random_distribution(1, 14))
    options = SamplingOptions(seed=1, max_tokens=8)
    (plain,) = generate_tokens(model, [[0]], [NaiveMatcher([b"aabc", b"abca"], NAIVE)], options)
    short = object.__new__(Short)
    short.__dict__.update(NaiveMatcher([b"aabc", b"abca"], NAIVE).__dict__)
    short.fork = NaiveMatcher.fork.__get__(short)  # type: ignore[method-assign]
    drafting = Careful(Speculation([Reported([0, 0, 0])], controller=Fixed()), model)
    (found,) = generate_tokens(model, [[0]], [short], options, drafting=drafting)
    same(plain, found)


def test_forced_bytes_are_drafted() -> None:
    vocabulary = Vocabulary(
        [bytes([i]) for i in range(256)] + [b"name", b'": "', None],
        [258],
        encoder=lambda text: list(text.encode()),
    )
    matcher = Matcher(sg.regex('{"name": "[ab]"}'), vocabulary)
    (guessed,) = ForcedBytes().start(Start([0], vocabulary)).propose(Context([0], matcher, vocabulary))
    assert guessed.kind == "forced" and vocabulary.decode(guessed.tokens) == b'{"name": "'
    model = ToyModel(vocabulary, random_distribution(3, 259))
    options = SamplingOptions(seed=4, max_tokens=40, forced=False)
    (plain,) = generate_tokens(model, [[0]], [matcher.fork()], options)
    speculation = Speculation(controller=Fixed())
    (found,) = generate_tokens(model, [[0]], [matcher.fork()], options, drafting=speculation.start(model))
    same(plain, found)
    assert found.accepted_tokens > 0 and "tokens in" in speculation.report()
