"""Requests wait until a matcher process is free, in fair order, and up to their deadline."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from structgen.server.process_queue import ProcessQueue
from structgen.server.settings import ServerSettings
from structgen.serving import isolating_compiler
from structgen.serving.limits import RequestLimits
from tests.unhurried import HANG_SECONDS

from .calls import chat, post
from .conftest import KEY, NAME, Running, until


class Pool:
    """Matcher processes that start when a request has its turn."""

    def __init__(self, most: int) -> None:
        self.most, self.running = most, 0
        self.queue = ProcessQueue(lambda: self.most - self.running)
        self.order: list[str] = []

    async def request(self, client: str) -> None:
        """Wait for a turn, and start a process."""
        with self.queue.place(client) as place:
            await place.turn(HANG_SECONDS)
            assert self.running < self.most  # every request sees the processes of those before it
            self.order.append(client)
            self.running += 1
            self.queue.on_start()
            await asyncio.sleep(0)

    def end(self) -> None:
        """End a process."""
        self.running -= 1
        self.queue.on_end()


async def settled() -> None:
    """Let all tasks and callbacks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_turns_alternate_between_clients() -> None:
    async def run() -> None:
        pool = Pool(0)
        waiting = [asyncio.ensure_future(pool.request("greedy")) for _ in range(20)]
        await settled()
        waiting += [asyncio.ensure_future(pool.request("modest")) for _ in range(2)]
        await settled()
        assert not pool.order and len(pool.queue) == 22
        pool.most = 1
        pool.queue.on_end()
        for _ in range(22):
            await settled()
            assert pool.running == 1
            pool.end()
        await asyncio.gather(*waiting)
        assert not len(pool.queue)
        assert pool.order.index("modest") <= 2 and pool.order[:5].count("modest") == 2

    asyncio.run(run())


def test_all_free_processes_are_given_at_once() -> None:
    async def run() -> None:
        pool = Pool(0)
        waiting = [asyncio.ensure_future(pool.request("a")) for _ in range(60)]
        await settled()
        pool.most = 50
        pool.queue.on_end()
        await settled()
        assert pool.running == 50 and len(pool.queue) == 10
        for _ in range(10):
            pool.end()
        await asyncio.gather(*waiting)

    asyncio.run(run())


def test_a_client_is_not_charged_for_requests_that_hung_up() -> None:
    async def run() -> None:
        pool = Pool(0)
        waiting = [asyncio.ensure_future(pool.request("a")) for _ in range(16)]
        await settled()
        gone = [asyncio.ensure_future(pool.request("b")) for _ in range(20_000)]
        await settled()
        for one in gone:
            one.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        assert len(pool.queue) == 16 and len(pool.queue._queue._waiting) == 1
        waiting.append(asyncio.ensure_future(pool.request("b")))
        await settled()
        pool.most = 17
        pool.queue.on_end()
        await asyncio.gather(*waiting)
        assert pool.order.index("b") <= 1

    asyncio.run(run())


def test_a_request_that_hangs_up_at_its_turn_passes_it_on() -> None:
    async def run() -> None:
        pool = Pool(0)
        first, second = (asyncio.ensure_future(pool.request(client)) for client in "ab")
        await settled()
        pool.most = 1
        pool.queue._serve()
        first.cancel()
        await settled()
        assert pool.order == ["b"] and first.cancelled() and second.done()
        assert not pool.queue._turns

    asyncio.run(run())


def test_a_turn_in_vain_keeps_its_place() -> None:
    async def run() -> None:
        pool = Pool(0)

        async def unlucky() -> None:
            with pool.queue.place("a") as place:
                await place.turn(HANG_SECONDS)
                pool.running += 1  # another text takes the process
                await place.turn(HANG_SECONDS)
                pool.order.append("unlucky")

        waiting = [asyncio.ensure_future(unlucky())]
        await settled()
        waiting += [asyncio.ensure_future(pool.request(client)) for client in "abab"]
        await settled()
        pool.most = 1
        pool.queue.on_end()
        await settled()
        assert not pool.order and len(pool.queue) == 5
        pool.most = 9
        pool.queue.on_end()
        await asyncio.gather(*waiting)
        assert pool.order[0] == "unlucky" and pool.order[1] == "b"

    asyncio.run(run())


def test_a_request_leaves_the_queue_at_its_deadline_and_with_its_client() -> None:
    async def run() -> None:
        queue = ProcessQueue(lambda: 0)
        with queue.place("a") as place, pytest.raises(TimeoutError):
            await place.turn(0.01)
        assert not len(queue) and not queue._queue._ends

    asyncio.run(run())


@pytest.fixture
def isolating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each constraint a matcher process."""
    monkeypatch.setattr(isolating_compiler, "_BUILD_SECONDS", -1.0)


def running_server(model: Any, queue_seconds: float, **limits: Any) -> Running:
    settings = ServerSettings(
        model_name=NAME,
        api_keys=(KEY,),
        compilers=1,
        samplers=0,
        request_seconds=HANG_SECONDS,
        queue_seconds=queue_seconds,
        limits=RequestLimits(whitespace="json.dumps", **limits),
    )
    return Running(model, settings)


@pytest.mark.usefixtures("isolating")
def test_requests_wait_until_a_matcher_process_is_free(model: Any) -> None:
    server = running_server(model, 0.7 * HANG_SECONDS, max_matcher_processes=2)
    try:
        found: list[tuple[int, Any]] = []
        threads = [
            threading.Thread(
                target=lambda letter=letter: found.append(
                    post(server, chat(guided_regex=f"{letter}{{8}}", max_tokens=20))
                )
            )
            for letter in "abcdef"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert [status for status, _ in found] == [200] * 6, found
        texts = {body["choices"][0]["message"]["content"] for _, body in found}
        assert texts == {letter * 8 for letter in "abcdef"}
        processes = server.service.compiler.matcher_processes
        assert processes is not None and processes.starts == 6
        until(lambda: processes.running == 0)
        assert not len(server.service.rows.process_queue)
    finally:
        server.stop()


@pytest.mark.usefixtures("isolating")
def test_a_request_that_waited_in_vain_gets_503_and_when_to_try_again(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = running_server(model, 0.7 * HANG_SECONDS, max_matcher_processes=1)
    try:
        assert post(server, chat(guided_regex="b{8}"))[0] == 200  # it is compiled then
        processes = server.service.compiler.matcher_processes
        until(lambda: processes is not None and processes.running == 0)
        long = chat(guided_regex="[a-z ]{12000}", max_tokens=3000, stream=True)
        request = urllib.request.Request(
            f"{server.url}/v1/chat/completions",
            json.dumps(long).encode(),
            {"Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as stream:
            stream.readline()
            settings = dataclasses.replace(server.service.settings, queue_seconds=0.3)
            monkeypatch.setattr(server.service.rows, "_settings", settings)
            request.data = json.dumps(chat(guided_regex="b{8}")).encode()
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=HANG_SECONDS)
            with caught.value as refused:
                assert refused.code == 503 and refused.headers["Retry-After"]
                error = json.loads(refused.read())["error"]
        assert error["code"] == "max_matcher_processes" and error["type"] == "unavailable_error"
        until(lambda: server.service.open == 0 and not len(server.service.rows.process_queue))
    finally:
        server.stop()


def test_the_queue_ends_before_the_request() -> None:
    assert ServerSettings().queue_seconds < ServerSettings().request_seconds
    assert ServerSettings(request_seconds=50).queue_seconds == 40
    assert ServerSettings(request_seconds=50, queue_seconds=10).queue_seconds == 10
