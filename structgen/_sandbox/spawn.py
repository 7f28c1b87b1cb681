"""Start and end a Python child process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

__all__ = ["child_environment", "end_process", "python_command"]


def python_command(program: str) -> list[str]:
    """Return the command that runs a Python program as a child process; start it in `child_environment`.

    Why ``-P``: without it, Python looks for modules in the working directory first. Started in the source folder, the
    child would import the sources there, which have no native core, instead of what the parent has imported.
    """
    return [sys.executable, "-P", "-c", program]


def child_environment() -> dict[str, str]:
    """Return an environment in which a child imports the same structgen as its parent, and computes in one thread."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a child, wait until it has ended, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
