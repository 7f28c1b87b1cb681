"""The command line: ``structgen generate | check | explain | mask | doctor``.

Why: people write, check and debug a schema in a terminal long before it is in a program.
Invariant: a user's mistake is one message on standard error, never a traceback. Standard output holds only the result,
so it can be piped.
Exit status: 0 yes or done; 1 no (a text is rejected, a keyword is not supported, nothing satisfies the constraint,
generation ended without a value, an installation has a fault); 2 the command cannot run (bad arguments, a missing
file, an invalid schema); 130 interrupted.
Cost: a command imports what it needs; only ``generate`` and ``mask`` load a model or a tokenizer.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from structgen.errors import CoreMissing

__all__ = ["main", "program"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        from .commands import main as run
    except CoreMissing as error:
        print(f"structgen: {error}", file=sys.stderr)
        return 2
    return run(arguments)


def program() -> NoReturn:
    """Run the command of this process, and end it."""
    try:
        status = main()
    except KeyboardInterrupt:  # while modules were imported
        print("structgen: interrupted", file=sys.stderr)
        status = _INTERRUPTED
    if status == _INTERRUPTED:
        # subtle: at the usual end of a process libraries report what they leave unfinished, and threads that
        # compute are joined.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)
