"""Keeps the memory of a test process low: what a module leaves behind is released when the process goes on to the next.

Why: module constants and cached helpers hold vocabularies, and the engine of a vocabulary holds the automata of every
constraint that was compiled on it. Workers that run thousands of tests reached 2.5 GB by that alone.
Invariant: only what is built again on demand is released. Programs and matchers that are still in use keep the engine
that made them.
Cost: reading one file at the end of a module. A walk over all objects, 0.1 to 0.3 s, where memory has grown since the
last one.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest

__all__ = ["peak", "release", "resident"]

_GROWTH = 64 << 20
"""Bytes that a process may grow by before memory is released."""

_base = 0


def _status(name: str) -> int:
    """Return a figure of this process in bytes; 0 where the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith(name)), 0)
    except OSError:
        return 0


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return _status("VmRSS:")


def peak() -> int:
    """Return the highest resident memory that this process has had, in bytes."""
    return _status("VmHWM:")


def release() -> None:
    """Drop the compiled programs and engines of all vocabularies, and return free memory to the system."""
    from structgen import matcher
    from structgen.vocabulary import Vocabulary

    matcher._programs.clear()
    if canvas := sys.modules.get("structgen.diffusion.canvas"):
        canvas._programs.clear()
    for one in gc.get_objects():
        # subtle: not isinstance, which calls __class__ of proxies and lazy modules
        if type(one) is Vocabulary:
            vars(one).pop("engine", None)
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)


def end_of_module(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release memory after the last test of a module, where it has grown."""
    global _base
    if nextitem is None or nextitem.path == item.path or resident() < _base + _GROWTH:
        return
    release()
    _base = resident()
