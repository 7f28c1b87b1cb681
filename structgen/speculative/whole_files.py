"""`replacing`: write a file that is complete or absent, also where the disk fills or the program is interrupted.

What: the bytes go to a new file in the same directory, which then takes the name of the file.
Why: after an error half a file would be there, or the one that it replaces would be lost. Ordinary writes report a full
disk; a mapped file would end the process (SIGBUS).
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from structgen.errors import ModelError, StructgenError

__all__ = ["replacing", "unwritable"]


@contextmanager
def replacing(path: Path, what: str) -> Iterator[BinaryIO]:
    """Give a new file, open for writing, which replaces `path` if the block succeeds and is removed otherwise.

    Args:
        path: The file.
        what: What it contains, for the error: "the judge".

    Raises:
        ModelError: It cannot be written. Then it is as it was before.
    """
    try:
        made = path.with_name(path.name + ".writing")
        raw = _NotedFile(made, "wb")
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        raise unwritable(path, what, error) from error
    try:
        with io.BufferedWriter(raw) as file:
            yield file
            file.flush()
            with raw.noted():
                os.fsync(raw.fileno())  # some file systems report a full disk only then
        with raw.noted():
            os.replace(made, path)
    except StructgenError:
        raise
    except Exception as error:
        if raw.error is None:
            raise
        raise unwritable(path, what, raw.error) from error
    finally:
        with contextlib.suppress(OSError):
            made.unlink(missing_ok=True)


def unwritable(path: Path, what: str, error: Exception) -> ModelError:
    """Return the error for a file that cannot be written.

    Args:
        path: The file.
        what: What it contains.
        error: The reason.
    """
    return ModelError(f"{what} cannot be written to {path}: {error}")


class _NotedFile(io.FileIO):
    """A file that keeps why it could not be written.

    The block may fail for reasons of its own, also with an `OSError`; and `torch.save` reports a failed write as a
    RuntimeError about positions in the file.
    """

    error: OSError | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the error of the operating system that the block raises."""
        try:
            yield
        except OSError as error:
            self.error = error
            raise

    def write(self, data: Any) -> int:
        """See `io.FileIO.write`."""
        with self.noted():
            return super().write(data)
