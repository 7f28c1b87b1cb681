"""Connections that send nothing, or read nothing, do not keep other clients out."""

from __future__ import annotations

import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from structgen.server.connections import Connections
from structgen.server.settings import ServerSettings
from tests.unhurried import HANG_SECONDS

from .conftest import NAME, Running, fetched, until

MOST, MOST_OF_CLIENT = 12, 8
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
WITHOUT_BODY = HALF + b"Content-Length: 100\r\n\r\n{"


class Fake:
    """A connection that is idle or has a request in progress."""

    def __init__(self, is_idle: bool = True) -> None:
        self.is_idle, self.is_cut = is_idle, False

    def cut(self) -> None:
        self.is_cut = True


def test_the_oldest_idle_connection_of_the_client_with_most_is_closed() -> None:
    all_of_them = Connections(5, 9)
    many = [Fake(is_idle=number != 0) for number in range(4)]
    other = Fake()
    for connection, client in ((other, "b"), *((one, "a") for one in many)):
        assert all_of_them.enter(connection, client)
    assert all_of_them.enter(Fake(), "c")
    assert [one.is_cut for one in many] == [False, True, False, False] and not other.is_cut
    assert len(all_of_them) == 5


def test_connections_of_one_client_are_bounded() -> None:
    all_of_them = Connections(100, 3)
    mine = [Fake() for _ in range(10)]
    assert all(all_of_them.enter(one, "a") for one in mine)
    assert [one.is_cut for one in mine] == [True] * 7 + [False] * 3
    assert all_of_them.enter(Fake(), "b") and len(all_of_them) == 4


@pytest.mark.parametrize("limits", [(3, 9), (9, 3)])
def test_a_connection_with_a_request_in_progress_is_not_cut(limits: tuple[int, int]) -> None:
    all_of_them = Connections(*limits)
    busy = [Fake(is_idle=False) for _ in range(3)]
    assert all(all_of_them.enter(one, "a") for one in busy)
    extra = Fake()
    assert not all_of_them.enter(extra, "a")
    assert not any(one.is_cut for one in busy)
    assert all_of_them.enter(Fake(), "a") and extra.is_cut  # `extra` has no place, so it is cut first
    for one in busy:
        all_of_them.leave(one)
        all_of_them.leave(one)
    assert len(all_of_them) == 1


@pytest.fixture
def small(model: Any) -> Iterator[Running]:
    settings = ServerSettings(
        model_name=NAME,
        compilers=0,
        max_connections=MOST + 4,
        max_client_connections=MOST_OF_CLIENT,
        header_seconds=3600,
    )
    running = Running(model, settings)
    yield running
    running.stop()


def opened(server: Running, sends: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=HANG_SECONDS)
    made.sendall(sends)
    return made


def is_closed(one: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return one.recv(1000) == b""
    return True


@pytest.mark.parametrize("sends", [b"", HALF, WITHOUT_BODY])
def test_silent_connections_keep_no_client_out(small: Running, sends: bytes) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(opened(small, sends)) for _ in range(5 * MOST)]
        assert fetched(f"{small.url}/health")
        with small.client() as client:
            assert client.completions.create(model=NAME, prompt="Once", max_tokens=2).choices
        assert is_closed(silent[0])  # the oldest
        assert len(small.connections) <= MOST_OF_CLIENT


def test_a_busy_server_still_answers_health_requests(small: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """All allowed connections have requests in progress."""
    monkeypatch.setattr(type(small.connections), "_make_room", lambda self, clients: False)
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_OF_CLIENT):
            stack.enter_context(opened(small))
        until(lambda: len(small.connections) == MOST_OF_CLIENT)
        assert '"ok"' in fetched(f"{small.url}/health") and "structgen" in fetched(f"{small.url}/metrics")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{small.url}/v1/models")
        with caught.value:
            assert caught.value.code == 429 and b"too_many_connections" in caught.value.read()
    until(lambda: not len(small.connections))
    assert NAME in fetched(f"{small.url}/v1/models")


@pytest.fixture
def patient(model: Any) -> Iterator[Running]:
    """Return a server without time limits; `limit_time` sets one after the operation that it limits has started."""
    settings = ServerSettings(model_name=NAME, compilers=0, header_seconds=3600, unread_seconds=3600)
    running = Running(model, settings)
    yield running
    running.stop()


def limit_time(server: Running, name: str) -> None:
    """Shorten the time limit `name` from now on. Timers that run already keep theirs."""
    object.__setattr__(server.service.settings, name, 0.2)


def only_connection(server: Running) -> Any:
    until(lambda: len(server.connections) == 1)
    (found,) = server.connections._open
    return found


@pytest.mark.parametrize("sends", [b"", b"G", HALF])
def test_an_incomplete_header_ends_its_connection(patient: Running, sends: bytes) -> None:
    with opened(patient) as silent:
        connection = only_connection(patient)
        timer = connection._header_timer
        assert timer is not None
        silent.sendall(sends)
        until(lambda: connection.conn.trailing_data[0] == sends)
        assert connection._header_timer is timer  # part of a header does not extend the time limit
        limit_time(patient, "header_seconds")
        connection.loop.call_soon_threadsafe(connection._stop_header_timer)
        connection.loop.call_soon_threadsafe(connection._await_header)
        assert silent.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert is_closed(silent)


def test_a_silent_connection_ends(patient: Running) -> None:
    limit_time(patient, "header_seconds")
    with opened(patient) as silent:
        answer = silent.recv(1000)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"\r\nx-request-id: req-" in answer
        assert is_closed(silent)


def test_what_is_not_http_gets_a_request_id(patient: Running) -> None:
    with opened(patient) as odd:
        odd.sendall(b"\x00\r\n\r\n")
        answer = b""
        while more := odd.recv(1000):  # the answer comes in parts, and the connection is closed after it
            answer += more
        assert answer.startswith(b"HTTP/1.1 400 ") and b"\r\nx-request-id: req-" in answer


def test_the_second_header_of_a_connection_has_no_more_time(patient: Running) -> None:
    with opened(patient) as one:
        only_connection(patient).timeout_keep_alive = 3600  # uvicorn's, for what comes between two requests
        one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(10_000).startswith(b"HTTP/1.1 200 ")
        limit_time(patient, "header_seconds")
        one.sendall(b"GET /hea")
        received = b""
        with contextlib.suppress(ConnectionError):
            while more := one.recv(1000):
                received += more
        assert b" 408 " in received
    until(lambda: not len(patient.connections))


def test_a_client_that_reads_nothing_is_cut_off(patient: Running) -> None:
    """Its answer is larger than the socket buffers of the system."""
    limit_time(patient, "unread_seconds")
    page = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

    def ask() -> None:
        for _ in range(20_000):
            deaf.sendall(page * 20)

    with opened(patient) as deaf:
        with pytest.raises(ConnectionError):
            ask()
        until(lambda: not len(patient.connections))
