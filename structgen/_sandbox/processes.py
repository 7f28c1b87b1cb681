"""What is asked of, and said to, processes that do what strangers want: their CPU time, priority, memory, end.

Why CPU time: on a busy machine a clock on the wall tells how busy it is, and limits by it refuse what is harmless.
Invariant: where the system does not know one of these things nothing fails; the clock on the wall stands in then.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

__all__ = [
    "LOW",
    "LOWEST",
    "CpuClock",
    "SlowWork",
    "bound_memory",
    "die_with_parent",
    "end_process",
    "environment",
    "is_child",
    "is_ready",
    "python_command",
    "settle",
    "stand_by",
    "step_aside",
    "takes_more",
    "unbound_memory",
    "wall_seconds",
]

_PR_SET_PDEATHSIG = 1
LOWEST = 19
"""Niceness; for `step_aside`: as far as it goes."""
LOW = 10
"""For `step_aside`, of what has waited in vain for an idle processor: about a tenth of one, beside others."""


class SlowWork:
    """Counts what is under way in processes that `stand_by`: `with` it, from any thread.

    Why: such a process gets hardly any time while a model keeps all processors busy, so who runs the model must know
    that there is one, and pause for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1


class CpuClock:
    """CPU time that another process uses from now on; the time on the wall where the system does not tell that."""

    def __init__(self, pid: int) -> None:
        self._pid, self._wall = pid, time.monotonic()
        self._began = _cpu_seconds(pid)
        self._used = 0.0

    def used(self) -> float:
        """Seconds so far; of a process that has ended, what was seen last."""
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


def wall_seconds(used: float) -> float:
    """How long a process may wait for the processor, or sleep, that may use so many seconds of CPU time."""
    return max(30.0, 12 * used)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill it, wait until it is gone, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def is_ready(file: IO[bytes] | socket.socket, seconds: float) -> bool:
    """Whether there is something to read, or an end, within so long."""
    poll = select.poll()
    poll.register(file.fileno(), select.POLLIN | select.POLLHUP)
    return bool(poll.poll(seconds * 1000))


def takes_more(file: IO[bytes] | socket.socket, seconds: float) -> bool:
    """Whether something can be written, or nobody reads any more, within so long."""
    poll = select.poll()
    poll.register(file.fileno(), select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def settle() -> None:
    """What there is now stays: the collector of cycles need not look at it again.

    Why: it goes through all objects every now and then and holds the interpreter meanwhile, for a quarter of a second
    where a model's libraries are loaded; and what it looks at is not shared with forked processes any more.
    """
    gc.collect()
    gc.freeze()


def is_child(pid: int, parent: int) -> bool:
    """Return whether `pid` is a child of `parent`; True if the system has no ``/proc`` to read it from."""
    try:
        # The process chooses its own name, which may hold spaces; it ends with the last parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()
    except OSError:
        return True
    return int(fields[1]) == parent


def stand_by(pid: int = 0) -> None:
    """Let a process (0: this one) run only when others leave the processor idle; that cannot be taken back.

    Why not just the lowest priority: a processor that runs such a process counts as busy, so the scheduler leaves two
    threads of a model on one processor and that process alone on the other, for a tenth of a second at a time.
    """
    step_aside(LOWEST, pid)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def step_aside(by: int, pid: int = 0) -> None:
    """Lower the priority of a process (0: of this one) below what it has; it may not be raised again."""
    with contextlib.suppress(OSError, AttributeError):
        has = os.getpriority(os.PRIO_PROCESS, pid)
        os.setpriority(os.PRIO_PROCESS, pid, min(LOWEST, has + by))


def python_command(program: str) -> list[str]:
    """Return the command that runs a Python program in such a process; start it in `environment`.

    Why ``-P``: without it Python looks for modules in the working directory first. Started in the source folder the
    process would import the sources there, which have no native core, instead of what this process has imported.
    """
    return [sys.executable, "-P", "-c", program]


def environment() -> dict[str, str]:
    """For such a process: where structgen is imported from here it is found there, too; one thread is enough."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def die_with_parent(parent: int | None = None) -> None:
    """Where the system can, this process is killed when the one that made it dies, whatever it is doing.

    `parent` is that one's number where it is known: if it has died before this was called, this process ends now.
    Ctrl-C in a terminal, which all its processes hear, is left to that one. So is SIGTERM, which service managers send
    to all processes of a service: the parent still needs this one for the requests that it lets end.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def bound_memory(more: int) -> None:
    """No more than `more` bytes beyond what this process has."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # without such limits that of time is left
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = used + more
        resource.setrlimit(
            resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


def unbound_memory() -> None:
    """Take `bound_memory` back."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
