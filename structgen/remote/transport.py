"""Requests to a server that speaks the OpenAI protocol: limits, patience and clear errors, and nothing about answers.

Why: a server is a stranger. It may be busy, slow, gone, or send more than anyone asked for; what is above sees JSON, a
stream of JSON, or one `RemoteError`.
What: 408, 409, 425, 429, 5xx, time-outs and lost connections are tried again with growing pauses (as long as
``Retry-After`` says, if it says so), as often and as long as the caller's deadline allows. Everything else is told at
once, with what the server said.
Invariant: no call lasts longer than its deadline, which holds for connecting, headers and body together (`timed`). None
reads more than `MOST_BYTES`, as they come over the wire: answers are not decompressed. Redirects are not followed and
the key is in no message.
Cost: one connection pool a server.
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
"""Of one answer."""
_MOST_ERROR_BYTES = 1 << 16
_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_SLICE = 0.25
"""Seconds between two looks at whether to stop."""


class BrokenOff(RemoteError):
    """The connection was lost in the middle of an answer."""


class Cancelled(GenerationError):
    """The caller asked to stop."""


@dataclass(frozen=True)
class Deadline:
    """When to give up, and whether the caller wants to stop."""

    end: float
    """On the clock of `time.monotonic`."""
    cancel: Callable[[], bool] | None = None

    @classmethod
    def within(cls, seconds: float, cancel: Callable[[], bool] | None = None) -> Deadline:
        return cls(time.monotonic() + seconds, cancel)

    @property
    def left(self) -> float:
        """Seconds, never negative."""
        return max(0.0, self.end - time.monotonic())

    def check(self) -> None:
        if self.cancel is not None and self.cancel():
            raise Cancelled("generation was cancelled")
        if not self.left:
            raise RemoteError(
                "the time for this answer is over",
                hint="Raise `seconds` of structgen.connect(), or ask for less.",
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
        """The address as messages show it."""
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
        """All but the connections, which a copy opens again; the key is a part of it."""
        return {**self.__dict__, "_lock": None, "_client": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def get(self, path: str, deadline: Deadline) -> Any:
        """The JSON at `path`."""
        return _json(b"".join(self._patiently("GET", path, None, deadline, whole=True)), self.url)

    def post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Any:
        """The JSON that the server answers `body` with."""
        return _json(b"".join(self._patiently("POST", path, body, deadline, whole=True)), self.url)

    def stream(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Iterator[Any]:
        """The JSON of each event of a stream, then None for ``[DONE]``. A server that does not stream gives one."""
        buffer, searched = bytearray(), 0
        is_stream: bool | None = None
        for piece in self._patiently("POST", path, body, deadline, whole=False):
            buffer += piece
            if is_stream is None:
                if not (begun := piece.lstrip()):
                    continue
                is_stream = not begun.startswith(b"{")
            while is_stream and (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end]).strip()
                del buffer[: end + 1]
                searched = 0
                if not line.startswith(b"data:"):
                    continue  # names of events, comments that keep the connection
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
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _patiently(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline: Deadline, *, whole: bool
    ) -> Iterator[bytes]:
        """The bytes of the answer; tried again until it is there, or only until its first bytes are (not `whole`)."""
        last: RemoteError | None = None
        for number in range(self.tries):
            if last is not None:
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (number - 1)) * random.uniform(0.75, 1.25)
                wanted = getattr(last, "retry_after", None)
                pause = pause if wanted is None else wanted
                if pause >= deadline.left:
                    raise last  # what the server said last says more than that time is over
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
            except _Again as again:
                last = again.error
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

        # Escaped, so that half a character in a prompt is the server's to judge.
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
                        "the server's answer is compressed, which was not asked for",
                        where=self.url,
                        hint="Leave Accept-Encoding out of `headers` of structgen.connect(); or a proxy does this.",
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
                else "Is it running, and is this its address? It ends in /v1 for most servers.",
            )
            if began:  # half an answer has been passed on
                raise BrokenOff(fault.message, where=fault.where, hint=fault.hint) from error
            raise _Again(fault) from error

    def _refused(self, response: Any, deadline: Deadline) -> Exception:
        import httpx2

        from .deadlines import under

        content = bytearray()
        # The status says enough where its page does not come.
        with contextlib.suppress(httpx2.HTTPError, RemoteError), under(deadline):
            for piece in response.iter_raw():
                content += piece
                if len(content) > _MOST_ERROR_BYTES or not deadline.left:
                    break
        status = response.status_code
        place = response.headers.get("location") if 300 <= status < 400 else None
        fault = RemoteError(
            f"the server answers {status}: {f'go to {place:.200}' if place else _said(bytes(content))}",
            status=status,
            body=bytes(content[:_MOST_ERROR_BYTES]).decode("utf-8", "replace"),
            where=self.url,
            hint=_HINTS.get(status, _REDIRECTED if 300 <= status < 400 else None),
        )
        if status not in _TRY_AGAIN:
            return fault
        fault.retry_after = _seconds(response.headers.get("retry-after"))  # type: ignore[attr-defined]
        return _Again(fault)

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                with needed("a remote model", extra="remote"):
                    from .deadlines import timed_client
                self._client = _client_of_environment(timed_client)
            return self._client


def _client_of_environment(make: Callable[[], Any]) -> Any:
    """A client, with the proxies and certificates that the environment names."""
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


class _Again(Exception):
    """A fault that may be gone in a moment."""

    def __init__(self, error: RemoteError) -> None:
        super().__init__(str(error))
        self.error = error


_REDIRECTED = "Redirects are not followed: give the address that the server names in the end."
_HINTS = {
    401: "Give the right api_key=.",
    403: "Give an api_key= that may do this.",
    404: "Check the address (it ends in /v1 for most servers) and the model's name.",
    429: "The server limits requests: lower `concurrency`, or wait.",
}


_DELAY = re.compile(r"[0-9]{1,12}(\.[0-9]{0,12})?")


def _seconds(header: str | None) -> float | None:
    """Return what ``Retry-After`` says (RFC 9110, 10.2.3: seconds, or a date); None where it says nothing usable."""
    text = (header or "").strip()
    if _DELAY.fullmatch(text):
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        if then.tzinfo is None:
            then = then.replace(tzinfo=datetime.UTC)
        return max(0.0, (then - datetime.datetime.now(datetime.UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None  # the usual pause will do


def error_in(data: Any) -> str | None:
    """What an error page says, in one line; None if the page says no error."""
    if not isinstance(data, dict):
        return None
    found = data.get("error", data.get("message", data.get("detail")))
    found = found.get("message", found) if isinstance(found, dict) else found
    return None if not found else _one_line(found if isinstance(found, str) else json.dumps(found))


def _said(content: bytes) -> str:
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
            hint="Is this the address of a server with the OpenAI protocol? It ends in /v1 for most.",
        ) from None


def _checked_url(url: object) -> str:
    try:
        parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
        host = None if parts is None else parts.hostname
        is_url = (
            parts is not None
            and parts.scheme in ("http", "https")
            and host
            and parts.port != 0  # raises where it is no number, or too large
            and str(url).isprintable()
            and " " not in str(url)
            and all(0 < len(one) < 64 for one in host.removesuffix(".").split("."))
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
            hint="Requests go to paths below the address. What each request needs is set by extra_body= or headers=.",
        )
    return str(url).rstrip("/")


def _without_password(url: object) -> object:
    return re.sub(r"(?<=//)[^/]*@", "***@", url) if isinstance(url, str) else url
