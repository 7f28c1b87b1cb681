"""Keeps the memory of a test process low: what a module still holds is released before the next module runs.

Why: module constants and cached helpers hold vocabularies, and the engine of a vocabulary holds the automata of every
constraint that was compiled on it. Workers that run thousands of tests reached 2.5 GB by that alone.
The embedded model is released after the last test that uses it (tests/embedded.py).
Invariant: only what is built again on demand is released. Programs and matchers that are still in use keep the engine
that made them.
Cost: reading one file at the end of a module, or of a test that runs with the model. Where memory has grown since
the last time, a walk over the objects that tests made, at most 0.3 s.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import embedded

__all__ = [
    "excess",
    "forget_applications",
    "freeze",
    "hold_little_free_memory",
    "names_of_a_program",
    "peak",
    "release",
    "resident",
]

_GROWTH = 64 << 20
"""Bytes that a process may grow by before memory is released at the end of a module."""

_GROWTH_BESIDE_MODEL = 16 << 20
"""The same while the embedded model is in memory; then it is released at the end of any test."""

LIMIT = 1536 << 20
"""Bytes that a process of `make test` should have resident at most; the summary of a run says where it has more."""

_base = 0
_frozen: list[weakref.ref[Any]] = []
"""The vocabularies that importing the tests made: garbage collection no longer lists them."""


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


def excess() -> int:
    """Return by how many bytes the peak of this process is above the limit; 0 where other things than tests decide it.

    These are sanitizers, torch for GPUs, and huge pages for all memory.
    """
    torch = sys.modules.get("torch")
    if os.environ.get("LD_PRELOAD") or (torch is not None and torch.version.cuda is not None):
        return 0
    try:
        if "[always]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
            return 0
    except OSError:
        pass
    return max(0, peak() - LIMIT)


def freeze() -> None:
    """Exclude the objects that importing the tests made from garbage collection: 600,000 objects, 0.3 s each time."""
    from structgen.vocabulary import Vocabulary

    gc.collect()
    # subtle: not isinstance, which calls __class__ of proxies and lazy modules
    _frozen.extend(weakref.ref(one) for one in gc.get_objects() if type(one) is Vocabulary)
    gc.freeze()


def release() -> None:
    """Drop the compiled programs and engines of all vocabularies, and return free memory to the system."""
    from structgen import matcher
    from structgen.vocabulary import Vocabulary

    matcher._programs.clear()
    if canvas := sys.modules.get("structgen.diffusion.canvas"):
        canvas._programs.clear()
    forget_applications()
    for one in (*gc.get_objects(), *(vocabulary() for vocabulary in _frozen)):
        if type(one) is Vocabulary:
            vars(one).pop("engine", None)
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
        if trim is not None:
            trim(0)


def forget_applications() -> None:
    """Clear the caches in which FastAPI keeps the functions of each application, and with them its server: 10 MB."""
    if fastapi := sys.modules.get("fastapi.dependencies.models"):
        clear_caches(fastapi)


@contextlib.contextmanager
def names_of_a_program() -> Iterator[dict[str, object]]:
    """Give the global names of a program that `exec` runs, and clear them after it.

    Libraries keep the classes that a program defines, their methods keep its globals, and among these is its model.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        yield names
    finally:
        names.clear()


def clear_caches(module: ModuleType) -> None:
    """Clear the caches of the functions that a module defines."""
    for one in list(vars(module).values()):
        if type(one) is functools._lru_cache_wrapper and one.__module__ == module.__name__:
            one.cache_clear()


def hold_little_free_memory() -> None:
    """Let glibc hold less free memory: one heap for all threads, and large blocks outside of it, wherever they end."""
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(-8, 1)  # M_ARENA_MAX
            set_option(-3, 1 << 20)  # M_MMAP_THRESHOLD, which would grow to the largest block that was freed


def end_of_test(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Release memory where it has grown, after the last test of a module; the embedded model after its last test."""
    global _base
    if nextitem is None:
        return
    beside_model = bool(embedded.model_of(item))
    end_of_module = nextitem.path != item.path
    if not beside_model and not end_of_module:
        return
    end_of_model = beside_model and embedded.model_of(nextitem) != embedded.model_of(item)
    if beside_model and end_of_module and (module := getattr(item, "module", None)):
        clear_caches(module)  # they hold the model
    if end_of_model:
        embedded.release()
    if end_of_model or resident() >= _base + (_GROWTH_BESIDE_MODEL if beside_model else _GROWTH):
        if end_of_module and (module := getattr(item, "module", None)):
            clear_caches(module)
        release()
        _base = resident()
