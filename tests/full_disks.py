"""Disks that are full: a limit of the size of files, and a small volume."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let the files of this process have `size` bytes at most. What is beyond cannot be written: EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder and its folders."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_on_volume(program: str, folder: Path, size: int, *more: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program in another process, with a volume of its own in a folder, which is the first argument.

    Args:
        program: The program.
        folder: Where the volume is. The volume ends with the process.
        size: The bytes that the volume has room for.
        more: Further arguments.
    """
    unshare = shutil.which("unshare")
    space = [str(unshare), "--user", "--map-root-user", "--mount"]
    script = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
    command = [*space, "sh", "-c", script, str(folder)]
    if unshare is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("the system mounts no volume for this user")
    return subprocess.run(
        [*command, sys.executable, "-c", program, str(folder), *map(str, more)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
    )
