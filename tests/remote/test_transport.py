"""A deadline holds for whole requests and for any answer; pauses are bounded, even if a server wants longer ones."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import gzip
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from structgen.errors import RemoteError
from structgen.remote.transport import MOST_BYTES, Cancelled, Deadline, Transport, _seconds

httpcore2 = pytest.importorskip("httpcore2")

from structgen.remote import deadlines  # noqa: E402

GENEROUS = 300.0
"""Seconds that an answer bounded to half a second may take on a busy machine."""
Reply = Callable[[socket.socket], None]


@contextmanager
def raw_server(reply: Reply) -> Iterator[str]:
    """Run a server that passes each connection to `reply` after the first bytes of the request."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(1 << 16)
                reply(connection)
                # Closed with bytes unread (the request's body may come after its head), the connection would be
                # reset, and the client would lose what it has not read yet.
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
            except OSError:
                pass  # the client closed the connection

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def drip(before: bytes, piece: bytes, after: bytes = b"") -> Reply:
    def reply(connection: socket.socket) -> None:
        connection.sendall(before)
        for _ in range(20_000):
            connection.sendall(piece)
            time.sleep(0.02)
        connection.sendall(after)

    return reply


OK = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "status line": drip(b"HTTP/1.1 20", b"0"),
    "header": drip(OK + b"X: ", b"x"),
    "headers": drip(OK, b"X: y\r\n"),
    "informational answers": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": drip(OK + b"Content-Length: 100000\r\n\r\n", b" "),
    "chunks": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "size of a chunk": drip(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "body without end": drip(OK + b"Connection: close\r\n\r\n", b" "),
    "error page": drip(b"HTTP/1.1 404 No\r\nContent-Length: 100000\r\n\r\n", b" "),
    "busy page": drip(b"HTTP/1.1 503 No\r\nContent-Length: 100000\r\n\r\n", b" "),
    "nothing": lambda connection: time.sleep(300),
}


def transport(url: str, **more: Any) -> Transport:
    return Transport(url, **{"api_key": None, "headers": None, "request_seconds": 60.0, "tries": 5, **more})


@pytest.mark.parametrize("name", DRIPS)
def test_a_server_that_drips_does_not_hold_a_call_past_its_deadline(name: str) -> None:
    with raw_server(DRIPS[name]) as url:
        client = transport(url)
        began = time.monotonic()
        with pytest.raises(RemoteError):
            client.get("/models", Deadline.within(0.5))
        with pytest.raises(RemoteError):
            list(client.stream("/chat/completions", {}, Deadline.within(0.5)))
        assert time.monotonic() - began < GENEROUS
        client.close()


def test_a_call_can_be_cancelled_while_headers_drip() -> None:
    with raw_server(DRIPS["header"]) as url:
        client, began = transport(url), time.monotonic()
        with pytest.raises(Cancelled):
            client.get("/models", Deadline.within(600, lambda: time.monotonic() - began > 0.2))
        assert time.monotonic() - began < GENEROUS
        client.close()


def test_a_server_that_reads_nothing_does_not_hold_a_call() -> None:
    def reply(connection: socket.socket) -> None:
        time.sleep(300)

    with raw_server(reply) as url:
        client, began = transport(url), time.monotonic()
        with pytest.raises(RemoteError):
            client.post("/chat/completions", {"text": "x" * (32 << 20)}, Deadline.within(0.5))
        assert time.monotonic() - began < GENEROUS
        client.close()


