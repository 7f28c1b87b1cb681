"""Faults of child processes, made for real: a module that cannot be imported, limits of memory, sandboxes."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

__all__ = ["IS_SANDBOX_KNOWN", "break_import", "forbid_processes"]

_CALLS = {"x86_64": (56, (57, 58), 435), "aarch64": (220, (), 435)}
"""By machine: the numbers of the system calls `clone`, of those that always fork, and of `clone3`."""
IS_SANDBOX_KNOWN = sys.platform == "linux" and platform.machine() in _CALLS
_CLONE_THREAD = 0x10000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.POINTER(_Filter)))


def forbid_processes() -> None:
    """Forbid this process and its children to start processes, as a sandbox does (seccomp). Threads are allowed."""
    clone, forks, clone3 = _CALLS[platform.machine()]
    steps = [(_LOAD, 0, 0, 0)]  # the number of the call
    for number in forks:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | 1)]
    steps += [(_EQUAL, 0, 1, clone3), (_RETURN, 0, 0, _REFUSE | 38)]  # the C library then calls `clone`
    steps += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY_BIT, 1, 0, _CLONE_THREAD)]
    steps += [(_RETURN, 0, 0, _REFUSE | 1), (_RETURN, 0, 0, _ALLOW)]
    filters = (_Filter * len(steps))(*[_Filter(*step) for step in steps])
    program = _Program(len(steps), filters)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(38, 1, 0, 0, 0) or library.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def break_import(folder: Path, code: str, worker: str = "", package: str = "lark") -> None:
    """Make a package whose import runs `code` in worker processes, and then imports the real package.

    Args:
        folder: It comes first in the path of the children.
        code: The statements that fail, or prepare a failure.
        worker: A part of the command line of the worker; "" breaks all of them.
        package: A package that the workers import before they are ready.
    """
    broken = folder / package
    broken.mkdir(parents=True)
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    (broken / "__init__.py").write_text(
        "import sys\n"
        f"if 'serving' in sys.orig_argv[-1] and {worker!r} in sys.orig_argv[-1]:\n{lines}\n"
        f"sys.path.remove({str(folder)!r})\n"
        f"del sys.modules[{package!r}]\n"
        f"import {package}\n"
    )
