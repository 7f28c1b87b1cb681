"""Run the tool calls of one turn, with time-outs, and keep the result of each.

What: `CallRunner.run` needs no event loop: async tools run in one private event loop, in a thread, for the whole
conversation. `CallRunner.run_async` uses the caller's event loop: async tools run there, others in threads. The async
calls of one turn run concurrently; the others run meanwhile, one after another, in the order of the turn. Calls with an
order all run one after another.
Invariant: errors of a tool, refused arguments and time-outs are results, unless the caller wants them raised.
`KeyboardInterrupt`, `SystemExit` and cancellation are always raised.
Cost: a thread for a call that is not async, if it has a time-out or must not block an event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from structgen.brief import short_repr
from structgen.errors import OutputInvalid, ToolTimeout

from .definitions import Tool, ToolCall
from .result_json import shown

__all__ = ["CallResult", "CallRunner", "Execute", "OnError"]

Execute = Callable[[ToolCall], Any]
OnError = Literal["report", "raise"]
_GRACE = 0.5
"""Seconds for an event loop to cancel an async tool; a tool that blocks its loop longer is abandoned."""
_MOST_ITEMS = 10_000
"""The most items that are read from a generator."""


@short_repr
@dataclass(frozen=True)
class CallResult:
    """The result of a call that was made or refused."""

    call: ToolCall
    value: Any = None
    """What the function returned: for a coroutine its result, for a generator the list of its items."""
    error: Exception | None = None
    """The error: `OutputInvalid` if the tool does not accept the arguments, `ToolTimeout` if it took too long."""

    @property
    def content(self) -> str:
        """The text that the model is shown: a text unchanged, any other value as JSON."""
        if self.error is None:
            return shown(self.value)
        return shown({"error": _message(self.error, self.call)})


class CallRunner:
    """Runs the calls of one conversation."""

    def __init__(
        self, offered: Sequence[Tool], execute: Execute | None, timeout: float | None, on_error: OnError
    ) -> None:
        self._tools = {tool.name: tool for tool in offered}
        self._execute = execute
        self._timeout = timeout
        self._on_error = on_error
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, calls: Sequence[ToolCall], *, concurrent: bool) -> list[CallResult]:
        """Run the calls of a turn and return their results. With `concurrent`, async calls may overlap."""
        results: dict[int, CallResult] = {}
        started: dict[int, tuple[Future[CallResult], _Clock]] = {}
        try:
            for index in self._overlapping(calls) if concurrent else ():
                waiting = self._result_of(calls[index])
                running = asyncio.run_coroutine_threadsafe(waiting, self._own_loop())
                started[index] = running, _Clock(self._timeout)
            for index, call in enumerate(calls):
                if index not in started:
                    results[index] = self._run(call)
            waiting_for = dict(started)
            while waiting_for:
                soonest = min((clock.left() for _, clock in waiting_for.values()), key=_or_forever)
                wait(
                    [running for running, _ in waiting_for.values()],
                    None if soonest is None else soonest + _GRACE,
                    FIRST_COMPLETED,
                )
                for index, (running, clock) in list(waiting_for.items()):
                    if running.done() or clock.left() == 0:
                        results[index] = self._collected(running, clock, calls[index])
                        del waiting_for[index]
        finally:  # after an error or Ctrl-C, no other call continues
            for running, _ in started.values():
                running.cancel()
        return [results[index] for index in range(len(calls))]

    async def run_async(self, calls: Sequence[ToolCall], *, concurrent: bool) -> list[CallResult]:
        """Run the calls of a turn in the caller's event loop; see `run`."""
        overlapping = self._overlapping(calls) if concurrent else []
        results: dict[int, CallResult] = {}

        async def one_after_another(indices: Sequence[int]) -> None:
            for index in indices:
                results[index] = await self._result_of(calls[index])

        others = [index for index in range(len(calls)) if index not in overlapping]
        if not overlapping:
            await one_after_another(others)
        else:
            rows = [*([index] for index in overlapping), others]
            tasks = [asyncio.ensure_future(one_after_another(indices)) for indices in rows]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return [results[index] for index in range(len(calls))]

    def close(self) -> None:
        """End the private event loop, if there was one. Tasks that still run in it are cancelled."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE)  # a tool that blocks the loop delays its end, not the caller
        self._loop = self._thread = None

    # -- parts

    def _overlapping(self, calls: Sequence[ToolCall]) -> list[int]:
        """Return the indices of the calls that run concurrently: async ones, if there are several."""
        indices = [index for index, call in enumerate(calls) if self._is_async(call)]
        return indices if len(indices) > 1 else []

    def _run(self, call: ToolCall) -> CallResult:
        """Run one call and wait for its result."""
        try:
            ready, clock = self._ready(call), _Clock(self._timeout)
            value = ready() if self._timeout is None else self._finished(_in_thread(ready), clock, call)
            if _is_async(value):
                waiting = self._resolved(value, clock, call)
                running = asyncio.run_coroutine_threadsafe(waiting, self._own_loop())
                value = self._finished(running, clock, call, _GRACE)
            return CallResult(call, value)
        except Exception as error:  # noqa: BLE001 — a tool is the user's code
            return self._failed(call, error)

    async def _result_of(self, call: ToolCall) -> CallResult:
        """Run one call in this event loop and await its result."""
        try:
            ready, clock = self._ready(call), _Clock(self._timeout)
            value = ready() if self._is_async(call) else asyncio.wrap_future(_in_thread(ready))
            return CallResult(call, await self._resolved(value, clock, call))
        except Exception as error:  # noqa: BLE001 — a tool is the user's code
            return self._failed(call, error)

    def _collected(self, running: Future[CallResult], clock: _Clock, call: ToolCall) -> CallResult:
        """Return the result of a call that was started in the private event loop."""
        try:
            found: CallResult = self._finished(running, clock, call)
            return found
        except Exception as error:  # noqa: BLE001 — a tool is the user's code
            return self._failed(call, error)

    def _ready(self, call: ToolCall) -> Callable[[], Any]:
        """Return the call with validated arguments. Raises `OutputInvalid` if they are refused."""
        ready, execute = self._tools[call.name].validate(call.arguments), self._execute

        def make() -> Any:
            try:
                if callable(ready):
                    return _listed(ready())
                assert execute is not None
                return _listed(execute(call))
            except StopIteration as error:
                # subtle: a StopIteration would end the loop's own generator, and futures do not accept one.
                raise RuntimeError("the tool raised StopIteration") from error

        return make

    def _is_async(self, call: ToolCall) -> bool:
        function: Any = self._tools[call.name].function or self._execute
        forms = (function, getattr(type(function), "__call__", None))  # noqa: B004  # an object may have an async one
        return any(inspect.iscoroutinefunction(form) or inspect.isasyncgenfunction(form) for form in forms)

    def _failed(self, call: ToolCall, error: Exception) -> CallResult:
        if self._on_error == "raise":
            raise error
        return CallResult(call, error=error)

    def _late(self, call: ToolCall) -> ToolTimeout:
        return ToolTimeout(
            f"{call.name} gave no result within {self._timeout:g} seconds",
            hint="Raise timeout=, or make the tool faster. A tool that is not async goes on in its thread.",
        )

    def _finished(self, running: Future[Any], clock: _Clock, call: ToolCall, grace: float = 0.0) -> Any:
        """Return the result from another thread. Raises `ToolTimeout`."""
        left = clock.left()
        wait([running], None if left is None else left + grace)
        if not running.done():
            raise self._late(call)
        return running.result()

    async def _resolved(self, value: Any, clock: _Clock, call: ToolCall) -> Any:
        """Return the result of an awaitable. Raises `ToolTimeout`."""
        while _is_async(value):
            value = await self._awaited(value, clock, call)
            if inspect.isgenerator(value):
                value = asyncio.wrap_future(_in_thread(functools.partial(_listed, value)))
        if clock.left() == 0:  # it blocked the event loop, or ignored its cancellation
            raise self._late(call)
        return value

    async def _awaited(self, value: Any, clock: _Clock, call: ToolCall) -> Any:
        """Return the result of an async call. Raises `ToolTimeout`."""
        try:
            async with asyncio.timeout(clock.left()) as limit:
                return [item async for item in _first(value)] if inspect.isasyncgen(value) else await value
        except TimeoutError:
            if limit.expired():  # otherwise it is the tool's own error
                raise self._late(call) from None
            raise

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run_loop, args=(self._loop,), name="structgen-tools", daemon=True
            )
            self._thread.start()
        return self._loop


class _Clock:
    """The time that remains to a call; None is any time."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def _or_forever(left: float | None) -> float:
    return math.inf if left is None else left


