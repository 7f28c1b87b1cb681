"""`replacing`: write a file that is complete or absent, also where the disk fills or the program is interrupted.

What: the bytes go to a new file in the same directory, which then takes the name of the file.
Why: after an error half a file would be there, or the one that it replaces would be lost. Ordinary writes report a full
disk; a mapped file would end the process (SIGBUS).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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
        file = made.open("wb")
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        raise unwritable(path, what, error) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # some file systems report a full disk only then
        os.replace(made, path)
    except StructgenError:
        raise
    except Exception as error:
        cause = _error_of_the_file(error)
        if cause is None:
            raise
        raise unwritable(path, what, cause) from error
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


def _error_of_the_file(error: BaseException | None) -> OSError | None:
    """Return the error of the operating system from which an error follows; None if it has another reason.

    `torch.save` raises a RuntimeError about positions in the file, and only its context has the reason.
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
