"""The application: keys wherever it is mounted, limits, unknown paths, other origins, health and metrics."""

from __future__ import annotations

import gc
import json
import socket
import urllib.error
import urllib.request
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from structgen.errors import (
    OptionError,
)
from structgen.server.app import _client_of, make_app
from structgen.server.service import Service
from structgen.server.settings import ServerSettings

from .asgi import call
from .calls import MESSAGES, ask, chat, post
from .conftest import KEY, NAME, Running, fetched, until

CLOSED = [
    "/v1/models",
    f"/v1/models/{NAME}",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/responses/resp_1",
    "/v1",
    "/V1/models",
    "//v1/models",
    "/health/",
    "/health/x",
    "/healthz",
    "/metrics/x",
    "/",
    "/docs",
    "/openapi.json",
]


@pytest.fixture(scope="module")
def app(model: Any) -> Iterator[Any]:
    service = Service(model, ServerSettings(model_name=NAME, api_keys=(KEY,), compilers=0))
    service.start()
    yield make_app(service, owns=False)
    service.close()


def mounted(app: Any, how: str) -> Any:
    """Return a function that calls a path of the mounted application."""
    from fastapi import FastAPI
    from starlette.applications import Starlette
    from starlette.routing import Mount

    if how == "alone":
        return lambda path, **more: call(app, path, **more)
    if how == "under a root path":  # as uvicorn does with --root-path
        return lambda path, **more: call(app, "/api" + path, root="/api", **more)
    if how == "under a root path that the proxy strips":
        return lambda path, **more: call(app, path, root="/api", **more)
    if how == "under a prefix that is a path of its own":
        outer: Any = Starlette(routes=[Mount("/health", app)])
        return lambda path, **more: call(outer, "/health" + path, **more)
    if how == "in FastAPI":
        outer = FastAPI()
        outer.mount("/llm/v1", app)
        return lambda path, **more: call(outer, "/llm/v1" + path, **more)
    outer = Starlette(routes=[Mount("/llm", Starlette(routes=[Mount("/small", app)]))])
    return lambda path, **more: call(outer, "/llm/small" + path, root="", **more)


WAYS = [
    "alone",
    "under a root path",
    "under a root path that the proxy strips",
    "under a prefix that is a path of its own",
    "in FastAPI",
    "twice",
]


@pytest.mark.parametrize("how", WAYS)
def test_all_but_two_paths_need_the_key(app: Any, how: str) -> None:
    ask = mounted(app, how)
    for path in CLOSED:
        for method in ("GET", "POST"):
            for key in (None, "wrong", ""):
                status, body = ask(path, method=method, key=key)
                assert status == 401 and body["error"]["code"] == "invalid_api_key", (path, method, key)
            assert ask(path, method=method, key=KEY)[0] != 401
    status, body = ask("/v1/models", key=KEY)
    assert status == 200 and body["data"][0]["id"] == NAME
    status, body = ask("/health")
    assert status == 200 and body["status"] == "ok"
    status, page = ask("/metrics")
    assert status == 200 and b"structgen_requests" in page


def test_a_key_is_one_client_however_its_header_is_written() -> None:
    """Otherwise one key could take the turns of many clients."""
    from starlette.requests import Request

    app = SimpleNamespace(
        state=SimpleNamespace(service=SimpleNamespace(settings=ServerSettings(api_keys=("k",))))
    )

    def client(header: bytes) -> str:
        scope = {"type": "http", "app": app, "headers": [(b"authorization", header)], "client": ("::1", 5)}
        return _client_of(Request(scope))

    written = [b"Bearer k", b"bearer k", b"BEARER   k", b"Bearer k "]
    assert len({client(header) for header in written}) == 1
    assert client(b"Bearer k") != client(b"Bearer K") and "k" not in client(b"Bearer k")


def test_a_request_between_two_threads_when_the_server_ends_gets_503(model: Any) -> None:
    service = Service(model, ServerSettings(model_name=NAME, compilers=0))
    service.start()
    service.close()
    service.is_draining = False  # the request was taken before
    app = make_app(service, owns=False)
    body = json.dumps({"model": NAME, "prompt": [1, 2], "max_tokens": 2}).encode()
    for _ in range(2):
        status, shown = call(app, "/v1/completions", method="POST", body=body)
        assert (status, shown["error"]["code"]) == (503, "draining")
        service._prompts.run = _at_once  # type: ignore[method-assign]


async def _at_once(client: str, size: int, work: Any) -> Any:
    return [1, 2]


