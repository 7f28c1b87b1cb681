"""One real server over the embedded model for all tests of this folder, and clients for it."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
openai = pytest.importorskip("openai")

from structgen.server.settings import ServerSettings  # noqa: E402
from tests import memory  # noqa: E402
from tests.embedded import require_embedded_package, shallow_model  # noqa: E402
from tests.unhurried import HANG_SECONDS, stopped_processes, unhurried_processes  # noqa: E402

__all__ = ["stopped_processes", "unhurried_processes"]

require_embedded_package()

KEY = "sk-test-key"
NAME = "smol"


class Running:
    """A server in a thread of this process."""

    def __init__(self, model: Any, settings: ServerSettings) -> None:
        import uvicorn

        from structgen.server.service import Service
        from structgen.server.uvicorn_server import config_of

        self.service = Service(model, settings)
        self._door = socket.socket()
        self._door.bind(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = config_of(self.service)
        self.connections: Any = config.http.connections_of_server  # type: ignore[union-attr]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: self._server.run([self._door]), daemon=True)
        self._thread.start()
        until(lambda: self._server.started)

    def client(self, key: str = KEY, **options: Any) -> Any:
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=HANG_SECONDS, **options
        )

    def async_client(self) -> Any:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=HANG_SECONDS)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive()
        memory.forget_applications()


def fetched(url: str) -> str:
    """Return the body of the answer from `url`."""
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
        return text


def until(holds: Any, seconds: float = HANG_SECONDS) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.01)


@pytest.fixture(scope="package")
def model() -> Any:
    return shallow_model()


@pytest.fixture(scope="package")
def server(model: Any) -> Iterator[Running]:
    settings = ServerSettings(
        model_name=NAME,
        api_keys=("sk-other", KEY),
        max_rows=6,
        max_body=100_000,
        request_seconds=HANG_SECONDS,
    )
    running = Running(model, settings)
    yield running
    running.stop()


@pytest.fixture(scope="package")
def client(server: Running) -> Iterator[Any]:
    with server.client() as made:
        yield made
