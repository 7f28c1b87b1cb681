"""Lower priorities of processes, and the count of work that runs on idle processors only."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from structgen._sandbox.priority import SlowWork, is_starved, lower_priority

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="priorities of other processes are read on Linux")


@LINUX
def test_a_priority_is_lowered_from_what_the_process_has() -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        has = os.getpriority(os.PRIO_PROCESS, sleeping.pid)
        lower_priority(3, sleeping.pid)
        assert os.getpriority(os.PRIO_PROCESS, sleeping.pid) == min(19, has + 3)
        lower_priority(40, sleeping.pid)
        assert os.getpriority(os.PRIO_PROCESS, sleeping.pid) == 19
    finally:
        sleeping.communicate(b"\n")
    lower_priority(5, sleeping.pid)  # the process has ended, which is no error


def test_who_gets_hardly_any_cpu_time_is_starved() -> None:
    assert not is_starved(0.0, 0.5), "too early to say"
    assert is_starved(0.001, 3.0) and is_starved(0.1, 30.0)
    assert not is_starved(0.3, 3.0) and not is_starved(2.0, 30.0)


def test_slow_work_counts_what_is_in_progress() -> None:
    work = SlowWork()
    assert not work
    with work, work:
        assert work
    assert not work
