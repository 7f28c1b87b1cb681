"""A matcher process: it ends when no one needs it, each query has limits, and it counts as slow work."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
from typing import Any

import pytest

from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded
from structgen.serving.isolated_matcher import open_isolated_matcher
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_process import MatcherProcess
from structgen.serving.matcher_processes import _COMMAND as COMMAND
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.requests import constraint_of
from structgen.serving.temporary_errors import temporary_status
from tests.unhurried import HANG_SECONDS

from .isolation import (
    EXPLODING,
    VOCABULARY,
    gone,
    lives,
    open_matcher,
    read_letters,
    until,
)


def test_a_matcher_process_ends_when_no_matcher_needs_it(processes: MatcherProcesses) -> None:
    matcher = open_matcher(processes, "regex", "ab")
    pid = matcher._process.pid
    assert matcher.forced() and lives(pid)
    del matcher
    gc.collect()
    gone(pid)


def test_a_matcher_process_ends_when_all_clients_have_disconnected(processes: MatcherProcesses) -> None:
    process = processes.start(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    one, other = open_isolated_matcher(process), open_isolated_matcher(process)
    assert one is not None and other is not None and one.advance(ord("a"))
    one.on_disconnect()
    with pytest.raises(LimitExceeded, match="disconnected"):
        one.mask()
    assert other.advance(ord("b")) and not process.has_ended
    other.on_disconnect()
    gone(process.pid)
    assert process.has_ended and open_isolated_matcher(process) is None


def test_collecting_the_last_matcher_ends_a_query_of_a_disconnected_one(processes: MatcherProcesses) -> None:
    """One client has disconnected while its query runs. The matcher of the other is garbage-collected."""
    process = processes.start(pickle.dumps(constraint_of("regex", "[ab]{3}")))
    waiting, other = open_isolated_matcher(process), open_isolated_matcher(process)
    assert waiting is not None and other is not None
    os.kill(process.pid, signal.SIGSTOP)
    met: list[LimitExceeded] = []

    def wait() -> None:
        with pytest.raises(LimitExceeded) as caught:
            waiting.mask()
        met.append(caught.value)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.on_disconnect()
    assert not process.has_ended
    del other
    gc.collect()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive() and met[0].limit == "disconnected" and process.has_ended
    gone(process.pid)


@pytest.mark.parametrize("text", ["ab", "ab" * 500_000])
def test_a_client_that_disconnects_does_not_wait_for_a_stopped_matcher_process(
    processes: MatcherProcesses, text: str
) -> None:
    """Neither for an answer nor for it to read a query that is larger than the socket buffers."""
    matcher = open_matcher(processes, "regex", "(ab)*")
    os.kill(matcher._process.pid, signal.SIGSTOP)
    matcher.replay(list(text.encode()))

    def leave() -> None:
        until(lambda: processes._slow_work)
        matcher.on_disconnect()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(LimitExceeded, match="disconnected"):
        matcher.mask()
    leaving.join()
    gone(matcher._process.pid)


@pytest.mark.parametrize("text", ["ab", "a" * 1_000_000])
def test_a_matcher_process_that_does_not_run_is_busy(
    monkeypatch: pytest.MonkeyPatch, processes: MatcherProcesses, text: str
) -> None:
    """The process may fail to read the query or to send its answer."""
    matcher = open_matcher(processes, "regex", "(ab)*")
    os.kill(matcher._process.pid, signal.SIGSTOP)
    monkeypatch.setattr("structgen.serving.matcher_process.wall_limit", lambda used: 0.5)
    matcher.replay(list(text.encode()))
    with pytest.raises(LimitExceeded, match="did not get its CPU time") as caught:
        matcher.mask()
    assert caught.value.limit == "busy" and temporary_status(caught.value) == 503
    gone(matcher._process.pid)


def test_a_matcher_process_that_takes_too_long_is_ended() -> None:
    processes = MatcherProcesses(
        VOCABULARY, RequestLimits(step_seconds=0.2, compile_seconds=60.0), SlowWork()
    )
    try:
        harmless = open_matcher(processes, "regex", "ab")
        matcher = open_matcher(processes, "json", EXPLODING)
        pid = matcher._process.pid
        with pytest.raises(LimitExceeded) as caught:
            read_letters(matcher)
        assert caught.value.limit == "step_seconds"
        gone(pid)
        with pytest.raises(LimitExceeded, match="has ended"):
            matcher.mask()
        assert harmless.forced()
    finally:
        processes.close()


def test_a_query_to_a_matcher_process_counts_as_slow_work_until_its_answer(
    stopped_processes: list[int],
) -> None:
    slow_work = SlowWork()
    processes = MatcherProcesses(
        VOCABULARY, RequestLimits(step_seconds=60.0, compile_seconds=60.0), slow_work
    )
    try:
        pickled = pickle.dumps(constraint_of("regex", "ab"))
        opened: list[MatcherProcess] = []
        opening = threading.Thread(target=lambda: opened.append(processes.start(pickled)))
        assert not slow_work
        opening.start()
        until(lambda: slow_work)
        assert opening.is_alive()
        os.kill(stopped_processes[0], signal.SIGCONT)
        opening.join(HANG_SECONDS)
        assert not slow_work
        matcher = open_isolated_matcher(opened[0])
        assert matcher is not None and matcher.advance(ord("a")) and not slow_work
    finally:
        processes.close()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no such priority")
def test_a_matcher_process_runs_when_others_leave_a_processor_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.serving.matcher_processes._COMMAND", COMMAND)
    processes = MatcherProcesses(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        pickled = pickle.dumps(constraint_of("regex", "ab"))

        def is_wanted() -> bool:
            """On a busy machine it would take long to build."""
            return all(os.sched_getscheduler(process.pid) != os.SCHED_IDLE for process in processes._all())

        with pytest.raises(LimitExceeded) as caught:
            processes.start(pickled, is_wanted)
        assert caught.value.limit == "disconnected"
    finally:
        processes.close()


@pytest.fixture
def starving(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the first matcher processes no CPU time while they build.

    Returns:
        The number of starved processes (settable), followed by the ids of all processes.
    """
    found = [1]
    began = MatcherProcess.build

    def begin(process: MatcherProcess, *arguments: Any) -> None:
        found.append(process.pid)
        clock = time.monotonic
        if len(found) <= 1 + found[0]:
            os.kill(process.pid, signal.SIGSTOP)
            looks = iter([0.0])  # the first one sets the deadline
            clock = lambda: next(looks, 0.6 * HANG_SECONDS)  # noqa: E731
        monkeypatch.setattr("structgen.serving.matcher_process.monotonic", clock)
        began(process, *arguments)

    monkeypatch.setattr(MatcherProcess, "build", begin)
    monkeypatch.setattr("structgen.serving.matcher_processes._COMMAND", COMMAND)
    return found


def test_a_matcher_process_that_is_starved_is_built_at_a_low_priority(starving: list[int]) -> None:
    """At idle priority it would get no CPU time on a machine that is never idle."""
    processes = MatcherProcesses(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        matcher = open_matcher(processes, "regex", "ab")
        _, first, second = starving
        assert matcher._process.pid == second and processes.starts == 2 and processes.running == 1
        assert os.getpriority(os.PRIO_PROCESS, second) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
        if hasattr(os, "SCHED_IDLE"):
            assert os.sched_getscheduler(second) != os.SCHED_IDLE
        assert matcher.advance(ord("a"))
        gone(first)
    finally:
        processes.close()


def test_a_matcher_process_that_is_starved_at_a_low_priority_too_is_busy(starving: list[int]) -> None:
    starving[0] = 2
    processes = MatcherProcesses(VOCABULARY, RequestLimits(compile_seconds=60.0), SlowWork())
    try:
        with pytest.raises(LimitExceeded, match=f"to build within {HANG_SECONDS:g} s") as caught:
            open_matcher(processes, "regex", "ab")
        assert caught.value.limit == "busy" and processes.running == 0 and processes.starts == 2
    finally:
        processes.close()
