"""Wait until a pipe or a socket is readable or writable, for a limited time."""

from __future__ import annotations

import select
import socket
from typing import IO

__all__ = ["is_readable", "is_writable"]


def is_readable(file: IO[bytes] | socket.socket, seconds: float) -> bool:
    """Wait at most `seconds` until there is something to read, or the other end is closed. Return whether it is so."""
    poll = select.poll()
    poll.register(file.fileno(), select.POLLIN | select.POLLHUP)
    return bool(poll.poll(seconds * 1000))


def is_writable(file: IO[bytes] | socket.socket, seconds: float) -> bool:
    """Wait at most `seconds` until something can be written, or the other end is closed. Return whether it is so."""
    poll = select.poll()
    poll.register(file.fileno(), select.POLLOUT)
    return bool(poll.poll(seconds * 1000))
