"""Slow constraints get a matcher process, and quick ones stay in this process until they meet a limit."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.serving import isolating_compiler
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.serving.isolated_matcher import IsolatedMatcher
from structgen.serving.isolating_compiler import IsolatingCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.migrating_matcher import MigratingMatcher
from structgen.serving.probe import serving_vocabulary
from structgen.serving.requests import constraint_of

from .isolation import (
    LARGE,
    UNLIMITED,
    VOCABULARY,
)
from .specs import SLOW


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_constraint_that_takes_long_to_build_is_served_from_a_matcher_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = RequestLimits(quick_seconds=5.0, slow_mask_seconds=30.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        quick = compiler.compile("regex", "ab")
        assert not quick.is_slow and isinstance(quick.open(), MigratingMatcher)
        monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", 0.0)
        large = compiler.compile("json", LARGE)
        assert large.is_slow
        one, other = large.open(), large.open()
        assert isinstance(one, IsolatedMatcher) and isinstance(other, IsolatedMatcher)
        assert one._process is other._process
        assert one.advance(ord("{")) and one.witness() and not other.tokens
        assert compiler.matcher_processes is not None and compiler.matcher_processes.running == 1
        assert compiler.compile("json", LARGE) is large


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_limit_in_the_middle_of_a_text_moves_it_to_a_matcher_process() -> None:
    # Cheap for eight letters. After them the text has more parses than the limits allow.
    spec = 'root ::= [a-z]{8} e\ne ::= e e | [a-z] e | e [a-z] | [a-z] | ""'
    text = list(b"abcdefghabababababab")
    with IsolatingCompiler(
        VOCABULARY, RequestLimits(slow_mask_seconds=9.0, step_seconds=9.0), workers=1
    ) as compiler:
        compiler._shared_vocabulary = serving_vocabulary(VOCABULARY.with_limits(mask_steps=20))
        found = compiler.compile("grammar", spec)
        assert isinstance(found, IsolatableConstraint) and not found.is_slow
        near, moving = Matcher(constraint_of("grammar", spec), VOCABULARY), found.open()
        assert isinstance(moving, MigratingMatcher)
        for token in text:
            assert near.advance(token) and moving.advance(token)
            assert np.array_equal(near.mask(), moving.mask()) and moving.tokens == near.tokens
            assert near.must_stop == moving.must_stop and near.is_complete() == moving.is_complete()
        assert found.is_slow
        moving.rollback(14)
        near.rollback(14)
        assert np.array_equal(near.mask(), moving.mask()) and moving.tokens == near.tokens == text[:6]
        assert isinstance(found.open(), IsolatedMatcher)


def test_hostile_specs_are_refused_as_before() -> None:
    with IsolatingCompiler(UNLIMITED, RequestLimits(compile_seconds=0.5), workers=1) as compiler:
        with pytest.raises(LimitExceeded) as caught:
            compiler.compile("grammar", SLOW)
        assert caught.value.limit == "compile_seconds"
