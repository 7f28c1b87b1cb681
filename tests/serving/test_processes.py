"""What is asked of other processes: their CPU time, and that they step aside."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from structgen.serving.processes import cpu_seconds, step_aside

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the CPU time of another process")


@LINUX
def test_cpu_time_is_that_of_the_other_process() -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        time.sleep(0.3)
        before = cpu_seconds(sleeping.pid)
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        assert cpu_seconds(sleeping.pid) - before < 0.1
        assert abs(cpu_seconds(os.getpid()) - time.process_time()) < 0.1
    finally:
        sleeping.communicate(b"\n")


@LINUX
def test_who_steps_aside_goes_below_what_it_has() -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        has = os.getpriority(os.PRIO_PROCESS, sleeping.pid)
        step_aside(3, sleeping.pid)
        assert os.getpriority(os.PRIO_PROCESS, sleeping.pid) == min(19, has + 3)
        step_aside(40, sleeping.pid)
        assert os.getpriority(os.PRIO_PROCESS, sleeping.pid) == 19
    finally:
        sleeping.communicate(b"\n")
    step_aside(5, sleeping.pid)  # it is gone, and that is no fault


def test_a_process_that_is_gone_has_a_clock_all_the_same() -> None:
    assert cpu_seconds(1 << 22) > 0
