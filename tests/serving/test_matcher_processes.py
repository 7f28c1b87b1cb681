"""All matcher processes of a server: their number is bounded, none remains, and killed ones are replaced."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from pathlib import Path

import pytest

from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_process import MatcherProcess
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.requests import constraint_of
from structgen.serving.temporary_errors import WorkerUnavailable, temporary_status
from tests.faults import break_import
from tests.unhurried import HANG_SECONDS

from .isolation import (
    UNLIMITED,
    VOCABULARY,
    children,
    gone,
    open_matcher,
)
from .specs import SLOW


def test_the_number_of_matcher_processes_is_bounded(processes: MatcherProcesses) -> None:
    gc.collect()
    matchers = [open_matcher(processes, "regex", f"a{i}") for i in range(3)]
    with pytest.raises(LimitExceeded) as caught:
        open_matcher(processes, "regex", "b")
    assert caught.value.limit == "max_matcher_processes"
    del matchers
    gc.collect()
    assert open_matcher(processes, "regex", "b").forced()


def test_a_refusal_leaves_no_matcher_process_open() -> None:
    processes = MatcherProcesses(
        UNLIMITED, RequestLimits(max_matcher_processes=2, compile_seconds=0.2), SlowWork()
    )
    gc.disable()  # subtle: a cycle would keep the matcher process until the collector comes
    try:
        for _ in range(4):
            with pytest.raises(LimitExceeded) as caught:
                open_matcher(processes, "grammar", SLOW)
            assert caught.value.limit == "compile_seconds" and "to build" in str(caught.value)
            assert processes.running == 0
    finally:
        gc.enable()
        processes.close()


def test_matcher_processes_that_are_closed_are_not_the_requests_fault() -> None:
    processes = MatcherProcesses(VOCABULARY, RequestLimits(), SlowWork())
    matcher = open_matcher(processes, "regex", "ab")
    processes.close()
    with pytest.raises(LimitExceeded) as caught:
        matcher.mask()
    assert caught.value.limit == "closed"


def test_a_killed_process_is_reported_and_replaced() -> None:
    processes = MatcherProcesses(VOCABULARY, RequestLimits(), SlowWork())
    try:
        matcher = open_matcher(processes, "regex", "ab")
        os.kill(matcher._process.pid, 9)
        with pytest.raises(LimitExceeded, match="has ended"):
            matcher.mask()
        maker = children(os.getpid(), "matcher_worker")[0]
        os.kill(maker, 9)
        end = time.monotonic() + HANG_SECONDS
        while True:
            try:
                assert open_matcher(processes, "regex", "ab").forced()
                break
            except LimitExceeded as error:
                assert error.limit == "worker" and time.monotonic() < end
    finally:
        processes.close()
    gone(maker)


def test_closing_ends_all() -> None:
    processes = MatcherProcesses(VOCABULARY, RequestLimits(), SlowWork())
    matcher = open_matcher(processes, "regex", "ab")
    pid = matcher._process.pid
    threads = [
        one for one in threading.enumerate() if one.name == "structgen-matchers" and one is processes._thread
    ]
    processes.close()
    gone(pid)
    assert threads and not threads[0].is_alive()
    with pytest.raises(LimitExceeded):
        matcher.mask()
    with pytest.raises(LimitExceeded):
        open_matcher(processes, "regex", "ab")


def test_a_text_that_has_started_waits_until_a_process_is_free() -> None:
    limits = RequestLimits(max_matcher_processes=1)
    processes = MatcherProcesses(VOCABULARY, limits, SlowWork(), queue_seconds=HANG_SECONDS)
    pickled = pickle.dumps(constraint_of("regex", "ab"))
    try:
        first = open_matcher(processes, "regex", "ab")
        with pytest.raises(LimitExceeded) as caught:
            processes.start(pickled)
        assert caught.value.limit == "max_matcher_processes" and temporary_status(caught.value) == 503
        started: list[MatcherProcess] = []
        waiting = threading.Thread(target=lambda: started.append(processes.start(pickled, has_started=True)))
        waiting.start()
        time.sleep(0.2)
        assert waiting.is_alive() and not started
        first.on_disconnect()
        waiting.join(HANG_SECONDS)
        assert started[0].new_matcher() is not None
    finally:
        processes.close()


def test_a_text_that_no_one_needs_any_more_does_not_wait() -> None:
    limits = RequestLimits(max_matcher_processes=1)
    processes = MatcherProcesses(VOCABULARY, limits, SlowWork(), queue_seconds=HANG_SECONDS)
    try:
        first = open_matcher(processes, "regex", "ab")
        with pytest.raises(LimitExceeded) as caught:
            processes.start(first._process.pid.to_bytes(4, "big"), lambda: False, has_started=True)
        assert caught.value.limit == "disconnected"
    finally:
        processes.close()


def test_a_part_of_the_processes_is_left_to_texts_that_have_started() -> None:
    limits = RequestLimits(max_matcher_processes=4)
    processes = MatcherProcesses(VOCABULARY, limits, SlowWork(), queue_seconds=HANG_SECONDS)
    try:
        matchers = [open_matcher(processes, "regex", f"a{i}") for i in range(3)]
        assert not processes.free
        with pytest.raises(LimitExceeded):
            open_matcher(processes, "regex", "b")
        process = processes.start(pickle.dumps(constraint_of("regex", "c")), has_started=True)
        assert processes.running == 4 and len(matchers) == 3
        process.kill()
    finally:
        processes.close()


def test_a_forker_that_is_refused_processes_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tests = str(Path(__file__).parents[2])
    code = f"sys.path.append({tests!r}); from tests.faults import forbid_processes; forbid_processes()"
    break_import(tmp_path, code, "matcher_worker")
    monkeypatch.syspath_prepend(str(tmp_path))
    processes = MatcherProcesses(VOCABULARY, RequestLimits(), SlowWork())
    try:
        with pytest.raises(WorkerUnavailable) as caught:
            open_matcher(processes, "regex", "ab")
        assert "as sandboxes do" in caught.value.reason and "sandbox" not in str(caught.value)
        assert "a matcher process was not started" in caplog.text and processes.running == 0
    finally:
        processes.close()
