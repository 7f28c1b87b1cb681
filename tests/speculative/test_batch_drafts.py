"""A running batch with drafts draws the same tokens as without: rows join, leave, are dropped and draw late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.choice import choice
from structgen.errors import LimitExceeded
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.loop import failing_alone, generation_of
from structgen.generation.options import row_seed
from structgen.generation.results import Timing
from structgen.generation.row import Row
from structgen.matcher import Matcher
from structgen.speculative.controllers import Fixed, Goodput
from structgen.speculative.recycling import TriGrams
from structgen.speculative.speculation import Speculation
from structgen.speculative.verifiers import Rejection
from tests.generation.small_vocabulary import NAIVE, REAL, WORDS
from tests.inference.toys import random_distribution
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel
from tests.speculative.test_generation_drafts import OPTIONS, same
from tests.speculative.toy_drafters import DRAFTERS, Guess


class LateThreads:
    """Runs the tasks of some rows only when others run: their draws are late, as those of slow constraints."""

    def __init__(self, seed: int, late: float) -> None:
        self._random = np.random.default_rng(seed)
        self._late = late
        self._waiting: list[Callable[[], None]] = []

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task()
        for task in tasks:
            if self._random.random() < self._late:
                self._waiting.append(task)
            else:
                task()

    def close(self) -> None:
        """There are no threads."""


def batch_of(model: Any, speculation: Speculation, seed: int, late: float) -> ContinuousBatch:
    # Patience without end: on a busy machine a draw would be late by chance.
    batch = ContinuousBatch(model, most_rows=3, patience=1e6, drafting=speculation.start(model))
    batch.close()
    batch._threads = LateThreads(seed, late)  # type: ignore[assignment]
    return batch


def run(batch: ContinuousBatch, rows: Sequence[Row], seed: int, dropped: int | None) -> None:
    """Add the rows one by one, at random rounds; drop one of them at a random round."""
    random = np.random.default_rng(seed)
    waiting = [row for row in rows if row.finish is None]
    for _ in range(2000):
        if waiting and (batch.is_idle or random.random() < 0.5):
            batch.add([waiting.pop(0)])
        if dropped is not None and random.random() < 0.2:
            batch.drop([rows[dropped]])
            if rows[dropped] in waiting:
                waiting.remove(rows[dropped])
            dropped = None
        batch.step()
        if batch.is_idle and not waiting:
            return
    raise AssertionError("the batch does not end")


def row_of(number: int, matcher: Any, options: SamplingOptions, vocabulary: Any) -> Row:
    row = Row(number, [0], matcher, options.replace(speculate=True), vocabulary, row_seed(options.seed, 0))
    with failing_alone(row):
        row.prepare(None)
    return row


def generation(row: Row) -> Generation:
    return generation_of(row, Timing())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, OPTIONS), min_size=1, max_size=5),
    st.integers(0, 99),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
def test_drafts_change_nothing_in_a_running_batch(
    rows: list[tuple[list[str], list[str], SamplingOptions]],
    seed: int,
    most: int,
    branching: bool,
    late: float,
    drops: bool,
) -> None:
    """Also where rows step back from dead ends (`optimistic` masks)."""
    model = ToyModel(NAIVE, random_distribution(seed, 14))

    def matcher(words: list[str], dead: list[str]) -> NaiveMatcher:
        return NaiveMatcher([word.encode() for word in words], NAIVE, [word.encode() for word in dead])

    plain = [
        generate_tokens(model, [[0]], [matcher(words, dead)], [options])[0] for words, dead, options in rows
    ]
    reported = max((one.tokens for one in plain), key=len)
    speculation = Speculation([Guess(seed, reported)], controller=Fixed(most), branching=branching)
    batch = batch_of(model, speculation, seed, late)
    drafted = [
        row_of(number, matcher(words, dead), options, NAIVE)
        for number, (words, dead, options) in enumerate(rows)
    ]
    dropped = seed % len(rows) if drops else None
    run(batch, drafted, seed, dropped)
    for number, (one, row) in enumerate(zip(plain, drafted, strict=True)):
        if number == dropped and row.finish is None:
            assert row.tokens == one.tokens[: len(row.tokens)] or row.retries or one.retries
            continue
        same(one, generation(row))
    assert not batch._drafting._rows  # type: ignore[union-attr]  # nothing is kept of rows that have left


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, OPTIONS), min_size=1, max_size=4), st.integers(0, 20), st.booleans())
def test_drafters_change_nothing_in_a_running_batch(
    rows: list[tuple[list[str], SamplingOptions]], seed: int, goodput: bool
) -> None:
    model = ToyModel(REAL, random_distribution(seed, 14))
    plain = [
        generate_tokens(model, [[0]], [Matcher(choice(words), REAL)], options)[0] for words, options in rows
    ]
    speculation = Speculation(DRAFTERS(), controller=Goodput() if goodput else Fixed(), branching=True)
    for _ in range(2):  # the second time they have learned
        drafted = [
            row_of(number, Matcher(choice(words), REAL), options, REAL)
            for number, (words, options) in enumerate(rows)
        ]
        run(batch_of(model, speculation, seed, 0.2), drafted, seed, None)
        for one, row in zip(plain, drafted, strict=True):
            same(one, generation(row))


def test_accepted_drafts_save_passes() -> None:
    model = ToyModel(REAL, random_distribution(3, 14))
    words = ["abcabcabcabcé", "cabcabcabcabé"]
    speculation = Speculation(controller=Fixed(4))
    batch = batch_of(model, speculation, 0, 0.0)
    rows = [
        row_of(number, Matcher(choice(words), REAL), SamplingOptions(seed=number, forced=False), REAL)
        for number in range(3)
    ]
    batch.add(rows)
    while not batch.is_idle:
        batch.step()
    tokens = max(len(row.tokens) for row in rows)
    assert batch.counts.passes < tokens
    assert batch.counts.accepted == speculation.counts["accepted"] == sum(row.accepted_tokens for row in rows)
    assert batch.counts.drafted >= batch.counts.accepted > 0


def test_a_drafter_that_fails_leaves_the_texts_as_they_are() -> None:
    class Broken:
        def start(self, start: Any) -> Broken:
            return self

        def propose(self, context: Any) -> list[Any]:
            raise RuntimeError("broken")

        def observe(self, tokens: Sequence[int], start: int) -> None:
            pass

    model = ToyModel(REAL, random_distribution(3, 14))
    options = SamplingOptions(seed=1)
    (plain,) = generate_tokens(model, [[0]], [Matcher(choice(["abc", "cab"]), REAL)], options)
    row = row_of(0, Matcher(choice(["abc", "cab"]), REAL), options, REAL)
    batch = batch_of(model, Speculation([Broken()]), 0, 0.0)  # type: ignore[list-item]
    with pytest.warns(UserWarning, match="Broken failed and is left out"):
        run(batch, [row], 0, None)
    same(plain, generation(row))


class Stuck(Matcher):
    """A matcher that cannot be rolled back, as one whose process has ended."""

    def rollback(self, n: int) -> None:
        raise LimitExceeded("no process is left", limit="max_matcher_processes")


@pytest.mark.parametrize("runs", [True, False])
def test_a_row_ends_with_an_error_if_its_drafts_cannot_be_removed(runs: bool) -> None:
    """Otherwise the draft tokens would become part of the text."""
    model = ToyModel(REAL, random_distribution(3, 14))
    words = ["abcabcabcabcé", "cabcabcabcabé", "bcbcbcbcbc"]
    options = SamplingOptions(seed=1, forced=False)
    speculation = Speculation(controller=Fixed(4))
    if runs:
        row = row_of(0, Stuck(choice(words), REAL), options, REAL)
        run(batch_of(model, speculation, 0, 0.0), [row], 0, None)
        found = generation(row)
    else:
        (found,) = generate_tokens(
            model, [[0]], [Stuck(choice(words), REAL)], options, drafting=speculation.start(model)
        )
    assert found.finish == "failed" and isinstance(found.error, LimitExceeded)


def test_no_draft_of_an_earlier_position_decides_a_draw() -> None:
    """With verifiers that draw tokens themselves, a draft that was not read must be forgotten."""
    model = ToyModel(REAL, random_distribution(3, 14))
    speculation = Speculation([TriGrams()], Rejection(), Fixed(3))
    drafting = speculation.start(model)
    row = row_of(0, None, SamplingOptions(seed=1), REAL)
    row.draft_limit = None
    drafting.grow(row, trees=False)
    drafting._rows[row].grown.sampled[-1] = object()  # what an earlier position drew
    row.tokens.append(0)
    row.pending.append(0)
    (tree,) = drafting.choose([row], [1], rows_in_pass=1)
    assert not len(tree) and not drafting._rows[row].grown.sampled
