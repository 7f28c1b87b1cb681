"""JSON-RPC with one running server: requests and their answers, and requests of the server.

Why: servers send requests before they answer (for their settings, to register capabilities, to show progress) and some
wait for the reply; an answer may come late, twice, or without a request. Invariant: a request ends with its result,
with `Refused` (an error from the server) or with `Ended` (the connection has ended, and why); a cancelled one is
cancelled at the server too. Used in the background loop only. Cost: one dictionary entry for each open request.
Spec: JSON-RPC 2.0; Language Server Protocol 3.17, "Base Protocol".
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from structgen.monitors.language_server.framing import Message, Nonsense, encode_message, read_message
from structgen.monitors.language_server.health import Reason
from structgen.monitors.language_server.process import ServerProcess

__all__ = ["CONTENT_MODIFIED", "METHOD_NOT_FOUND", "SERVER_CANCELLED", "Connection", "Ended", "Refused"]

METHOD_NOT_FOUND = -32601
CONTENT_MODIFIED = -32801
SERVER_CANCELLED = -32802
_UNWRITTEN_LIMIT = 64 * 2**20
"""Bytes that a server may leave unread."""
_EOF_SECONDS = 1.0


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})")
        self.code = code


class Ended(Exception):
    """There is no connection any more; `reason` is for the health record."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Connection:
    """Requests to a process, and replies to its requests by `replies` (method -> function of the parameters)."""

    def __init__(
        self,
        process: ServerProcess,
        replies: Mapping[str, Callable[[Any], Any]],
        heard: Callable[[str, Any], None],
        on_end: Callable[[Ended], Awaitable[None]],
    ) -> None:
        self.process = process
        self.received = 0
        """Messages that came from the server."""
        self.unexpected: deque[str] = deque(maxlen=4)
        """Answers without a request, in words; the client records them."""
        self._replies = replies
        self._heard = heard
        self._on_end = on_end
        self._ids = itertools.count(1)
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._given_up: deque[int] = deque(maxlen=256)
        self.end: Ended | None = None
        self._reader = asyncio.create_task(self._read())

    async def request(self, method: str, parameters: object = None) -> Any:
        """Return the result of a request.

        Raises:
            Refused: the server answered with an error.
            Ended: the connection ended before it answered.
        """
        number = next(self._ids)
        message: Message = {"id": number, "method": method}
        if parameters is not None:
            message["params"] = parameters
        self._write(message)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            with contextlib.suppress(ConnectionError):  # the reader finds the end, and its reason
                await self.process.stdin.drain()
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                self._given_up.append(number)
                with contextlib.suppress(Ended):
                    self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._open.pop(number, None)

    def notify(self, method: str, parameters: object = None) -> None:
        """Send a notification to the server.

        Raises:
            Ended: there is no connection.
        """
        message: Message = {"method": method}
        if parameters is not None:
            message["params"] = parameters
        self._write(message)

    def _write(self, message: Message) -> None:
        if self.end is not None:
            raise self.end
        transport = self.process.stdin.transport
        if transport.get_write_buffer_size() > _UNWRITTEN_LIMIT:
            self.fail(Ended("hang", f"left more than {_UNWRITTEN_LIMIT} bytes unread"))
            raise Ended("hang", "does not read")
        self.process.stdin.write(encode_message(message))

    def fail(self, end: Ended) -> None:
        """End the connection for a reason, unless it has ended: the process is killed, open requests raise."""
        if self.end is not None:
            return
        self.end = end
        self.process.kill_now()
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(end)
        self._open.clear()

    async def wait_until_ended(self) -> None:
        """Wait until the process has ended and the owner was notified."""
        await asyncio.wait([self._reader])

    async def close(self) -> int:
        """Kill the process, drop open requests, and return the exit status."""
        self.fail(Ended("closed", "was closed"))
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        return await self.process.kill()

    async def _read(self) -> None:
        try:
            while (message := await read_message(self.process.stdout)) is not None:
                self.received += 1
                self._take(message)
        except (Nonsense, TypeError, ValueError) as error:
            self.fail(Ended("nonsense", str(error)))
        await self._finish()

    async def _finish(self) -> None:
        """Find the reason of the end after the last message, and notify the owner."""
        status: int | None = None
        if self.end is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EOF_SECONDS):
                    status = await self.process.wait()
        is_unexpected = self.end is None
        await self.process.kill()
        how = "closed its output" if status is None else f"ended with status {status}"
        words = self.process.last_words()
        text = how + (f"; it wrote:\n{words}" if words else "")
        if is_unexpected:
            self.fail(Ended("crash", text))
        assert self.end is not None
        await self._on_end(self.end)

    def _take(self, message: Message) -> None:
        method = message.get("method")
        if method is None:
            self._take_answer(message)
        elif not isinstance(method, str):
            raise Nonsense(f"called a method {method!r:.40}")
        elif "id" not in message:
            self._heard(method, message.get("params"))
        else:
            self._reply(message["id"], method, message.get("params"))

    def _reply(self, number: object, method: str, parameters: object) -> None:
        reply = self._replies.get(method)
        with contextlib.suppress(Ended):
            if reply is None:
                error = {"code": METHOD_NOT_FOUND, "message": f"structgen does not know {method}"}
                self._write({"id": number, "error": error})
            else:
                self._write({"id": number, "result": reply(parameters)})

    def _take_answer(self, message: Message) -> None:
        number = message.get("id")
        answer = self._open.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            if number not in self._given_up:
                self.unexpected.append(f"answered a request {number!r:.40} that was not made")
            return
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            answer.set_exception(
                Refused(code if isinstance(code, int) else 0, str(error.get("message"))[:300])
            )
        elif "result" not in message:
            answer.set_exception(Refused(0, "an answer without a result"))
        else:
            answer.set_result(message["result"])
