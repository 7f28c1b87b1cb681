"""Several calls of one turn: which run concurrently, and what happens to the others when one fails or hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from structgen.errors import OptionError, Truncated
from structgen.tools import Conversation, run_tools, run_tools_async

from .scripted import call, run_once, scripted


def both(text: str, tools: list[Any], **options: Any) -> Iterator[Conversation]:
    yield run_tools(scripted(text, "Done."), "Go.", tools, **options)
    yield asyncio.run(run_tools_async(scripted(text, "Done."), "Go.", tools, **options))


class Meeting:
    """Async calls that end only when all of them have started, and plain calls that note when they ran."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.arrived = 0
        self.events: list[str] = []

    async def meet(self, n: int) -> int:
        self.arrived += 1
        self.events.append(f"meet {n}")
        while self.arrived < self.size:
            await asyncio.sleep(0.001)
        return n

    def note(self, n: int) -> int:
        self.events.append(f"note {n}")
        return -n


def turn(*names: str) -> str:
    return "\n".join(call(name, n=place) for place, name in enumerate(names))


@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("mode", [0, 1])
def test_async_calls_of_a_turn_overlap_and_results_keep_their_order(timeout: float | None, mode: int) -> None:
    meeting = Meeting(3)
    text, tools = turn("note", "meet", "meet", "note", "meet"), [meeting.meet, meeting.note]
    if mode == 0:
        done = run_tools(scripted(text, "Done."), "Go.", tools, timeout=timeout)
    else:
        done = asyncio.run(run_tools_async(scripted(text, "Done."), "Go.", tools, timeout=timeout))
    assert [one.value for one in done.results] == [0, 1, 2, -3, 4]
    assert [one for one in meeting.events if one.startswith("note")] == ["note 0", "note 3"]


def test_calls_with_an_order_run_one_after_another() -> None:
    events: list[str] = []

    async def first() -> None:
        await asyncio.sleep(0.02)
        events.append("first")

    async def second() -> None:
        events.append("second")

    text = f"{call('first')}\n{call('second')}"
    for done in both(text, [first, second], order="!second W first"):
        assert len(done.results) == 2
    assert events == ["first", "second"] * 2


def test_a_failed_call_does_not_keep_the_others() -> None:
    async def fails(n: int) -> None:
        raise ValueError(n)

    async def works(n: int) -> int:
        await asyncio.sleep(0)
        return n

    for done in both(turn("fails", "works", "fails", "works"), [fails, works]):
        assert [one.content for one in done.results] == [
            '{"error": "ValueError: 0"}', "1", '{"error": "ValueError: 2"}', "3",
        ]  # fmt: skip


def test_raising_cancels_the_calls_that_still_run() -> None:
    cancelled = threading.Event()

    async def waits(n: int) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fails(n: int) -> None:
        await asyncio.sleep(0.01)
        raise ValueError(n)

    for _ in range(2):
        with pytest.raises(ValueError, match="0"):
            for _ in both(turn("fails", "waits"), [waits, fails], on_error="raise"):
                pass
        assert cancelled.wait(5)
        cancelled.clear()


def test_each_call_has_its_own_time() -> None:
    async def slow(n: int) -> None:
        await asyncio.sleep(60)

    async def quick(n: int) -> int:
        return n

    for done in both(turn("slow", "quick", "slow"), [slow, quick], timeout=0.05):
        assert [one.error is None for one in done.results] == [False, True, False]
        assert "within 0.05 seconds" in done.results[2].content


# -- what async tools may do


async def gives_a_coroutine() -> Awaitable[int]:
    async def inner() -> int:
        return 5

    return inner()


async def gives_a_generator() -> Iterator[int]:
    return iter_slowly(3, 0.0)


def iter_slowly(count: int, pause: float = 0.02) -> Iterator[int]:
    """Give numbers slowly."""
    for number in range(count):
        time.sleep(pause)
        yield number


@pytest.mark.parametrize(("tool", "content"), [(gives_a_coroutine, "5"), (gives_a_generator, "[0, 1, 2]")])
def test_the_result_of_an_async_tool_is_awaited(tool: Callable[[], Any], content: str) -> None:
    assert run_once(tool, call(tool.__name__)).content == content


def test_the_time_of_a_generator_counts() -> None:
    found = run_once(iter_slowly, call("iter_slowly", count=1000), timeout=0.1)
    assert "iter_slowly gave no result within 0.1 seconds" in found.content


def test_a_tool_that_ignores_its_cancellation_times_out() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "too late"
        return "never"

    found = run_once(stubborn, call("stubborn"), timeout=0.05)
    assert "within 0.05 seconds" in found.content


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("several", [False, True])
def test_an_async_tool_that_ends_the_program_ends_it(kind: type[BaseException], several: bool) -> None:
    async def leave(n: int) -> None:
        raise kind

    async def stay(n: int) -> None:
        await asyncio.sleep(60)

    text = turn("stay", "leave") if several else turn("leave")
    with pytest.raises(kind):
        run_tools(scripted(text, "Done."), "Go.", [leave, stay])


def test_a_turn_that_fails_does_not_lose_the_calls_before_it() -> None:
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    long = "x" * 900
    for use in (run_tools, lambda *given, **more: asyncio.run(run_tools_async(*given, **more))):
        with pytest.raises(Truncated) as caught:
            use(scripted(turn("pay"), long), "Go.", [pay], max_tokens=100)
        so_far = caught.value.partial
        assert isinstance(so_far, Conversation) and [one.value for one in so_far.results] == ["paid"]
        assert so_far.messages[-1]["content"] == "<tool_response>\npaid\n</tool_response>"


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, threading.TIMEOUT_MAX])
def test_a_time_that_never_ends(timeout: float) -> None:
    async def quick() -> int:
        return 3

    def plain() -> int:
        return 3

    for tool in (quick, plain):
        assert run_once(tool, call(tool.__name__), timeout=timeout).content == "3"
    with pytest.raises(OptionError, match="describe is 'x'"):
        run_tools(scripted("Done."), "Go.", [quick], describe="x")  # type: ignore[arg-type]
