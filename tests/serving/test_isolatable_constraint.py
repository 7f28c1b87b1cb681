"""Constraints that may run isolated: who waits for a matcher process, who ends it, and what is remembered."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

from structgen.errors import LimitExceeded
from structgen.matcher import Matcher
from structgen.serving import isolating_compiler
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.serving.isolating_compiler import IsolatingCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.migrating_matcher import MigratingMatcher
from structgen.serving.requests import constraint_of
from tests.unhurried import HANG_SECONDS

from .isolation import (
    LARGE,
    VOCABULARY,
    gone,
    until,
)
from .specs import SLOW


def isolatable(
    compiler: IsolatingCompiler, kind: str, value: Any
) -> tuple[MatcherProcesses, IsolatableConstraint]:
    """Return the compiler's matcher processes, and a constraint that only they compile."""
    processes = compiler.matcher_processes
    assert processes is not None
    return processes, IsolatableConstraint(
        kind, b"", pickle.dumps(constraint_of(kind, value)), processes, None
    )


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_client_that_disconnects_ends_the_build_of_its_matcher_process(
    stopped_processes: list[int],
) -> None:
    limits = RequestLimits(quick_seconds=9.0, compile_seconds=60.0, slow_mask_seconds=30.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        processes, spec = isolatable(compiler, "grammar", SLOW)
        quick = compiler.compile("regex", "ab")
        assert isinstance(quick, IsolatableConstraint) and quick.compiled is not None
        moving = MigratingMatcher(quick.compiled.open(), spec)

        def leave() -> None:
            until(lambda: stopped_processes)
            moving.on_disconnect()

        leaving = threading.Thread(target=leave)
        leaving.start()
        with pytest.raises(LimitExceeded) as caught:
            moving.witness()
        leaving.join()
        assert caught.value.limit == "disconnected" and processes.running == 0
        # Another client may still need this spec.
        assert spec._refusal is None


@pytest.mark.parametrize("first", ["who had it built", "who waits"])
def test_a_matcher_process_is_built_while_a_client_waits_for_it(
    first: str, stopped_processes: list[int]
) -> None:
    limits = RequestLimits(quick_seconds=9.0, compile_seconds=600.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        processes, spec = isolatable(compiler, "grammar", SLOW)
        waits, left = [True, True], []

        def wait(place: int) -> None:
            with pytest.raises(LimitExceeded) as caught:
                spec.open(lambda: waits[place])
            left.append(caught.value.limit)

        threads = [threading.Thread(target=wait, args=(place,)) for place in range(2)]
        for place, thread in enumerate(threads):
            thread.start()
            until(lambda place=place: len(spec._waiting) > place and stopped_processes)
        if first == "who waits":
            waits[1] = False
            threads[1].join(HANG_SECONDS)
            assert not threads[1].is_alive() and threads[0].is_alive()
        else:
            waits[0] = False
            time.sleep(0.3)
            assert not left
        assert processes.running == 1
        waits[:] = [False, False]
        for thread in threads:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()
        assert left == ["disconnected", "disconnected"] and processes.running == 0 and not spec._waiting


@pytest.mark.parametrize("_time", range(3))
def test_a_matcher_process_whose_first_client_disconnected_serves_those_that_wait(
    _time: int, stopped_processes: list[int]
) -> None:
    with IsolatingCompiler(VOCABULARY, RequestLimits(compile_seconds=60.0), workers=1) as compiler:
        processes, spec = isolatable(compiler, "json", LARGE)
        found: list[Any] = []
        is_wanted = True

        def have_it_built() -> None:
            with contextlib.suppress(LimitExceeded):
                spec.open(lambda: is_wanted).on_disconnect()

        builder = threading.Thread(target=have_it_built)
        builder.start()
        until(lambda: stopped_processes)
        other = threading.Thread(target=lambda: found.append(spec.open()))
        other.start()
        until(lambda: len(spec._waiting) == 2)
        os.kill(stopped_processes[0], signal.SIGCONT)
        is_wanted = False
        builder.join(HANG_SECONDS)
        other.join(HANG_SECONDS)
        assert processes.starts == 1 and found[0].allowed_count() and spec._spare is None
        pid = found.pop()._process.pid
        gc.collect()
        gone(pid)


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_client_that_disconnects_ends_the_query_in_the_matcher_process() -> None:
    limits = RequestLimits(step_seconds=600.0, slow_mask_seconds=30.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.matcher_processes is not None
        spec = compiler.compile("regex", "(a|b){30}c")
        assert isinstance(spec, IsolatableConstraint) and not spec.is_slow
        matcher, other = spec.open(), spec.open_isolated()
        pid = other._process.pid
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.3, lambda: (other.on_disconnect(), matcher.on_disconnect())).start()
        with pytest.raises(LimitExceeded) as caught:
            matcher.least_tokens(10)
        assert (
            caught.value.limit in ("disconnected", "matcher_bytes")
            and compiler.matcher_processes.running == 0
        )
        gone(pid)


def test_a_refusal_by_a_matcher_process_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", 0.0)
    with IsolatingCompiler(VOCABULARY, RequestLimits(matcher_bytes=4 << 20), workers=1) as compiler:
        found = compiler.compile("json", LARGE)
        assert isinstance(found, IsolatableConstraint) and compiler.matcher_processes is not None
        for _ in range(3):
            with pytest.raises(LimitExceeded) as caught:
                found.open()
            assert caught.value.limit == "matcher_bytes"
        assert compiler.matcher_processes.starts == 1


def test_the_end_of_the_forking_process_is_not_blamed_on_the_spec(
    stopped_processes: list[int],
) -> None:
    with IsolatingCompiler(VOCABULARY, RequestLimits(compile_seconds=60.0), workers=1) as compiler:
        processes, spec = isolatable(compiler, "grammar", SLOW)
        until(lambda: processes._forker)
        maker = processes._forker
        assert maker is not None

        def kill() -> None:
            until(lambda: stopped_processes)
            maker.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(LimitExceeded) as caught:
            spec.open()
        killing.join()
        assert caught.value.limit == "worker" and spec._refusal is None


@pytest.mark.usefixtures("quick_stays_quick")
def test_completions_are_searched_for_in_matcher_processes_only() -> None:
    limits = RequestLimits(step_seconds=60.0, slow_mask_seconds=30.0)
    with IsolatingCompiler(VOCABULARY, limits, workers=1) as compiler:
        assert compiler.matcher_processes is not None
        found = compiler.compile("regex", "(a|b){30}c")
        assert isinstance(found, IsolatableConstraint) and not found.is_slow
        near = Matcher(constraint_of("regex", "(a|b){30}c"), VOCABULARY)
        matcher = found.open()
        assert matcher.least_tokens(40) == near.least_tokens(40) and compiler.matcher_processes.starts == 0
        assert not found.needs_process(40, closes=False) and found.needs_process(40, closes=True)
        # A matcher process searches for a shorter completion; the matcher itself does not move.
        assert found.needs_process(10, closes=False)
        assert (
            matcher.least_tokens(10) == near.least_tokens(10) == 16 and compiler.matcher_processes.starts == 1
        )
        assert isinstance(matcher, MigratingMatcher) and not found.is_slow
        for token in b"ab":
            assert matcher.advance(token) and near.advance(token)
        assert matcher.witness(50) == near.witness(50)
        assert matcher.tokens == near.tokens and np.array_equal(matcher.mask(), near.mask())
        assert not found.is_slow and isinstance(
            found.open(), MigratingMatcher
        )  # others do not need one for that
        started = compiler.matcher_processes.starts
        assert found.open().least_tokens(10) == 16 and compiler.matcher_processes.starts == started


@pytest.mark.usefixtures("quick_stays_quick")
def test_a_constraint_in_its_own_engine_shares_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with IsolatingCompiler(VOCABULARY, RequestLimits(slow_mask_seconds=30.0), workers=1) as compiler:
        found = compiler.compile("regex", "ab*")
        assert isinstance(found, IsolatableConstraint) and found.compiled is not None
        apart = found.in_own_engine()
        assert apart is not None and apart.vocabulary.engine is not found.compiled.vocabulary.engine
        assert apart.open().forced() == found.open().forced()
        monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", 0.0)
        large = compiler.compile("json", LARGE)
        assert isinstance(large, IsolatableConstraint) and large.in_own_engine() is None
