"""What is asked of other processes: their CPU time, and that they step aside."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from structgen._sandbox.processes import CpuClock, step_aside

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the CPU time of another process")


@LINUX
def test_cpu_time_is_that_of_the_other_process() -> None:
    program = "print('ready', flush=True); input()"
    sleeping = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert sleeping.stdout is not None and sleeping.stdout.readline()  # it has started, and sleeps now
        other, own, begin = CpuClock(sleeping.pid), CpuClock(os.getpid()), time.process_time()
        while time.process_time() < begin + 0.2:
            pass
        assert other.used() < 0.1
        assert abs(own.used() - (time.process_time() - begin)) < 0.1
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


@LINUX
def test_the_clock_of_a_process_that_ends_stands_still() -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = CpuClock(sleeping.pid)
    sleeping.communicate(b"\n")
    assert clock.used() == clock.used() < 60  # not how long the machine is up


def test_a_process_that_is_gone_has_a_clock_all_the_same() -> None:
    clock = CpuClock(1 << 22)
    time.sleep(0.01)
    assert 0.01 <= clock.used() < 60
