"""Each response has a request id. Each failure of the server is in the log with that id, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from structgen.errors import ModelError
from structgen.server.request_ids import RequestIds, request_id
from structgen.server.settings import ServerSettings
from tests.unhurried import HANG_SECONDS

from .calls import chat
from .conftest import KEY, NAME, Running, until

SECRET = "the harbour code is 7315"


def sent(
    server: Running, path: str, body: Any = None, key: str = KEY, **headers: str
) -> tuple[int, str | None, str]:
    """The status, the request id of the header, and the body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Authorization": f"Bearer {key}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return answer.status, answer.headers["x-request-id"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["x-request-id"], error.read().decode()


@pytest.fixture
def fragile(model: Any) -> Iterator[Running]:
    settings = ServerSettings(
        model_name=NAME, api_keys=(KEY,), compilers=0, samplers=0, request_seconds=HANG_SECONDS
    )
    running = Running(model, settings)
    yield running
    running.stop()


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/nowhere"])
def test_every_response_has_an_id_of_its_own(server: Running, path: str) -> None:
    first, second = sent(server, path)[1], sent(server, path)[1]
    assert first and second and first != second
    assert re.fullmatch(r"req-[0-9a-f]{16}", first)


@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_errors_have_the_id_in_their_body(server: Running, key: str) -> None:
    status, identity, body = sent(server, "/v1/chat/completions", chat(model="another"), key)
    assert status == (404 if key == KEY else 401)
    assert json.loads(body)["error"]["request_id"] == identity


@pytest.mark.parametrize("given", ["a", "0b1f-22:x/y+z=", "A" * 64])
def test_the_id_of_a_client_is_used(server: Running, given: str) -> None:
    assert sent(server, "/v1/models", **{"X-Request-Id": given})[1] == given


@pytest.mark.parametrize("given", ["", " ", "a b", "A" * 65, "-x", "a\x7f", "ü", "a;b", '"a"'])
def test_other_ids_are_replaced(server: Running, given: str) -> None:
    identity = sent(server, "/v1/models", **{"X-Request-Id": given})[1]
    assert identity is not None and re.fullmatch(r"req-[0-9a-f]{16}", identity)


def test_an_id_that_is_sent_twice_is_replaced() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(request_id())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    async def send(message: Any) -> None:
        seen.append(message["headers"])

    scope = {"type": "http", "headers": [(b"x-request-id", b"a"), (b"x-request-id", b"b")]}
    asyncio.run(RequestIds(app)(scope, None, send))
    assert seen[0].startswith("req-") and seen[1] == [(b"a", b"b"), (b"x-request-id", seen[0].encode())]
    assert request_id() is None


@pytest.mark.parametrize("stream", [False, True])
def test_the_failure_of_a_model_is_in_the_log_with_the_id_of_the_client(
    fragile: Running, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no memory left")

    fragile.service.model_thread.batch._model = type("Broken", (), {"start": fails})()
    body = chat(messages=[{"role": "user", "content": SECRET}], stream=stream)
    with caplog.at_level(logging.WARNING):
        status, identity, text = sent(fragile, "/v1/chat/completions", body, **{"X-Request-Id": "mine-1"})
    assert identity == "mine-1"
    if stream:
        events = [line.removeprefix("data: ") for line in text.splitlines() if line]
        assert status == 200 and "[DONE]" not in events
        text = events[-1]
    else:
        assert status == 500
    assert json.loads(text)["error"]["request_id"] == "mine-1"
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert any(
        line.startswith("request mine-1: status 500") and "no memory left" in line for line in lines
    ), lines
    assert SECRET not in caplog.text and KEY not in caplog.text


def test_an_unexpected_exception_is_in_the_log_with_its_traceback(
    fragile: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(fragile.service, "read", fails)
    status, identity, text = sent(fragile, "/v1/completions", {"model": NAME, "prompt": SECRET})
    assert status == 500 and json.loads(text)["error"]["request_id"] == identity
    assert f"request {identity}: status 500" in caplog.text and "ZeroDivisionError" in caplog.text
    assert SECRET not in caplog.text and KEY not in caplog.text


def test_a_request_that_takes_too_long_and_one_while_draining(
    fragile: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    service = fragile.service
    monkeypatch.setattr(service, "settings", replace(service.settings, request_seconds=0.2))
    messages = [{"role": "user", "content": SECRET}]
    long = chat(messages=messages, max_tokens=3000, guided_regex="[a-z ]{12000}")
    status, late, text = sent(fragile, "/v1/chat/completions", long)
    assert status == 504 and json.loads(text)["error"]["request_id"] == late
    until(lambda: service.open == 0 and service.model_thread.batch.is_idle)
    service.is_draining = True
    status, drained, _ = sent(fragile, "/v1/chat/completions", chat())
    assert status == 503
    status, sick, text = sent(fragile, "/health")
    assert status == 503 and json.loads(text)["request_id"] == sick
    for identity, code in (
        (late, "504 timeout"),
        (drained, "503 draining"),
        (sick, "503: /health: draining"),
    ):
        assert f"request {identity}: status {code}" in caplog.text
    levels = {record.levelno for record in caplog.records if record.name.startswith("structgen")}
    assert levels == {logging.WARNING}
    assert SECRET not in caplog.text and KEY not in caplog.text


def test_an_answer_that_cannot_be_read_is_not_quoted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    from structgen.errors import GenerationError, OutputInvalid
    from structgen.server.answers import unreadable_turn
    from structgen.server.errors import failed

    quoting = OutputInvalid(f"no JSON: {SECRET}", text=SECRET)
    for error in (unreadable_turn(quoting), failed(quoting)):
        assert error.status == 500 and SECRET in error.body["error"]["message"]
        error.report()
    failed(ModelError("the model failed: plainly")).report()
    failed(GenerationError("the batch failed: plainly")).report()
    assert caplog.text.count("status 500") == 4 and caplog.text.count("plainly") == 2
    assert SECRET not in caplog.text
