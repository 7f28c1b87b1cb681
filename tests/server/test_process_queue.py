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


def test_turns_alternate_between_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structgen.server.process_queue._POLL_SECONDS", 0.001)
    order: list[str] = []

    async def run() -> None:
        is_free = False
        queue = ProcessQueue(lambda: is_free)

        async def request(client: str) -> None:
            await queue.turn(client, HANG_SECONDS)
            order.append(client)

        waiting = [asyncio.ensure_future(request("greedy")) for _ in range(20)]
        await asyncio.sleep(0)
        waiting += [asyncio.ensure_future(request("modest")) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not order and len(queue) == 22
        is_free = True
        await asyncio.gather(*waiting)
        assert not len(queue)

    asyncio.run(run())
    assert order.index("modest") <= 2 and order[:5].count("modest") == 2


def test_a_request_leaves_the_queue_at_its_deadline_and_with_its_client() -> None:
    async def run() -> None:
        queue = ProcessQueue(lambda: False)
        with pytest.raises(TimeoutError):
            await queue.turn("a", 0.01)
        waiting = asyncio.ensure_future(queue.turn("a", HANG_SECONDS))
        await asyncio.sleep(0)
        assert len(queue) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not len(queue)
        assert queue._serving is not None
        await queue._serving  # it ends with the last request
        assert not queue._queue

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
        assert not len(server.service.process_queue)
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
            monkeypatch.setattr(server.service, "settings", settings)
            request.data = json.dumps(chat(guided_regex="b{8}")).encode()
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=HANG_SECONDS)
            with caught.value as refused:
                assert refused.code == 503 and refused.headers["Retry-After"]
                error = json.loads(refused.read())["error"]
        assert error["code"] == "max_matcher_processes" and error["type"] == "unavailable_error"
        until(lambda: server.service.open == 0 and not len(server.service.process_queue))
    finally:
        server.stop()


def test_the_queue_ends_before_the_request() -> None:
    assert ServerSettings().queue_seconds < ServerSettings().request_seconds
    assert ServerSettings(request_seconds=50).queue_seconds == 40
    assert ServerSettings(request_seconds=50, queue_seconds=10).queue_seconds == 10
