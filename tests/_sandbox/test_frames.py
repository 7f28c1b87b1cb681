"""Messages with their length arrive whole or not at all, however the pieces are cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from structgen._sandbox.frames import LENGTH, read_exactly, read_frame, write_frame


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def in_pieces(data: bytes, most: int) -> Iterator[bytes]:
    return (data[at : at + most] for at in range(0, len(data), most))


@pytest.mark.parametrize("data", [b"", b"x", b"a" * 3_000_000])
def test_a_message_arrives_whole(sockets: tuple[socket.socket, socket.socket], data: bytes) -> None:
    ours, theirs = sockets
    writer = threading.Thread(target=lambda: write_frame(ours.send, data))
    writer.start()
    assert read_frame(theirs.recv) == data
    writer.join()


@pytest.mark.parametrize("most", [1, 3, 100])
def test_pieces_of_any_size_are_put_together(most: int) -> None:
    pieces = in_pieces(LENGTH.pack(10) + b"0123456789" + b"next", most)
    left = b""

    def read(size: int) -> bytes:
        nonlocal left
        left = left or next(pieces, b"")
        part, left = left[:size], left[size:]
        return part

    assert read_frame(read) == b"0123456789"
    assert read_exactly(read, 4) == b"next"
    assert read_exactly(read, 1) is None


def test_a_message_that_is_cut_off_is_dropped(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    ours.sendall(LENGTH.pack(4) + b"abc")
    ours.close()
    assert read_frame(theirs.recv) is None
    assert read_frame(theirs.recv) is None


def test_a_longer_message_is_not_read(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    ours.sendall(LENGTH.pack(5) + b"abcde")
    assert read_frame(theirs.recv, most_bytes=4) is None
    assert theirs.recv(5) == b"abcde"


def test_waiting_can_end_a_transfer_between_pieces(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    ours.sendall(LENGTH.pack(4))
    calls = 0

    def wait() -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        read_frame(theirs.recv, wait=wait)
    with pytest.raises(TimeoutError):
        write_frame(ours.send, b"x", wait)
