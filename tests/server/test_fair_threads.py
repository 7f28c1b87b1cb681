"""Threads serve clients in turn, and keep nothing of those that have disconnected."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from structgen.server.errors import ShuttingDown
from structgen.server.fair_threads import FairThreads
from tests.unhurried import HANG_SECONDS


class Held:
    """What the work of a request refers to."""


class Busy:
    """The only thread is busy until `release` is called."""

    def __init__(self) -> None:
        self.threads = FairThreads(1, "busy")
        self._released, self._started = threading.Event(), threading.Event()

    async def __aenter__(self) -> Busy:
        self._running = asyncio.ensure_future(self.threads.run("first", self._work))
        await asyncio.to_thread(self._started.wait, HANG_SECONDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()
        await self._running
        self.threads.close()

    def release(self) -> None:
        self._released.set()

    def _work(self) -> None:
        self._started.set()
        assert self._released.wait(HANG_SECONDS)


def test_cancelled_work_leaves_the_queue_and_is_forgotten() -> None:
    async def run() -> None:
        async with Busy() as busy:
            held = [Held() for _ in range(50)]
            called: list[Any] = []

            def work(mine: Held) -> Callable[[], None]:
                return lambda: called.append(mine)

            waiting = [asyncio.ensure_future(busy.threads.run("a", work(one))) for one in held]
            last = asyncio.ensure_future(busy.threads.run("a", lambda: "last"))
            await asyncio.sleep(0)
            assert len(busy.threads) == 51
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert len(busy.threads) == 1
            alive = [weakref.ref(one) for one in held]
            del held, waiting, task
            gc.collect()
            assert not any(one() for one in alive), "the thread is still busy"
            busy.release()
            assert await last == "last" and not called

    asyncio.run(run())


def test_who_cancels_is_not_charged() -> None:
    async def run() -> list[str]:
        order: list[str] = []
        async with Busy() as busy:
            gone = [asyncio.ensure_future(busy.threads.run("a", lambda: None, 1000.0)) for _ in range(5)]
            await asyncio.sleep(0)
            for task in gone:
                task.cancel()
            await asyncio.wait(gone)
            names = ["b", "a", "b", "a"]
            stay = [
                asyncio.ensure_future(busy.threads.run(name, lambda name=name: order.append(name)))
                for name in names
            ]
            await asyncio.sleep(0)
            busy.release()
            await asyncio.gather(*stay)
        return order

    assert asyncio.run(run()) == ["b", "a", "b", "a"]


def test_clients_take_turns() -> None:
    async def run() -> list[str]:
        order: list[str] = []
        async with Busy() as busy:
            sent = ["greedy"] * 6 + ["modest"]
            tasks = [
                asyncio.ensure_future(busy.threads.run(name, lambda name=name: order.append(name)))
                for name in sent
            ]
            await asyncio.sleep(0)
            busy.release()
            await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()).index("modest") == 1


def test_as_many_threads_as_there_is_work_up_to_the_limit() -> None:
    threads = FairThreads(3, "several")
    meeting = threading.Barrier(3)
    names: set[int] = set()

    def meet() -> None:
        names.add(threading.get_ident())
        meeting.wait(HANG_SECONDS)

    async def run() -> None:
        for _ in range(4):
            await asyncio.gather(*(threads.run("a", meet) for _ in range(3)))

    asyncio.run(run())
    assert len(names) == 3
    threads.close()


def test_errors_reach_the_caller_and_the_thread_goes_on() -> None:
    threads = FairThreads(1, "failing")

    def fail() -> None:
        raise KeyError("no")

    async def run() -> int:
        for _ in range(3):
            with pytest.raises(KeyError):
                await threads.run("a", fail)
        return await threads.run("a", lambda: 5)

    assert asyncio.run(run()) == 5
    threads.close()


def test_results_are_held_by_the_caller_alone() -> None:
    """A row holds a matcher process, which must end with the request and not with the next garbage collection."""
    threads = FairThreads(1, "rows")

    async def run() -> None:
        for _ in range(3):
            made = await threads.run("a", Held)
            alive = weakref.ref(made)
            del made
            await threads.run("a", lambda: None)  # the thread has forgotten the work before
            await asyncio.sleep(0)
            assert alive() is None

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()
    threads.close()


def test_closing_cancels_what_waits_and_refuses_more() -> None:
    async def run() -> None:
        async with Busy() as busy:
            waiting = [asyncio.ensure_future(busy.threads.run("a", lambda: None)) for _ in range(3)]
            await asyncio.sleep(0)
            busy.threads.close()
            await asyncio.wait(waiting)
            assert all(task.cancelled() for task in waiting)
            with pytest.raises(ShuttingDown):
                await busy.threads.run("a", lambda: None)

    asyncio.run(run())


def test_work_fails_if_the_system_has_no_thread_and_the_next_work_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        threads = FairThreads(1, "none")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _fails)
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.run("a", lambda: 1)
        assert len(threads) == 0
        assert await asyncio.wait_for(threads.run("a", lambda: 2), HANG_SECONDS) == 2
        threads.close()

    asyncio.run(run())


def _fails(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
