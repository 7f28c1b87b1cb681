"""CPU time, memory and state of another process.

Why CPU time: on a busy machine, wall time measures how busy the machine is, and a limit on it refuses harmless work.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CpuClock", "ProcessUsage", "is_child", "read_usage", "wall_limit"]


class CpuClock:
    """The CPU time that another process uses from now on; wall time where the system does not report that."""

    def __init__(self, pid: int) -> None:
        self._pid, self._wall = pid, time.monotonic()
        self._began = _cpu_seconds(pid)
        self._used = 0.0

    def used(self) -> float:
        """Return the seconds so far. For a process that has ended, return the last value that was read."""
        if self._began is None:
            return time.monotonic() - self._wall
        now = _cpu_seconds(self._pid)
        if now is not None:
            self._used = now - self._began
        return self._used


def _cpu_seconds(pid: int) -> float | None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # The kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
            return time.clock_gettime((~pid << 3) | 2)
    return None


def wall_limit(cpu_seconds: float) -> float:
    """Return the wall time, in seconds, in which a process must get so much CPU time."""
    return max(30.0, 12 * cpu_seconds)


@dataclass(frozen=True)
class ProcessUsage:
    """What ``/proc`` says about a process; the defaults stand where it says nothing."""

    cpu_seconds: float = 0.0
    """User and system time so far, in whole clock ticks."""
    resident_bytes: int = 0
    is_runnable: bool = False
    """The process runs or waits for a processor."""


def read_usage(pid: int) -> ProcessUsage:
    """Return the usage of a process so far."""
    stat, statm = _read_proc(pid, "stat"), _read_proc(pid, "statm")
    if not stat:
        return ProcessUsage(resident_bytes=_resident_bytes(statm))
    # The process chooses its own name, which may hold spaces; it ends with the last parenthesis.
    fields = stat.rpartition(b")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return ProcessUsage(seconds, _resident_bytes(statm), fields[0] == b"R")


def is_child(pid: int, parent: int) -> bool:
    """Return whether `pid` is a child of `parent`; True if the system has no ``/proc`` to read it from."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()
    except OSError:
        return True
    return int(fields[1]) == parent


def _resident_bytes(statm: bytes) -> int:
    return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm else 0


def _read_proc(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
