"""The standard error of a child process: passed on to this process's own, and its end kept for error messages.

Why: a child that cannot start says why on its standard error alone, in the last line of a traceback or in words of the
system. The parent can then name the cause instead of pointing to a log.
Cost: a thread for each child, which waits for output and ends with the child and everything that it forked.
"""

from __future__ import annotations

import contextlib
import os
import threading

__all__ = ["ErrorOutput"]

_READ_BYTES = 1 << 16
_KEPT_BYTES = 1 << 13
_STANDARD_ERROR = 2


class ErrorOutput:
    """Passes on what a child writes to its standard error, once `forward` was called."""

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        """`descriptor` is the child's standard error."""
        self._kept = b""
        self._thread = threading.Thread(target=self._run, name="structgen-child-errors", daemon=True)

    def forward(self) -> None:
        """Start to pass output on. Call it after the child was started."""
        os.close(self.descriptor)
        self._thread.start()

    def close(self) -> None:
        """Release the pipe. Call it instead of `forward` if the child was not started."""
        os.close(self.descriptor)
        os.close(self._read_end)

    def text(self, seconds: float) -> str:
        """Return the end of the output. Waits for more, at most `seconds`, unless the child has closed it."""
        self._thread.join(seconds)
        return self._kept.decode("utf-8", "replace")

    def last_line(self, seconds: float) -> str:
        """Return the last line of the output that is not empty, or ""; see `text`."""
        lines = [line.strip() for line in self.text(seconds).splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def _run(self) -> None:
        while True:
            try:
                data = os.read(self._read_end, _READ_BYTES)
            except OSError:
                data = b""
            if not data:
                break
            self._kept = (self._kept + data)[-_KEPT_BYTES:]
            with contextlib.suppress(OSError):  # the standard error of this process is closed
                os.write(_STANDARD_ERROR, data)
        os.close(self._read_end)
