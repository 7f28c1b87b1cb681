"""Lower priorities of processes, and the count of work that runs on idle processors only."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from structgen._sandbox.priority import SlowWork, lower_priority

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


def test_slow_work_counts_what_is_in_progress() -> None:
    work = SlowWork()
    assert not work
    with work, work:
        assert work
    assert not work
