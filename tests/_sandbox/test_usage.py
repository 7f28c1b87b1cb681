"""CPU time, memory and state of other processes, as their parent reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from structgen._sandbox.usage import CpuClock, is_child, read_usage

LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux reports the CPU time of another process"
)


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
def test_the_clock_of_a_process_that_has_ended_stands_still() -> None:
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = CpuClock(sleeping.pid)
    sleeping.communicate(b"\n")
    assert clock.used() == clock.used() < 60  # not how long the machine is up


def test_the_clock_of_a_missing_process_counts_wall_time() -> None:
    clock = CpuClock(1 << 22)
    time.sleep(0.01)
    assert 0.01 <= clock.used() < 60


@LINUX
def test_usage_of_this_process() -> None:
    usage = read_usage(os.getpid())
    assert usage.resident_bytes > 1 << 20 and usage.is_runnable
    assert abs(usage.cpu_seconds - time.process_time()) < 0.5


def test_a_missing_process_uses_nothing() -> None:
    usage = read_usage(1 << 22)
    assert (usage.cpu_seconds, usage.resident_bytes, usage.is_runnable) == (0.0, 0, False)


@LINUX
def test_children_are_distinguished_from_other_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_child(child.pid, os.getpid())
        assert not is_child(os.getpid(), child.pid)
    finally:
        child.communicate(b"\n")