def test_each_address_of_a_host_has_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []

    class Silent(httpcore2.NetworkBackend):  # type: ignore[misc]
        def connect_tcp(self, host: str, port: int, timeout: float, *_: Any) -> Any:
            asked.append((host, timeout))
            time.sleep(0.05)
            raise httpcore2.ConnectTimeout("no answer")

    found = [(0, 0, 0, "", (f"10.0.0.{number}", 80)) for number in range(100)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with deadlines.under(Deadline.within(0.3)), pytest.raises((RemoteError, httpcore2.ConnectTimeout)):
        deadlines._Backend(Silent()).connect_tcp("many.example", 80, 5.0)
    assert 0 < len(asked) < 100
    assert [host for host, _ in asked] == [f"10.0.0.{number}" for number in range(len(asked))]
    assert all(timeout <= 0.3 for _, timeout in asked)


def whole(content: bytes) -> Reply:
    def reply(connection: socket.socket) -> None:
        connection.sendall(content)

    return reply


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: OK + b"X: " + b"x" * 200_000 + b"\r\n\r\n", "cannot be reached"),
        (lambda: OK + b"Content-Length: 99999999999\r\n\r\n" + b" " * (MOST_BYTES + 1), "longer than"),
        (
            lambda: (
                OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b" " * (64 << 20))
            ),
            "compressed",
        ),
        (
            lambda: b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            "answers 302",
        ),
        (
            lambda: b"HTTP/1.1 308 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
            "Redirects are not",
        ),
        (lambda: b"HTTP/1.1 401 No\r\nConnection: close\r\n\r\n" + b"x" * (1 << 20), "answers 401"),
        (lambda: b"HTTP/1.1 404 No\r\nContent-Length: 99\r\n\r\n{}", "answers 404"),
        (lambda: b"nonsense\r\n\r\n", "cannot be reached"),
    ],
    ids=["huge header", "long body", "bomb", "redirect", "moved", "long page", "half a page", "nonsense"],
)
def test_invalid_answers(answer: Callable[[], bytes], said: str) -> None:
    with raw_server(whole(answer())) as url:
        client = transport(url, tries=1)
        with pytest.raises(RemoteError, match=said):
            client.get("/models", Deadline.within(20))
        client.close()


def test_events_are_cut_wherever_the_pieces_end() -> None:
    events = (
        b': ping\n\n\n  data: {"a": 1}\n\nevent: x\ndata: {"b": "\xc3\xa9"}\r\n\r\ndata: [DONE]\n\ndata: {}\n'
    )

    def reply(connection: socket.socket) -> None:
        connection.sendall(OK + b"Connection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # the client leaves after [DONE]
            for start in range(len(events)):
                connection.sendall(events[start : start + 1])

    with raw_server(reply) as url:
        client = transport(url)
        assert list(client.stream("/x", {}, Deadline.within(20))) == [{"a": 1}, {"b": "é"}, None]
        client.close()
    with raw_server(whole(OK + b'Content-Length: 10\r\n\r\n  {"a": 1}')) as url:
        client = transport(url)
        assert list(client.stream("/x", {}, Deadline.within(20))) == [{"a": 1}, None]
        client.close()


@pytest.mark.parametrize(
    "header", ["nan", "inf", "-inf", "-5", "1e9", "1_000", "", " ", "x", "١٢", "0x10", "Mon, 99", None]
)
def test_a_retry_after_that_says_nothing_leaves_the_usual_pause(header: str | None) -> None:
    assert _seconds(header) is None


def test_a_retry_after_is_seconds_or_a_date() -> None:
    assert _seconds("0") == 0 and _seconds(" 2 ") == 2 and _seconds("1.5") == 1.5
    assert _seconds("999999999999") == 999999999999
    now = datetime.datetime.now(datetime.UTC)
    soon = _seconds(email.utils.format_datetime(now + datetime.timedelta(seconds=90), usegmt=True))
    assert soon is not None and 60 < soon <= 90
    assert _seconds(email.utils.format_datetime(now - datetime.timedelta(days=1))) == 0
    assert math.isfinite(_seconds("Fri, 31 Dec 9999 23:59:59 GMT") or math.nan)


@pytest.mark.parametrize(
    ("header", "longest"),
    [("nan", 6), ("-1", 6), ("inf", 6), ("junk", 6), ("0", 0), ("1", 1), ("99999999", 0)],
)
def test_pauses_are_bounded(header: str, longest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is as long as the server says or as usual; one that goes past the deadline is not started."""
    pauses: list[float] = []
    monkeypatch.setattr(Deadline, "pause", lambda self, seconds: pauses.append(seconds))
    # subtle: without `Connection: close` a later try may meet the closed connection, which has no pause in it.
    head = f"HTTP/1.1 503 Busy\r\nRetry-After: {header}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with raw_server(whole(head.encode())) as url:
        client = transport(url, tries=4)
        with pytest.raises(RemoteError, match="answers 503"):
            client.get("/models", Deadline.within(60))
        client.close()
    assert len(pauses) == (0 if header == "99999999" else 3)
    assert all(0 <= pause <= longest for pause in pauses)
    if longest == 6:  # as usual: it grows
        assert pauses == sorted(pauses) and pauses[0] >= 0.3
