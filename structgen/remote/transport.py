"""Requests to a server that implements the OpenAI API, with limits, retries and clear errors.

Why: a server may be busy, slow, gone, or send too much. Callers see JSON, a stream of JSON, or one `RemoteError`.
What: 408, 409, 425, 429, 5xx, time-outs and lost connections are retried with growing pauses (or after the pause in
``Retry-After``), while the caller's deadline allows it. Everything else is raised at once, with the server's message.
Invariant: no call lasts longer than its deadline, which covers connecting, headers and body (`deadlines`). No call
reads more than `MOST_BYTES` from the wire: responses are not decompressed. Redirects are not followed, and no message
contains the key.
Cost: one connection pool per server.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import json
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from structgen.errors import GenerationError, OptionError, PackageMissing, RemoteError
from structgen.extras import needed

__all__ = ["MOST_BYTES", "BrokenOff", "Cancelled", "Deadline", "Transport", "error_in"]

MOST_BYTES = 16 << 20
"""Upper bound of one response, in bytes."""
_MOST_ERROR_BYTES = 1 << 16
_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_SLICE = 0.25
"""Seconds between two checks for a cancellation."""


class BrokenOff(RemoteError):
    """The connection was lost in the middle of a response."""


class Cancelled(GenerationError):
    """The caller cancelled the request."""


@dataclass(frozen=True)
class Deadline:
    """The end of the time for an answer, and the caller's cancellation."""

    end: float
    """On the clock of `time.monotonic`."""
    cancel: Callable[[], bool] | None = None

    @classmethod
    def within(cls, seconds: float, cancel: Callable[[], bool] | None = None) -> Deadline:
        """Return the deadline that lies `seconds` from now."""
        return cls(time.monotonic() + seconds, cancel)

    @property
    def left(self) -> float:
        """Seconds, never negative."""
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        """Raise `Cancelled` if the caller cancelled, and `RemoteError` if the time is used up."""
        if self.cancel is not None and self.cancel():
            raise Cancelled("generation was cancelled")
        if not self.left:
            raise RemoteError(
                "the time for this answer is used up",
                hint="Raise `seconds` of structgen.connect(), or request a shorter answer.",
            )

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end nor through a cancellation."""
        until = time.monotonic() + seconds
        while (rest := min(until - time.monotonic(), self.left)) > 0:
            self.check()
            time.sleep(min(rest, _SLICE))
        self.check()


class Transport:
    """One server. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        headers: Mapping[str, str] | None,
        request_seconds: float,
        tries: int,
    ) -> None:
        self._address = _checked_url(url)
        self.url = str(_without_password(self._address))
        """The address, without a password."""
        self.tries = tries
        self.request_seconds = request_seconds
        sent = {
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        if api_key is not None:
            sent["Authorization"] = f"Bearer {api_key}"
        self._headers = sent
        self._lock = threading.Lock()
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the connections, which a copy opens again. The key is included."""
        return {**self.__dict__, "_lock": None, "_client": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def get(self, path: str, deadline: Deadline) -> Any:
        """Return the JSON at `path`. Raises `RemoteError`."""
        return _json(b"".join(self._with_retries("GET", path, None, deadline, whole=True)), self.url)

    def post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Any:
        """Post `body` and return the JSON of the response. Raises `RemoteError`."""
        return _json(b"".join(self._with_retries("POST", path, body, deadline, whole=True)), self.url)

    def stream(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Iterator[Any]:
        """Yield the JSON of each event of a stream, then None for ``[DONE]``.

        A server may send one response instead.
        """
        buffer, searched = bytearray(), 0
        is_stream: bool | None = None
        for piece in self._with_retries("POST", path, body, deadline, whole=False):
            buffer += piece
            if is_stream is None:
                if not (start := piece.lstrip()):
                    continue
                is_stream = not start.startswith(b"{")
            while is_stream and (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end]).strip()
                del buffer[: end + 1]
                searched = 0
                if not line.startswith(b"data:"):
                    continue  # names of events, comments that keep the connection open
                data = line[5:].strip()
                if data == b"[DONE]":
                    yield None
                    return
                yield _json(data, self.url)
            searched = len(buffer)
        if is_stream is False:
            yield _json(bytes(buffer), self.url)
            yield None

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _with_retries(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline: Deadline, *, whole: bool
    ) -> Iterator[bytes]:
        """Yield the bytes of the response.

        Retries until it is complete, or only until its first bytes (not `whole`).
        """
        last: RemoteError | None = None
        for number in range(self.tries):
            if last is not None:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (number - 1)) * random.uniform(0.75, 1.25)
                wanted = getattr(last, "retry_after", None)
                pause = pause if wanted is None else wanted
                if pause >= deadline.left:
                    raise last  # more informative than an error about the deadline
                deadline.pause(pause)
            deadline.check()
            try:
                with contextlib.closing(self._once(method, path, body, deadline)) as pieces:
                    if whole:
                        yield b"".join(pieces)
                    else:
                        yield next(pieces, b"")
                        yield from pieces
                return
            except _Temporary as fault:
                last = fault.error
            except BrokenOff as error:
                if not whole:
                    raise
                last = error
        assert last is not None
        raise last

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline: Deadline
    ) -> Generator[bytes, None, None]:
        client = self._opened()
        import httpx2

        from .deadlines import under

        # Escaped, so that a lone surrogate in a prompt reaches the server, which decides about it.
        content = None if body is None else json.dumps(body).encode()
        began = False
        timeout = max(0.01, min(self.request_seconds, deadline.left))
        request = client.stream(
            method, f"{self._address}{path}", content=content, headers=self._headers, timeout=timeout
        )
        try:
            with contextlib.ExitStack() as opened:
                with under(deadline):
                    response = opened.enter_context(request)
                if response.status_code >= 300:
                    raise self._refused(response, deadline)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise RemoteError(
                        "the server's answer is compressed, although the request forbids it",
                        where=self.url,
                        hint="Leave Accept-Encoding out of `headers` of structgen.connect(), or check for a proxy.",
                    )
                pieces, read = response.iter_raw(), 0
                while True:
                    with under(deadline):
                        piece = next(pieces, None)
                    if piece is None:
                        return
                    read += len(piece)
                    if read > MOST_BYTES:
                        raise RemoteError(f"the answer is longer than {MOST_BYTES:,} bytes", where=self.url)
                    deadline.check()
                    began = True
                    yield piece
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise RemoteError(
                f"the address cannot be used: {error}", where=self.url, hint="Check the name of the host."
            ) from error
        except httpx2.HTTPError as error:
            what = str(error) or type(error).__name__
            timed_out = isinstance(error, httpx2.TimeoutException)
            fault = RemoteError(
                f"no answer within {timeout:.3g} s" if timed_out else f"the server cannot be reached: {what}",
                where=self.url,
                hint="Raise `request_seconds` of structgen.connect()."
                if timed_out
                else "Is it running, and is this its address? Most addresses end in /v1.",
            )
            if began:  # a part of the response has been passed on
                raise BrokenOff(fault.message, where=fault.where, hint=fault.hint) from error
            raise _Temporary(fault) from error

    def _refused(self, response: Any, deadline: Deadline) -> Exception:
        import httpx2

        from .deadlines import under

        content = bytearray()
        # If the page does not arrive, the status is enough.
        with contextlib.suppress(httpx2.HTTPError, RemoteError), under(deadline):
            for piece in response.iter_raw():
                content += piece
                if len(content) > _MOST_ERROR_BYTES or not deadline.left:
                    break
        status = response.status_code
        location = response.headers.get("location") if 300 <= status < 400 else None
        fault = RemoteError(
            f"the server answers {status}: {f'go to {location:.200}' if location else _message_of(bytes(content))}",
            status=status,
            body=bytes(content[:_MOST_ERROR_BYTES]).decode("utf-8", "replace"),
            where=self.url,
            hint=_HINTS.get(status, _REDIRECTED if 300 <= status < 400 else None),
        )
        if status not in _TRY_AGAIN:
            return fault
        fault.retry_after = _seconds(response.headers.get("retry-after"))  # type: ignore[attr-defined]
        return _Temporary(fault)

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                with needed("a remote model", extra="remote"):
                    from .deadlines import timed_client
                self._client = _client_of_environment(timed_client)
            return self._client


def _client_of_environment(make: Callable[[], Any]) -> Any:
    """Return a client with the proxies and certificates that the environment names."""
    variables = "ALL_PROXY, HTTP_PROXY, HTTPS_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
    try:
        return make()
    except ImportError as error:
        raise PackageMissing(
            "the environment names a SOCKS proxy, which needs the package socksio, which is not installed",
            hint="Install it with: pip install socksio; or unset ALL_PROXY.",
        ) from error
    except (OSError, ValueError) as error:
        raise OptionError(
            f"the environment names a proxy or certificates that cannot be used: {error}",
            hint=f"Check the variables {variables}.",
        ) from error


class _Temporary(Exception):
    """A fault after which the request is retried."""

    def __init__(self, error: RemoteError) -> None:
        super().__init__(str(error))
        self.error = error


_REDIRECTED = "Redirects are not followed: pass the address that the server redirects to."
_HINTS = {
    401: "Pass the right api_key=.",
    403: "Pass an api_key= with this permission.",
    404: "Check the address (most end in /v1) and the model's name.",
    429: "The server limits requests: lower `concurrency`, or wait.",
}


_DELAY = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?")


def _seconds(header: str | None) -> float | None:
    """Return what ``Retry-After`` says (RFC 9110, 10.2.3: seconds, or a date); None if it is missing or invalid."""
    text = (header or "").strip()
    if _DELAY.fullmatch(text):
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        if then.tzinfo is None:
            then = then.replace(tzinfo=datetime.UTC)
        return max(0.0, (then - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None  # the usual pause applies


def error_in(data: Any) -> str | None:
    """Return the message of an error page in one line; None if the page reports no error."""
    if not isinstance(data, dict):
        return None
    found = data.get("error", data.get("message", data.get("detail")))
    found = found.get("message", found) if isinstance(found, dict) else found
    return None if not found else _one_line(found if isinstance(found, str) else json.dumps(found))


def _message_of(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, RecursionError):
        text = error_in(json.loads(text)) or text
    return _one_line(text) or "nothing more"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]


def _json(data: bytes, url: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        shown = data[:80].decode("utf-8", "replace")
        raise RemoteError(
            f"the server's answer is not JSON: {shown!r}",
            where=url,
            hint="Is this the address of a server with the OpenAI API? Most addresses end in /v1.",
        ) from None


def _checked_url(url: object) -> str:
    try:
        parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
        host = None if parts is None else parts.hostname
        is_url = (
            parts is not None
            and parts.scheme in ("http", "https")
            and host
            and parts.port != 0  # raises if it is not a number, or too large
            and str(url).isprintable()
            and " " not in str(url)
            and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
        )
    except ValueError:
        is_url = False
    if not is_url or parts is None:
        raise OptionError(
            f"the address is {_without_password(url)!r:.80}; it must be http:// or https:// with a host, and perhaps "
            "a port and a path",
            hint='Write, for example, structgen.connect("http://localhost:8000/v1").',
        )
    if parts.query or parts.fragment:
        raise OptionError(
            f"the address {_without_password(url)!r:.80} has a part after {'?' if parts.query else '#'!r}",
            hint="Requests go to paths below the address. Set fields of requests with extra_body= or headers=.",
        )
    return str(url).rstrip("/")


def _without_password(url: object) -> object:
    return re.sub(r"(?<=//)[^/]*@", "***@", url) if isinstance(url, str) else url