def _in_thread(ready: Callable[[], Any]) -> Future[Any]:
    """Start a call in a daemon thread."""
    running: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            running.set_result(context.run(ready))
        except BaseException as error:  # noqa: BLE001 — the caller, on another thread, gets it
            running.set_exception(error)

    running.set_running_or_notify_cancel()
    threading.Thread(target=work, name="structgen-tool", daemon=True).start()
    return running


def _is_async(value: Any) -> bool:
    return inspect.isawaitable(value) or inspect.isasyncgen(value)


def _listed(value: Any) -> Any:
    """Return the list of a generator's items; other values unchanged."""
    return list(itertools.islice(value, _MOST_ITEMS)) if inspect.isgenerator(value) else value


async def _first(items: AsyncIterator[Any]) -> AsyncIterator[Any]:
    count = 0
    async for item in items:
        yield item
        count += 1
        if count >= _MOST_ITEMS:
            return


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel its remaining tasks."""
    try:
        is_stopped = False
        while not is_stopped:
            try:
                loop.run_forever()
                is_stopped = True
            except (SystemExit, KeyboardInterrupt):
                # subtle: asyncio raises these out of the loop. The caller, who waits for the tool, gets
                # them only if the loop continues.
                pass
        loop.run_until_complete(_end_tasks())
    finally:
        loop.close()


async def _end_tasks() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _message(error: Exception, call: ToolCall) -> str:
    """Return the message of an error for the model, without hints for programmers."""
    if isinstance(error, ToolTimeout):
        return error.message
    if isinstance(error, OutputInvalid):
        cause = error.__cause__
        if isinstance(cause, ValidationError):
            problems = [
                f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
                for problem in cause.errors()
            ]
            return f"invalid arguments for {call.name}: {'; '.join(problems[:5])}"
        return error.message
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 — its text is the tool's own code
        return type(error).__name__
