"""An application that needs a key needs it wherever it is mounted, for all but `/health` and `/metrics`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")

from structgen.server.settings import ServerSettings

from .asgi import call
from .conftest import KEY, NAME, Running, fetched, until

CLOSED = [
    "/v1/models",
    f"/v1/models/{NAME}",
    "/v1/chat/completions",
    "/v1/completions",
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
    from structgen.server.app import make_app
    from structgen.server.service import Service

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


def test_a_server_that_stopped_is_released(model: Any) -> None:
    """Each server holds a vocabulary and a tokenizer of 10 MB, which a long-lived process must get back."""
    running = Running(model, ServerSettings(model_name=NAME, compilers=0, samplers=0))
    assert fetched(f"{running.url}/health")
    service = weakref.ref(running.service)
    running.stop()
    del running
    until(lambda: gc.collect() >= 0 and service() is None)
