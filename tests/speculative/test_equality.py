"""With drafts or without, the same tokens, weights and ends: any draft, any constraint, any noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.choice import choice
from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.sampling import Generation, SamplingOptions, generate_tokens
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import Context, ForcedBytes, Guessed, PromptLookup
from structgen.speculative.driver import Speculation
from structgen.vocabulary import Vocabulary
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel
from tests.sampling.test_engine import NAIVE, REAL, WORDS
from tests.sampling.toys import random_law

OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([0, 1.0, 0.7]),
    top_k=st.none() | st.integers(1, 3),
    seed=st.integers(0, 99),
    max_tokens=st.sampled_from([4, 20]),
    forced=st.booleans(),
    exact_weight=st.booleans(),
    max_retries=st.sampled_from([0, 64]),
    close_within_budget=st.booleans(),
)


class Guess:
    """Drafts by chance, often what the plain sampler will draw."""

    def __init__(self, seed: int, told: Sequence[int], start: int) -> None:
        self._random = np.random.default_rng(seed)
        self._told = list(told)
        self._start = start

    def propose(self, context: Context, most: int) -> Guessed:
        drawn = len(context.tokens) - self._start
        draft = self._told[drawn : drawn + most]
        for place in range(len(draft)):
            if self._random.random() < 0.25:
                draft[place] = int(self._random.integers(14))
        return Guessed(draft[: int(self._random.integers(0, most + 1))], "guess")


def same(one: Generation, other: Generation) -> None:
    mine, theirs = asdict(one), asdict(other)
    for name in ("timing", "logprob", "log_weight", "error"):
        mine.pop(name), theirs.pop(name)
    assert mine == theirs
    if one.logprob is not None:  # what was read ahead is scored, which plain drawing may have been spared
        assert one.logprob == pytest.approx(other.logprob)
    if one.log_weight is not None:
        assert one.log_weight == pytest.approx(other.log_weight)
    assert str(one.error) == str(other.error)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, OPTIONS), min_size=1, max_size=3), st.integers(0, 99), st.integers(1, 6)
)
def test_drafts_change_nothing(
    rows: list[tuple[list[str], list[str], SamplingOptions]], seed: int, most: int
) -> None:
    """Also where masks promise what there is not (`optimistic`), so that rows go back from dead ends."""
    model = ToyModel(NAIVE, random_law(seed, 14))
    each = [options for _, _, options in rows]

    def matchers() -> list[Any]:
        return [
            NaiveMatcher([word.encode() for word in words], NAIVE, [word.encode() for word in dead])
            for words, dead, _ in rows
        ]

    prompts = [[0]] * len(rows)
    plain = generate_tokens(model, prompts, matchers(), each)
    told = max((one.tokens for one in plain), key=len)
    drafting = Speculation(NAIVE, [Guess(seed, told, 1)], Fixed(), most)
    for one, other in zip(
        plain, generate_tokens(model, prompts, matchers(), each, drafting=drafting), strict=True
    ):
        same(one, other)
    assert drafting.taken <= drafting.drafted


@settings(max_examples=100, deadline=None)
@given(WORDS, OPTIONS, st.integers(0, 20))
def test_drafters_change_nothing(words: list[str], options: SamplingOptions, law: int) -> None:
    model = ToyModel(REAL, random_law(law, 14))
    (plain,) = generate_tokens(model, [[0, 1, 0, 1, 2]], [Matcher(choice(words), REAL)], options)
    drafting = Speculation(REAL, [ForcedBytes(), PromptLookup()])
    (drafted,) = generate_tokens(
        model, [[0, 1, 0, 1, 2]], [Matcher(choice(words), REAL)], options, drafting=drafting
    )
    same(plain, drafted)


def test_a_dead_end_behind_tokens_that_the_budget_refused() -> None:
    """What the budget refused at a position is drawn again there, as if it had been read again."""
    pieces = [b"a", b"b", b"c", b"d", None]
    vocabulary = Vocabulary.from_tokens(pieces, [4])

    def law(tokens: tuple[int, ...]) -> tuple[float, ...]:
        if tokens == (1,):
            return (0, 0, 0, 0, 1)  # the model would end here, the constraint does not
        return (0.2,) * 5 if tokens else (0.5, 0.3, 0.1, 0.1, 0)

    class Told:
        def propose(self, context: Context, most: int) -> Guessed:
            return Guessed([1] if len(context.tokens) == 1 else [], "told")

    constraint = sg.regex("a(b|c|d){4}|b(a|c)|c(a|b)|d(a|b)")
    model = ToyModel(vocabulary, law)
    steered = 0
    for seed in range(200):
        options = SamplingOptions(seed=seed, max_tokens=2, close_within_budget=True)
        (plain,) = generate_tokens(model, [[0]], [Matcher(constraint, vocabulary)], options)
        drafting = Speculation(vocabulary, [Told()], Fixed())
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

    class Told:
        def propose(self, context: Context, most: int) -> Guessed:
            guessing.append(1)
            return Guessed([0] * most, "told")

    class Careful(Speculation):
        def propose(self, row: Any) -> list[int]:
            draft = super().propose(row)
            guessing.clear()
            return draft

    guessing: list[int] = []
    model = ToyModel(NAIVE, random_law(1, 14))
    options = SamplingOptions(seed=1, max_tokens=8)
    (plain,) = generate_tokens(model, [[0]], [NaiveMatcher([b"aabc", b"abca"], NAIVE)], options)
    short = object.__new__(Short)
    short.__dict__.update(NaiveMatcher([b"aabc", b"abca"], NAIVE).__dict__)
    short.fork = NaiveMatcher.fork.__get__(short)  # type: ignore[method-assign]
    (found,) = generate_tokens(model, [[0]], [short], options, drafting=Careful(NAIVE, [Told()], Fixed()))
    same(plain, found)


def test_forced_bytes_are_drafted() -> None:
    vocabulary = Vocabulary(
        [bytes([i]) for i in range(256)] + [b"name", b'": "', None],
        [258],
        encoder=lambda text: list(text.encode()),
    )
    matcher = Matcher(sg.regex('{"name": "[ab]"}'), vocabulary)
    guessed = ForcedBytes().propose(Context([0], matcher, vocabulary), 7)
    assert guessed.kind == "forced" and vocabulary.decode(guessed.tokens) == b'{"name"'
    model = ToyModel(vocabulary, random_law(3, 259))
    options = SamplingOptions(seed=4, max_tokens=40, forced=False)
    (plain,) = generate_tokens(model, [[0]], [matcher.fork()], options)
    drafting = Speculation(vocabulary, None, Fixed())
    (found,) = generate_tokens(model, [[0]], [matcher.fork()], options, drafting=drafting)
    same(plain, found)
    assert drafting.taken > 0
