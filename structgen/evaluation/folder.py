"""The folder of a run: created once, appended to, resumed.

Invariant: a record is written, whole, before its process gets the next question; one run at a time writes to a
folder. A line that a crash left incomplete is cut off before anything is appended.
Cost: a write a record.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from structgen.errors import OptionError

from .records import RESULTS, SETTINGS, Key, Record, read_run

__all__ = ["RunFolder"]


class RunFolder:
    """An open folder; threads may share it."""

    def __init__(self, path: Path, settings: dict[str, Any], done: frozenset[Key]) -> None:
        self.path = path
        self.settings = settings
        self.done = done
        """What is answered already."""
        self._lock = threading.Lock()
        self._file = (path / RESULTS).open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise OptionError(f"another run writes to {str(path)!r}", hint="Give another folder.") from None

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> RunFolder:
        """Return a new one; the folder may be there, but not hold a run."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if (path / SETTINGS).exists() or (path / RESULTS).exists():
                raise OptionError(
                    f"{str(path)!r} holds a run already",
                    hint="Go on with it by --resume, or give another folder.",
                )
            aside = path / f".{SETTINGS}"
            aside.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
            aside.rename(path / SETTINGS)
            return cls(path, dict(settings), frozenset())
        except OSError as error:
            raise OptionError(
                f"cannot write a run to {str(path)!r}: {error.strerror or error}", hint="Give another folder."
            ) from None

    @classmethod
    def resume(cls, path: Path) -> RunFolder:
        """Return the one that is there, with what it has; an `OptionError` where it holds no run."""
        run = read_run(path)
        folder = cls(path, run.settings, frozenset())
        try:
            _cut_torn_line(path / RESULTS)
            folder.done = frozenset(record.key for record in read_run(path).records)
        except OSError as error:
            folder.close()
            raise OptionError(f"cannot go on with {str(path)!r}: {error.strerror or error}") from None
        return folder

    def append(self, record: Record) -> None:
        """Write a record down. Raises `OptionError` where the disk is full."""
        line = memoryview(json.dumps(record.to_json()).encode() + b"\n")
        with self._lock:
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError as error:
                raise OptionError(
                    f"cannot write to {str(self.path / RESULTS)!r}: {error.strerror or error}",
                    hint="Go on with --resume when there is room.",
                ) from None

    def close(self) -> None:
        """Let others write to it."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
