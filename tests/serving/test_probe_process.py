"""Probe processes: they are replaced when they die, preempted when others wait, and counted as slow work."""

import contextlib
import os
import signal
import threading
import time

import pytest

from structgen._sandbox.polling import is_readable
from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded, StructgenError
from structgen.serving.compiler import ConstraintCompiler
from structgen.serving.limits import RequestLimits
from structgen.serving.probe_process import Preempted, ProbeProcess
from structgen.serving.temporary_errors import temporary_status
from tests.unhurried import HANG_SECONDS

from .isolation import lives
from .specs import BYTES, SLOW, UNLIMITED_BYTES


def test_killed_processes_are_replaced():
    worker = ProbeProcess(BYTES, RequestLimits())
    try:
        worker.start()
        worker._forker.kill()
        worker._forker.wait()
        assert worker.probe("regex", "a").slowest_mask >= 0
        assert worker.starts == 2
        first = worker._pid
        os.kill(first, signal.SIGKILL)  # as the system does when memory runs out; no spec is to blame
        assert is_readable(worker._output, HANG_SECONDS)  # the next process has started
        assert worker.probe("regex", "b").seconds > 0
        assert worker._pid != first
        assert not lives(first)
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize(("forgettable", "is_replaced"), [(0.0, True), (60.0, False)])
def test_warm_caches_do_not_make_the_next_spec_look_quick(
    monkeypatch: pytest.MonkeyPatch, forgettable: float, is_replaced: bool
) -> None:
    """Probes of a slow spec warm the caches of their process. The next spec would look quick there."""
    monkeypatch.setattr("structgen.serving.probe_process._NEGLIGIBLE_SECONDS", forgettable)
    limits = RequestLimits(slow_mask_seconds=1e-9, quick_seconds=60.0, compile_seconds=60.0)
    enum = {"enum": [{"a": k, "b": [k]} for k in range(2_000)]}
    with ConstraintCompiler(BYTES, limits, workers=1) as compiler:
        worker = compiler.processes[0]
        assert compiler.compile("json", enum).is_slow
        assert worker.cpu_seconds > 0
        first = worker.worker_pid
        assert compiler.compile("regex", "ab").is_slow
        assert (worker.worker_pid != first) == is_replaced
        second = worker.worker_pid
        with pytest.raises(StructgenError):
            compiler.compile("regex", "(")
        assert compiler.compile("regex", "ac").is_slow
        assert (worker.worker_pid != second) == is_replaced


def test_a_spec_is_preempted_when_it_may_not_continue():
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))
    try:
        worker.start()
        with pytest.raises(Preempted):
            worker.probe("grammar", SLOW, lambda: False)
        first = worker._forker
        assert worker.probe("regex", "a").seconds > 0
        assert worker._forker is first and worker.starts == 2  # the next process had been prepared
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize("kind_and_spec", [("regex", "a"), ("choice", ["a" * 5_000_000])])
def test_a_process_that_does_not_run_is_busy(monkeypatch, kind_and_spec):
    """The process may fail to read the spec or to send its answer."""
    monkeypatch.setattr("structgen.serving.probe_process.wall_limit", lambda used: 0.5)
    monkeypatch.setattr("structgen.serving.probe_process._RENEW_SECONDS", 0.5)
    worker = ProbeProcess(BYTES, RequestLimits())
    try:
        worker.start()
        os.kill(worker.worker_pid, signal.SIGSTOP)
        with pytest.raises(LimitExceeded, match="did not get its CPU time") as caught:
            worker.probe(*kind_and_spec)
        assert caught.value.limit == "busy" and temporary_status(caught.value) == 503
        worker._wall_seconds = HANG_SECONDS
        assert worker.probe("regex", "a").seconds > 0
    finally:
        worker.close()
        worker.kill()


def test_a_process_that_dies_is_reported_as_too_large_and_not_as_too_slow():
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))

    def ends():
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.worker_pid, signal.SIGKILL)
        return True

    try:
        worker.start()
        for _ in range(12):
            with pytest.raises(LimitExceeded) as caught:
                worker.probe("grammar", SLOW, ends)
            assert caught.value.limit == "compile_bytes"
    finally:
        worker.close()
        worker.kill()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_process_that_crashes_is_an_internal_error(number):
    worker = ProbeProcess(UNLIMITED_BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=0.01))

    def crashes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.worker_pid, number)
        return True

    try:
        worker.start()
        with pytest.raises(LimitExceeded, match=number.name) as caught:
            worker.probe("grammar", SLOW, crashes)
        assert caught.value.limit == "internal" and temporary_status(caught.value) == 500
        assert "MiB" not in str(caught.value)
        assert worker.probe("regex", "a").seconds > 0
    finally:
        worker.close()
        worker.kill()


def test_a_spec_that_takes_long_counts_as_slow_work_until_it_is_answered():
    slow_work = SlowWork()
    limits = RequestLimits(compile_seconds=0.3, quick_seconds=0.01)
    worker = ProbeProcess(UNLIMITED_BYTES, limits, slow_work)
    seen = []

    def looks():
        seen.append(bool(slow_work))
        return True

    try:
        worker.start()
        with pytest.raises(LimitExceeded, match="takes more than"):
            worker.probe("grammar", SLOW, looks)
        assert seen[0] is False and all(seen[1:]) and len(seen) > 2
        assert not slow_work
        assert worker.probe("regex", "a").seconds > 0
        assert not slow_work
    finally:
        worker.close()
        worker.kill()


def test_a_slow_spec_on_a_machine_that_is_never_idle_gets_its_turn(monkeypatch):
    """At idle priority it gets no CPU time on a busy machine. After half of its time it is probed at a low priority."""
    starved, lowered = [], []
    ahead = 0.0

    def stop(pid):
        nonlocal ahead
        starved.append(pid)
        os.kill(pid, signal.SIGSTOP)
        ahead = 0.6 * HANG_SECONDS

    monkeypatch.setattr("structgen.serving.probe_process.monotonic", lambda: time.monotonic() + ahead)
    monkeypatch.setattr("structgen.serving.probe_process.run_when_idle", stop)
    monkeypatch.setattr("structgen.serving.probe_process.lower_priority", lambda by, pid: lowered.append(pid))
    worker = ProbeProcess(
        BYTES, RequestLimits(compile_seconds=60.0, quick_seconds=1e-4), slow_work=SlowWork()
    )
    try:
        worker.start()
        assert worker.probe("regex", "|".join(f"text {number}[a-z]*" for number in range(3_000))).seconds > 0
        assert len(starved) == 1 and len(set(lowered) - set(starved)) == 1
    finally:
        worker.close()
        worker.kill()


def test_a_process_that_is_starved_for_a_while_answers_within_the_time_of_the_queue(monkeypatch):
    monkeypatch.setattr("structgen.serving.probe_process.wall_limit", lambda used: 0.2)
    worker = ProbeProcess(BYTES, RequestLimits(), queue_seconds=HANG_SECONDS)
    try:
        worker.start()
        pid = worker.worker_pid
        os.kill(pid, signal.SIGSTOP)
        waking = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        waking.start()
        assert worker.probe("regex", "a").seconds > 0
        assert worker.worker_pid == pid
        waking.join()
    finally:
        worker.close()
        worker.kill()
