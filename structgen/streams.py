"""Answers during generation: partial values, finished items, and which parts are finished.

Why: an interface shows a form while the model fills it in, and a pipeline starts with the first item of a list.
What: `Stream` iterates over partial values, `ItemStream` over validated items; `AsyncStream` wraps either for
``async for``. All report which parts are finished (`is_complete`), and have the `Result` at the end.
Invariant: the last value of a `Stream` is the validated one. Every yielded item is in the answer.
Cost: closing or dropping a stream stops the generation.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from structgen.errors import ConcurrentUse, GenerationError, OptionError
from structgen.results import Result
from structgen.types import OutputType
from structgen.types.output import validation_error

__all__ = ["AsyncStream", "ItemStream", "Stream"]

T = TypeVar("T")
Path = str | Sequence[str | int]
_END = object()


class _Growing(Iterator[T]):
    """The common part of streams: steps of a generation, and an incremental parser of its text."""

    _growing: Any
    _values: Iterator[T]

    def __init__(self, kind: OutputType, steps: Iterator[Any]) -> None:
        self._kind = kind
        self._steps = steps
        self.text = ""
        """The text so far."""
        self.result: Result[Any] | None = None
        """The `Result`, once the answer has ended."""

    def __next__(self) -> T:
        try:
            return next(self._values)
        except BaseException:
            self.close()
            raise

    def is_complete(self, path: Path = ()) -> bool:
        """Return whether the part at `path` is finished, so that no further text changes it.

        Args:
            path: Field names, keys and indices: ``"items.0.name"`` or ``("items", 0, "name")``; empty for the whole.
        """
        return bool(self._growing.is_complete(path))

    def close(self) -> None:
        """Stop the generation."""
        for running in (self._values, self._steps):
            close = getattr(running, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _ended(self, step: Any) -> Result[Any] | None:
        """Take one step; return the result if it is the last."""
        self.text = step.text
        if step.generation is not None:
            self.result = Result[Any](self._kind, step.generation)
        return self.result


class Stream(_Growing[T]):
    """Partial values of one answer, each different from the one before; the last one is whole and validated.

    Iterating raises what `structgen.generate` raises, after the last partial value.
    """

    def __init__(self, kind: OutputType, steps: Iterator[Any]) -> None:
        super().__init__(kind, steps)
        self._growing = kind.growing()
        self._values = self._partial_values()

    def _partial_values(self) -> Iterator[T]:
        last: Any = None
        for step in self._steps:
            result = self._ended(step)
            if result is not None and result.error is None:
                self._growing(step.text, whole=True)
                yield result.value
                return
            partial = self._growing(step.text)
            if partial is not None and not _same(partial, last):
                last = partial
                yield partial
            if result is not None and result.error is not None:
                raise result.error


class ItemStream(_Growing[T]):
    """The items of a list in the answer, each as soon as it is finished and validated.

    Iterating raises `OutputInvalid` at an item that a validator refuses (after the last attempt, if ``attempts`` allows
    several), and after the last item what `structgen.generate` raises.
    """

    def __init__(
        self, kind: OutputType, steps: Iterator[Any], path: Path = (), is_last_attempt: bool = True
    ) -> None:
        super().__init__(kind, steps)
        self._path = tuple(map(str, path.split(".") if isinstance(path, str) and path else path))
        self._is_last_attempt = is_last_attempt
        self._found: list[tuple[int, Any, Exception | None]] = []
        self._growing = kind.growing_items and kind.growing_items(self._path, self._on_item)
        if self._growing is None or not self._growing.holds_array(self._path):
            where = f" at {'.'.join(self._path)!r}" if self._path else ""
            arrays = [] if self._growing is None else self._growing.arrays()
            raise OptionError(
                f"{kind.name} has no list{where}, so there are no items to stream",
                hint=f"Lists are at {', '.join(arrays)}."
                if arrays
                else "Give a list type such as list[Person].",
            )
        self._values = self._items()

    def _on_item(self, index: int, value: Any, error: Exception | None) -> None:
        self._found.append((index, value, error))

    def _items(self) -> Iterator[T]:
        given: list[Any] = []
        refused: Exception | None = None
        for step in self._steps:
            result = self._ended(step)
            self._growing(step.text, whole=result is not None and result.finish == "complete")
            found, self._found = self._found, []
            for index, value, error in found:
                refused = None if index == 0 else refused  # another attempt
                if error is not None and refused is None:
                    refused = validation_error(f"item {index} of {self._kind.name}", self.text, error)
                    if self._is_last_attempt:
                        raise refused from error
                if refused is not None:
                    continue
                if index < len(given):  # the generation stepped back and wrote the item again
                    if _same(given[index], value):
                        continue
                    raise GenerationError(
                        f"item {index} was yielded, and then the answer was written again with another one",
                        hint="Use stream() or generate(), which wait for the whole answer.",
                        text=step.text,
                    )
                given.append(value)
                yield value
            if result is not None and result.error is not None:
                raise result.error


class AsyncStream(AsyncIterator[T], Generic[T]):
    """A stream for ``async for``; the model runs in a thread, and stops when the stream is closed or cancelled."""

    def __init__(self, open_stream: Callable[[Callable[[], bool]], Any]) -> None:
        self._stop = threading.Event()
        self._open = open_stream
        self._stream: Any = None
        self._running: asyncio.Future[Any] | None = None

    async def __anext__(self) -> T:
        if self._running is not None and not self._running.done():
            raise ConcurrentUse(
                "the stream is already waiting for its next value",
                hint="Iterate over it in one task at a time.",
            )
        if self._stop.is_set():
            raise StopAsyncIteration
        self._running = asyncio.ensure_future(asyncio.to_thread(self._next))
        value: Any = _END
        try:
            # subtle: a cancelled task leaves its thread running; `aclose` waits for it before it closes the stream.
            value = await asyncio.shield(self._running)
        finally:
            if value is _END:
                self._stop.set()
                self._running.add_done_callback(_ignore)
        if value is _END:
            raise StopAsyncIteration
        result: T = value
        return result

    def _next(self) -> Any:
        if self._stream is None:  # encoding the prompt and compiling the constraint take time, too
            self._stream = self._open(self._stop.is_set)
        return next(self._stream, _END)

    @property
    def text(self) -> str:
        """The text so far."""
        return "" if self._stream is None else str(self._stream.text)

    @property
    def result(self) -> Result[Any] | None:
        """The `Result`, once the answer has ended."""
        return None if self._stream is None else self._stream.result

    def is_complete(self, path: Path = ()) -> bool:
        """Return whether the part at `path` is finished, as `Stream.is_complete` does."""
        return self._stream is not None and bool(self._stream.is_complete(path))

    async def aclose(self) -> None:
        """Stop the generation."""
        self._stop.set()
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._stream is not None:
            await asyncio.to_thread(self._stream.close)

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._stop.set()


def _ignore(ended: asyncio.Future[Any]) -> None:
    """Retrieve the error of a step that no one waits for any more."""
    if not ended.cancelled():
        ended.exception()


def _same(left: Any, right: Any) -> bool:
    try:
        return type(left) is type(right) and bool(left == right)
    except Exception:  # noqa: BLE001 — the comparison is the user's code, and a partial object lacks fields
        return False
