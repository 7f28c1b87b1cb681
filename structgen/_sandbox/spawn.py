"""Start and end a Python child process, and say why one does not start."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from .error_output import ErrorOutput

__all__ = ["child_environment", "end_process", "python_command", "start_failure", "start_python"]

_END_SECONDS = 2.0
"""Time for a child that has failed to end, and for its last output to arrive."""
_REFUSALS = {
    errno.EAGAIN: "the system starts no more processes for this user or container (ulimit -u, the limit of pids)",
    errno.ENOMEM: "there is not enough memory to start a process",
    errno.EPERM: "the system forbids this program to start processes, as sandboxes do",
    errno.EACCES: "the system forbids this program to start processes, as sandboxes do",
    errno.ENOSYS: "the system forbids this program to start processes, as sandboxes do",
}
"""What the errors of a system mean that refuses to start a process."""


def python_command(program: str) -> list[str]:
    """Return the command that runs a Python program as a child process; start it in `child_environment`.

    Why ``-P``: without it, Python looks for modules in the working directory first. Started in the source folder, the
    child would import the sources there, which have no native core, instead of what the parent has imported.
    """
    return [sys.executable, "-P", "-c", program]


def child_environment() -> dict[str, str]:
    """Return an environment in which a child imports the same structgen as its parent, and computes in one thread."""
    paths = []
    for path in sys.path:
        with contextlib.suppress(OSError):  # a working directory that was deleted, or must not be read
            paths.append(os.path.abspath(path))
    joined = os.pathsep.join(paths)
    return {**os.environ, "PYTHONPATH": joined, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def start_python(
    command: Sequence[str], *, stdin: int, stdout: int | IO[bytes] | None = None
) -> tuple[subprocess.Popen[bytes], ErrorOutput]:
    """Start a `python_command` in `child_environment`. Raises `OSError` if the system refuses.

    Returns:
        The process, and its standard error.
    """
    errors = ErrorOutput()
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=errors.descriptor,
            bufsize=0,
            env=child_environment(),
        )
    except BaseException:
        errors.close()
        raise
    errors.forward()
    return process, errors


def start_failure(
    failure: BaseException,
    process: subprocess.Popen[bytes] | None = None,
    errors: ErrorOutput | None = None,
) -> str:
    """Return why a child did not start, in one line.

    Args:
        failure: What was raised instead.
        process: The child, if the system started it.
        errors: The child's standard error.
    """
    if process is None or errors is None:
        number = getattr(failure, "errno", None)
        meaning = _REFUSALS.get(number) if number is not None else None
        return f"{meaning}: {failure}" if meaning else str(failure) or type(failure).__name__
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    if process.returncode is None:
        return "it started, but was not ready in time"
    if process.returncode < 0:
        number = -process.returncode
        name = next((one.name for one in signal.Signals if one == number), f"signal {number}")
        ended = f"{name} ended it" + (", perhaps for its memory" if name == "SIGKILL" else "")
    else:
        ended = f"it ended with status {process.returncode}"
    said = errors.last_line(_END_SECONDS)
    return f"{ended}: {said}" if said else ended


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a child, wait until it has ended, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
