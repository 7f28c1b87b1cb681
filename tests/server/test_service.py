"""The service: many requests at once, clients that disconnect, full queues, and draining."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from structgen.server.settings import ServerSettings
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.serving.limits import RequestLimits
from structgen.serving.probe import ProbeResult, probe_compile
from structgen.serving.probes import ProbeFuture
from structgen.serving.requests import constraint_of
from tests.unhurried import HANG_SECONDS

from ..serving.specs import SLOW
from .calls import PERSON, as_schema, ask, chat, post
from .conftest import NAME, Running, fetched, until


def test_mixed_constraints_at_once(server: Running) -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"response_format": as_schema(PERSON)}, lambda text: jsonschema.validate(json.loads(text), PERSON)),
        (
            {"extra": {"structured_outputs": {"regex": "[a-f]{3,9}"}}},
            lambda text: re.fullmatch("[a-f]{3,9}", text),
        ),
        (
            {"extra": {"structured_outputs": {"choice": ["red", "blue"]}}},
            lambda text: text in ("red", "blue"),
        ),
        ({"max_tokens": 5}, lambda text: len(text) > 0),
        ({"response_format": as_schema({"type": "boolean"})}, lambda text: text in ("true", "false")),
    ]

    for options, _ in cases:  # each is compiled then, so that all of them come at once
        with server.client() as one:
            ask(one, **{**options, "max_tokens": 40})

    async def all_of_them() -> list[Any]:
        chosen = [cases[number % len(cases)] for number in range(20)]
        async with server.async_client() as client:
            return await asyncio.gather(
                *(ask(client, seed=i, **options) for i, (options, _) in enumerate(chosen))
            )

    engine = server.service.model_thread
    before = engine.batch.counts
    passes, rows = before.passes, before.rows
    holding = threading.Thread(
        target=engine.call, args=(lambda: until(lambda: len(engine._submitted) == 20),)
    )
    holding.start()
    answers = asyncio.run(all_of_them())
    holding.join()
    for number, answer in enumerate(answers):
        text = answer.choices[0].message.content
        check = cases[number % len(cases)][1]
        assert answer.choices[0].finish_reason in ("stop", "length")
        if answer.choices[0].finish_reason == "stop":
            assert check(text) in (None, True) or check(text)
    after = server.service.model_thread.batch.counts
    assert after.rows - rows > 1.5 * (after.passes - passes), "they were not drawn side by side"


def test_a_client_that_disconnects_frees_its_rows(server: Running) -> None:
    service = server.service

    async def hang_up(stream: bool) -> None:
        client = server.async_client()
        asked = asyncio.ensure_future(ask(client, "A long story.", max_tokens=2000, stream=stream))
        if stream:
            parts = await asked
            async for _ in parts:
                break
            await parts.close()
        else:
            while not service.model_thread.batch.running:
                await asyncio.sleep(0.02)
            asked.cancel()
        await client.close()

    for stream in (False, True):
        asyncio.run(hang_up(stream))
        until(lambda: service.open == 0 and service.model_thread.batch.is_idle)


def test_a_client_that_disconnects_does_not_keep_a_matcher_process(
    server: Running, monkeypatch: pytest.MonkeyPatch, stopped_processes: list[int]
) -> None:
    processes = server.service.compiler.matcher_processes
    assert processes is not None
    pickled = pickle.dumps(constraint_of("grammar", SLOW))
    found: ProbeFuture[Any] = ProbeFuture()
    found.set_result(IsolatableConstraint("grammar", b"", pickled, processes, None))
    monkeypatch.setattr(server.service.compiler, "submit", lambda kind, spec, client: found)

    async def hang_up() -> None:
        client = server.async_client()
        asked = asyncio.ensure_future(ask(client, extra={"structured_outputs": {"grammar": "any"}}))
        while not stopped_processes and not asked.done():
            await asyncio.sleep(0.02)
        assert not asked.done()
        asked.cancel()
        await client.close()

    asyncio.run(hang_up())
    until(lambda: server.service.open == 0 and processes.running == 0)


def test_a_budget_that_no_text_fits(server: Running) -> None:
    schema = {"const": "a long text that takes more than four tokens to write down"}
    status, body = post(server, chat(structured_outputs={"json": schema}))
    assert status == 400 and "max_tokens" in body["error"]["message"]


@pytest.fixture
def small(model: Any) -> Iterator[Running]:
    settings = ServerSettings(
        model_name=NAME, max_queue=1, max_rows=2, compilers=0, request_seconds=HANG_SECONDS, max_tokens=3000
    )
    running = Running(model, settings)
    yield running
    running.stop()


def test_queue_time_and_draining(small: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    long = chat(max_tokens=3000, guided_regex="[a-z ]{12000}", temperature=0)
    data = json.dumps(long).encode()
    with socket.create_connection(("127.0.0.1", small.port)) as door:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        door.sendall(head.encode() + data)
        until(lambda: small.service.model_thread.batch.running)
        status, answer = post(small, chat())
        assert status == 429 and answer["error"]["type"] == "rate_limit_error"
    until(lambda: small.service.open == 0)
    monkeypatch.setattr(small.service, "settings", replace(small.service.settings, request_seconds=0.5))
    status, answer = post(small, long)
    assert status == 504 and answer["error"]["type"] == "timeout_error"
    until(lambda: small.service.open == 0 and small.service.model_thread.batch.is_idle)
    small.service.is_draining = True
    status, body = post(small, chat())
    assert status == 503 and body["error"]["code"] == "draining"
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetched(f"{small.url}/health")
    with caught.value:
        assert caught.value.code == 503


def test_the_failure_of_a_model_is_reported(small: Running) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no memory left")

    small.service.model_thread.batch._model = type("Broken", (), {"start": broken})()
    status, body = post(small, chat())
    assert status == 500 and "no memory left" in body["error"]["message"]
    assert json.loads(fetched(f"{small.url}/health"))["status"] == "ok"


def test_a_full_queue_of_constraints_answers_to_try_again_later(model: Any) -> None:
    import threading

    settings = ServerSettings(model_name=NAME, limits=RequestLimits(max_pending=1, compile_seconds=20.0))
    running = Running(model, settings)
    try:
        running.service.compiler.wait_until_ready()
        until(lambda: all(one.worker_pid for one in running.service.compiler.processes))
        for one in running.service.compiler.processes:
            os.kill(one.worker_pid, signal.SIGSTOP)
        thread = threading.Thread(target=lambda: post(running, chat(guided_regex="b")))
        thread.start()
        until(lambda: running.service.compiler.stats.misses == 1)
        status, body = post(running, chat(guided_regex="a"))
        assert status == 429 and body["error"]["code"] == "max_pending"
        assert body["error"]["type"] == "rate_limit_error"
        running.service.compiler.close()
        thread.join(HANG_SECONDS)
        status, body = post(running, chat(guided_regex="a"))
        assert status == 503 and body["error"]["code"] == "closed"
    finally:
        running.stop()


def test_without_compilers_a_probe_does_not_block_the_event_loop(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_started, may_run = threading.Event(), threading.Event()

    def waits(*given: Any) -> ProbeResult:
        has_started.set()
        assert may_run.wait(HANG_SECONDS)
        return probe_compile(*given)

    monkeypatch.setattr("structgen.serving.probes.probe_compile", waits)
    running = Running(model, ServerSettings(model_name=NAME, compilers=0, samplers=0))
    texts: list[str] = []

    def complete() -> None:
        with running.client() as own:
            answer = own.completions.create(
                model=NAME, prompt="Say a.", max_tokens=4, extra_body={"guided_regex": "a"}
            )
            texts.append(answer.choices[0].text)

    client = threading.Thread(target=complete)
    client.start()
    try:
        assert has_started.wait(HANG_SECONDS)
        assert json.loads(fetched(f"{running.url}/health"))["status"] == "ok"
        assert client.is_alive()
    finally:
        may_run.set()
        client.join(HANG_SECONDS)
        running.stop()
    assert texts == ["a"]


def test_compiling_does_not_count_as_waiting(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerSettings(
        model_name=NAME,
        compilers=1,
        samplers=0,
        request_seconds=HANG_SECONDS,
        limits=RequestLimits(whitespace="json.dumps", compile_seconds=HANG_SECONDS / 6),
    )
    running = Running(model, settings)
    try:
        compiler = running.service.compiler
        compiler.wait_until_ready()
        monkeypatch.setattr(running.service, "settings", replace(settings, queue_seconds=2.0))
        (worker,) = compiler.processes
        os.kill(worker.worker_pid, signal.SIGSTOP)
        answers: list[tuple[int, Any]] = []

        def started(regex: str) -> threading.Thread:
            thread = threading.Thread(
                target=lambda: answers.append(post(running, chat(guided_regex=regex, max_tokens=9)))
            )
            thread.start()
            return thread

        first = started("a{3}")
        until(lambda: any(job.waiting[0].started for job in list(compiler._in_flight.values())))
        started("b{3}").join(HANG_SECONDS)  # there is no worker for it
        ((status, body),) = answers
        assert status == 503 and body["error"]["code"] == "busy" and "waited 2 s" in body["error"]["message"]
        os.kill(worker.worker_pid, signal.SIGCONT)
        first.join(HANG_SECONDS)
        assert answers[1][0] == 200, answers
    finally:
        running.stop()
