"""A handle of a process that another process has forked, so that it can be killed safely."""

from __future__ import annotations

import contextlib
import errno
import os
import signal

__all__ = ["ProcessHandle"]


class ProcessHandle:
    """Refers to one process for its whole life.

    Invariant: a signal reaches this process or none. A process id is given to another process after the first has
    ended; a process descriptor is not. Without descriptors, the id is used only if `by_pid` allows it.
    """

    def __init__(self, pid: int, *, by_pid: bool = False) -> None:
        """Open a handle.

        Args:
            pid: The id of the process.
            by_pid: Send signals to the id on a kernel that has no process descriptors. The caller then makes sure
                that the process exists.
        """
        self.pid = pid
        self._descriptor: int | None = None
        self._by_pid = False
        try:
            self._descriptor = os.pidfd_open(pid)
        except OverflowError:
            pass
        except (AttributeError, OSError) as error:
            # An id that belongs to no process must not get a signal.
            is_process = getattr(error, "errno", None) not in (errno.EINVAL, errno.ESRCH)
            self._by_pid = by_pid and is_process

    def kill(self) -> None:
        """Kill the process. Has no effect after `close`."""
        with contextlib.suppress(OSError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            elif self._by_pid:
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release the handle. The process gets no signal."""
        descriptor, self._descriptor, self._by_pid = self._descriptor, None, False
        if descriptor is not None:
            os.close(descriptor)
