"""Messages of raw bytes over pipes and sockets: each is a length of four bytes, then the bytes.

Invariant: before each system call that could block, `wait` is called. It waits with a time limit, or raises to end the
transfer. A peer that sends one byte at a time therefore meets the same deadline as one that sends everything at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

__all__ = ["LENGTH", "MOST_BYTES", "read_exactly", "read_frame", "write_frame"]

LENGTH = struct.Struct(">I")
"""The length before each message."""
MOST_BYTES = 256 << 20
"""Upper bound of the length of one message, in bytes."""
_CHUNK_BYTES = 1 << 20


def _no_wait() -> None:
    return None


def write_frame(write: Callable[[memoryview], int], data: bytes, wait: Callable[[], None] = _no_wait) -> None:
    """Write one message, in one piece if the other end takes it: half of one would wake the reader in vain.

    Args:
        write: Writes the beginning of a buffer and returns how many bytes it wrote, such as `socket.socket.send`.
        data: The bytes of the message.
        wait: Called before each piece. An exception from it ends the transfer.
    """
    view = memoryview(LENGTH.pack(len(data)) + data)
    while view:
        wait()
        view = view[write(view) :]


def read_frame(
    read: Callable[[int], bytes], most_bytes: int | None = MOST_BYTES, wait: Callable[[], None] = _no_wait
) -> bytes | None:
    """Read one message.

    Args:
        read: Reads at most so many bytes, and returns none at the end, such as `socket.socket.recv`.
        most_bytes: The longest message to read; None is no bound.
        wait: Called before each piece. An exception from it ends the transfer.

    Returns:
        The bytes of the message. None if the other end has closed, or announces a longer message.
    """
    head = read_exactly(read, LENGTH.size, wait)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    return None if most_bytes is not None and length > most_bytes else read_exactly(read, length, wait)


def read_exactly(
    read: Callable[[int], bytes], length: int, wait: Callable[[], None] = _no_wait
) -> bytes | None:
    """Read `length` bytes. Return None if the other end closes before."""
    parts = bytearray()
    while len(parts) < length:
        wait()
        data = read(min(_CHUNK_BYTES, length - len(parts)))
        if not data:
            return None
        parts += data
    return bytes(parts)