def test_a_server_that_stopped_is_released(model: Any) -> None:
    """Each server holds a vocabulary and a tokenizer of 10 MB, which a long-lived process must get back."""
    running = Running(model, ServerSettings(model_name=NAME, compilers=0, samplers=0))
    assert fetched(f"{running.url}/health")
    service = weakref.ref(running.service)
    running.stop()
    del running
    until(lambda: gc.collect() >= 0 and service() is None)


def test_metrics_and_health(server: Running, client: Any) -> None:
    ask(client, max_tokens=2)
    assert json.loads(fetched(f"{server.url}/health"))["status"] == "ok"
    page = fetched(f"{server.url}/metrics")
    assert 'structgen_requests_total{endpoint="/v1/chat/completions",status="200"}' in page
    assert "structgen_token_gap_seconds_bucket" in page and "structgen_compile_seconds_bucket" in page
    assert KEY not in page


def test_models(client: Any) -> None:
    assert [one.id for one in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "structgen"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_the_official_client_raises_its_own_errors(server: Running, client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="not supported"):
        client.chat.completions.create(model=NAME, messages=MESSAGES, service_tier="flex")
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
        client.chat.completions.create(model="gpt", messages=MESSAGES)
    for key in ("wrong", KEY[:-1], KEY + "x", "é"):
        status, body = post(server, chat(), key=key.encode("utf-8").decode("latin-1"))
        assert status == 401 and body["error"]["code"] == "invalid_api_key"
    with server.client("sk-other") as other:
        assert other.models.list()
    with pytest.raises(openai.AuthenticationError), server.client("no") as stranger:
        stranger.models.list()


def test_every_form_of_a_key_is_the_same_client(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    submit = server.service.submit

    def noted(request: Any, prompt: Any, constraint: Any, client: Any) -> Any:
        seen.add(client.name)
        return submit(request, prompt, constraint, client)

    monkeypatch.setattr(server.service, "submit", noted)
    for form in (f"Bearer {KEY}", f"bearer {KEY}", f"BEARER   {KEY} "):
        request = urllib.request.Request(
            f"{server.url}/v1/chat/completions",
            json.dumps(chat()).encode(),
            {"Content-Type": "application/json", "Authorization": form},
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
    (name,) = seen
    assert KEY not in name
    assert post(server, chat(), key="sk-other")[0] == 200 and len(seen) == 2


def test_a_client_that_disconnects_in_the_middle_of_a_request_is_not_an_error(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 500\r\n"

    def counted(status: int) -> list[str]:
        return [
            line for line in fetched(f"{server.url}/metrics").splitlines() if f'status="{status}"' in line
        ]

    hung_up, failed = counted(499), counted(500)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f'{head}\r\n{{"model": '.encode())
    until(lambda: counted(499) != hung_up)
    assert counted(500) == failed and not caplog.records


def test_limits_on_size(server: Running) -> None:
    status, body = post(server, chat(messages=[{"role": "user", "content": "x" * 120_000}]))
    assert status == 413 and body["error"]["code"] == "body_too_large"
    with socket.create_connection(("127.0.0.1", server.port)) as door:
        door.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
            + KEY.encode()
            + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 4
        )
        assert b" 413 " in door.recv(4096).splitlines()[0]
    status, body = post(server, chat(messages=[{"role": "user", "content": "a b " * 9000}]))
    assert status == 400 and body["error"]["code"] == "context_length_exceeded"


def test_unknown_paths(server: Running) -> None:
    status, body = post(server, {}, "/v1/embeddings")
    assert status == 404 and body["error"]["type"] == "not_found_error"
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions", headers={"Authorization": f"Bearer {KEY}"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value:
        assert caught.value.code == 405


def test_web_pages_of_other_origins(model: Any) -> None:
    settings = ServerSettings(
        model_name="smol", api_keys=(KEY,), cors_origins=("https://app.example",), compilers=0, samplers=0
    )
    running = Running(model, settings)

    def reply(origin: str, method: str, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"{running.url}/v1/chat/completions",
            b"{}" if method == "POST" else None,
            {"Origin": origin, **headers},
            method=method,
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers

    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    try:
        status, found = reply("https://app.example", "OPTIONS", **asked)
        assert status == 200 and found["Access-Control-Allow-Origin"] == "https://app.example"
        assert "authorization" in found["Access-Control-Allow-Headers"].lower()
        status, found = reply("https://app.example", "POST")  # refused, and the page may see why
        assert status == 401 and found["Access-Control-Allow-Origin"] == "https://app.example"
        status, found = reply("https://evil.example", "OPTIONS", **asked)
        assert status == 400 and found["Access-Control-Allow-Origin"] is None
    finally:
        running.stop()
    for origin in ("app.example", "https://app.example/path", ""):
        with pytest.raises(OptionError, match="not an origin"):
            ServerSettings(cors_origins=(origin,))
