"""What a child process calls on itself before it runs work that may be hostile."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal

__all__ = ["die_with_parent", "freeze_heap", "lift_memory_limit", "limit_memory"]

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Make the system kill this process when its parent ends, where the system supports that.

    SIGINT and SIGTERM are ignored. Ctrl-C in a terminal reaches all its processes, and service managers send SIGTERM to
    all processes of a service; the parent decides, since it may still need this process for its last requests.

    Args:
        parent: The parent's process id, if it is known. This process ends now if that one has ended already.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def freeze_heap() -> None:
    """Exclude all existing objects from the cycle collector.

    Why: a full collection visits every object with the interpreter locked, which takes a quarter of a second where a
    model's libraries are loaded. It also writes to memory that forked processes share, which copies it.
    """
    gc.collect()
    gc.freeze()


def limit_memory(more: int) -> None:
    """Bound this process's address space to `more` bytes beyond what it has now."""
    with contextlib.suppress(
        ImportError, OSError, ValueError
    ):  # without such limits, the limit of time remains
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = used + more
        resource.setrlimit(
            resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )


def lift_memory_limit() -> None:
    """Undo `limit_memory`."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
