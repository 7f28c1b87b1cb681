"""Slow constraints get a matcher process, and quick ones stay in this process until they meet a limit."""

from __future__ import annotations

from pathlib import Path

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
from structgen.serving.temporary_errors import WorkerUnavailable
from tests.faults import IS_SANDBOX_KNOWN, break_import

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


FAULTS = {
    "a module cannot be imported": ("raise ImportError('libfoo.so.1 is missing')", "libfoo.so.1 is missing"),
    "it is killed": ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended it, perhaps for its memory"),
    "it has no memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 20,) * 2); bytearray(1 << 24)",
        "MemoryError",
    ),
    "a sandbox forbids processes": (
        "import sys; sys.path.append({tests!r}); from tests.faults import forbid_processes; forbid_processes()",
        "Operation not permitted",
    ),
}


@pytest.mark.skipif(not IS_SANDBOX_KNOWN, reason="the faults are those of Linux")
@pytest.mark.parametrize("fault", FAULTS)
def test_the_start_check_says_why_no_process_compiles(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = FAULTS[fault]
    break_import(tmp_path, code.format(tests=str(Path(__file__).parents[2])), "probe_worker")
    monkeypatch.syspath_prepend(str(tmp_path))
    with IsolatingCompiler(VOCABULARY, RequestLimits(), workers=2, queue_seconds=600.0) as compiler:
        with pytest.raises(WorkerUnavailable) as caught:
            compiler.check_processes()
        assert said in caught.value.reason, caught.value.reason
        assert said not in str(caught.value), "clients read the message"


@pytest.mark.skipif(not IS_SANDBOX_KNOWN, reason="the faults are those of Linux")
@pytest.mark.parametrize("fault", FAULTS)
def test_the_start_check_warns_if_no_constraint_can_be_isolated(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code, said = FAULTS[fault]
    break_import(tmp_path, code.format(tests=str(Path(__file__).parents[2])), "matcher_worker")
    monkeypatch.syspath_prepend(str(tmp_path))
    with IsolatingCompiler(VOCABULARY, RequestLimits(), workers=1, queue_seconds=600.0) as compiler:
        compiler.check_processes()
        assert compiler.compile("regex", "ab").open().advance(ord("a"))
    warned = [record.getMessage() for record in caplog.records if "do not work" in record.getMessage()]
    assert len(warned) == 1 and said in warned[0], caplog.text


def test_workers_that_end_before_they_are_ready_do_not_start_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import structgen.serving.probe_worker as worker; worker.limit_memory = lambda more: more / 0"
    break_import(tmp_path, code, "probe_worker")
    monkeypatch.syspath_prepend(str(tmp_path))
    with IsolatingCompiler(VOCABULARY, RequestLimits(), workers=1) as compiler:
        with pytest.raises(WorkerUnavailable) as caught:
            compiler.check_processes()
        assert "ZeroDivisionError" in caught.value.reason


def test_the_start_check_of_sound_processes_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with IsolatingCompiler(VOCABULARY, RequestLimits(), workers=2, queue_seconds=600.0) as compiler:
        compiler.check_processes()
        assert compiler.matcher_processes is not None and compiler.matcher_processes.running == 0
    with IsolatingCompiler(VOCABULARY, RequestLimits(), workers=0) as compiler:
        compiler.check_processes()
    assert not caplog.records
