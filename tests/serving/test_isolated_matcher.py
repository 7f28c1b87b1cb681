"""Isolated matchers answer as matchers of this process do, and do not disturb each other."""

from __future__ import annotations

import gc
import pickle
import random
from typing import Any

import numpy as np
import pytest

from structgen.constraints.grammar.builders import lark
from structgen.matcher import Matcher
from structgen.serving.isolated_matcher import open_isolated_matcher
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.requests import constraint_of

from .isolation import (
    SPECS,
    VOCABULARY,
    open_matcher,
)


@pytest.mark.parametrize(("kind", "spec"), SPECS)
@pytest.mark.parametrize("seed", range(3))
def test_a_matcher_process_answers_as_a_matcher_does(
    processes: MatcherProcesses, kind: Any, spec: Any, seed: int
) -> None:
    draw = random.Random(seed)
    near = Matcher(constraint_of(kind, spec), VOCABULARY)
    far = open_matcher(processes, kind, spec)
    assert far.least_tokens(20) == near.least_tokens(20)
    for _ in range(60):
        move = draw.random()
        if move < 0.15 and near.tokens:
            count = draw.randint(1, len(near.tokens))
            near.rollback(count)
            far.rollback(count)
        elif move < 0.25:
            token = draw.randrange(VOCABULARY.size)
            assert far.advance(token) == near.advance(token)
        elif move < 0.5:
            for token in near.forced():
                assert near.advance(token) and far.advance(token)
        elif allowed := list(np.flatnonzero(np.unpackbits(near.mask().view(np.uint8), bitorder="little"))):
            token = int(draw.choice(allowed))
            assert near.advance(token) and far.advance(token)
        assert far.tokens == near.tokens
        if near.is_finished:
            assert not far.mask().any() and far.must_stop
            near.rollback(1)
            far.rollback(1)
        if draw.random() < 0.7:
            assert np.array_equal(far.mask(), near.mask())
            assert far.is_complete() == near.is_complete() and far.must_stop == near.must_stop
            assert far.allowed_count() == near.allowed_count() and far.forced() == near.forced()
            assert far.forced_bytes() == near.forced_bytes() and far.witness(50) == near.witness(50)
    with pytest.raises(ValueError, match="cannot roll back"):
        far.rollback(1000)


def test_a_matcher_process_reports_the_temperature_of_a_token(processes: MatcherProcesses) -> None:
    constraint = lark('start: "a" x\nx[temperature=0.5]: /[ab]/', lexer="longest")
    matcher = open_isolated_matcher(processes.start(pickle.dumps(constraint)))
    assert matcher.sets_temperature and matcher.temperature is None
    assert matcher.advance(ord("a")) and matcher.temperature == 0.5
    assert matcher.advance(ord("b")) and matcher.temperature is None


def test_matchers_of_one_matcher_process_do_not_disturb_each_other(processes: MatcherProcesses) -> None:
    process = processes.start(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    one, other = open_isolated_matcher(process), open_isolated_matcher(process)
    assert one is not None and other is not None
    assert one.advance(ord("a")) and one.advance(ord("b")) and one.advance(ord("a"))
    assert one.must_stop and not other.must_stop and other.allowed_count() > 1
    del one
    gc.collect()
    assert list(process._released) == [0] and other.advance(ord("b"))
    assert not other.is_complete() and not process._released
