"""All matcher processes of a server: their number is bounded, none remains, and killed ones are replaced."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from structgen._sandbox.priority import SlowWork
from structgen.errors import LimitExceeded
from structgen.serving.limits import RequestLimits
from structgen.serving.matcher_processes import MatcherProcesses
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
